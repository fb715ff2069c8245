"""Progress on stderr: lines in a pipe, a bar in a terminal, and the time left."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from specbench.cli.console import (
    BarReporter,
    LineReporter,
    cell_title,
    outcome,
    reporter_for_terminal,
)
from tests.cli.records import baselines, cell, record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Now:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def sweep_of(reporter: LineReporter, now: Now) -> None:
    """A plan of 10 cells of which 4 were there: two cells of 30 s each are measured."""
    plan = SimpleNamespace(cells=[cell()] * 10)
    reporter.started(plan, done=4)
    for index, finished in ((5, baselines()[0]), (6, record("failed", {"error": "boom"}))):
        reporter.cell_started(finished.cell, index, 10)
        now.seconds += 30
        reporter.cell_finished(finished)
    reporter.warning("another process is on the GPU")
    reporter.finished(Path("results/x"))


def test_in_a_pipe_every_event_is_one_line():
    stream, now = io.StringIO(), Now()
    with LineReporter(stream, now) as reporter:
        sweep_of(reporter, now)
    assert stream.getvalue().splitlines() == [
        "10 cells to measure, 4 of them measured before",
        "[ 5/10] chat, T = 0, batch 1, plain decoding (first): 30.0 tok/s, about 2 min left",
        "[ 6/10] chat, T = 0, batch 1, ngram γ = 4: failed: boom, about 2 min left",
        "warning: another process is on the GPU",
        "written to results/x",
    ]
    assert reporter.run_folder == Path("results/x")


def test_the_time_left_is_that_of_the_cells_measured_now():
    now = Now()
    reporter = LineReporter(io.StringIO(), now)
    assert reporter.seconds_left() is None
    reporter.started(SimpleNamespace(cells=[cell()] * 10), done=6)
    now.seconds += 500  # loading the model is not a cell
    reporter.cell_started(cell(), 7, 10)
    assert reporter.seconds_left() is None
    now.seconds += 20
    reporter.cell_finished(record())
    assert reporter.seconds_left() == pytest.approx(3 * 20)


def test_the_time_left_is_counted_anew_for_every_engine():
    now = Now()
    reporter = LineReporter(io.StringIO(), now)
    plan = SimpleNamespace(cells=[cell()] * 4)
    for engine, seconds in enumerate((10, 50)):  # two cells each, the second engine slower
        reporter.started(plan, done=2 * engine)
        for index in (1, 2):
            reporter.cell_started(cell(), 2 * engine + index, 4)
            now.seconds += seconds
            reporter.cell_finished(record())
            assert reporter.seconds_left() == pytest.approx(seconds * (4 - 2 * engine - index))


def test_in_a_terminal_failures_and_messages_scroll_above_the_bar():
    stream, now = Terminal(), Now()
    with BarReporter(stream, now) as reporter:
        sweep_of(reporter, now)
    text = stream.getvalue()
    assert "warning: chat, T = 0, batch 1, ngram γ = 4: failed: boom" in text
    assert "warning: another process is on the GPU" in text
    assert text.rstrip().endswith("written to results/x")


def test_the_bar_is_taken_down_when_the_sweep_fails():
    reporter = BarReporter(Terminal(), Now())
    reporter.started(SimpleNamespace(cells=[cell()]))
    assert reporter._progress is not None
    with pytest.raises(RuntimeError), reporter:
        raise RuntimeError
    assert reporter._progress is None


def test_markup_in_a_message_is_text():
    stream = Terminal()
    BarReporter(stream).message("model:[bold]x[/bold] [1/2]")
    assert "model:[bold]x[/bold] [1/2]" in stream.getvalue()


def test_the_stream_decides():
    assert type(reporter_for_terminal(io.StringIO())) is LineReporter
    assert type(reporter_for_terminal(Terminal())) is BarReporter


def test_an_outcome_is_a_speed_or_a_reason():
    assert outcome(record()) == "62.5 tok/s"
    assert outcome(record(measured={"tok_per_s": None})) == "measured"
    assert outcome(record("out_of_memory")) == "out of memory"


@pytest.mark.parametrize("kind", [LineReporter, BarReporter])
def test_the_steps_before_the_sweep_are_shown_on_the_same_stream(kind: type[LineReporter]):
    stream = Terminal()
    reporter = kind(stream)
    reporter.progress.note("reading weights")
    assert stream.getvalue() == "reading weights\n"


def test_a_long_name_never_costs_the_bar_or_the_time_left(monkeypatch: pytest.MonkeyPatch):
    now = Now()
    with BarReporter(Terminal(), now) as reporter:
        reporter.started(SimpleNamespace(cells=[cell()] * 10))
        for index in (1, 2):
            reporter.cell_started(cell(drafter="model:" + "x" * 100), index, 10)
            now.seconds += 30
            reporter.cell_finished(record())
        assert reporter._progress is not None
        paper = Console(file=io.StringIO(), width=80)
        with paper.capture() as shown:
            paper.print(reporter._progress.get_renderable())
    lines = shown.get().splitlines()
    assert len(lines) == 1
    assert len(lines[0].rstrip()) <= 80
    assert "1/10" in lines[0]
    assert "about 4 min left chat, T = 0, batch 1, model:x" in lines[0]
    assert lines[0].rstrip().endswith("x γ = 4")


@pytest.mark.parametrize("width", [30, 42, 60, 200])
def test_a_long_name_is_cut_in_the_middle_and_gamma_stays(width: int):
    long = cell(task="summarization", drafter="model:/a/long/path/to/folder,gamma=auto", gamma=8)
    title = cell_title(long, width)
    assert len(title) <= width
    assert title.endswith("auto γ ≤ 8")
    assert ("…" in title) == (width < 80)
    assert cell_title(long) == (
        "summarization, T = 0, batch 1, model:/a/long/path/to/folder,gamma=auto γ ≤ 8"
    )
