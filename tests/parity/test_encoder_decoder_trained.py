"""A tiny T5 that learned to rewrite: a smaller one drafts for it, and so does its source.

Its outputs are mostly copies of the source, as summaries and corrections are: what is accepted on
such tasks shows only where the model has learned them.
"""

from __future__ import annotations

import functools

import pytest

from specbench.models.rows import Row
from specbench.sampling.warp import SamplingParams
from tests.lossless import greedy_faults
from tests.rewriting import STOP, rewritten, trained_t5, unseen
from tests.tiny import alpha, run_cell
from tests.tiny_seq2seq import generate_greedily

LENGTH = 10
SOURCES = unseen(12)


@functools.cache
def target():
    return trained_t5(width=32, steps=400)


def cell(spec: str | None, batch_size: int, **options):
    return run_cell(
        target(),
        spec,
        SOURCES,
        gamma=0 if spec is None else 3,
        batch_size=batch_size,
        max_new_tokens=LENGTH,
        stop_tokens=[STOP],
        models={"small": trained_t5(width=16, steps=300)},
        **options,
    )


@functools.cache
def reference():
    return generate_greedily(target(), SOURCES, LENGTH, [STOP])


def test_the_target_has_learned_most_of_it():
    right = [
        output == rewritten(list(request.token_ids))
        for output, request in zip(reference(), SOURCES, strict=True)
    ]
    assert sum(right) > len(SOURCES) / 2
    assert {output[-1] for output in reference()} == {STOP}


@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize("spec", [None, "ngram", "model:small"])
def test_greedy_output_is_generate_and_some_drafts_are_right(spec, batch_size):
    generation = cell(spec, batch_size)
    assert greedy_faults(generation.outputs, reference()) == []
    assert spec is None or 0.2 < alpha(generation) < 1


def test_lookup_copies_from_the_source(monkeypatch):
    accepted = sum(cell("ngram,min=2", 3).rounds["num_accepted"])
    monkeypatch.setattr(Row, "text", property(lambda row: row.tokens))
    assert sum(cell("ngram,min=2", 3).rounds["num_accepted"]) < accepted / 2


def test_above_temperature_zero_the_smaller_model_is_accepted_less_often_than_always():
    generation = cell("model:small", 3, sampling=SamplingParams(1.0))
    assert 0.2 < alpha(generation) < 1
    assert max(map(len, generation.outputs)) <= LENGTH
