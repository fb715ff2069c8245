"""A policy as a TOML file: what a script that starts or steers a server reads.

One [[policy]] per task and temperature, with its drafter, its [[policy.ranges]] of batch sizes, and
vLLM's schedule. Gamma 0 is plain decoding. Nothing is said beyond the last batch size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from specbench.analysis.recommending import Answer, Schedule
from specbench.analysis.recommending.document import schedule_document


def policy_toml(answer: Answer) -> str:
    """The text of the file."""
    return "\n".join([*_head(answer), *(line for s in answer.schedules for line in _policy(s))])


def _head(answer: Answer) -> list[str]:
    return [
        "# Which drafter and gamma to use at which batch sizes, by specbench optimal-gamma.",
        "# gamma 0: do not speculate; with decided = false too little was measured to tell.",
        "# Nothing is known beyond the last batch size of a policy.",
        f"run = {_value(answer.run)}",
        f"target = {_value(answer.target)}",
        "",
    ]


def _policy(schedule: Schedule) -> Iterator[str]:
    document = schedule_document(schedule, ())
    ranges = document.pop("ranges")
    crossover = document.pop("crossover")
    del document["serving"]
    yield "[[policy]]"
    yield from _pairs(document)
    if crossover is not None:
        yield from _pairs({"crossover": crossover["sentence"]})
    yield ""
    for part, told in zip(schedule.ranges, ranges, strict=True):
        yield "[[policy.ranges]]"
        if undecided := schedule.undecided(part):
            sizes = ", ".join(map(str, undecided))
            yield f"# undecided at batch size {sizes}: measure more before relying on it"
        yield from _pairs(told)
        yield ""


def _pairs(fields: dict[str, Any]) -> Iterator[str]:
    """``name = value``; what is not known is left out, since TOML has no null."""
    for name, value in fields.items():
        if value is not None:
            yield f"{name} = {_value(value)}"


def _value(value: Any) -> str:
    """A string, number or list as TOML: JSON's notation of them is valid there."""
    return json.dumps(value, ensure_ascii=False)
