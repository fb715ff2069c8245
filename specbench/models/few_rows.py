"""Linear layers for a handful of rows on a CPU: the same product, taken in the other order.

Decoding multiplies weights [N, K] with 1 to about 16 rows. Which of ``x @ W.T`` and ``(W @ x.T).T``
a BLAS does well at such shapes depends on library and processor; seen on two cores of an AMD EPYC
with MKL, the second reads weights at 9 to 13 GB/s for 2 to 5 rows where the first manages 3 to 7,
so that verifying five tokens costs little more than one. It is measured at load, per number of
rows, and used only where it is clearly faster. Baseline, drafters and verification all run through
the same layers, so a faster layer is a faster baseline too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

MOST_ROWS = 16
_MEASURED_ROWS = (1, 2, 3, 5, 9, 16)
_CLEARLY = 1.1
_REPEATS = 5
_SAMPLE_BYTES = 200_000_000


class FewRowsLinear(nn.Linear):
    """A linear layer that takes ``(W @ x.T).T`` for the numbers of rows in ``swapped``."""

    swapped: frozenset[int] = frozenset()

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // input.shape[-1]
        if rows not in self.swapped:
            return nn.functional.linear(input, self.weight, self.bias)
        return _swapped(input, self.weight, self.bias, rows)


def use_fast_order(model: nn.Module) -> list[int]:
    """Measure both orders on a float32 CPU model's own layers and use the faster one per row count.

    Returns:
        The numbers of rows for which the other order is in use; empty for other devices and dtypes.
    """
    layers = [m for m in model.modules() if type(m) is nn.Linear]
    weights = [layer.weight for layer in layers]
    if not weights or any(w.device.type != "cpu" or w.dtype != torch.float32 for w in weights):
        return []
    chosen = _faster_rows(_sample(weights))
    for layer in layers:
        layer.__class__ = FewRowsLinear
        layer.swapped = chosen
    return sorted(chosen)


def _swapped(input: Tensor, weight: Tensor, bias: Tensor | None, rows: int) -> Tensor:
    """``(W @ x.T).T``; one row is doubled, because one column would be treated as a vector."""
    flat = input.reshape(rows, input.shape[-1])
    if rows == 1:
        flat = torch.cat((flat, flat))
    output = torch.mm(weight, flat.t())[:, :rows].t()
    if bias is not None:
        output = output + bias
    return output.contiguous().view(*input.shape[:-1], weight.shape[0])


def _sample(weights: list[Tensor]) -> list[Tensor]:
    """Weights to measure on: the largest, and then others in order, more than any cache holds."""
    largest = max(weights, key=Tensor.numel)
    sample, size = [largest], 4 * largest.numel()
    for weight in weights:
        if weight is not largest and size < _SAMPLE_BYTES:
            sample.append(weight)
            size += 4 * weight.numel()
    return sample


@torch.inference_mode()
def _faster_rows(weights: list[Tensor]) -> frozenset[int]:
    """The numbers of rows, up to MOST_ROWS, at which the swapped order is clearly faster."""
    faster: set[int] = set()
    for rows, up_to in zip(_MEASURED_ROWS, (*_MEASURED_ROWS[1:], MOST_ROWS + 1), strict=True):
        plain, swapped = _time_both(weights, rows)
        if swapped * _CLEARLY < plain:
            faster.update(range(rows, up_to))
    return frozenset(faster)


def _time_both(weights: list[Tensor], rows: int) -> tuple[float, float]:
    """Seconds of the plain and the swapped product over all weights, for that many rows."""
    inputs = {weight.shape[1]: torch.randn(rows, weight.shape[1]) for weight in weights}

    def plain(weight: Tensor) -> Tensor:
        return nn.functional.linear(inputs[weight.shape[1]], weight)

    def swapped(weight: Tensor) -> Tensor:
        return _swapped(inputs[weight.shape[1]], weight, None, rows)

    return _seconds(plain, swapped, weights)


def _seconds(
    first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor], weights: list[Tensor]
) -> tuple[float, float]:
    """The fastest pass of each over all weights, the two alternating."""
    best = [float("inf"), float("inf")]
    for _ in range(_REPEATS):
        for index, work in enumerate((first, second)):
            begin = time.perf_counter()
            for weight in weights:
                work(weight)
            best[index] = min(best[index], time.perf_counter() - begin)
    return best[0], best[1]
