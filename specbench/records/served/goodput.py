"""Goodput: requests per second that were answered as fast as was asked for.

As ``vllm bench serve --goodput`` counts it (vLLM 0.32, ``benchmarks/serve.py``), under its names: a
request is good if none of its figures is above its limit. In milliseconds, ``ttft`` is the time
from when it was due to its first token, ``e2el`` to its last, and ``tpot`` the time per output
token after the first chunk. An answer of one chunk has no ``tpot`` and meets any.

>>> parse_limits("ttft:500,tpot:50")
{'ttft': 500.0, 'tpot': 50.0}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from specbench.errors import SpecbenchError
from specbench.records.served.chunks import Chunks
from specbench.records.steps import Columns, numbers

FIGURES = ("ttft", "tpot", "e2el")

Limits = dict[str, float]
"""Figure -> the most that a good request takes, in milliseconds."""


def parse_limits(text: str) -> Limits:
    """Limits as a user writes them.

    Raises:
        SpecbenchError: an unknown figure, one that is given twice, or no positive time.
    """
    found: Limits = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition(":"))
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if name not in FIGURES or name in found or not 0.0 < limit < math.inf:
            raise SpecbenchError(
                f"--goodput {text!r} is not usable at {part.strip()!r}",
                f"Write milliseconds, each figure once: ttft:500,tpot:50 ({', '.join(FIGURES)})",
            )
        found[name] = limit
    return found


def goodput_fields(
    limits: Mapping[str, float] | None, requests: Columns, chunks: Chunks, seconds: float
) -> dict[str, Any]:
    """Good requests per second, and their share of all; nothing where no limit was given.

    Args:
        seconds: of the whole window.
    """
    if not limits:
        return {}
    per_token = chunks.decode_s / np.maximum(chunks.decode_tokens, 1.0)
    taken_s = {
        "ttft": numbers(requests, "ttft_s"),
        "tpot": np.where(chunks.decode_tokens > 0, per_token, 0.0),
        "e2el": numbers(requests, "wall_s"),
    }
    met = [1e3 * taken_s[name] <= limit for name, limit in limits.items()]
    good = np.logical_and.reduce(met)
    return {"goodput_per_s": float(good.sum()) / seconds, "goodput_share": float(good.mean())}
