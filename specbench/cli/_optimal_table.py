"""The tables of ``specbench optimal-gamma RUN``: what to do and type, why not, and the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from specbench.analysis.recommending.candidates import diverged
from specbench.analysis.recommending.choice import UNDECIDED_NOTE
from specbench.analysis.recommending.engine_lines import typed
from specbench.analysis.shown.formats import share
from specbench.analysis.shown.names import gamma_label, printable, short_names, task_title
from specbench.cli._given_alpha_table import print_given_alphas
from specbench.cli._optimal_server import print_server
from specbench.cli._output import (
    SYNTHETIC_NOTE,
    beside_label,
    number,
    print_context_note,
    print_table,
    with_interval,
    wrapped,
)
from specbench.records.schema import DIVERGED

if TYPE_CHECKING:
    from specbench.analysis.recommending import Answer, CurvePoint, Decision, DrafterAnswer

_POLICY = ("task", "T", "B", "use", "γ", "expected (95%)", "best", "loss")
_TEXTS = 4
_LABEL_WIDTH = 18
_CURVE_WIDTH = 20
_DIVERGED_MARK = "!"
_MOST_COLUMNS = 8  # gammas on one line of 80 columns

Names = Mapping[str, str]


def print_answer(answer: Answer) -> None:
    """Print what to use, what to type, why not, the policy for a server, and the curves."""
    names = short_names(group.fit.key.drafter for group in answer.groups)
    real = answer.of_real_drafters
    if real.decisions:
        _print_policy(real, names)
    print_given_alphas(answer, names)
    _print_options(real)
    _print_reasons(real)
    _print_acceptance(real, names)
    print_server(real, names)
    for setting in dict.fromkeys(group.fit.key.setting for group in answer.groups):
        groups = [group for group in answer.groups if group.fit.key.setting == setting]
        chosen = {one.choice.gamma for one in answer.decisions if one.setting == setting}
        _print_curves(f"{setting}: expected speedup by γ", groups, names, chosen)
    print("* measured, the others interpolated · T temperature · B batch size")
    if any(
        diverged(point.candidate)
        for group in answer.groups
        for point in group.curve
        if point.candidate is not None
    ):
        print(f"{_DIVERGED_MARK} {DIVERGED} from plain decoding: the speedup means nothing")
    print_context_note(group.fit.key.setting.context_length for group in answer.groups)
    forms = {group.fit.draft_form for group in answer.groups}
    if forms & {"tree", "adaptive"}:
        print("trees and gamma=auto: only what was measured; γ is levels, or the longest draft")
    if any(group.fit.synthetic for group in answer.groups):
        print(SYNTHETIC_NOTE)


def _print_policy(answer: Answer, names: Names) -> None:
    engines = dict.fromkeys(decision.setting.backend for decision in answer.decisions)
    for engine in engines:
        here = [decision for decision in answer.decisions if decision.setting.backend == engine]
        rows = [row for decision in here for row in _policy_rows(decision, names)]
        title = task_title("What to use", engine, several=len(engines) > 1)
        print_table(title, _POLICY, rows, texts=_TEXTS)
    print("best: how often nothing else is more than 1% faster if conversations are drawn")
    print("anew · loss: what one stands to lose against the best, on average")
    if not all(decision.choice.decided for decision in answer.decisions):
        print(UNDECIDED_NOTE)
    provisional = [str(decision.setting) for decision in answer.decisions if decision.provisional]
    if provisional:
        print(wrapped(f"provisional, for want of a noise floor: {'; '.join(provisional)}", ""))
    print()


def _policy_rows(decision: Decision, names: Names) -> list[list[str]]:
    choice, setting, sure = decision.choice, decision.setting, decision.sureness
    candidate, group = choice.candidate, choice.group
    numbers = [
        gamma_label(group.draft_form if group else "chain", choice.gamma),
        with_interval(choice.speedup, candidate.ci if candidate else None),
        share(sure.near_best if sure else None),
        share(sure.loss if sure else None, 1),
    ]
    use = names[decision.drafter] if choice.gamma else choice.plainly
    head = [setting.task, number(setting.temperature, 1).removesuffix(".0")]
    head.append(setting.load)
    rows = []
    for name, *rest in beside_label(use, [numbers], _LABEL_WIDTH):
        rows.append([*head, name, *rest])
        head = [""] * len(head)
    return rows


def _print_options(answer: Answer) -> None:
    """What to type, each line once, with the settings that it is for."""
    settings: dict[str, list[str]] = {}
    for decision in answer.decisions:
        if (options := typed(decision)) is not None:
            settings.setdefault(options, []).append(str(decision.setting))
    if settings:
        print("What to type after specbench run")
        for options, where in settings.items():
            print(printable(f"  {options}"))
            print(wrapped("; ".join(where), indent="    "))
        print()


def _print_reasons(answer: Answer) -> None:
    against = [decision for decision in answer.decisions if not decision.choice.gamma]
    if against:
        print("Why not")
        for decision in against:
            said = "; ".join(filter(None, (decision.choice.against, decision.choice.wanting)))
            print(wrapped(f"{decision.setting}: {said}"))
        print()


def _print_acceptance(answer: Answer, names: Names) -> None:
    """Where i.i.d. is rejected, the model that the answer comes from."""
    lines = []
    for decision in answer.decisions:
        shown = decision.choice.candidate or decision.choice.closest
        found = shown.group.acceptance if shown else None
        if shown and found and found.rejected:
            where = f"{names[shown.group.key.drafter]} ({decision.setting})"
            lines.append(f"{where}: {found.sentence}")
    if lines:
        print("Acceptance model")
        print("\n".join(wrapped(line) for line in lines))
        print()


def _print_curves(title: str, groups: list[DrafterAnswer], names: Names, chosen: set[int]) -> None:
    measured = {point.gamma for group in groups for point in group.fit.points}
    answered = {point.gamma for group in groups for point in group.curve if point.candidate}
    reach = sorted(answered)
    shown = measured | chosen | {group.best.gamma for group in groups}
    gammas = reach if len(reach) <= _MOST_COLUMNS else [g for g in reach if g in shown]
    for start in range(0, len(gammas), _MOST_COLUMNS):
        part = gammas[start : start + _MOST_COLUMNS]
        rows: list[list[str]] = []
        for group in groups:
            label = names[group.fit.key.drafter]
            rows += beside_label(label, [_expected(group, part)], _CURVE_WIDTH)
        print_table(title, ("drafter", *map(str, part)), rows)


def _expected(group: DrafterAnswer, gammas: Iterable[int]) -> list[str]:
    points = {point.gamma: point for point in group.curve if point.candidate}

    def mark(point: CurvePoint) -> str:
        if point.candidate is not None and diverged(point.candidate):
            return _DIVERGED_MARK
        return "*" if point.source == "measured" else " "

    return [
        f"{points[gamma].speedup:.2f}{mark(points[gamma])}" if gamma in points else "- "
        for gamma in gammas
    ]
