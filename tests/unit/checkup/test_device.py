"""Device, torch's build against the driver, and a torch that can't be had."""

from __future__ import annotations

import pytest
import torch

from specbench.checkup import device
from tests.unit.checkup.worlds import World, one
from tests.unit.measure.fake_state import FakeStateNvml


def test_the_cpu_is_used_where_torch_sees_nothing_else(world: World):
    finding = one(device.used_by_default, world.machine())
    assert (finding.verdict, finding.value) == ("ok", "cpu")


def test_a_torch_that_cannot_be_loaded_is_a_failure(world: World, monkeypatch: pytest.MonkeyPatch):
    def broken(name: str) -> str:
        raise ImportError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr("specbench.measure.device.resolve", broken)
    finding = one(device.used_by_default, world.machine())
    assert finding.verdict == "fail"
    assert finding.value.startswith("torch can't be used: libcudart.so.13")
    assert finding.advice == "Install it: pip install torch"


def test_a_missing_gpu_has_its_reason(world: World):
    finding = one(device.gpu, world.machine())
    assert (finding.verdict, finding.value) == ("ok", "none seen (no NVIDIA driver: Not Supported)")


@pytest.mark.parametrize(
    ("built", "advice"), [(None, "Install the CUDA build"), ("13.0", "CUDA_VISIBLE_DEVICES")]
)
def test_a_gpu_that_torch_leaves_alone_is_a_warning(
    world: World, monkeypatch: pytest.MonkeyPatch, built: str | None, advice: str
):
    monkeypatch.setattr(torch.version, "cuda", built)
    finding = one(device.gpu, world.with_gpu())
    assert (finding.verdict, finding.value) == ("warn", "Fake H100 is here, but torch can't use it")
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("built", "newest", "verdict"),
    [("13.0", 13000, "ok"), ("12.9", 13000, "ok"), ("13.1", 13000, "ok"), ("13.0", 12080, "fail")],
)
def test_a_build_for_a_newer_major_cuda_than_the_drivers_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, built: str, newest: int, verdict: str
):
    monkeypatch.setattr(torch.version, "cuda", built)
    finding = one(device.cuda, world.with_gpu(nvmlSystemGetCudaDriverVersion=newest))
    assert finding.verdict == verdict
    assert f"torch has {built}" in finding.value
    assert "driver 580.1 runs up to" in finding.value


def test_what_the_driver_does_not_say_of_cuda_is_not_guessed(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    silent = FakeStateNvml(unsupported=("nvmlSystemGetCudaDriverVersion",))
    finding = one(device.cuda, world.machine(silent))
    assert finding.value == "driver 580.1: not known (Not Supported); torch has 13.0"


def test_without_a_gpu_only_torchs_build_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert one(device.cuda, world.machine()).value == "torch is built without it"


def test_the_processor_is_named(world: World):
    finding = one(device.cpu, world.machine())
    assert finding.verdict == "ok"
    assert "cache not known" in finding.value
