"""The tables of ``specbench optimal-gamma RUN``: what to do, why not, and the curves behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specbench.cli._output import SYNTHETIC_NOTE, beside_label, number, print_table, with_interval

if TYPE_CHECKING:
    from specbench.analysis.optimal import Answer, DrafterAnswer, Policy

_POLICY = ("task", "T", "B", "use", "γ", "expected", "measured (95%)")
_TEXTS = 4
_LABEL_WIDTH = 20
_MOST_COLUMNS = 8  # gammas on one line of 80 columns


def print_answer(answer: Answer) -> None:
    """Print the policy, the reasons for every "do not speculate", and the expected speedups."""
    rows = [row for policy in answer.policy for row in _policy_rows(policy)]
    print_table("What to use", _POLICY, rows, texts=_TEXTS)
    against = [policy for policy in answer.policy if not policy.choice.gamma]
    if against:
        print("Why not")
        for policy in against:
            print(_wrapped(f"{policy.setting}: {policy.reason}"))
        print()
    for setting in dict.fromkeys(group.fit.key.setting for group in answer.groups):
        groups = [group for group in answer.groups if group.fit.key.setting == setting]
        _print_curves(f"{setting}: expected speedup by γ", groups)
    print("* measured, the others interpolated · T temperature · B batch size")
    if any(group.fit.synthetic for group in answer.groups):
        print(SYNTHETIC_NOTE)


def _policy_rows(policy: Policy) -> list[list[str]]:
    choice, setting = policy.choice, policy.setting
    measured = "-"
    if choice.gamma and choice.evidence is not None:
        measured = with_interval(choice.evidence.speedup, choice.evidence.speedup_ci)
        if choice.evidence.gamma != choice.gamma:
            measured = f"γ = {choice.evidence.gamma}: {measured}"
    numbers = [str(choice.gamma), number(choice.speedup), measured]
    use = policy.drafter if choice.gamma else "do not speculate"
    if not policy.decided:
        use = "undecided"
    head = [setting.task, f"{setting.temperature:g}", str(setting.batch_size)]
    rows = []
    for name, *rest in beside_label(use, [numbers], _LABEL_WIDTH):
        rows.append([*head, name, *rest])
        head = [""] * len(head)
    return rows


def _wrapped(text: str) -> str:
    import textwrap

    return textwrap.fill(
        text, 80, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _print_curves(title: str, groups: list[DrafterAnswer]) -> None:
    measured = {point.gamma for group in groups for point in group.fit.points}
    reach = [
        point.gamma
        for point in max((group.curve for group in groups), key=len)
        if 0 < point.gamma <= max(measured)
    ]
    gammas = reach if len(reach) <= _MOST_COLUMNS else [g for g in reach if g in measured]
    rows: list[list[str]] = []
    for group in groups:
        rows += beside_label(group.fit.key.drafter, [_expected(group, gammas)], _LABEL_WIDTH)
    print_table(title, ("drafter", *map(str, gammas)), rows)


def _expected(group: DrafterAnswer, gammas: list[int]) -> list[str]:
    points = {point.gamma: point for point in group.curve if point.source != "extrapolated"}
    marks = {"measured": "*", "interpolated": " "}
    return [
        f"{points[gamma].speedup:.2f}{marks[points[gamma].source]}" if gamma in points else "- "
        for gamma in gammas
    ]
