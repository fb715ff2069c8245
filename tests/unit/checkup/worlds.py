"""A machine that a test puts together: files, variables, a GPU's driver."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from specbench.checkup.finding import Check, Finding
from specbench.checkup.machine import Machine
from tests.unit.measure.fake_state import FakeStateNvml
from tests.unit.measure.fakes import FakeNvml

NO_GPU = FakeNvml(unsupported=("nvmlInit",))


class World:
    """Makes machines below a folder; nothing is asked of the real one's driver or network."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def machine(
        self,
        nvml: FakeNvml = NO_GPU,
        *,
        on_gpu: bool = False,
        in_use: bool = False,
        files: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Machine:
        """A machine with these files below its root.

        Args:
            nvml: the driver.
            on_gpu: whether torch uses it.
            in_use: whether this process computes on the device already.
            files: path below the root -> text.
            options: fields of Machine.
        """
        for name, text in (files or {}).items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self._monkeypatch.setitem(sys.modules, "pynvml", nvml)
        settings = {"environment": {}, "root": self.folder, "results": self.folder / "results"}
        machine = Machine("cpu", in_use=in_use, **{**settings, **options})
        if on_gpu:
            machine.device = "cuda:0"
            machine.gpu = machine.gpu_now()
        return machine

    def with_gpu(self, **answers: Any) -> Machine:
        """A machine with a GPU whose driver gives these answers, before anything was computed."""
        return self.machine(FakeStateNvml(**answers))


def one(check: Check, machine: Machine) -> Finding:
    """The only finding of a check."""
    (finding,) = check.findings(machine)
    return finding
