"""Memory and disk: enough, little, none, and not to be written."""

from __future__ import annotations

import shutil
from collections import namedtuple
from types import SimpleNamespace

import pytest

from specbench.checkup import room
from specbench.weights import embedded
from tests.unit.checkup.worlds import World, one

Usage = namedtuple("Usage", "total used free")
MIB, GIB = 2**20, 2**30
LIMITED = {
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/memory.max": str(8 * GIB),
    "sys/fs/cgroup/memory.current": str(2 * GIB),
}


def memory(monkeypatch: pytest.MonkeyPatch, available: int, total: int) -> None:
    told = SimpleNamespace(available=available, total=total)
    monkeypatch.setattr("psutil.virtual_memory", lambda: told)


def disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10 * free, 9 * free, free))


@pytest.mark.parametrize(
    ("available", "total", "verdict", "value"),
    [
        (32 * GIB, 64 * GIB, "ok", "32.0 GiB free of 64.0 GiB"),
        (6 * GIB, 64 * GIB, "warn", "6.0 GiB free of 64.0 GiB"),
        (512 * MIB, 2 * GIB, "warn", "512 MiB free of 2.0 GiB"),
    ],
)
def test_little_free_memory_is_a_warning(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    available: int,
    total: int,
    verdict: str,
    value: str,
):
    memory(monkeypatch, available, total)
    finding = one(room.memory, world.machine())
    assert (finding.verdict, finding.value) == (verdict, value)


def test_a_control_groups_limit_is_the_memory_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    memory(monkeypatch, 32 * GIB, 64 * GIB)
    finding = one(room.memory, world.machine(files=LIMITED))
    assert finding.value == "6.0 GiB free of 8.0 GiB, the limit of a control group"


@pytest.mark.parametrize(
    ("free", "verdict"), [(2 * GIB, "ok"), (500 * MIB, "warn"), (10 * MIB, "fail")]
)
def test_room_for_results(world: World, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str):
    disk(monkeypatch, free)
    finding = one(room.results, world.machine())
    assert finding.verdict == verdict
    assert finding.value.endswith(f"free in {world.folder / 'results'}")
    assert verdict == "ok" or "--out" in finding.advice


def test_results_that_cannot_be_written_fail(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "_writable", lambda folder: False)
    finding = one(room.results, world.machine())
    assert (finding.verdict, finding.advice) == ("fail", "Write elsewhere with --out")


@pytest.fixture
def own_cache(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(world.folder / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_an_empty_cache_needs_room_for_the_default_model(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    disk(monkeypatch, 800_000_000)
    finding = one(room.cache, world.machine())
    assert finding.verdict == "ok"
    assert "the first run fetches the default model (93 MB)" in finding.value
    disk(monkeypatch, 600_000_000)
    finding = one(room.cache, world.machine())
    assert finding.verdict == "fail"
    assert finding.advice.startswith("Set SPECBENCH_CACHE to a folder with 668 MiB")


@pytest.mark.usefixtures("own_cache")
def test_a_cache_with_the_default_model_needs_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    disk(monkeypatch, 1000)
    there = embedded.Cached(world.folder, {}, None)
    monkeypatch.setattr(embedded, "inspect", lambda check_hashes: there)
    finding = one(room.cache, world.machine())
    assert finding.verdict == "ok"
    assert finding.value.endswith("with the default model")


@pytest.mark.usefixtures("own_cache")
def test_a_cache_that_cannot_be_written_fails(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "_writable", lambda folder: False)
    assert one(room.cache, world.machine()).verdict == "fail"
