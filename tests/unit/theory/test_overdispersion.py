from __future__ import annotations

import numpy as np
import pytest

from specbench.theory.overdispersion import overdispersion
from tests.acceptance_worlds import (
    World,
    beta_prompts,
    beta_rounds,
    counts_of,
    decaying,
    iid,
    independent_rounds,
    replayed_text,
)

GAMMAS = (1, 2, 4, 8)


@pytest.mark.parametrize("sd", [0.05, 0.1])
@pytest.mark.parametrize("clusters", [6, 24])
def test_prompts_that_differ_are_reported_with_a_true_interval(sd: float, clusters: int) -> None:
    samples = independent_rounds(
        beta_prompts(0.7, sd), 300, clusters, 1500 // clusters, GAMMAS, seed=1
    )
    found = [overdispersion(sample) for sample in samples]
    assert np.mean([one.sd**2 for one in found]) ** 0.5 == pytest.approx(sd, abs=0.01)
    assert np.mean([one.low <= sd <= one.high for one in found]) >= 0.92
    assert np.mean([one.low > 0 for one in found]) > 0.85


@pytest.mark.parametrize("world", [iid(0.7), decaying(), beta_rounds(0.7, 0.2)])
def test_what_differs_within_a_prompt_only_is_no_difference_between_them(world: World) -> None:
    samples = independent_rounds(world, 200, 24, 60, GAMMAS, seed=2)
    found = [overdispersion(sample) for sample in samples]
    assert np.mean([one.sd for one in found]) < 0.02
    assert np.mean([one.low > 0 for one in found]) < 0.03


def test_gammas_that_replay_one_text_are_not_taken_for_more_rounds() -> None:
    found = [overdispersion(one) for one in replayed_text(0.7, 150, 24, 48, (2, 4, 6, 8), seed=3)]
    assert np.mean([one.low > 0 for one in found]) < 0.04


def test_few_prompts_or_single_rounds_can_not_tell() -> None:
    names = [f"prompt-{number}" for number in range(6)]
    yes, total = [[7, 3]] * 6, [[10, 7]] * 6
    assert overdispersion({2: counts_of(names, yes, total)}) is not None
    assert overdispersion({2: counts_of(names[:5], yes[:5], total[:5])}) is None
    assert overdispersion({2: counts_of(names, [[1, 0]] * 6, [[1, 1]] * 6)}) is None
    assert overdispersion({}) is None
