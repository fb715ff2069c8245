"""Temperature, top-k and top-p against transformers' own; drawing by inversion."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.sampling.warp import SamplingParams, sample, warp
from tests.lossless import shaped


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 5, 50, 80])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.6, 0.01])
def test_the_distribution_is_transformers(temperature, top_k, top_p):
    params = SamplingParams(temperature, top_k, top_p)
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(top_k)) * 3
    ours, theirs = warp(logits, params), shaped(logits, params).float()
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert torch.equal(ours == 0, theirs == 0)
    assert torch.allclose(ours.sum(-1), torch.ones(40))


def test_leading_dimensions_are_kept():
    logits = torch.randn(2, 3, 11)
    params = SamplingParams(0.8, top_k=4, top_p=0.9)
    assert warp(logits, params).shape == (2, 3, 11)
    assert torch.equal(warp(logits, params)[1, 2], warp(logits[1, 2], params))


def test_half_precision_logits_give_float32():
    logits = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    assert warp(logits, SamplingParams(1.0)).dtype == torch.float32


def test_ties_of_the_last_kept_token_are_all_kept():
    probs = warp(torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0]), SamplingParams(1.0, top_k=2))
    assert (probs > 0).tolist() == [True, True, True, True, False]
    theirs = shaped(torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]]), SamplingParams(1.0, top_k=2))
    assert torch.allclose(probs, theirs[0].float())


def test_top_p_keeps_the_token_that_reaches_the_mass_and_no_more():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    assert warp(logits, SamplingParams(1.0, top_p=0.5)).tolist() == [1.0, 0.0, 0.0]
    kept = warp(logits, SamplingParams(1.0, top_p=0.51))
    assert kept.tolist() == pytest.approx([0.625, 0.375, 0.0])


def test_top_p_always_keeps_the_best():
    assert warp(torch.tensor([0.0, 5.0]), SamplingParams(1.0, top_p=1e-9)).tolist() == [0.0, 1.0]


def test_top_k_comes_before_top_p():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    probs = warp(logits, SamplingParams(1.0, top_k=2, top_p=0.6))
    assert probs.tolist() == pytest.approx([4 / 7, 3 / 7, 0.0, 0.0])


def test_masked_logits_stay_impossible():
    probs = warp(torch.tensor([1.0, -torch.inf, 0.0]), SamplingParams(2.0, top_p=0.99))
    assert probs[1] == 0
    assert probs.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"temperature": -1.0}, "-1.0"),
        ({"temperature": math.nan}, "nan"),
        ({"temperature": math.inf}, "inf"),
        ({"top_k": -3}, "-3"),
        ({"top_p": 0.0}, "0.0"),
        ({"top_p": 1.5}, "1.5"),
        ({"top_p": math.nan}, "nan"),
    ],
)
def test_values_out_of_range_are_named(options, named):
    with pytest.raises(SpecbenchError) as raised:
        SamplingParams(**options)
    assert named in str(raised.value)


def test_temperature_zero_is_greedy():
    assert SamplingParams().greedy
    assert not SamplingParams(0.01).greedy


def test_sample_inverts_the_cumulative_distribution():
    probs = torch.tensor([0.25, 0.0, 0.5, 0.25])
    uniforms = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 0.999999], dtype=torch.float64)
    drawn = sample(probs.expand(6, 4), uniforms)
    assert drawn.tolist() == [0, 0, 2, 2, 3, 3]


def test_sample_needs_no_normalisation():
    probs = torch.tensor([1.0, 0.0, 3.0])
    uniforms = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    drawn = sample(probs.expand(1000, 3), uniforms)
    assert torch.bincount(drawn, minlength=3).tolist() == [250, 0, 750]


EDGES = [0.0, 5e-324, 2.0**-53, 0.5, 1 - 2.0**-53]


@given(
    st.lists(st.sampled_from([0.0, 1e-38, 1e-20, 1e-7, 0.1, 0.3, 1.0]), min_size=1, max_size=9)
    .filter(any)
    .map(torch.tensor),
    st.one_of(st.sampled_from(EDGES), st.floats(0, 1, exclude_max=True)),
)
def test_a_token_of_probability_zero_is_never_drawn(probs, uniform):
    drawn = sample(probs[None], torch.tensor([uniform], dtype=torch.float64))
    assert probs[drawn] > 0


def test_a_tiny_temperature_is_the_argmax_and_not_nan():
    probs = warp(torch.tensor([[3.0, 5.0, -2.0]]), SamplingParams(temperature=1e-38))
    assert probs.tolist() == [[0.0, 1.0, 0.0]]
