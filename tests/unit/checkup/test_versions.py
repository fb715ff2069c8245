"""Versions: what is required, what is there, and what lacks only where it is needed."""

from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement

from specbench.checkup import versions
from specbench.checkup.finding import Finding
from tests.unit.checkup.worlds import World, one


@pytest.fixture
def packages(world: World, monkeypatch: pytest.MonkeyPatch):
    def found(*lines: str) -> dict[str, Finding]:
        monkeypatch.setattr(metadata, "requires", lambda _: list(lines))
        return {one.name: one for one in versions.packages.findings(world.machine())}

    return found


def test_torch_and_transformers_have_a_line_each_the_rest_share_one(packages):
    found = packages("torch>=1", "transformers>=1", "numpy>=1", "pytest>=1; extra == 'test'")
    assert list(found) == ["torch", "transformers", "other packages"]
    assert {one.verdict for one in found.values()} == {"ok"}
    assert found["torch"].value.endswith("(>=1)")
    assert found["other packages"].value == f"numpy {metadata.version('numpy')}"


def test_a_missing_and_an_old_package_fail_with_the_way_out(packages):
    found = packages("numpy>=99", "no-such-package-at-all>=2")
    assert found["numpy"].verdict == "fail"
    assert "is outside the supported range >=99" in found["numpy"].value
    assert found["numpy"].advice == "pip install 'numpy>=99'"
    missing = found["no-such-package-at-all"]
    assert (missing.verdict, missing.value) == ("fail", "is not installed")


def test_a_package_that_few_runs_need_is_a_warning(packages, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "package_versions", lambda names: dict.fromkeys(names))
    found = packages("datasets>=4.0", "torch>=2.6")
    assert found["datasets"].verdict == "warn"
    assert "only prompts from the model hub need it" in found["datasets"].value
    assert found["torch"].verdict == "fail"


def test_a_checkout_that_is_not_installed_reads_its_project_file(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    monkeypatch.setattr(metadata, "metadata", absent)
    names = [one.name for one in versions.packages.findings(world.machine())]
    assert "torch" in names
    assert "(>=3.11)" in one(versions.python_version, world.machine()).value


def test_a_python_out_of_range_fails(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "metadata", lambda _: {"Requires-Python": ">=4"})
    finding = one(versions.python_version, world.machine())
    assert finding.verdict == "fail"
    assert "needs >=4" in finding.value


def test_requirements_leave_out_extras_and_other_systems():
    lines = ["b>=1", "a", "c; extra == 'test'", "d; sys_platform == 'nowhere'"]
    assert versions.requirements_of(lines) == [Requirement("a"), Requirement("b>=1")]


def test_the_commit_of_a_checkout_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "git_state", lambda: {"commit": "a" * 40, "dirty": True})
    value = one(versions.own_version, world.machine()).value
    assert value.endswith("; commit aaaaaaa, changed since")
    monkeypatch.setattr(versions, "git_state", lambda: None)
    assert "commit" not in one(versions.own_version, world.machine()).value
