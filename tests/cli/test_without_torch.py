"""What is answered without torch, in processes of their own: only there imports show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.simulate import SimulatedDrafter, simulate_run

ROOT = Path(__file__).resolve().parents[2]


def imported(code: str) -> set[str]:
    """Top-level modules of a process of its own after this code."""
    lines = (
        "import contextlib, io, sys",
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(sys.stdout):",
        f"    {code}",
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))",
    )
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return set(result.stdout.split())


def imported_by_commands(*commands: tuple[str, ...]) -> set[str]:
    """The same after command lines that all end well."""
    return imported(
        "import specbench.cli.main as command\n"
        f"    for words in {list(map(list, commands))!r}:\n"
        "        try: command.main(words)\n"
        "        except SystemExit as ending: assert ending.code == 0, (words, ending.code)"
    )


def test_two_numbers_import_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "pandas", "scipy", "pyarrow", "matplotlib"}
    words = ("optimal-gamma", "--alpha", "0.8", "--cost", "0.02")
    assert not imported_by_commands(words) & heavy
    # Some versions of typer import pydantic by themselves, so this looks at the function alone.
    code = "import specbench.cli.optimal_gamma as m; m.optimal_gamma(alpha='0.8', cost='0.02')"
    assert not imported(code) & {*heavy, "pydantic"}


def test_everything_on_a_run_is_answered_without_torch(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    run = str(simulate_run(tmp_path / "run", drafters, gammas=(1, 2, 4), prompts=6, tokens=16))
    figure = ("--figure", "speedup-vs-gamma", "--out", str(tmp_path), "--format", "svg")
    modules = imported_by_commands(
        ("optimal-gamma", run),
        ("fit", run),
        ("fit", run, "--claims"),
        ("fit", run, "--convention", "vllm"),
        ("compare", run, run),
        ("plot", run, *figure),
        ("report", run),  # which draws every figure
    )
    assert {"pandas", "matplotlib"} <= modules  # so this did look at what was loaded
    assert not modules & {"torch", "transformers"}
