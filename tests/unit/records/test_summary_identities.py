"""Six planted violations, one per identity, on a record's own fields and on raw tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbench.records.identities import identities
from specbench.records.schema import CellKey, CellRecord
from specbench.records.summary import summarize
from specbench.records.summary_identities import drafts_itself, record_identities
from tests.unit.records import samples


def imported(drafter: str = "eagle", **changes: Any) -> CellRecord:
    """Gamma 3 at batch 4: 2,000 rounds of 0.115 s that give 2.3 tokens each."""
    fields: dict[str, Any] = {
        "imported_from": "vllm-bench",
        "tau": 2.3,
        "num_rounds": 2000,
        "num_drafted": 6000,
        "num_accepted": 2600,
        "survival_by_position": [0.7, 0.4, 0.2],
        "itl_s": 0.05,
        "step_s": 0.115,
        "tok_per_s": 76.9,
        "tokens": 4620,
        "num_requests": 20,
        "draft_s": 0.02,
        "verify_s": 0.09,
        "other_s": 0.005,
    }
    cell = samples.cell(drafter=drafter, gamma=3, batch_size=4)
    return CellRecord.of(cell, **{**fields, **changes})


def test_an_honest_record_violates_nothing() -> None:
    assert record_identities(imported()) == []
    assert record_identities(CellRecord.of(samples.cell())) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tau": 4.2, "num_rounds": None}, "block efficiency: tau 4.2 is above gamma + 1 = 4"),
        ({"num_drafted": 2000}, "block efficiency: 2600 accepted but 2000 drafted"),
        (
            {"num_drafted": 6001},
            "block efficiency: 6001 drafted in 2000 rounds, 3.00 a round",
        ),
        ({"tau": 1.3}, "tokens: tau is 1.3, 1 + accepted / rounds = 1 + 2600 / 2000 = 2.3"),
        ({"tokens": 4000}, "tokens: accepted + rounds is 4600, the outputs have 4000"),
        ({"itl_s": 0.115}, "step times: time per output token is 0.115 s, time per step / tau"),
        (
            {"survival_by_position": [0.7, 0.4, 0.5]},
            "positions: position 3 was accepted in 0.5 of the rounds, position 2 before it in 0.4",
        ),
        (
            {"num_rounds": 9000, "survival_by_position": [1.0, 0.2, 0.1], "num_accepted": 11700},
            "positions: position 1 was accepted in 9000 of 9000 rounds, with 95% confidence",
        ),
        ({"tok_per_s": 177.0}, "throughput: 177 tokens/s is above batch size / time per output"),
        ({"other_s": 0.05}, "times: draft + verify + other is 0.16 s, time per step 0.115 s"),
    ],
)
def test_a_planted_violation_is_named_with_both_sides(
    changes: dict[str, Any], sentence: str
) -> None:
    found = record_identities(imported(**changes))
    assert any(text.startswith(sentence) for text in found), found


def test_rounds_told_from_tokens_may_be_too_few_to_have_drafted_all() -> None:
    told = {"num_drafted": 6060, "imported_from": "llama-cpp"}
    assert record_identities(imported(**told)) == []  # 20 outputs, 3 tokens cut of each at most
    assert record_identities(imported(**{**told, "num_drafted": 6181})) != []


@pytest.mark.parametrize("drafter", ["synthetic:1.0", "early-exit:29", "model:m"])
def test_tokens_of_the_target_itself_may_all_be_accepted(drafter: str) -> None:
    perfect = {"tau": 4.0, "survival_by_position": [1.0] * 3, "num_rounds": 9000}
    counts = {"num_drafted": 27000, "num_accepted": 27000, "tokens": 36000, "itl_s": 0.115 / 4}
    assert record_identities(imported(drafter, **perfect, **counts)) == []
    assert record_identities(imported("ngram", **perfect, **counts)) != []


def test_a_record_is_held_against_its_raw_rounds() -> None:
    rounds, requests = samples.single()
    fields = summarize(samples.cell(), rounds, requests)
    assert identities(CellRecord.of(samples.cell(), **fields), rounds, requests) == []
    for name, factor, sentence in (
        ("itl_s", 2.0, "step times: time per output token is"),
        ("tok_per_s", 2.0, "throughput: "),
    ):
        record = CellRecord.of(samples.cell(), **{**fields, name: factor * fields[name]})
        (found,) = identities(record, rounds, requests)
        assert found.startswith(sentence)
    record = CellRecord.of(samples.cell(), **{**fields, "survival_by_position": [0.4, 0.6]})
    (found,) = identities(record, rounds, requests)
    assert found.startswith("positions: position 2 was accepted in 0.6 of the rounds, position 1")


def test_speed_of_a_batch_is_that_of_its_rows() -> None:
    point, (rounds, requests) = samples.cell(batch_size=2), samples.batch()
    fields = summarize(point, rounds, requests)
    assert identities(CellRecord.of(point, **fields), rounds, requests) == []
    record = CellRecord.of(point, **{**fields, "tok_per_s": 2 * fields["tok_per_s"]})
    (found,) = identities(record, rounds, requests)
    assert found.startswith("throughput: ")


@pytest.mark.parametrize(("rejected", "suspect"), [(0, True), (200, False)])
def test_rounds_that_accept_everything_are_suspect(rejected: int, suspect: bool) -> None:
    conversations, each = 40, 2000
    count = conversations * each
    accepted = np.full(count, 2)
    accepted[:rejected] = 0
    accepted[rejected : 2 * rejected] = 1
    rounds = {
        "request": np.repeat(np.arange(conversations), each),
        "round": np.tile(np.arange(each), conversations),
        "step": np.arange(count),
        "num_verified": np.full(count, 3),
        "num_drafted": np.full(count, 2),
        "draft_levels": np.full(count, 2),
        "num_evaluated": np.minimum(accepted + 1, 2),
        "num_accepted": accepted,
        "num_emitted": accepted + 1,
        "context_length": np.full(count, 9),
        "draft_s": np.full(count, 1e-3),
        "verify_s": np.full(count, 1e-3),
        "other_s": np.zeros(count),
        "active_rows": np.ones(count, dtype=int),
    }
    tokens = 1 + np.bincount(rounds["request"], weights=rounds["num_emitted"]).astype(int)
    requests = samples.requests_table(
        [{"num_tokens": int(number), "decode_s": each * 2e-3} for number in tokens]
    )
    found = identities(samples.cell(), rounds, requests)
    assert bool(found) == suspect, found
    assert all(text.startswith("positions: ") for text in found)
    assert identities(samples.cell(drafter="synthetic:1.0"), rounds, requests) == []


@pytest.mark.parametrize(
    ("target", "drafter", "same"),
    [
        ("org/M", "model:org/M", True),
        ("org/M, int8", "model:org/M", False),
        ("org/M", "model:org/M,quantization=int8", False),
        ("org/M, int8", "model:org/M,quantization=int8", True),
        ("org/M, int8", "model:org/M,tree=8,quantization=int4", False),
        ("org/M, int8", "early-exit:3", True),
    ],
)
def test_a_model_is_itself_only_if_it_is_quantised_alike(target: str, drafter: str, same: bool):
    cell = CellKey(target=target, drafter=drafter, gamma=1, temperature=0, batch_size=1, task="x")
    assert drafts_itself(cell) is same
