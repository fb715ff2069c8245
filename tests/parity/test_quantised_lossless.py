"""A quantised target is held against its own plain decoding: token for token, whatever drafts."""

from __future__ import annotations

import functools

import pytest

from specbench.models.few_rows import FewRowsLinear, use_fast_order
from specbench.models.language_model import LanguageModel
from tests.lossless import greedy_faults
from tests.quantised import needs, quantised, wide_model
from tests.tiny import alpha, hugging_face_greedy, noisy_copy, requests, run_cell
from tests.tiny_seq2seq import encoder_decoder

pytestmark = needs("torchao")

METHODS = ("int8", "int4")
LENGTH = 16
PROMPTS = requests(5)


@functools.cache
def target(method: str) -> LanguageModel:
    return quantised(wide_model(), method)


@functools.cache
def drafters(method: str) -> dict[str, LanguageModel]:
    """Near the target: plain, quantised alike, quantised otherwise."""
    near = noisy_copy(wide_model(), 0.1)
    other = METHODS[method == METHODS[0]]
    return {"plain": near, "alike": quantised(near, method), "unlike": quantised(near, other)}


@functools.cache
def baseline(method: str, batch_size: int = 1) -> list[list[int]]:
    cell = run_cell(target(method), None, PROMPTS, batch_size=batch_size, max_new_tokens=LENGTH)
    return cell.outputs


@pytest.mark.parametrize("method", METHODS)
def test_the_baseline_is_generate_and_not_the_plain_model(method: str):
    expected = hugging_face_greedy(target(method), PROMPTS, LENGTH)
    assert greedy_faults(baseline(method), expected) == []
    unquantised = run_cell(wide_model(), None, PROMPTS, max_new_tokens=LENGTH).outputs
    assert greedy_faults(baseline(method), unquantised) != []


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize(
    "spec", ["model:plain", "model:alike", "model:unlike", "early-exit:1", "ngram"]
)
@pytest.mark.parametrize("method", METHODS)
def test_every_drafter_gives_the_quantised_targets_output(
    method: str, spec: str, gamma: int, batch_size: int
):
    cell = run_cell(
        target(method), spec, PROMPTS, gamma=gamma, batch_size=batch_size,
        max_new_tokens=LENGTH, models=drafters(method),
    )  # fmt: skip
    assert greedy_faults(cell.outputs, baseline(method)) == []
    assert 0 < alpha(cell) < 1


@pytest.mark.parametrize("method", METHODS)
def test_a_tree_gives_it_too(method: str):
    cell = run_cell(
        target(method), "model:alike,tree=8,topk=2", PROMPTS, gamma=3, batch_size=3,
        max_new_tokens=LENGTH, models=drafters(method),
    )  # fmt: skip
    assert greedy_faults(cell.outputs, baseline(method)) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_drafter_with_the_targets_weights_is_always_accepted_and_the_plain_model_not(method: str):
    models = {"same": quantised(wide_model(), method), "unquantised": wide_model()}

    def found(spec: str) -> float:
        options = {"gamma": 4, "max_new_tokens": LENGTH, "models": models}
        return alpha(run_cell(target(method), spec, PROMPTS, **options))

    assert found("model:same") == 1.0
    assert 0.3 < found("model:unquantised") < 1.0


@pytest.mark.parametrize("method", METHODS)
def test_only_plain_layers_are_turned_round_on_a_cpu(method: str, monkeypatch: pytest.MonkeyPatch):
    """A swapped product of a quantised layer would be of another matrix, or fail."""
    monkeypatch.setattr(
        "specbench.models.few_rows._faster_columns", lambda weights: {1: 2, 3: 4, 5: 5}
    )
    model = quantised(wide_model(), method)
    assert use_fast_order(model.model) == {1: 2, 3: 4, 5: 5}
    turned = [name for name, m in model.model.named_modules() if isinstance(m, FewRowsLinear)]
    assert turned == ["lm_head"]
    cell = run_cell(
        model, "model:alike", PROMPTS, gamma=4, max_new_tokens=LENGTH, models=drafters(method)
    )
    assert greedy_faults(cell.outputs, baseline(method)) == []


@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
def test_an_encoder_decoder_is_quantised_too(kind: str):
    plain = encoder_decoder(kind)
    target = quantised(plain, "int8")
    models = {"plain": plain, "alike": quantised(plain, "int8")}
    expected = run_cell(target, None, PROMPTS, max_new_tokens=LENGTH).outputs
    for spec in ("model:plain", "model:alike"):
        cell = run_cell(
            target, spec, PROMPTS, gamma=4, batch_size=3, max_new_tokens=LENGTH, models=models
        )
        assert greedy_faults(cell.outputs, expected) == []
    assert target.weight_bytes < 0.5 * plain.weight_bytes
