"""The command line under test: in this process for speed, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from specbench.cli.main import main
from tests.simulate import SimulatedDrafter, simulate_run

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """The one line that an expected failure prints; fails if it is not exactly that."""
        assert self.code == 2, f"exit code {self.code}\n{self.out}\n{self.err}"
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        return lines[0]


@pytest.fixture
def specbench(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run ``specbench WORDS...`` in this process."""

    def run(*words: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            main(words)
        captured = capsys.readouterr()
        code = ending.value.code
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one drafter, with something for most figures."""
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    return simulate_run(tmp_path / "run", drafters, gammas=(1, 2, 4), prompts=6, tokens=24)


@pytest.fixture
def specbench_process(tmp_path: Path) -> Callable[..., Result]:
    """Run ``python -m specbench WORDS...`` in an empty folder, as a user does."""

    def run(*words: str) -> Result:
        result = subprocess.run(
            [sys.executable, "-m", "specbench", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        return Result(result.returncode, result.stdout, result.stderr)

    return run
