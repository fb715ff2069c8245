"""Trainings that begin from a checkpoint instead of new weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specbench.errors import SpecbenchError
from specbench.training.batches import Split
from specbench.training.checkpoint import Origin, write_checkpoint
from specbench.training.loop import Budget, train
from specbench.training.session import KINDS
from specbench.training.state import Progress
from specbench.training.trainee import Trainee
from tests.tiny import VOCAB, random_model
from tests.unit.training import plain

IDS = torch.arange(VOCAB).flip(0)
ORIGIN = Origin(
    target={"name": "tiny"},
    corpus={"samples": 9, "greedy": 4, "tokens": 99, "kept_out": 2, "checked": 2, "sources": []},
    budget={"minutes": None, "steps": 20, "seed": 0},
    licence=None,
)
STEPS = Budget(minutes=None, steps=20, tokens_per_step=300)


@pytest.fixture(autouse=True)
def _no_tokenizer(monkeypatch: pytest.MonkeyPatch):
    """The target has none, so neither have its draft models."""
    monkeypatch.setattr("specbench.weights.loading._tokenizer", lambda *_: None)


def split() -> Split:
    return Split(list(plain.answers(20, 12)), list(plain.answers(2, seed=5)))


def new(kind: str) -> Trainee:
    target = plain.target()
    torch.manual_seed(3)
    return KINDS[kind](target, IDS[:50])


def saved(kind: str, folder: Path) -> Progress:
    folder.mkdir()
    made = new(kind)
    progress = train(made, split(), folder, STEPS)
    write_checkpoint(folder, made, IDS, progress, ORIGIN)
    return progress


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_it_begins_where_the_checkpoint_ended(kind: str, tmp_path: Path):
    before = saved(kind, tmp_path / "first")
    made = new(kind)
    made.start_from(str(tmp_path / "first"))
    (tmp_path / "second").mkdir()
    after = train(made, split(), tmp_path / "second", STEPS, start="first")
    first, last = after.checks[0], after.checks[-1]
    assert first["greedy"] == before.checks[-1]["greedy"]
    assert first["overlap"] == pytest.approx(before.checks[-1]["overlap"], abs=1e-6)
    assert before.checks[0]["overlap"] != pytest.approx(first["overlap"], abs=1e-3)
    assert after.loss is not None
    assert before.loss is not None
    assert after.loss < before.loss, "it went on to learn"
    assert last["step"] == 20


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_what_it_saves_has_the_form_of_what_it_began_from(kind: str, tmp_path: Path):
    saved(kind, tmp_path / "first")
    made = new(kind)
    made.start_from(str(tmp_path / "first"))
    (tmp_path / "second").mkdir()
    made.save(tmp_path / "second")
    for file in (tmp_path / "second").glob("*.safetensors"):
        tensors, theirs = load_file(file), load_file(tmp_path / "first" / file.name)
        assert tensors.keys() == theirs.keys()
        for name, tensor in tensors.items():
            assert torch.equal(tensor, theirs[name]), name
    config, theirs = (
        json.loads((tmp_path / part / "config.json").read_text()) for part in ("second", "first")
    )
    assert theirs.items() <= config.items()


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_another_size_than_the_commands_own_is_kept(kind: str, tmp_path: Path):
    """A head or model that someone else made: its sizes count, not those of new ones."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    made = new(kind)
    if kind == "medusa":
        made.num_steps = 2
        del made.module[2:]
    elif kind == "model":
        made.module = random_model("gpt2", n_embd=24, n_layer=1)
    else:
        made.config.intermediate_size = 56
        arguments = (len(made.columns),) if kind == "eagle3" else ()
        made.module = type(made.module)(made.config, *arguments)
    made.save(folder)
    sizes = [tuple(weight.shape) for weight in made.module.parameters()]
    again = new(kind)
    again.start_from(str(folder))
    assert [tuple(weight.shape) for weight in again.module.parameters()] == sizes
    loss = again.loss(plain.batch(plain.answers()))
    loss.backward()
    assert torch.isfinite(loss)
    if kind == "medusa":
        assert len(again.acceptance([plain.batch(plain.answers())]).greedy) == 2


def test_the_card_says_what_it_began_from(tmp_path: Path):
    saved("medusa", tmp_path / "first")
    origin = replace(ORIGIN, start=str(tmp_path / "first"))
    (tmp_path / "second").mkdir()
    checks = [{"step": 0, "greedy": [0.1], "overlap": [0.2]}] * 2
    write_checkpoint(
        tmp_path / "second", new("medusa"), IDS, Progress(5, 61.0, 1.5, checks), origin
    )
    card = (tmp_path / "second" / "README.md").read_text()
    assert "- Begun: from `first`, which had 20 steps\n" in card
    assert "| step | greedy, before | greedy | overlap, before | overlap |" in card
    facts = json.loads((tmp_path / "second" / "training.json").read_text())
    assert facts["earlier"]["steps"] == 20
    assert facts["earlier"]["earlier"] is None


def test_a_head_of_another_kind_is_refused(tmp_path: Path):
    saved("medusa", tmp_path / "heads")
    with pytest.raises(SpecbenchError, match="holds a head of kind medusa"):
        new("eagle").start_from(str(tmp_path / "heads"))


def test_heads_with_what_a_target_shares_are_refused(tmp_path: Path):
    saved("eagle", tmp_path / "head")
    weights = load_file(tmp_path / "head" / "model.safetensors")
    weights["embed_tokens.weight"] = torch.ones_like(new("eagle").head)
    save_file(weights, tmp_path / "head" / "model.safetensors")
    with pytest.raises(SpecbenchError, match="has token embeddings of its own"):
        new("eagle").start_from(str(tmp_path / "head"))
    saved("medusa", tmp_path / "heads")
    file = tmp_path / "heads" / "medusa_lm_head.safetensors"
    weights = load_file(file)
    weights |= {f"{head}.1.weight": torch.ones_like(new("medusa").head) for head in range(4)}
    save_file(weights, file)
    config = json.loads((tmp_path / "heads" / "config.json").read_text())
    (tmp_path / "heads" / "config.json").write_text(json.dumps(config | {"version": "1"}))
    with pytest.raises(SpecbenchError, match="have output layers of their own"):
        new("medusa").start_from(str(tmp_path / "heads"))
