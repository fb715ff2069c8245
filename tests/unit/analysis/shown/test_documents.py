from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import RunFit
from specbench.analysis.recommending import recommend
from specbench.analysis.recommending.document import optimal_document, optimal_rows
from specbench.analysis.shown.documents import fit_document, fit_rows
from specbench.analysis.shown.frame import points_frame
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFit:
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        {"ngram": SimulatedDrafter(0.7, 0.02), "model:x": SimulatedDrafter(0.8, 0.1)},
        gammas=(1, 4),
        temperatures=(0.0, 1.0),
        failed=[("model:x", 4)],
        target="some/target",
    )
    return fit_run(load_run(folder))


def test_the_optimal_document_has_the_contract_s_fields(run: RunFit) -> None:
    document = json.loads(json.dumps(optimal_document(recommend(run, 6)), allow_nan=False))
    assert set(document) >= {"groups", "policy"}
    assert len(document["groups"]) == 4
    for group in document["groups"]:
        assert set(group) >= {
            "task",
            "temperature",
            "batch_size",
            "drafter",
            "alpha",
            "alpha_ci",
            "cost",
            "cost_ci",
            "best",
            "curve",
        }
        assert set(group["best"]) >= {"gamma", "speedup"}
        assert [point["gamma"] for point in group["curve"]] == list(range(7))
        for point in group["curve"]:
            assert set(point) >= {"gamma", "tokens_per_round", "speedup"}
    assert [(p["task"], p["temperature"], p["batch_size"]) for p in document["policy"]] == [
        ("code", 0.0, 1),
        ("code", 1.0, 1),
    ]
    assert all(p["drafter"] in ("ngram", "model:x") and p["gamma"] > 0 for p in document["policy"])


def test_rows_agree_with_the_documents(run: RunFit) -> None:
    given = recommend(run, 6)
    rows = optimal_rows(given)
    assert len(rows) == 4 * 7
    recommended = {
        (row["temperature"], row["drafter"], row["gamma"]) for row in rows if row["recommended"]
    }
    assert recommended == {
        (decision.setting.temperature, decision.drafter, decision.choice.gamma)
        for decision in given.decisions
    }
    for row, group in zip(fit_rows(run)[:1], fit_document(run)["groups"][:1], strict=True):
        assert row["fit_alpha"] == group["alpha"]
        assert [row["fit_alpha_low"], row["fit_alpha_high"]] == group["alpha_ci"]
        point = group["points"][0]
        assert [row["speedup_low"], row["speedup_high"]] == point["speedup_ci"]
        assert row["extended"] == point["extended"]
    assert len({tuple(row) for row in fit_rows(run)}) == 1  # one header fits all rows


def test_the_fit_document_names_what_failed(run: RunFit) -> None:
    document = json.loads(json.dumps(fit_document(run), allow_nan=False))
    assert [cell["error"] for cell in document["failed"]] == ["simulated failure"] * 2
    assert document["target"] == "some/target"
    assert any("failed" in warning for warning in document["warnings"])


def test_the_frame_has_a_row_per_measured_gamma(run: RunFit) -> None:
    frame = points_frame(run)
    assert len(frame) == 6  # two temperatures, ngram at 1 and 4, model:x at 1
    row = frame.iloc[0]
    group = run.groups[0]
    point = group.points[0]
    assert (row["drafter"], row["gamma"], row["target"]) == (
        group.key.drafter,
        point.gamma,
        "some/target",
    )
    assert (row["alpha_low"], row["alpha_high"]) == point.alpha_ci
    assert row["fit_c"] == group.c
    assert set(points_frame(run, "other")["run"]) == {"other"}


def test_trees_are_null_where_only_a_chain_has_a_number(tmp_path: Path) -> None:
    drafters = {
        "eagle:x,tree=24": SimulatedDrafter(0.8, 0.05, nodes=23),
        "ngram": SimulatedDrafter(0.7, 0.02),
    }
    fit = fit_run(load_run(simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=6)))
    tree, chain = json.loads(json.dumps(fit_document(fit), allow_nan=False))["groups"]
    assert (tree["draft_form"], chain["draft_form"]) == ("tree", "chain")
    (point,) = tree["points"]
    assert (point["closed_form"], point["error_closed_form"]) == (None, None)
    assert len(point["alpha_by_position"]) == 2
    assert point["expected_tokens"] > 1
    assert chain["points"][0]["closed_form"] > 1
    rows = fit_rows(fit)
    assert [row["draft_form"] for row in rows] == ["tree", "chain"]
    assert json.loads(rows[0]["alpha_by_position"]) == point["alpha_by_position"]
    given = optimal_document(recommend(fit, 4))
    assert [len(group["curve"]) for group in given["groups"]] == [2, 5]
    assert given["policy"][0]["options"] == "--drafter eagle:x,tree=24 --gamma 2"
    frame = points_frame(fit)
    assert list(frame["draft_form"]) == ["tree", "chain"]
    assert list(frame["closed_form"].isna()) == [True, False]
