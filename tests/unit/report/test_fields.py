"""Texts of the report's tables."""

from __future__ import annotations

import pytest

from specbench.analysis.pooling import Setting
from specbench.report.fields import places


@pytest.mark.parametrize(
    ("loads", "told"),
    [
        ([(1, 0.0), (8, 0.0)], ["batch 1", "batch 8"]),
        ([(1, 2.0), (1, 4.0)], ["2 requests/s", "4 requests/s"]),
        ([(8, 0.0), (8, 2.0), (1, 4.0)], ["batch 8", "2 requests/s, 8 at once", "4 requests/s"]),
    ],
)
def test_a_place_tells_its_load_once(loads: list[tuple[int, float]], told: list[str]) -> None:
    settings = [Setting("code", 0.0, size, "target", "vllm", 0, 1.0, rate) for size, rate in loads]
    assert places(settings, settings) == told
