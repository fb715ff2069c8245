"""The list of ``specbench fit --claims``: verdict, claim, source, and the figures behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specbench.cli._output import OutputFormat, print_csv, print_json, wrapped

if TYPE_CHECKING:
    from specbench.analysis.claims import Checked

_INDENT, _HANGING = 14, 9
_TOLD = 3  # comparisons of one claim that are shown, the others counted
_VERDICTS = ("held", "not held", "not decided", "not measured")


def print_claims(
    run: str, checked: Sequence[Checked], chosen: OutputFormat, detail: bool = False
) -> None:
    """Print every claim with its verdict.

    Args:
        run: its name.
        detail: with all comparisons, not only the most telling ones.
    """
    from specbench.analysis.claims import claims_document

    if chosen == OutputFormat.JSON:
        print_json({"run": run, "claims": claims_document(tuple(checked))})
    elif chosen == OutputFormat.CSV:
        print_csv([_row(one) for one in checked])
    else:
        _print_list(run, checked, detail)


def _row(one: Checked) -> dict[str, Any]:
    from specbench.analysis.claims.words import SAYS, figures

    claim, answer = one.claim, one.answer
    return {
        "name": claim.name,
        "claim": claim.wording,
        "source": claim.source,
        "verdict": answer.verdict,
        "reason": answer.reason,
        "figures": " · ".join(
            f"{SAYS[found.supports]}: {figures(found)}" for found in answer.evidence
        ),
    }


def _print_list(run: str, checked: Sequence[Checked], detail: bool) -> None:
    from specbench.analysis.claims.words import EXPLAINED, SAYS, figures, most_telling

    counts: Counter[str] = Counter(one.answer.verdict for one in checked)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    print(_filled(f"What the literature says, held against {run}: {total}", hanging="  "))
    print()
    for one in checked:
        label = f"{one.answer.verdict:<{_INDENT}}"
        print(_filled(one.claim.wording, label))
        print(_filled(f"source: {one.claim.source}", " " * _INDENT))
        found = one.answer.evidence
        told = most_telling(found, len(found) if detail else _TOLD)
        for evidence in told:
            says = f"{SAYS[evidence.supports]:<{_HANGING}}{figures(evidence)}"
            print(_filled(says, " " * _INDENT, " " * _HANGING))
        more = len(found) - len(told)
        reason = one.answer.reason + (f" ({more} not shown: --detail)" if more > 0 else "")
        print(_filled(f"= {reason}", " " * _INDENT, "  "))
        print()
    print(_filled(EXPLAINED, hanging=" "))


def _filled(text: str, label: str = "", hanging: str = "") -> str:
    return wrapped(text, label, " " * len(label) + hanging)
