"""Drafting with models: what they draw from, padded heads, and the drafter's own context."""

from __future__ import annotations

import pytest
import torch

from specbench.drafters.base import Host, build_drafter
from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams, warp
from tests.tiny import (
    Words,
    alpha,
    copies,
    language_model,
    make_drafter,
    make_session,
    noisy_copy,
    requests,
    run_cell,
    shared_prefills,
    with_head,
)

WARM = SamplingParams(0.9, top_k=12, top_p=0.9)


def padded(width: int) -> tuple[LanguageModel, LanguageModel]:
    """A target of 61 ids and the same model with another head, one tokenizer of 50 words."""
    words = Words([f"w{index}" for index in range(50)])
    target = LanguageModel(language_model("llama").model, words, "target")
    return target, with_head(target, width)


@pytest.mark.parametrize("spec", ["model:near", "early-exit:1"])
@torch.inference_mode()
def test_q_is_the_drafters_own_warped_distribution(spec):
    """Recomputed without cache, from the text that the draft was conditioned on."""
    target = language_model("llama")
    near = noisy_copy(target, 0.3)
    drafter = make_drafter(target, spec, {"near": near})
    own = near if spec == "model:near" else drafter.model
    batch = requests(3)
    session = make_session(target, batch, gamma=3, batch_size=3, sampling=WARM)
    drafter.start(session)
    prefills = shared_prefills(target, batch)
    for slot, request in enumerate(batch):
        session.target_cache.restore(slot, prefills[request.prompt_id].snapshot)
        row = session.rows[slot]
        row.tokens = [*request.token_ids, 7]
        row.prompt_length, row.prompt_id, row.active = len(request.token_ids), "p", True
        session.rows.uniforms.begin(slot, 0, 0, request.prompt_id)
        drafter.begin(slot, {})
    draft = drafter.propose(3)
    assert draft.lengths == [3, 3, 3]
    for slot in range(3):
        text = torch.tensor([[*session.rows[slot].tokens, *draft.tokens[slot, :2].tolist()]])
        q = warp(own.model(text, use_cache=False).logits[0, -3:], WARM)
        assert torch.allclose(draft.probs[slot], q, atol=1e-5)


@pytest.mark.parametrize("width", [40, 64])
@pytest.mark.parametrize("sampling", [SamplingParams(), WARM], ids=["greedy", "sampled"])
def test_padded_heads(width, sampling):
    """A narrow drafter meets ids that it lacks, in prompts and in the output; it must not fail."""
    target, drafter = padded(width)
    batch = requests(6)
    options = {"sampling": sampling, "batch_size": 3}
    baseline = run_cell(target, None, batch, **options)
    ids = {token for output in baseline.outputs for token in output}
    assert max(ids) >= 40
    generation = run_cell(target, "model:d", batch, gamma=3, models={"d": drafter}, **options)
    if sampling.greedy:
        assert generation.outputs == baseline.outputs
    assert (alpha(generation) == 1) == (width == 64)
    assert alpha(generation) > 0.1


def test_ids_that_only_the_drafter_has_are_never_drafted():
    target, wide = padded(64)
    with torch.no_grad():
        wide.model.get_output_embeddings().weight[61:] *= 100
    for sampling in (SamplingParams(), SamplingParams(1.0)):
        generation = run_cell(
            target, "model:d", copies([1, 2, 3], 4), gamma=3, sampling=sampling, models={"d": wide}
        )
        assert max(token for output in generation.outputs for token in output) < 61
        assert alpha(generation) == 1


def test_another_vocabulary_is_refused_when_built():
    target, drafter = padded(61)
    drafter.tokenizer = Words([f"other{index}" for index in range(50)])
    with pytest.raises(SpecbenchError, match="another vocabulary"):
        make_drafter(target, "model:d", {"d": drafter})


def test_a_cell_beyond_the_drafters_own_context_is_refused():
    """Learned positions end; GPT-Neo's own window would be left silently."""
    target = language_model("llama")
    batch = copies(list(range(1, 11)), 1)
    for drafter in (
        language_model("gpt2", max_position_embeddings=20),
        language_model("gpt_neo", window_size=20),
    ):
        models = {"d": drafter}
        run_cell(target, "model:d", batch, gamma=3, max_new_tokens=6, models=models)
        with pytest.raises(SpecbenchError) as raised:
            run_cell(target, "model:d", batch, gamma=3, max_new_tokens=7, models=models)
        assert "takes 21 tokens" in str(raised.value)
        assert f"drafter {drafter.name}, 20" in str(raised.value)


def test_weight_bytes_are_the_drafters_own():
    target = language_model("llama")
    small = language_model("llama", num_hidden_layers=1)
    drafter = make_drafter(target, "model:d", {"d": small})
    assert drafter.weight_bytes == small.weight_bytes < target.weight_bytes


def test_a_dtype_and_a_device_of_its_own_are_asked_for():
    target, asked = language_model("llama"), {}

    def load(name: str, **placement: str) -> LanguageModel:
        asked[name] = placement
        return target

    build_drafter("model:near,dtype=bfloat16,device=cuda:1,gamma=auto", Host(target, load))
    build_drafter("model:same", Host(target, load))
    assert asked == {"near": {"dtype": "bfloat16", "device": "cuda:1"}, "same": {}}


@pytest.mark.parametrize(
    ("option", "says"),
    [("dtype=float8", "dtype=float8 is unknown"), ("device=gpu", "device=gpu is no device")],
)
def test_a_dtype_or_device_that_is_none_is_refused(option, says):
    with pytest.raises(SpecbenchError, match=says):
        make_drafter(language_model("llama"), f"model:near,{option}")
