"""The two tables of a cell, `rounds` and `requests`: their columns and their parquet files.

`rounds` has one row per prompt and round. At batch size > 1 several rows share a `step` (one target
forward), whose times are repeated on each of its rows. `requests` has one row per request; its
first output token comes from prefill, the rest from rounds: num_tokens = 1 + sum(num_emitted).
Columns that are not listed here are kept with the type they arrive in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from specbench.records.files import write_durably

Columns = Mapping[str, Any]
"""Column name -> array or list; all of one length."""

ROUNDS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("request", pa.int32()),  # index into requests
        ("slot", pa.int32()),
        ("step", pa.int32()),
        ("round", pa.int32()),
        ("position", pa.int32()),  # tokens generated before this round
        ("context_length", pa.int32()),
        ("num_verified", pa.int32()),  # tokens in the target forward, for this row (a tree's nodes)
        ("num_drafted", pa.int32()),
        ("draft_levels", pa.int32()),  # a drafter's steps: a tree's levels, a chain's num_drafted
        ("num_evaluated", pa.int32()),  # levels of a tree on which children were tried
        ("num_accepted", pa.int32()),
        ("num_emitted", pa.int32()),
        ("overlap", pa.list_(pa.float32())),  # per evaluated position; null where not measured
        ("path", pa.list_(pa.int32())),  # accepted nodes of a tree, its root is 0; null for a chain
        ("draft_s", pa.float64()),  # of the whole step
        ("verify_s", pa.float64()),
        ("other_s", pa.float64()),
        ("sampling_s", pa.float64()),  # the part of other_s in which tokens are chosen
        ("active_rows", pa.int32()),
        ("replayed", pa.bool_()),
    ]
)

REQUESTS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("conversation", pa.string()),  # the turns of one chat share it: the cluster of intervals
        ("task", pa.string()),
        ("category", pa.string()),
        ("turn", pa.int32()),
        ("source", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("output_ids", pa.list_(pa.int32())),
        ("num_tokens", pa.int32()),
        ("stop_reason", pa.string()),  # "stop" or "length"
        ("prefill_s", pa.float64()),  # of the target
        ("drafter_prefill_s", pa.float64()),
        ("ttft_s", pa.float64()),
        ("decode_s", pa.float64()),  # at batch > 1: time in the batch
        ("wall_s", pa.float64()),
    ]
)

SCHEMAS: dict[str, pa.Schema] = {"rounds": ROUNDS, "requests": REQUESTS}

_LATER = ("sampling_s",)  # columns that older records and other tools lack


def to_arrow(columns: Columns, schema: pa.Schema | None = None) -> pa.Table:
    """Columns as an arrow table: the schema's columns first, in its order and types.

    Raises:
        ValueError: a column of the schema is missing or the columns differ in length.
    """
    known = schema if schema is not None else pa.schema([])
    missing = [name for name in known.names if name not in columns and name not in _LATER]
    if missing:
        raise ValueError(f"missing columns: {', '.join(missing)}")
    rows = len(next(iter(columns.values()), ()))
    arrays: dict[str, pa.Array] = {
        field.name: _array(columns.get(field.name, [None] * rows), field.type) for field in known
    }
    for name in columns:
        if name not in arrays:
            arrays[name] = _array(columns[name], None)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns differ in length: {lengths}")
    return pa.table(arrays)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a parquet file durably.

    Raises:
        OSError: the disk refused; nothing is left behind.
    """
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    write_durably(path, memoryview(buffer.getvalue()))


def read_table(path: Path, without: Collection[str] = ()) -> pa.Table:
    """Read one parquet file, whatever folder it lies in and whatever version wrote it.

    Args:
        without: columns to leave on disk.

    Raises:
        OSError, pyarrow.ArrowInvalid: missing or damaged.
    """
    file = pq.ParquetFile(path)
    table = file.read([name for name in file.schema_arrow.names if name not in without])
    if "num_drafted" in table.column_names and "draft_levels" not in table.column_names:
        place = table.column_names.index("num_drafted") + 1
        table = table.add_column(place, "draft_levels", table.column("num_drafted"))
    if "other_s" in table.column_names:
        place = table.column_names.index("other_s") + 1
        for name in set(_LATER) - {*table.column_names, *without}:
            table = table.add_column(place, name, pa.nulls(len(table), pa.float64()))
    return table


def to_columns(table: pa.Table) -> dict[str, Any]:
    """Numbers and booleans as numpy arrays, texts and lists as Python lists.

    A number column with nulls becomes float64 with NaN where nothing was measured.
    """
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if plain and column.null_count:
            columns[name] = np.asarray(column.cast(pa.float64()).to_numpy())
        elif plain or (pa.types.is_boolean(column.type) and not column.null_count):
            columns[name] = np.asarray(column.to_numpy())
        else:
            columns[name] = column.to_pylist()
    return columns


def _array(values: Any, kind: pa.DataType | None) -> pa.Array:
    """One column; NaN in a float column is a missing value."""
    if isinstance(values, np.ndarray) and values.ndim > 1:
        values = list(values)
    return pa.array(values, type=kind, from_pandas=True)
