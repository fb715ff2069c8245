"""What the tests of the sweep share: no measuring of the machine, one thread, an own cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specbench.sweep import runner
from tests.tiny_target import write_target
from tests.unit.sweep.fakes import Sweep


@pytest.fixture(autouse=True)
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(runner, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(runner, "read_bandwidth", lambda device: 2e10)
    monkeypatch.setattr(runner, "matmul_rate", lambda device, dtype: 1e11)
    monkeypatch.setattr(runner, "what_spoils", lambda device: [])
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """A sweep of one block on the fake backend: two baselines and two cells."""
    made = Sweep(tmp_path)
    monkeypatch.setattr(runner, "make_backend", lambda name: made.backend)
    return made


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny target in float32."""
    return write_target(tmp_path_factory.mktemp("targets") / "tiny")


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a chat template."""
    return write_target(tmp_path_factory.mktemp("targets") / "tiny-chat", chat=True)
