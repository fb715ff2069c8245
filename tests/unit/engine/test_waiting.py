"""A round waits for the device once: when it reads what was accepted.

Counted on the CPU, by what torch is asked: numbers read back to the host, and tensors made of the
host's numbers elsewhere than in the one place that does it without waiting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specbench.engine import speculative
from specbench.engine.loop import decode
from specbench.engine.recorder import Recorder
from specbench.engine.request import Limits
from specbench.sampling.warp import SamplingParams
from tests import trained
from tests.captured import run_captured
from tests.tape import Waits
from tests.tiny import (
    language_model,
    make_decoder,
    make_drafter,
    make_session,
    noisy_copy,
    requests,
    run_cell,
    shared_prefills,
    with_references,
)

SPECS = (
    "ngram",
    "model:near",
    "model:near,tree=8,topk=2",
    "early-exit:1",
    "synthetic:0.6",
    "medusa:{}/medusa",
    "medusa:{}/medusa,tree=8",
    "eagle:{}/eagle",
    "eagle:{}/eagle,tree=8,topk=2",
    "eagle3:{}/eagle3",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made, target = tmp_path_factory.mktemp("heads"), language_model("llama")
    trained.train_medusa(made / "medusa", target, requests(4), steps=30)
    trained.train_eagle(made / "eagle", target, requests(4), steps=30)
    trained.train_eagle3(made / "eagle3", target, requests(4), steps=30)
    return made


class Watched:
    """Counts the waits of each round of a decoder."""

    def __init__(self, decoder: Any) -> None:
        self.inner = decoder
        self.session, self.clock, self.drafter = decoder.session, decoder.clock, decoder.drafter
        self.rounds: list[Waits] = []

    def round(self) -> Any:
        with Waits() as waits:
            result = self.inner.round()
        self.rounds.append(waits)
        return result


def watched_rounds(spec: str | None, temperature: float, captured: bool) -> list[Waits]:
    target = language_model("llama")
    near = {"near": noisy_copy(target, 0.2)}
    batch = with_references(target, requests(4), 17)
    found: list[Watched] = []

    def wrap(decoder: Any) -> Watched:
        found.append(Watched(decoder))
        return found[-1]

    options: dict[str, Any] = {
        "gamma": 3 if spec else 0,
        "batch_size": 3,
        "sampling": SamplingParams(temperature),
        "max_new_tokens": 12,
    }
    if captured:
        run_captured(target, spec, batch, models=near, wrap=wrap, **options)
    else:
        drafter = make_drafter(target, spec, near) if spec else None
        del options["max_new_tokens"]
        session = make_session(target, batch, max_new_tokens=12, drafter=drafter, **options)
        prefills = shared_prefills(target, batch, drafter)
        decode(wrap(make_decoder(target, drafter, session)), batch, prefills, Limits(12))
    return found[0].rounds


@pytest.mark.parametrize("captured", [False, True], ids=["as they are", "captured"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("spec", [None, *SPECS])
def test_a_round_waits_once(folder, spec, temperature, captured):
    if spec is not None and spec.startswith("synthetic") and temperature > 0:
        pytest.skip("synthetic drafters replay greedy output")
    rounds = watched_rounds(spec and spec.format(folder), temperature, captured)
    assert len(rounds) > 5
    for waits in rounds:
        assert waits.reads == ["tolist"]
        assert waits.uploads == []


def test_a_draft_of_automatic_length_waits_once_more_per_token():
    """Whether a row goes on is decided on the host: the price of ``gamma=auto``."""
    rounds = watched_rounds("model:near,gamma=auto,c=0.01", 0.0, captured=True)
    assert max(len(waits.reads) for waits in rounds) == 1 + 3
    assert min(len(waits.reads) for waits in rounds) >= 1 + 1
    assert all(waits.uploads == [] for waits in rounds)


def test_recording_a_round_reads_nothing(monkeypatch):
    """Overlaps stay where they are until the cell has ended."""
    target, sound, reads = language_model("llama"), Recorder.add, []

    def watched(self, *args):
        with Waits() as waits:
            sound(self, *args)
        reads.extend(waits.reads)

    monkeypatch.setattr(Recorder, "add", watched)
    near = {"near": noisy_copy(target, 0.2)}
    options = {"gamma": 3, "batch_size": 2, "sampling": SamplingParams(1.0), "models": near}
    generation = run_cell(target, "model:near", requests(4), **options)
    assert reads == []
    assert all(len(overlap) > 0 for overlap in generation.rounds["overlap"])


@pytest.mark.parametrize("where", ["read", "upload"])
def test_a_planted_wait_is_counted(monkeypatch, where):
    sound = speculative.verify_greedy

    def waiting(choices, tokens, lengths):
        if where == "read":
            assert int(lengths.max()) >= 0
        else:
            lengths = torch.tensor(lengths.shape[0] * [3])
        return sound(choices, tokens, lengths)

    monkeypatch.setattr(speculative, "verify_greedy", waiting)
    rounds = watched_rounds("model:near", 0.0, captured=False)
    counted = [waits.reads[:-1] if where == "read" else waits.uploads for waits in rounds]
    assert all(len(found) == 1 for found in counted)
