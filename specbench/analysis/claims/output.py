"""Claims about the output: that it is the target's, and as good."""

from __future__ import annotations

from collections import Counter

from specbench.analysis.claims.evidence import Answer, Evidence, Side, claim, each, not_measured
from specbench.analysis.claims.view import View
from specbench.records.schema import DIVERGED, IDENTICAL, NEAR_TIE

_VERDICTS = (IDENTICAL, NEAR_TIE, DIVERGED)


@claim(
    "output-unchanged",
    "The output is unchanged",
    "Leviathan et al. 2023, arXiv 2211.17192, appendix A.1; Chen et al. 2023, arXiv 2302.01318, "
    "theorem 1",
)
def output_unchanged(view: View) -> Answer:
    """The verdicts on greedy cells; a near-tie is rounding, which differs between shapes."""
    verdicts = _verdicts(view)
    found = [
        Evidence(
            drafter,
            "greedy cells (near-tie: rounding alone)",
            tuple(Side(verdict, float(count[verdict])) for verdict in _VERDICTS if count[verdict]),
            supports=not count[DIVERGED],
        )
        for drafter, count in verdicts.items()
    ]
    return each(
        found,
        "no greedy cell has a verdict (--temperature 0 with a baseline); above temperature 0 "
        "outputs differ rightly",
    )


@claim(
    "quality-unchanged",
    "Task quality is unchanged: perplexity of the target on the output, code tests passed",
    "Chen et al. 2023, arXiv 2302.01318, table 1 (summaries and code)",
)
def quality_unchanged(view: View) -> Answer:
    """Equal texts are equally good; nothing else about quality is recorded."""
    verdicts = _verdicts(view)
    total: Counter[str] = sum(verdicts.values(), Counter[str]())
    if total and total[IDENTICAL] == total.total():
        quantity = "greedy cells with plain decoding's own texts, so with their quality"
        return each(
            [
                Evidence(name, quantity, (Side("", float(count.total())),), supports=True)
                for name, count in verdicts.items()
            ],
            "",
        )
    told = f"{total[IDENTICAL]} of {total.total()} greedy cells have plain decoding's own texts"
    return not_measured(
        "no perplexity of the target on the outputs and no passed code tests are recorded, and "
        f"{told if total else 'no greedy cell has a verdict'}; equal texts are equally good: "
        "measure with --temperature 0 --dtype float32"
    )


def _verdicts(view: View) -> dict[str, Counter[str]]:
    """drafter -> how many of its cells have each verdict."""
    found: dict[str, Counter[str]] = {}
    for one in view.everything:
        for cells in one.group.cells.values():
            told = [cell.lossless for cell in cells if cell.lossless in _VERDICTS]
            if told:
                found.setdefault(one.name, Counter()).update(v for v in told if v)
    return found
