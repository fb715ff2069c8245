"""Values reach the device; on CUDA from page-locked memory, without waiting."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specbench.measure.transfer import send, to_device

CPU = torch.device("cpu")


@pytest.mark.parametrize("values", [[1, 2], [[1], [2]], [], [[], []]])
def test_numbers_become_ids(values: Any):
    made = to_device(values, CPU)
    assert made.dtype == torch.long
    assert made.tolist() == values


def test_another_dtype():
    assert to_device([0.5], CPU, torch.float64).dtype == torch.float64


def test_what_is_on_the_host_already_is_not_copied():
    tensor = torch.arange(3)
    assert send(tensor, CPU) is tensor


def test_to_cuda_goes_through_page_locked_memory_and_is_not_waited_for(monkeypatch):
    calls: list[tuple[str, Any]] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: calls.append(("pin", 0)) or self)

    def to(self: torch.Tensor, device: torch.device, non_blocking: bool = False) -> torch.Tensor:
        calls.append((str(device), non_blocking))
        return self

    monkeypatch.setattr(torch.Tensor, "to", to)
    to_device([1, 2], torch.device("cuda:0"))
    assert calls == [("pin", 0), ("cuda:0", True)]
