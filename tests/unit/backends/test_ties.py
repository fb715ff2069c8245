"""Whether rounding explains a parting: tight ties do, clear preferences do not, in any dtype."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from specbench.backends import _ties
from specbench.backends._ties import TieMeter
from specbench.backends.base import Divergence, TieMeasure
from specbench.backends.native import NativeBackend
from specbench.engine.request import Limits, Request
from specbench.records.schema import Cell
from tests.quantised import needs
from tests.tiny_seq2seq import encoder_decoder
from tests.tiny_target import PROMPTS

Load = Callable[..., NativeBackend]
LAST_PLACE = {"float32": 2.0**-23, "bfloat16": 2.0**-7}


def point(gamma: int = 3, batch_size: int = 1) -> Cell:
    key = {"target": "tiny", "temperature": 0.0, "task": "mine", "drafter": "ngram"}
    return Cell(gamma=gamma, batch_size=batch_size, **key)  # type: ignore[arg-type]


def request(backend: NativeBackend, text: str) -> Request:
    return Request(text, text, backend.tokenizer(text)["input_ids"])


def logits_after(backend: NativeBackend, tokens: list[int]) -> torch.Tensor:
    """[S, V] logits after each token, in the target's dtype, read in one forward."""
    cache = backend.target.new_cache(1, len(tokens))
    return backend.target.forward(torch.tensor([tokens]), cache, [0]).logits[0].float()


def partings(backend: NativeBackend) -> list[tuple[float, Divergence]]:
    """Every point of some greedy outputs as if the second-best token had been taken there.

    Sorted by how much better the best token is, in the target's dtype.
    """
    asked = [request(backend, text) for text in PROMPTS]
    found = []
    for one, output in zip(asked, backend.greedy_outputs(asked, Limits(60)), strict=True):
        best = logits_after(backend, [*one.token_ids, *output]).topk(2)
        for length in range(1, len(output)):
            at = len(one.token_ids) + length - 1
            gap = (best.values[at, 0] - best.values[at, 1]).item()
            first, second = best.indices[at].tolist()
            found.append((gap, Divergence(one, output[:length], (first, second))))
    return sorted(found, key=lambda item: item[0])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_in_bfloat16_tokens_a_rounding_apart_are_tied_and_others_are_not(
    load: Load, batch_size: int
):
    backend = load("bfloat16")
    ordered = partings(backend)
    tied = [where for gap, where in ordered if gap <= LAST_PLACE["bfloat16"] * 2]
    assert len(tied) >= 3  # with 8 bits of precision, ties are common
    for where in tied[:4]:
        tie = backend.measure_tie(point(batch_size=batch_size), where)
        assert tie is not None
        assert tie.gap_dtype == "float32"
        assert tie.gap <= 2 * tie.noise
    for _, where in ordered[-3:]:
        tie = backend.measure_tie(point(batch_size=batch_size), where)
        assert tie is not None
        assert tie.gap > 2 * tie.noise


def test_in_float32_only_what_float32_cannot_tell_apart_is_tied(load: Load):
    backend = load("float32")
    for _, where in partings(backend)[:3]:
        tie = backend.measure_tie(point(), where)
        assert tie is not None
        assert tie.gap_dtype == "float32"
        assert tie.gap > 2 * tie.noise
        assert tie.noise < 1e-4
        equal = backend.measure_tie(
            point(), Divergence(where.request, where.shared, (where.tokens[0],) * 2)
        )
        assert equal is not None
        assert equal.gap == 0


def test_the_gap_is_from_the_best_token_to_the_worse_of_the_two(load: Load):
    backend = load("float32")
    asked = request(backend, PROMPTS[2])
    context = [*asked.token_ids, 70]
    logits = backend.target.prefill(context, backend.target.new_cache(1, len(context)))
    ordered = logits.argsort(descending=True).tolist()
    tie = backend.measure_tie(point(), Divergence(asked, [70], (ordered[3], ordered[1])))
    assert tie is not None
    assert tie.gap == pytest.approx((logits[ordered[0]] - logits[ordered[3]]).item())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_noise_is_at_least_the_last_place_of_a_logit(
    load: Load, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    def never_rounding(
        model: object, prompt: object, context: list[int], start: int, *_: int
    ) -> torch.Tensor:
        return torch.linspace(-4.0, 3.0, 259).expand(len(context) - start, -1)

    backend = load(dtype)
    monkeypatch.setattr(_ties, "_logits", never_rounding)
    where = Divergence(request(backend, PROMPTS[0]), [70, 71], (5, 6))
    assert TieMeter(backend.target).measure(where, 4, 1).noise == LAST_PLACE[dtype] * 3


def test_what_the_dtype_itself_is_wrong_by_counts_where_the_gap_is_from_float32(
    load: Load, monkeypatch: pytest.MonkeyPatch
):
    def reading(
        model: object, prompt: object, context: list[int], start: int, *_: int
    ) -> torch.Tensor:
        off_by = 0.0 if model is backend.target else 0.5
        return torch.linspace(-4.0, 3.0, 259).expand(len(context) - start, -1) + off_by

    backend = load("bfloat16")
    monkeypatch.setattr(_ties, "_logits", reading)
    where = Divergence(request(backend, PROMPTS[0]), [70, 71], (5, 6))
    assert TieMeter(backend.target).measure(where, 4, 1).noise == pytest.approx(0.5)


@pytest.mark.parametrize("gamma", [1, 3, 40])
@pytest.mark.parametrize("tokens", [1, 2, 30])
def test_contexts_and_drafts_of_any_length_can_be_measured(load: Load, gamma: int, tokens: int):
    backend = load("float32")
    where = Divergence(Request("x", "x", [70]), list(range(70, 69 + tokens)), (5, 6))
    tie = TieMeter(backend.target).measure(where, gamma + 1, 2)
    assert tie.gap > 0
    assert 0 < tie.noise < 1e-3


def test_the_noise_of_a_shape_only_grows(load: Load):
    meter = TieMeter(load("bfloat16").target)
    backend = load("bfloat16")
    seen = 0.0
    for text in PROMPTS:
        asked = request(backend, text)
        tie = meter.measure(Divergence(asked, [70, 71, 72], (5, 6)), 4, 1)
        assert tie.noise >= seen
        seen = tie.noise


def test_without_room_for_a_float32_copy_the_gap_is_the_cells_own_and_said(
    load: Load, monkeypatch: pytest.MonkeyPatch
):
    backend = load("bfloat16")
    monkeypatch.setattr(_ties, "available_bytes", lambda device: 1)
    asked = request(backend, PROMPTS[0])
    tie = backend.measure_tie(point(), Divergence(asked, [70], (5, 6)))
    assert isinstance(tie, TieMeasure)
    assert tie.gap_dtype == "bfloat16"
    assert backend._ties is not None
    assert backend._ties._exact is backend.target


def test_the_target_itself_stays_as_it_was(load: Load):
    backend = load("bfloat16")
    asked = request(backend, PROMPTS[0])
    before = backend.greedy_outputs([asked], Limits(8))
    backend.measure_tie(point(), Divergence(asked, [70], (5, 6)))
    assert backend.target.dtype == torch.bfloat16
    assert {p.dtype for p in backend.target.model.parameters()} == {torch.bfloat16}
    assert backend.greedy_outputs([asked], Limits(8)) == before


def test_the_gap_of_an_encoder_decoder_is_seen_from_its_source():
    target, prompt = encoder_decoder("t5"), [9, 8, 7, 5]
    cache = target.new_cache(1, 3)
    target.show_source(prompt, cache)
    logits = target.forward(torch.tensor([[0, 5, 6]]), cache, [0]).logits[0, -1]
    first, second = logits.topk(2).indices.tolist()
    measured = TieMeter(target).measure(
        Divergence(Request("p", "c", prompt), [5, 6], (first, second)), num_verified=3, batch_size=2
    )
    assert measured.gap == pytest.approx((logits[first] - logits[second]).item(), abs=1e-5)
    assert 0 < measured.noise < 1e-4


@needs("torchao")
@pytest.mark.parametrize("method", ["int8", "int4"])
def test_a_quantised_targets_gap_is_of_its_own_dtype(load: Load, method: str):
    """There is no float32 copy of integers: a wider one would be another model."""
    backend = load("bfloat16", target_quantization=method)
    ordered = partings(backend)
    meter = TieMeter(backend.target)
    nearest, clearest = (meter.measure(ordered[at][1], 4, 1) for at in (0, -1))
    assert nearest.gap_dtype == clearest.gap_dtype == "bfloat16"
    assert nearest.gap <= 2 * nearest.noise
    assert clearest.gap > 2 * clearest.noise
