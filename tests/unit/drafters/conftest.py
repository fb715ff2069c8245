"""A tiny target and heads for it, trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.models.language_model import LanguageModel
from tests import trained
from tests.tiny import language_model, requests


@pytest.fixture(scope="session")
def target() -> LanguageModel:
    return language_model("llama")


@pytest.fixture(scope="session")
def folder(tmp_path_factory, target) -> Path:
    """Heads that are right now and then, so that rows accept different numbers."""
    made = tmp_path_factory.mktemp("heads")
    trained.train_medusa(made / "medusa", target, requests(5))
    trained.train_eagle(made / "eagle", target, requests(5))
    trained.train_eagle3(made / "eagle3", target, requests(5))
    return made
