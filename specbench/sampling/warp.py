"""Temperature, top-k, top-p: the one place where logits become the distribution p or q.

Speculative sampling is exact for whatever distribution the target is *sampled* from, so the same
function must shape the target's and the drafter's logits. Temperature 0 is the argmax distribution
and never reaches :func:`warp`: a greedy caller compares token ids.

>>> warp(torch.tensor([2.0, 1.0, 0.0]), SamplingParams(temperature=1.0, top_k=1)).tolist()
[1.0, 0.0, 0.0]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.errors import SpecbenchError


@dataclass(frozen=True)
class SamplingParams:
    """What is applied to target and drafter alike.

    Attributes:
        temperature: 0 for greedy decoding, else the divisor of the logits.
        top_k: keep the k most likely tokens (ties of the last one included); 0 keeps all.
        top_p: keep the smallest set of most likely tokens whose mass reaches top_p; 1 keeps all.

    Raises:
        SpecbenchError: a value is outside its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SpecbenchError(f"temperature {self.temperature} is not 0 or a positive number")
        if self.top_k < 0:
            raise SpecbenchError(f"top-k {self.top_k} is negative", "0 keeps every token")
        if not 0 < self.top_p <= 1:
            raise SpecbenchError(f"top-p {self.top_p} is not in (0, 1]", "1 keeps every token")

    @property
    def greedy(self) -> bool:
        """Whether the distribution is the argmax."""
        return self.temperature == 0


def warp(logits: Tensor, params: SamplingParams) -> Tensor:
    """The distribution that is sampled from: temperature, then top-k, then top-p.

    Args:
        logits: [..., V], any floating dtype.
        params: with a temperature above 0.

    Returns:
        Probabilities [..., V] in float32; removed tokens are exactly 0.
    """
    scores = logits.float()
    # the best score becomes 0, so that a tiny temperature can't overflow
    scores = (scores - scores.amax(dim=-1, keepdim=True)) / params.temperature
    if 0 < params.top_k < scores.shape[-1]:
        kth_best = scores.topk(params.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < kth_best, -torch.inf)
    probs = torch.softmax(scores, dim=-1)
    if params.top_p < 1:
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        mass_before = ordered.cumsum(dim=-1) - ordered
        ordered = ordered.masked_fill(mass_before >= params.top_p, 0)
        probs = torch.zeros_like(probs).scatter_(-1, order, ordered)
        probs /= probs.sum(dim=-1, keepdim=True)
    return probs


def sample(probs: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        probs: [..., V], non-negative, need not sum to one.
        uniforms: [...], in [0, 1), one number per row.

    Returns:
        Token ids [...]; a token of probability 0 is never drawn.
    """
    cumulative = probs.double().cumsum(dim=-1)
    total = cumulative[..., -1:]
    below_total = torch.nextafter(total, torch.zeros_like(total))
    threshold = torch.minimum(uniforms.double().unsqueeze(-1) * total, below_total)
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1)
