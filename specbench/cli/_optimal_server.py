"""What ``specbench optimal-gamma RUN`` tells who runs a server: policy, lengths, memory, lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from specbench.analysis.recommending.output_length import whole_tokens
from specbench.analysis.shown.names import task_title
from specbench.cli._output import beside_label, number, print_table, printable, wrapped

if TYPE_CHECKING:
    from specbench.analysis.machine.memory import Memory
    from specbench.analysis.recommending import Answer, Decision, Schedule
    from specbench.analysis.recommending.engine_lines import Line

_SCHEDULE = ("task", "T", "batch sizes", "use", "γ", "expected")
_LENGTHS = ("task", "T", "B", "start ms", "saved ms/token", "pays from tokens (95%)")
_LABEL_WIDTH = 26
_COMMAND_WIDTH = 73  # with the indent and a backslash 80 columns at most

Names = Mapping[str, str]


def print_server(answer: Answer, names: Names) -> None:
    """Print the policy over batch sizes, output lengths, memory, and lines for other engines."""
    several = len({schedule.load.backend for schedule in answer.schedules}) > 1
    if any(schedule.last > 1 for schedule in answer.schedules):
        rows = [
            row for schedule in answer.schedules for row in _schedule_rows(schedule, names, several)
        ]
        print_table("One policy for a load that varies", _SCHEDULE, rows, texts=4)
        print("expected: at the largest measured batch size of the range")
        print()
        _print_crossovers(answer, names)
    lengths = [_length_row(one, several) for one in answer.decisions if one.break_even is not None]
    if lengths:
        print_table("How long an answer must be", _LENGTHS, lengths, texts=1)
    _print_memory(answer, names)
    _print_lines(answer)


def _schedule_rows(schedule: Schedule, names: Names, several: bool) -> list[list[str]]:
    """A row per range of batch sizes, with the engine where there are several."""
    load, rows = schedule.load, []
    head = [task_title(load.task, load.backend, several), f"{load.temperature:g}"]
    for part in schedule.ranges:
        choice = schedule.choice(part)
        use = names[schedule.drafter] if part.gamma else schedule.against(part)
        numbers = [str(part.gamma), number(choice.speedup if choice else None)]
        sizes = str(part.first) if part.first == part.last else f"{part.first}–{part.last}"
        sizes += f"@{load.context_length}" if load.context_length is not None else ""
        for name, *rest in beside_label(use, [numbers], _LABEL_WIDTH):
            rows.append([*head, sizes, name, *rest])
            head, sizes = ["", ""], ""
    return rows


def _print_crossovers(answer: Answer, names: Names) -> None:
    found = [one for one in answer.schedules if one.crossover is not None]
    if not found:
        return
    print("Batch size from which speculation stops paying (interpolated on log scales)")
    for schedule in found:
        assert schedule.crossover is not None
        where = f"{schedule.load}, {names[schedule.drafter]}"
        print(wrapped(f"{where}: {schedule.crossover.sentence}"))
    print()


def _length_row(decision: Decision, several: bool) -> list[str]:
    found, setting = decision.break_even, decision.setting
    assert found is not None
    tokens = whole_tokens(found.tokens)
    if found.ci is not None:
        tokens += f" {whole_tokens(found.ci[0])}–{whole_tokens(found.ci[1])}"
    return [
        task_title(setting.task, setting.backend, several),
        f"{setting.temperature:g}",
        setting.load,
        number(1e3 * found.extra_s, 1),
        number(1e3 * found.saved_s),
        tokens,
    ]


def _print_memory(answer: Answer, names: Names) -> None:
    """What a drafter's memory costs, each drafter once, with the longest sequences of the run."""
    longest: dict[str, Memory] = {}
    for group in answer.groups:
        name, memory = names[group.fit.key.drafter], group.fit.memory
        if memory is None or group.fit.synthetic:
            continue
        if name not in longest or (memory.context or 0.0) > (longest[name].context or 0.0):
            longest[name] = memory
    if longest:
        print("What fits beside the weights (activations not counted): sequences as long as")
        print("prompt and answer of the longest task are on average")
        for name, memory in longest.items():
            print(wrapped(f"{name}: {_memory(memory)}"))
        print()


def _memory(memory: Memory) -> str:
    without, beside = memory.sequences_without, memory.sequences_with
    missing = ", ".join(memory.missing)
    if without is None or beside is None:
        return f"not measured: {missing}"
    at_most = "at most " if memory.missing else ""
    each = f"sequences of {memory.context:.0f} tokens: {without:,} without the drafter"
    text = f"{each}, {at_most}{beside:,}"
    lost = f" with it ({beside / without - 1.0:+.1%})" if without else " with it"
    return text + lost + (f"; not measured: {missing}" if missing else "")


def _print_lines(answer: Answer) -> None:
    """Each engine's line once, with the loads that it is for."""
    loads: dict[tuple[Line, ...], list[str]] = {}
    for schedule, lines in zip(answer.schedules, answer.serving, strict=True):
        if lines:
            loads.setdefault(lines, []).append(str(schedule.load))
    for lines, where in loads.items():
        print(wrapped(f"Other engines: {'; '.join(where)}", "", "  "))
        for line in lines:
            if not line.text:
                print(wrapped(f"{line.engine}: not possible, {line.notes[0]}"))
            else:
                print(f"  {line.engine}")
                print(_command(printable(line.text)))
                for note in line.notes:
                    print(wrapped(f"({note})", "    "))
        print()


def _command(text: str) -> str:
    """A command over several lines, as a shell or Python takes it.

    Broken before an option and after a comma, never within a name. Within quotes or brackets a line
    end needs nothing, elsewhere a backslash.
    """
    lines, open_quote = [""], False
    for word in re.split(r" (?=--)|(?<=,) ", text):
        if lines[-1] and len(lines[-1]) + len(word) > _COMMAND_WIDTH:
            lines[-1] += "" if open_quote or lines[0].startswith("model.") else " \\"
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
        open_quote ^= word.count("'") % 2 == 1
    return textwrap.indent("\n".join(lines), "    ")
