"""Texts of the report's tables."""

from __future__ import annotations

from specbench.analysis.pooling import Setting
from specbench.report.fields import places


def test_a_place_tells_its_load_once() -> None:
    settings = [
        Setting("code", 0.0, size, "target", "vllm", 0, 1.0, rate)
        for size, rate in ((1, 0.0), (8, 0.0), (8, 2.0), (1, 4.0))
    ]
    assert places(settings, settings) == [
        "batch 1",
        "batch 8",
        "2 requests/s, 8 at once",
        "4 requests/s",
    ]
