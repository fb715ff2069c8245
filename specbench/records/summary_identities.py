"""The identities of honest numbers, on what a record's own fields tell: for imported results.

Other tools' results are sums and means, so a sentence may rest on rounded numbers and on means that
weigh long and short requests differently; what is compared has to differ by more than that. A field
that is not there has nothing to say.

>>> record_identities(record)                                                   # doctest: +SKIP
['block efficiency: tau 5.2 is above gamma + 1 = 5']
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from specbench.records.schema import CellKey, CellRecord
from specbench.records.spec_text import pieces, quantised_name
from specbench.theory import quantiles

ROUNDING = 2e-3
"""Counts that sources print rounded, such as tau to three digits, may be off by this share."""

MEANS = 0.1
"""Means over requests and means over steps weigh long requests differently: by this share."""

_ROUNDS_TOLD = ("llama-cpp",)
"""Formats whose rounds are decoded - accepted tokens."""

ALWAYS = 0.999
"""A chance of acceptance that real text does not reach."""


def record_identities(record: CellRecord) -> list[str]:
    """The violated ones of the six identities, as far as a record's fields can show them.

    1. tau <= gamma + 1, accepted <= evaluated <= drafted <= gamma * rounds;
    2. tau = 1 + accepted / rounds, and no more tokens were committed than went out, apart from the
       last round of each request, which may be cut;
    3. time per output token = time per step / tau;
    4. survival does not rise with position, and no position is accepted always, unless the
       drafter's tokens are the target's own;
    5. throughput <= batch size / time per output token;
    6. draft + verify + other = time per step; prefill + decode = wall time at batch size 1.

    Returns:
        one sentence per violation, both sides named; empty if all hold.
    """
    return [
        *_block_efficiency(record),
        *_tokens(record),
        *_step_times(record),
        *_positions(record),
        *_throughput(record),
        *_times(record),
    ]


def drafts_itself(cell: CellKey) -> bool:
    """Whether the drafter's tokens are the target's own, so that all may be accepted honestly.

    A synthetic drafter replays the target's output, early exit is the target up to a layer, and a
    draft model may be the target itself.
    """
    spec = pieces(cell.drafter)
    same = quantised_name(spec.argument, spec.options.get("quantization")) == cell.target
    return spec.kind in ("synthetic", "early-exit") or (spec.kind == "model" and same)


def never_rises(survival: Sequence[float]) -> list[str]:
    """Identity 4, its first half: rounds that accepted at least i tokens, for i = 1, 2, ..."""
    return [
        f"positions: position {place + 1} was accepted in {later:.4g} of the rounds, "
        f"position {place} before it in {earlier:.4g}"
        for place, (earlier, later) in enumerate(pairwise(survival), start=1)
        if later > earlier * (1.0 + 1e-9)
    ]


def suspicious(position: int, hits: float, trials: float) -> list[str]:
    """Identity 4, its second half: a position that is as good as always accepted.

    The bound is the exact binomial one (Clopper and Pearson 1934) and takes rounds for independent.
    They are not, which makes it a sign and no proof.

    Args:
        position: 1, 2, ...
        hits: rounds that accepted it.
        trials: rounds that evaluated it.
    """
    low = float(quantiles.beta(0.05, hits, trials - hits + 1)) if hits > 0 else 0.0
    if low < ALWAYS:
        return []
    return [
        f"positions: position {position} was accepted in {hits:.0f} of {trials:.0f} rounds, with "
        f"95% confidence at least {low:.4f}; on real text it stays below {ALWAYS}: random or "
        "repeated prompts, or a broken counter"
    ]


def _block_efficiency(record: CellRecord) -> list[str]:
    found = []
    if record.tau is not None and record.tau > (record.gamma + 1) * (1 + ROUNDING):
        found.append(
            f"block efficiency: tau {record.tau:.4g} is above gamma + 1 = {record.gamma + 1}"
        )
    levels = ("num_accepted", "num_evaluated", "num_drafted")
    counts = [(name, getattr(record, name)) for name in levels]
    known = [(name.removeprefix("num_"), count) for name, count in counts if count is not None]
    for (small, smaller), (large, larger) in pairwise(known):
        if smaller > larger:
            found.append(f"block efficiency: {smaller} {small} but {larger} {large}")
    most = _most_drafted(record)
    if record.num_drafted is not None and most is not None and record.num_drafted > most:
        found.append(
            f"block efficiency: {record.num_drafted} drafted in {record.num_rounds} rounds, "
            f"{record.num_drafted / (record.num_rounds or 1):.2f} a round, above gamma = "
            f"{record.gamma}"
        )
    return found


def _most_drafted(record: CellRecord) -> int | None:
    """What the rounds could draft; None where that is not known, as of trees and servers, which may
    count a root or rounds of their own.

    Rounds that were told from tokens are fewer than there were by what ends of outputs cut.
    """
    if not record.num_rounds or record.server is not None or record.draft_form == "tree":
        return None
    cut = (record.num_requests or 0) * record.gamma if record.imported_from in _ROUNDS_TOLD else 0
    return record.gamma * (record.num_rounds + cut)


def _tokens(record: CellRecord) -> list[str]:
    accepted, rounds = record.num_accepted, record.num_rounds
    if accepted is None or not rounds:
        return []
    found = []
    counted = 1.0 + accepted / rounds
    if record.tau is not None and abs(record.tau - counted) > ROUNDING * counted:
        found.append(
            f"tokens: tau is {record.tau:.4g}, 1 + accepted / rounds = 1 + {accepted} / {rounds} = "
            f"{counted:.4g}"
        )
    if record.tokens is not None and record.num_requests is not None:
        may_be_cut = (record.gamma + 1) * record.num_requests
        if accepted + rounds > record.tokens + may_be_cut:
            found.append(
                f"tokens: accepted + rounds is {accepted + rounds}, the outputs have "
                f"{record.tokens} and at most {may_be_cut} were cut"
            )
    return found


def _step_times(record: CellRecord) -> list[str]:
    if record.itl_s is None or record.step_s is None or record.tau is None:
        return []
    expected = record.step_s / record.tau
    if any(abs(record.itl_s - step) <= MEANS * step for step in (expected, *_cut_steps(record))):
        return []
    return [
        f"step times: time per output token is {record.itl_s:.4g} s, time per step / tau "
        f"{record.step_s:.4g} s / {record.tau:.4g} = {expected:.4g} s"
    ]


def _cut_steps(record: CellRecord) -> list[float]:
    """The time per token where ends of outputs cut what rounds committed, which tau counts before;
    each output's first token is of no round."""
    if record.tokens is None or record.num_requests is None or not record.num_rounds:
        return []
    emitted = record.tokens - record.num_requests
    if emitted <= 0 or record.step_s is None:
        return []
    return [record.step_s * record.num_rounds / emitted]


def _positions(record: CellRecord) -> list[str]:
    survival, rounds = record.survival_by_position, record.num_rounds
    if record.is_baseline or not survival:
        return []
    found = never_rises(survival)
    if not rounds or drafts_itself(record):
        return found
    reached = 1.0
    for position, share in enumerate(survival, start=1):
        found += suspicious(position, min(share, reached) * rounds, reached * rounds)
        reached = share
    return found


def _throughput(record: CellRecord) -> list[str]:
    if record.tok_per_s is None or not record.itl_s or record.request_rate:
        return []
    bound = record.batch_size / record.itl_s
    if record.tok_per_s <= bound * (1 + MEANS):
        return []
    return [
        f"throughput: {record.tok_per_s:.4g} tokens/s is above batch size / time per output token "
        f"= {record.batch_size} / {record.itl_s:.4g} s = {bound:.4g}"
    ]


def _times(record: CellRecord) -> list[str]:
    found = []
    if record.step_s is not None and record.parts_s is not None:
        found += _unequal("draft + verify + other", record.parts_s, "time per step", record.step_s)
    if record.batch_size == 1 and record.prefill_s is not None and record.decode_s is not None:
        whole = record.prefill_s + record.decode_s
        found += _unequal("prefill + decode", whole, "wall time", record.wall_s)
    return found


def _unequal(left: str, one: float, right: str, other: float | None) -> list[str]:
    if other is None or abs(one - other) <= 1e-3 + 0.01 * max(one, other):
        return []
    return [f"times: {left} is {one:.6g} s, {right} {other:.6g} s"]
