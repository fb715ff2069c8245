"""Runs every check of the project, in the order in which they are quick to fail.

    python tests/check.py            format, lint, types, layers, a real vLLM, tests
    python tests/check.py --slow     with the tests that need minutes or downloaded weights
    python tests/check.py --fix      let ruff format and repair first

Each check's command is printed with its result. All of them run, whatever fails; the exit code is
1 if any did. pytest comes last, so its closing line ends the output of a good run.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVING = "tests/serving"
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"


def main() -> int:
    options = parse_options()
    failed = []
    for name, command in checks(options.slow, options.fix):
        print(f"== {name}: {shlex.join(['python', *command])}", flush=True)
        start = time.monotonic()
        code = subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode
        if code != 0:
            failed.append(name)
        if name != "tests" or code != 0:
            verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
            print(f"== {name}: {verdict} in {time.monotonic() - start:.0f} s\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def checks(slow: bool, fix: bool) -> list[tuple[str, list[str]]]:
    """Each check's name and its command, the words after ``python``."""
    pytest = ["-m", "pytest", "--quiet", "-rs"]  # says what it skipped
    tests = ["--numprocesses=auto", f"--ignore={SERVING}"]
    if slow:
        tests += ["-m", "slow or not slow"]
    return [
        ("format", ["-m", "ruff", "format", *([] if fix else ["--check"]), "."]),
        ("lint", ["-m", "ruff", "check", *(["--fix"] if fix else []), "."]),
        ("types", ["-m", "mypy"]),
        ("layers", ["-c", LINT_IMPORTS]),
        ("serving", [*pytest, SERVING]),  # a server wants the machine for itself
        ("tests", [*pytest, *tests]),
    ]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slow", action="store_true", help="run the slow tests too")
    parser.add_argument("--fix", action="store_true", help="let ruff format and repair first")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
