"""Numbers as people read them."""

from __future__ import annotations

import pytest

from specbench.analysis.shown.formats import interval, number, percent, signed, with_interval


@pytest.mark.parametrize("value", [0.0, -0.0, 0.004, -0.004])
def test_what_rounds_to_nothing_has_no_sign(value: float) -> None:
    assert number(value) == "0.00"
    assert signed(value) == "0.00"
    assert percent(value) == "0%"
    assert interval((value, 0.5)) == ".00–.50"
    assert with_interval(value, (value, 0.5)) == "0.00 .00–.50"


def test_everything_else_keeps_it() -> None:
    assert (number(-0.006), signed(0.25), percent(-0.034)) == ("-0.01", "+0.25", "-3%")
    assert number(-100.0, 0) == "-100"
    assert (number(None), percent(None), with_interval(None, None)) == ("-", "-", "-")
