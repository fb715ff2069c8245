"""A disk without room, and a tiny target that can be asked in words."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from specbench.models.language_model import LanguageModel
from specbench.weights.loading import load_causal_lm
from tests.tiny_target import write_target


@pytest.fixture
def no_room() -> Callable[[int], AbstractContextManager[None]]:
    """Within it no file can grow beyond some bytes: what writes there meets what it would meet on
    a full disk, an OSError in the middle of a file."""

    @contextmanager
    def limited(num_bytes: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="package")
def chat_target(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A tiny chat model with a tokenizer of bytes."""
    folder = write_target(tmp_path_factory.mktemp("target") / "tiny", chat=True)
    loaded = load_causal_lm(str(folder), dtype="float32", device="cpu")
    return LanguageModel(loaded.model, loaded.tokenizer, loaded.source.name)
