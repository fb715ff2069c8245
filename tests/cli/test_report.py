from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.records.store import load_run
from specbench.report import material
from tests import foreign, pages

Command = Callable[..., Any]


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take nearly all the time of a report."""
    monkeypatch.setattr(material, "pictures", lambda names, frames: [])


def test_the_report_goes_to_the_run_and_its_path_is_printed(specbench: Command, run: Path) -> None:
    result = specbench("report", str(run))
    assert (result.code, result.err) == (0, "")
    assert result.out == f"{run / 'report.html'}\n"
    page = pages.parse((run / "report.html").read_text(encoding="utf-8"))
    assert page.all("p", class_="answer")[0].text.startswith("Use ngram")
    assert len(load_run(run).cells) == 5  # the run itself is as it was


@pytest.mark.usefixtures("without_figures")
def test_the_file_is_chosen_and_its_folder_made(
    specbench: Command, run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "a" / "b.html"
    assert specbench("report", str(run), "--out", str(file)).out == f"{file}\n"
    assert [entry.name for entry in file.parent.iterdir()] == ["b.html"]
    assert not (run / "report.html").exists()


@pytest.mark.usefixtures("without_figures")
def test_a_folder_is_no_file(specbench: Command, run: Path, tmp_path: Path) -> None:
    line = specbench("report", str(run), "--out", str(tmp_path)).error_line
    assert str(tmp_path) in line


@pytest.mark.usefixtures("without_figures")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(specbench: Command, run: Path) -> None:
    run.chmod(0o555)
    try:
        line = specbench("report", str(run)).error_line
    finally:
        run.chmod(0o755)
    assert "--out" in line


def test_no_such_run_is_named(specbench: Command) -> None:
    assert "no/such/run" in specbench("report", "no/such/run").error_line


@pytest.mark.usefixtures("without_figures")
def test_imported_results_have_a_report(specbench: Command, tmp_path: Path) -> None:
    plain = foreign.write(tmp_path / "plain.json", foreign.vllm())
    spec = foreign.write(tmp_path / "spec.json", foreign.vllm_speculative())
    folder = tmp_path / "run"
    words = ("--drafter", "eagle", "--task", "chat", "--out", str(folder))
    assert specbench("import", str(plain), str(spec), *words).code == 0
    assert specbench("report", str(folder)).code == 0
    page = pages.parse((folder / "report.html").read_text(encoding="utf-8"))
    assert page.all("p", class_="answer")[0].text.startswith(
        "Do not speculate yet (chat, T = 0, batch 4, vllm): undecided"
    )
    (row,) = pages.table(page, "Speedup, measured and predicted")[1:]
    assert row == ["eagle", "3", "2.30", "~ 1.60"] + ["-"] * 6
    warnings = page.all("section", id="warnings")[0].text
    assert "Imported from vllm-bench: no times of rounds" in warnings
    method = page.all("section", id="method")[0].text
    assert "measured by vllm-bench and imported" in method
    assert "Plain decoding runs first and last" not in method
    (columns, *_) = pages.table(page, "2 finished cells")
    assert "draft ms" not in columns
