"""Tiny targets on disk for the tests of backends, and a cache of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from specbench.backends.base import EngineOptions, make_backend
from specbench.backends.native import NativeBackend
from specbench.weights.progress import SILENT
from tests.tiny_target import write_target


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny targets ``float32`` and ``bfloat16``."""
    root = tmp_path_factory.mktemp("targets")
    for dtype in ("float32", "bfloat16"):
        write_target(root / dtype, dtype=dtype)
    return root


@pytest.fixture
def load(targets: Path) -> Callable[..., NativeBackend]:
    """Load a native backend on one of the targets, by its dtype, or on another folder."""

    def loaded(name: str | Path = "float32", **options: str) -> NativeBackend:
        backend = make_backend("native")
        assert isinstance(backend, NativeBackend)
        backend.load(EngineOptions(str(targets / name), device="cpu", **options), SILENT)
        return backend

    return loaded
