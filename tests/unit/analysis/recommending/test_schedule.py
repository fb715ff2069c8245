from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.recommending import Answer, recommend
from specbench.analysis.recommending.candidates import Candidate
from specbench.analysis.recommending.choice import UNDECIDED
from specbench.analysis.recommending.crossover import Crossover, crossover, passing
from specbench.analysis.recommending.document import optimal_document, optimal_rows
from specbench.analysis.recommending.schedule import Range, Schedule, ranges
from specbench.analysis.recommending.toml import policy_toml
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

SIZES = (1, 4, 16)


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Verification gets dearer with the batch: at 16 nothing pays, at 4 short drafts of one do."""
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        {"ngram": SimulatedDrafter(0.75, 0.01), "model:big": SimulatedDrafter(0.8, 0.3)},
        gammas=(1, 2, 4),
        batch_sizes=SIZES,
        prompts=48,
        tokens=48,
        v=lambda gamma, size: 1.0 + 0.012 * gamma * size + (2.0 if size == 16 else 0.0),
        noise=0.01,
    )
    return recommend(fit_run(load_run(folder)), 16)


@pytest.mark.parametrize(
    ("gammas", "expected"),
    [
        ({1: 4}, [(1, 1, 4)]),
        ({1: 4, 4: 4, 16: 4}, [(1, 16, 4)]),
        ({1: 4, 4: 2, 16: 0}, [(1, 1, 4), (2, 4, 2), (5, 16, 0)]),
        ({1: 2, 4: 4}, [(1, 3, 2), (4, 4, 4)]),
        ({1: 0, 4: 4, 8: 0}, [(1, 3, 0), (4, 4, 4), (5, 8, 0)]),
        ({4: 3, 16: 1}, [(1, 4, 3), (5, 16, 1)]),
        ({1: 3, 2: 1}, [(1, 1, 3), (2, 2, 1)]),
    ],
)
def test_between_two_sizes_stands_the_smaller_gamma(
    gammas: dict[int, int], expected: list[tuple[int, int, int]]
) -> None:
    found = ranges(gammas)
    assert found == tuple(Range(*part) for part in expected)
    covered = [size for part in found for size in range(part.first, part.last + 1)]
    assert covered == list(range(1, max(gammas) + 1))  # all sizes once, none beyond the last


def test_one_drafter_serves_all_batch_sizes(answer: Answer) -> None:
    (schedule,) = answer.schedules
    assert schedule.drafter == "ngram"
    chosen = {decision.setting.batch_size: decision.choice.gamma for decision in answer.decisions}
    assert chosen[1] > 0
    assert chosen[16] == 0
    assert schedule.ranges[0].first == 1
    assert schedule.ranges[-1] == Range(5, 16, 0)
    assert schedule.last == 16


def test_the_crossover_lies_where_the_truth_passes_1(answer: Answer) -> None:
    found = answer.schedules[0].crossover
    assert found is not None
    assert 4 < found.batch_size < 16
    assert found.ci is not None
    assert found.ci[0] <= found.batch_size <= found.ci[1]
    assert found.sentence.startswith("about ")


def test_output_that_diverged_has_no_part_in_the_crossover(answer: Answer) -> None:
    served = answer.schedules[0].served
    assert served is not None

    def broken(candidate: Candidate) -> Candidate:
        wrong = tuple(replace(point, lossless="DIVERGED") for point in candidate.witnesses)
        return replace(candidate, speedup=9.0, witnesses=wrong)

    beside = {size: (*own, broken(own[-1])) for size, own in served.options.items()}
    assert crossover(replace(served, options=beside)) == crossover(served)
    alone = {**served.options, 16: tuple(broken(one) for one in served.options[16])}
    found = crossover(replace(served, options=alone))
    assert found is not None
    assert found.last == 4


def test_the_policy_is_toml_that_says_the_same(answer: Answer) -> None:
    read = tomllib.loads(policy_toml(answer))
    (policy,) = read["policy"]
    schedule = answer.schedules[0]
    assert (policy["task"], policy["drafter"], read["target"]) == ("code", "ngram", "simulated")
    assert policy["num_speculative_tokens_per_batch_size"] == [list(p) for p in schedule.ranges]
    assert [(p["first"], p["last"], p["gamma"]) for p in policy["ranges"]] == list(schedule.ranges)
    assert policy["ranges"][0]["lower_bound"] > 1
    assert policy["ranges"][-1]["speedup"] == 1.0
    assert "lower_bound" not in policy["ranges"][-1]


def test_where_lines_pass_1() -> None:
    logs = np.log([[2.0, 0.5], [2.0, 1.5], [0.9, 0.8], [2.0, 1.0]])
    found = passing(logs, np.array([2.0, 8.0]))
    assert found[0] == pytest.approx(4.0)  # half way on the log scale
    assert found[1:].tolist() == [math.inf, 0.0, pytest.approx(8.0)]
    later = passing(np.log([[2.0, 1.5, 0.75, 1.2]]), np.array([1.0, 2.0, 4.0, 8.0]))
    assert 2 < later[0] < 4  # the first time


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Crossover(1, 16, 6.4, (4.9, math.inf)), "about 6.4, 95% 4.9 to beyond 16"),
        (Crossover(1, 16, math.inf, (math.inf, math.inf)), "beyond what was measured (batch 16)"),
        (Crossover(4, 16, 0.0, (0.0, 5.0)), "pays at no measured batch size (from 4)"),
        (Crossover(4, 16, 8.0, None), "about 8, no interval"),
    ],
)
def test_crossovers_in_words(found: Crossover, says: str) -> None:
    assert found.sentence.startswith(says)


def test_one_batch_size_has_no_crossover(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.7, 0.02)}, gammas=(2, 4))
    (schedule,) = recommend(fit_run(load_run(folder)), 16).schedules
    assert schedule.crossover is None
    assert [part[:2] for part in schedule.ranges] == [(1, 1)]


def test_a_drafter_that_pays_nowhere_is_not_loaded(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.05, 0.1)}, gammas=(2, 4))
    answer = recommend(fit_run(load_run(folder)), 16)
    (schedule,) = answer.schedules
    assert (schedule.drafter, schedule.ranges) == ("none", (Range(1, 1, 0),))
    assert answer.serving == ((),)


def test_what_is_undecided_is_not_told_as_a_no(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    sizes = {"gammas": (1, 2), "batch_sizes": (1, 2), "prompts": 1, "tokens": 12}
    answer = recommend(fit_run(load_run(simulate_run(tmp_path / "run", drafters, **sizes))))
    assert {one.choice.decided for one in answer.decisions} == {False}
    (schedule,) = answer.schedules
    (part,) = schedule.ranges
    assert (schedule.drafter, part, schedule.against(part)) == ("none", (1, 2, 0), UNDECIDED)
    text = policy_toml(answer)
    assert "# undecided at batch size 1, 2: measure more before relying on it\n" in text
    (policy,) = tomllib.loads(text)["policy"]
    assert policy["ranges"] == [
        {"first": 1, "last": 2, "gamma": 0, "speedup": 1.0, "decided": False}
    ]
    assert optimal_document(answer)["schedules"][0]["ranges"][0]["decided"] is False
    assert {row["decided"] for row in optimal_rows(answer)} == {False}


def test_a_decided_policy_says_that(answer: Answer) -> None:
    schedule = answer.schedules[0]
    assert schedule.against(schedule.ranges[-1]) == "do not speculate"
    (policy,) = tomllib.loads(policy_toml(answer))["policy"]
    assert {part["decided"] for part in policy["ranges"]} == {True}
    assert "undecided at" not in policy_toml(answer)


def test_a_range_that_is_undecided_in_part_says_where(answer: Answer) -> None:
    load, part = answer.schedules[0].load, Range(1, 16, 0)
    mixed = Schedule(load, None, (part,), None, {1: True, 4: False, 16: False})
    assert mixed.against(part) == "do not speculate, undecided at 4, 16"
    assert mixed.against(Range(1, 3, 0)) == "do not speculate"
