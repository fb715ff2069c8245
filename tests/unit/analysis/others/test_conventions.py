"""Each tool's numbers on rounds whose truth is known, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbench.analysis.others.conventions import (
    RoundCounts,
    counts_of_record,
    counts_of_rounds,
    names,
    report,
)
from specbench.errors import SpecbenchError
from specbench.records.schema import CellRecord
from tests.unit.records import samples


def iid(alpha: float, gamma: int, rounds: int = 200_000) -> RoundCounts:
    hits = np.random.default_rng(0).random((rounds, gamma)) < alpha
    accepted = np.cumprod(hits, axis=1).sum(axis=1)
    full = np.full(rounds, gamma)
    table: dict[str, Any] = {
        "num_accepted": accepted,
        "num_drafted": full,
        "num_evaluated": np.minimum(accepted + 1, gamma),
        "num_verified": full + 1,
        "num_emitted": accepted + 1,
        "overlap": [[alpha]] * 10 + [None] * (rounds - 10),
    }
    return counts_of_rounds(gamma, (table, {"prompt_id": ["p"] * 100}))


def test_a_share_of_no_rounds_has_no_sign() -> None:
    shares = report("gpt-fast", iid(1.0, 3, rounds=10))["share of rounds that accepted 0, 1, ..."]
    assert str(shares) == "[0.0, 0.0, 0.0, 1.0]"


def test_every_convention_at_alpha_0_75_and_gamma_7() -> None:
    counts = iid(0.75, 7)
    vllm = report("vllm", counts)
    assert vllm["accepted / drafted"] == pytest.approx(0.371, abs=2e-3)
    assert vllm["mean acceptance length"] == pytest.approx(3.60, abs=0.015)
    survival = [0.75**place for place in range(1, 8)]
    assert vllm["per position"] == pytest.approx(survival, abs=5e-3)
    sglang = report("sglang", counts)
    assert sglang["accept length"] == vllm["mean acceptance length"]
    assert sglang["accept rate"] == pytest.approx(3.60 / 8, abs=2e-3)
    assert report("spec-bench", counts)["mean accepted tokens"] == sglang["accept length"]
    fast = report("gpt-fast", counts)
    assert fast["mean accepted"] == pytest.approx(2.60, abs=0.015)
    shares = fast["share of rounds that accepted 0, 1, ..."]
    assert isinstance(shares, list)
    assert sum(shares) == pytest.approx(1.0)
    assert (shares[0], shares[7]) == pytest.approx((0.25, 0.75**7), abs=5e-3)
    leviathan = report("leviathan", counts)
    assert leviathan["E[sum min(p, q)]"] == pytest.approx(0.75)
    assert leviathan["tokens per round (closed form)"] == pytest.approx(3.60, abs=5e-3)
    nvidia = report("nvidia", counts)
    assert nvidia["conditional by position"] == pytest.approx([0.75] * 7, abs=0.02)
    assert nvidia["joint by position"] == vllm["per position"]


def test_by_hand_with_a_round_that_drafted_nothing_and_a_cut() -> None:
    """Five rounds, four with a draft; accepted 2, 0, 0, 1, 2; the last one cut to 1 token."""
    counts = counts_of_rounds(2, samples.single())
    vllm = report("vllm", counts)
    assert vllm["accepted / drafted"] == 5 / 8
    assert vllm["mean acceptance length"] == 1 + 5 / 4
    assert vllm["per position"] == [3 / 4, 2 / 4]
    assert report("sglang", counts) == {"accept rate": 10 / 13, "accept length": 2.0}
    assert report("spec-bench", counts) == {"mean accepted tokens": 2.0}
    assert report("gpt-fast", counts) == {
        "mean accepted": 1.0,
        "share of rounds that accepted 0, 1, ...": pytest.approx([2 / 5, 1 / 5, 2 / 5]),
    }
    nvidia = report("nvidia", counts)
    assert nvidia["mean streamed chunk"] == (8 + 2) / (5 + 2)
    assert nvidia["conditional by position"] == [3 / 4, 2 / 3]
    assert nvidia["joint by position"] == [3 / 5, 2 / 5]


def test_what_is_not_known_is_none_and_trees_have_no_alpha() -> None:
    for convention in names():
        assert set(report(convention, RoundCounts(gamma=2)).values()) == {None}
    tree = RoundCounts(gamma=2, overlap=0.5, single_alpha=False)
    assert set(report("leviathan", tree).values()) == {None}


def test_an_imported_record_reports_from_its_counts() -> None:
    record = CellRecord.of(
        samples.cell(gamma=3),
        num_rounds=2000,
        num_drafted=6000,
        num_accepted=2600,
        survival_by_position=[0.7, 0.4, 0.2],
    )
    counts = counts_of_record(record)
    assert report("vllm", counts)["accepted / drafted"] == pytest.approx(2600 / 6000)
    assert report("sglang", counts)["accept rate"] == pytest.approx(4600 / 8000)
    shares = report("gpt-fast", counts)["share of rounds that accepted 0, 1, ..."]
    assert shares == pytest.approx([0.3, 0.3, 0.2, 0.2])


def test_an_unknown_convention_is_named() -> None:
    with pytest.raises(SpecbenchError) as problem:
        report("tgi", RoundCounts(gamma=1))
    assert "unknown convention 'tgi'" in str(problem.value)
