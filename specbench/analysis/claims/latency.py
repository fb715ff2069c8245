"""Claims about what a user waits for: the first token, and short answers. Batch size 1 only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from specbench.analysis.claims.evidence import Answer, Side, by_ratio, claim, every
from specbench.analysis.claims.view import Drafted, View
from specbench.analysis.machine.waits import waits_by_conversation
from specbench.analysis.pooling import Raw
from specbench.records.conversations import paired
from specbench.records.steps import Columns, integers, numbers, row_seconds, values
from specbench.theory.clusters import Numbers, cluster_sums
from specbench.theory.intervals import paired_ratio_of_ratios

_IMPROVED = 0.95  # of plain decoding's wait; as little less as that is no improvement
_SHORT = 0.25  # of an output
_LONG_ENOUGH = 16  # tokens of an output, so that its first quarter is more than one round


@claim(
    "first-token-not-faster",
    "Time to first token does not improve",
    "follows from the method: the prompt is read before the first round; no single paper",
)
def first_token_not_faster(view: View) -> Answer:
    """Speculative over plain, all gammas together, paired by conversation.

    Where the target's prefill was timed once for both, only the drafter's own can differ, which is
    said.
    """
    found = []
    for one, plain in _alone(view):
        requests = [view.raw(one, gamma)[1] for gamma in one.group.cells]
        columns = paired(waits_by_conversation(requests), waits_by_conversation([plain[1]]))
        interval = paired_ratio_of_ratios(*columns.T)
        if interval is None:
            continue
        waits = [float(columns[:, at].sum() / columns[:, at + 1].sum()) for at in (0, 2)]
        sides = (Side("speculative", waits[0]), Side("plain", waits[1]))
        quantity = "s to first token"
        if all(_prefill(own) == _prefill(plain[1]) for own in requests):
            quantity += " (the target's prefill timed once for both)"
        found.append(
            by_ratio(
                one.where(),
                quantity,
                sides,
                interval.estimate,
                interval.ends,
                interval.clusters,
                _IMPROVED,
            )
        )
    return every(
        found, "it takes two prompts with a baseline at batch size 1 (--prompts 8 --batch-size 1)"
    )


@claim(
    "short-outputs-gain-less",
    "Short outputs gain less",
    "Amdahl's law: prefill and the drafter's start are paid in full; no single paper",
)
def short_outputs_gain_less(view: View) -> Answer:
    """End-to-end speedup of the whole outputs against that of their first quarters.

    Only where decoding gains: of what is slower than plain decoding, short outputs lose less.
    """
    found = []
    for one, plain in _alone(view):
        for gamma, point in one.points.items():
            if point.speedup_ci is None or point.speedup_ci[0] <= 1.0:
                continue
            columns = _wholes_and_quarters(view.raw(one, gamma), plain)
            interval = paired_ratio_of_ratios(*columns.T)
            if interval is None:
                continue
            totals = columns.sum(axis=0)
            sides = (
                Side("whole outputs", float(totals[0] / totals[1])),
                Side("first quarters", float(totals[2] / totals[3])),
            )
            where, quantity = one.where(gamma=gamma), "end-to-end speedup"
            found.append(
                by_ratio(
                    where, quantity, sides, interval.estimate, interval.ends, interval.clusters
                )
            )
    return every(
        found,
        f"it takes a drafter with a clear gain on two or more prompts, at batch size 1 and outputs "
        f"of {_LONG_ENOUGH} tokens (--prompts 24 --max-new-tokens 64 --batch-size 1)",
    )


def _alone(view: View) -> Iterator[tuple[Drafted, Raw]]:
    """Drafters at batch size 1 with their baselines."""
    for one in view.drafted:
        plain = view.baselines(one) if one.has_rounds else None
        if plain is not None and one.setting.batch_size == 1:
            yield one, plain


def _prefill(requests: Columns) -> dict[str, float]:
    """prompt -> seconds of the target's prefill."""
    times = numbers(requests, "prefill_s").tolist()
    return dict(zip(values(requests, "prompt_id"), times, strict=True))


def _wholes_and_quarters(own: Raw, plain: Raw) -> Numbers:
    """Seconds per conversation to as many tokens: whole plain, own, quarter plain, own [n, 4]."""
    tokens, others = _tokens(own), _tokens(plain)
    lengths = {name: min(count, others.get(name, 0)) for name, count in tokens.items()}
    lengths = {name: length for name, length in lengths.items() if length >= _LONG_ENOUGH}
    quarters = {name: round(_SHORT * length) for name, length in lengths.items()}
    times = [_seconds_to(raw, part) for part in (lengths, quarters) for raw in (plain, own)]
    of = dict(zip(values(own[1], "prompt_id"), values(own[1], "conversation"), strict=True))
    rows = np.array([[time[name] for time in times] for name in lengths]).reshape(-1, 4)
    return np.column_stack(cluster_sums([of[name] for name in lengths], *rows.T)[1])


def _tokens(raw: Raw) -> dict[str, int]:
    """prompt -> the fewest tokens of its outputs."""
    found: dict[str, int] = {}
    counts = integers(raw[1], "num_tokens").tolist()
    for name, count in zip(values(raw[1], "prompt_id"), counts, strict=True):
        found[name] = min(count, found.get(name, count))
    return found


def _seconds_to(raw: Raw, lengths: Mapping[str, int]) -> dict[str, float]:
    """prompt -> mean seconds from the request to that many tokens, prefill included."""
    rounds, requests = raw
    request = integers(rounds, "request")
    order = np.argsort(request, kind="stable")
    ends = np.cumsum(np.bincount(request, minlength=len(requests["prompt_id"])))
    tokens = np.split(numbers(rounds, "num_emitted")[order], ends[:-1])
    times = np.split(row_seconds(rounds)[order], ends[:-1])
    start = numbers(requests, "prefill_s") + np.nan_to_num(numbers(requests, "drafter_prefill_s"))
    found: dict[str, list[float]] = {}
    for index, name in enumerate(values(requests, "prompt_id")):
        if name in lengths:  # the first token comes from prefill
            last = int(np.searchsorted(np.cumsum(tokens[index]), lengths[name] - 1))
            found.setdefault(name, []).append(start[index] + float(times[index][: last + 1].sum()))
    return {name: float(np.mean(waits)) for name, waits in found.items()}
