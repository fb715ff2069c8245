from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.analysis.claims import CLAIMS, Answer, Evidence, Side, check_claims
from specbench.analysis.claims.evidence import both, each, every, some, within
from specbench.analysis.fit import fit_run
from specbench.analysis.published import load_published
from specbench.records.store import load_run
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter, simulate_run

COST = {"weight_bytes": 1e9, "kv_bytes_per_token": 1e4}


def answers(folder: Path) -> dict[str, Answer]:
    run = load_run(folder)
    return {one.claim.name: one.answer for one in check_claims(run, fit_run(run))}


def answer(
    name: str, folder: Path, drafters: Mapping[str, SimulatedDrafter], **options: Any
) -> Answer:
    return answers(simulate_run(folder / "run", drafters, **options))[name]


def by_temperature(cold: float, hot: float) -> dict[str, SimulatedDrafter]:
    return {"ngram": SimulatedDrafter(lambda _, t: hot if t else cold, 0.02)}


def by_task(c: float = 0.02, **alphas: float) -> dict[str, SimulatedDrafter]:
    return {"ngram": SimulatedDrafter(lambda task, _: alphas[task], c)}


def test_every_claim_has_a_name_a_wording_and_a_source() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) == 16
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


def test_what_a_drafter_weighs(tmp_path: Path) -> None:
    drafters = {
        "medusa:x": SimulatedDrafter(0.6, 0.01, weight_bytes=20_000_000),
        "model:ORG/SMALL": SimulatedDrafter(0.7, 0.02, weight_bytes=10_000_000),
        "ngram": SimulatedDrafter(0.5, 0.0),
    }
    found = answers(simulate_run(tmp_path / "run", drafters, cost=COST, prompts=24))
    assert found["medusa-heads-are-small"].verdict == "held"
    assert found["medusa-heads-are-small"].evidence[0].sides[0].value == pytest.approx(0.02)
    memory = found["drafter-memory-costs-concurrency"]
    assert memory.verdict == "held"
    assert [evidence.where for evidence in memory.evidence] == ["medusa:x", "model:ORG/SMALL"]
    rows = memory.evidence[0].sides[0].value  # sequences end at 100 tokens and an output of 64
    assert rows == pytest.approx(20_000_000 / (1e4 * (100 + 64)))
    assert found["hundredth-of-the-size"].verdict == "held"
    heavy = {
        "medusa:x": SimulatedDrafter(0.6, 0.01, weight_bytes=100_000_000),
        "model:ORG/DEAR": SimulatedDrafter(0.7, 0.2, weight_bytes=10_000_000),
        "model:ORG/LARGE": SimulatedDrafter(0.7, 0.2, weight_bytes=200_000_000),
    }
    found = answers(simulate_run(tmp_path / "heavy", heavy, cost=COST, prompts=24))
    assert found["medusa-heads-are-small"].verdict == "not decided"  # the target's layer may be in
    assert found["hundredth-of-the-size"].verdict == "not held"
    large = {"model:ORG/LARGE": heavy["model:ORG/LARGE"]}
    found = answers(simulate_run(tmp_path / "large", large, cost=COST))
    assert "the nearest has 0.200 of them" in found["hundredth-of-the-size"].reason


def test_memory_is_told_of_the_same_sequences_as_elsewhere(tmp_path: Path) -> None:
    drafters = {"medusa:x": SimulatedDrafter(0.6, 0.01, weight_bytes=20_000_000)}
    folder = simulate_run(tmp_path / "run", drafters, cost=COST, tasks=("code", "chat"), prompts=4)
    run = load_run(folder)
    for cell in run.cells:  # of the task measured last, prompts are the longest
        if cell.task == "chat":
            file = folder / "requests" / f"{cell.cell_id}.parquet"
            table = pq.read_table(file)
            place = table.column_names.index("prompt_tokens")
            longer = pa.array([400] * len(table), table.schema.field(place).type)
            pq.write_table(table.set_column(place, table.schema.field(place), longer), file)
    (evidence,) = answers(folder)["drafter-memory-costs-concurrency"].evidence
    context = max(group.memory.context for group in fit_run(run).groups if group.memory)
    assert context == pytest.approx(400 + 64)
    assert evidence.quantity.startswith(f"sequences of {context:.0f} tokens, prompt and answer")
    assert evidence.sides[0].value == pytest.approx(20_000_000 / (1e4 * context))


def test_a_claim_of_two_parts_needs_both(tmp_path: Path) -> None:
    drafters = {"model:ORG/SMALL": SimulatedDrafter(0.9, 0.02, weight_bytes=10_000_000)}
    folder = simulate_run(tmp_path / "run", drafters, cost=COST, prompts=24)
    found = answers(folder)["hundredth-of-the-size"]
    alpha, c = found.evidence
    assert (c.quantity, c.supports) == ("c", True)
    assert (alpha.quantity, alpha.supports) == ("α", None)  # its interval holds 0.9
    assert found.verdict == "not decided"


@pytest.mark.parametrize(
    ("lossless", "verdict"),
    [("identical", "held"), ("near-tie", "held"), ("DIVERGED", "not held")],
)
def test_output_unchanged(tmp_path: Path, lossless: str, verdict: str) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    found = answer("output-unchanged", tmp_path, drafters, lossless=lossless)
    assert found.verdict == verdict
    assert found.evidence[0].sides == (Side(lossless, 4.0),)
    hot = answer("output-unchanged", tmp_path / "hot", drafters, temperatures=(1.0,))
    assert hot.verdict == "not measured"


@pytest.mark.parametrize(
    ("lossless", "verdict"),
    [("identical", "held"), ("near-tie", "not measured"), ("DIVERGED", "not measured")],
)
def test_quality_is_that_of_equal_texts_or_not_known(
    tmp_path: Path, lossless: str, verdict: str
) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    found = answer("quality-unchanged", tmp_path, drafters, lossless=lossless)
    assert found.verdict == verdict
    if verdict == "not measured":
        assert "0 of 4 greedy cells have plain decoding's own texts" in found.reason
        assert "--dtype float32" in found.reason


def test_one_prompt_decides_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    options = {"tasks": ("code", "story"), "temperatures": (0.0, 1.0), "prompts": 1}
    found = answers(simulate_run(tmp_path / "run", by_temperature(0.9, 0.1), **options))
    assert found["alpha-falls-with-temperature"].verdict == "not decided"
    assert found["predictable-text-accepts-more"].verdict == "not decided"
    without = simulate_run(tmp_path / "bare", by_temperature(0.9, 0.1), baseline=False)
    assert answers(without)["longer-is-not-always-better"].verdict == "not measured"


def comparison(margin: float, half: float) -> Evidence:
    return Evidence("", "", (), margin, (margin - half, margin + half))


def test_one_counterexample_is_against_a_claim_about_all_cases() -> None:
    assert every([comparison(1, 0.5), comparison(0, 0.5)], "").verdict == "held"
    assert every([comparison(1, 0.5), comparison(-1, 0.5)], "").verdict == "not held"
    assert every([comparison(0, 0.5)], "").verdict == "not decided"
    assert every([], "nothing").reason == "nothing"
    assert some([comparison(1, 0.5), comparison(-1, 0.5)], "").verdict == "held"
    assert some([comparison(-1, 0.5), comparison(0, 0.5)], "").verdict == "not decided"
    assert some([comparison(-1, 0.5)], "").verdict == "not held"


def test_few_clusters_need_a_larger_margin() -> None:
    many = [comparison(1, 0.4) for _ in range(24)]  # clear by a normal factor of 1.6
    assert every(many, "").verdict == "held"
    few = [replace(one, clusters=4) for one in many]
    assert every(few, "").verdict == "not decided"


def test_every_comparison_knows_its_clusters(tmp_path: Path) -> None:
    drafters = {
        "ngram": SimulatedDrafter(0.8, 0.02),
        **{f"synthetic:{alpha}": SimulatedDrafter(alpha, 0.0) for alpha in (0.5, 0.8, 0.9)},
    }
    run = simulate_run(
        tmp_path / "run",
        drafters,
        gammas=(1, 4),
        tasks=("code", "story", "summarization", "chat"),
        temperatures=(0.0, 1.0),
        batch_sizes=(1, 4),
        prompts=8,
        tokens=128,
    )
    found = answers(run)
    compared = {
        name: [one.clusters for one in answer.evidence if one.margin_ci is not None]
        for name, answer in found.items()
    }
    assert {clusters for told in compared.values() for clusters in told} == {8}
    for name in (
        "longer-is-not-always-better",
        "gain-shrinks-with-batch",
        "ngram-wins-on-copying",
        "alpha-falls-with-temperature",
        "predictable-text-accepts-more",
        "first-token-not-faster",
        "short-outputs-gain-less",
        "alpha-steps",
    ):
        assert compared[name], name


def test_single_figures_must_all_be_as_the_claim_says() -> None:
    def figures(*supports: bool | None) -> list[Evidence]:
        return [Evidence("", "", (), supports=one) for one in supports]

    assert each(figures(True, True), "").verdict == "held"
    assert each(figures(True, None), "").verdict == "not decided"
    assert each(figures(True, None, False), "").verdict == "not held"
    assert each([], "nothing").reason == "nothing"


def test_the_worst_part_decides_a_claim_of_several() -> None:
    held, open_ = every([comparison(1, 0.5)], ""), every([comparison(0, 0.5)], "")
    against, lacking = every([comparison(-1, 0.5)], ""), every([], "--task chat")
    assert both({"a": held, "b": held}).verdict == "held"
    assert both({"a": held, "b": open_}).verdict == "not decided"
    assert both({"a": held, "b": lacking}).verdict == "not measured"
    assert both({"a": held, "b": lacking}).reason == "--task chat"
    worst = both({"a": held, "b": lacking, "c": against})
    assert worst.verdict == "not held"
    assert worst.evidence == against.evidence + held.evidence  # what decides it first
    assert worst.reason.startswith("c: 1 against it")


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


def test_many_comparisons_need_more_than_one_alone() -> None:
    barely = comparison(1.0, 0.95)
    assert every([barely], "").verdict == "held"
    assert every([barely, *[comparison(0.0, 1.0)] * 9], "").verdict == "not decided"


def test_within_takes_the_whole_interval() -> None:
    assert within((2.0, 2.2), 1.8, 2.4) is True
    assert within((2.5, 2.7), 1.8, 2.4) is False
    assert within((2.2, 2.7), 1.8, 2.4) is None
    assert within((2.0, 2.6), 1.8, 2.4) is None  # its middle is inside
    assert within((2.2, 2.9), 1.8, 2.4) is None  # its middle is outside
    assert within(None, 1.8, 2.4) is None
