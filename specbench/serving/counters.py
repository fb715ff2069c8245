"""A server's metrics page, and by how much its counters rose in a window.

Counters count since the server started, so only differences mean anything, and only if nobody reset
them in between.

>>> page = parse('asked_total{kind="a"} 2\\nasked_total{kind="b"} 3\\n')
>>> page.total("asked_total"), page.by_label("asked_total", "kind")
(5.0, {'a': 2.0, 'b': 3.0})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from specbench.errors import SpecbenchError

Labels = tuple[tuple[str, str], ...]

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_STARTED = "process_start_time_seconds"


@dataclass(frozen=True)
class Page:
    """One reading of all samples."""

    samples: Mapping[tuple[str, Labels], float]

    def has(self, name: str) -> bool:
        """Whether there is such a metric."""
        return any(known == name for known, _ in self.samples)

    def total(self, *names: str) -> float | None:
        """The sum over labels of the first of these metrics that is there; None if none is."""
        for name in names:
            values = [value for (known, _), value in self.samples.items() if known == name]
            if values:
                return sum(values)
        return None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """A metric's sums by the values of one label; empty without it."""
        sums: dict[str, float] = {}
        for (known, labels), value in self.samples.items():
            if known == name and label in (found := dict(labels)):
                sums[found[label]] = sums.get(found[label], 0.0) + value
        return sums


@dataclass(frozen=True)
class Rise:
    """What happened to counters between two readings."""

    before: Page
    after: Page

    def refuse_restart(self) -> None:
        """Raises SpecbenchError if the server says that it started anew."""
        if self.before.total(_STARTED) != self.after.total(_STARTED):
            raise SpecbenchError("the server restarted while it was measured")

    def total(self, *names: str) -> int | None:
        """By how much a counter rose, over all labels; None without it.

        Raises:
            SpecbenchError: it fell.
        """
        name = next((name for name in names if self.after.has(name) or self.before.has(name)), None)
        return None if name is None else sum(self._samples(name).values())

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """The same by the values of one label.

        Raises:
            SpecbenchError: it fell.
        """
        sums: dict[str, int] = {}
        for labels, rose in self._samples(name).items():
            key = dict(labels).get(label)
            if key is not None:
                sums[key] = sums.get(key, 0) + rose
        return sums

    def _samples(self, name: str) -> dict[Labels, int]:
        before, after = (
            {labels: value for (known, labels), value in page.samples.items() if known == name}
            for page in (self.before, self.after)
        )
        found = {}
        for labels in {**before, **after}:
            old, new = before.get(labels, 0.0), after.get(labels, 0.0)
            if new < old:
                raise SpecbenchError(
                    f"the counter {name} fell from {old:g} to {new:g} while it was measured: "
                    "the server restarted or its counters were reset"
                )
            found[labels] = round(new - old)
        return found


def parse(text: str) -> Page:
    """A page in the Prometheus text format.

    Raises:
        SpecbenchError: a line is none of that format; repeats it.
    """
    samples: dict[tuple[str, Labels], float] = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = _number(match[3]) if match else None
        if match is None or value is None:
            raise SpecbenchError(f"the server's metrics can't be read: {line.strip()[:80]!r}")
        samples[match[1], tuple(sorted(_LABEL.findall(match[2] or "")))] = value
    return Page(samples)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
