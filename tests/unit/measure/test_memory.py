"""Peak memory: that a peak inside the region is seen and one before it is not."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from specbench.measure import memory
from specbench.measure.memory import PeakMemory, available_bytes, capacity_bytes
from tests.unit.measure.fakes import FakeCuda

BLOCK_BYTES = 64 * 2**20
SLACK_BYTES = 16 * 2**20


def touch_and_free(size: int) -> None:
    block = bytearray(size)
    block[::4096] = b"x" * len(block[::4096])


def test_a_block_freed_inside_the_region_counts():
    before = psutil.Process().memory_info().rss
    with PeakMemory("cpu") as region:
        touch_and_free(BLOCK_BYTES)
    assert region.peak_bytes is not None
    assert region.peak_bytes >= before + BLOCK_BYTES - SLACK_BYTES


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux only")
def test_a_block_freed_before_the_region_does_not_count():
    touch_and_free(4 * BLOCK_BYTES)
    resident = psutil.Process().memory_info().rss
    with PeakMemory("cpu") as region:
        pass
    assert region.method == "VmHWM"
    assert region.peak_bytes is not None
    assert region.peak_bytes < resident + SLACK_BYTES


def test_without_the_kernels_mark_a_thread_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(memory, "_PROC_SELF", tmp_path / "absent")
    resident, samples = memory._ResidentSampler._resident, threading.Semaphore(0)

    def noting(sampler: memory._ResidentSampler) -> int:
        samples.release()
        return resident(sampler)

    monkeypatch.setattr(memory._ResidentSampler, "_resident", noting)
    before = psutil.Process().memory_info().rss
    with PeakMemory("cpu") as region:
        block = bytearray(BLOCK_BYTES)
        block[::4096] = b"x" * len(block[::4096])
        while samples.acquire(blocking=False):
            pass  # those before the block was whole
        for _ in range(2):  # when the second begins the first is kept
            assert samples.acquire(timeout=60.0)
        del block
    assert region.method.startswith("resident size sampled")
    assert region.peak_bytes is not None
    assert region.peak_bytes >= before + BLOCK_BYTES - SLACK_BYTES


def test_on_cuda_the_peak_of_tensors_is_reset_and_read():
    cuda = FakeCuda()
    cuda.peaks["cuda:1"] = 10**9
    with PeakMemory("cuda:1", cuda) as region:
        assert cuda.peaks["cuda:1"] == 0
        cuda.peaks["cuda:1"] = 123
    assert region.peak_bytes == 123
    assert region.method.startswith("torch.cuda.max_memory_allocated")


def test_what_graphs_keep_to_work_in_is_in_the_peak_and_told_apart():
    """Of this device, beyond what tensors hold in the same pools, and of graphs only."""
    cuda = FakeCuda()
    cuda.segments = [
        {"device": device, "segment_pool_id": pool, "total_size": 1000, "allocated_size": 300}
        for device, pool in ((1, (0, 0)), (1, (0, 7)), (1, (0, 8)), (0, (0, 9)))
    ]
    with PeakMemory("cuda:1", cuda) as region:
        region.mark_held()
        cuda.peaks["cuda:1"] = 50
    assert (region.peak_bytes, region.beyond_bytes, region.graph_bytes) == (1450, 50, 1400)


def test_the_gpu_says_its_own_capacity():
    assert capacity_bytes("cuda:0", FakeCuda()) == 80 * 2**30


def test_a_control_group_lowers_what_there_is_and_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its own and those above it: what is free is what is left of a limit, not the limit."""
    group = tmp_path / "sys/fs/cgroup/slurm/job"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/slurm/job\n")
    (group / "memory.max").write_text("max\n")
    machine = SimpleNamespace(total=2**33, available=2**32)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    assert capacity_bytes("cpu", root=tmp_path) == 2**33
    assert available_bytes("cpu", root=tmp_path) == 2**32
    (group.parent / "memory.max").write_text(f"{2**29}\n")
    (group.parent / "memory.current").write_text(f"{2**29 - 1000}\n")
    assert capacity_bytes("cpu", root=tmp_path) == 2**29
    assert available_bytes("cpu", root=tmp_path) == 1000


def test_an_allocator_that_tells_of_no_pools_leaves_the_peak_unknown():
    class WithoutPools(FakeCuda):
        def memory_snapshot(self) -> list[dict[str, Any]]:
            raise RuntimeError("cudaMallocAsync does not yet support memory snapshots")

    with PeakMemory("cuda:1", WithoutPools()) as region:
        region.mark_held()
    assert (region.peak_bytes, region.beyond_bytes, region.graph_bytes) == (None, 0, None)


def test_what_work_takes_is_what_was_not_held_before_it():
    cuda = FakeCuda()
    with PeakMemory("cuda:1", cuda) as region:
        cuda.held["cuda:1"] = 100  # weights and caches
        region.mark_held()
        cuda.peaks["cuda:1"] = 130
    assert (region.peak_bytes, region.beyond_bytes, region.graph_bytes) == (130, 30, 0)
    with PeakMemory("cuda:1", cuda) as region:
        pass
    assert region.beyond_bytes is None  # nobody said when the work began


def test_a_process_does_not_tell_work_from_what_is_held():
    with PeakMemory("cpu") as region:
        region.mark_held()
    assert region.beyond_bytes is None


def test_what_torch_holds_and_does_not_use_counts_as_free():
    cuda = FakeCuda()
    cuda.free, cuda.reserved, cuda.held["cuda:1"] = 50 * 10**9, 30 * 10**9, 10 * 10**9
    assert available_bytes("cuda:1", cuda) == 70 * 10**9


def test_a_machine_has_less_free_than_there_is():
    assert 0 < available_bytes("cpu") < capacity_bytes("cpu")
