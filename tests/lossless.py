"""The checks behind "lossless", as functions: tests call them, planted faults must fail them.

* :func:`greedy_faults`: tokens and lengths against another engine's greedy output.
* :func:`joint_p_value`: chi-square of sampled tokens against the enumerated joint distribution.
* :class:`CacheWatch`: K/V before every round against a fresh prefill.

None of them uses specbench's sampling: distributions come from transformers' own logits processors.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy import stats
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specbench.drafters.base import Drafter
from specbench.drafters.model import ModelDrafter
from specbench.engine.loop import decode
from specbench.engine.request import Generation, Limits, Request
from specbench.engine.round import Round
from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.tiny import make_decoder, make_drafter, make_session, shared_prefills

SOUND = 1e-3
"""A sound engine's p-value is above this, seeds being fixed;"""

BROKEN = 1e-6
"""a broken one's below this."""

_SMALLEST_EXPECTED = 5


def greedy_faults(outputs: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> list[str]:
    """One sentence per output that differs, in ids or in length; empty if all are equal."""
    assert len(outputs) == len(expected)
    return [
        f"request {index}: {list(ours)} instead of {list(theirs)}"
        for index, (ours, theirs) in enumerate(zip(outputs, expected, strict=True))
        if list(ours) != list(theirs)
    ]


def shaped(logits: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """The distribution that transformers would sample from, float64 [N, V] from logits [N, V]."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    return torch.softmax(warpers(None, logits.double()), dim=-1)


@torch.inference_mode()
def enumerated_joint(
    target: LanguageModel,
    prompt: Sequence[int],
    sampling: SamplingParams,
    length: int,
    stop_tokens: Sequence[int] = (),
) -> dict[tuple[int, ...], float]:
    """Probability of every output of up to ``length`` tokens, from the model without any cache."""
    growing: dict[tuple[int, ...], float] = {(): 1.0}
    ended: dict[tuple[int, ...], float] = {}
    for _ in range(length):
        prefixes = list(growing)
        ids = torch.tensor([[*prompt, *prefix] for prefix in prefixes])
        probs = shaped(target.model(ids, use_cache=False).logits[:, -1], sampling)
        grown = {
            (*prefix, token): growing[prefix] * probability
            for prefix, row in zip(prefixes, probs.tolist(), strict=True)
            for token, probability in enumerate(row)
        }
        ended |= {output: mass for output, mass in grown.items() if output[-1] in stop_tokens}
        growing = {output: mass for output, mass in grown.items() if output not in ended}
    return growing | ended


def joint_p_value(
    outputs: Sequence[Sequence[int]], joint: Mapping[tuple[int, ...], float]
) -> float:
    """Chi-square p-value of the outputs' first tokens; 0 if one of them is impossible.

    Outputs with fewer than 5 expected observations are pooled.
    """
    length = max(len(output) for output in joint)
    counts = Counter(tuple(output[:length]) for output in outputs)
    if any(joint.get(seen, 0) == 0 for seen in counts):
        return 0.0
    expected = {key: len(outputs) * probability for key, probability in joint.items()}
    large = [key for key, number in expected.items() if number >= _SMALLEST_EXPECTED]
    pairs = [(counts[key], expected[key]) for key in large]
    rest = len(outputs) - sum(number for _, number in pairs)
    if rest > 1e-6:
        pairs.append((len(outputs) - sum(count for count, _ in pairs), rest))
    assert len(pairs) > 6, "too few outputs are likely enough to say anything"
    statistic = sum((count - number) ** 2 / number for count, number in pairs)
    return float(stats.chi2.sf(statistic, len(pairs) - 1))


@torch.inference_mode()
def cache_gap(
    model: LanguageModel,
    cache: RowCache,
    row: int,
    tokens: Sequence[int],
    source: Sequence[int] = (),
) -> float:
    """Largest difference between a row's K/V of ``tokens`` and a fresh prefill's."""
    fresh = model.new_cache(1, len(tokens))
    model.show_source(source, fresh)
    model.forward(torch.tensor([list(tokens)]), fresh, [0])
    gaps = [
        (ours[row, :, : len(tokens)] - theirs[0]).abs().max().item()
        for ours, theirs in zip(
            itertools.chain(cache.keys, cache.values),
            itertools.chain(fresh.keys, fresh.values),
            strict=True,
        )
    ]
    return max(gaps)


class CacheWatch:
    """A decoder that compares caches with fresh prefills before every round.

    Attributes:
        target_gap, drafter_gap: the largest differences seen.
        checked: rows times rounds that were compared after at least one round of their own.
        behind: the most committed tokens that the drafter's cache lacked, the last one included.
    """

    def __init__(self, decoder: Any) -> None:
        self.inner = decoder
        self.session, self.clock = decoder.session, decoder.clock
        self.drafter: Drafter | None = decoder.drafter
        self.target_gap = self.drafter_gap = 0.0
        self.checked = self.behind = 0

    def round(self) -> Round:
        for slot, row in enumerate(self.session.rows.slots):
            if not row.active:
                continue
            self.checked += len(row.output) > 1
            target, held = self.inner.target, self.session.target_cache
            gap = cache_gap(target, held, slot, row.tokens[:-1], row.source)
            self.target_gap = max(self.target_gap, gap)
            if isinstance(self.drafter, ModelDrafter):
                known, model = self.drafter._cached[slot], self.drafter.model
                gap = cache_gap(model, self.drafter.cache, slot, row.tokens[:known], row.source)
                self.drafter_gap = max(self.drafter_gap, gap)
                self.behind = max(self.behind, len(row.tokens) - known)
        result: Round = self.inner.round()
        return result


def watch_caches(
    target: LanguageModel,
    spec: str,
    batch: Sequence[Request],
    *,
    gamma: int,
    batch_size: int,
    sampling: SamplingParams,
    max_new_tokens: int = 12,
    models: Mapping[str, LanguageModel] | None = None,
) -> tuple[CacheWatch, Generation]:
    """Run a cell and compare caches before every round."""
    drafter = make_drafter(target, spec, models)
    session = make_session(
        target,
        batch,
        gamma=gamma,
        batch_size=batch_size,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        drafter=drafter,
    )
    watch = CacheWatch(make_decoder(target, drafter, session))
    limits = Limits(max_new_tokens)
    return watch, decode(watch, batch, shared_prefills(target, batch, drafter), limits)
