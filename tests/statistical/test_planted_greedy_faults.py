"""Greedy decoding's checks are seen to fail: faults are planted in the engine, one at a time.

A fault must be caught by the check that is meant for it. Some faults cost no correctness, only
acceptance (a hole in the drafter's cache): for those the visible change is asserted instead.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from specbench.drafters.model import ModelDrafter
from specbench.engine import loop, speculative
from specbench.models import language_model as wrapper
from specbench.models.cache import RowCache
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel
from specbench.records.identities import identities
from specbench.records.schema import Cell
from specbench.sampling.verify import Verdict
from specbench.sampling.warp import SamplingParams
from tests.lossless import greedy_faults, watch_caches
from tests.tiny import alpha, hugging_face_greedy, language_model, noisy_copy, requests, run_cell

# ---- greedy: ids and lengths against Hugging Face


@functools.cache
def greedy_target() -> LanguageModel:
    return language_model("llama", seed=0)


@functools.cache
def greedy_models() -> dict[str, LanguageModel]:
    return {"near": noisy_copy(greedy_target(), 0.15), "same": greedy_target()}


@functools.cache
def expected(stop_tokens: tuple[int, ...] = ()) -> list[list[int]]:
    return hugging_face_greedy(greedy_target(), requests(5), 12, stop_tokens)


def greedy_check(spec: str | None = "model:near", stop_tokens: tuple[int, ...] = ()) -> list[str]:
    """The parity test in small: what is wrong with the output."""
    return greedy_faults(greedy_cell(spec, stop_tokens).outputs, expected(stop_tokens))


def greedy_cell(spec: str | None = "model:near", stop_tokens: tuple[int, ...] = ()):
    return run_cell(
        greedy_target(),
        spec,
        requests(5),
        gamma=0 if spec is None else 3,
        batch_size=3,
        max_new_tokens=12,
        stop_tokens=stop_tokens,
        models=greedy_models(),
    )


def test_without_a_fault_the_greedy_check_passes():
    for spec in (None, "ngram", "model:near", "early-exit:1"):
        assert greedy_check(spec) == []


@pytest.mark.parametrize("shift", [1, -1])
def test_mask_off_by_one(monkeypatch, shift):
    """Each token sees one slot more, or not itself."""
    sound = wrapper.masks_by_layer

    def faulty(windows, visible, positions, slots, additive):
        visible = slots[:, None] <= positions[:, :, None] + shift
        return sound(windows, visible, positions, slots, additive)

    monkeypatch.setattr(wrapper, "masks_by_layer", faulty)
    assert greedy_check(None)
    assert greedy_check("model:near")


def test_positions_of_the_first_row_in_all_rows(monkeypatch):
    """All rows get the first row's positions: right at batch 1, wrong in a ragged batch."""
    sound = LanguageModel.forward

    def faulty(self, tokens, cache, starts, **options):
        model = self.model

        def one_position(**inputs):
            inputs["position_ids"] = inputs["position_ids"][:1].expand_as(inputs["position_ids"])
            return model(**inputs)

        self.model = one_position
        try:
            return sound(self, tokens, cache, starts, **options)
        finally:
            self.model = model

    monkeypatch.setattr(LanguageModel, "forward", faulty)
    assert greedy_check("model:near")


class KeepsRejected(RowCache):
    """A cache that never overwrites: K/V of rejected tokens stay."""

    def expect(self, starts, width, device):
        extent = super().expect(starts, width, device)
        self._written = getattr(self, "_written", [0] * self.num_rows)
        self._fresh = [
            [slot >= done for slot in range(start, start + width)]
            for start, done in zip(starts, self._written, strict=True)
        ]
        self._starts = list(starts)
        self._written = [
            max(done, start + width) for start, done in zip(starts, self._written, strict=True)
        ]
        return extent

    def restore(self, row, snapshot):
        super().restore(row, snapshot)
        self._written = getattr(self, "_written", [0] * self.num_rows)
        self._written[row] = snapshot.keys[0].shape[2]

    def update(self, key_states, value_states, layer_idx, *rest, **options):
        keys, values = key_states.clone(), value_states.clone()
        if layer_idx < len(self.keys):
            for row, (start, fresh) in enumerate(zip(self._starts, self._fresh, strict=True)):
                for offset, is_fresh in enumerate(fresh):
                    if not is_fresh:
                        keys[row, :, offset] = self.keys[layer_idx][row, :, start + offset]
                        values[row, :, offset] = self.values[layer_idx][row, :, start + offset]
        return super().update(keys, values, layer_idx, *rest, **options)


def test_rollback_that_keeps_rejected_keys(monkeypatch):
    monkeypatch.setattr(
        LanguageModel, "new_cache", lambda self, rows, slots: KeepsRejected(rows, slots)
    )
    assert greedy_check(None) == [], "nothing is rejected in the baseline"
    assert greedy_check("model:near")
    watch, _ = cache_check("model:near")
    assert watch.target_gap > 1e-2


def test_starts_that_skip_the_rejected_tokens(monkeypatch):
    """The next forward starts where the draft ended, as if every draft were kept."""
    sound = LanguageModel.forward

    def faulty(self, tokens, cache, starts, **options):
        if cache.num_rows > 1 and self is greedy_target():
            ends = getattr(cache, "ends", [0] * len(starts))
            room = cache.num_slots - tokens.shape[1]
            lengths = list(starts)
            starts = [min(max(s, e), room) for s, e in zip(starts, ends, strict=True)]
            cache.ends = [
                start + tokens.shape[1] - 1 if length > 1 else 0  # empty slots have length 1
                for start, length in zip(starts, lengths, strict=True)
            ]
        return sound(self, tokens, cache, starts, **options)

    monkeypatch.setattr(LanguageModel, "forward", faulty)
    assert greedy_check("model:near")


def test_a_prompt_restored_into_the_wrong_slot(monkeypatch):
    sound = RowCache.restore
    monkeypatch.setattr(
        RowCache,
        "restore",
        lambda self, row, snapshot: sound(self, (row + 1) % self.num_rows, snapshot),
    )
    assert greedy_check(None)


def test_the_batch_cropped_to_its_worst_row(monkeypatch):
    """Every row accepts what the worst row accepts: lossless, but alpha is not alpha any more."""
    before = alpha(greedy_cell())
    sound = speculative.verify_greedy

    def faulty(choices, tokens, lengths):
        verdict = sound(choices, tokens, lengths)
        worst = verdict.num_accepted[lengths > 0].min()
        accepted = verdict.num_accepted.clamp(max=worst)
        return replace(
            verdict,
            num_accepted=accepted,
            next_token=choices.gather(1, accepted[:, None]).squeeze(1),
        )

    monkeypatch.setattr(speculative, "verify_greedy", faulty)
    assert greedy_check() == []
    assert alpha(greedy_cell()) < before - 0.1


def test_one_token_too_many_is_accepted(monkeypatch):
    sound = speculative.verify_greedy

    def faulty(choices, tokens, lengths):
        verdict = sound(choices, tokens, lengths)
        accepted = torch.minimum(verdict.num_accepted + 1, lengths)
        return Verdict(accepted, choices.gather(1, accepted[:, None]).squeeze(1), None)

    monkeypatch.setattr(speculative, "verify_greedy", faulty)
    assert greedy_check("model:near")


def test_the_padding_of_a_shorter_draft_is_accepted(monkeypatch):
    """Draft lengths are ignored, so that padding (token 0) counts as drafted."""
    target = greedy_target()
    batch = [replace(request, token_ids=[0, 0, 0, *request.token_ids]) for request in requests(5)]
    sound = speculative.verify_greedy
    seen = SimpleNamespace(rounds=0)

    def faulty(choices, tokens, lengths):
        seen.rounds += bool((lengths < tokens.shape[1]).any())
        return sound(torch.zeros_like(choices), tokens, torch.full_like(lengths, tokens.shape[1]))

    monkeypatch.setattr(speculative, "verify_greedy", faulty)
    outputs = run_cell(target, "ngram", batch, gamma=3, batch_size=3, max_new_tokens=12).outputs
    assert seen.rounds
    assert greedy_faults(outputs, hugging_face_greedy(target, batch, 12))


def test_stop_cut_missing(monkeypatch):
    """A stop token inside a round ends the request but what follows it stays."""

    def faulty(row, tokens, limits):
        if not row.active:
            return 0
        kept = tokens[: limits.max_new_tokens - len(row.output)]
        row.tokens.extend(kept)
        return len(kept)

    stops = (expected()[0][4], expected()[1][6])
    assert greedy_check("model:same", stops) == []
    monkeypatch.setattr(loop, "_commit", faulty)
    assert greedy_check("model:same", stops)


def test_length_cut_missing(monkeypatch):
    def faulty(row, tokens, limits):
        if row.active:
            row.tokens.extend(tokens)
        return len(tokens) if row.active else 0

    monkeypatch.setattr(loop, "_commit", faulty)
    assert greedy_check("model:same")


def test_bonus_token_dropped(monkeypatch):
    """Costs a token per round and nothing else: the counters no longer add up."""
    cell = Cell(target="t", drafter="model:same", gamma=3, temperature=0, batch_size=3, task="tiny")
    sound = speculative._read

    def faulty(draft, verdict):
        accepted, committed = sound(draft, verdict)
        for row, count in enumerate(accepted):
            if count == draft.lengths[row] > 0:
                committed[row] = committed[row][:-1]
        return accepted, committed

    generation = greedy_cell("model:same")
    assert identities(cell, generation.rounds, generation.requests) == []
    monkeypatch.setattr(speculative, "_read", faulty)
    generation = greedy_cell("model:same")
    found = identities(cell, generation.rounds, generation.requests)
    assert any("emitted 3, accepted + 1 is 4" in sentence for sentence in found)


# ---- the drafter's cache


def cache_check(spec: str):
    """The rollback test in small."""
    return watch_caches(
        greedy_target(),
        spec,
        requests(5),
        gamma=3,
        batch_size=3,
        sampling=SamplingParams(),
        models=greedy_models(),
    )


def test_a_hole_in_the_drafters_cache(monkeypatch):
    """After full acceptance only one token is fed: output stays right, acceptance does not."""
    watch, generation = cache_check("model:same")
    assert watch.drafter_gap < 1e-5
    assert alpha(generation) == 1
    sound = ModelDrafter.commit

    def faulty(self, num_accepted, hidden=None):
        sound(self, num_accepted, hidden)
        for slot, accepted in enumerate(num_accepted):
            self._cached[slot] = self._lengths_at_draft[slot] + accepted

    monkeypatch.setattr(ModelDrafter, "commit", faulty)
    watch, generation = cache_check("model:same")
    assert greedy_faults(generation.outputs, expected()) == []
    assert watch.drafter_gap > 1e-2
    assert alpha(generation) < 0.9


def test_a_drafter_that_keeps_its_rejected_keys(monkeypatch):
    monkeypatch.setattr(
        Caches, "take", lambda self, owner, rows, slots, *_: KeepsRejected(rows, slots)
    )
    watch, generation = cache_check("model:near")
    assert greedy_faults(generation.outputs, expected()) == []
    assert watch.drafter_gap > 1e-2
    assert watch.target_gap < 1e-5
