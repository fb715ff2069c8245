"""The summary: complete, 80 columns, honest about what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import summary
from tests.gpu.records import Records
from tests.gpu.stages import Outcome
from tests.gpu.summary_text import lines as text_of
from tests.unit.gpu.worlds import cell, plain, write_fit, write_run

FACTS = summary.Facts(
    "2026-01-31T12:00:00+00:00",
    540.0,
    "python -m tests.gpu.h200",
    "abcdef0123",
    ("datasets",),
    False,
)
OUTCOMES = [
    Outcome("doctor", "done", 12.34, 35.0),
    Outcome("8b-compile", "failed", 100.0, 100.0, "no such option: --compile " + "x" * 150),
    Outcome("8b-eager", "not available in this version", reason="run has no --no-cuda-graph"),
]
MANIFEST: dict[str, Any] = {
    "device": {"gpu": {"name": "NVIDIA H200", "nvml": {"driver": "580.159"}}, "cpu": "Xeon"},
    "packages": {"torch": "2.11.0+cu130", "transformers": "5.17.0"},
    "bandwidth_bytes_per_s": 4.3e12,
    "read_bandwidth_bytes_per_s": 4.5e12,
    "matmul_flops_per_s": 780e12,
}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Of a script that measured some of its runs."""
    speeds = {"tok_per_s": 210.0, "itl_s": 0.00476, "bandwidth_utilization": 0.81}
    write_run(
        tmp_path, "8b", plain(**speeds, baseline="first"), plain(8, tok_per_s=1500.0), **MANIFEST
    )
    drafter = "synthetic:0.8,cost=model:shape:llama-3.2-1b"
    measured = {"alpha": 0.79, "tau": 3.3, "c": 0.21, "v": 1.02, "speedup": 1.7}
    write_run(tmp_path, "synthetic-model", cell(drafter, 4, **measured), cell(drafter, 2, tau=2.4))
    write_fit(tmp_path, "synthetic-model", drafter, {4: -0.1})
    check = {"verdict": "warn", "name": "persistence", "value": "off"}
    (tmp_path / "doctor.json").write_text(json.dumps({"checks": [check]}))
    return Records(tmp_path)


def test_the_document_has_everything_that_was_measured(records: Records):
    found = summary.document(FACTS, OUTCOMES, records)
    assert found["machine"]["gpu"] == "NVIDIA H200"
    assert found["machine"]["doubts"] == ["warn: persistence: off"]
    assert [stage["status"] for stage in found["stages"]] == [one.status for one in OUTCOMES]
    assert [
        (row["run"], row["batch_size"], row["tok_per_s"]) for row in found["plain_decoding"]
    ] == [
        ("8b", 1, 210.0),
        ("8b", 8, 1500.0),
    ]
    assert found["plain_decoding"][1]["of_peak_copy"] is None
    two, four = found["synthetic_cells"]
    assert (two["gamma"], two["speedup"], two["predicted_speedup"]) == (2, None, None)
    assert (four["speedup"], four["predicted_speedup"]) == (1.7, 1.8)
    assert len(found["criteria"]) == 5
    assert found["missing_packages"] == ("datasets",)


def test_the_text_says_it_in_80_columns(records: Records):
    lines = text_of(summary.document(FACTS, OUTCOMES, records))
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    for part in (
        "NVIDIA H200, driver 580.159, torch 2.11.0+cu130, commit abcdef0",
        "measured peaks: copy 4,300.0 GB/s, read 4,500.0 GB/s, matmul 780.0 TFLOP/s",
        "missing package: datasets",
        "warn: persistence: off",
        "doctor                12.3      35  done",
        "8b                     1      210.0     4.760    81.0%        -       -",
        "synthetic-model       0.8   4   0.79   3.30   0.210   1.02     1.70       1.80",
        "synthetic-model       0.8   2      -   2.40       -      -        -          -",
        "not held      extended model, synthetic cells: median error at most 5%",
        "              median 10.0%, worst 10.0%, cells 1, median with its own costs 5.0%",
        "not measured  loop outside draft and verify, batch 1: at most 3% of a round",
    ):
        assert part in text


def test_a_script_that_measured_nothing_has_a_summary_too(tmp_path: Path):
    found = summary.document(FACTS, [], Records(tmp_path))
    lines = text_of(found)
    assert "no run told of its machine" in lines[0]
    assert "plain decoding" not in "\n".join(lines)
    assert sum(line.startswith("not measured") for line in lines) == 5


def test_both_files_are_written_whole(records: Records):
    found = summary.document(FACTS, OUTCOMES, records)
    summary.write(records.out, found)
    again = json.loads((records.out / "summary.json").read_text())
    assert again["stages"] == found["stages"]
    text = (records.out / "summary.txt").read_text()
    assert text.splitlines() == text_of(found)
    assert not list(records.out.glob(".summary*"))


def test_other_engines_stand_beside_plain_decoding(tmp_path: Path):
    write_run(tmp_path, "engine-vllm", plain(tok_per_s=300.0))
    write_run(tmp_path, "smollm2", plain(tok_per_s=400.0))
    rows = summary.document(FACTS, [], Records(tmp_path))["plain_decoding"]
    assert [(row["run"], row["tok_per_s"]) for row in rows] == [
        ("smollm2", 400.0),
        ("engine-vllm", 300.0),
    ]
