"""Ratios of a run with rounds to counts of a server: intervals, and whether acceptance is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.analysis.comparing import Ratio
from specbench.analysis.comparing.cells import CheckedRun, Several, Side
from specbench.analysis.comparing.ratios import ACCEPTANCE, ratio_ends
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Side:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = load_run(simulate_run(folder, {"ngram": SimulatedDrafter(0.7, 0.05)}, gammas=(4,)))
    sides = CheckedRun.of(run, Several.of(run, run)).sides
    return next(side for name, side in sides.items() if name.gamma)


def counted(side: Side, times: float) -> Side:
    """A server that counted so many times as much of everything, and tells no interval."""
    fields = {name: side.fields[name] * times for name in ACCEPTANCE}
    return replace(side, raw=None, moves={}, fields={"num_prompts": 12, **fields})


@pytest.mark.parametrize("metric", ACCEPTANCE)
def test_the_rounds_of_one_side_give_the_interval(side: Side, metric):
    same, half = counted(side, 1.0), counted(side, 0.5)
    low, high = ratio_ends(metric, side, same)
    assert 0.7 < low < 1.0 < high < 1.4
    back = ratio_ends(metric, same, side)
    assert back == pytest.approx((1 / high, 1 / low))
    assert ratio_ends(metric, side, half) == pytest.approx((low / 2, high / 2))
    assert ratio_ends(metric, same, same) is None


def test_acceptance_is_one_if_equal_or_within_its_interval():
    assert Ratio(0.5, 0.5).is_one
    assert Ratio(0.5, 0.52, (0.9, 1.2)).is_one
    assert Ratio(0.5, 0.25, (0.4, 0.6)).is_one is False
    assert Ratio(0.5, 0.52).is_one is None
    assert Ratio(None, 0.5).is_one is None
