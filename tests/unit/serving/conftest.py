"""Servers of every dialect on this machine."""

from __future__ import annotations

import pytest

from specbench.serving import client


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keys are in the environment stay there."""
    for name in ("SPECBENCH_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def patient() -> client.Deadlines:
    """Deadlines that a busy machine keeps."""
    return client.Deadlines(connect_s=60.0, page_s=60.0, silence_s=60.0)


@pytest.fixture
def impatient() -> client.Deadlines:
    """A deadline of silence that a test can wait for."""
    return client.Deadlines(connect_s=60.0, page_s=60.0, silence_s=0.3)
