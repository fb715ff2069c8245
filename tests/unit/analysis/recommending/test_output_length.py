from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.recommending import Decision, recommend
from specbench.analysis.recommending.output_length import whole_tokens
from specbench.records.store import load_run
from tests.simulate import STEP_S, SimulatedDrafter, simulate_run

PREFILL_S = 0.1  # of the simulated baseline


def decision(folder: Path, drafter: SimulatedDrafter) -> Decision:
    run = simulate_run(folder, {"model:x": drafter}, gammas=(1, 2, 4), prompts=24, noise=0.001)
    (found,) = recommend(fit_run(load_run(run)), 16).decisions
    return found


def test_a_drafter_has_to_pay_for_its_start(tmp_path: Path) -> None:
    found = decision(tmp_path / "run", SimulatedDrafter(0.8, 0.02, prefill=2.0))
    length = found.break_even
    assert length is not None
    assert length.extra_s == pytest.approx(PREFILL_S)
    assert length.saved_s == pytest.approx(STEP_S * (1 - 1 / found.choice.speedup), rel=0.01)
    assert length.tokens == pytest.approx(1 + length.extra_s / length.saved_s)
    assert length.ci is not None
    assert length.ci[0] < length.tokens < length.ci[1]


def test_a_start_that_costs_nothing_pays_at_once(tmp_path: Path) -> None:
    for share in (1.0, 0.9):
        found = decision(tmp_path / f"run{share}", SimulatedDrafter(0.8, 0.02, prefill=share))
        assert found.break_even is not None
        assert found.break_even.tokens == pytest.approx(1.0)


def test_what_saves_nothing_never_pays(tmp_path: Path) -> None:
    run = simulate_run(
        tmp_path / "run",
        {"model:x": SimulatedDrafter(0.1, 0.5, prefill=2.0)},
        gammas=(1, 2, 4),
        prompts=24,
    )
    (group,) = recommend(fit_run(load_run(run)), 16).groups
    assert group.break_even is not None
    assert group.break_even.tokens == float("inf")
    assert group.break_even.saved_s < 0


@pytest.mark.parametrize(
    ("length", "says"), [(2.19, "3"), (2.0, "2"), (2.0 + 1e-12, "2"), (float("inf"), "never")]
)
def test_in_words_it_is_the_first_whole_length_that_pays(length: float, says: str) -> None:
    assert whole_tokens(length) == says
