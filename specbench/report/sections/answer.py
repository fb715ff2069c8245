"""What to do, how sure that is and from what; then the same for each setting, and what to type."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.pooling import Setting
from specbench.analysis.recommending import Decision, DrafterAnswer
from specbench.analysis.recommending.choice import UNDECIDED_NOTE
from specbench.analysis.recommending.engine_lines import typed
from specbench.analysis.shown.formats import MISSING, SYNTHETIC_NOTE, number, share, with_interval
from specbench.analysis.shown.names import counted, gamma_label, with_gamma
from specbench.errors import SpecbenchError
from specbench.records.conversations import FEW_PROMPTS
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import (
    LONG,
    Answer,
    Bullet,
    Bullets,
    Commands,
    Field,
    Folded,
    Paragraph,
    Part,
    Rows,
    Table,
)

TITLE, ORDER = "Answer", 0
FIGURES: tuple[str, ...] = ()

_NAMED = 3  # more answers or settings than these are counted and left to the table
_COLUMNS = ("setting", "use", "γ", "expected (95%)", "best", "loss")
_ONLY_SYNTHETIC = "Nothing is recommended: all drafters of this run are synthetic."
_GIVEN = ("drafter", "setting", "c", "γ", "expected (95%)")
_NOTES = (
    "expected: speedup over plain decoding, fitted over all γ; best: how often nothing else is "
    "more than 1% faster if conversations are drawn anew; loss: what one stands to lose against "
    "the best, on average",
)


def section(material: Material) -> Sequence[Part]:
    """Two sentences, then the decisions behind them."""
    try:
        answer = material.answer
    except SpecbenchError as problem:
        hint = f"{problem.hint}." if problem.hint else ""
        return [Answer(f"No answer: {problem.message}.", hint)]
    decisions, given = answer.of_real_drafters.decisions, _given(answer.groups, material)
    if not decisions:
        return [
            Answer(_ONLY_SYNTHETIC, "Their α was set, so the best γ is that at a given α."),
            *given,
        ]
    commands = _commands(decisions)
    parts: list[Part] = [
        Answer(_act(decisions, material), _basis(decisions, material)),
        _table(decisions, material),
        *_reasons(decisions, material),
        *given,
    ]
    if commands:
        parts += [Paragraph("What to type after specbench run:", "note"), Commands(commands)]
    return parts


def _act(decisions: Sequence[Decision], material: Material) -> str:
    """What to do, in one sentence."""
    everything = [one.setting for one in decisions]
    against = [one.setting for one in decisions if not one.choice.gamma and one.choice.decided]
    undecided = [one.setting for one in decisions if not one.choice.decided]
    uses: dict[str, list[Setting]] = {}
    for one in decisions:
        if (group := one.choice.group) is not None:
            name = material.names[group.key.drafter]
            use = f"use {with_gamma(name, group.draft_form, one.choice.gamma)}"
            uses.setdefault(use, []).append(one.setting)
    if not uses:
        if not against:
            where = _where(everything, "in any of the")
            return f"Do not speculate yet {where}: undecided, for too little was measured."
        return f"Do not speculate {_where(everything, 'in any of the')}: no gain is shown."
    if len(uses) == 1 and not against and not undecided:
        return _sentence(f"{next(iter(uses))} {_where(everything, 'in all')}")
    told = [f"{use} for {_named(where, everything)}" for use, where in uses.items()]
    if len(uses) > _NAMED:
        count = sum(map(len, uses.values()))
        told = [f"speculate in {counted(count, 'setting')}, as the table says for each"]
    if against:
        told.append(f"do not speculate for {_named(against, everything)}")
    if undecided:
        told.append(f"do not speculate yet for {_named(undecided, everything)} (undecided)")
    return _sentence(_listed(told))


def _basis(decisions: Sequence[Decision], material: Material) -> str:
    """How sure, from what, in one sentence."""
    chosen = [one for one in decisions if one.choice.candidate is not None]
    shown = [one.choice.candidate or one.choice.closest for one in decisions]
    said = _expected(chosen) if chosen else _closest(decisions)
    counts = [one.group.num_prompts for one in shown if one is not None and one.group.num_prompts]
    if counts:
        few, most = min(counts), max(counts)
        span = counted(most, "prompt") if few == most else f"{few} to {most} prompts"
        over = f"over {span}{' a setting' if len(decisions) > 1 else ''}"
        said += f", {over}" if chosen else f"; measured {over}"
    if material.machine:
        said += f", on {material.machine}"
    if any(one.provisional for one in decisions):
        said += "; provisional for want of a noise floor, as only one baseline finished"
    if counts and min(counts) < FEW_PROMPTS:
        said += f"; fewer than {FEW_PROMPTS} prompts are a first impression, no proof"
    return _sentence(said)


def _expected(chosen: Sequence[Decision]) -> str:
    """The chosen speedups and how often they are the best."""
    speedups = [one.choice.speedup for one in chosen]
    chances = [one.sureness.near_best for one in chosen if one.sureness is not None]
    candidate = chosen[0].choice.candidate
    if len(chosen) == 1 and candidate is not None:
        value, _, ends = with_interval(candidate.speedup, candidate.ci).partition(" ")
        said = f"that is {value} times as fast as plain decoding (95% interval {ends})"
    else:
        said = (
            f"that is {min(speedups):.2f} to {max(speedups):.2f} times as fast as plain decoding, "
            "a gain in each of them by bounds that hold together"
        )
    if not chances:
        return said
    span = "–".join(dict.fromkeys(f"{chance:.0%}" for chance in (min(chances), max(chances))))
    return f"{said}, and the best or within 1% of it in {span} of resamples"


def _closest(decisions: Sequence[Decision]) -> str:
    """What came nearest to a gain, and what speaks against it."""
    known = [one for one in decisions if one.choice.closest is not None]
    if not known:
        return _said(decisions[0])
    best = max(known, key=lambda one: one.choice.closest.speedup if one.choice.closest else 0.0)
    where = f" ({best.setting})" if len(decisions) > 1 else ""
    return f"closest to a gain is {_said(best)}{where}"


def _said(decision: Decision) -> str:
    """What speaks against the closest candidate, and what would show its gain."""
    return "; ".join(filter(None, (decision.choice.against, decision.choice.wanting)))


def _where(settings: Sequence[Setting], all_of: str) -> str:
    if len(settings) == 1:
        return f"({settings[0]})"
    return f"{all_of} {len(settings)} settings measured"


def _named(settings: Sequence[Setting], among: Sequence[Setting]) -> str:
    if len(settings) > _NAMED:
        return f"{len(settings)} of {len(among)} settings"
    return _listed(fields.places(settings, among))


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _commands(decisions: Sequence[Decision]) -> list[str]:
    """What to type, each line once, with the settings that it is for."""
    everything = [one.setting for one in decisions]
    uses: dict[str, list[Setting]] = {}
    for one in decisions:
        if (options := typed(one)) is not None:
            uses.setdefault(options, []).append(one.setting)
    return [
        f"{options}  # {', '.join(fields.places(settings, everything))}"
        for options, settings in uses.items()
    ]


def _table(decisions: Sequence[Decision], material: Material) -> Table:
    places = fields.places([one.setting for one in decisions], material.settings)
    rows = [_row(one, place, material) for one, place in zip(decisions, places, strict=True)]
    notes = list(_NOTES)
    if not all(one.choice.decided for one in decisions):
        notes.append(UNDECIDED_NOTE)
    return Table("What to use", _COLUMNS, [Rows(rows)], frozenset({"use"}), notes)


def _reasons(decisions: Sequence[Decision], material: Material) -> list[Part]:
    """What speaks against the closest candidate of each setting without a recommendation."""
    against = [one for one in decisions if not one.choice.gamma]
    places = fields.places([one.setting for one in against], material.settings)
    points = Bullets(
        [Bullet(f"{place}: {_said(one)}") for place, one in zip(places, against, strict=True)]
    )
    if len(against) > LONG:
        return [Folded("Why not", [points])]
    return [Paragraph("Why not:", "note"), points] if against else []


def _given(groups: Sequence[DrafterAnswer], material: Material) -> list[Table]:
    """The best gamma of each synthetic drafter; no table where there are none."""
    rows: list[list[Field]] = []
    for group in groups:
        choice = group.at_given_alpha
        if choice is not None:
            fit, candidate = group.fit, choice.candidate
            speedup = fields.measured(choice.speedup, candidate.ci if candidate else None)
            name, setting = material.names[fit.key.drafter], str(fit.key.setting)
            rows.append([name, setting, number(fit.c, 3), str(choice.gamma), speedup])
    title, texts = "If α were as it was set: the best γ", frozenset({"setting"})
    return [Table(title, _GIVEN, [Rows(rows)], texts, [SYNTHETIC_NOTE])] if rows else []


def _row(one: Decision, place: str, material: Material) -> list[Field]:
    candidate, group, sure = one.choice.candidate, one.choice.group, one.sureness
    chances = [share(sure.near_best), share(sure.loss, 1)] if sure else [MISSING, MISSING]
    if candidate is None or group is None:
        return [place, one.choice.plainly, "0", "1.00", *chances]
    return [
        place,
        material.names[group.key.drafter],
        gamma_label(group.draft_form, one.choice.gamma),
        fields.measured(candidate.speedup, candidate.ci),
        *chances,
    ]
