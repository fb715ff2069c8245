"""``specbench doctor``: 80 columns, a verdict a line, JSON, and an exit code to rely on."""

from __future__ import annotations

import json
import sys
from importlib import metadata

import pytest

from specbench.checkup import network
from specbench.checkup.finding import check, fail, ok, warn
from specbench.measure.cpu_load import Load
from tests.unit.measure.fake_state import FakeStateNvml
from tests.unit.measure.fakes import FakeNvml


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on this machine's mood is tested with its check; here it is calm and alone."""
    bandwidth = "specbench.measure.bandwidth"
    monkeypatch.setattr(f"{bandwidth}.copy_bandwidth", lambda _, budget_s: 12.34e9)
    monkeypatch.setattr(f"{bandwidth}.matmul_rate", lambda _, dtype, budget_s: 5678.9e9)
    monkeypatch.setattr("specbench.measure.cpu_load.others_load", lambda _: Load(0.0, []))
    monkeypatch.setattr("specbench.measure.cgroup.cpu_quota", lambda _: None)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(unsupported=("nvmlInit",)))
    monkeypatch.setattr(network, "reach_hub", lambda: None)
    monkeypatch.setattr(network, "reach_index", lambda: None)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch):
    """Put these findings in place of what the machine would say."""

    def use(*findings) -> None:
        made = [
            check("here", finding.name or "thing")(lambda machine, finding=finding: finding)
            for finding in findings
        ]
        monkeypatch.setattr("specbench.checkup.examine", lambda machine: examine(machine, made))

    from specbench.checkup import examine

    return use


def test_a_good_machine_has_a_line_for_everything_and_no_problems(specbench, monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=1.0"])
    result = specbench("doctor")
    assert (result.code, result.err) == (0, "")
    for part in (
        "\nmeasured speed\n  ok    memory copy       12.3 GB/s, read + write; 5 measurements, spr",
        "  ok    matmul bfloat16   5,678.9 GFLOP/s",
        "  ok    model hub         not asked: HF_HUB_OFFLINE=1 is set",
        "  ok    GPU               none seen (no NVIDIA driver: Not Supported)",
        "  ok    other packages    numpy ",
    ):
        assert part in result.out
    assert result.out.splitlines()[-1].startswith("ready for specbench run")
    assert max(map(len, result.out.splitlines())) <= 80


def test_a_gpu_fills_its_section_within_80_columns(specbench, monkeypatch):
    refused = ("nvmlDeviceGetMigMode",)
    fake = FakeStateNvml(unsupported=refused, processes=(41, 42), nvmlDeviceGetTemperature=88)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    out = specbench("doctor").out
    assert "  warn  temperature       88 °C, slows down at 90 °C\n" in out
    assert "                          -> Let it cool before measuring\n" in out
    assert "  ok    MIG               not known (Not Supported)\n" in out
    assert "  warn  GPU processes     also used by " in out
    assert max(map(len, out.splitlines())) <= 80


def test_warnings_are_counted_and_do_not_fail(specbench, checks):
    checks(ok("fine"), warn("warm", "Cool it", name="box"))
    result = specbench("doctor")
    assert result.code == 0
    assert result.out == (
        "here\n"
        "  ok    thing             fine\n"
        "  warn  box               warm\n"
        "                          -> Cool it\n"
        "\n"
        "ready for specbench run: 1 warning\n"
    )


def test_a_failure_is_told_again_with_the_way_out_and_exit_code_1(specbench, checks):
    checks(fail("is not installed", "pip install 'numpy>=99'", name="numpy"), warn("a", "b"))
    result = specbench("doctor")
    assert result.code == 1
    assert result.out.splitlines()[-2:] == [
        "not ready for specbench run: 1 failure, 1 warning",
        "  numpy: is not installed. pip install 'numpy>=99'",
    ]


def test_a_long_failure_ends_within_80_columns(specbench, checks):
    checks(fail("is gone " * 20, "Find it " * 20))
    assert max(map(len, specbench("doctor").out.splitlines())) <= 80


def test_without_warnings_it_is_ready(specbench, checks):
    checks(ok("fine"))
    assert specbench("doctor").out.splitlines()[-1] == "ready for specbench run"


def test_json_has_every_finding_with_its_facts(specbench, checks):
    checks(ok("fine", bytes=3), fail("gone", "Find it", name="disk"))
    result = specbench("doctor", "--json")
    assert result.code == 1
    document = json.loads(result.out)
    assert (document["ready"], document["count"]) == (False, {"ok": 1, "warn": 0, "fail": 1})
    assert document["checks"][0] == {
        "verdict": "ok",
        "value": "fine",
        "advice": "",
        "facts": {"bytes": 3},
        "name": "thing",
        "section": "here",
    }


def test_the_real_document_is_json(specbench):
    document = json.loads(specbench("doctor", "--json", "--offline").out)
    names = [one["name"] for one in document["checks"]]
    assert {"torch", "memory copy", "CPU load", "results", "cache"} <= set(names)
    assert "model hub" not in names


def test_online_insists_and_offline_does_not_ask(specbench, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(network, "reach_hub", lambda: "no route")
    doubtful = specbench("doctor")
    assert doubtful.code == 0
    assert "  warn  model hub         not reachable: no route\n" in doubtful.out
    insisted = specbench("doctor", "--online")
    assert insisted.code == 1
    assert "  fail  model hub         not reachable: no route\n" in insisted.out
    assert "network" not in specbench("doctor", "--offline").out
