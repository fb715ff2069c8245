"""Caches that outlive a cell, and those that do not."""

from __future__ import annotations

import torch

from specbench.models.capture import Capturing, StepShape
from specbench.models.kept_caches import LONGEST_CAPTURED_PROMPT, Caches
from tests.tape import TapeCapture
from tests.tiny import language_model


def kept() -> Caches:
    return Caches(Capturing(TapeCapture()))


def test_without_capturing_each_cell_has_a_new_cache_of_its_size():
    caches = Caches()
    first, second = caches.take("model", 2, 37), caches.take("model", 2, 37)
    assert first is not second
    assert (first.num_rows, first.num_slots, first.steps) == (2, 37, None)
    prompt = caches.for_prompt("model", 21, 1000)
    assert (prompt.num_rows, prompt.num_slots, prompt.steps) == (1, 21, None)


def test_cells_of_one_batch_size_take_turns_with_a_rounded_cache():
    caches = kept()
    cache = caches.take("model", 2, 37)
    assert cache.num_slots == 48
    assert caches.take("model", 2, 48) is cache
    assert caches.take("model", 2, 5) is cache
    assert caches.take("model", 3, 37) is not cache
    assert caches.take("drafter", 2, 37) is not cache


def test_a_cell_begins_with_an_empty_cache():
    target, caches = language_model("llama"), kept()
    cache = caches.take(target, 1, 16)
    target.forward(torch.tensor([[1, 2, 3]]), cache, [0])
    keys = cache.keys[0]
    assert keys.any()
    assert caches.take(target, 1, 16).keys[0] is keys
    assert not keys.any()


def test_a_cell_that_needs_more_gets_a_larger_cache_and_the_old_one_is_free():
    target, caches = language_model("llama"), kept()
    small = caches.take(target, 1, 16)
    target.forward(torch.tensor([[1, 2, 3]]), small, [0])
    large = caches.take(target, 1, 17)
    assert large.num_slots == 32
    assert (small.keys, small.values, small.steps) == ([], [], None)


def test_caches_of_other_batch_sizes_are_freed_even_if_somebody_holds_them():
    target, caches = language_model("llama"), kept()
    held = [caches.take(target, num_rows, 16) for num_rows in (1, 2, 4)]
    for cache in held:
        target.forward(torch.ones(cache.num_rows, 2, dtype=torch.long), cache, [0] * cache.num_rows)
    steps = caches.steps(target.model, 1)
    caches.drop_others({2})
    assert [bool(cache.keys) for cache in held] == [False, True, False]
    assert caches.take(target, 2, 16) is held[1]
    assert caches.take(target, 1, 16) is not held[0]
    assert caches.steps(target.model, 1) is not steps


def test_prompts_are_read_into_one_cache_unless_they_are_long_or_leave_the_context():
    caches = kept()
    cache = caches.for_prompt("model", 21, 10_000)
    assert caches.for_prompt("model", LONGEST_CAPTURED_PROMPT, 10_000) is cache
    assert cache.steps is not None
    for length, limit in ((LONGEST_CAPTURED_PROMPT + 1, 10_000), (21, 31)):
        plain = caches.for_prompt("model", length, limit)
        assert (plain.num_slots, plain.steps) == (length, None)
    assert caches.for_prompt("model", 21, 32) is cache
    caches.drop_others({7})
    assert caches.for_prompt("model", 3, 10_000) is cache


def test_what_is_captured_is_captured_anew_over_new_memory():
    target, caches = language_model("llama"), kept()
    assert caches.capturing is not None
    for _ in range(2):
        cache = caches.take(target, 1, 16)
        with caches.capturing.opened():
            target.forward(torch.tensor([[1, 2]]), cache, [0])
            target.forward(torch.tensor([[3, 4]]), cache, [5])
        caches.drop_others({2})
    assert caches.capturing.captured == {target.name: 2}
    assert str(StepShape(target.name, 2, 16)) == f"{target.name}, 2 tokens per row over 16 slots"
