"""From a task's name, or a file, to its prompts.

With ``source="auto"`` the hub is asked first, then an installed package, then the prompts that ship
with specbench. Nothing falls back silently: what was tried and was not there is the workload's
notice. A source asked for by name is used or refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.workloads.hub import hub_rows
from specbench.workloads.prompt import Prompt, Workload, take_turns
from specbench.workloads.sources import UnavailableError, package_rows, scrambled
from specbench.workloads.task_file import TaskFile, pick, read_task_file
from specbench.workloads.user_file import load_user_file

Source = Literal["auto", "hub", "package", "offline"]


def load_workload(name_or_path: str, limit: int, source: Source = "auto") -> list[Workload]:
    """Load at most ``limit`` prompts (conversations) of a task or of a file.

    Args:
        name_or_path: a name of ``specbench tasks``, a JSONL file of prompts, or a task's TOML file.
        limit: prompts per workload, at least 1.
        source: where a task's prompts come from; a JSONL file is its own source.

    Returns:
        One workload; for a question file (Spec-Bench) one per category.

    Raises:
        SpecbenchError: unknown name, unusable file, or the source asked for is not there.
    """
    if limit < 1:
        raise SpecbenchError(f"{limit} prompts asked for", "Ask for at least 1")
    if source not in get_args(Source):
        known = ", ".join(get_args(Source))
        raise SpecbenchError(f"unknown prompt source {source!r}", f"Known: {known}")
    path = _path(name_or_path)
    if path is None:
        return [_load_task(read_task_file(registry.path("tasks", name_or_path)), limit, source)]
    if path.suffix == ".toml":
        return [_load_task(read_task_file(path), limit, source)]
    return load_user_file(path, limit)


def means_file(path: Path) -> bool:
    """Whether what a user typed can only be a prompt file, and no task's name."""
    return path.suffix in {".jsonl", ".json", ".toml", ".txt"} or len(path.parts) > 1


def _path(name_or_path: str) -> Path | None:
    """The path meant, or None for a task's name; a task wins over a file of the same bare name."""
    path = Path(name_or_path).expanduser()
    if means_file(path):
        return path
    return path if path.exists() and name_or_path not in registry.names("tasks") else None


def _load_task(task: TaskFile, limit: int, source: Source) -> Workload:
    wanted = ("hub", "package", "offline") if source == "auto" else (source,)
    readers = {"hub": _from_hub, "package": _from_package, "offline": _from_offline}
    tried: list[str] = []
    for name in wanted:
        try:
            workload = readers[name](task, limit)
        except UnavailableError as reason:
            tried.append(str(reason))
            continue
        if workload is not None:
            return _with_notice(workload, tried, limit)
    raise SpecbenchError(
        f"task {task.name!r} cannot be read from the source {source!r}: "
        + ("; ".join(tried) or "it has none"),
        "Use the prompt source auto or offline",
    )


def _from_hub(task: TaskFile, limit: int) -> Workload | None:
    if task.hub is None:
        return None
    source, rows = hub_rows(task.hub, limit)
    prompts = _prompts(task, rows, task.hub.columns, source)
    return _workload(task, task.hub.licence, source, prompts, limit)


def _from_package(task: TaskFile, limit: int) -> Workload | None:
    if task.package is None:
        return None
    source, rows = package_rows(task.package)
    prompts = _prompts(task, rows, task.package.columns, source)
    return _workload(task, task.package.licence, source, prompts, limit)


def _from_offline(task: TaskFile, limit: int) -> Workload | None:
    return _workload(task, task.licence, "offline", task.offline_prompts(), limit)


def _prompts(
    task: TaskFile, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], source: str
) -> list[Prompt]:
    """The rows as prompts, scrambled.

    Raises:
        UnavailableError: no rows, or they lack a column or a text that the template needs.
    """
    if not rows:
        raise UnavailableError(f"{source} has no rows")
    try:
        return [
            task.prompt(pick(rows[i], columns, f"row {i}"), i, source, f"row {i}")
            for i in scrambled(len(rows))
        ]
    except SpecbenchError as error:
        raise UnavailableError(f"{source}: {error.message}") from None


def _workload(
    task: TaskFile, licence: str, source: str, prompts: list[Prompt], limit: int
) -> Workload:
    chosen = tuple(take_turns(prompts)[:limit])
    return Workload(task.name, task.version, licence, source, None, chosen)


def _with_notice(workload: Workload, tried: Sequence[str], limit: int) -> Workload:
    """Say what was tried in vain, and when there are fewer prompts than asked for."""
    served = "the offline prompts" if workload.source == "offline" else workload.source
    parts = [*tried, f"using {served} instead"] if tried else []
    if len(workload.prompts) < limit:
        parts.append(f"{limit} prompts asked for, {len(workload.prompts)} found in {served}")
    notice = f"{workload.name}: {'; '.join(parts)}" if parts else None
    return replace(workload, notice=notice)
