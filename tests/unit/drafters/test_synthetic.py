"""A drafter of known acceptance: exactly alpha, in both modes, and honest about its ends."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.models.language_model import LanguageModel
from specbench.sampling.rng import keyed_uniforms
from tests.tiny import (
    alpha,
    language_model,
    make_drafter,
    noisy_copy,
    requests,
    run_cell,
    with_references,
)

LENGTH, GAMMA = 20, 4


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return language_model("llama")


@pytest.fixture(scope="module")
def half() -> LanguageModel:
    """The same model in bfloat16, where the coin decides."""
    model = copy.deepcopy(language_model("llama").model).to(torch.bfloat16)
    return LanguageModel(model, name="half")


@pytest.fixture(scope="module")
def batch(target):
    return with_references(target, requests(5), LENGTH + GAMMA + 1)


def run(target, spec, batch, **options):
    options = {"gamma": GAMMA, "batch_size": 3, "max_new_tokens": LENGTH, **options}
    return run_cell(target, spec, batch, **options)


def expected_acceptance(generation, batch, share: float) -> list[int]:
    """Accepted tokens of every round, from the coins alone."""
    found = []
    for owner, position in zip(
        generation.rounds["request"], generation.rounds["position"], strict=True
    ):
        request = batch[owner]
        coins = keyed_uniforms(
            0, 0, request.prompt_id, f"coin/{share}/{GAMMA}", len(request.reference)
        )
        run = coins[position : position + GAMMA] < share
        found.append(int(run.cumprod().sum()))
    return found


@pytest.mark.parametrize("mode", ["float32", "bfloat16"])
@pytest.mark.parametrize(("share", "accepted"), [("0", 0), ("1", GAMMA)])
def test_the_ends_of_the_scale_are_exact(target, half, batch, mode, share, accepted):
    generation = run(target if mode == "float32" else half, f"synthetic:{share}", batch)
    assert set(generation.rounds["num_accepted"]) == {accepted}
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]
    assert generation.notes == []


@pytest.mark.parametrize("mode", ["float32", "bfloat16"])
def test_the_coins_decide_and_nothing_else(target, half, batch, mode):
    generation = run(target if mode == "float32" else half, "synthetic:0.7", batch)
    assert generation.rounds["num_accepted"] == expected_acceptance(generation, batch, 0.7)
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]
    assert set(generation.rounds["replayed"]) == {mode == "bfloat16"}
    assert set(generation.rounds["num_drafted"]) == {GAMMA}


def test_acceptance_does_not_depend_on_the_batch(target, batch):
    found = [
        [
            (r["prompt_id"][i], r["num_accepted"][i])
            for i in sorted(range(len(r["step"])), key=lambda i: (r["request"][i], r["round"][i]))
        ]
        for r in (run(target, "synthetic:0.6", batch, batch_size=b).rounds for b in (1, 2, 8))
    ]
    assert found[0] == found[1] == found[2]


def test_acceptance_is_alpha_on_a_long_run():
    """|z| below 3.5, tau against the closed form, in both modes (one-layer models are quick)."""
    target = language_model("llama", num_hidden_layers=1, hidden_size=16)
    half = LanguageModel(copy.deepcopy(target.model).to(torch.bfloat16), name="half")
    batch = with_references(target, requests(24), 80 + GAMMA + 1)
    share = 0.7
    for model in (target, half):
        generation = run(model, f"synthetic:{share}", batch, batch_size=24, max_new_tokens=80)
        evaluated = sum(generation.rounds["num_evaluated"])
        error = (share * (1 - share) / evaluated) ** 0.5
        assert abs(alpha(generation) - share) < 3.5 * error
        closed = (1 - share ** (GAMMA + 1)) / (1 - share)
        rounds = generation.rounds["num_accepted"]
        spread = torch.tensor(rounds, dtype=torch.float64).std().item() / len(rounds) ** 0.5
        assert abs(1 + sum(rounds) / len(rounds) - closed) < 3.5 * spread


def test_the_overlap_of_a_replay_is_what_happened(half, batch):
    rounds = run(half, "synthetic:0.7", batch).rounds
    for overlap, accepted, evaluated in zip(
        rounds["overlap"], rounds["num_accepted"], rounds["num_evaluated"], strict=True
    ):
        assert overlap == [1.0] * accepted + [0.0] * (evaluated - accepted)


@pytest.mark.parametrize("mode", ["float32", "bfloat16"])
def test_nothing_after_a_stop_token_is_drafted(target, half, mode):
    model = copy.copy(target if mode == "float32" else half)
    model.model = copy.copy(model.model)
    model.model.generation_config = copy.copy(model.model.generation_config)
    first = with_references(target, requests(1), LENGTH)[0]
    stop = first.reference[6]
    model.model.generation_config.eos_token_id = stop
    end = first.reference.index(stop)
    batch = [replace(first, reference=first.reference[: end + 1])]
    generation = run(model, "synthetic:1", batch, stop_tokens=[stop])
    assert generation.outputs == [first.reference[: end + 1]]
    rounds = generation.rounds
    ahead = end  # tokens left to draft after the one that prefill gave
    for position, drafted in zip(rounds["position"], rounds["num_drafted"], strict=True):
        assert drafted == min(GAMMA, ahead - position + 1)
    assert rounds["num_emitted"][-1] == (rounds["num_drafted"][-1])


@pytest.mark.parametrize("mode", ["float32", "bfloat16"])
def test_a_recording_that_ends_early_is_continued_by_the_target(target, half, batch, mode):
    """No token is made up: beyond the recording the model itself decides, and a note says so."""
    model = target if mode == "float32" else half
    short = [replace(request, reference=request.reference[:9]) for request in batch]
    generation = run(model, "synthetic:1", short)
    assert [output[:9] for output in generation.outputs] == [r.reference for r in short]
    continued = [
        replace(request, token_ids=[*request.token_ids, *request.reference]) for request in short
    ]
    own = run(model, None, continued, gamma=0, max_new_tokens=LENGTH - 9).outputs
    assert [output[9:] for output in generation.outputs] == own
    assert generation.notes == ["5 prompts left the recorded output and were not drafted on"]


def test_output_that_leaves_the_recording_is_noted_and_stays_lossless(target, batch):
    wrong = [
        replace(r, reference=[*r.reference[:5], (r.reference[5] + 1) % 61, *r.reference[6:]])
        if index < 2
        else r
        for index, r in enumerate(batch)
    ]
    generation = run(target, "synthetic:1", wrong)
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]
    assert generation.notes == ["2 prompts left the recorded output and were not drafted on"]
    drafted = {0: 0, 4: 0}
    for owner, count in zip(
        generation.rounds["request"], generation.rounds["num_drafted"], strict=True
    ):
        drafted[owner] = drafted.get(owner, 0) + count
    assert drafted[0] < drafted[4]


def test_notes_begin_anew_with_every_cell(target, batch):
    drafter = make_drafter(target, "synthetic:1")
    run(target, drafter, [replace(r, reference=r.reference[:3]) for r in batch])
    assert drafter.notes()
    assert run(target, drafter, batch).notes == []


class Told:
    """Calls that a drafter got, in order."""

    def __init__(self, drafter, monkeypatch) -> None:
        self.calls: list[str] = []
        for name in ("start", "begin", "propose", "commit"):
            monkeypatch.setattr(drafter, name, self._noting(name, getattr(drafter, name)))

    def _noting(self, name, method):
        def noted(*arguments):
            self.calls.append(name)
            return method(*arguments)

        return noted


@pytest.mark.parametrize("cost", ["ngram", "model:near", "early-exit:1"])
def test_cost_runs_another_drafter_and_drops_its_draft(target, batch, monkeypatch, cost):
    models = {"near": noisy_copy(target, 0.2)}
    drafter = make_drafter(target, f"synthetic:0.7,cost={cost}", models)
    told = Told(drafter.cost, monkeypatch)
    generation = run(target, drafter, batch)
    assert generation.rounds["num_accepted"] == expected_acceptance(generation, batch, 0.7)
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]
    steps = max(generation.rounds["step"]) + 1
    assert told.calls.count("propose") == told.calls.count("commit") == steps
    assert told.calls.count("start") == 1
    assert told.calls.count("begin") == len(batch)
    assert drafter.weight_bytes == drafter.cost.weight_bytes


def test_only_at_temperature_zero():
    spec = parse_spec("synthetic:0.5")
    kind = drafter_class(spec)
    at = {"gamma": 4, "batch_size": 1}
    assert kind.impossible(spec, temperature=0.0, **at) is None
    assert "greedy" in kind.impossible(spec, temperature=0.5, **at)
