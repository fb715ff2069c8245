"""What the native engine captures, and on which prompts it warms up for it."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.backends.base import EngineOptions
from specbench.engine.request import Request
from specbench.models.capture import Capturing, Rerun
from specbench.models.cuda_graphs import CudaGraphs
from specbench.models.extents import round_up
from specbench.models.language_model import LanguageModel
from specbench.weights.progress import Progress


def capturing_for(
    target: LanguageModel, options: EngineOptions, progress: Progress
) -> Capturing | None:
    """How steps are captured; None: not at all, every forward runs as it is.

    Compiled steps have fixed shapes too, so that nothing is compiled inside a cell; without graphs
    they are only called again.
    """
    if options.cuda_graph and target.device.type == "cuda":
        reason = _why_not(target)
        if reason is None:
            return Capturing(CudaGraphs(target.device), progress.note)
        progress.note(f"{target.name}, {reason}, runs without captured steps")
    return Capturing(Rerun(), progress.note) if options.compile else None


def _why_not(target: LanguageModel) -> str | None:
    if target.has_encoder:
        return "an encoder-decoder"
    return "spread over several devices" if len(target.devices) > 1 else None


def one_per_size(requests: Sequence[Request]) -> list[Request]:
    """The shortest prompt of each size to which lengths are rounded up."""
    longest_first = sorted(requests, key=lambda request: len(request.token_ids), reverse=True)
    by_size = {round_up(len(request.token_ids)): request for request in longest_first}
    return list(by_size.values())
