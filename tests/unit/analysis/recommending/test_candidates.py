from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specbench.analysis.fitted import GroupFit
from specbench.analysis.recommending.candidates import Candidate, Field, field_of
from specbench.analysis.recommending.choice import (
    Choice,
    Sureness,
    against,
    choose,
    preferred,
    sureness,
)
from specbench.analysis.recommending.run_speeds import speeds_of
from specbench.theory.intervals import paired_ratio_of_ratios
from specbench.theory.scatter import Scatter
from tests.choice_worlds import Drafter, World, point_of

GOOD = Drafter(0.7, c=0.05)


def field(groups: list[GroupFit], scatter: bool = True) -> Field:
    speeds, cells = speeds_of(groups)
    return field_of(groups, speeds, cells if scatter else {}, max_gamma=16)


def groups(drafters: dict[str, Drafter], gammas: tuple[int, ...], seed: int = 0) -> list[GroupFit]:
    return World().setting("code", drafters, gammas, np.random.default_rng(seed))


def test_one_gamma_has_the_interval_of_paired_conversations() -> None:
    (group,) = groups({"x": GOOD}, (1,))
    own, plain = group.evidence.times[1], group.evidence.plain
    accepted = group.evidence.sample[1].accepted[:, 0]
    uncut = {1: replace(group.evidence.tokens[1], emitted=own.rounds + accepted)}
    endless = replace(group, evidence=replace(group.evidence, output=1e12, tokens=uncut))
    expected = paired_ratio_of_ratios(
        plain.seconds[:20], plain.steps[:20], own.seconds[:20], (own.rounds + accepted)[:20]
    )
    assert expected is not None
    few = _first(endless, 20)  # below the bootstrap's number
    (found,) = field([few], scatter=False).candidates
    assert found.speedup == pytest.approx(expected.estimate)
    assert found.ci == pytest.approx(expected.ends, rel=0.01)


def _first(group: GroupFit, count: int) -> GroupFit:
    """A group with its first conversations only."""
    evidence: Any = group.evidence
    times, counts, tokens = evidence.times[1], evidence.sample[1], evidence.tokens[1]

    def cut(part: Any) -> Any:
        return replace(part, **{name: value[:count] for name, value in vars(part).items()})

    return replace(
        group,
        evidence=replace(
            evidence,
            times={1: cut(times)},
            sample={1: cut(counts)},
            tokens={1: cut(tokens)},
            plain=cut(evidence.plain),
        ),
    )


def test_cells_that_differ_make_every_interval_wider() -> None:
    found = groups({"x": GOOD}, (1, 2, 4))
    sure, unsure = field(found, scatter=False), field(found)
    for one, other in zip(sure.candidates, unsure.candidates, strict=True):
        assert one.speedup == other.speedup
        assert other.ci[0] < one.ci[0] < one.ci[1] < other.ci[1]
        assert other.bound < one.bound


def test_a_drafter_seen_twice_costs_nothing_and_others_do() -> None:
    (group,) = groups({"x": GOOD}, (1, 4))
    twin = replace(group, key=group.key._replace(drafter="y"))
    alone, twins = field([group], scatter=False), field([group, twin], scatter=False)
    for place, candidate in enumerate(alone.candidates):
        assert twins.candidates[place].bound == pytest.approx(candidate.bound, rel=0.002)
    many = [one for seed in range(12) for one in World().setting(
        f"task {seed}", {"x": GOOD}, (1, 4), np.random.default_rng(seed))]  # fmt: skip
    assert (
        field([group, *many], scatter=False).candidates[0].bound < 0.99 * alone.candidates[0].bound
    )


def test_synthetic_drafters_do_not_make_bounds_wider() -> None:
    (group,) = groups({"x": GOOD}, (1, 2, 4))
    others = groups({f"synthetic:0.{n}": GOOD for n in range(1, 9)}, (1, 2, 4), seed=1)
    alone, beside = field([group], scatter=False), field([group, *others], scatter=False)
    for place, one in enumerate(alone.candidates):
        assert beside.candidates[place].bound == pytest.approx(one.bound, rel=0.001)
    assert all(c.bound is None for c in beside.candidates if c.group.synthetic)


def test_a_coin_says_nothing_of_how_much_conversations_differ() -> None:
    """What is the same in all conversations makes no other task's few conversations seem sure."""
    world, steady = World(), Drafter(0.7, spread=0.0, c=0.05)
    real, coins = (
        [
            one
            for seed, task in enumerate(("code", "chat"))
            for one in world.setting(task, drafters, (1, 2, 4), np.random.default_rng(seed))
        ]
        for drafters in ({"x": GOOD}, {f"synthetic:0.{n}": steady for n in range(1, 9)})
    )
    in_one_task = [group for group in coins if group.key.setting.task == "chat"]
    alone, beside = (field(found, scatter=False) for found in (real, real + in_one_task))
    for place, one in enumerate(alone.candidates):
        assert beside.candidates[place].bound == pytest.approx(one.bound, rel=0.001)
    assert all(c.ci is not None for c in field(in_one_task, scatter=False).candidates if c.gamma)


def test_drafters_share_their_conversations_draws() -> None:
    """In every resample all drafters meet the same conversations, so twins never differ."""
    (group,) = groups({"x": GOOD}, (1, 2, 4))
    twin = replace(group, key=group.key._replace(drafter="y"))
    found = field([group, twin], scatter=False).candidates
    for one, other in zip(found[:4], found[4:], strict=True):
        assert one.logs.std() > 0.001
        assert (one.logs == other.logs).all()


def test_the_same_run_gives_the_same_answer() -> None:
    found = groups({"x": GOOD}, (1, 2, 4))
    first, again = field(found), field(found)
    for one, other in zip(first.candidates, again.candidates, strict=True):
        assert (one.bound, one.ci) == (other.bound, other.ci)
        assert (one.logs == other.logs).all()


def candidate(
    gamma: int, speedup: float, logs: Any = None, bound: float | None = 1.1, **known: Any
) -> Candidate:
    (group,) = groups({known.pop("drafter", "x"): GOOD}, (1,))
    drawn = np.full(1000, np.log(speedup)) if logs is None else logs
    point = replace(point_of(gamma, speedup, known.pop("floor", 0.01)), **known)
    ends = (0.9 * speedup, 1.1 * speedup)
    return Candidate(group, gamma, speedup, ends, bound, (point,), lambda: drawn)


def spread(speedup: float, deviation: float) -> Any:
    return np.log(speedup) + np.random.default_rng(0).normal(0.0, deviation, 1000)


def test_a_gain_that_is_neither_shown_nor_ruled_out_is_undecided() -> None:
    """Whatever the fit is: what counts is how often plain decoding is as good, and what is lost."""
    for logs in (spread(1.5, 0.1), spread(1.5, 0.5)):
        choice = choose([candidate(4, 1.5, logs, bound=0.9)])
        assert choice.wanting.startswith("a gain is neither shown nor ruled out (more ")
        assert not choice.decided
    assert choose([candidate(4, 0.95, spread(0.95, 0.1), bound=0.9)]).decided  # plain is as good
    assert choose([candidate(4, 1.02, spread(1.02, 0.01), bound=0.9)]).decided  # little is lost
    assert not choose([candidate(4, 1.04, spread(1.04, 0.01), bound=0.9)]).decided
    assert choose([candidate(4, 1.5, spread(1.5, 0.1), 0.9, lossless="DIVERGED")]).decided


def test_an_interval_that_ends_below_a_gain_needs_no_more_prompts() -> None:
    few = candidate(4, 0.95, spread(0.95, 0.1), bound=0.8)
    few = replace(few, group=replace(few.group, num_prompts=3))
    assert choose([few]).wanting == "too few prompts to tell (more --prompts)"
    assert choose([replace(few, ci=(0.9, 1.005))]).decided
    for speedup in (1.5, 0.95):
        without = replace(candidate(4, speedup, spread(speedup, 0.1), bound=None), ci=None)
        assert choose([without]).wanting.startswith("too few prompts")


def test_imported_means_are_not_too_few_prompts() -> None:
    found = replace(candidate(4, 2.0, bound=None), ci=None)
    found = replace(found, group=replace(found.group, num_prompts=0, imported_from="sglang"))
    choice = choose([found])
    assert choice.against.endswith("a speedup of 2.00 has no interval")
    assert choice.wanting.startswith("its source has no more than means")


def test_what_diverged_decides_nothing() -> None:
    """Its speedup means nothing: neither that it is the best nor what is lost without it."""
    fine, wrong = candidate(2, 1.5), candidate(4, 3.0, lossless="DIVERGED")
    assert sureness(fine, [fine, wrong]) == Sureness(1.0, 1.0, 0.0)
    hopeful = candidate(2, 1.2, spread(1.2, 0.1), bound=0.9)
    assert choose([hopeful, wrong]).closest == hopeful
    assert not choose([hopeful, wrong]).decided


def test_what_diverged_widens_no_bound() -> None:
    (group,) = groups({"x": GOOD}, (1, 2, 4))
    others = groups({f"y{n}": GOOD for n in range(8)}, (1, 2, 4), seed=1)
    wrong = [
        replace(one, points=tuple(replace(p, lossless="DIVERGED") for p in one.points))
        for one in others
    ]
    alone, beside = field([group], scatter=False), field([group, *wrong], scatter=False)
    for place, one in enumerate(alone.candidates):
        assert beside.candidates[place].bound == pytest.approx(one.bound, rel=0.001)


@pytest.mark.parametrize(
    ("freedom", "more"),
    [(1.0, "values of --gamma, or --repeats"), (9.0, "--prompts, or --repeats")],
)
def test_what_to_measure_more_of_depends_on_what_is_unsure(freedom: float, more: str) -> None:
    found = candidate(4, 1.5, spread(1.5, 0.1), bound=0.9)
    found = replace(found, group=replace(found.group, scatter=Scatter(0.01, freedom)))
    assert more in choose([found]).wanting


def test_within_a_percent_the_shorter_draft_is_preferred() -> None:
    assert preferred([candidate(4, 1.5), candidate(2, 1.486)]).gamma == 2
    assert preferred([candidate(4, 1.5), candidate(2, 1.484)]).gamma == 4
    assert preferred([candidate(8, 1.5), candidate(2, 1.4), candidate(3, 1.49)]).gamma == 3


def test_what_merely_seems_as_good_is_not_preferred() -> None:
    wide = np.log(1.49) + np.random.default_rng(0).normal(0.0, 0.01, 1000)
    assert preferred([candidate(4, 1.5), candidate(2, 1.49, wide)]).gamma == 4
    narrow = np.log(1.49) + np.random.default_rng(0).normal(0.0, 0.001, 1000)
    assert preferred([candidate(4, 1.5), candidate(2, 1.49, narrow)]).gamma == 2


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"drafter": "synthetic:0.9"}, "calibrate"),
        ({"lossless": "DIVERGED"}, "DIVERGED"),
        ({"bound": None}, "no interval"),
        ({"bound": 0.99}, "does not clear 1"),
        ({"floor": 0.6}, "noise floor of ±60.0%"),
    ],
)
def test_what_speaks_against_a_candidate(known: dict[str, Any], says: str) -> None:
    assert against(candidate(4, 1.5)) == ""
    assert says in against(candidate(4, 1.5, **known))
    assert choose([candidate(4, 1.5, **known)]).gamma == 0


def test_the_best_of_what_counts_wins_not_the_best_of_all() -> None:
    chosen = choose([candidate(4, 1.9, bound=0.9), candidate(2, 1.3)])
    assert (chosen.gamma, chosen.speedup) == (2, 1.3)


def test_how_sure_a_choice_is() -> None:
    logs = np.repeat(np.log([1.2, 1.6]), 500)
    options = [candidate(2, 1.4, logs), candidate(4, 1.5)]
    sure = sureness(options[1], options)
    assert sure is not None
    assert (sure.best, sure.near_best) == (0.5, 0.5)
    assert sure.loss == pytest.approx(0.5 * (1.6 / 1.5 - 1))
    plain = sureness(None, options)
    assert plain is not None
    assert plain.best == 0.0
    assert plain.loss == pytest.approx(0.5 * (1.5 - 1) + 0.5 * (1.6 - 1))
    unknown = candidate(8, 2.0, np.full(1000, np.nan))
    assert sureness(options[1], [*options, unknown]) == sure


def test_nothing_to_choose_from() -> None:
    assert choose([candidate(2, 1.5, drafter="synthetic:0.9")]) == Choice(
        None,
        None,
        "only synthetic drafters, which calibrate the instrument and are never recommended",
    )
