"""Whether rounding alone can have made two greedy outputs part.

The same arithmetic in another shape rounds differently: a forward over one token and one over a
whole draft give logits that differ in the last bits, and where two tokens are nearly equal the
argmax flips. Measured here, in this run's dtype and shape: how much logits differ (the noise), and
how close the two tokens are (the gap), the gap from a float32 copy of the target where it fits.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.backends.base import Divergence, TieMeasure
from specbench.measure.memory import available_bytes
from specbench.models.encoder_decoder import wrapped
from specbench.models.language_model import LanguageModel
from specbench.weights.stored import packed_layers

_POSITIONS = 24
_LIKELIEST = 8


class TieMeter:
    """Measures gaps and noise for one target; keeps the noise per shape."""

    def __init__(self, target: LanguageModel) -> None:
        self.target = target
        self._exact: LanguageModel | None = None
        self._noise: dict[tuple[int, int], float] = {}

    def measure(self, divergence: Divergence, num_verified: int, batch_size: int) -> TieMeasure:
        """The gap at a divergence and the noise of a shape.

        Args:
            divergence: where outputs part.
            num_verified: tokens per row in the cell's target forward.
            batch_size: of the cell.
        """
        model, prompt = self._float32(), divergence.request.token_ids
        context = [*self.target.layout(prompt).context, *divergence.shared]
        logits = _last_logits(model, prompt, context).float()
        gap = (logits.max() - logits[list(divergence.tokens)].min()).item()
        shape = (num_verified, batch_size)
        noise = self._measure_noise(prompt, context, *shape)
        self._noise[shape] = max(noise, self._noise.get(shape, 0.0))
        return TieMeasure(gap, self._noise[shape], str(model.dtype).removeprefix("torch."))

    def _measure_noise(
        self, prompt: Sequence[int], context: list[int], width: int, batch_size: int
    ) -> float:
        """How far rounding moves a likely token's logit, over the last tokens of a context.

        The largest difference between reading one token at a time and ``width`` at a time; and,
        where the gap comes from a float32 copy, between either and that copy, since the dtype's own
        error decides a gap that small as well. Never less than the last place of the largest logit:
        forwards that round differently at all differ by that much somewhere.
        """
        count = min(max(_POSITIONS, width), len(context))
        width = min(width, count)
        start = len(context) - count // width * width
        one = _logits(self.target, prompt, context, start, 1, 1)
        readings = [one, _logits(self.target, prompt, context, start, width, batch_size)]
        exact = self._float32()
        if exact is not self.target:
            readings.append(_logits(exact, prompt, context, start, len(context), 1))
        likeliest = one.topk(min(_LIKELIEST, one.shape[-1]), dim=-1).indices
        chosen = torch.stack(readings).gather(-1, likeliest.expand(len(readings), -1, -1))
        spread = (chosen.amax(dim=0) - chosen.amin(dim=0)).max().item()
        last_place = torch.finfo(self.target.dtype).eps * chosen[0].abs().max().item()
        return max(spread, last_place)

    def _float32(self) -> LanguageModel:
        """A float32 copy of the target if the device has room for it, else the target.

        A quantised one has none: its weights are those of its kernels, in the dtype they take.
        """
        target = self.target
        if target.dtype == torch.float32 or packed_layers(target.model):
            return target
        if self._exact is None:
            need = 4 * sum(p.numel() for p in target.model.parameters())
            if need > 0.5 * available_bytes(target.device):
                self._exact = target
            else:
                model = copy.deepcopy(target.model).float()
                self._exact = wrapped(model, target.tokenizer, target.name)
        return self._exact


def _last_logits(model: LanguageModel, prompt: Sequence[int], context: list[int]) -> Tensor:
    """Logits [V] after a context: prompt and output, or what a decoder holds of them."""
    cache = model.new_cache(1, len(context))
    model.show_source(prompt, cache)
    tokens = torch.tensor([context], device=model.device)
    return model.forward(tokens, cache, [0], last_only=True).logits[0, -1]


def _logits(
    model: LanguageModel,
    prompt: Sequence[int],
    context: list[int],
    start: int,
    width: int,
    batch_size: int,
) -> Tensor:
    """Logits [count, V] of the tokens from ``start`` on, read ``width`` at a time."""
    cache = model.new_cache(batch_size, len(context))
    model.show_source(prompt, cache)
    tokens = torch.tensor([context] * batch_size, device=model.device)
    if start:
        model.forward(tokens[:, :start], cache, [0] * batch_size, last_only=True)
    parts = [
        model.forward(tokens[:, at : at + width], cache, [at] * batch_size).logits[0]
        for at in range(start, len(context), width)
    ]
    return torch.cat(parts).float()
