"""Claims about acceptance, and what all claims have: a source, a reason where nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.claims import CLAIMS
from specbench.analysis.others.published import load_published
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.analysis.claims.worlds import answer, answers, by_task, by_temperature


def test_every_claim_has_a_name_a_wording_and_a_source() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.wording
        assert any(kind in claim.source for kind in ("arXiv", "no single paper", "quoted"))
        assert claim.name.replace("-", "").isalnum()


def test_quoted_figures_stand_beside_those_of_the_leaderboard() -> None:
    rows = {row.drafter: row for row in load_published().leaderboard}
    ranges = []
    for name in ("draft-model", "medusa", "prompt-lookup"):
        low, high = sorted((rows[name].speedup_a100, rows[name].speedup_rtx3090))
        ranges.append(f"{low:.1f}–{high:.1f}")
    (source,) = (claim.source for claim in CLAIMS if claim.name == "published-ranges")
    assert "{}, {} and {}".format(*ranges) in source


@pytest.mark.parametrize(
    ("cold", "hot", "verdict"),
    [(0.8, 0.5, "held"), (0.5, 0.8, "not held"), (0.7, 0.7, "not decided")],
)
def test_alpha_falls_with_temperature(
    tmp_path: Path, cold: float, hot: float, verdict: str
) -> None:
    options = {"temperatures": (0.0, 0.5, 1.0), "gammas": (2, 4)}
    found = answer("alpha-falls-with-temperature", tmp_path, by_temperature(cold, hot), **options)
    assert found.verdict == verdict
    (evidence,) = found.evidence  # the coldest against the hottest
    assert [side.label for side in evidence.sides] == ["T = 0", "T = 1"]
    assert evidence.where == "ngram (code, batch 1)"
    for side, alpha in zip(evidence.sides, (cold, hot), strict=True):
        assert side.interval is not None
        assert side.interval[0] < alpha < side.interval[1]


def test_what_is_lacking_is_named(tmp_path: Path) -> None:
    found = answers(simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.7, 0.02)}))
    lacking = {name: a.reason for name, a in found.items() if a.verdict == "not measured"}
    assert "two temperatures" in lacking["alpha-falls-with-temperature"]
    assert "one batch size only (1)" in lacking["gain-shrinks-with-batch"]
    assert "on story" in lacking["predictable-text-accepts-more"]
    assert "as a tree" in lacking["tree-commits-three-or-more"]
    assert "no Medusa heads" in lacking["medusa-heads-are-small"]
    assert "summarization or rag" in lacking["ngram-wins-on-copying"]
    assert all(not found[name].evidence for name in lacking)
    for name, reason in lacking.items():
        assert "--" in reason, f"{name} does not say what to run"


@pytest.mark.parametrize(
    ("alphas", "verdict"),
    [
        ({"code": 0.85, "story": 0.55}, "held"),
        ({"code": 0.5, "story": 0.8}, "not held"),
        ({"code": 0.7, "story": 0.7}, "not decided"),
    ],
)
def test_code_accepts_more_than_fiction(
    tmp_path: Path, alphas: dict[str, float], verdict: str
) -> None:
    name = "predictable-text-accepts-more"
    assert answer(name, tmp_path, by_task(**alphas), tasks=tuple(alphas)).verdict == verdict


@pytest.mark.parametrize(
    ("tree", "chain", "verdict", "tokens"),
    [
        (0.85, 0.5, "held", "held"),
        (0.3, 0.8, "not held", "not held"),
        (0.6, 0.6, "not decided", ""),
    ],
)
def test_trees(tmp_path: Path, tree: float, chain: float, verdict: str, tokens: str) -> None:
    drafters = {
        "eagle:x": SimulatedDrafter(chain, 0.05),
        "eagle:x,tree=24,topk=4": SimulatedDrafter(tree, 0.05, nodes=23),
    }
    found = answers(simulate_run(tmp_path / "run", drafters, gammas=(1, 5)))
    long = found["tree-commits-three-or-more"]
    assert long.verdict == verdict
    (evidence,) = long.evidence  # a draft of one token can't commit three
    assert evidence.where.startswith("eagle:x,tree=24,topk=4 γ = 5")
    if tokens:
        assert found["tree-commits-3-to-5"].verdict == tokens


def test_one_prompt_decides_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    options = {"tasks": ("code", "story"), "temperatures": (0.0, 1.0), "prompts": 1}
    found = answers(simulate_run(tmp_path / "run", by_temperature(0.9, 0.1), **options))
    assert found["alpha-falls-with-temperature"].verdict == "not decided"
    assert found["predictable-text-accepts-more"].verdict == "not decided"
    without = simulate_run(tmp_path / "bare", by_temperature(0.9, 0.1), baseline=False)
    assert answers(without)["longer-is-not-always-better"].verdict == "not measured"
