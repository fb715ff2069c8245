"""Where the records of a test go."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a run that is not there yet."""
    return tmp_path / "results" / "mine"
