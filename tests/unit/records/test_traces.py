"""Traces on disk and the numbers that are derived from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specbench.analysis.acceptance.tracing import traces_of
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell, Manifest
from specbench.records.store import RunWriter, load_run
from specbench.records.trace_summary import drafts_by_request, summarize_trace
from specbench.records.traces import TraceRecord, columns_of, load_trace, load_traces, write_trace

CELL = Cell(target="m", drafter="ngram", gamma=3, temperature=0, batch_size=1, task="chat")


def rows(drafts, conversation: str, request: int, overlaps=None, most=None) -> list[dict]:
    return [
        {
            "prompt_id": f"p{request}",
            "request": request,
            "conversation": conversation,
            "position": start + 1,
            "accept": draft,
            "overlap": None if overlaps is None else overlaps[start],
            "max_p": None if most is None else most[start],
        }
        for start, draft in enumerate(drafts)
    ]


def two_requests() -> dict:
    """Rounds of gamma 2: (yes yes) bonus; nothing | (no); (yes, end of draft)."""
    first = rows([[1.0, 1.0, 0.0], [1.0], [0.0], []], "a", 0)
    return columns_of(first + rows([[0.0, 1.0, 1.0], [1.0]], "b", 3))


def test_rounds_are_counted_by_hand():
    drafts = drafts_by_request(two_requests(), 3)
    assert drafts.conversations == ["a", "b"]
    rounds, accepted, evaluated = drafts.replay(2)
    assert rounds.tolist() == [2, 2]
    assert accepted.tolist() == [[1, 1], [1, 0]]
    assert evaluated.tolist() == [[1, 1], [2, 0]]


def test_the_line_adds_up():
    fields = summarize_trace(two_requests(), 3, (1, 2))
    assert [traced["gamma"] for traced in fields["by_gamma"]] == [1, 2]
    # gamma 1: (yes) bonus, (no), nothing | (no), (yes); gamma 2 as above
    assert [traced["num_rounds"] for traced in fields["by_gamma"]] == [5, 4]
    assert [traced["tau"] for traced in fields["by_gamma"]] == [1 + 2 / 5, 1 + 3 / 4]
    assert [traced["alpha"] for traced in fields["by_gamma"]] == [2 / 4, 3 / 4]
    assert fields["alpha"] == 5 / 8
    assert fields["position_mean"] == 3 / 5  # one position has no draft
    assert fields["alpha_text"] is None
    assert [traced["max_p"] for traced in fields["by_gamma"]] == [None, None]
    assert fields["num_positions"] == 6
    assert fields["warnings"] == ["few prompts: intervals rest on 2"]


def test_above_temperature_0_overlaps_are_counted_where_rounds_come():
    drafts, overlaps = [[1.0, 0.5], [0.0, 1.0]], [[0.8, 0.6], [0.1, 0.2]]
    columns = columns_of(rows(drafts, "a", 0, overlaps))
    fields = summarize_trace(columns, 2, (2,))
    assert fields["alpha"] == pytest.approx((0.8 + 0.6) / 2)
    assert fields["alpha_text"] == pytest.approx((1.0 + 0.5) / 2)
    assert fields["position_mean"] == pytest.approx(0.45)


def test_the_largest_p_is_averaged_where_rounds_come():
    drafts, overlaps = [[1.0, 0.0], [0.0], []], [[0.8, 0.6], [0.1], []]
    most = [[0.9, 0.7], [0.5], []]
    fields = summarize_trace(columns_of(rows(drafts, "a", 0, overlaps, most)), 2, (1, 2))
    first, second = fields["by_gamma"]
    assert first["max_p"] == pytest.approx(0.9)  # (yes) bonus, nothing
    assert second["max_p"] == pytest.approx((0.9 + 0.7) / 2)  # (yes, no), nothing
    assert second["alpha"] == pytest.approx((0.8 + 0.6) / 2)


def test_nothing_to_trace_is_no_number():
    fields = summarize_trace(columns_of([]), 3, (1, 3))
    assert fields["alpha"] is None
    assert fields["position_mean"] is None
    assert [traced["tau"] for traced in fields["by_gamma"]] == [None, None]


def test_positions_out_of_order_are_refused():
    columns = columns_of(rows([[1.0], [0.0]], "a", 0)[::-1])
    with pytest.raises(SpecbenchError, match="not in order"):
        drafts_by_request(columns, 1)


def written(folder: Path, columns: dict, gammas=(1, 2), longest: int = 3) -> TraceRecord:
    cell = CELL.model_copy(update={"gamma": longest})
    record = TraceRecord.of(cell, "text", **summarize_trace(columns, longest, gammas))
    with RunWriter.open(folder, Manifest(name="x", config_hash="h")) as writer:
        write_trace(writer, record, columns)
    return record


def test_what_is_written_is_read_back_and_replaced(tmp_path: Path):
    record = written(tmp_path / "run", two_requests())
    assert load_traces(tmp_path / "run") == traces_of(load_run(tmp_path / "run")) == [record]
    back = drafts_by_request(load_trace(tmp_path / "run", record), 3)
    for ours, theirs in zip(back.accept, drafts_by_request(two_requests(), 3).accept, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = written(tmp_path / "run", two_requests(), gammas=(3,))
    assert load_traces(tmp_path / "run") == [again]


def test_a_longer_trace_of_the_same_text_replaces_the_shorter(tmp_path: Path):
    old = written(tmp_path / "run", two_requests())
    new = written(tmp_path / "run", two_requests(), gammas=(1, 5), longest=5)
    assert load_traces(tmp_path / "run") == [new]
    files = {file.name for file in (tmp_path / "run" / "diagnostics").glob("*.parquet")}
    assert files == {f"{new.cell_id}.parquet"}
    assert old.cell_id != new.cell_id


def test_a_lost_table_is_named(tmp_path: Path):
    record = written(tmp_path / "run", two_requests())
    (tmp_path / "run" / "diagnostics" / f"{record.cell_id}.parquet").unlink()
    with pytest.raises(SpecbenchError, match="is missing"):
        load_trace(tmp_path / "run", record)
