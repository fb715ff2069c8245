"""Claims about acceptance: temperature, tasks, and trees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from specbench.analysis.claims.evidence import (
    Answer,
    Evidence,
    Side,
    claim,
    each,
    every,
    shares,
    within,
)
from specbench.analysis.claims.view import (
    Drafted,
    View,
    extremes,
    shared_gammas,
    task_pairs,
    without_tree,
)
from specbench.records.conversations import column, ones
from specbench.records.steps import Columns, integers
from specbench.theory.intervals import ratio_interval

PREDICTABLE = ("code", "json")
FICTION = ("story",)
_TREE_TOKENS = (3.0, 5.0)
_LONG = 3  # tokens that a round commits
_ACCEPTED = column("num_accepted")


@claim(
    "alpha-falls-with-temperature",
    "α falls as the temperature rises",
    "Leviathan et al. 2023, arXiv 2211.17192, section 4.2 and table 3",
)
def falls_with_temperature(view: View) -> Answer:
    """The coldest against the hottest, of the same drafter, task, batch size and gammas."""
    pairs = extremes((one for one in view.chains if one.has_rounds), "temperature")
    found = [_alphas(view, cold, hot, "temperature", paired=True) for cold, hot in pairs]
    return every(
        [evidence for evidence in found if evidence],
        "it takes one chain drafter at two temperatures (--temperature 0,1)",
    )


@claim(
    "predictable-text-accepts-more",
    "Code and JSON accept more than open fiction (reported: α above 0.85 against 0.55–0.65)",
    "figures as commonly quoted; of code: Li et al. 2024 (EAGLE), arXiv 2401.15077, section 4.1",
)
def code_and_json_above_fiction(view: View) -> Answer:
    """Each of the predictable tasks against fiction, of the same drafter and setting."""
    chains = [one for one in view.chains if one.has_rounds]
    pairs = task_pairs(chains, PREDICTABLE, FICTION)
    found = [_alphas(view, plain, story, "task", paired=False) for plain, story in pairs]
    return every(
        [evidence for evidence in found if evidence],
        "it takes a chain drafter on code or json and on story (--task code,json,story)",
    )


@claim(
    "tree-commits-three-or-more",
    "A tree raises the share of rounds that commit 3 or more tokens",
    "Miao et al. 2023 (SpecInfer), arXiv 2305.09781, figure 9; Li et al. 2024 (EAGLE), "
    "arXiv 2401.15077, table 5",
)
def tree_raises_long_rounds(view: View) -> Answer:
    """A tree against the chain of the same drafter, as deep, on the same prompts."""
    found = []
    for tree, chain in _trees_and_chains(view):
        for gamma in shared_gammas(tree, chain):
            if gamma >= _LONG - 1:
                sums = [view.sums(one, _is_long, ones, [gamma]) for one in (tree, chain)]
                quantity = f"share of rounds with {_LONG} or more tokens"
                where = tree.where(gamma=gamma)
                labels = ("tree", "chain")
                found.append(shares(where, quantity, labels, *sums, paired=True))
    return every(
        [evidence for evidence in found if evidence],
        "it takes one drafter as a tree and as a chain at one γ of 2 or more "
        "(--drafter eagle:PATH --drafter eagle:PATH,tree=24)",
    )


@claim(
    "tree-commits-3-to-5",
    "A tree commits 3–5 tokens per step",
    "Li et al. 2024: EAGLE, arXiv 2401.15077, section 4.1 (3.2–4.5), and EAGLE-2, "
    "arXiv 2406.16858, section 5.1 (4–5.5)",
)
def tree_commits_three_to_five(view: View) -> Answer:
    """Tokens per round of every tree, at the gamma where they are most."""
    found = []
    for one in view.drafted:
        points = [point for point in one.fit.points if point.tau is not None]
        if one.fit.draft_form != "tree" or not one.has_rounds or not points:
            continue
        best = max(points, key=lambda point: point.tau or 0.0)
        sums = np.array(list(view.sums(one, _ACCEPTED, ones, [best.gamma]).values()))
        interval = ratio_interval(*sums.T, upper=best.gamma)
        ends = (1.0 + interval.low, 1.0 + interval.high) if interval else None
        side = Side("τ", best.tau or 0.0, ends)
        found.append(
            Evidence(
                one.where(gamma=best.gamma),
                "tokens per round",
                (side,),
                supports=within(ends, *_TREE_TOKENS),
            )
        )
    return each(found, "it takes a drafter with trees (--drafter eagle:PATH,tree=24)")


def _alphas(
    view: View, left: Drafted, right: Drafted, field: str, *, paired: bool
) -> Evidence | None:
    gammas = shared_gammas(left, right)
    sums = [view.sums(one, _ACCEPTED, column("num_evaluated"), gammas) for one in (left, right)]
    labels = tuple(_label(one, field) for one in (left, right))
    return shares(left.where(field), "α", (labels[0], labels[1]), *sums, paired=paired)


def _label(one: Drafted, field: str) -> str:
    setting = one.setting
    return setting.task if field == "task" else f"T = {setting.temperature:g}"


def _is_long(rounds: Columns) -> ArrayLike:
    return integers(rounds, "num_accepted") >= _LONG - 1


def _trees_and_chains(view: View) -> Iterator[tuple[Drafted, Drafted]]:
    for tree in view.drafted:
        if tree.fit.draft_form != "tree" or not tree.has_rounds:
            continue
        spec = without_tree(tree.fit.key.drafter)
        for chain in view.chains:
            same = chain.has_rounds and chain.setting == tree.setting
            if same and without_tree(chain.fit.key.drafter) == spec:
                yield tree, chain
