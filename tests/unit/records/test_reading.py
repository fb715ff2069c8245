"""Lines of `cells.jsonl` that somebody else wrote: refused in a sentence, or led around."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.records import samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    return simulate_run(tmp_path / "run", drafters, gammas=(2,), temperatures=(0.7,), prompts=2)


@pytest.mark.parametrize(
    "cell_id",
    ["../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "..", ".a", "-a", "a'b", "a\n", ""],
)
def test_an_id_that_is_no_file_name_is_refused(cell_id: str) -> None:
    record = samples.record(samples.cell())
    with pytest.raises(ValidationError, match="is no id: letters, digits"):
        record.updated(cell_id=cell_id)


def test_an_id_that_leads_out_of_the_run_is_named_with_its_line(folder: Path) -> None:
    last = load_run(folder).cells[-1].cell_id
    cells = folder / "cells.jsonl"
    cells.write_text(cells.read_text().replace(last, "../../../secret"))
    with pytest.raises(SpecbenchError) as said:
        load_run(folder)
    assert said.value.message.startswith(
        f"cannot read {cells} line 3: cell_id: '../../../secret' is no id"
    )


def test_a_line_that_is_nested_too_deeply_is_named(folder: Path) -> None:
    with (folder / "cells.jsonl").open("a") as cells:
        cells.write("[" * 100_000 + "\n")
    with pytest.raises(SpecbenchError, match=r"cells\.jsonl line 4: nested too deeply"):
        load_run(folder)


def test_the_hint_leaves_out_one_cell_and_no_other(folder: Path) -> None:
    run = load_run(folder)
    record = run.cells[-1]
    assert "-t0.7-" in record.cell_id
    cells = folder / "cells.jsonl"
    (line,) = (text for text in cells.read_text().splitlines() if record.cell_id in text)
    alike = record.cell_id.replace("-t0.7-", "-t0x7-")
    with cells.open("a") as file:
        file.write(line.replace(record.cell_id, alike) + "\n")
    (folder / "rounds" / f"{record.cell_id}.parquet").unlink()
    with pytest.raises(SpecbenchError, match="is missing") as said:
        run.rounds(record.cell_id)
    command = said.value.hint.partition("`")[2].partition("`")[0]
    subprocess.run(command, shell=True, check=True)
    assert [cell.cell_id for cell in load_run(folder).cells[2:]] == [alike]
