"""Several processes draw what one draws, byte for byte, and tell what can't be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.shown.frame import points_frame
from specbench.cli import _drawing
from specbench.cli._drawing import DrawingProcesses, save
from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

NAMES = ("speedup-vs-gamma", "speedup-vs-alpha", "batch-crossover")


def test_two_processes_draw_what_one_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.7, 0.01)}, gammas=(1, 2))
    frames = {"points": points_frame(fit_run(load_run(run)))}
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(_drawing, "_cores", lambda cores=cores: cores)
        with DrawingProcesses(len(NAMES)) as processes:
            found.append(processes.pictures(NAMES, frames, ["svg"]))
    (alone, lacking), (together, lacking_too) = found
    assert alone == together
    assert list(together) == ["speedup-vs-gamma", "speedup-vs-alpha"]
    (error,), (error_too,) = lacking.values(), lacking_too.values()
    assert (error.message, error.hint) == (error_too.message, error_too.hint)
    assert "batch" in error_too.message
    assert "--batch-size" in error_too.hint


@pytest.mark.parametrize(
    ("count", "cores", "expected"), [(2, 8, False), (3, 1, False), (9, 2, True)]
)
def test_few_figures_or_one_core_need_no_process(
    count: int, cores: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(_drawing, "_cores", lambda: cores)
    monkeypatch.setattr(_drawing, "ProcessPoolExecutor", lambda *a: started.append(a) or Nobody())
    with DrawingProcesses(count):
        assert bool(started) is expected


class Nobody:
    """A pool that does nothing."""

    def shutdown(self) -> None:
        """Nothing happens."""


def test_files_are_written(tmp_path: Path) -> None:
    paths = save({"png": b"a", "svg": b"b"}, tmp_path / "figures", "x")
    assert [path.name for path in paths] == ["x.png", "x.svg"]
    assert [path.read_bytes() for path in paths] == [b"a", b"b"]


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SpecbenchError) as caught:
        save({"png": b""}, tmp_path / "file" / "figures", "x")
    assert "--out" in str(caught.value)
