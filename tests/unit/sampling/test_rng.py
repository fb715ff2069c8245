"""Random numbers belong to (seed, repeat, prompt, stream, position), not to a batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from specbench.sampling.rng import STREAMS, Uniforms, keyed_uniforms


def test_numbers_never_change():
    """Records name a seed, so the same seed must mean the same numbers in every release."""
    assert keyed_uniforms(0, 0, "prompt", "draft", 3).tolist() == pytest.approx(
        [0.5258376753795727, 0.6089984330793198, 0.12305578152078755], abs=1e-15
    )


def test_a_longer_request_extends_a_shorter_one():
    long = keyed_uniforms(3, 1, "p", "accept", 1000)
    for length in (0, 1, 2, 3, 4, 5, 63, 999):
        assert np.array_equal(keyed_uniforms(3, 1, "p", "accept", length), long[:length])


def test_every_part_of_the_key_counts():
    keys = itertools.product((0, 1), (0, 1), ("a", "b"), (*STREAMS, "coin/0.5/4"))
    first = [keyed_uniforms(*key, 4).tolist() for key in keys]
    assert len({tuple(numbers) for numbers in first}) == len(first)


def test_numbers_are_uniform_and_streams_independent():
    names = [f"p{index}" for index in range(1500)]
    drawn = {s: np.array([keyed_uniforms(0, 0, name, s, 6)[5] for name in names]) for s in STREAMS}
    for numbers in drawn.values():
        assert stats.kstest(numbers, "uniform").pvalue > 1e-3
        assert 0 <= numbers.min() < numbers.max() < 1
    for one, other in itertools.combinations(drawn.values(), 2):
        assert stats.pearsonr(one, other).pvalue > 1e-3


def test_a_slot_gives_its_prompts_numbers_whatever_the_slot_and_the_batch():
    for batch_size, slot in ((1, 0), (3, 2), (8, 5)):
        uniforms = Uniforms(batch_size, 20)
        for other in range(batch_size):
            uniforms.begin(other, 7, 1, f"other{other}")
        uniforms.begin(slot, 7, 1, "mine")
        for stream in STREAMS:
            positions = [3] * batch_size
            positions[slot] = 11
            row = uniforms.at(stream, positions, 4)[slot]
            assert row.dtype == torch.float64
            assert row.tolist() == keyed_uniforms(7, 1, "mine", stream, 20)[11:15].tolist()


def test_siblings_have_numbers_of_their_own_and_the_first_those_of_the_stream():
    uniforms = Uniforms(2, 20)
    uniforms.begin(0, 7, 1, "early")
    first = [uniforms.at("accept", [4, 9], 3, sibling=sibling) for sibling in range(4)]
    assert first[0][0].tolist() == keyed_uniforms(7, 1, "early", "accept", 20)[4:7].tolist()
    assert len({number for rows in first for number in rows[0].tolist()}) == 12
    uniforms.begin(1, 7, 1, "late")
    late = Uniforms(1, 20)
    late.begin(0, 7, 1, "late")
    for sibling in range(4):
        again = uniforms.at("accept", [4, 9], 3, sibling=sibling)
        assert again[0].tolist() == first[sibling][0].tolist()
        alone = late.at("accept", [9], 3, sibling=sibling)
        assert again[1].tolist() == alone[0].tolist(), "asked for before or after it began"


def test_rows_at_their_own_positions():
    uniforms = Uniforms(2, 10)
    uniforms.begin(0, 0, 0, "a")
    uniforms.begin(1, 0, 0, "b")
    found = uniforms.at("residual", [2, 7], 3)
    assert found.shape == (2, 3)
    assert found[0].tolist() == keyed_uniforms(0, 0, "a", "residual", 10)[2:5].tolist()
    assert found[1].tolist() == keyed_uniforms(0, 0, "b", "residual", 10)[7:10].tolist()
    assert uniforms.at("draft", [0, 0], 0).shape == (2, 0)
