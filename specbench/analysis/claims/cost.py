"""Claims about what a drafter costs: its size, its memory, its step."""

from __future__ import annotations

import math
from collections.abc import Iterable

from specbench.analysis.claims.evidence import Answer, Evidence, Side, both, claim, each, within
from specbench.analysis.claims.view import Drafted, View
from specbench.theory.differences import Ends

_MEDUSA_SHARE = 0.03
_HUNDREDTH = (1 / 200, 1 / 50)
_C_BELOW, _ALPHA_RANGE = 0.05, (0.5, 0.9)
_SHARES_WEIGHTS = ("early-exit",)  # with the target, so they take no memory of their own


@claim(
    "medusa-heads-are-small",
    "Medusa heads add under 3% of the parameters",
    "as commonly quoted of Medusa (Cai et al. 2024, arXiv 2401.10774)",
)
def medusa_heads_are_small(view: View) -> Answer:
    """Bytes of weights that a draft reads over the target's.

    Heads may read the target's own output layer, which is counted in and adds nothing: a small
    share is proof, a large one is none against the claim.
    """
    found = [
        Evidence(
            one.name,
            "bytes that a draft reads / of the target (the output layer that heads use included)",
            (Side("", share),),
            supports=True if share < _MEDUSA_SHARE else None,
        )
        for one in _once(view.drafted, "medusa")
        if (share := _size(view, one)) is not None
    ]
    return each(found, "no Medusa heads whose bytes of weights are recorded (--drafter medusa)")


@claim(
    "drafter-memory-costs-concurrency",
    "The drafter's memory costs concurrency",
    "weights stand where keys and values could; Li et al. 2024 (EAGLE), arXiv 2401.15077, "
    "section 4.4",
)
def memory_costs_concurrency(view: View) -> Answer:
    """Sequences whose keys and values would fit where the drafter's weights are."""
    found = []
    for one in _once(sorted(view.drafted, key=_context, reverse=True)):
        weights, kv = one.cost("drafter_weight_bytes"), one.cost("kv_bytes_per_token")
        context = _context(one)
        if one.kind in _SHARES_WEIGHTS or not weights or not kv or not context:
            continue
        rows = weights / (kv * context)
        quantity = (
            f"sequences of {context:.0f} tokens, prompt and answer of the longest task, in the "
            "memory of its weights"
        )
        found.append(Evidence(one.name, quantity, (Side("", rows),), supports=rows >= 1.0))
    return each(
        found,
        "no drafter with weights of its own whose bytes are recorded (--drafter model:ORG/NAME)",
    )


@claim(
    "hundredth-of-the-size",
    "A draft model of a hundredth of the size has c below 0.05 and α 0.5–0.9",
    "Leviathan et al. 2023, arXiv 2211.17192, sections 3.3 (c) and 4.2 (α)",
)
def hundredth_of_the_size(view: View) -> Answer:
    """Draft models between a 50th and a 200th of the target's bytes of weights, batch 1."""
    steps, alphas, sizes = [], [], []
    for one in view.chains:
        size = _size(view, one) if one.kind == "model" else None
        if size is None or one.setting.batch_size > 1:
            continue
        sizes.append(size)
        if _HUNDREDTH[0] <= size <= _HUNDREDTH[1]:
            where = f"{one.where()}, {size:.3f} of the size"
            steps += _in_range(where, "c", one.fit.c, one.fit.c_ci, 0.0, _C_BELOW)
            alphas += _in_range(where, "α", one.fit.alpha, one.fit.alpha_ci, *_ALPHA_RANGE)
    lacking = "no draft model whose bytes of weights are recorded (--drafter model:ORG/NAME)"
    if sizes:
        nearest = min(sizes, key=lambda size: abs(math.log(size * 100)))
        lacking = (
            "it takes a draft model of a 200th to a 50th of the target's bytes "
            f"(--drafter model:ORG/NAME): the nearest has {nearest:.3f} of them"
        )
    return both({"c": each(steps, lacking), "α": each(alphas, lacking)})


def _once(drafted: Iterable[Drafted], kind: str | None = None) -> list[Drafted]:
    """The first group of each drafter, of one kind if that is given."""
    found: dict[str, Drafted] = {}
    for one in drafted:
        if kind is None or one.kind == kind:
            found.setdefault(one.fit.key.drafter, one)
    return list(found.values())


def _size(view: View, one: Drafted) -> float | None:
    """The drafter's bytes of weights over the target's; None where it is said to have none."""
    own, target = one.cost("drafter_weight_bytes"), one.cost("weight_bytes")
    target = target or view.manifest.target.get("weight_bytes")
    return own / float(target) if own and target else None


def _context(one: Drafted) -> float:
    """Mean tokens of a sequence at its end; 0 where they are not known."""
    return (one.fit.memory and one.fit.memory.context) or 0.0


def _in_range(
    where: str, name: str, value: float | None, interval: Ends | None, low: float, high: float
) -> list[Evidence]:
    if value is None:
        return []
    supports = within(interval, low, high)
    return [Evidence(where, name, (Side("", value, interval),), supports=supports)]
