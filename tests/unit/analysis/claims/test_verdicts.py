"""How comparisons become a verdict, and which of them a reader is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from specbench.analysis.claims import Evidence, Side
from specbench.analysis.claims.evidence import both, by_ratio, each, every, some, within
from specbench.analysis.claims.words import figures, most_telling
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.analysis.claims.worlds import answers, comparison


def test_one_counterexample_is_against_a_claim_about_all_cases() -> None:
    assert every([comparison(1, 0.5), comparison(0, 0.5)], "").verdict == "held"
    assert every([comparison(1, 0.5), comparison(-1, 0.5)], "").verdict == "not held"
    assert every([comparison(0, 0.5)], "").verdict == "not decided"
    assert every([], "nothing").reason == "nothing"
    assert some([comparison(1, 0.5), comparison(-1, 0.5)], "").verdict == "held"
    assert some([comparison(-1, 0.5), comparison(0, 0.5)], "").verdict == "not decided"
    assert some([comparison(-1, 0.5)], "").verdict == "not held"


def test_few_clusters_need_a_larger_margin() -> None:
    many = [comparison(1, 0.4) for _ in range(24)]  # clear by a normal factor of 1.6
    assert every(many, "").verdict == "held"
    few = [replace(one, clusters=4) for one in many]
    assert every(few, "").verdict == "not decided"


def test_every_comparison_knows_its_clusters(tmp_path: Path) -> None:
    drafters = {
        "ngram": SimulatedDrafter(0.8, 0.02),
        **{f"synthetic:{alpha}": SimulatedDrafter(alpha, 0.0) for alpha in (0.5, 0.8, 0.9)},
    }
    run = simulate_run(
        tmp_path / "run",
        drafters,
        gammas=(1, 4),
        tasks=("code", "story", "summarization", "chat"),
        temperatures=(0.0, 1.0),
        batch_sizes=(1, 4),
        prompts=8,
        tokens=128,
    )
    found = answers(run)
    compared = {
        name: [one.clusters for one in answer.evidence if one.margin_ci is not None]
        for name, answer in found.items()
    }
    assert {clusters for told in compared.values() for clusters in told} == {8}
    for name in (
        "longer-is-not-always-better",
        "gain-shrinks-with-batch",
        "ngram-wins-on-copying",
        "alpha-falls-with-temperature",
        "predictable-text-accepts-more",
        "first-token-not-faster",
        "short-outputs-gain-less",
        "alpha-steps",
    ):
        assert compared[name], name


def test_single_figures_must_all_be_as_the_claim_says() -> None:
    def figures(*supports: bool | None) -> list[Evidence]:
        return [Evidence("", "", (), supports=one) for one in supports]

    assert each(figures(True, True), "").verdict == "held"
    assert each(figures(True, None), "").verdict == "not decided"
    assert each(figures(True, None, False), "").verdict == "not held"
    assert each([], "nothing").reason == "nothing"


def test_the_worst_part_decides_a_claim_of_several() -> None:
    held, open_ = every([comparison(1, 0.5)], ""), every([comparison(0, 0.5)], "")
    against, lacking = every([comparison(-1, 0.5)], ""), every([], "--task chat")
    assert both({"a": held, "b": held}).verdict == "held"
    assert both({"a": held, "b": open_}).verdict == "not decided"
    assert both({"a": held, "b": lacking}).verdict == "not measured"
    assert both({"a": held, "b": lacking}).reason == "--task chat"
    worst = both({"a": held, "b": lacking, "c": against})
    assert worst.verdict == "not held"
    assert worst.evidence == against.evidence + held.evidence  # what decides it first
    assert worst.reason.startswith("c: 1 against it")


def test_many_comparisons_need_more_than_one_alone() -> None:
    barely = comparison(1.0, 0.95)
    assert every([barely], "").verdict == "held"
    assert every([barely, *[comparison(0.0, 1.0)] * 9], "").verdict == "not decided"


def test_within_takes_the_whole_interval() -> None:
    assert within((2.0, 2.2), 1.8, 2.4) is True
    assert within((2.5, 2.7), 1.8, 2.4) is False
    assert within((2.2, 2.7), 1.8, 2.4) is None
    assert within((2.0, 2.6), 1.8, 2.4) is None  # its middle is inside
    assert within((2.2, 2.9), 1.8, 2.4) is None  # its middle is outside
    assert within(None, 1.8, 2.4) is None


def test_the_interval_that_is_shown_is_the_one_that_decides() -> None:
    difference = replace(comparison(1.0, 0.95), compared=Side("difference", 1.0, (0.05, 1.95)))
    ratio = by_ratio("", "", (Side("", 3.0), Side("", 1.0)), 3.0, (1.05, 9.0), 30)
    (alone,) = every([difference], "").evidence
    assert alone.compared is not None
    assert alone.compared.interval == pytest.approx((0.05, 1.95))
    found = every([difference, ratio, *[comparison(0.0, 1.0)] * 8], "").evidence
    shown = {one.compared.label: one.compared.interval for one in found if one.compared}
    assert shown["difference"] is not None
    assert shown["difference"][0] < 0.0 < 1.95 < shown["difference"][1]
    assert shown["ratio"] is not None
    low, high = shown["ratio"]
    assert low < 1.0 < 9.0 < high
    assert math.log(3.0 / low) == pytest.approx(math.log(high / 3.0), rel=0.1)
    assert all(one.supports is None for one in found)


def test_of_each_kind_the_clearest_is_shown() -> None:
    against = [comparison(-1, size) for size in (0.5, 0.2, 0.4)]
    answered = every([*against, comparison(1, 0.5), *[comparison(0, 0.5)] * 2], "")
    assert [one.supports for one in answered.evidence] == [False] * 3 + [None] * 2 + [True]
    told = most_telling(answered.evidence, 3)
    assert [one.supports for one in told] == [False, None, True]
    assert told[0].margin_ci == (-1.2, -0.8)
    assert len(most_telling(answered.evidence, 5)) == 5
    assert len(most_telling(answered.evidence, 9)) == 6


@pytest.mark.parametrize(
    ("ends", "text"),
    [((0.12, 0.3), "0.12–0.30"), ((-0.114, -0.032), "-0.11 to -0.032"), ((-1, 2), "-1.00 to 2.00")],
)
def test_a_span_with_a_sign_in_it_is_written_out(ends: tuple[float, float], text: str) -> None:
    assert f"difference 0.50 ({text})" in figures(
        Evidence("here", "α", (), compared=Side("difference", 0.5, ends))
    )
