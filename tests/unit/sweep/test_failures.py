"""Why a cell failed, in one word and one line."""

from __future__ import annotations

import pytest
import torch

from specbench.sweep.failures import in_one_line, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (MemoryError(), "out_of_memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            "out_of_memory",
        ),
        (RuntimeError("HIP out of memory"), "out_of_memory"),
        (RuntimeError("shape mismatch"), "failed"),
        (ValueError("out of memory is only a word here"), "failed"),
        (IndexError("index out of range in self"), "failed"),
    ],
)
def test_every_way_of_having_no_memory_is_told_from_other_failures(error: Exception, status: str):
    assert status_of(error) == status


def test_an_error_is_one_line_of_readable_length():
    assert in_one_line(MemoryError()) == "MemoryError"
    assert in_one_line(ValueError("\n  first\n second ")) == "ValueError: first second"
    assert len(in_one_line(RuntimeError("x" * 9000))) == 500
