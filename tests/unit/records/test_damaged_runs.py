"""Runs that are damaged, of another release, or not there: named, with the way out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.records.reading import list_runs
from specbench.records.store import RunWriter, load_run
from tests.unit.records import samples
from tests.unit.records.samples import write_two


@pytest.mark.parametrize(
    ("line", "reason"), [("{oops", "not JSON"), ('{"target": "m"}', "drafter"), ("[]", "Input")]
)
def test_a_corrupt_line_is_named(folder: Path, line: str, reason: str) -> None:
    write_two(folder)
    file = folder / "cells.jsonl"
    first, second = file.read_text().splitlines()
    for lines, number in (([first, line, second], 2), ([first, second, line], 3)):
        file.write_text("\n".join(lines) + "\n")
        for call in (
            lambda: load_run(folder),
            lambda: RunWriter.open(folder, samples.manifest()),
        ):
            with pytest.raises(SpecbenchError) as caught:
                call()
            assert f"{file} line {number}" in caught.value.message
            assert reason in caught.value.message


def test_a_damaged_manifest_is_named(folder: Path) -> None:
    write_two(folder)
    (folder / "manifest.json").write_text('{"name": ')
    with pytest.raises(SpecbenchError, match=r"manifest\.json: not JSON"):
        load_run(folder)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_run_of_another_schema_is_refused(folder: Path, version: int) -> None:
    write_two(folder)
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema_version": version}))
    says = f"schema_version {version}; this release reads version 1 only"
    with pytest.raises(SpecbenchError, match=says):
        load_run(folder)


def test_missing_and_damaged_tables_are_named(folder: Path) -> None:
    done, failed = write_two(folder)
    run = load_run(folder)
    (folder / "rounds" / f"{done}.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(SpecbenchError, match="is damaged") as caught:
        run.rounds(done)
    assert str(folder / "rounds" / f"{done}.parquet") in caught.value.message
    drop = f"""sed -i.bak '/"cell_id":"{done}"/d' {folder / "cells.jsonl"}"""
    assert caught.value.hint.startswith(f"Leave the cell out with `{drop}`; ")
    subprocess.run(drop, shell=True, check=True)
    assert [record.cell_id for record in load_run(folder).cells] == [failed]
    (folder / "rounds" / f"{done}.parquet").unlink()
    with pytest.raises(SpecbenchError, match="is missing"):
        run.rounds(done)
    with pytest.raises(SpecbenchError, match="ended as out_of_memory"):
        run.requests(failed)
    with pytest.raises(SpecbenchError, match="no cell 'nope'"):
        run.rounds("nope")


def test_runs_are_found_by_name_and_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent.parent if folder.parent.parent.exists() else "/")
    with pytest.raises(SpecbenchError) as caught:
        load_run("mine")
    assert caught.value.message == "no run 'mine'"
    assert "specbench run" in caught.value.hint
    write_two(folder)
    assert load_run("mine").path == Path("results/mine")
    assert list_runs() == ["mine"]
    with pytest.raises(SpecbenchError) as caught:
        load_run("yours")
    assert (caught.value.message, "mine" in caught.value.hint) == ("no run 'yours'", True)
    with pytest.raises(SpecbenchError, match="results holds no run"):
        load_run("results")
