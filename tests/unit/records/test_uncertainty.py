"""The target's moments on disk: a table of positions, and the means that are derived from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from specbench.errors import SpecbenchError
from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter
from specbench.records.traces import columns_of
from specbench.records.uncertainty import (
    POSITIONS,
    UNCERTAINTY,
    load_uncertainty,
    write_uncertainty,
)


def text(task: str = "chat", temperature: float = 1.0, top_p: float = 1.0) -> CellRecord:
    return CellRecord.of(
        Cell(
            target="m",
            drafter="none",
            gamma=0,
            temperature=temperature,
            top_p=top_p,
            batch_size=1,
            task=task,
            baseline="first",
        )
    )


def positions(*entropies: float) -> dict[str, list[Any]]:
    """Two positions of each conversation, which are two requests."""
    return columns_of(
        [
            {
                "prompt_id": f"p{index // 2}",
                "request": index // 2,
                "conversation": f"c{index // 2}",
                "position": 1 + index % 2,
                "entropy": entropy,
                "second_moment": 2 * entropy,
                "max_p": 0.5,
            }
            for index, entropy in enumerate(entropies)
        ],
        POSITIONS,
    )


def opened(folder: Path) -> RunWriter:
    return RunWriter.open(folder, Manifest(name="x", config_hash="h"))


def test_means_are_over_positions_and_every_position_is_kept(tmp_path: Path) -> None:
    assert load_uncertainty(tmp_path) == []
    with opened(tmp_path) as writer:
        write_uncertainty(writer, text(), positions(1.0, 0.0, 3.0))
    (found,) = load_uncertainty(tmp_path)
    assert (found.task, found.temperature) == ("chat", 1.0)
    assert (found.text_cell, found.num_prompts, found.positions) == (text().cell_id, 2, 3)
    assert (found.entropy, found.second_moment, found.max_p) == pytest.approx((4 / 3, 8 / 3, 0.5))
    table = pq.read_table(tmp_path / "diagnostics" / f"{text().cell_id}.parquet")
    assert table.column("entropy").to_pylist() == [1.0, 0.0, 3.0]
    assert table.column("conversation").to_pylist() == ["c0", "c0", "c1"]


def test_an_entry_per_setting_the_newest(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        write_uncertainty(writer, text(), positions(1.0))
        write_uncertainty(writer, text("code"), positions(2.0))
        write_uncertainty(writer, text(top_p=0.9), positions(3.0))
        write_uncertainty(writer, text(), positions(4.0))
    assert [entry.entropy for entry in load_uncertainty(tmp_path)] == [4.0, 2.0, 3.0]


def test_no_position_is_no_entry(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        write_uncertainty(writer, text(), columns_of([], POSITIONS))
    assert load_uncertainty(tmp_path) == []


def test_what_is_damaged_is_named_and_not_written_over(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        (tmp_path / UNCERTAINTY).write_text("[{")
        with pytest.raises(SpecbenchError, match=r"cannot read .*uncertainty\.json"):
            write_uncertainty(writer, text(), positions(1.0))
        assert (tmp_path / UNCERTAINTY).read_text() == "[{"
