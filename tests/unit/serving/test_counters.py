"""Metrics pages: what is read, what rose, and what can't have happened."""

from __future__ import annotations

import pytest

from specbench.errors import SpecbenchError
from specbench.serving.counters import Rise, parse

PAGE = """
# HELP asked_total Requests.
# TYPE asked_total counter
asked_total{engine="0",finished_reason="stop"} 3.0
asked_total{engine="1",finished_reason="stop"} 4
asked_total{engine="0",finished_reason="abort"} 1 1700000000000
at_total{position="0",name="a \\"quoted\\" {name}"} 10
at_total{position="1"} 1e1
bucket{le="+Inf"} +Inf
broken NaN
process_start_time_seconds 1.7e+09
"""


def test_samples_are_summed_over_labels():
    page = parse(PAGE)
    assert page.total("asked_total") == 8.0
    assert page.total("missing", "asked_total") == 8.0
    assert page.total("missing") is None
    assert page.by_label("asked_total", "finished_reason") == {"stop": 7.0, "abort": 1.0}
    assert page.by_label("at_total", "position") == {"0": 10.0, "1": 10.0}
    assert page.has("bucket")
    assert not page.has("bucke")


@pytest.mark.parametrize(
    "line", ["asked_total", "asked_total{", "asked_total many", "<html>", "1 2"]
)
def test_a_line_that_is_no_sample_is_named(line: str):
    with pytest.raises(SpecbenchError) as problem:
        parse(f"{PAGE}\n{line}\n")
    assert repr(line) in str(problem.value)


def test_what_rose_counts_labels_that_came_later():
    later = PAGE.replace("3.0", "5.0") + 'asked_total{engine="2"} 2\n'
    rise = Rise(parse(PAGE), parse(later))
    rise.refuse_restart()
    assert rise.total("asked_total") == 4
    assert rise.by_label("asked_total", "finished_reason") == {"stop": 2, "abort": 0}
    assert rise.total("missing") is None


def test_a_counter_that_fell_is_named_even_where_the_sum_rose():
    later = PAGE.replace("3.0", "1.0").replace('"} 4', '"} 40')
    with pytest.raises(SpecbenchError) as problem:
        Rise(parse(PAGE), parse(later)).total("asked_total")
    assert "asked_total fell from 3 to 1" in str(problem.value)


def test_a_counter_that_is_gone_fell():
    with pytest.raises(SpecbenchError):
        Rise(parse(PAGE), parse("other 1\n")).total("asked_total")


def test_another_start_time_is_a_restart():
    with pytest.raises(SpecbenchError) as problem:
        Rise(parse(PAGE), parse(PAGE.replace("1.7e+09", "1.8e+09"))).refuse_restart()
    assert "restarted" in str(problem.value)
