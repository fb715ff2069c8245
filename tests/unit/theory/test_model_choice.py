from __future__ import annotations

import numpy as np
import pytest

from specbench.theory.acceptance import MODELS, PerPosition, Sample
from specbench.theory.model_choice import TIE, choose_model, measured_tokens
from tests.acceptance_worlds import (
    DECAY,
    beta_rounds,
    beta_tokens,
    counts_of,
    decaying,
    iid,
    independent_rounds,
    true_tokens,
)
from tests.unit.theory.test_acceptance import rounds_of

GAMMAS = (1, 2, 3, 4, 8)


def test_beta_acceptance_is_predicted_at_a_gamma_not_seen() -> None:
    truth = beta_tokens(0.7, 0.2, 6)
    errors, names = [], []
    for sample in independent_rounds(beta_rounds(0.7, 0.2), 80, 24, 62, GAMMAS, seed=1):
        winner = choose_model(sample).winner
        names.append(winner.name)
        errors.append(abs(winner.expected_tokens(6) / truth - 1))
    assert np.mean(np.array(errors) <= 0.02) >= 0.9
    assert names.count("beta-geometric") >= 72


def test_decaying_acceptance_is_not_taken_for_iid() -> None:
    truth = true_tokens(DECAY)
    for sample in independent_rounds(decaying(), 40, 24, 62, (1, 2, 3, 4, 6, 8), seed=2):
        winner = choose_model(sample).winner
        assert winner.name != "iid"
        assert winner.expected_tokens(8) == pytest.approx(truth, rel=0.03)


def test_of_equals_the_simplest_wins() -> None:
    sample = rounds_of([0.7]) | rounds_of([0.7] * 3) | rounds_of([0.7] * 6)
    choice = choose_model(sample)
    assert choice.winner.name == "iid"
    assert max(choice.errors.values()) < TIE
    names = [
        choose_model(sample).winner.name
        for sample in independent_rounds(iid(0.7), 40, 24, 62, GAMMAS, seed=3)
    ]
    assert names.count("iid") >= 25


def test_a_model_without_an_answer_is_charged_with_the_worst_one() -> None:
    alphas = [0.5, 0.9, 0.5, 0.9, 0.5, 0.9]  # neither rises nor falls
    sample = {gamma: counts for n in (2, 4, 6) for gamma, counts in rounds_of(alphas[:n]).items()}
    choice = choose_model(sample)
    assert choice.judged_by == "gamma"
    others, truth = {2: sample[2], 4: sample[4]}, true_tokens(alphas)
    assert PerPosition.fit(others).expected_tokens(6) is None
    answers = [model.fit(others).expected_tokens(6) for model in MODELS if model is not PerPosition]
    worst = max(abs(tokens / truth - 1.0) for tokens in answers)
    assert worst > 0.01
    # gammas 2 and 4 it predicts exactly, 6 costs it what it costs the worst of the others
    assert choice.errors["per-position"] == pytest.approx(worst / 3)


def test_one_gamma_is_judged_by_conversations_left_out() -> None:
    for world, name in ((iid(0.7), "iid"), (decaying(), "monotone-hazard")):
        (sample,) = independent_rounds(world, 1, 24, 120, (8,), seed=4)
        choice = choose_model(sample)
        assert (choice.judged_by, choice.winner.name) == ("conversation", name)


def test_too_little_is_not_chosen_from() -> None:
    few = {2: counts_of(["a", "b"], [[5, 2]] * 2, [[9, 5]] * 2)}
    assert choose_model(few) is None
    assert choose_model({}) is None
    assert choose_model({2: counts_of(["a"], [[0, 0]], [[0, 0]])}) is None


def test_short_drafts_do_not_lower_the_measured_tokens() -> None:
    """Of 100 rounds 60 accept the first; 30 of those drafted a second and 15 accept it."""
    sample: Sample = {2: counts_of(["a"], [[60, 15]], [[100, 30]])}
    assert measured_tokens(sample) == (pytest.approx(1 + 0.6 + 0.6 * 0.5), 2)
