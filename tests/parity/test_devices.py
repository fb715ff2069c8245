"""Layers spread over two devices, and drafters on another than the target's: the same output, and
no tensor meets one of another device but by being moved.

The devices are names on tensors of the CPU (:mod:`tests.devices`): what is tested is that all is
moved where it must be, not what a GPU computes.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator

import pytest
import torch
from accelerate.utils import send_to_device
from torch import nn

from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.devices import Devices
from tests.tiny import language_model, noisy_copy, requests, run_cell

PARTS = {
    "model.embed_tokens": "cuda:0",
    "model.rotary_emb": "cuda:0",
    "model.layers.0": "cuda:0",
    "model.layers.1": "cuda:1",
    "model.norm": "cuda:1",
    "lm_head": "cuda:1",
}
WARM = SamplingParams(0.8)


@pytest.fixture
def devices() -> Iterator[Devices]:
    with Devices() as mode:
        yield mode


def spread(devices: Devices) -> LanguageModel:
    """A copy of the tiny target in two halves; its parts move what they are given, as accelerate's
    do where transformers loads with a ``device_map``."""
    model = copy.deepcopy(language_model("llama").model)
    for path, device in PARTS.items():
        part = model.get_submodule(path)
        devices.put(part, device)
        part.register_forward_pre_hook(functools.partial(_fetch, device), with_kwargs=True)

    def give_back(_: nn.Module, __: object, given: dict, output: object) -> object:
        return send_to_device(output, devices.of(given["input_ids"]))

    model.register_forward_hook(give_back, with_kwargs=True)
    return LanguageModel(model, name="spread")


def _fetch(device: str, _: nn.Module, arguments: tuple, options: dict) -> tuple:
    place = torch.device(device)
    return send_to_device(arguments, place), send_to_device(options, place)


def elsewhere(devices: Devices, model: LanguageModel, device: str) -> LanguageModel:
    moved = copy.deepcopy(model.model)
    devices.put(moved, device)
    return LanguageModel(moved, name=f"on {device}")


def outputs(target: LanguageModel, spec: str | None, models=None, sampling=WARM) -> list[list[int]]:
    options = {"gamma": 3 if spec else 0, "batch_size": 3, "sampling": sampling}
    return run_cell(target, spec, requests(5), models=models, **options).outputs


@functools.cache
def near() -> LanguageModel:
    return noisy_copy(language_model("llama"), 0.2)


SPECS = (None, "ngram", "model:near", "model:near,tree=6,topk=2", "early-exit:1")


@functools.cache
def expected(spec: str | None) -> list[list[int]]:
    return outputs(language_model("llama"), spec, {"near": near()})


@pytest.fixture(scope="module", autouse=True)
def made_before_the_mode() -> None:
    for spec in SPECS:
        expected(spec)


@pytest.mark.parametrize("spec", SPECS)
def test_a_target_in_two_halves(devices, spec):
    target = spread(devices)
    assert target.device == torch.device("cuda:1")
    models = {"near": elsewhere(devices, near(), "cuda:1")}
    assert outputs(target, spec, models) == expected(spec)
    assert ("cuda:0", "cuda:1") in devices.copies


@pytest.mark.parametrize("spec", ["model:near", "model:near,tree=6,topk=2"])
@pytest.mark.parametrize("place", ["cuda:0", "cpu"])
def test_a_draft_model_on_another_device(devices, spec, place):
    target = elsewhere(devices, language_model("llama"), "cuda:1")
    drafter = elsewhere(devices, near(), place)
    assert outputs(target, spec, {"near": drafter}) == expected(spec)
    assert (place, "cuda:1") in devices.copies


def test_keys_are_written_where_their_layer_is(devices):
    target = spread(devices)
    cache = RowCache(1, 8)
    target.prefill([1, 2, 3], cache)
    assert [str(devices.of(keys)) for keys in cache.keys] == ["cuda:0", "cuda:1"]


def test_a_tensor_that_is_not_moved_is_caught(devices):
    target = elsewhere(devices, language_model("llama"), "cuda:1")
    drafter = elsewhere(devices, near(), "cuda:0")
    drafter.device = torch.device("cuda:1")  # so that tokens are not brought to its weights
    with pytest.raises(RuntimeError, match="expected one device"):
        outputs(target, "model:near", {"near": drafter})
