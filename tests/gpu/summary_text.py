"""The summary for people: 80 columns, a dash for what was not measured."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

_LINE = 80


def lines(summary: dict[str, Any]) -> list[str]:
    """The text of a summary's document."""
    return [
        *_head(summary),
        "",
        *_stages(summary["stages"]),
        *_plain(summary["plain_decoding"]),
        *_synthetic(summary["synthetic_cells"]),
        "",
        *_criteria(summary["criteria"]),
    ]


def _head(summary: dict[str, Any]) -> list[str]:
    machine = summary["machine"]
    where = [machine["gpu"] or machine["cpu"] or "no run told of its machine"]
    where += [f"driver {machine['driver']}"] if machine["driver"] else []
    where += [f"torch {machine['torch']}"] if machine["torch"] else []
    where += [f"commit {summary['commit'][:7]}"] if summary["commit"] else []
    peaks = [
        f"{label} {machine[name] / scale:,.1f} {unit}"
        for label, name, scale, unit in (
            ("copy", "bandwidth_bytes_per_s", 1e9, "GB/s"),
            ("read", "read_bandwidth_bytes_per_s", 1e9, "GB/s"),
            ("matmul", "matmul_flops_per_s", 1e12, "TFLOP/s"),
        )
        if machine[name]
    ]
    head = [
        ", ".join(where),
        f"started {summary['started']}, {summary['seconds'] / 60:.1f} min",
        *(["measured peaks: " + ", ".join(peaks)] if peaks else []),
        *(["a tiny model on the CPU: the figures say nothing"] if summary["tiny"] else []),
        *(f"missing package: {name}" for name in summary["missing_packages"]),
        *machine["doubts"],
    ]
    return [part for line in head for part in textwrap.wrap(line, _LINE, subsequent_indent="  ")]


def _stages(stages: Iterable[dict[str, Any]]) -> Iterable[str]:
    yield f"{'stage':<18}{'seconds':>8}{'budget':>8}  what became of it"
    for stage in stages:
        head = f"{stage['name']:<18}{stage['seconds']:>8.1f}{stage['budget_s']:>8.0f}  "
        text = stage["status"] + (f": {stage['reason']}" if stage["reason"] else "")
        yield from textwrap.wrap(
            text, _LINE, initial_indent=head, subsequent_indent=" " * len(head)
        )


def _plain(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = f"{'plain decoding':<18}{'batch':>6}{'tok/s':>11}{'step ms':>10}{'of copy':>9}"
    return [
        "",
        f"{head}{'of read':>9}{'noise':>8}",
        *(
            f"{row['run']:<18}{row['batch_size']:>6}{_number(row['tok_per_s'], 11, 1)}"
            f"{_number(row['step_s'], 10, 3, 1e3)}{_share(row['of_peak_copy'], 9)}"
            f"{_share(row['of_peak_read'], 9)}{_share(row['noise_floor'], 8)}"
            for row in rows
        ),
    ]


def _synthetic(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    found = [
        "",
        f"{'synthetic cells':<18}{'set α':>7}{'γ':>4}{'α':>7}{'τ':>7}{'c':>8}{'v':>7}"
        f"{'speedup':>9}{'predicted':>11}",
    ]
    for row in rows:
        set_alpha = row["drafter"].removeprefix("synthetic:").partition(",")[0]
        found.append(
            f"{row['run']:<18}{set_alpha:>7}{row['gamma']:>4}{_number(row['alpha'], 7, 2)}"
            f"{_number(row['tau'], 7, 2)}{_number(row['c'], 8, 3)}{_number(row['v'], 7, 2)}"
            f"{_number(row['speedup'], 9, 2)}{_number(row['predicted_speedup'], 11, 2)}"
        )
    return [*found, "predicted: from the other γ of the drafter"]


def _criteria(criteria: Iterable[dict[str, Any]]) -> Iterable[str]:
    for criterion in criteria:
        yield f"{criterion['verdict']:<14}{criterion['promise']}"
        shown = ", ".join(
            f"{name.replace('_', ' ')} {_figure(name, value)}"
            for name, value in criterion["figures"].items()
        )
        for text in filter(None, (shown, criterion["reason"])):
            yield from textwrap.wrap(
                text, _LINE, initial_indent=" " * 14, subsequent_indent=" " * 14
            )


def _figure(name: str, value: float) -> str:
    if name == "cells":
        return f"{value:.0f}"
    return f"{value:,.1f}" if name.endswith("tok_per_s") or name == "ratio" else f"{value:.1%}"


def _number(value: float | None, width: int, digits: int, scale: float = 1.0) -> str:
    return f"{'-' if value is None else format(value * scale, f',.{digits}f'):>{width}}"


def _share(value: float | None, width: int) -> str:
    return f"{'-' if value is None else format(value, '.1%'):>{width}}"
