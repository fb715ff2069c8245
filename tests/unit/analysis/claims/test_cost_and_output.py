"""Claims about what a drafter costs, and about the output."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.analysis.claims import Side
from specbench.analysis.fit import fit_run
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.analysis.claims.worlds import COST, answer, answers


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
