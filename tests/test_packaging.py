"""The house: what a wheel contains, that it works alone, that the checks are documented."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from specbench import registry

ROOT = Path(__file__).resolve().parents[1]
TEST_COMMAND = "pip install -e '.[test]' && python tests/check.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as an installer's build would make it."""
    folder = tmp_path_factory.mktemp("wheel")
    program = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    (file,) = folder.glob("specbench-*.whl")
    return file


def test_the_wheel_has_the_package_every_task_and_the_published_tables(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    tasks = {f"specbench/_tasks/{file.name}" for file in (ROOT / "tasks").iterdir()}
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "specbench").rglob("*.py")}
    templates = {
        str(file.relative_to(ROOT)) for file in (ROOT / "specbench/report/templates").iterdir()
    }
    tables = {f"specbench/_published/{f.name}" for f in (ROOT / "results" / "published").iterdir()}
    assert len(tasks) >= 14
    assert len(tables) >= 4
    assert len(templates) == 3
    assert tasks | tables | modules | templates <= names
    assert not [name for name in names if name.startswith(("tests/", "results/"))]


def test_an_unpacked_wheel_lists_the_tasks_without_the_checkout(wheel: Path, tmp_path: Path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    result = subprocess.run(
        [sys.executable, "-m", "specbench", "tasks"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    for name in registry.names("tasks"):
        assert f"\n{name} " in f"\n{result.stdout}"


def test_the_readme_and_ci_run_the_same_command():
    assert TEST_COMMAND in (ROOT / "README.md").read_text(encoding="utf-8")
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.strip()][-1] == TEST_COMMAND


def test_the_supported_torch_and_transformers_are_in_range():
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {
        Requirement(text).name: Requirement(text).specifier for text in project["dependencies"]
    }
    for name, versions in {
        "torch": ("2.11.0", "2.13.0"),
        "transformers": ("5.17.0", "5.24.0"),
    }.items():
        for version in versions:
            assert version in ranges[name]


def test_every_check_is_in_the_one_command():
    result = subprocess.run(
        [sys.executable, "tests/check.py", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0
    source = (ROOT / "tests" / "check.py").read_text(encoding="utf-8")
    for tool in ("ruff", "mypy", "importlinter", "pytest"):
        assert tool in source
