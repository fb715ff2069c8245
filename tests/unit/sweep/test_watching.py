"""A cell's record beside the machine: on the CPU, on a GPU that counts, and its warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.measure import memory, nvml
from specbench.measure.watch import UNWATCHED
from specbench.records.schema import CellRecord
from specbench.records.store import load_run
from specbench.sweep import watching
from tests.unit.measure.counting import RATE, CountingNvml, install
from tests.unit.sweep.fakes import FakeBackend, Sweep

CAPACITY = 1_000_000
NEVER_S = 3600.0  # the thread takes no look, however long a cell lasts
SECONDS = 4.0


class Gpu(CountingNvml):
    """Counts while the fake backend decodes; prefill before and after is loud and does not count.

    Attributes:
        watts, dram: while decoding.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.watts, self.dram = 250.0, 0.0

    def decode(self, backend: FakeBackend) -> None:
        self.pass_time(9.0, watts=700.0, dram=1.0)
        backend.watch.resume()
        self.pass_time(SECONDS, watts=self.watts, dram=self.dram)
        backend.watch.pause()
        self.pass_time(9.0, watts=700.0, dram=1.0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, sweep: Sweep) -> Gpu:
    """The fake backend decodes on a GPU that exists in name only."""
    fake = install(monkeypatch, Gpu())
    monkeypatch.setattr(nvml, "uuid_of", lambda device: "GPU-1")
    made = watching.Sampler
    monkeypatch.setattr(
        watching, "Sampler", lambda uuid: made(uuid, interval_s=NEVER_S, now=fake.now)
    )
    sweep.backend.on_generate = lambda cell: fake.decode(sweep.backend)
    return fake


def records(sweep: Sweep) -> list[CellRecord]:
    """Those of a whole run."""
    found = load_run(sweep.run()).cells
    assert len(found) == 4
    return found


def test_of_a_target_on_several_devices_no_ones_counters_are_taken(
    gpu: Gpu, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    sweep.backend.devices = ["cuda:0", "cuda:1"]
    each = {"cuda:0": CAPACITY, "cuda:1": 2 * CAPACITY}
    monkeypatch.setattr(watching, "capacity_bytes", each.__getitem__)
    for cell in records(sweep):
        assert cell.counters is not None
        assert cell.counters["unavailable"] == "the target is spread over several devices"
        assert cell.energy_j is cell.memory_peak_bytes is None
        assert cell.memory_capacity_bytes == 3 * CAPACITY
        assert cell.memory is not None
        assert cell.memory["activation_bytes"] is None


def test_on_the_cpu_the_reason_stands_where_counters_would(sweep: Sweep):
    for cell in records(sweep):
        assert cell.counters is not None
        assert cell.counters["unavailable"] == "the run is on the CPU"
        assert cell.energy_j is cell.energy_per_token_j is None
        assert cell.memory is not None
        assert cell.memory["activation_bytes"] is None
    assert sweep.backend.watch is UNWATCHED


def test_memory_says_what_lies_in_it_and_what_fits(sweep: Sweep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "capacity_bytes", lambda device: CAPACITY)
    cost = {"weight_held_bytes": 100_000, "drafter_held_bytes": 300_000, "kv_bytes_per_token": 10}
    own = {"drafter_kv_bytes_per_token": 5, "weight_bytes": 1, "drafter_weight_bytes": 1}
    monkeypatch.setattr(sweep.backend, "cost", lambda cell: {**cost, **own})
    for cell in records(sweep):
        found = cell.memory
        assert found is not None
        tokens = found["row_tokens"]
        assert tokens > 9  # of the prompt, and nine more
        assert found["rows_without_drafter"] == int(900_000 // (10 * tokens))
        beside = int(600_000 // (15 * tokens))
        assert found["rows_with_drafter"] == (None if cell.is_baseline else beside)
        assert found["weight_bytes"] == 100_000


def test_only_decoding_is_counted(sweep: Sweep, gpu: Gpu):
    for cell in records(sweep):
        assert cell.counters is not None
        assert cell.counters["seconds"] == pytest.approx(SECONDS)
        assert cell.energy_j == pytest.approx(1000.0)
        emitted = cell.tokens - cell.num_prompts  # the first of each came with its prompt
        assert cell.energy_per_token_j == pytest.approx(1000.0 / emitted)
        assert cell.gpu is not None  # type: ignore[attr-defined]
        assert not any("slowed down" in text for text in cell.warnings)
    assert gpu.open_sessions == gpu.open_samples == 0


@pytest.mark.parametrize(("factor", "warned"), [(1.0, False), (1.1, False), (0.5, True)])
def test_model_and_counter_stand_side_by_side(sweep: Sweep, gpu: Gpu, factor: float, warned: bool):
    """The fake GPU moves what the model says, or another amount."""
    (plain, *_) = records(sweep)
    assert plain.traffic is not None
    gpu.dram = factor * plain.traffic["total_bytes"] / SECONDS / RATE
    another = sweep.config.folder.parent / "another"
    sweep.config = sweep.config.model_copy(update={"out": another})
    first = records(sweep)[0]
    assert first.counters is not None
    found = first.counters["dram_bytes_per_s"]
    assert found == pytest.approx(factor * plain.traffic["total_bytes"] / SECONDS)
    told = [text for text in first.warnings if "disagree" in text]
    assert bool(told) == warned
    if warned:
        assert "-50%" in told[0]


def test_throttling_and_neighbours_are_warned_about(
    sweep: Sweep, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
):
    made = watching.Sampler
    gpu.throttled = 0x04

    def looking(uuid: str) -> Any:
        sampler = made(uuid)
        pause = sampler.pause
        monkeypatch.setattr(sampler, "pause", lambda: (sampler.look(), pause()))
        return sampler

    monkeypatch.setattr(watching, "Sampler", looking)
    gpu._processes = (4711,)
    for cell in records(sweep):
        assert any("slowed down in 100% of 1 looks: power limit" in text for text in cell.warnings)
        assert any(text.endswith("on the GPU: 4711") for text in cell.warnings)


def test_a_failing_cell_stops_the_counting(sweep: Sweep, gpu: Gpu):
    def fail(cell: Any) -> None:
        sweep.backend.watch.resume()
        raise MemoryError("no room")

    sweep.backend.on_generate = fail
    assert {cell.status for cell in records(sweep)} == {"out_of_memory"}
    assert sweep.backend.watch is UNWATCHED
    assert gpu.open_sessions == 0


def test_activations_are_what_decoding_takes_beyond_what_lay_there(
    sweep: Sweep, gpu: Gpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    class Cuda:
        held, peak = 500, 500

        def reset_peak_memory_stats(self, device: str) -> None:
            Cuda.peak = Cuda.held

        def memory_allocated(self, device: str) -> int:
            return Cuda.held

        def max_memory_allocated(self, device: str) -> int:
            return Cuda.peak

        def memory_snapshot(self) -> list[dict[str, Any]]:
            pool = {"device": 0, "segment_pool_id": (0, 1)}
            return [{**pool, "total_size": 90, "allocated_size": 20}]

    class OnCuda(memory.PeakMemory):
        def __init__(self, device: str) -> None:
            super().__init__("cuda:0", Cuda())

    def decode(cell: Any) -> None:
        Cuda.held = 700  # the cell's caches
        sweep.backend.watch.resume()
        Cuda.peak = 730
        sweep.backend.watch.pause()
        Cuda.held = 500

    monkeypatch.setattr(watching, "PeakMemory", OnCuda)
    sweep.backend.on_generate = decode
    for cell in records(sweep):
        assert cell.memory is not None
        assert (cell.memory["activation_bytes"], cell.memory["graph_bytes"]) == (30, 70)
        assert cell.memory_peak_bytes == 730 + 70
