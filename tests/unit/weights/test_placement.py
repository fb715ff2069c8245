"""Where weights go: one device, or several of which each takes what it has room for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.weights import loading, placement
from specbench.weights.loading import load_causal_lm
from specbench.weights.placement import Placement
from tests.unit.weights.tiny import write_folder

FREE = {"cuda:0": 10_000_000_000, "cuda:1": 30_000_000_000}


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(placement, "available_bytes", lambda device: FREE[str(device)])


def test_the_cpu_needs_no_placing() -> None:
    here = Placement.of("cpu")
    assert (here.first, here.is_spread, here.options) == (torch.device("cpu"), False, {})


@pytest.mark.usefixtures("two_gpus")
def test_one_gpu_gets_everything_and_several_what_they_have_room_for() -> None:
    assert Placement.of("auto").options == {"device_map": {"": torch.device("cuda:0")}}
    both = Placement.of("cuda:1,cuda:0")
    assert (str(both), both.first, both.is_spread) == ("cuda:1, cuda:0", both.devices[0], True)
    assert both.free_bytes == 40_000_000_000
    assert both.options == {
        "device_map": "balanced",
        "max_memory": {1: 27_000_000_000, 0: 9_000_000_000},
    }


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("text", "says"),
    [("cuda:0,cuda", "names a device twice"), ("cuda:0,cuda:2", "no device 'cuda:2'")],
)
def test_devices_that_are_not_there_or_named_twice(text: str, says: str) -> None:
    with pytest.raises(SpecbenchError, match=says):
        Placement.of(text)


def test_who_asked_for_a_device_is_named() -> None:
    with pytest.raises(SpecbenchError, match=r"^drafter small: device=cuda:7: ") as caught:
        Placement.of("cuda:7", "drafter small: device=cuda:7")
    assert caught.value.hint == "Leave device= out"


@pytest.mark.usefixtures("two_gpus")
def test_what_cannot_be_spread_is_refused_by_name() -> None:
    with pytest.raises(SpecbenchError, match="can't be spread over 2 devices"):
        load_causal_lm("shape:llama-3.2-1b", device="cuda:0,cuda:1")
    assert Placement.of("cuda:1").require_one("this") == torch.device("cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_a_folder_is_loaded_over_both_and_stays_where_it_was_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "tiny")
    sound, asked = loading.auto_class, {}

    class Spread:
        @staticmethod
        def from_pretrained(path: Path, **options: object) -> object:
            asked.update(device_map=options.pop("device_map"), memory=options.pop("max_memory"))
            config = options["config"]
            model, info = sound(config).from_pretrained(path, **options)
            model.to = lambda *_: pytest.fail("the weights were moved")
            return model, info

        _model_mapping = None

    monkeypatch.setattr(loading, "auto_class", lambda config: Spread)
    loaded = load_causal_lm(str(folder), device="cuda:0,cuda:1")
    assert asked["device_map"] == "balanced"
    assert list(asked["memory"]) == [0, 1]
    assert loaded.parameters > 0


@pytest.mark.usefixtures("two_gpus")
def test_room_is_that_of_all_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "tiny")
    monkeypatch.setattr(placement, "available_bytes", lambda device: 1000)
    with pytest.raises(SpecbenchError, match="and cuda:0, cuda:1 has 2e-06 GB free"):
        load_causal_lm(str(folder), device="cuda:0,cuda:1")
