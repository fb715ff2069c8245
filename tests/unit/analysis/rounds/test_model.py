from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.rounds.model import MeasuredRounds, RoundModel, RoundShape, model_of
from specbench.errors import SpecbenchError
from specbench.theory import closed_form
from specbench.theory.acceptance import MonotoneHazard, PerPosition


def full(gamma: int, draft: float, verify: float = 1.0, other: float = 0.0) -> RoundShape:
    """Rounds that always draft gamma tokens."""
    return RoundShape((*[0.0] * gamma, 1.0), draft, verify, other)


@given(alpha=st.floats(0, 1), c=st.floats(0, 0.5), gammas=st.sets(st.integers(1, 12), min_size=1))
def test_full_drafts_at_no_extra_cost_are_the_closed_form(
    alpha: float, c: float, gammas: set[int]
) -> None:
    model = RoundModel(alpha, c, {gamma: full(gamma, gamma * c) for gamma in gammas})
    for point in model.curve(14):
        assert point.tokens_per_round == pytest.approx(
            closed_form.expected_tokens(alpha, point.gamma)
        )
        assert point.speedup == pytest.approx(closed_form.speedup(alpha, point.gamma, c))


def test_golden_value_of_the_closed_form() -> None:
    point = RoundModel(0.8, 0.02, {4: full(4, 0.08)}).at(4)
    assert point.tokens_per_round == pytest.approx(3.3616)
    assert point.speedup == pytest.approx(3.113, abs=5e-4)
    assert point.source == "measured"


def test_short_drafts_give_the_mean_over_their_lengths() -> None:
    half = RoundShape((0.5, 0.0, 0.0, 0.0, 0.5), 0.1, 1.2, 0.05)
    point = RoundModel(0.8, 0.02, {4: half}).at(4)
    assert point.tokens_per_round == pytest.approx((1 + 3.3616) / 2)
    assert point.speedup == pytest.approx((1 + 3.3616) / 2 / 1.35)


def test_between_measured_gammas_everything_is_interpolated() -> None:
    model = RoundModel(0.7, 0.1, {2: full(2, 0.2, 1.1, 0.02), 6: full(6, 0.6, 1.5, 0.06)})
    point = model.at(3)
    assert point.source == "interpolated"
    assert point.tokens_per_round == pytest.approx(closed_form.expected_tokens(0.7, 3))
    assert point.speedup == pytest.approx(point.tokens_per_round / (0.3 + 1.2 + 0.03))


def test_below_the_smallest_measured_gamma_costs_lead_to_a_plain_step() -> None:
    model = RoundModel(0.7, 0.1, {4: full(4, 0.4, 1.4, 0.08)})
    point = model.at(1)
    assert point.source == "interpolated"
    assert point.speedup == pytest.approx(1.7 / (0.1 + 1.1 + 0.08))


def test_beyond_the_largest_measured_gamma_the_closed_form_answers_and_says_so() -> None:
    model = RoundModel(0.7, 0.1, {4: full(4, 0.4, 1.4, 0.08)})
    sources = {point.gamma: point.source for point in model.curve(6)}
    assert sources == {
        0: "measured",
        1: "interpolated",
        2: "interpolated",
        3: "interpolated",
        4: "measured",
        5: "extrapolated",
        6: "extrapolated",
    }
    assert model.at(6).speedup == pytest.approx(closed_form.speedup(0.7, 6, 0.1))


def test_capping_keeps_all_rounds() -> None:
    shape = RoundShape((0.1, 0.2, 0.3, 0.4), 0.0, 1.0, 0.0)
    assert shape.capped(1) == pytest.approx((0.1, 0.9))
    assert shape.capped(3) == pytest.approx((0.1, 0.2, 0.3, 0.4))
    assert shape.capped(5) == pytest.approx((0.1, 0.2, 0.3, 0.0, 0.0, 0.4))


def test_gamma_0_is_plain_decoding_and_a_negative_one_is_refused() -> None:
    model = RoundModel(0.7, 0.1, {4: full(4, 0.4)})
    assert (model.at(0).tokens_per_round, model.at(0).speedup) == (1.0, 1.0)
    with pytest.raises(SpecbenchError) as caught:
        model.at(-1)
    assert "-1" in str(caught.value)


def test_what_has_no_alpha_answers_where_it_was_measured_and_nowhere_else() -> None:
    shapes = {2: full(2, 0.2, 1.3, 0.5), 6: full(6, 0.6, 1.5, 0.4)}
    model = MeasuredRounds({2: 2.2, 6: 3.0}, shapes)
    assert [(p.gamma, p.source) for p in model.curve(16)] == [
        (gamma, "measured") for gamma in (0, 2, 6)
    ]
    assert [p.speedup for p in model.curve(5)] == pytest.approx([1.0, 2.2 / 2.0])
    assert model.at(4) is None
    assert model.at(7) is None


def test_tokens_come_from_the_acceptance_that_fits() -> None:
    falling = MonotoneHazard((0.8, 0.5, 0.2))
    model = RoundModel(0.6, 0.1, {2: full(2, 0.2), 4: full(4, 0.4)}, falling)
    for gamma, source in (
        (2, "measured"),
        (3, "interpolated"),
        (4, "measured"),
        (6, "extrapolated"),
    ):
        point = model.at(gamma)
        assert (point.tokens_per_round, point.source) == (
            pytest.approx(falling.expected_tokens(gamma)),
            source,
        )
    assert model.at(6).speedup == pytest.approx(falling.expected_tokens(6) / 1.6)


def test_positions_that_nobody_measured_give_no_tokens() -> None:
    model = RoundModel(0.6, 0.1, {2: full(2, 0.2)}, PerPosition((0.8, 0.5)))
    assert [point.tokens_per_round for point in model.curve(4)] == pytest.approx(
        [1.0, 1.8, 2.2, 2.2, 2.2]
    )


def test_only_a_chain_gets_a_model_of_one_alpha() -> None:
    shapes, survival = {2: full(2, 0.2), 4: full(4, 0.4)}, {2: [0.5, 0.25], 4: [0.5, 0.5, 0.5, 0.0]}
    assert isinstance(model_of("chain", 0.7, 0.1, survival, shapes), RoundModel)
    for form in ("tree", "adaptive"):
        model = model_of(form, 0.7, 0.1, survival, shapes)  # type: ignore[arg-type]
        assert [point.tokens_per_round for point in model.curve(16)] == [1.0, 1.75, 2.5]
