"""Is the output unchanged? The lossless verdict of a greedy cell.

``identical``: every token equals the baseline's. ``near-tie``: outputs part, and at the first
parting of each the target hardly prefers either token: the gap is at most twice what rounding moves
a logit by when the forward has another shape. ``DIVERGED``: rounding does not explain
it, which is a bug. Above temperature 0 outputs differ rightly and there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from specbench.backends.base import Divergence, TieMeasure
from specbench.engine.request import Request
from specbench.records.schema import DIVERGED as DIVERGED
from specbench.records.schema import IDENTICAL as IDENTICAL
from specbench.records.schema import NEAR_TIE


def judge(
    requests: Sequence[Request],
    baseline: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    measure: Callable[[Divergence], TieMeasure | None],
) -> tuple[str | None, list[str]]:
    """The verdict, and a sentence for every prompt whose output is not the baseline's.

    Args:
        requests: the prompts.
        baseline, outputs: token ids per prompt.
        measure: gap and noise at a divergence, None where the engine can't tell (then the verdict
            of an output that parts is None: unknown).
    """
    verdict: str | None = IDENTICAL
    sentences = []
    for divergence in _divergences(requests, baseline, outputs):
        ours, theirs = divergence.tokens
        where = f"{divergence.request.prompt_id} token {len(divergence.shared)}: {ours} or {theirs}"
        if -1 in divergence.tokens:
            sentences.append(f"{DIVERGED}: one output of {divergence.request.prompt_id} ends early")
            verdict = DIVERGED
            continue
        tie = measure(divergence)
        if tie is None:
            sentences.append(f"output differs from the baseline at {where}")
            verdict = None if verdict != DIVERGED else verdict
            continue
        near = tie.gap <= 2 * tie.noise
        sentences.append(
            f"{NEAR_TIE if near else DIVERGED} at {where}: {tie.gap_dtype} logit gap "
            f"{tie.gap:.3g}, rounding up to {tie.noise:.3g}"
        )
        if not near:
            verdict = DIVERGED
        elif verdict == IDENTICAL:
            verdict = NEAR_TIE
    return verdict, sentences


def _divergences(
    requests: Sequence[Request], baseline: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
) -> Iterator[Divergence]:
    """The first parting of every prompt whose outputs differ; a missing token counts as -1."""
    for request, expected, found in zip(requests, baseline, outputs, strict=True):
        if list(expected) == list(found):
            continue
        length = max(len(expected), len(found))
        ours, theirs = ([*ids, *[-1] * (length - len(ids))] for ids in (expected, found))
        at = next(i for i in range(length) if ours[i] != theirs[i])
        yield Divergence(request, ours[:at], (ours[at], theirs[at]))
