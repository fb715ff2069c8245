"""Linear layers for a handful of rows on a CPU: the same product, taken in the other order.

Decoding multiplies weights [N, K] with 1 to about 16 rows. Which of ``x @ W.T`` and ``(W @ x.T).T``
a BLAS does well at such shapes depends on library and processor; seen on two cores of an AMD EPYC
with MKL, the second reads weights at 9 to 13 GB/s for 2 to 5 rows where the first manages 3 to 7,
so that verifying five tokens costs little more than one. Nor does its time only rise with the rows:
on that machine 3 take 11% longer than 4, and 7 than 8, so 3 rows get a fourth of zeros. Both
are measured at load, per number of rows, and used only where clearly faster. Baseline, drafters and
verification all run through the same layers, so a faster layer is a faster baseline too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from specbench.weights.stored import is_plain

MOST_ROWS = 16
_PLAIN_ROWS = (1, 2, 3, 5, 9, 16)  # the plain product's time hardly differs between
_FEWEST_COLUMNS = 2  # one column would be treated as a vector
_CLEARLY = 1.1
_CLEARLY_WIDER = 1.05
_REPEATS = 4
_SAMPLE_BYTES = 150_000_000


class FewRowsLinear(nn.Linear):
    """A linear layer that takes ``(W @ x.T).T`` for some numbers of rows.

    Attributes:
        columns: number of rows -> columns that the product is taken with, those beyond the rows
            being zeros; other numbers of rows are multiplied as usual.
    """

    columns: Mapping[int, int] = MappingProxyType({})

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // input.shape[-1]
        if rows not in self.columns:
            return nn.functional.linear(input, self.weight, self.bias)
        return _swapped(input, self.weight, self.bias, self.columns[rows])


def use_fast_order(model: nn.Module) -> dict[int, int]:
    """Measure both orders on a float32 CPU model's own layers and use the faster one per row count.

    Quantised layers are left as they are: what they multiply by is no matrix to be turned round.

    Returns:
        The numbers of rows for which the other order is in use, and the columns that it is taken
        with; empty for other devices and dtypes.
    """
    layers = [m for m in model.modules() if type(m) is nn.Linear and is_plain(m.weight)]
    weights = [layer.weight for layer in layers]
    if not weights or any(w.device.type != "cpu" or w.dtype != torch.float32 for w in weights):
        return {}
    chosen = _faster_columns(_sample(weights))
    for layer in layers:
        layer.__class__ = FewRowsLinear
        layer.columns = chosen
    return chosen


def _swapped(input: Tensor, weight: Tensor, bias: Tensor | None, columns: int) -> Tensor:
    """``(W @ x.T).T``, x [rows, K] being filled up to so many rows with zeros."""
    flat = input.reshape(-1, input.shape[-1])
    rows = flat.shape[0]
    if rows < columns:
        flat = nn.functional.pad(flat, (0, 0, 0, columns - rows))
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
def _faster_columns(weights: list[Tensor]) -> dict[int, int]:
    """Rows -> columns, up to MOST_ROWS, where the swapped order is clearly faster."""
    plain, swapped = _time_both(weights)
    chosen = {}
    for rows in range(1, MOST_ROWS + 1):
        own = max(rows, _FEWEST_COLUMNS)
        best = min(range(own, MOST_ROWS + 1), key=swapped.__getitem__)
        columns = best if swapped[best] * _CLEARLY_WIDER < swapped[own] else own
        known = max(measured for measured in plain if measured <= rows)
        if swapped[columns] * _CLEARLY < plain[known]:
            chosen[rows] = columns
    return chosen


def _time_both(weights: list[Tensor]) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds over all weights, of the plain product by rows and of the swapped one by columns.

    The fastest of a few passes each, all taking turns, so that a disturbance hits all alike.
    """
    widths = {weight.shape[1] for weight in weights}
    inputs = {width: torch.randn(MOST_ROWS, width) for width in widths}
    plain = dict.fromkeys(_PLAIN_ROWS, float("inf"))
    swapped = dict.fromkeys(range(_FEWEST_COLUMNS, MOST_ROWS + 1), float("inf"))
    for _ in range(_REPEATS):
        for rows in plain:
            plain[rows] = min(plain[rows], _seconds(nn.functional.linear, weights, inputs, rows))
        for rows in swapped:
            swapped[rows] = min(swapped[rows], _seconds(_product, weights, inputs, rows))
    return plain, swapped


def _product(input: Tensor, weight: Tensor) -> Tensor:
    return _swapped(input, weight, None, input.shape[0])


def _seconds(
    multiply: Callable[[Tensor, Tensor], Tensor],
    weights: list[Tensor],
    inputs: Mapping[int, Tensor],
    rows: int,
) -> float:
    """Of one pass over all weights; inputs by their width, [MOST_ROWS, K]."""
    begin = time.perf_counter()
    for weight in weights:
        multiply(inputs[weight.shape[1]][:rows], weight)
    return time.perf_counter() - begin
