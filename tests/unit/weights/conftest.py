"""What the tests of model loading share: an empty cache, a tiny model instead of the real one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from specbench.weights import embedded
from tests.unit.weights.tiny import write_gguf, write_wheel


class Told:
    """A progress that keeps what it is told; ``on_note`` is called with each note."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: list[str] = []
        self.on_note: Callable[[str], None] = lambda text: None

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.on_note(text)

    @contextmanager
    def stage(self, label: str, total_bytes: int | None = None) -> Iterator[Callable[[int], None]]:
        self.stages.append(label)
        yield lambda done_bytes: None


@dataclass(frozen=True)
class TinyDefault:
    """The stand-in for the embedded model: its cache, its wheel's folder and its hash."""

    cache: Path
    wheels: Path
    gguf: Path
    sha256: str


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(scope="session")
def tiny_wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A folder with the wheel, the GGUF file in it, its hash."""
    folder = tmp_path_factory.mktemp("wheels")
    digest = write_gguf(folder / "tiny.gguf")
    write_wheel(folder, folder / "tiny.gguf", padding_bytes=400_000)
    return folder, folder / "tiny.gguf", digest


@pytest.fixture
def tiny_default(
    tmp_path: Path, tiny_wheels: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch
) -> TinyDefault:
    """An empty cache, no package index, no hub; the pinned hash is the tiny model's."""
    wheels, gguf, digest = tiny_wheels
    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECBENCH_CACHE", str(cache))
    monkeypatch.setattr(embedded, "GGUF_SHA256", digest)
    monkeypatch.setattr(embedded, "NEEDED_BYTES", 1)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "100")  # a busy machine is no broken index
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "100")
    monkeypatch.setenv("UV_OFFLINE", "1")
    return TinyDefault(cache, wheels, gguf, digest)
