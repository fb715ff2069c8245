from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.theory.acceptance import Iid
from tests.replays import replay, replay_sample


def looped(matches: list[bool], gamma: int, end: int) -> tuple[list[int], list[int]]:
    """Rounds one after another, as a loop runs them."""
    accepted, evaluated = [0] * gamma, [0] * gamma
    start = 0
    while start < end:
        taken = 0
        for depth, match in enumerate(matches[start : start + gamma]):
            evaluated[depth] += 1
            if not match:
                break
            accepted[depth] += 1
            taken += 1
        start += taken + 1
    return accepted, evaluated


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=30), st.integers(1, 6), st.data())
def test_matches_are_replayed_as_the_loop_runs(
    matches: list[bool], gamma: int, data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(matches)))
    accepted, evaluated = replay([matches], gamma, [end])
    assert (accepted[0].tolist(), evaluated[0].tolist()) == looped(matches, gamma, end)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 4))
def test_chances_give_the_exact_expectation(chances: list[float], gamma: int) -> None:
    """Every outcome of the coins, weighted with its chance."""
    expected = np.zeros((2, gamma))
    for outcome in range(2 ** len(chances)):
        coins = [bool(outcome >> place & 1) for place in range(len(chances))]
        weight = np.prod([c if coin else 1 - c for c, coin in zip(chances, coins, strict=True)])
        expected += weight * np.array(looped(coins, gamma, len(chances)))
    assert np.array(replay([chances], gamma))[:, 0] == pytest.approx(expected, abs=1e-9)


def test_texts_of_different_lengths_stay_apart() -> None:
    traces = {"a": [1, 1, 0, 1, 0.5], "b": [0], "c": []}
    sample = replay_sample(traces, (1, 3))
    assert sample[3].names.tolist() == ["a", "b", "c"]
    for gamma, counts in sample.items():
        for row, trace in enumerate(traces.values()):
            alone = replay([trace], gamma)
            assert counts.accepted[row].tolist() == alone[0][0].tolist()
            assert counts.evaluated[row].tolist() == alone[1][0].tolist()


def test_a_plain_mean_over_positions_is_not_alpha() -> None:
    """Matches come in runs, and bonus positions, which follow matches, are skipped."""
    generator = np.random.default_rng(1)
    matches = np.ones((100, 201), dtype=bool)
    for place in range(200):
        chances = np.where(matches[:, place], 0.9, 0.3)
        matches[:, place + 1] = generator.random(100) < chances
    found = Iid.fit(replay_sample({str(i): row for i, row in enumerate(matches)}, (4,)))
    assert found is not None
    accepted, evaluated = np.sum([looped(row.tolist(), 4, 201) for row in matches], axis=0)
    assert found.alpha == accepted.sum() / evaluated.sum()
    assert np.mean(matches) > found.alpha + 0.02


def test_a_text_s_own_chances_replay_the_loop_and_overlaps_only_nearly() -> None:
    """A target p and drafter q over three tokens that depend on the last token. Accepted tokens are
    those that the drafter likes, and where it leads acceptance differs: overlaps can't see that."""
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    q = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.6, 0.2, 0.2]])
    texts, length, gamma = 6000, 24, 3
    generator = np.random.default_rng(2)
    # The loop, all texts at once: draft from q, accept with min(1, p / q), else the residual.
    last, done = np.zeros(texts, dtype=int), np.zeros(texts, dtype=int)
    rounds = hits = 0
    while (going := done < length).any():
        alive = going.copy()
        rounds += int(going.sum())
        for _ in range(gamma):
            drafted = pick(generator, q[last])
            keep = generator.random(texts) * q[last, drafted] < p[last, drafted]
            residual = pick(generator, np.maximum(p - q, 1e-300)[last])
            hits += int((alive & keep).sum())
            done += alive
            last = np.where(alive, np.where(keep, drafted, residual), last)
            alive &= keep
        done += alive
        last = np.where(alive, pick(generator, p[last]), last)
    # Texts of the target alone, and what was expected of a draft at each position.
    before, own, overlaps = np.zeros(texts, dtype=int), [], []
    for _ in range(length + gamma):
        token = pick(generator, p[before])
        own.append(np.minimum(1, q[before, token] / p[before, token]))
        overlaps.append(np.minimum(p, q).sum(axis=1)[before])
        before = token
    ends = [length] * texts

    def per_round(trace: list[np.ndarray]) -> float:
        accepted, evaluated = replay(list(np.stack(trace, axis=1)), gamma, ends)
        return float(accepted.sum() / evaluated[:, 0].sum())

    assert per_round(own) == pytest.approx(hits / rounds, rel=0.015)
    assert abs(per_round(overlaps) / (hits / rounds) - 1) > 0.03


def pick(generator: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """A token per row, with chances in proportion to its weights."""
    sums = np.cumsum(weights, axis=1)
    return (generator.random((len(weights), 1)) * sums[:, -1:] >= sums).sum(axis=1)


def test_what_is_out_of_range_is_named() -> None:
    for traces, gamma, says in (([[0.5, 1.2]], 2, "1.2"), ([[0.5]], 0, "gamma 0")):
        with pytest.raises(SpecbenchError, match=says):
            replay(traces, gamma)
