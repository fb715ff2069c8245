"""What two runs differ in: servers by kind and version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specbench.analysis.comparing.unlike import run_differences
from specbench.records.reading import Run
from specbench.records.schema import Manifest


def run(name: str, **servers: dict[str, Any]) -> Run:
    return Run(Path(name), Manifest(name=name, config_hash="h", servers=servers), [])


def test_servers_of_another_version_are_named_once_and_urls_do_not_matter():
    old, new = {"dialect": "vllm", "version": "1"}, {"dialect": "vllm", "version": "2"}
    assert run_differences(run("a", x=old, y=old), run("b", z=old)) == []
    assert run_differences(run("a", x=old), run("b", x=new)) == [
        "another server: vllm 1 in a, vllm 2 in b"
    ]
    assert run_differences(run("a"), run("b", x={"dialect": "openai", "version": None})) == [
        "another server: not known in a, openai ? in b"
    ]
