"""What the literature says, held against a run: held, not held, not decided or not measured.

A claim is a small function, declared with its wording and its source; a new one is a function in
one of these files, or a file more in :data:`THEMES`. Each comparison pairs what can be paired and
carries both figures, their intervals and the cells.

>>> run = load_run("results/main")                                              # doctest: +SKIP
>>> [(one.claim.name, one.answer.verdict) for one in check_claims(run, fit_run(run))]
...                                                                             # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specbench.analysis.claims import acceptance, cost, latency, output, reported, speed
from specbench.analysis.claims.evidence import Answer, Claim, Evidence, Side, Verdict
from specbench.analysis.claims.view import View
from specbench.analysis.fitted import RunFit
from specbench.records.reading import Run

__all__ = ["CLAIMS", "Answer", "Checked", "Claim", "Evidence", "Side", "Verdict", "check_claims"]

THEMES = (acceptance, speed, latency, reported, cost, output)
"""In the order of the answer; those of a theme stand in the order of its file."""

CLAIMS: tuple[Claim, ...] = tuple(
    one for theme in THEMES for one in vars(theme).values() if isinstance(one, Claim)
)


@dataclass(frozen=True)
class Checked:
    """A claim and what the run answers."""

    claim: Claim
    answer: Answer


def check_claims(run: Run, fitted: RunFit) -> tuple[Checked, ...]:
    """Hold every claim against a run.

    Args:
        run: where the cells and tables are.
        fitted: the same run, fitted.

    Raises:
        SpecbenchError: a table can't be read.
    """
    view = View(run, fitted)
    return tuple(Checked(claim, claim.check(view)) for claim in CLAIMS)


def claims_document(checked: tuple[Checked, ...]) -> list[dict[str, Any]]:
    """The answers as plain data, for JSON."""
    return [
        {
            "name": one.claim.name,
            "claim": one.claim.wording,
            "source": one.claim.source,
            "verdict": one.answer.verdict,
            "reason": one.answer.reason,
            "evidence": [asdict(evidence) for evidence in one.answer.evidence],
        }
        for one in checked
    ]
