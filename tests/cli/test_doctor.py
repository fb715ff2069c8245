"""``specbench doctor``: complete, 80 columns, an exit code that tells what is missing."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from specbench.cli import doctor as module
from tests.unit.measure.fakes import FakeNvml


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurements themselves have their own tests; here they cost nothing."""
    monkeypatch.setattr("specbench.measure.bandwidth.copy_bandwidth", lambda _: 12.34e9)
    monkeypatch.setattr(
        "specbench.measure.bandwidth.matmul_rate", lambda _, dtype, budget_s: 5678.9e9
    )


@pytest.fixture
def requires(monkeypatch: pytest.MonkeyPatch):
    def set_requirements(*lines: str) -> None:
        monkeypatch.setattr(metadata, "requires", lambda _: list(lines))

    return set_requirements


def test_a_good_machine_has_no_problems(specbench, requires):
    requires("numpy>=1.0", "pytest>=1; extra == 'test'")
    result = specbench("doctor")
    assert (result.code, result.err) == (0, "")
    for part in ("specbench ", "python ", "numpy ", "(>=1.0)", "12.3 GB/s", "5,678.9 GFLOP/s"):
        assert part in result.out
    assert "pytest" not in result.out
    assert result.out.endswith("\nno problems found\n")
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_a_missing_and_an_old_package_are_problems_with_the_way_out(specbench, requires):
    requires("numpy>=99", "no-such-package-at-all>=2")
    result = specbench("doctor")
    assert result.code == 1
    assert "problem: numpy" in result.out
    assert "pip install 'numpy>=99'" in result.out
    assert "problem: no-such-package-at-all is not installed" in result.out
    assert "no problems found" not in result.out


def test_a_checkout_that_is_not_installed_says_so(specbench, monkeypatch):
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    result = specbench("doctor")
    assert result.code == 0
    assert "ranges are unknown" in result.out


def test_no_gpu_comes_with_its_reason(specbench, requires, monkeypatch):
    requires()
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(unsupported=("nvmlInit",)))
    assert (
        "gpu                not seen (no NVIDIA driver: Not Supported)" in specbench("doctor").out
    )


def test_a_gpu_is_shown_with_what_it_refuses(specbench, requires, monkeypatch):
    requires()
    fake = FakeNvml(unsupported=("nvmlDeviceGetPowerUsage",), processes=(41, 42))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    out = specbench("doctor").out
    assert "name               Fake H100" in out
    assert "memory total       64.0 GiB" in out
    assert "power              unknown (Not Supported)" in out
    assert "power limit        700.0 W" in out
    assert "gpu in use         50% of the time" in out
    assert "other processes    41, 42" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_network_is_asked_only_on_request(specbench, requires, monkeypatch):
    requires()
    monkeypatch.setattr(module, "_reach_hub", lambda: "no route")
    monkeypatch.setattr(module, "_reach_index", lambda: None)
    assert "network" not in specbench("doctor").out
    result = specbench("doctor", "--online")
    assert result.code == 1
    assert "model hub          not reachable: no route" in result.out
    assert "package index      reachable" in result.out


def test_requirements_leave_out_extras_and_other_systems(requires):
    requires("b>=1", "a", "c; extra == 'test'", "d; sys_platform == 'nowhere'")
    assert module.requirements_of("specbench") == [Requirement("a"), Requirement("b>=1")]
