"""Opens a page at a width and in a colour scheme, and tells what a person would notice."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_HEIGHT = 900


@dataclass(frozen=True)
class Seen:
    """What opening a page led to.

    Attributes:
        console: messages of the console, warnings too.
        requests: addresses that were asked for, the page's own left out.
    """

    console: list[str]
    requests: list[str]


class Browser:
    """Chromium behind its driver."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @classmethod
    def start(cls, program: str, driver: str, profile: Path) -> Browser:
        """Start Chromium with an empty profile."""
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        return cls(webdriver.Chrome(options=options, service=Service(driver)))

    def close(self) -> None:
        """End the browser and its driver."""
        self._driver.quit()

    def open(self, file: Path, width: int, scheme: str = "light") -> Seen:
        """Load a file in a window of that width.

        Args:
            width: in CSS pixels; narrower than a window can be made, so it is emulated.
            scheme: light or dark.
        """
        size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self._driver.get("about:blank")
        for log in ("browser", "performance"):
            self._driver.get_log(log)  # what came before is not this page's
        address = file.resolve().as_uri()
        self._driver.get(address)
        messages = [
            json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")
        ]
        asked = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        console = [entry["message"] for entry in self._driver.get_log("browser")]
        return Seen(console, [url for url in asked if url not in (address, "data:,")])

    def ask(self, script: str) -> Any:
        """The value of a script's ``return``, run in the page."""
        return self._driver.execute_script(script)

    def screenshot(self, file: Path) -> None:
        """The whole page, not only what is in the window."""
        size = self._driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        file.write_bytes(base64.b64decode(shot["data"]))
