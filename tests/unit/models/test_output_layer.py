"""Models whose output layer is quantised: what works without its matrix, and who refuses it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.models.early import first_layers
from specbench.models.language_model import LanguageModel
from specbench.training.session import KINDS
from tests import published
from tests.quantised import PackedLinear, needs, quantised, wide_model
from tests.tiny import make_drafter, requests, run_cell


class PackedHead(PackedLinear):
    """A packed output layer that says the token after the first state's largest number."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States [..., H] to logits [..., V]."""
        return nn.functional.pad(states, (0, self.out_features - self.in_features))


@pytest.fixture
def target() -> LanguageModel:
    """A tiny model with a vocabulary of 72 and an output layer without a matrix."""
    model = copy.deepcopy(wide_model().model)
    model.config.vocab_size = 72
    model.set_input_embeddings(nn.Embedding(72, 64))
    model.set_output_embeddings(PackedHead(64, 72))
    return LanguageModel(model, name="packed")


def test_sizes_device_and_dtype_are_known(target: LanguageModel):
    assert (target.vocab_size, target.state_size) == (72, 64)
    assert (target.device.type, target.dtype) == ("cpu", torch.float32)
    plain = wide_model()
    assert (plain.vocab_size, plain.state_size) == (61, 64)


def test_the_layers_buffers_are_read_and_the_embedding_is_not(target: LanguageModel):
    head = 64 * 72 // 2 + 2 * 72 // 2 + 2 * 72 * 2 + 64 * 4
    assert target.weight_bytes == wide_model().weight_bytes - 4 * 61 * 64 + head


def test_it_decodes_and_drafts(target: LanguageModel):
    prompts = requests(3, vocab=72)
    plain = run_cell(target, None, prompts).outputs
    for spec in ("ngram", "early-exit:1"):
        assert run_cell(target, spec, prompts, gamma=3, batch_size=3).outputs == plain
    assert first_layers(target, 1).vocab_size == 72


def test_a_cut_vocabulary_needs_the_matrix(target: LanguageModel, tmp_path: Path):
    head = published.write_ranking(published.write_medusa(tmp_path, target), [5, 3])
    with pytest.raises(SpecbenchError) as caught:
        make_drafter(target, f"medusa:{head},vocab=2")
    assert "the output layer of packed is quantised (PackedHead): vocab=2" in str(caught.value)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_training_needs_the_matrix(target: LanguageModel, kind: str):
    with pytest.raises(SpecbenchError) as caught:
        KINDS[kind](target, torch.arange(20))
    assert "the output layer of packed is quantised" in str(caught.value)


@needs("torchao")
def test_drafters_are_trained_for_a_quantised_target_but_not_from_quantised_weights(
    monkeypatch: pytest.MonkeyPatch,
):
    target = quantised(wide_model(), "int8")
    trainee = KINDS["model"](target, torch.arange(20))
    assert torch.equal(trainee.head, wide_model().model.get_output_embeddings().weight)

    class Loaded:
        model, tokenizer = target.model, None

    monkeypatch.setattr("specbench.training.draft_model.load_causal_lm", lambda *_, **__: Loaded)
    with pytest.raises(SpecbenchError) as caught:
        trainee.start_from("packed-drafter")
    assert "'packed-drafter' is quantised" in str(caught.value)
