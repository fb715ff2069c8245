from __future__ import annotations

import io
import sys

import pytest

from specbench.cli._output import print_notes

LONG = "few prompts: " + "intervals rest on 3 conversations " * 5


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "lines"), [(io.StringIO, 1), (Terminal, 3)])
def test_a_note_is_one_line_but_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], lines: int
) -> None:
    err = stream()
    monkeypatch.setattr(sys, "stderr", err)
    print_notes([LONG])
    told = err.getvalue().splitlines()
    assert len(told) == lines
    assert " ".join(line.strip() for line in told) == f"note: {LONG.strip()}"
    assert lines == 1 or max(map(len, told)) <= 80
