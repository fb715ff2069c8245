"""What a group's conversations and time blocks add up to: all that predictions are made from.

Tokens and acceptance belong to conversations. Times do so at batch size 1; above, a step belongs to
several conversations, so times are added up over stretches of steps, each gamma and each baseline
with its own. Both are taken over the steps that speed is counted over
(:func:`specbench.records.steps.counted_steps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.acceptance.verdict import sample_of
from specbench.analysis.pooling import Raw
from specbench.records.conversations import rows_of
from specbench.records.steps import (
    Columns,
    Numbers,
    Steps,
    counted_steps,
    integers,
    numbers,
)
from specbench.theory.acceptance import Sample
from specbench.theory.clusters import MIN_TIME_BLOCKS
from specbench.theory.round_lines import RoundLines, RoundTimes, StepTimes

_TIMES = ("draft_s", "verify_s", "other_s")


@dataclass(frozen=True, eq=False)
class TokenSums:
    """Rounds of one gamma by conversation.

    Attributes:
        names: [conversations] sorted.
        lengths: [conversations, gamma + 1] rounds that drafted 0, 1, ..., gamma tokens.
        emitted: [conversations] tokens, after cuts.
    """

    names: NDArray[np.str_]
    lengths: Numbers
    emitted: Numbers


@dataclass(frozen=True, eq=False)
class Evidence:
    """The sums of one group.

    Attributes:
        sample: gamma -> acceptance by conversation; gammas that never drafted are missing.
        tokens: gamma -> tokens by conversation.
        times: gamma -> times by conversation, or by time block.
        plain: the baselines' steps, by the same.
        plain_cells: [baselines] mean seconds of a step of each.
        output: mean tokens of an answer of plain decoding, the first one apart.
        paired: whether times are by conversation.
    """

    sample: Sample
    tokens: Mapping[int, TokenSums]
    times: Mapping[int, RoundTimes]
    plain: StepTimes
    plain_cells: Numbers
    output: float
    paired: bool

    @cached_property
    def lines(self) -> RoundLines | None:
        """Through the times of all gammas; None where all drafts have one length."""
        return RoundLines.of(self.times, self.plain)

    @property
    def enough(self) -> bool:
        """Whether there are clusters enough to be resampled."""
        sizes = [part.names.size for part in self.times.values()]
        return min(*sizes, self.plain.names.size) >= (2 if self.paired else MIN_TIME_BLOCKS)

    def without(self, gamma: int) -> Evidence:
        """As if a gamma had not been measured."""
        return replace(
            self,
            sample={other: part for other, part in self.sample.items() if other != gamma},
            tokens={other: part for other, part in self.tokens.items() if other != gamma},
            times={other: part for other, part in self.times.items() if other != gamma},
        )


def evidence_of(
    raw: Mapping[int, Raw], baselines: Sequence[Raw], batch_size: int
) -> Evidence | None:
    """The sums of a group of chains.

    Args:
        raw: gamma -> rounds and requests of that gamma's cells.
        baselines: rounds and requests of each baseline.
        batch_size: of all of them.

    Returns:
        None where a gamma or the baselines have no steps.
    """
    plain = [counted_steps(rounds, batch_size) for rounds, _ in baselines]
    plain = [steps for steps in plain if len(steps) and steps.seconds.sum()]
    if not plain or not all(len(rounds["step"]) for rounds, _ in raw.values()):
        return None
    if batch_size == 1:
        steps = [_by_conversation(0, *tables) for tables in baselines]
    else:
        steps = [_by_block(0, part, f"baseline {place}") for place, part in enumerate(plain)]
    emitted = sum(float(numbers(rounds, "num_emitted").sum()) for rounds, _ in baselines)
    return Evidence(
        sample=sample_of(raw),
        tokens={gamma: _tokens(gamma, *tables, batch_size) for gamma, tables in raw.items()},
        times={
            gamma: _by_conversation(gamma, *tables)
            if batch_size == 1
            else _by_block(gamma, counted_steps(tables[0], batch_size), f"gamma {gamma}")
            for gamma, tables in raw.items()
        },
        plain=_joined(steps),
        plain_cells=np.array([float(part.seconds.mean()) for part in plain]),
        output=emitted / sum(len(requests["prompt_id"]) for _, requests in baselines),
        paired=batch_size == 1,
    )


def _tokens(gamma: int, rounds: Columns, requests: Columns, batch_size: int) -> TokenSums:
    names, cluster = rows_of(rounds, requests)
    full = integers(rounds, "active_rows") == batch_size
    counted = full if full.any() else np.ones_like(full)
    emitted = _summed(cluster, numbers(rounds, "num_emitted") * counted, names.size)
    levels = integers(rounds, "draft_levels")[counted]
    return TokenSums(names, _lengths(gamma, cluster[counted], levels, names.size), emitted)


def _by_conversation(gamma: int, rounds: Columns, requests: Columns) -> RoundTimes:
    names, cluster = rows_of(rounds, requests)
    parts = [numbers(rounds, name) for name in _TIMES]
    return _times(gamma, names, cluster, integers(rounds, "draft_levels"), parts)


def _by_block(gamma: int, steps: Steps, label: str) -> RoundTimes:
    blocks = min(MIN_TIME_BLOCKS, len(steps))
    names = np.array([f"{label}, block {place}" for place in range(blocks)])
    cluster = np.arange(len(steps)) * blocks // len(steps)
    parts = [steps.draft_s, steps.verify_s, steps.other_s]
    return _times(gamma, names, cluster, steps.drafted.astype(np.int64), parts)


def _times(
    gamma: int,
    names: NDArray[np.str_],
    cluster: NDArray[np.int64],
    levels: NDArray[np.int64],
    parts: Sequence[Numbers],
) -> RoundTimes:
    drafting = levels > 0
    draft, verify, other = (_summed(cluster, part * drafting, names.size) for part in parts)
    idle = _summed(cluster, np.sum(parts, axis=0) * ~drafting, names.size)
    lengths = _lengths(gamma, cluster, levels, names.size)
    return RoundTimes(names, lengths, draft, verify, other, idle)


def _lengths(
    gamma: int, cluster: NDArray[np.int64], levels: NDArray[np.int64], count: int
) -> Numbers:
    cells = np.bincount(cluster * (gamma + 1) + levels, minlength=count * (gamma + 1))
    return cells.reshape(count, gamma + 1).astype(np.float64)


def _joined(parts: Sequence[RoundTimes]) -> StepTimes:
    """Steps of several baselines, which draft nothing: equal names added up."""
    names, where = np.unique(np.concatenate([part.names for part in parts]), return_inverse=True)
    seconds = np.concatenate([part.idle_s for part in parts])
    steps = np.concatenate([part.lengths[:, 0] for part in parts])
    count = names.size
    return StepTimes(names, _summed(where, seconds, count), _summed(where, steps, count))


def _summed(cluster: NDArray[np.int64], amounts: Numbers, count: int) -> Numbers:
    return np.bincount(cluster, amounts, count).astype(np.float64)
