"""Hugging Face's loop, watched: same text as the native engine, same accept counts per round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specbench.backends.base import Backend, EngineOptions, make_backend
from specbench.engine.request import Generation, Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.weights.progress import SILENT
from tests.tiny_target import PROMPTS, write_target

TOKENS = 24


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A target, and a draft model that agrees with it often but not always."""
    root = tmp_path_factory.mktemp("hf")
    target, draft = write_target(root / "target"), write_target(root / "draft")
    weights = load_file(draft / "model.safetensors")
    random = torch.Generator().manual_seed(3)
    noisy = {
        name: tensor + 0.05 * tensor.std() * torch.randn(tensor.shape, generator=random)
        if tensor.ndim == 2
        else tensor
        for name, tensor in weights.items()
    }
    save_file(noisy, draft / "model.safetensors", metadata={"format": "pt"})
    return {"target": str(target), "draft": str(draft)}


@pytest.fixture(scope="module")
def engines(folders: dict[str, str]) -> Iterator[dict[str, Backend]]:
    """The native engine and Hugging Face's, on the same target."""
    torch.set_num_threads(1)
    made = {}
    for name in ("native", "hf-assisted"):
        made[name] = make_backend(name)
        made[name].load(EngineOptions(folders["target"], device="cpu"), SILENT)
    yield made
    for backend in made.values():
        backend.close()


def point(drafter: str, gamma: int, temperature: float = 0.0, **changes: Any) -> Cell:
    return Cell(
        target="tiny", drafter=drafter, gamma=gamma, temperature=temperature, batch_size=1,
        task="mine", baseline="first" if drafter == "none" else None, **changes,
    )  # fmt: skip


def asked(backend: Backend) -> list[Request]:
    labels = {"task": "mine", "category": "x", "turn": 0, "source": "test"}
    return [
        Request(f"p{index}", f"p{index}", backend.tokenizer(text)["input_ids"], (), labels)
        for index, text in enumerate(PROMPTS)
    ]


def measured(backend: Backend, cell: Cell, limits: Limits) -> Generation:
    requests = asked(backend)
    backend.check([cell])
    backend.begin_block(requests, [cell], limits)
    try:
        return backend.generate(cell, requests, limits)
    finally:
        backend.end_block()


SPECS = ["ngram,match=first,max=3", "model:DRAFT", "early-exit:1"]


@pytest.mark.parametrize("gamma", [2, 4])
@pytest.mark.parametrize("spec", SPECS)
def test_rounds_are_those_of_the_native_engine(
    engines: dict[str, Backend], folders: dict[str, str], spec: str, gamma: int
):
    cell = point(spec.replace("DRAFT", folders["draft"]), gamma)
    mine, its = (measured(engines[name], cell, Limits(TOKENS)) for name in engines)
    assert its.outputs == mine.outputs
    columns = ("prompt_id", "round", "position", "num_accepted", "num_evaluated", "num_emitted")
    for column in columns:
        assert its.rounds[column] == mine.rounds[column], column
    assert its.rounds["num_drafted"] == mine.rounds["num_drafted"]
    assert 0 < sum(its.rounds["num_accepted"]) < sum(its.rounds["num_drafted"])


def test_the_drafter_that_comes_with_specbench_is_for_its_own_target(engines: dict[str, Backend]):
    with pytest.raises(SpecbenchError, match="was made for HuggingFaceTB/SmolLM2-135M-Instruct"):
        engines["hf-assisted"].check([point("model", 2)])


def test_the_baseline_has_a_round_per_token(engines: dict[str, Backend]):
    mine, its = (measured(engines[name], point("none", 0), Limits(TOKENS)) for name in engines)
    assert its.outputs == mine.outputs
    assert its.rounds["position"] == mine.rounds["position"]
    assert set(its.rounds["num_drafted"]) == {0}
    assert set(its.rounds["num_emitted"]) == {1}


@pytest.mark.parametrize("spec", ["none", *SPECS])
def test_a_stop_token_cuts_the_output_and_not_the_counts(
    engines: dict[str, Backend], folders: dict[str, str], spec: str
):
    whole = measured(engines["native"], point("none", 0), Limits(TOKENS)).outputs
    stops = frozenset(output[TOKENS // 2] for output in whole)
    gamma = 0 if spec == "none" else 4
    cell = point(spec.replace("DRAFT", folders["draft"]), gamma)
    mine, its = (measured(engines[name], cell, Limits(TOKENS, stops)) for name in engines)
    assert its.outputs == mine.outputs
    assert its.requests["stop_reason"] == mine.requests["stop_reason"]
    assert "stop" in its.requests["stop_reason"]
    assert its.rounds["num_accepted"] == mine.rounds["num_accepted"]
    assert its.rounds["num_emitted"] == mine.rounds["num_emitted"]


@pytest.mark.parametrize("spec", SPECS)
def test_times_add_up(engines: dict[str, Backend], folders: dict[str, str], spec: str):
    cell = point(spec.replace("DRAFT", folders["draft"]), 4)
    its = measured(engines["hf-assisted"], cell, Limits(TOKENS))
    for column in ("draft_s", "verify_s", "other_s"):
        assert all(seconds > 0 for seconds in its.rounds[column]), column
    requests = its.requests
    for ttft, decode, wall in zip(
        requests["ttft_s"], requests["decode_s"], requests["wall_s"], strict=True
    ):
        assert wall == pytest.approx(ttft + decode)
    assert all(seconds > 0 for seconds in requests["prefill_s"])


@pytest.mark.parametrize("spec", SPECS)
def test_sampled_text_depends_on_seed_and_prompt_only(
    engines: dict[str, Backend], folders: dict[str, str], spec: str
):
    text = spec.replace("DRAFT", folders["draft"])
    backend, limits = engines["hf-assisted"], Limits(TOKENS)
    cell = point(text, 4, 1.0, top_k=20, top_p=0.9)
    first, again = (measured(backend, cell, limits).outputs for _ in range(2))
    other = measured(backend, point(text, 4, 1.0, top_k=20, top_p=0.9, seed=1), limits).outputs
    assert first == again
    assert first != other


def test_a_generation_config_changes_nothing(folders: dict[str, str], tmp_path: Path):
    """The target's own settings are named and left out, as in the native engine."""
    folder = write_target(tmp_path / "target")
    settings = '{"eos_token_id": 2, "repetition_penalty": 5.0, "top_k": 1}'
    (folder / "generation_config.json").write_text(settings, encoding="utf-8")
    outputs = []
    for name in ("native", "hf-assisted"):
        backend = make_backend(name)
        backend.load(EngineOptions(str(folder), device="cpu"), SILENT)
        assert any("repetition_penalty" in notice for notice in backend.notices)
        outputs.append(measured(backend, point("none", 0), Limits(TOKENS)).outputs)
        backend.close()
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("spec", "batch_size", "reason"),
    [
        ("ngram,match=first", 2, "one prompt at a time"),
        ("ngram", 1, "write ngram,match=first"),
        ("ngram,match=first,min=2", 1, "write min=1"),
        ("medusa:x", 1, "no medusa drafter"),
        ("model:x,gamma=auto", 1, "chains of its own length"),
        ("model:x,tree=8", 1, "chains of its own length"),
        ("model:x", 1, None),
    ],
)
def test_what_its_loop_cannot_run_is_named(spec: str, batch_size: int, reason: str | None):
    cell = point(spec, 2).model_copy(update={"batch_size": batch_size})
    found = make_backend("hf-assisted").impossible(cell)
    assert found is None if reason is None else reason in str(found)
