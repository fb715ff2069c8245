"""Claims about the speedup: draft length, batch size, tasks that copy."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.claims.evidence import (
    Answer,
    Evidence,
    Side,
    both,
    by_ratio,
    claim,
    every,
    fewest,
    ratios,
    some,
)
from specbench.analysis.claims.view import (
    Drafted,
    View,
    extremes,
    shared_gammas,
)
from specbench.analysis.fitted import GammaFit
from specbench.records.conversations import column, paired
from specbench.records.speedup import within_noise
from specbench.records.steps import row_seconds
from specbench.theory.differences import Term, weighted_sum
from specbench.theory.intervals import paired_ratio_of_ratios

COPYING = ("summarization", "rag")
CHAT = ("chat",)


@claim(
    "longer-is-not-always-better",
    "A longer draft is not always better",
    "Leviathan et al. 2023, arXiv 2211.17192, section 3.5",
)
def longer_not_always_better(view: View) -> Answer:
    """The longest draft against every shorter one; at batch 1 paired by conversation."""
    found = []
    for one in view.drafted:
        points = [point for point in one.fit.points if point.speedup]
        for shorter in points[:-1]:
            found.append(_shorter_against_longer(view, one, shorter, points[-1]))
    return some(found, "it takes speedups of one drafter at two γ (--gamma 1,4)")


@claim(
    "gain-shrinks-with-batch",
    "The gain shrinks as the batch grows",
    "Su et al. 2023, arXiv 2310.18813; Li et al. 2024 (EAGLE), arXiv 2401.15077, table 7",
)
def gain_shrinks_with_batch(view: View) -> Answer:
    """The smallest against the largest batch size, same drafter, task, temperature and gamma."""
    found = [
        ratios(
            small.where("batch_size", gamma=gamma),
            "speedup",
            *sides,
            fewest([small.clusters, large.clusters]),
        )
        for small, large in extremes(view.drafted, "batch_size")
        for gamma in shared_gammas(small, large)
        if (sides := _sides(small, large, gamma))
    ]
    sizes = sorted({one.setting.batch_size for one in view.drafted})
    lacking = "no drafter has a speedup at two batch sizes"
    if len(sizes) == 1:
        lacking = f"one batch size only ({sizes[0]})"
    return every(found, f"{lacking}; measure with --batch-size 1,8")


@claim(
    "ngram-wins-on-copying",
    "Prompt lookup (ngram) wins on tasks that copy their prompt, not in chat",
    "Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding; Li et al. 2024 (EAGLE-2), "
    "arXiv 2406.16858, table 1",
)
def ngram_wins_on_copying(view: View) -> Answer:
    """A speedup above 1 at some gamma on tasks that copy, and at none in chat."""
    lookups = [one for one in view.drafted if one.kind == "ngram"]
    copying = [found for one in lookups for found in _against_plain(one, COPYING, wins=True)]
    chat = [found for one in lookups for found in _against_plain(one, CHAT, wins=False)]
    lacking = "it takes speedups of ngram on {} (--drafter ngram --task summarization,chat)"
    return both(
        {
            "copying": some(copying, lacking.format("summarization or rag")),
            "chat": every(chat, lacking.format("chat")),
        }
    )


def _shorter_against_longer(
    view: View, one: Drafted, shorter: GammaFit, longer: GammaFit
) -> Evidence:
    left, right = (
        Side(f"γ = {point.gamma}", point.speedup or 0.0, point.speedup_ci)
        for point in (shorter, longer)
    )
    if not one.has_rounds or one.setting.batch_size > 1:
        return ratios(one.where(), "speedup", left, right, one.clusters)
    own, other = (
        view.sums(one, row_seconds, column("num_emitted"), [point.gamma])
        for point in (longer, shorter)
    )
    interval = paired_ratio_of_ratios(*paired(own, other).T)  # seconds per token, longer/shorter
    if interval is None:
        return Evidence(one.where(), "speedup", (left, right))
    ends, scatter = interval.ends, one.fit.scatter
    if scatter is not None:
        cells = 1.0 / shorter.num_cells + 1.0 / longer.num_cells
        ends = scatter.widened(interval.estimate, ends, interval.clusters, cells)
    return by_ratio(
        one.where(), "speedup", (left, right), interval.estimate, ends, interval.clusters
    )


def _against_plain(one: Drafted, tasks: Sequence[str], *, wins: bool) -> list[Evidence]:
    """Speedups of one drafter on some tasks: above 1 for the claim or, without ``wins``, below 1.

    One inside the noise floor says nothing, whatever its interval.
    """
    found = []
    for gamma, point in one.points.items() if one.setting.task in tasks else ():
        if not point.speedup:
            continue
        side = Side("", point.speedup, point.speedup_ci)
        margin = ends = None
        term = Term.log(1.0 if wins else -1.0, point.speedup, point.speedup_ci or (0.0, 0.0))
        if term and not within_noise(point.speedup, point.noise_floor):
            margin, ends = weighted_sum([term])
        where = one.where(gamma=gamma)
        found.append(Evidence(where, "speedup", (side,), margin, ends, clusters=one.clusters))
    return found


def _sides(small: Drafted, large: Drafted, gamma: int) -> tuple[Side, Side] | None:
    """Both speedups at one gamma; None where one is not known."""
    first, second = (_side(one, gamma) for one in (small, large))
    return (first, second) if first and second else None


def _side(one: Drafted, gamma: int) -> Side | None:
    point = one.points[gamma]
    label = f"batch {one.setting.batch_size}"
    return Side(label, point.speedup, point.speedup_ci) if point.speedup else None
