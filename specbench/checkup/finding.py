"""A check and what it says: one line with a verdict, a value, and what to do about it.

    @check("cpu", "governor")
    def governor(machine: Machine) -> Finding | None:
        ...
        return warn("powersave", "Choose performance: sudo cpupower frequency-set -g performance")

``None`` means that there is nothing of that kind here, so there is no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from specbench.errors import first_line

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

Verdict = Literal["ok", "warn", "fail"]
"""Fit to measure; numbers may mislead or a part is missing; ``specbench run`` can't work."""

Facts = dict[str, Any]
"""Plain values by name: bytes, seconds, counts."""

_REASON_CHARS = 160


@dataclass(frozen=True)
class Finding:
    """What a check saw.

    Attributes:
        verdict: see :data:`Verdict`.
        value: what was seen, in words.
        advice: what to do; there for everything that is not ok.
        facts: the same as plain values.
        name: what it is about; the check's name where that says it.
        section: of the check.
    """

    verdict: Verdict
    value: str
    advice: str = ""
    facts: Facts = field(default_factory=dict)
    name: str = ""
    section: str = ""

    @property
    def sentence(self) -> str:
        """The finding where it stands alone."""
        return f"{self.name}: {self.value}" + (f". {self.advice}" if self.advice else "")


Answer = Finding | Sequence[Finding] | None


@dataclass(frozen=True)
class Check:
    """One question to the machine.

    Attributes:
        section: the heading it stands under.
        name: what it is about.
        ask: the function that looks.
        spoils: whether a bad answer means that times measured now are not the machine's own, so
            that ``specbench run`` asks too.
    """

    section: str
    name: str
    ask: Callable[[Machine], Answer]
    spoils: bool = False

    def findings(self, machine: Machine) -> list[Finding]:
        """The answer; a check that breaks is a warning and not the end of the others."""
        try:
            said = self.ask(machine)
        except Exception as error:
            said = warn(
                f"could not be looked at: {short(error)}", "Report it: this is a bug in specbench"
            )
        found = [said] if isinstance(said, Finding) else list(said or ())
        return [replace(one, section=self.section, name=one.name or self.name) for one in found]


def check(
    section: str, name: str, *, spoils: bool = False
) -> Callable[[Callable[[Machine], Answer]], Check]:
    """Declare the decorated function as a check."""
    return lambda ask: Check(section, name, ask, spoils)


def ok(value: str, *, name: str = "", **facts: Any) -> Finding:
    """Nothing is wrong."""
    return Finding("ok", value, "", facts, name)


def warn(value: str, advice: str, *, name: str = "", **facts: Any) -> Finding:
    """Numbers may mislead, or something that not every run needs is missing."""
    return Finding("warn", value, advice, facts, name)


def fail(value: str, advice: str, *, name: str = "", **facts: Any) -> Finding:
    """``specbench run`` can't work like this."""
    return Finding("fail", value, advice, facts, name)


def short(error: BaseException) -> str:
    """An exception's first line, or its class where it says nothing."""
    return first_line(error)[:_REASON_CHARS]


def gibibytes(count: float) -> str:
    """Bytes for a person: ``3.2 GiB``, ``32 MiB`` below one gibibyte."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
