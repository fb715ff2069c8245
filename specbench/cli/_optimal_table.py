"""The tables of ``specbench optimal-gamma RUN``: what to do and type, why not, and the curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specbench.analysis.names import gamma_label, short_names
from specbench.cli._output import SYNTHETIC_NOTE, beside_label, number, print_table, with_interval

if TYPE_CHECKING:
    from specbench.analysis.optimal import Answer, DrafterAnswer, Policy
    from specbench.records.schema import DraftForm

_POLICY = ("task", "T", "B", "use", "γ", "expected", "measured (95%)")
_TEXTS = 4
_LABEL_WIDTH = 20
_MOST_COLUMNS = 8  # gammas on one line of 80 columns


def print_answer(answer: Answer) -> None:
    """Print the policy, its options, the reasons for "do not speculate", and expected speedups."""
    names = short_names(group.fit.key.drafter for group in answer.groups)
    forms = {group.fit.key.drafter: group.fit.draft_form for group in answer.groups}
    rows = [row for policy in answer.policy for row in _policy_rows(policy, names, forms)]
    print_table("What to use", _POLICY, rows, texts=_TEXTS)
    _print_options(answer)
    against = [policy for policy in answer.policy if not policy.choice.gamma]
    if against:
        print("Why not")
        for policy in against:
            print(_wrapped(f"{policy.setting}: {policy.reason}"))
        print()
    for setting in dict.fromkeys(group.fit.key.setting for group in answer.groups):
        groups = [group for group in answer.groups if group.fit.key.setting == setting]
        _print_curves(f"{setting}: expected speedup by γ", groups, names)
    print("* measured, the others interpolated · T temperature · B batch size")
    if "tree" in forms.values() or "adaptive" in forms.values():
        print("trees and gamma=auto: only what was measured; γ is levels, or the longest draft")
    if any(group.fit.synthetic for group in answer.groups):
        print(SYNTHETIC_NOTE)


def _print_options(answer: Answer) -> None:
    """What to type, each line once, with the settings that it is for."""
    settings: dict[str, list[str]] = {}
    for policy in answer.policy:
        if policy.options is not None:
            settings.setdefault(policy.options, []).append(str(policy.setting))
    if settings:
        print("What to type after specbench run")
        for options, where in settings.items():
            print(f"  {options}")
            print(_wrapped("; ".join(where), indent="    "))
        print()


def _policy_rows(
    policy: Policy, names: Mapping[str, str], forms: Mapping[str, DraftForm]
) -> list[list[str]]:
    choice, setting = policy.choice, policy.setting
    measured = "-"
    if choice.gamma and choice.evidence is not None:
        measured = with_interval(choice.evidence.speedup, choice.evidence.speedup_ci)
        if choice.evidence.gamma != choice.gamma:
            measured = f"γ = {choice.evidence.gamma}: {measured}"
    form = forms[policy.drafter] if choice.gamma else "chain"
    numbers = [gamma_label(form, choice.gamma), number(choice.speedup), measured]
    use = names[policy.drafter] if choice.gamma else "do not speculate"
    if not policy.decided:
        use = "undecided"
    head = [setting.task, f"{setting.temperature:g}", str(setting.batch_size)]
    rows = []
    for name, *rest in beside_label(use, [numbers], _LABEL_WIDTH):
        rows.append([*head, name, *rest])
        head = [""] * len(head)
    return rows


def _wrapped(text: str, indent: str = "  ") -> str:
    import textwrap

    return textwrap.fill(
        text, 80, initial_indent=indent, subsequent_indent="    ", break_on_hyphens=False
    )


def _print_curves(title: str, groups: list[DrafterAnswer], names: Mapping[str, str]) -> None:
    measured = {point.gamma for group in groups for point in group.fit.points}
    answered = {point.gamma for group in groups for point in group.curve}
    reach = [gamma for gamma in sorted(answered) if 0 < gamma <= max(measured)]
    gammas = reach if len(reach) <= _MOST_COLUMNS else [g for g in reach if g in measured]
    rows: list[list[str]] = []
    for group in groups:
        rows += beside_label(names[group.fit.key.drafter], [_expected(group, gammas)], _LABEL_WIDTH)
    print_table(title, ("drafter", *map(str, gammas)), rows)


def _expected(group: DrafterAnswer, gammas: list[int]) -> list[str]:
    points = {point.gamma: point for point in group.curve if point.source != "extrapolated"}
    marks = {"measured": "*", "interpolated": " "}
    return [
        f"{points[gamma].speedup:.2f}{marks[points[gamma].source]}" if gamma in points else "- "
        for gamma in gammas
    ]
