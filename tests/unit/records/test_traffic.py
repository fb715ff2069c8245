"""Bytes of recorded steps against the same model forward by forward, and disagreement in words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from specbench.records.steps import all_steps
from specbench.records.summary import summarize
from specbench.records.traffic import disagreement, traffic_fields
from specbench.theory.traffic import Experts, Traffic
from tests.forwards import flops, forward
from tests.unit.records import samples

TARGET = Traffic(
    weight_bytes=1000.0,
    kv_bytes=2.0,
    experts=Experts(640.0, count=8, active=2),
    lookup_bytes=3.0,
    multiplied=500.0,
    attention_flops=7.0,
)
DRAFTER = Traffic(weight_bytes=100.0, kv_bytes=0.5)
COST: dict[str, float | None] = {
    "weight_bytes": 1640.0,
    "expert_bytes": 640.0,
    "num_experts": 8,
    "active_experts": 2,
    "lookup_bytes": 3.0,
    "kv_bytes_per_token": 2.0,
    "kv_written_bytes_per_token": 2.0,
    "multiplied_weights": 500.0,
    "attention_flops_per_pair": 7.0,
    "drafter_weight_bytes": 100.0,
    "drafter_kv_bytes_per_token": 0.5,
    "peak_bandwidth_bytes_per_s": 8000.0,
    "peak_read_bytes_per_s": 10_000.0,
    "peak_flops_per_s": 1e6,
    "timing_s_per_step": 0.01,
}


def rounds(batch_size: int = 2) -> samples.Columns:
    """Two steps of two rows with their own lengths: drafts of 3, and none."""
    rows = []
    for step, (contexts, drafted) in enumerate((((10, 30), 3), ((12, 31), 0))):
        for slot, context in enumerate(contexts):
            rows.append(
                {"request": slot, "slot": slot, "step": step, "context_length": context}
                | {"num_drafted": drafted, "num_verified": drafted + 1, "num_accepted": 0}
                | {"draft_s": 0.3, "verify_s": 1.0, "other_s": 0.2, "active_rows": batch_size}
            )
    return samples.rounds_table(rows)


def test_steps_move_what_their_forwards_move():
    steps = all_steps(rounds())
    fields = traffic_fields(steps, steps, COST)
    verify, plain = forward(TARGET, [9, 29], new=4), forward(TARGET, [11, 30])
    drafts = [forward(DRAFTER, [9 + step, 29 + step]) for step in range(3)]
    moved = verify.total + plain.total + sum(draft.total for draft in drafts)
    assert fields["bandwidth_bytes_per_s"] == pytest.approx(moved / 3.0)
    assert fields["bandwidth_utilization"] == pytest.approx(moved / 3.0 / 8000)
    assert fields["read_bandwidth_utilization"] == pytest.approx(moved / 3.0 / 10_000)
    assert fields["bytes_per_target_forward"] == pytest.approx(moved / 2)
    assert fields["bytes_per_emitted_token"] == pytest.approx(moved / 4)
    traffic = fields["traffic"]
    assert traffic["total_bytes"] == pytest.approx(moved)
    weights = verify.weights + verify.lookups + plain.weights + plain.lookups
    assert traffic["weights_bytes"] == pytest.approx(weights / 2)
    assert traffic["kv_read_bytes"] == pytest.approx((verify.kv_read + plain.kv_read) / 2)
    assert traffic["kv_written_bytes"] == pytest.approx((verify.kv_written + plain.kv_written) / 2)
    assert traffic["drafter_bytes"] == pytest.approx(sum(draft.total for draft in drafts) / 2)


def test_steps_do_what_their_forwards_do():
    steps = all_steps(rounds())
    fields = traffic_fields(steps, steps, COST)
    operations = flops(TARGET, [9, 29], new=4) + flops(TARGET, [11, 30])
    assert fields["flops_per_target_forward"] == pytest.approx(operations / 2)
    assert fields["compute_utilization"] == pytest.approx(operations / 3.0 / 1e6)


def test_a_drafter_in_the_targets_cache_reads_its_layers_share_of_it():
    steps = all_steps(rounds())
    own = {**COST, "drafter_kv_bytes_per_token": 0, "drafter_kv_read_bytes_per_token": 0.5}
    assert traffic_fields(steps, steps, own) == traffic_fields(steps, steps, COST)
    none = {**COST, "drafter_kv_bytes_per_token": 0}
    assert traffic_fields(steps, steps, none)["traffic"]["drafter_bytes"] == pytest.approx(150)


def test_the_total_is_of_all_steps_and_rates_are_of_full_ones():
    columns = rounds()
    columns["active_rows"] = [2, 2, 1, 1]
    fields = summarize(samples.cell(batch_size=2), columns, samples.batch()[1], cost=COST)
    full = forward(TARGET, [9, 29], new=4).total
    full += sum(forward(DRAFTER, [9 + step, 29 + step]).total for step in range(3))
    assert fields["bandwidth_bytes_per_s"] == pytest.approx(full / 1.5)
    assert fields["traffic"]["total_bytes"] > full


def test_older_records_keep_their_numbers():
    """They know of no written drafts, no experts, no operations."""
    old = {name: COST[name] for name in ("kv_bytes_per_token", "drafter_weight_bytes")}
    steps = all_steps(rounds())
    fields = traffic_fields(steps, steps, {**old, "weight_bytes": 1000.0})
    assert fields["traffic"]["total_bytes"] == 2 * 1000 + 2 * (10 + 30 + 12 + 31) + 3 * 100
    assert "compute_utilization" not in fields
    assert fields["read_bandwidth_utilization"] is None


def test_choosing_tokens_is_a_part_of_the_rest():
    columns: dict[str, Any] = rounds()
    fields = summarize(samples.cell(batch_size=2), columns, samples.batch()[1], cost=COST)
    assert fields["sampling_s"] is None  # an older table
    columns["sampling_s"] = [0.15] * 4
    fields = summarize(samples.cell(batch_size=2), columns, samples.batch()[1], cost=COST)
    assert fields["sampling_s"] == pytest.approx(0.15)
    assert fields["other_s"] == pytest.approx(0.2)
    assert fields["timing_share"] == pytest.approx(0.01 / 1.5)


@pytest.mark.parametrize("counted", [86e9, 100e9, 114e9])
def test_model_and_counter_agree(counted: float):
    assert disagreement(100e9, counted) is None


@pytest.mark.parametrize(("counted", "apart"), [(84e9, "-16%"), (1.2e12, "+1100%")])
def test_disagreement_names_both_figures(counted: float, apart: str):
    text = disagreement(100e9, counted)
    assert text is not None
    assert apart in text
    assert re.findall(r"[\d,.]+\d", text)[:2] == ["100.0", f"{counted / 1e9:,.1f}"]
