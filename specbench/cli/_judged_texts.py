"""``specbench compare --judge``: the target is asked why texts part, which needs torch."""

from __future__ import annotations

from specbench.analysis.comparing import Comparison
from specbench.cli._compared_texts import Judged, Verdicts
from specbench.cli.console import reporter_for_terminal
from specbench.records.reading import Run
from specbench.sweep.judging import judge_partings


def judged(a: Run, comparison: Comparison) -> Verdicts:
    """The verdict on every cell whose texts part; nothing is loaded if there is none.

    Raises:
        SpecbenchError: the target or the prompts of the first run are not to be had.
    """
    parted = {cell.name: cell.texts for cell in comparison.cells if cell.texts.pairs}
    if not parted:
        return {}
    with reporter_for_terminal() as report:
        partings = [(texts.cells[0], texts.pairs) for texts in parted.values()]
        found = judge_partings(a, partings, report.progress)
    return {name: Judged(*verdict) for name, verdict in zip(parted, found, strict=True)}
