"""A writer that SIGKILLs itself at the k-th operation on the disk, and one that just runs.

python -m tests.unit.records.kill_switch FOLDER every    # FOLDER/k: killed at operation k
python -m tests.unit.records.kill_switch FOLDER plain    # one run, for a killer outside
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specbench.records.store import RunWriter
from specbench.records.tables import to_arrow
from tests.unit.records import samples

GAMMAS = [2, 3]
MANY = list(range(1, 31))


def write_all(folder: Path, gammas: list[int]) -> None:
    """Measure what is not done; every third cell ends a block, whose lines are updated."""
    with RunWriter.open(folder, samples.manifest()) as writer:
        print("open", flush=True)
        for gamma in gammas:
            point = samples.cell(gamma=gamma)
            if point.cell_id not in writer.done:
                writer.write_cell(samples.record(point), *samples.single())
            if gamma % 3 == 0:
                records = writer.records.values()
                writer.update_cells([record.updated(speedup=1.5) for record in records])
        writer.manifest.finished = "today"
        writer.write_manifest()


def kill_at(operation: int) -> None:
    """Die in the middle of the given write, or just before the given sync, rename or cut."""
    left = operation

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write" and arguments[0] > 2:
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in ("write", "fsync", "replace", "unlink", "mkdir", "open"):
        setattr(os, name, counted(name, getattr(os, name)))


def in_child(action: Callable[[], None]) -> bool:
    """Run in a fork; whether it lived to the end."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("the child failed")
    return os.WIFEXITED(status)


def every(root: Path) -> None:
    """Kill at each operation in turn until a run lives; keep the killed state and the resumed."""
    to_arrow({"warm": [1]})  # pyarrow looks for pandas once, which is slow: not in each fork
    operation, lived = 0, False
    while not lived:
        operation += 1
        folder = root / f"{operation}-resumed"

        def doomed(folder: Path = folder, operation: int = operation) -> None:
            kill_at(operation)
            write_all(folder, GAMMAS)

        lived = in_child(doomed)
        if folder.exists():
            shutil.copytree(folder, root / f"{operation}-killed")
        in_child(lambda folder=folder: write_all(folder, GAMMAS))
    print(operation)


if __name__ == "__main__":
    if sys.argv[2] == "every":
        every(Path(sys.argv[1]))
    else:
        write_all(Path(sys.argv[1]), MANY)
