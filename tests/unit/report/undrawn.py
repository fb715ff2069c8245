"""Reports without their figures, which take nearly all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.records.store import load_run
from specbench.report import material
from specbench.report.document import build
from tests import pages


def page_of(folder: Path) -> pages.Element:
    """The report of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(material, "pictures", lambda names, frames: [])
        return pages.parse(build(load_run(folder)))
