from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench import registry
from specbench.records import files
from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]


def test_all_figures_go_to_the_run_and_their_paths_are_printed(
    specbench: Command, run: Path
) -> None:
    result = specbench("plot", str(run))
    assert result.code == 0
    paths = [Path(line) for line in result.out.splitlines()]
    lacking = {"batch-crossover", "bandwidth-roofline"}  # one batch size, no bandwidth measured
    assert paths == [
        run / "figures" / f"{name}.{suffix}"
        for name in registry.names("plots")
        if name not in lacking
        for suffix in ("png", "svg")
    ]
    notes = result.err.splitlines()
    assert len(notes) == len(lacking)
    assert all(any(name in note for note in notes) for name in lacking)
    assert all(path.stat().st_size > 1000 for path in paths)


def test_the_figures_are_listed_without_a_run(specbench: Command) -> None:
    result = specbench("plot", "--list")
    assert result.code == 0
    heads = [line.split("  ")[0] for line in result.out.splitlines() if line[0] != " "]
    assert heads == registry.names("plots")
    assert max(map(len, result.out.splitlines())) <= 80
    words = " ".join(result.out.split())
    assert all(registry.describe("plots", name) in words for name in heads)


def test_figure_folder_and_format_are_chosen(specbench: Command, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    words = ("--figure", "speedup-vs-gamma", "--out", str(out), "--format", "SVG")
    assert specbench("plot", str(run), *words).out.split() == [str(out / "speedup-vs-gamma.svg")]
    assert not list((run / "figures").iterdir())


def test_two_runs_of_one_name_share_a_figure(specbench: Command, run: Path, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.4, 0.01)}
    other = simulate_run(tmp_path / "b" / "run", drafters, gammas=(1, 4), prompts=6, tokens=24)
    words = ("--figure", "speedup-vs-gamma", "--format", "svg", "--out", str(tmp_path / "out"))
    assert specbench("plot", str(run), str(other), *words).code == 0


def test_notes_go_to_stderr(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=1)
    result = specbench("plot", str(folder), "--format", "svg", "--figure", "speedup-vs-alpha")
    assert result.code == 0
    assert result.err.startswith("note: few prompts")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--figure", "speedup-vs-alpah"), "speedup-vs-alpha"),
        (("--format", "gif"), "gif"),
        (("--format", ","), ","),
    ],
)
def test_mistakes_are_found_before_anything_is_read(
    specbench: Command, words: tuple[str, ...], says: str
) -> None:
    assert says in specbench("plot", "no/such/run", *words).error_line


def test_no_such_run_is_named(specbench: Command) -> None:
    assert "no/such/run" in specbench("plot", "no/such/run").error_line


def test_a_run_without_speedups_has_acceptance_only(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=2, baseline=False)
    asked = specbench("plot", str(folder), "--figure", "speedup-vs-gamma").error_line
    assert "baseline" in asked
    assert not list((folder / "figures").iterdir())
    result = specbench("plot", str(folder), "--format", "svg")
    assert [Path(line).stem for line in result.out.splitlines()] == [
        "acceptance-by-position",
        "alpha-by-task-and-temperature",
    ]
    assert "nothing to draw in time-per-round" in result.err


def test_a_folder_that_cannot_be_written_is_named(
    specbench: Command, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    error = specbench("plot", str(run), "--out", str(tmp_path / "file")).error_line
    assert str(tmp_path / "file") in error


def test_of_all_figures_those_that_can_are_drawn(specbench: Command, tmp_path: Path) -> None:
    tree = {"eagle:x,tree=24": SimulatedDrafter(0.7, 0.01, nodes=23)}
    run = simulate_run(tmp_path / "run", tree, gammas=(1, 4), prompts=6, tokens=24)
    result = specbench("plot", str(run), "--format", "svg")
    assert result.code == 0
    drawn = [Path(line).stem for line in result.out.split()]
    assert drawn == ["speedup-vs-gamma", "time-per-round"]
    assert "note: nothing to draw in speedup-vs-alpha" in result.err
    asked = specbench("plot", str(run), "--figure", "speedup-vs-alpha").error_line
    assert "--figure speedup-vs-gamma" in asked


def test_an_empty_folder_name_is_refused(specbench: Command) -> None:
    assert "--out ''" in specbench("plot", "no/such/run", "--out", "").error_line


def test_the_cell_of_a_damaged_table_is_named_and_left_out(specbench: Command, run: Path) -> None:
    file = sorted((run / "rounds").iterdir())[0]
    file.write_bytes(b"PAR1")
    result = specbench("plot", str(run), "--figure", "speedup-vs-gamma", "--format", "svg")
    assert result.code == 0
    assert f"left out, its table cannot be used: ngram γ = 1 (code, T = 0, batch 1): {file}" in (
        result.err
    )


def test_a_run_of_damaged_tables_is_refused_with_a_way_out(specbench: Command, run: Path) -> None:
    for file in (run / "rounds").iterdir():
        file.write_bytes(b"PAR1")
    error = specbench("plot", str(run)).error_line
    assert str(run / "rounds") in error
    assert "measure" in error


def test_a_full_disk_leaves_no_half_of_a_figure(
    specbench: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.write_bytes(bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write_synced", full)
    words = ("--figure", "speedup-vs-gamma", "--format", "svg", "--out", str(tmp_path / "out"))
    assert "the disk is full" in specbench("plot", str(run), *words).error_line
    assert list((tmp_path / "out").iterdir()) == []
