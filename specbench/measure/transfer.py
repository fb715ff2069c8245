"""Values from the host to the device, without waiting for it.

``torch.tensor(values, device="cuda")`` copies from pageable memory: the host waits until the device
has done everything that was issued before. From page-locked memory the copy is queued like any
kernel. Whatever a round sends goes through here, so that a round waits once, when it reads what was
accepted. Nothing has to be kept alive: the allocator of page-locked memory gives a block out again
only after the copy from it has happened.

>>> to_device([[1, 2], [3, 4]], torch.device("cpu")).tolist()
[[1, 2], [3, 4]]
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def to_device(values: Any, device: torch.device, dtype: torch.dtype = torch.long) -> Tensor:
    """Numbers, in lists nested as :func:`torch.tensor` takes them, as a tensor on a device."""
    return send(torch.tensor(values, dtype=dtype), device)


def send(host: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device; itself where that is the host."""
    if device.type != "cuda":
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)
