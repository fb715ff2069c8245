from __future__ import annotations

import numpy as np
import pytest

from specbench.analysis.recommending.misfit import misfit_of
from specbench.analysis.recommending.run_speeds import speeds_of
from tests.choice_worlds import Drafter, World

GAMMAS = (1, 2, 4)


def influence(sd: float, count: int = 40) -> np.ndarray:
    """Of conversations that make each gamma's distance uncertain by this much."""
    values = np.random.default_rng(0).normal(size=(count, 3))
    values -= values.mean(axis=0)
    return values * sd / np.sqrt(count / (count - 1) * (values**2).sum(axis=0))


def test_what_chance_explains_moves_nothing() -> None:
    found = misfit_of(GAMMAS, np.array([0.02, -0.01, 0.01]), influence(0.02))
    assert found is not None
    assert (found.variance, set(found.moved.values())) == (0.0, {0.0})


def test_what_lies_off_is_moved_by_the_share_that_chance_does_not_explain() -> None:
    off = np.array([0.04, -0.04, 0.04])
    found = misfit_of(GAMMAS, off, influence(0.01))
    assert found is not None
    assert found.variance == pytest.approx(0.04**2 - 0.01**2)
    assert list(found.moved.values()) == pytest.approx([15 / 16] * 3)
    assert (
        pytest.approx(15 / 16 * np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]]))
        == found.shares([1, 3, 4]).T
    )
    assert found.pulls([2, 3])[:, 0] == pytest.approx([0.0, 1 / 16, 0.0])
    assert found.pulls([2, 3]).sum(axis=0) == pytest.approx([1 / 16] * 2)


def test_what_may_be_off_counts_though_nothing_is_moved() -> None:
    """Off by more than chance on average, but no gamma by so much that it is shown."""
    found = misfit_of(GAMMAS, np.array([0.03, -0.03, 0.03]), influence(0.02))
    assert found is not None
    assert found.variance > 0.0
    assert set(found.moved.values()) == {0.0}
    assert found.pulls([1])[0] == pytest.approx([1.0])


def test_one_conversation_tells_nothing() -> None:
    assert misfit_of(GAMMAS, np.full(3, 0.1), np.full((1, 3), np.nan)) is None


def test_many_conversations_bring_the_fit_to_what_was_counted() -> None:
    """Conversations that differ: one alpha for all of them promises too much."""
    drafter, world = Drafter(0.65, spread=0.2), World(prompts=600)
    (group,) = world.setting("code", {"x": drafter}, (1, 2, 3, 4, 6, 8), np.random.default_rng(1))
    (speed,), _ = speeds_of([group])
    counts = group.evidence.tokens
    counted = {g: part.emitted.sum() / part.lengths.sum() for g, part in counts.items()}
    ones, off = np.ones(speed.clusters.size), speed.tokens.off(np.ones(speed.clusters.size))
    fitted = speed.tokens.per_round(list(counted), ones)
    assert np.abs(off).max() > 0.02
    assert fitted == pytest.approx(np.array(list(counted.values())), rel=0.003)
    between = speed.tokens.per_round([4, 5, 6], ones)
    assert between[1] == pytest.approx(between[[0, 2]].mean(), rel=0.01)
