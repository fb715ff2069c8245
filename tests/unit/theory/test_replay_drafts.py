"""Traces by start: drafts whose tokens depend on where they began, or that end early."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.theory.replay import replay_drafts
from tests.replays import drafts_of, replay

Draft = list[bool]


def looped(drafts: list[Draft], gamma: int) -> tuple[int, list[int], list[int]]:
    """Rounds one after another; a draft is shorter than gamma where it ended."""
    rounds, accepted, evaluated, start = 0, [0] * gamma, [0] * gamma, 0
    while start < len(drafts):
        rounds += 1
        taken = 0
        for depth, match in enumerate(drafts[start][:gamma]):
            evaluated[depth] += 1
            if not match:
                break
            accepted[depth] += 1
            taken += 1
        start += taken + 1
    return rounds, accepted, evaluated


def table(drafts: list[Draft], longest: int) -> np.ndarray:
    filled = np.full((len(drafts), longest), np.nan)
    for row, draft in zip(filled, drafts, strict=True):
        row[: len(draft)] = draft
    return filled


drafts_up_to_five = st.lists(st.lists(st.booleans(), max_size=5), max_size=20)


@settings(deadline=None)
@given(drafts_up_to_five, st.integers(1, 5))
def test_drafts_are_replayed_as_the_loop_runs(drafts: list[Draft], gamma: int) -> None:
    rounds, accepted, evaluated = replay_drafts([table(drafts, 5)], gamma)
    found = (int(rounds[0]), accepted[0].tolist(), evaluated[0].tolist())
    assert found == looped(drafts, gamma)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12), st.integers(1, 4))
def test_a_trace_by_position_is_one_by_start(trace: list[float], gamma: int) -> None:
    by_start = replay_drafts([drafts_of(trace, gamma)], gamma)
    accepted, evaluated = replay([trace], gamma)
    assert by_start.accepted == pytest.approx(accepted)
    assert by_start.evaluated == pytest.approx(evaluated)
    assert by_start.rounds == pytest.approx(evaluated[:, 0])


def test_a_round_that_drafts_nothing_is_a_round_of_one_token() -> None:
    nothing = np.full((4, 2), np.nan)
    rounds, accepted, evaluated = replay_drafts([nothing], 2)
    assert (rounds[0], accepted.sum(), evaluated.sum()) == (4, 0, 0)


def test_walking_by_one_chance_and_counting_by_another() -> None:
    walked, worth = np.array([[1.0, 0.0], [0.5, 1.0]]), np.array([[0.4, 0.6], [0.2, 0.9]])
    rounds, accepted, evaluated = replay_drafts([walked], 2, worth=[worth])
    assert rounds.tolist() == [1.0]  # accepts one, corrects behind it: nothing is left
    assert evaluated.tolist() == [[1.0, 1.0]]
    assert accepted.tolist() == [[0.4, 0.6]]


def test_texts_of_different_lengths_stay_apart() -> None:
    texts = [table([[True, True], [False, True], [True, False]], 2), table([[False, True]], 2)]
    together = replay_drafts(texts, 2)
    for place, text in enumerate(texts):
        alone = replay_drafts([text], 2)
        for ours, theirs in zip(together, alone, strict=True):
            assert ours[place].tolist() == theirs[0].tolist()


def test_drafts_shorter_than_gamma_are_refused() -> None:
    with pytest.raises(SpecbenchError, match="gamma 3"):
        replay_drafts([np.zeros((4, 2))], 3)
    with pytest.raises(SpecbenchError, match=r"chance 1\.5"):
        replay_drafts([np.full((4, 2), 1.5)], 2)
