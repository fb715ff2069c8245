"""The verdict on greedy output: identical, near-tie, DIVERGED, or unknown."""

from __future__ import annotations

from specbench.backends.base import Divergence, TieMeasure
from specbench.engine.request import Request
from specbench.sweep.verdict import judge

BASELINE = [[5, 6, 7], [8, 9], [1, 2, 3, 4]]
REQUESTS = [Request(f"p{index}", f"p{index}", [1, 2]) for index in range(3)]


class Measures:
    """Hands out one measure per divergence, and keeps where it was asked."""

    def __init__(self, *measures: tuple[float, float] | None) -> None:
        self.left = list(measures)
        self.asked: list[Divergence] = []

    def __call__(self, divergence: Divergence) -> TieMeasure | None:
        self.asked.append(divergence)
        measure = self.left.pop(0)
        return None if measure is None else TieMeasure(*measure, "float32")


def verdict_of(outputs: list[list[int]], *measures: tuple[float, float] | None):
    asked = Measures(*measures)
    verdict, sentences = judge(REQUESTS, BASELINE, outputs, asked)
    assert not asked.left
    return verdict, sentences, asked.asked


def test_equal_outputs_are_identical_and_nothing_is_measured():
    assert verdict_of([list(ids) for ids in BASELINE]) == ("identical", [], [])


def test_a_parting_below_twice_the_noise_is_a_near_tie():
    verdict, sentences, asked = verdict_of([[5, 6, 7], [8, 9], [1, 2, 9, 9]], (0.019, 0.01))
    assert verdict == "near-tie"
    assert sentences == [
        "near-tie at p2 token 2: 3 or 9: float32 logit gap 0.019, rounding up to 0.01"
    ]
    assert asked == [Divergence(REQUESTS[2], [1, 2], (3, 9))]


def test_a_parting_beyond_that_is_diverged():
    verdict, sentences, _ = verdict_of([[5, 6, 7], [8, 9], [1, 2, 9, 9]], (0.021, 0.01))
    assert verdict == "DIVERGED"
    assert sentences[0].startswith("DIVERGED at p2 token 2: 3 or 9: float32 logit gap 0.021")


def test_an_exact_tie_is_a_tie_even_where_no_rounding_was_seen():
    assert verdict_of([[5, 6, 7], [8, 1], [1, 2, 3, 4]], (0.0, 0.0))[0] == "near-tie"


def test_the_worst_parting_decides_whatever_the_order():
    outputs = [[0, 6, 7], [8, 0], [1, 2, 3, 4]]
    assert verdict_of(outputs, (0.0, 0.1), (0.9, 0.1))[0] == "DIVERGED"
    assert verdict_of(outputs, (0.9, 0.1), (0.0, 0.1))[0] == "DIVERGED"
    assert len(verdict_of(outputs, (0.9, 0.1), (0.0, 0.1))[1]) == 2


def test_what_cannot_be_measured_is_unknown_unless_something_else_diverged():
    outputs = [[0, 6, 7], [8, 0], [1, 2, 3, 4]]
    verdict, sentences, _ = verdict_of(outputs, None, (0.0, 0.1))
    assert verdict is None
    assert sentences[0] == "output differs from the baseline at p0 token 0: 5 or 0"
    assert verdict_of(outputs, (0.0, 0.1), None)[0] is None
    assert verdict_of(outputs, None, (0.9, 0.1))[0] == "DIVERGED"
    assert verdict_of(outputs, (0.9, 0.1), None)[0] == "DIVERGED"


def test_an_output_that_ends_early_is_diverged_and_not_cut_to_fit():
    for outputs in ([[5, 6], [8, 9], [1, 2, 3, 4]], [[5, 6, 7], [8, 9, 1], [1, 2, 3, 4]]):
        verdict, sentences, asked = verdict_of(outputs)
        assert verdict == "DIVERGED"
        assert "ends early" in sentences[0]
        assert asked == []


def test_a_shorter_output_that_parts_before_its_end_is_measured_where_it_parts():
    verdict, _, asked = verdict_of([[5, 0], [8, 9], [1, 2, 3, 4]], (0.0, 0.1))
    assert verdict == "near-tie"
    assert asked == [Divergence(REQUESTS[0], [5], (6, 0))]
