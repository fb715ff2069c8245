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
def impatient() -> client.Deadlines:
    """Deadlines that a test can wait for."""
    return client.Deadlines(connect_s=0.5, page_s=0.3, silence_s=0.3)
