"""Every number of a cell's line, computed by hand from the small tables in samples.py."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from specbench.records.schema import CellRecord
from specbench.records.summary import summarize
from tests.unit.records import samples

COST = {
    "weight_bytes": 1000.0,
    "kv_bytes_per_token": 2.0,
    "drafter_weight_bytes": 100.0,
    "peak_bandwidth_bytes_per_s": 4000.0,
}


def check(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        if isinstance(value, float | list):
            assert fields[name] == pytest.approx(value), name
        else:
            assert fields[name] == value, name


def test_batch_1_with_two_baselines() -> None:
    baselines = [samples.single_baseline(1.0), samples.single_baseline(1.02)]
    fields = summarize(samples.cell(), *samples.single(), baselines, COST)
    decode = 4 * 1.5 + 1.1  # the four rounds that drafted, and the one that did not
    step_s = 1.01  # T1
    moved = 5 * 1000 + 2 * (10 + 13 + 14 + 20 + 22) + 8 * 100
    check(
        fields,
        {
            "num_prompts": 2,
            "num_rounds": 5,
            "num_drafted": 8,
            "num_evaluated": 7,
            "num_accepted": 5,
            "alpha": 5 / 7,
            "alpha_overlap": 3.0 / 5,
            "alpha_by_position": [3 / 4, 2 / 3],
            "survival_by_position": [3 / 5, 2 / 5],
            "draft_acceptance_rate": 5 / 8,
            "tau": 2.0,
            "draft_length_mean": 8 / 5,
            "wall_s": 8.6,
            "prefill_s": 1.5,
            "decode_s": decode,
            "ttft_s": 0.75,
            "itl_s": 7.1 / 8,
            "tokens": 10,
            "tok_per_s": 8 / decode,
            "draft_s": 0.9 / 5,
            "verify_s": 5.7 / 5,
            "other_s": 0.1,
            "c": 0.8 / 8 / step_s,
            "v": 1.2 / step_s,
            "overhead": 0.1 / step_s,
            "speedup": 8 * step_s / decode,
            "end_to_end_speedup": (9 + 9.16) / 20 / (8.6 / 10),
            "noise_floor": 0.02,
            "bandwidth_bytes_per_s": moved / decode,
            "bandwidth_utilization": moved / decode / 4000,
            "bytes_per_target_forward": moved / 5,
            "bytes_per_emitted_token": moved / 8,
        },
    )
    low, high = fields["speedup_ci"]
    assert low < fields["speedup"] < high
    assert 0 <= fields["alpha_ci"][0] < 5 / 7 < fields["alpha_ci"][1] <= 1
    assert fields["warnings"] == ["few prompts: intervals rest on 2"]
    assert "lossless" not in fields


def test_paired_speedup_interval_by_hand() -> None:
    # logarithm of the speedup: prompt shares 5/8, 3/8 of seconds and of tokens in the baseline
    # (residual 0), of the cell's 7.1 s 4.1 and 3.0, of its 8 tokens 5 and 3
    fields = summarize(samples.cell(), *samples.single(), [samples.single_baseline()], None)
    residual = 4.1 / 7.1 - 5 / 8
    variance = residual**2 / (1 - 5 / 8) + residual**2 / (1 - 3 / 8)
    reach = 12.706204736432095 * math.sqrt(variance)  # t with 1 degree of freedom
    speedup = 8 / 7.1
    assert fields["speedup_ci"] == pytest.approx(
        (speedup * math.exp(-reach), speedup * math.exp(reach))
    )
    assert fields["noise_floor"] is None


def test_batch_2_counts_a_step_once_and_only_full_ones() -> None:
    point = samples.cell(batch_size=2)
    fields = summarize(point, *samples.batch(), [samples.batch_baseline()], COST)
    moved = 2 * 1000 + 2 * (10 + 30 + 12 + 32) + 3 * 100
    check(
        fields,
        {
            "num_rounds": 5,
            "num_accepted": 4,
            "num_evaluated": 6,
            "tau": 1 + 4 / 5,
            "decode_s": 5.5,
            "prefill_s": 1.0,
            "wall_s": 6.5,
            "itl_s": 9.5 / 9,
            "tokens": 11,
            "tok_per_s": 6 / 4.0,
            "draft_s": 0.4,
            "verify_s": 1.4,
            "other_s": 0.2,
            "c": 0.8 / 3,
            "v": 1.4,
            "overhead": 0.2,
            "speedup": (6 / 4.0) / (6 / 3.0),
            "end_to_end_speedup": (1 + 5.7) / 6.5,
            "speedup_ci": None,  # two steps are not eight blocks
            "bandwidth_bytes_per_s": moved / 4.0,
        },
    )


def test_batch_2_interval_rests_on_prompts_and_time_blocks() -> None:
    # per prompt 2 tokens of 2 rounds or 6 of 2; steps of 1.4 s and of 1 s without any noise
    step = {"num_drafted": 2, "active_rows": 2, "draft_s": 0.2, "verify_s": 1.2, "other_s": 0.0}
    plain = step | {"num_drafted": 0, "num_accepted": 0, "draft_s": 0.0, "verify_s": 1.0}
    rows, plain_rows = [], []
    for number in range(8):
        for slot in (0, 1):
            place = {"request": 2 * (number // 2) + slot, "slot": slot, "step": number}
            rows.append({**place, **step, "num_accepted": 2 * slot})
            plain_rows.append({**place, **plain})
    requests = samples.requests_table(
        [{"num_tokens": 3 + 4 * (request % 2), "decode_s": 2.8} for request in range(8)]
    )
    point = samples.cell(batch_size=2)
    baselines = [(samples.rounds_table(plain_rows), requests)]
    fields = summarize(point, samples.rounds_table(rows), requests, baselines)
    assert fields["speedup"] == pytest.approx(2 / 1.4)
    # tokens shares 1/16 or 3/16 against 1/8 of the rounds, 7 degrees of freedom
    reach = 2.3646242515927844 * math.sqrt(8 / 7 * 8 / 16**2)
    assert fields["speedup_ci"] == pytest.approx(
        (2 / 1.4 * math.exp(-reach), 2 / 1.4 * math.exp(reach))
    )
    # a batch of 3 was never full, nor was its baseline: the same steps, the same answer
    wide = summarize(samples.cell(batch_size=3), samples.rounds_table(rows), requests, baselines)
    assert wide["speedup_ci"] == pytest.approx(fields["speedup_ci"])
    assert any("all slots full" in text for text in wide["warnings"])


def test_batch_never_full_counts_all_steps_and_says_so() -> None:
    point = samples.cell(batch_size=4)
    fields = summarize(point, *samples.batch(), [samples.batch_baseline()])
    assert fields["tok_per_s"] == pytest.approx(9 / 5.5)
    assert "no step had all slots full: speed is over all steps" in fields["warnings"]


def test_baseline_cell() -> None:
    point = samples.cell(drafter="none", gamma=0, baseline="first")
    tables = samples.single_baseline()
    fields = summarize(point, *tables, [tables, samples.single_baseline(1.1)])
    check(fields, {"tau": 1.0, "tok_per_s": 1.0, "noise_floor": 0.1, "v": 0.9 / 1.05})
    record = CellRecord.of(point, **fields)
    for name in ("alpha", "alpha_ci", "c", "speedup", "alpha_by_position", "draft_length_mean"):
        assert getattr(record, name) is None, name


def test_without_baselines_nothing_relative_is_known() -> None:
    record = CellRecord.of(samples.cell(), **summarize(samples.cell(), *samples.single()))
    assert record.tok_per_s is not None
    for name in ("speedup", "speedup_ci", "c", "v", "overhead", "noise_floor"):
        assert getattr(record, name) is None, name


@pytest.mark.parametrize("unknown", ["weight_bytes", "kv_bytes_per_token", "drafter_weight_bytes"])
def test_unknown_bytes_give_no_bandwidth(unknown: str) -> None:
    fields = summarize(samples.cell(), *samples.single(), [], {**COST, unknown: None})
    assert fields.get("bandwidth_bytes_per_s") is None
    assert fields.get("bandwidth_utilization") is None


def test_a_drafter_of_one_step_reads_its_weights_once_per_draft() -> None:
    plain = summarize(samples.cell(), *samples.single(), [], COST)
    once = summarize(samples.cell(), *samples.single(), [], {**COST, "drafter_one_step": True})
    drafted = samples.single()[0]["num_drafted"]
    saved = COST["drafter_weight_bytes"] * sum(max(0, n - 1) for n in drafted) / len(drafted)
    per_forward = "bytes_per_target_forward"
    assert plain[per_forward] - once[per_forward] == pytest.approx(saved)


def test_a_tree_is_counted_by_levels() -> None:
    """Batch 1, gamma 2, 7 nodes: a drafter takes two steps, whatever the number of nodes."""
    rounds, requests = samples.single()
    rounds["num_drafted"] = [6, 6, 0, 6, 6]
    rounds["num_verified"] = [7, 7, 1, 7, 7]
    rounds["num_evaluated"] = [2, 1, 0, 1, 2]  # request 1 first ends at a leaf: nothing rejected
    rounds["path"] = [[1, 3], [], [], [2], [1, 4]]
    fields = summarize(samples.cell(), rounds, requests, [samples.single_baseline(1.0)] * 2, COST)
    check(
        fields,
        {
            "tree_nodes": 7,
            "num_drafted": 24,
            "draft_length_mean": 8 / 5,
            "alpha": 5 / 6,
            "alpha_by_position": [3 / 4, 1.0],
            "survival_by_position": [3 / 5, 2 / 5],
            "draft_acceptance_rate": 5 / 24,
            "tau": 2.0,
            "c": 0.8 / 8,
            "v": 1.2,
        },
    )
    assert summarize(samples.cell(), *samples.single())["tree_nodes"] is None


def test_unknown_peak_leaves_the_rate() -> None:
    fields = summarize(
        samples.cell(), *samples.single(), [], {**COST, "peak_bandwidth_bytes_per_s": None}
    )
    assert fields["bandwidth_bytes_per_s"] > 0
    assert fields["bandwidth_utilization"] is None


def test_data_frames_give_the_same() -> None:
    tables = samples.single(), samples.single_baseline()
    frames = [tuple(pd.DataFrame(part) for part in pair) for pair in tables]
    plain = summarize(samples.cell(), *tables[0], [tables[1]], COST)
    assert summarize(samples.cell(), *frames[0], [frames[1]], COST) == plain  # type: ignore[arg-type]


def test_speedup_inside_the_noise_is_said() -> None:
    baselines = [samples.single_baseline(0.8), samples.single_baseline(1.0)]
    fields = summarize(samples.cell(), *samples.single(), baselines)
    assert fields["speedup"] == pytest.approx(0.9 * 8 / 7.1)
    assert any("noise floor (25.0% between baselines)" in text for text in fields["warnings"])


def test_a_cell_that_ended_in_prefill_has_no_rates() -> None:
    rounds = {name: [] for name in samples.single()[0]}
    requests = samples.requests_table([{"num_tokens": 1, "decode_s": 0.0, "stop_reason": "stop"}])
    baselines = [samples.single_baseline()]
    record = CellRecord.of(samples.cell(), **summarize(samples.cell(), rounds, requests, baselines))
    assert record.tokens == 1
    assert record.num_rounds == 0
    for name in ("alpha", "tau", "tok_per_s", "itl_s", "speedup", "survival_by_position"):
        assert getattr(record, name) is None, name
