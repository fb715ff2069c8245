"""A real browser without a screen: Chromium, driven by its own driver, on files of this machine.

Skipped by name where there is none. It takes `chromium` and `chromedriver` on the PATH (Debian:
packages chromium and chromium-driver) or in CHROME and CHROMEDRIVER.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.browser.browser import Browser

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests, with a profile of its own."""
    pytest.importorskip("selenium", reason="no browser test: selenium is not installed")
    program = os.environ.get("CHROME") or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    if program is None or driver is None:
        missing = "chromium" if program is None else "chromedriver"
        pytest.skip(f"no browser test: there is no {missing} (Debian: chromium, chromium-driver)")
    opened = Browser.start(program, driver, tmp_path_factory.mktemp("profile"))
    try:
        yield opened
    finally:
        opened.close()
