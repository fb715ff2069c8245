"""A served cell's numbers, each by hand from its streams and counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from specbench.records.schema import Cell, CellRecord
from specbench.records.served import summarize_served
from specbench.records.served.counts import Counts, of_requests
from specbench.records.summary_identities import record_identities

STEP_S = 0.5
TTFT_S = 2.0


def cell(drafter: str = "model:x", gamma: int = 2, **more: Any) -> Cell:
    point = {"target": "m", "drafter": drafter, "gamma": gamma, "temperature": 0, "task": "chat"}
    return Cell(**{**point, "batch_size": 1, "backend": "openai:http://x", **more})


def plain(**more: Any) -> Cell:
    return cell("none", 0, baseline="first", **more)


def requests(
    *streams: Sequence[int], step_s: float = STEP_S, told: bool = True, **more: Any
) -> dict[str, Any]:
    """Answers one after the other, a chunk every ``step_s`` after a first one at TTFT_S."""
    rows: dict[str, list[Any]] = {}
    start = 0.0
    for number, sizes in enumerate(streams):
        decode_s = step_s * (len(sizes) - 1)
        row = {
            "conversation": f"p{number}",
            "prompt_tokens": 10,
            "num_tokens": sum(sizes),
            "ttft_s": TTFT_S,
            "decode_s": decode_s,
            "wall_s": TTFT_S + decode_s,
            "sent_s": start,
            "chunk_s": [start + TTFT_S + step_s * place for place in range(len(sizes))],
            "chunk_tokens": list(sizes) if told else None,
            "figures": None,
        }
        start += row["wall_s"]
        for name, value in {**row, **more}.items():
            rows.setdefault(name, []).append(value)
    return rows


def server(rows: dict[str, Any], **counts: Any) -> dict[str, Any]:
    return {"seconds": float(sum(rows["wall_s"])), "counts": Counts(**counts).document()}


STREAMS = ((1, 3, 1, 2), (1, 2, 3, 3))
ROUNDS = {"drafts": 6, "drafted": 12, "accepted": 8, "accepted_at": [5, 3]}


def test_acceptance_is_what_the_counters_rose_by():
    rows = requests(*STREAMS)
    found = summarize_served(cell(), rows, server(rows, **ROUNDS))
    assert (found["num_rounds"], found["num_drafted"], found["num_accepted"]) == (6, 12, 8)
    assert found["tau"] == pytest.approx(1 + 8 / 6)
    assert found["survival_by_position"] == pytest.approx([5 / 6, 3 / 6])
    assert found["draft_acceptance_rate"] == pytest.approx(8 / 12)
    assert found["alpha"] == pytest.approx(8 / (8 + 6 - 3))
    assert found["alpha_by_position"] == pytest.approx([5 / 6, 3 / 5])
    assert found["num_evaluated"] == 11
    low, high = found["alpha_ci"]
    assert 0 <= low < found["alpha"] < high <= 1


def test_times_are_of_the_stream():
    rows = requests(*STREAMS)
    found = summarize_served(cell(), rows, server(rows, **ROUNDS))
    assert found["tokens"] == 16
    assert found["decode_s"] == pytest.approx(3.0)
    assert found["itl_s"] == pytest.approx(3.0 / 14)  # first tokens apart
    assert found["step_s"] == pytest.approx(STEP_S)
    assert found["ttft_s"] == pytest.approx(TTFT_S)
    assert found["wall_s"] == pytest.approx(7.0)
    assert found["tok_per_s"] == pytest.approx(16 / 7)
    assert found["requests_per_s"] == pytest.approx(2 / 7)
    assert found["percentiles"]["wall_s"]["p99"] == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("limits_ms", "good"),
    [
        ({"ttft": 2000.0}, 3),
        ({"ttft": 1999.0}, 0),
        ({"tpot": 310.0}, 3),  # 1.5 s / 6, 1.5 s / 5; an answer of one chunk takes none
        ({"tpot": 260.0}, 2),
        ({"tpot": 240.0}, 1),
        ({"e2el": 3000.0}, 1),
        ({"ttft": 2000.0, "tpot": 260.0, "e2el": 3000.0}, 1),
    ],
)
def test_goodput_counts_the_requests_within_all_their_limits(
    limits_ms: dict[str, float], good: int
):
    rows = requests((1, 3, 1, 2), (1, 1, 2, 2), (1,))
    told = {**server(rows), "goodput_limits_ms": limits_ms}
    found = summarize_served(plain(), rows, told)
    assert found["goodput_per_s"] == pytest.approx(good / 9.0)
    assert found["goodput_share"] == pytest.approx(good / 3)


def test_without_limits_there_is_no_goodput():
    rows = requests(*STREAMS)
    record = CellRecord.of(plain(), **summarize_served(plain(), rows, server(rows)))
    assert record.goodput_per_s is None
    assert record.goodput_share is None


def test_an_honest_cell_breaks_no_identity():
    rows = requests(*STREAMS)
    fields = summarize_served(cell(), rows, server(rows, **ROUNDS))
    record = CellRecord.of(cell(), imported_from="vllm", **fields)
    assert record_identities(record) == []


def test_times_per_token_of_answers_that_were_cut_are_no_contradiction():
    rows = requests((1, 3, 1), (1, 3, 1))  # each last round committed 3, of which 1 was wanted
    counts = {"drafts": 4, "drafted": 8, "accepted": 8, "accepted_at": [4, 4]}
    fields = summarize_served(cell(), rows, server(rows, **counts))
    assert fields["tau"] == 3.0
    record = CellRecord.of(cell(), imported_from="vllm", **fields)
    assert record_identities(record) == []
    (fault,) = record_identities(record.updated(itl_s=0.5 * record.itl_s))[:1]
    assert fault.startswith("step times: ")


def test_rounds_without_a_draft_are_seen_in_the_chunks():
    rows = requests((1, 1, 1, 3), (1, 1, 2, 1))
    counts = {"drafts": 2, "drafted": 4, "accepted": 3, "accepted_at": [2, 1]}
    found = summarize_served(cell("ngram"), rows, server(rows, **counts))
    assert found["num_rounds"] == 6
    assert found["tau"] == pytest.approx(1 + 3 / 6)
    assert found["survival_by_position"] == pytest.approx([2 / 6, 1 / 6])
    assert found["draft_length_mean"] == pytest.approx(4 / 6)


def test_a_chunk_of_more_than_a_round_can_commit_is_no_round():
    """Two rounds came as one chunk of 4 tokens, and the server counts no drafts to tell by."""
    rows = requests((1, 4, 2), (1, 3, 1))
    found = summarize_served(cell(), rows, server(rows, drafted=12, accepted=8))
    assert found.get("tau") is None
    assert found.get("num_rounds") is None
    rows = requests((1, 3, 1, 2), (1, 3, 1))
    assert summarize_served(cell(), rows, server(rows, drafted=12, accepted=8))["num_rounds"] == 5


def test_chunks_that_the_counters_contradict_are_no_rounds():
    rows = requests((1, 6), (1, 8))  # chunks that hold several rounds each
    found = summarize_served(cell(), rows, server(rows, **ROUNDS))
    assert found["num_rounds"] == 6
    assert found["tau"] == pytest.approx(1 + 8 / 6)
    assert "tau and survival count rounds that had a draft only" in found["warnings"]
    assert "step_s" not in found


@pytest.mark.parametrize(
    ("drafter", "counts", "reason"),
    [
        ("ngram", ROUNDS, "drafts of ngram vary in length"),
        ("suffix", ROUNDS, "drafts of suffix vary in length"),
        ("model:x", {**ROUNDS, "drafted": 9}, "drafts had 1.50 of 2 tokens on average"),
        ("model:x", {**ROUNDS, "drafts": None}, "does not count drafts and acceptance by position"),
        ("model:x", {**ROUNDS, "accepted_at": [5, 3, 1]}, "counts 3 positions, not 2"),
        ("model:x", dict.fromkeys(ROUNDS, 0) | {"accepted_at": [0, 0]}, "counted no draft"),
        ("eagle:x,tree=8", ROUNDS, "no chains of one length"),
        ("model:x", {}, "does not count drafts"),
    ],
)
def test_alpha_is_none_where_the_definition_does_not_allow_it(
    drafter: str, counts: dict[str, Any], reason: str
):
    rows = requests(*STREAMS)
    found = summarize_served(cell(drafter), rows, server(rows, **counts))
    assert found.get("alpha") is None
    assert found.get("alpha_ci") is None
    assert any(reason in text for text in found["warnings"])


def test_a_server_that_tells_it_with_each_answer_needs_no_counters():
    told = {"spec_verify_ct": 3, "spec_accept_token_num": 4, "spec_draft_token_num": 6}
    figures = json.dumps({**told, "spec_accept_histogram": [0, 2, 1]})
    rows = requests(*STREAMS, figures=figures)
    found = summarize_served(cell(), rows, server(rows))
    assert (found["num_rounds"], found["num_drafted"], found["num_accepted"]) == (6, 12, 8)
    assert found["alpha"] == pytest.approx(8 / (8 + 6 - 2))


def test_figures_of_some_requests_are_none_of_all():
    assert of_requests([{"num_spec_steps": 3}, None]) == Counts()
    assert of_requests([]) == Counts()


def test_unknown_chunk_sizes_leave_rounds_and_steps_unknown():
    rows = requests(*STREAMS, told=False)
    found = summarize_served(cell(), rows, server(rows, **ROUNDS))
    assert found["itl_s"] == pytest.approx(3.0 / 14)
    assert "step_s" not in found
    assert found["alpha"] is not None
    assert found.get("alpha_ci") is None


def test_speedup_is_of_time_per_output_token_and_paired_by_conversation():
    rows = requests(*STREAMS)
    first, last = requests((1, 1, 1, 1), (1,) * 5), requests((1, 1, 1, 1), (1,) * 5, step_s=0.55)
    baselines = [(one, server(one)) for one in (first, last)]
    found = summarize_served(cell(), rows, server(rows, **ROUNDS), baselines)
    plain_itl = (7 * 0.5 + 7 * 0.55) / 14
    assert found["speedup"] == pytest.approx(plain_itl / (3.0 / 14))
    assert found["noise_floor"] == pytest.approx(0.1)
    low, high = found["speedup_ci"]
    assert low < found["speedup"] < high
    speeds = [9 / (4 + 3.5), 9 / (4 + 3.85)]
    assert found["end_to_end_speedup"] == pytest.approx((16 / 7) / (sum(speeds) / 2))


def test_a_baseline_has_the_step_of_its_tokens_and_no_acceptance():
    rows = requests((1, 1, 1), (1, 1))
    found = summarize_served(plain(), rows, server(rows), [(rows, server(rows))] * 2)
    assert found["step_s"] == found["itl_s"] == pytest.approx(STEP_S)
    assert found["noise_floor"] == pytest.approx(0.0)
    assert "alpha" not in found
    assert "speedup" not in found


def test_throughput_of_a_batch_is_counted_while_all_slots_are_full():
    rows = requests((1, 1), (1, 1), (1, 1), (1, 1))  # sent at 0, 2.5, 5, 7.5 s
    found = summarize_served(plain(batch_size=2), rows, server(rows))
    assert found["tok_per_s"] == pytest.approx(6 / 7.5)
    alone = summarize_served(plain(batch_size=4), rows, server(rows))
    assert alone["tok_per_s"] == pytest.approx(8 / 10)
    assert any("too few requests" in text for text in alone["warnings"])


def test_a_batch_needs_eight_groups_for_an_interval_of_its_speedup():
    rows, base = requests(*[STREAMS[0]] * 16), requests(*[(1, 1, 1)] * 16)
    few = {name: column[:15] for name, column in rows.items()}
    baselines = [(base, server(base))] * 2
    counts = {"drafts": 48, "drafted": 96, "accepted": 48, "accepted_at": [32, 16]}
    batch = cell(batch_size=2)
    assert summarize_served(batch, rows, server(rows, **counts), baselines)["speedup_ci"]
    assert summarize_served(batch, few, server(few, **counts), baselines)["speedup_ci"] is None


def test_the_prefix_cache_is_told():
    rows = requests(*STREAMS)
    found = summarize_served(cell(), rows, {**server(rows, **ROUNDS), "cached_tokens": 16})
    assert "16 of 20 prompt tokens came from the server's prefix cache" in found["warnings"]
