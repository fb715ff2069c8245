"""What stands before a measured speedup, the same on the command line and in the report."""

from __future__ import annotations

from specbench.analysis.fitted import GammaFit
from specbench.records.schema import DIVERGED
from specbench.records.speedup import told_apart


def speedup_mark(point: GammaFit) -> str:
    """``* `` where the output DIVERGED, ``~ `` where it is not told apart from none; else empty."""
    if point.lossless == DIVERGED:
        return "* "
    if point.speedup is None or told_apart(point.speedup, point.speedup_ci, point.noise_floor):
        return ""
    return "~ "
