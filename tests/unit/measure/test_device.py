"""Which device a name means, and what is written down about it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.measure import device


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 2, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_a_name_becomes_a_numbered_device(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int, expected: str
):
    gpus(monkeypatch, count)
    assert device.resolve(name) == expected


@pytest.mark.parametrize(
    ("name", "count", "part"),
    [
        ("cuda", 0, "sees no CUDA device"),
        ("cuda:2", 2, "cuda:0 to cuda:1"),
        ("cuda:x", 2, "no device 'cuda:x'"),
        ("tpu", 2, "unknown device 'tpu'"),
    ],
)
def test_a_device_that_is_not_there_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int, part: str
):
    gpus(monkeypatch, count)
    with pytest.raises(SpecbenchError, match=part):
        device.resolve(name)


def test_threads_default_to_the_cores_this_process_may_use(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    device.set_threads(None)
    device.set_threads(1)
    assert asked == [3, 1]


@pytest.mark.parametrize("threads", [None, 1, 32])
def test_a_usable_number_of_threads_is_accepted(
    monkeypatch: pytest.MonkeyPatch, threads: int | None
):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    device.check_threads(threads)


@pytest.mark.parametrize("threads", [-1, 0, 33, 10**25])
def test_more_threads_than_the_machine_runs_are_refused(
    monkeypatch: pytest.MonkeyPatch, threads: int
):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    with pytest.raises(SpecbenchError) as failure:
        device.check_threads(threads)
    assert str(failure.value) == (
        f"--threads {threads} is not usable. Give a whole number from 1 to 32, 8 per core of this"
        " machine"
    )


def test_the_description_is_plain_json_and_says_why_there_is_no_gpu():
    facts = device.describe("cpu")
    assert json.loads(json.dumps(facts)) == facts
    assert facts["threads"] == torch.get_num_threads()
    assert facts["memory_bytes"] > 0
    assert facts["gpu"] is None
    assert facts["gpu_unavailable"] == "the run is on the CPU"


def write_cache(folder: Path, processor: int, index: int, level: int, size: str, cpus: str) -> None:
    cache = folder / f"cpu{processor}" / "cache" / f"index{index}"
    cache.mkdir(parents=True)
    (cache / "level").write_text(f"{level}\n")
    (cache / "size").write_text(f"{size}\n")
    (cache / "shared_cpu_list").write_text(f"{cpus}\n")


def test_each_shared_last_level_cache_counts_once(tmp_path: Path):
    for processor in range(4):
        write_cache(tmp_path, processor, 0, 1, "32K", str(processor))
        write_cache(tmp_path, processor, 3, 3, "16384K", "0-1" if processor < 2 else "2-3")
    assert device.last_level_cache_bytes(tmp_path) == 2 * 16 * 2**20


def test_no_information_on_caches_is_none(tmp_path: Path):
    assert device.last_level_cache_bytes(tmp_path) is None
