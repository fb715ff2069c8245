"""Whether rounding alone can have made two greedy outputs part.

The same arithmetic in another shape rounds differently: a forward over one token and one over
gamma + 1 tokens give logits that differ in the last bits, and where two tokens are nearly equal the
argmax flips. Measured here, in this run's dtype and shape: how much logits differ (the noise), and
how close the two tokens are (the gap), the gap from a float32 copy of the target where it fits.
"""

from __future__ import annotations

import copy

import psutil
import torch
from torch import Tensor

from specbench.backends.base import Divergence, TieMeasure
from specbench.models.target import LanguageModel
from specbench.records.schema import Cell

_POSITIONS = 24
_LIKELIEST = 8


class TieMeter:
    """Measures gaps and noise for one target; keeps the noise per shape."""

    def __init__(self, target: LanguageModel) -> None:
        self.target = target
        self._exact: LanguageModel | None = None
        self._noise: dict[tuple[int, int], float] = {}

    def measure(self, cell: Cell, divergence: Divergence) -> TieMeasure:
        context = [*divergence.request.token_ids, *divergence.shared]
        model = self._float32()
        logits = model.prefill(context, model.new_cache(1, len(context))).float()
        gap = (logits.max() - logits[list(divergence.tokens)].min()).item()
        shape = (cell.gamma + 1, cell.batch_size)
        noise = self._measure_noise(context, *shape)
        self._noise[shape] = max(noise, self._noise.get(shape, 0.0))
        return TieMeasure(gap, self._noise[shape], str(model.dtype).removeprefix("torch."))

    def _measure_noise(self, context: list[int], width: int, batch_size: int) -> float:
        """Largest logit difference over the last tokens of a context, likeliest tokens only."""
        count = min(_POSITIONS, len(context) - 1) // width * width
        if count == 0:
            count, width = min(width, len(context) - 1), min(width, len(context) - 1)
        start = len(context) - count
        one = self._logits(context, start, 1, 1)
        many = self._logits(context, start, width, batch_size)
        likeliest = one.topk(min(_LIKELIEST, one.shape[-1]), dim=-1).indices
        return (one - many).gather(-1, likeliest).abs().max().item()

    def _logits(self, context: list[int], start: int, width: int, batch_size: int) -> Tensor:
        """Logits [count, V] of the tokens from ``start`` on, read ``width`` at a time."""
        target = self.target
        cache = target.new_cache(batch_size, len(context))
        tokens = torch.tensor([context] * batch_size, device=target.device)
        target.forward(tokens[:, :start], cache, [0] * batch_size, last_only=True)
        parts = [
            target.forward(tokens[:, at : at + width], cache, [at] * batch_size).logits[0]
            for at in range(start, len(context), width)
        ]
        return torch.cat(parts).float()

    def _float32(self) -> LanguageModel:
        """A float32 copy of the target if the device has room for it, else the target."""
        target = self.target
        if target.dtype == torch.float32:
            return target
        if self._exact is None:
            need = 4 * sum(p.numel() for p in target.model.parameters())
            if need > 0.5 * _free_bytes(target.device):
                self._exact = target
            else:
                model = copy.deepcopy(target.model).float()
                self._exact = LanguageModel(model, target.tokenizer, target.name)
        return self._exact


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
