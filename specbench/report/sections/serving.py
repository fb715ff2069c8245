"""For who runs a server: a policy over batch sizes, answer lengths, memory, other engines."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.fitted import GroupFit
from specbench.analysis.recommending import Answer, Decision, Schedule
from specbench.analysis.recommending.engine_lines import Line
from specbench.analysis.recommending.output_length import whole_tokens
from specbench.analysis.shown.formats import MISSING, milliseconds, number
from specbench.errors import SpecbenchError
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Bullet, Bullets, Commands, Field, Folded, Part, Rows, Table

TITLE, ORDER = "In a server", 25
FIGURES = ("batch-crossover",)

_POLICY = ("load", "batch sizes", "use", "γ", "expected")
_POLICY_NOTES = (
    "one drafter for each load; between two measured batch sizes stands the smaller γ of the two, "
    "and nothing is said beyond the largest",
)
_LENGTHS = ("setting", "later start ms", "saved ms per token", "pays from tokens", "95%")
_LENGTHS_NOTES = (
    "an answer that is shorter is slower with the drafter, which reads the prompt too",
)
_MEMORY = ("drafter", "tokens each", "without it", "with it", "not known")
_MEMORY_NOTES = (
    "sequences that fit beside the weights, each with prompt and answer as long as the longest "
    "task's are on average; activations are not counted",
)


def section(material: Material) -> Sequence[Part]:
    """Nothing where the run has no answer."""
    try:
        answer = material.answer.of_real_drafters
    except SpecbenchError:
        return []
    parts: list[Part] = []
    if any(schedule.last > 1 for schedule in answer.schedules):
        rows = [row for schedule in answer.schedules for row in _ranges(schedule, material)]
        caption, texts = "One policy for a load that varies", frozenset({"batch sizes", "use"})
        parts.append(Table(caption, _POLICY, [Rows(rows)], texts, _POLICY_NOTES))
        parts.append(Bullets(_crossovers(answer, material)))
    parts += material.pictures(FIGURES)
    lengths = [_length(one, material) for one in answer.decisions if one.break_even is not None]
    if lengths:
        caption = "How long an answer must be"
        parts.append(Table(caption, _LENGTHS, [Rows(lengths)], notes=_LENGTHS_NOTES))
    memory = _memory(material)
    if memory:
        texts = frozenset({"not known"})
        parts.append(Table("Memory", _MEMORY, [Rows(memory)], texts, _MEMORY_NOTES))
    return [*parts, *_engines(answer)]


def _ranges(schedule: Schedule, material: Material) -> list[list[Field]]:
    rows: list[list[Field]] = []
    for part in schedule.ranges:
        choice = schedule.choice(part)
        rows.append(
            [
                str(schedule.load),
                str(part.first) if part.first == part.last else f"{part.first}–{part.last}",
                material.names[schedule.drafter] if part.gamma else schedule.against(part),
                str(part.gamma),
                number(choice.speedup if choice else None),
            ]
        )
    return rows


def _crossovers(answer: Answer, material: Material) -> list[Bullet]:
    return [
        Bullet(
            f"{schedule.load}, {material.names[schedule.drafter]}: the batch size from which it "
            f"stops paying is {schedule.crossover.sentence}."
        )
        for schedule in answer.schedules
        if schedule.crossover is not None
    ]


def _length(one: Decision, material: Material) -> list[Field]:
    found = one.break_even
    assert found is not None
    (place,) = fields.places([one.setting], material.settings)
    ends = "–".join(map(whole_tokens, found.ci)) if found.ci else MISSING
    times = milliseconds(found.extra_s), milliseconds(found.saved_s)
    return [place, *times, whole_tokens(found.tokens), ends]


def _memory(material: Material) -> list[list[Field]]:
    """Each drafter once, with the longest sequences of the run."""
    longest: dict[str, GroupFit] = {}
    for group in material.groups:
        if group.memory is None or group.synthetic or group.memory.context is None:
            continue
        known = longest.get(group.key.drafter)
        if known is None or group.memory.context > ((known.memory and known.memory.context) or 0.0):
            longest[group.key.drafter] = group
    rows: list[list[Field]] = []
    for drafter, group in longest.items():
        memory = group.memory
        assert memory is not None
        without, beside = memory.sequences_without, memory.sequences_with
        rows.append(
            [
                material.names[drafter],
                number(memory.context, 0),
                MISSING if without is None else f"{without:,}",
                MISSING if beside is None else f"{'≤ ' if memory.missing else ''}{beside:,}",
                ", ".join(memory.missing) or MISSING,
            ]
        )
    return rows


def _engines(answer: Answer) -> list[Part]:
    """Each engine's line once, with the loads that it is for, folded."""
    loads: dict[tuple[Line, ...], list[str]] = {}
    for schedule, lines in zip(answer.schedules, answer.serving, strict=True):
        if lines:
            loads.setdefault(lines, []).append(str(schedule.load))
    return [
        Folded(
            f"Lines for other engines: {'; '.join(where)}",
            [part for line in lines for part in _line(line)],
        )
        for lines, where in loads.items()
    ]


def _line(line: Line) -> list[Part]:
    if not line.text:
        return [Bullets([Bullet(f"{line.engine}: not possible, {line.notes[0]}")])]
    notes = [Bullet(note, "note") for note in line.notes]
    return [Bullets([Bullet(f"{line.engine}:")]), Commands([line.text]), Bullets(notes)]
