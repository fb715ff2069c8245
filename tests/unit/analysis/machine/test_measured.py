"""What cells made of the machine, and rooflines with experts and attention, from records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.machine.columns import known_columns
from specbench.analysis.machine.limits import Limits, limits_of
from specbench.analysis.machine.measured import machine_of, machine_uses
from specbench.records.store import load_run
from tests.folders import update_cells
from tests.simulate import STEP_S, SimulatedDrafter, simulate_run

NGRAM = {"ngram": SimulatedDrafter(0.7, 0.02)}
COST = {"weight_bytes": 1e9, "kv_bytes_per_token": 1e5, "kv_written_bytes_per_token": 1e5}
PEAKS = {"peak_bandwidth_bytes_per_s": 8e10, "peak_read_bytes_per_s": 1e11}
MACHINE = {
    "bandwidth_bytes_per_s": 8e10,
    "read_bandwidth_bytes_per_s": 1e11,
    "matmul_flops_per_s": 1e12,
}
OPTIONS: dict[str, Any] = {"parameters": 500_000_000, "noise": 0.0, "tokens": 41}


def limits(folder: Path) -> Limits:
    run = load_run(folder)
    return limits_of(run, fit_run(run))


def simulated(folder: Path, **options: Any) -> Path:
    cost = {**COST, **PEAKS, **options.pop("cost", {})}
    return simulate_run(folder / "run", NGRAM, cost=cost, machine=MACHINE, **OPTIONS, **options)


def test_no_step_is_faster_than_the_faster_of_copying_and_reading(tmp_path: Path):
    (step,) = limits(simulated(tmp_path, gammas=(2,))).steps
    assert step.moving_s == pytest.approx((1e9 + 1e5 * 120.5) / 1e11)
    manifest = load_run(tmp_path / "run").manifest
    manifest.bandwidth_bytes_per_s = 2e11
    assert machine_of(manifest).bandwidth_bytes_per_s == 2e11
    manifest.read_bandwidth_bytes_per_s = None  # an older run
    assert machine_of(manifest).bandwidth_bytes_per_s == 2e11


def test_recorded_weights_and_attention_count_rather_than_all_parameters(tmp_path: Path):
    cost = {"multiplied_weights": 4e8, "attention_flops_per_pair": 1e5}
    (step,) = limits(simulated(tmp_path, gammas=(2,), cost=cost)).steps
    assert step.computing_s == pytest.approx((2 * 4e8 + 1e5 * 120.5) / 1e12)


def test_experts_let_v_of_the_roofline_rise_while_bytes_bind(tmp_path: Path):
    experts = {"expert_bytes": 8e8, "num_experts": 8, "active_experts": 1}
    found = limits(simulated(tmp_path, gammas=(4,), cost=experts))
    (step,) = found.steps
    # one token reads 0.2 GB and one expert of 0.1 GB, and 12 MB of keys and values
    one = 2e8 + 1e8 + 1.205e7
    assert step.moving_s == pytest.approx(one / 1e11)
    five = 2e8 + 8e8 * (1 - (7 / 8) ** 5) + 1.205e7
    (verify,) = found.verification
    assert verify.roofline == pytest.approx(five / one)


def test_uses_are_medians_over_tasks_of_every_setting(tmp_path: Path):
    folder = simulated(tmp_path, gammas=(2, 4), tasks=("code", "chat"), batch_sizes=(1, 2))
    uses = limits(folder).uses
    places = [(use.batch_size, use.drafter, use.gamma) for use in uses]
    assert places == [
        *((1, "none", 0), (1, "ngram", 2), (1, "ngram", 4)),
        *((2, "none", 0), (2, "ngram", 2), (2, "ngram", 4)),
    ]
    plain = uses[0]
    assert plain.moved == pytest.approx((1e9 + 1e5 * 120.5) / STEP_S / 1e11)
    assert (plain.counted, plain.energy_per_token_j, plain.rows_without) == (None, None, None)


def test_what_the_device_counted_stands_beside_what_must_move(tmp_path: Path):
    folder = simulated(tmp_path, gammas=(2,))
    update_cells(
        folder,
        counters={"dram_bytes_per_s": 6e10},
        memory={"rows_without_drafter": 100, "rows_with_drafter": 80},
        memory_peak_bytes=2_000_000_000,
        energy_per_token_j=0.5,
        compute_utilization=0.01,
        timing_share=0.001,
    )
    plain, drafted = limits(folder).uses
    assert plain.counted == drafted.counted == pytest.approx(0.6)
    assert (drafted.rows_without, drafted.rows_with) == (100, 80)
    assert (drafted.memory_bytes, drafted.energy_per_token_j) == (2e9, 0.5)
    assert (drafted.compute, drafted.timing_share) == (0.01, 0.001)


def test_cells_without_bytes_say_nothing_of_the_machine(tmp_path: Path):
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(2,), failed=[("ngram", 2)])
    run = load_run(folder)
    assert machine_uses(run.cells, machine_of(run.manifest)) == ()


def test_what_no_cell_recorded_is_named_with_the_reason(tmp_path: Path):
    folder = simulated(tmp_path, gammas=(2,))
    known = {"compute_utilization": 0.1, "memory_peak_bytes": 10**9}
    update_cells(folder, counters=None, energy_per_token_j=None, memory=None, **known)
    found = limits(folder)
    missing = "bandwidth counted by the GPU, rows that fit into memory, energy"
    assert {"counted", "rows", "J/token"}.isdisjoint(known_columns(found.uses))
    assert f"there is no record of {missing}" in found.lacking
    update_cells(folder, counters={"unavailable": "the run is on the CPU"})
    assert f"there is no record of {missing} (the run is on the CPU)" in limits(folder).lacking


def test_what_some_cell_recorded_is_a_column(tmp_path: Path):
    folder = simulated(tmp_path, gammas=(2,))
    seen = {"dram_bytes_per_s": 4e10}
    rows = {"rows_without_drafter": 9, "rows_with_drafter": 8}
    update_cells(folder, counters=seen, energy_per_token_j=2.0, memory=rows)
    uses = limits(folder).uses
    columns = known_columns(uses)
    assert [columns[name].text(uses[1]) for name in ("counted", "rows", "J/token")] == [
        "40%", "9/8", "2.000"
    ]  # fmt: skip
    assert not any("counted by the GPU" in text for text in limits(folder).lacking)
