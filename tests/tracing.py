"""Drafters traced on texts of tiny models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.drafters.base import Drafter
from specbench.engine.request import Request
from specbench.engine.teacher import trace_texts
from specbench.measure.clock import HostClock
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.tiny import GREEDY, make_drafter, make_session


def trace_columns(
    target: LanguageModel,
    spec: str | Drafter,
    batch: Sequence[Request],
    outputs: Sequence[Sequence[int]],
    gamma: int,
    *,
    sampling: SamplingParams = GREEDY,
    seed: int = 0,
    models: Mapping[str, LanguageModel] | None = None,
) -> Any:
    """The columns of one drafter's trace on outputs of plain decoding."""
    drafter = make_drafter(target, spec, models) if isinstance(spec, str) else spec
    session = make_session(
        target,
        batch,
        gamma=gamma,
        batch_size=1,
        sampling=sampling,
        max_new_tokens=max(map(len, outputs)) + gamma,
        seed=seed,
    )
    drafters = {"it": (drafter, gamma)}
    return trace_texts(target, drafters, batch, outputs, session, HostClock()).drafts["it"]
