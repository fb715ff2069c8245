from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.fit import fit_run
from specbench.analysis.rounds.gap import (
    TERMS,
    Gap,
    MeanGap,
    decompose,
    gap_sentence,
    told_together,
)
from specbench.analysis.rounds.model import RoundModel, RoundShape
from specbench.records.store import load_run
from specbench.theory import closed_form
from specbench.theory.acceptance import MonotoneHazard
from tests.acceptance_worlds import DECAY
from tests.simulate import SimulatedDrafter, simulate_run

COST = st.floats(0.01, 3.0)


def shape(draft: float, verify: float, other: float, gamma: int = 4) -> RoundShape:
    return RoundShape((*[0.0] * gamma, 1.0), draft, verify, other)


@given(
    alpha=st.floats(0.05, 0.95), c=st.floats(0.0, 0.5), draft=COST, verify=COST, other=COST,
    idle=st.floats(0.0, 0.9), cut=st.floats(0.0, 0.3), measured=st.floats(0.2, 5.0),
)  # fmt: skip
def test_terms_add_up_to_the_gap(
    alpha: float, c: float, draft: float, verify: float, other: float,
    idle: float, cut: float, measured: float,
) -> None:  # fmt: skip
    lengths = RoundShape((idle, 0.0, 0.0, 1.0 - idle), draft, verify, other)
    gap = decompose(RoundModel(alpha, c, {3: lengths}), 3, cut, measured)
    whole = math.log(measured / closed_form.speedup(alpha, 3, c))
    assert gap.total == pytest.approx(whole, abs=1e-12)
    assert math.fsum(gap.terms.values()) == pytest.approx(whole, abs=1e-12)
    assert list(gap.terms) == list(TERMS)


def test_what_the_closed_form_has_right_takes_nothing() -> None:
    model = RoundModel(0.8, 0.02, {4: shape(0.08, 1.0, 0.0)})
    gap = decompose(model, 4, 0.0, closed_form.speedup(0.8, 4, 0.02))
    assert all(abs(term) < 1e-12 for term in gap.terms.values())


@pytest.mark.parametrize(
    ("changed", "term"),
    [
        (shape(0.58, 1.0, 0.0), "draft"),
        (shape(0.08, 1.5, 0.0), "verify"),
        (shape(0.08, 1.0, 0.5), "other"),
    ],
)
def test_a_dearer_part_is_charged_to_its_own_term(changed: RoundShape, term: str) -> None:
    model = RoundModel(0.8, 0.02, {4: changed})
    measured = closed_form.expected_tokens(0.8, 4) / 1.58
    gap = decompose(model, 4, 0.0, measured)
    assert gap.terms[term] == pytest.approx(math.log(1.08 / 1.58))
    assert all(abs(other) < 1e-12 for name, other in gap.terms.items() if name != term)


def test_acceptance_short_drafts_and_cuts_have_terms_of_their_own() -> None:
    falling = MonotoneHazard((0.8, 0.4, 0.4, 0.4))
    full = RoundModel(0.7, 0.1, {4: shape(0.4, 1.0, 0.0)}, falling)
    tokens = falling.expected_tokens(4)
    gap = decompose(full, 4, 0.05, tokens / 1.4 * 0.95)
    assert gap.terms["acceptance"] == pytest.approx(
        math.log(tokens / closed_form.expected_tokens(0.7, 4))
    )
    assert gap.terms["cut"] == pytest.approx(math.log(0.95))
    assert gap.terms["rest"] == pytest.approx(0.0, abs=1e-12)
    half = RoundShape((0.5, 0.0, 0.0, 0.0, 0.5), 0.2, 1.0, 0.0)
    gap = decompose(RoundModel(0.7, 0.1, {4: half}), 4, 0.0, 1.0)
    tokens = closed_form.expected_tokens(0.7, 4)
    assert gap.terms["short_drafts"] == pytest.approx(
        math.log((1 + tokens) / 2 / 1.2) - math.log(tokens / 1.4)
    )
    assert gap.terms["draft"] == pytest.approx(0.0, abs=1e-12)


def test_the_sentence_names_the_error_and_what_most_of_it_is() -> None:
    nothing = dict.fromkeys(TERMS, 0.0)
    slow = Gap({**nothing, "verify": -0.2, "other": -0.05, "cut": 0.01})
    assert gap_sentence([slow, slow]) == (
        "Averaged over γ the closed form is optimistic by 27%, the largest term is v > 1."
    )
    fast = Gap({**nothing, "acceptance": 0.2, "other": -0.1})
    assert "pessimistic by 10%" in gap_sentence([fast])
    assert "α not i.i.d." in gap_sentence([fast])
    cheap = Gap({**nothing, "verify": 0.2, "other": -0.1})
    assert gap_sentence([cheap]).endswith("pessimistic by 10%, the largest term is v < 1.")
    assert gap_sentence([Gap(nothing)]) == "Averaged over γ the closed form is right."


def test_gaps_that_err_alike_are_told_together() -> None:
    found = [MeanGap("optimistic", "v > 1", error) for error in (0.214, 0.17, 0.23)]
    assert told_together(found) == "optimistic by 17–23%, the largest term is v > 1"
    assert told_together(found[:1] * 2) == "optimistic by 21%, the largest term is v > 1"
    assert told_together([MeanGap("right", "", 0.001)]) == "right"


def test_at_batch_1_the_rest_is_acceptance_alone(tmp_path: Path) -> None:
    drafters = {"medusa:x": SimulatedDrafter(0.5, 0.02, d0=0.1, alphas=tuple(DECAY))}
    folder = simulate_run(
        tmp_path / "run", drafters, gammas=(2, 8), v=lambda g, _: 1 + 0.05 * g, overhead=0.05
    )
    (group,) = fit_run(load_run(folder)).groups
    for point in group.points:
        assert point.gap is not None
        assert point.gap.total == pytest.approx(
            math.log(point.speedup / point.closed_form), abs=1e-12
        )
        modelled = group.model.at(point.gamma).tokens_per_round
        assert point.gap.terms["rest"] == pytest.approx(math.log(point.tau / modelled), abs=1e-9)
        assert point.gap.terms["verify"] < point.gap.terms["other"] < 0.0
        assert point.gap.terms["cut"] < 0.0
