"""What a container or a batch system lets this process use: time of cores, bytes of memory.

A limit may be set on the process's own control group or on any above it, and the lowest holds. Both
versions of control groups are read; where there are none nothing is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores whose time the groups allow, e.g. 1.5; None without a limit.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    quotas = [_quota_v2(folder) for folder in _groups(root, "")]
    quotas += [_quota_v1(folder) for folder in _groups(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes that the groups allow; None without a limit."""
    return min((limit for limit, _ in _memory(root)), default=None)


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still get from its groups; None without a limit."""
    return min((max(limit - used, 0) for limit, used in _memory(root)), default=None)


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, what is used of it) of every group with a limit.

    What files' contents take is given back when memory is short, so it is not used.
    """
    names = ("memory.max", "memory.current", "inactive_file")
    for folder in _groups(root, ""):
        yield from _memory_of(folder, *names)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    for folder in _groups(root, "memory"):
        yield from _memory_of(folder, *names)


def _memory_of(folder: Path, limit: str, used: str, cached: str) -> Iterator[tuple[int, int]]:
    allowed = _number(folder / limit)
    if allowed is not None:
        lines = (line.split() for line in _read(folder / "memory.stat").splitlines())
        counts = {words[0]: int(words[1]) for words in lines if len(words) == 2}
        yield allowed, (_number(folder / used) or 0) - counts.get(cached, 0)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folder of this process's group and of every group above it.

    Args:
        controller: of version 1, e.g. "cpu"; "" for version 2, which has one tree for all.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        tree = root / "sys/fs/cgroup" / controller
        group = tree / path.lstrip("/")
        yield group
        for above in group.parents:
            if above == tree.parent:
                break
            yield above


def _quota_v2(folder: Path) -> float | None:
    """``200000 100000`` is two cores; ``max 100000`` is no limit."""
    words = _read(folder / "cpu.max").split()
    if len(words) != 2 or not words[0].isdecimal():
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(folder: Path) -> float | None:
    """A quota of -1 is no limit."""
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period else None


def _number(file: Path) -> int | None:
    text = _read(file).strip()
    return int(text) if text.isdecimal() else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
