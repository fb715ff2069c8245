from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.analysis.acceptance.verdict import (
    Acceptance,
    Position,
    judge,
    judge_acceptance,
    sample_of,
)
from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import GroupFit, RunFit
from specbench.analysis.recommending import recommend
from specbench.analysis.recommending.document import optimal_document
from specbench.analysis.rounds.model import RoundModel
from specbench.analysis.shown.documents import fit_document, fit_rows
from specbench.records.store import load_run
from specbench.theory import closed_form
from specbench.theory.acceptance import BetaGeometric, Iid, MonotoneHazard, PerPosition
from specbench.theory.iid_test import IidTest
from specbench.theory.overdispersion import Overdispersion
from tests.acceptance_worlds import DECAY, beta_rounds, iid, independent_rounds, true_tokens
from tests.simulate import SimulatedDrafter, simulate_run


def table(conversations: list[str], rows: list[tuple[int, int, int, int]]) -> tuple[dict, dict]:
    """Rounds of (request, drafted, evaluated, accepted)."""
    names = ("request", "num_drafted", "num_evaluated", "num_accepted")
    rounds = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return rounds, {"conversation": conversations}


def test_rounds_are_counted_by_conversation_and_position() -> None:
    turns = ["b", "a", "b"]  # two turns of one chat
    rounds = [(0, 3, 3, 3), (0, 3, 1, 0), (1, 3, 2, 1), (2, 2, 2, 2), (2, 0, 0, 0), (1, 0, 0, 0)]
    (counts,) = sample_of({3: table(turns, rounds)}).values()
    assert counts.names.tolist() == ["a", "b"]
    assert counts.evaluated.tolist() == [[1, 1, 0], [3, 2, 1]]
    assert counts.accepted.tolist() == [[1, 0, 0], [2, 2, 1]]


def test_conversations_and_gammas_that_never_drafted_are_not_there() -> None:
    raw = {
        1: table(["a"], [(0, 0, 0, 0)]),
        2: table(["a", "b"], [(0, 0, 0, 0), (1, 2, 1, 0)]),
    }
    sample = sample_of(raw)
    assert list(sample) == [2]
    assert sample[2].names.tolist() == ["b"]
    assert judge_acceptance("chain", {1: raw[1]}) is None


def fitted(folder: Path) -> RunFit:
    return fit_run(load_run(folder))


@pytest.fixture(scope="module")
def falling(tmp_path_factory: pytest.TempPathFactory) -> RunFit:
    """Two drafters, acceptance of one falls with depth."""
    drafters = {
        "medusa:x": SimulatedDrafter(0.5, 0.02, alphas=tuple(DECAY)),
        "ngram": SimulatedDrafter(0.7, 0.02),
    }
    folder = tmp_path_factory.mktemp("runs") / "run"
    return fitted(simulate_run(folder, drafters, gammas=(1, 3, 8), prompts=12, tokens=200, seed=3))


def group(run: RunFit, drafter: str) -> GroupFit:
    return next(found for found in run.groups if found.key.drafter == drafter)


def test_falling_acceptance_is_told_and_predicted(falling: RunFit) -> None:
    heads = group(falling, "medusa:x")
    found = heads.acceptance
    assert found is not None
    assert found.rejected
    assert found.model.name == "monotone-hazard"
    assert found.sentence.startswith("Acceptance is not i.i.d. (p < 0.001): it falls with depth")
    assert found.alpha == pytest.approx(heads.alpha)
    assert len(found.positions) >= 6
    assert found.positions[0].alpha_ci is not None
    low, high = found.positions[0].alpha_ci
    assert low < 0.75 < high
    # Predictions use it; the closed form stays the closed form.
    assert isinstance(heads.model, RoundModel)
    assert heads.model.at(8).tokens_per_round == pytest.approx(true_tokens(DECAY), rel=0.05)
    point = heads.points[-1]
    assert point.closed_form == closed_form.speedup(heads.alpha, 8, heads.c)
    assert abs(point.error_extended) < abs(point.error_closed_form)


def test_iid_acceptance_keeps_one_alpha(falling: RunFit) -> None:
    ngram = group(falling, "ngram")
    assert ngram.acceptance is not None
    assert ngram.acceptance.rejected is False
    assert ngram.acceptance.model == Iid(ngram.acceptance.alpha)
    assert "may be i.i.d." in ngram.acceptance.sentence
    assert isinstance(ngram.model, RoundModel)
    assert ngram.model.acceptance is None


def test_documents_carry_the_numbers(falling: RunFit) -> None:
    heads = group(falling, "medusa:x")
    documents = (fit_document(falling), optimal_document(recommend(falling, 4)))
    for document in json.loads(json.dumps(documents, allow_nan=False)):
        found = document["groups"][0]["acceptance"]
        assert found["sentence"] == heads.acceptance.sentence
        assert found["iid_rejected"] is True
        assert found["iid_p_value"] == heads.acceptance.test.p_value
        assert found["model"] == "monotone-hazard"
        assert found["models_judged_by"] == "gamma"
        assert set(found["model_errors"]) == {
            "iid",
            "beta-geometric",
            "monotone-hazard",
            "per-position",
        }
        count = len(found["alpha_by_position"])
        assert len(found["alpha_ci_by_position"]) == len(found["model_alpha_by_position"]) == count
    row = fit_rows(falling)[0]
    assert (row["drafter"], row["acceptance_model"]) == ("medusa:x", "monotone-hazard")
    assert row["iid_p_value"] == heads.acceptance.test.p_value


def test_few_prompts_and_trees_are_not_tested(tmp_path: Path) -> None:
    drafters = {
        "eagle:x,tree=8": SimulatedDrafter(0.8, 0.05, nodes=7),
        "ngram": SimulatedDrafter(0.7, 0.02),
    }
    run = fitted(simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=3))
    assert group(run, "eagle:x,tree=8").acceptance is None
    assert fit_document(run)["groups"][0]["acceptance"] is None
    found = group(run, "ngram").acceptance
    assert found is not None
    assert (found.rejected, found.spread, found.choice) == (None, None, None)
    assert found.sentence == (
        "Whether acceptance is i.i.d. can't be told: 3 conversations, it takes 6; "
        f"predictions use one α of {found.alpha:.2f}."
    )


def test_rounds_of_many_alphas_are_told() -> None:
    (sample,) = independent_rounds(beta_rounds(0.7, 0.25), 1, 12, 100, (1, 2, 4, 8), seed=1)
    found = judge(sample)
    assert found is not None
    assert "it rises with depth from" in found.sentence
    assert isinstance(found.model, BetaGeometric)
    assert found.spread_sentence == ""


def test_one_position_can_not_be_compared() -> None:
    (sample,) = independent_rounds(iid(0.6), 1, 12, 20, (1,), seed=1)
    found = judge(sample)
    assert found is not None
    assert "only one position" in found.sentence


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_no_position_has_both_outcomes(alpha: float) -> None:
    (sample,) = independent_rounds(iid(alpha), 1, 12, 20, (4,), seed=1)
    found = judge(sample)
    assert found is not None
    assert "no position was evaluated often enough" in found.sentence


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            Iid(0.6),
            "positions 1 to 2 it is 0.50 to 0.70, but no other fitted model predicts better",
        ),
        (MonotoneHazard((0.7, 0.5)), "it falls with depth from 0.70 to 0.50"),
        (PerPosition((0.7, 0.5)), "neither rising nor falling; predictions use an α for each"),
    ],
)
def test_every_winner_has_its_words(model: Iid, says: str) -> None:
    found = judge(next(independent_rounds(iid(0.6), 1, 12, 20, (2,), seed=1)))
    assert found is not None
    positions = tuple(Position(alpha, None, count) for alpha, count in ((0.7, 100), (0.5, 70)))
    verdict = Acceptance(
        0.62, positions, IidTest(9.0, 0.003, 12, 2), Overdispersion(0.1, 0.05, 0.2, 12), None, model
    )
    assert verdict.sentence.startswith("Acceptance is not i.i.d. (p = 0.003): ")
    assert says in verdict.sentence
    assert "standard deviation of 0.10 (0.05–0.20)" in verdict.spread_sentence
