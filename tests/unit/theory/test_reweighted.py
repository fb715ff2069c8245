from __future__ import annotations

import numpy as np
import pytest

from specbench.theory.acceptance import MODELS, AcceptanceModel, BetaGeometric, Counts, by_cluster
from specbench.theory.reweighted import Reweighted
from tests.acceptance_worlds import DECAY, beta_rounds, decaying, independent_rounds

WORLDS = {"falling": decaying(DECAY), "rising": beta_rounds(0.7, 0.25)}


def fitted(world: str, model: type[AcceptanceModel]) -> tuple[Reweighted, dict[int, Counts]]:
    sample = next(independent_rounds(WORLDS[world], 1, 16, 60, (2, 8), seed=1))
    _, accepted, evaluated = by_cluster(sample)
    found = model.fit(sample)
    assert found is not None
    return Reweighted(found, accepted, evaluated), sample


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize("model", MODELS)
def test_weights_of_1_give_the_model(world: str, model: type[AcceptanceModel]) -> None:
    reweighted, _ = fitted(world, model)
    expected = [reweighted.model.alpha_at(position) for position in range(1, 9)]
    assert reweighted.alphas(np.ones(16), 8) == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize("model", MODELS)
def test_other_weights_come_close_to_a_refit(world: str, model: type[AcceptanceModel]) -> None:
    reweighted, sample = fitted(world, model)
    names = sample[2].names
    for left_out in (0, 7):
        keep = names != names[left_out]
        refit = model.fit({gamma: counts.rows(keep) for gamma, counts in sample.items()})
        assert refit is not None
        expected = np.array([refit.alpha_at(position) for position in range(1, 9)])
        found = reweighted.alphas(keep.astype(float), 8)
        here = reweighted.alphas(np.ones(16), 8)
        # what a conversation changes is met but for a tenth
        assert np.abs(found - expected).max() <= 0.1 * np.abs(expected - here).max() + 2e-4


def test_positions_beyond_the_last_have_its_alpha_and_shapes_broadcast() -> None:
    reweighted, _ = fitted("falling", MODELS[-1])
    weights = np.random.default_rng(1).poisson(1.0, (5, 3, 16)).astype(float)
    alphas = reweighted.alphas(weights, 10)
    assert alphas.shape == (5, 3, 10)
    assert (alphas[..., 8] == alphas[..., 7]).all()
    assert (alphas[..., 9] == alphas[..., 7]).all()


def test_weights_that_leave_nothing_give_nothing() -> None:
    for model in (MODELS[0], BetaGeometric):
        reweighted, _ = fitted("rising", model)
        assert np.isnan(reweighted.alphas(np.zeros(16), 3)).all()
