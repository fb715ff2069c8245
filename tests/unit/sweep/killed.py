"""Real runs of a tiny model that kill themselves with SIGKILL, and are started again.

python -m tests.unit.sweep.killed ROOT TARGET PROMPTS

writes ROOT/whole, and for each moment ROOT/MOMENT-killed and ROOT/MOMENT, the same folder after the
sweep was started again.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from specbench.engine.recorder import Recorder
from specbench.records import store
from specbench.records.schema import Cell
from specbench.records.store import RunWriter
from specbench.sweep import runner
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter

CELL, ROUND = 3, 3


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def at_call(count: int, real: Callable[..., Any]) -> Any:
    """The real function, but death at the given call."""
    left = count

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        return die() if left == 0 else real(*arguments, **named)

    return call


def while_recording() -> None:
    RunWriter.write_extra = die  # type: ignore[method-assign]


def during_a_cell() -> None:
    def started(self: SilentReporter, cell: Cell, index: int, total: int) -> None:
        if index == CELL:
            Recorder.add = at_call(ROUND, Recorder.add)  # type: ignore[method-assign]

    SilentReporter.cell_started = started  # type: ignore[method-assign]


def between_table_and_line() -> None:
    store.append_durably = at_call(CELL, store.append_durably)


def at_a_blocks_end() -> None:
    RunWriter.update_cells = at_call(1, RunWriter.update_cells)  # type: ignore[method-assign]


def at_the_last_blocks_end() -> None:
    RunWriter.update_cells = at_call(2, RunWriter.update_cells)  # type: ignore[method-assign]


MOMENTS = {
    function.__name__: function
    for function in (
        while_recording,
        during_a_cell,
        between_table_and_line,
        at_a_blocks_end,
        at_the_last_blocks_end,
    )
}


def main(root: Path, target: str, prompts: str) -> None:
    runner.copy_bandwidth = lambda device: 1e10  # type: ignore[assignment]
    runner.read_bandwidth = lambda device: 2e10  # type: ignore[assignment]
    runner.matmul_rate = lambda device, dtype: 1e11  # type: ignore[assignment]

    def sweep(folder: Path) -> None:
        config = SweepConfig(
            target=target,
            tasks=[prompts],
            drafters=["ngram", "synthetic:0.75"],
            gammas=[2],
            temperatures=[0.0, 1.0],
            prompts=3,
            max_new_tokens=6,
            threads=1,
            out=folder,
        )
        runner.run(config, SilentReporter())

    sweep(root / "whole")
    for name, moment in MOMENTS.items():
        folder = root / name

        def doomed(folder: Path = folder, moment: Callable[[], None] = moment) -> None:
            moment()
            sweep(folder)

        assert not lived(doomed), name
        shutil.copytree(folder, root / f"{name}-killed")
        assert lived(lambda folder=folder: sweep(folder)), name


def lived(action: Callable[[], None]) -> bool:
    """Run in a fork; whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    _, status = os.waitpid(child, 0)
    assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status)), "the child failed"
    return os.WIFEXITED(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
