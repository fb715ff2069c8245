"""Claims about speed: draft length, batch size, copying, waiting, short outputs, quoted figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.claims import Side
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter
from tests.unit.analysis.claims.worlds import answer, by_task


@pytest.mark.parametrize(
    ("alpha", "c", "prompts", "verdict"),
    [(0.95, 0.01, 12, "not held"), (0.3, 0.3, 12, "held"), (0.3, 0.3, 1, "not decided")],
)
def test_longer_is_not_always_better(
    tmp_path: Path, alpha: float, c: float, prompts: int, verdict: str
) -> None:
    drafters = {"ngram": SimulatedDrafter(alpha, c)}
    found = answer(
        "longer-is-not-always-better", tmp_path, drafters, gammas=(1, 4, 8), prompts=prompts
    )
    assert found.verdict == verdict
    assert len(found.evidence) == 2


@pytest.mark.parametrize(("slope", "verdict"), [(0.2, "held"), (-0.12, "not held")])
def test_gain_shrinks_with_batch(tmp_path: Path, slope: float, verdict: str) -> None:
    found = answer(
        "gain-shrinks-with-batch",
        tmp_path,
        {"ngram": SimulatedDrafter(0.8, 0.02)},
        gammas=(4,),
        batch_sizes=(1, 4),
        prompts=24,
        v=lambda _, batch: 1.0 + slope * (batch - 1),
    )
    assert found.verdict == verdict
    assert [side.label for side in found.evidence[0].sides] == ["batch 1", "batch 4"]


@pytest.mark.parametrize(
    ("alphas", "verdict"),
    [
        ({"summarization": 0.8, "chat": 0.2}, "held"),
        ({"rag": 0.2, "chat": 0.2}, "not held"),  # wins nowhere
        ({"rag": 0.8, "chat": 0.8}, "not held"),  # wins in chat too
        ({"code": 0.8, "chat": 0.2}, "not measured"),
        ({"rag": 0.8}, "not measured"),
    ],
)
def test_ngram_wins_on_copying(tmp_path: Path, alphas: dict[str, float], verdict: str) -> None:
    options = {"tasks": tuple(alphas), "gammas": (1, 2)}
    name, drafters = "ngram-wins-on-copying", by_task(0.3, **alphas)
    assert answer(name, tmp_path, drafters, **options).verdict == verdict


def test_a_speedup_inside_the_noise_floor_wins_nothing(tmp_path: Path) -> None:
    drafters = by_task(0.3, rag=0.8, chat=0.2)
    options = {"tasks": ("rag", "chat"), "gammas": (2,), "drift": 0.8}
    found = answer("ngram-wins-on-copying", tmp_path, drafters, **options)
    assert found.verdict == "not decided"


@pytest.mark.parametrize(("prefill", "verdict"), [(1.0, "held"), (1.3, "held"), (0.7, "not held")])
def test_time_to_first_token(tmp_path: Path, prefill: float, verdict: str) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02, prefill=prefill)}
    found = answer("first-token-not-faster", tmp_path, drafters)
    assert found.verdict == verdict
    (evidence,) = found.evidence
    assert [side.value for side in evidence.sides] == pytest.approx([0.1 * prefill, 0.1])
    assert evidence.compared == Side("ratio", pytest.approx(prefill), (pytest.approx(prefill),) * 2)
    assert ("timed once for both" in evidence.quantity) == (prefill == 1.0)


@pytest.mark.parametrize(
    ("alpha", "c", "prefill", "verdict"),
    [
        (0.7, 0.02, 1.0, "held"),
        (1.0, 0.02, 0.0, "not held"),  # what it saves before the first round tells early
        (0.0, 1.0, 1.0, "not measured"),  # loses less, which is no gain
    ],
)
def test_short_outputs_gain_less(
    tmp_path: Path, alpha: float, c: float, prefill: float, verdict: str
) -> None:
    drafters = {"ngram": SimulatedDrafter(alpha, c, prefill=prefill)}
    options = {"gammas": (4,), "prompts": 24}
    found = answer("short-outputs-gain-less", tmp_path, drafters, **options)
    assert found.verdict == verdict
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    short = answer("short-outputs-gain-less", tmp_path / "short", drafters, tokens=12)
    assert "16 tokens" in short.reason


@pytest.mark.parametrize(("drafts", "verdict"), [(1.0, "held"), (0.2, "not held")])
def test_alpha_steps(tmp_path: Path, drafts: float, verdict: str) -> None:
    drafters = {
        "synthetic:0.5": SimulatedDrafter(0.5, 0.02),
        "synthetic:0.8": SimulatedDrafter(0.8, 0.02, draft_chance=drafts),
        "synthetic:0.9": SimulatedDrafter(0.9, 0.02),
    }
    found = answer("alpha-steps", tmp_path, drafters, gammas=(4,), prompts=24)
    assert found.verdict == verdict
    assert len(found.evidence[0].sides) == 3
    two = {name: drafters[name] for name in ("synthetic:0.5", "synthetic:0.9")}
    assert answer("alpha-steps", tmp_path / "two", two).verdict == "not measured"


@pytest.mark.parametrize(("c", "verdict"), [(0.13, "held"), (1.0, "not held")])
def test_published_ranges(tmp_path: Path, c: float, verdict: str) -> None:
    drafters = {"model:ORG/NAME": SimulatedDrafter(0.8, c)}
    options = {"gammas": (4,), "tasks": ("code", "chat"), "prompts": 24, "tokens": 128}
    found = answer("published-ranges", tmp_path, drafters, **options)
    assert found.verdict == verdict
    assert found.evidence[0].sides[0].label == "mean of 2 tasks"
    assert "published 1.8–2.4" in found.evidence[0].quantity


def test_a_ratio_is_told_with_its_interval(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.3, 0.3)}
    found = answer("longer-is-not-always-better", tmp_path, drafters, gammas=(1, 8), prompts=24)
    (evidence,) = found.evidence
    assert evidence.compared is not None
    assert evidence.compared.label == "ratio"
    assert evidence.compared.interval is not None
    low, high = evidence.compared.interval
    truth = closed_form.speedup(0.3, 1, 0.3) / closed_form.speedup(0.3, 8, 0.3)
    assert low < truth < high
    one, eight = evidence.sides
    assert evidence.compared.value == pytest.approx(one.value / eight.value, rel=0.02)
