"""The list of ``specbench fit --claims``: verdict, claim, source, and the figures behind it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specbench.cli._output import OutputFormat, print_csv, print_json, printable

if TYPE_CHECKING:
    from specbench.analysis.claims import Checked, Evidence, Side

_WIDTH, _INDENT = 80, 14
_TOLD = 3  # comparisons of one claim that are shown, the others counted
_VERDICTS = ("held", "not held", "not decided", "not measured")
_EXPLAINED = (
    "(low–high): 95% intervals. A difference counts if its interval, widened for all comparisons "
    "of the claim together, leaves out 0."
)


def print_claims(run: str, checked: Sequence[Checked], chosen: OutputFormat) -> None:
    """Print every claim with its verdict.

    Args:
        run: its name.
    """
    from specbench.analysis.claims import claims_document

    if chosen == OutputFormat.JSON:
        print_json({"run": run, "claims": claims_document(tuple(checked))})
    elif chosen == OutputFormat.CSV:
        print_csv([_row(one) for one in checked])
    else:
        _print_list(run, checked)


def _row(one: Checked) -> dict[str, Any]:
    claim, answer = one.claim, one.answer
    return {
        "name": claim.name,
        "claim": claim.wording,
        "source": claim.source,
        "verdict": answer.verdict,
        "reason": answer.reason,
        "figures": " · ".join(map(_told, answer.evidence)),
    }


def _print_list(run: str, checked: Sequence[Checked]) -> None:
    counts: Counter[str] = Counter(one.answer.verdict for one in checked)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    print(_filled(f"What the literature says, held against {run}: {total}", hanging="  "))
    print()
    for one in checked:
        label = f"{one.answer.verdict:<{_INDENT}}"
        print(_filled(one.claim.wording, label))
        print(_filled(f"source: {one.claim.source}", " " * _INDENT))
        for evidence in one.answer.evidence[:_TOLD]:
            print(_filled(f"· {_told(evidence)}", " " * _INDENT, "  "))
        more = len(one.answer.evidence) - _TOLD
        reason = one.answer.reason + (f" ({more} not shown)" if more > 0 else "")
        print(_filled(f"= {reason}", " " * _INDENT, "  "))
        print()
    print(_filled(_EXPLAINED, hanging=" "))


def _told(evidence: Evidence) -> str:
    figures = [*evidence.sides, *([evidence.compared] if evidence.compared else [])]
    sides = "; ".join(_side(side) for side in figures)
    return f"{evidence.where}: {evidence.quantity}: {sides}"


def _side(side: Side) -> str:
    if side.interval is None and side.value.is_integer():
        return f"{side.label} {side.value:.0f}".strip()  # a count
    value = f"{side.label} {_number(side.value)}".strip()
    if side.interval is None:
        return value
    low, high = (_number(end) for end in side.interval)
    return f"{value} ({low}–{high})"


def _number(value: float) -> str:
    """Two decimals, three of what is small, no digits that say nothing of what is huge."""
    if abs(value) >= 1e4:
        return f"{value:.3g}"
    return f"{value:.2f}" if abs(value) >= 0.0995 or value == 0.0 else f"{value:.3f}"


def _filled(text: str, label: str = "", hanging: str = "") -> str:
    return textwrap.fill(
        printable(text),
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label) + hanging,
        break_on_hyphens=False,
    )
