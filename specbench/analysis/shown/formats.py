"""Numbers as people read them, the same in tables of the command line and of the report.

Inside everything is in seconds, bytes and tokens; units are put on here, at the edge. What is not
known is a dash.

>>> with_interval(1.384, (0.91, 1.57)), percent(-0.034), milliseconds(0.0123)
('1.38 .91–1.57', '-3%', '12.3')
>>> number(-0.001), percent(0.004), signed(-0.5)
('0.00', '0%', '-0.50')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specbench.records.schema import DraftForm

MISSING = "-"

SYNTHETIC_MARK = "§"
SYNTHETIC_NOTE = "§ synthetic drafters: their α is set, not measured; they are never recommended"

FORM_MARKS = {"chain": "", "tree": "†", "adaptive": "‡"}
"""What stands before numbers that are not those of a chain of fixed length."""

_FORM_NOTES = {
    "tree": (
        "† tree: γ is its levels; α takes a level as accepted if one of its branches is,",
        "  so it is no chain's α; no closed form, {} by α at each depth, as if no",
        "  accepted path ended before the last level",
    ),
    "adaptive": (
        "‡ drafts end where the drafter is unsure: γ is the longest (mean length); α is",
        "  of easier tokens, not that of a fixed γ; no closed form, {} by what",
        "  was accepted at each depth",
    ),
}


def alpha_mark(form: DraftForm, synthetic: bool) -> str:
    """What stands before an alpha that is not that of a real drafter's chain."""
    return SYNTHETIC_MARK if synthetic else FORM_MARKS[form]


def form_notes(forms: Collection[str], column: str) -> list[str]:
    """The lines under a table that say what its marks mean; none where all drafts are chains.

    Args:
        forms: of the drafts in the table.
        column: the prediction's heading.
    """
    notes = [lines for form, lines in _FORM_NOTES.items() if form in forms]
    return [line.format(column) for lines in notes for line in lines]


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits, or a dash where there is none."""
    return MISSING if value is None else _unsigned_zero(f"{value:.{digits}f}")


def signed(value: float) -> str:
    """A number with its sign and two digits, unless it rounds to nothing."""
    return _unsigned_zero(f"{value:+.2f}")


def percent(value: float | None) -> str:
    """A signed share in percent, or a dash where there is none."""
    return MISSING if value is None else _unsigned_zero(f"{value:+.0%}")


def share(value: float | None, digits: int = 0) -> str:
    """A share of a whole in percent, or a dash where there is none."""
    return MISSING if value is None else f"{value:.{digits}%}"


def noise(floor: float | None) -> str:
    """``±2.1%``: how much the baselines of a block differ, or a dash where that is not known."""
    return MISSING if floor is None else f"±{share(floor, 1)}"


def interval(ends: tuple[float, float], digits: int = 2) -> str:
    """``.91–1.57``: ends below 1 without their 0."""
    return "–".join(number(end, digits).removeprefix("0") for end in ends)


def with_interval(value: float | None, ends: tuple[float, float] | None, digits: int = 2) -> str:
    """``1.38 1.21–1.57`` (ends below 1 without their 0), or the value alone, or a dash."""
    if value is None or ends is None:
        return number(value, digits)
    return f"{number(value, digits)} {interval(ends, digits)}"


def goodput(per_s: float | None, of_all: float | None) -> str:
    """``1.20 (80%)``: requests per second within their limits, and the share that were.

    >>> goodput(1.2, 0.8), goodput(None, None)
    ('1.20 (80%)', '-')
    """
    return MISSING if per_s is None else f"{number(per_s)} ({share(of_all)})"


def goodput_limits(limits_ms: Mapping[str, float]) -> str:
    """``ttft 500 ms, tpot 50 ms``."""
    return ", ".join(f"{name} {limit:g} ms" for name, limit in limits_ms.items())


def span(values: Iterable[float | None], form: str) -> str:
    """The least and the most of what is known, or a dash where nothing is.

    >>> span([0.3, None, 0.1], "{:.0%}"), span([0.3], "{:.0%}")
    ('10% to 30%', '30%')
    """
    known = [value for value in values if value is not None]
    ends = dict.fromkeys(form.format(end) for end in (min(known), max(known))) if known else ()
    return " to ".join(ends) or MISSING


def milliseconds(seconds: float | None) -> str:
    """Three digits, all those of a second and more, or a dash where there is none.

    >>> milliseconds(0.3554), milliseconds(1.3802)
    ('355', '1,380')
    """
    if seconds is None:
        return MISSING
    return f"{1e3 * seconds:,.0f}" if abs(seconds) >= 0.9995 else f"{1e3 * seconds:.3g}"


def gigabytes(count: float | None) -> str:
    """10^9 bytes with two decimals, or a dash where there is none."""
    return MISSING if count is None else f"{count / 1e9:.2f}"


def _unsigned_zero(text: str) -> str:
    """What rounds to nothing is neither above it nor below."""
    return text if text.strip("+-0.%") else text.lstrip("+-")
