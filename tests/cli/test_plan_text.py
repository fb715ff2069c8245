"""``specbench run --dry-run``: the cells, what was dropped, and how long it may take."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from specbench.cli import run as run_module
from specbench.cli._plan_text import duration, estimate_lines, plan_lines
from specbench.sweep.config import SweepConfig
from specbench.sweep.defaults import DEFAULT_SWEEP
from tests.cli.records import baselines, cell


def plan_of_two_blocks() -> SimpleNamespace:
    cells = [
        made
        for batch_size in (1, 2)
        for made in (
            *(record.cell for record in baselines(batch_size=batch_size)),
            cell(batch_size=batch_size, gamma=4),
            cell(batch_size=batch_size, gamma=2),
        )
    ]
    reason = "synthetic drafters exist at temperature 0 only"
    return SimpleNamespace(cells=cells, dropped=[{"cell": "a", "reason": reason}] * 3, notes=[])


def test_blocks_cells_and_dropped_combinations_are_printed():
    sweep = SweepConfig(prompts=4, max_new_tokens=32, out="runs/x")
    assert plan_lines(plan_of_two_blocks(), sweep) == [
        "target SmolLM2-135M-Instruct, to be written to runs/x",
        "",
        "chat, T = 0, batch 1",
        "  ngram  γ = 2, 4",
        "  none (plain decoding)  2 times",
        "chat, T = 0, batch 2",
        "  ngram  γ = 2, 4",
        "  none (plain decoding)  2 times",
        "",
        "dropped 3 cells that cannot exist:",
        "  3 × synthetic drafters exist at temperature 0 only",
        "",
        "8 cells in 2 blocks, 4 prompts × 32 tokens each:",
        "at most 1,024 tokens to generate, twice that for prompts of two turns",
    ]


def test_one_of_a_thing_is_singular():
    plan = SimpleNamespace(cells=[cell()], dropped=[{"cell": "a", "reason": "r"}], notes=[])
    lines = plan_lines(plan, SweepConfig(prompts=1, max_new_tokens=2, out="x"))
    assert "dropped 1 cell that cannot exist:" in lines
    assert "1 cell in 1 block, 1 prompt × 2 tokens each:" in lines


def test_a_long_drafter_stays_whole_and_its_gammas_in_sight():
    name = "model:/data/models/" + "long-folder/" * 6 + "SmolLM2-21M,gamma=auto"
    cells = [cell(drafter=name, gamma=gamma) for gamma in (8, 2)]
    lines = plan_lines(SimpleNamespace(cells=cells, dropped=[], notes=[]), SweepConfig(out="x"))
    assert max(map(len, lines)) <= 80
    assert "    γ ≤ 2, 8" in lines
    assert name in "".join(line.strip() for line in lines)


def test_rows_of_a_batch_share_the_reading_of_the_weights():
    sweep = SweepConfig(prompts=4, max_new_tokens=100)
    # 4 cells × 400 steps + 4 cells × 200 steps, each 0.5 GB at 5 GB/s
    lines = estimate_lines(plan_of_two_blocks(), sweep, 500_000_000, 5e9)
    assert lines[0].startswith("estimate: at least 4 min,")
    assert lines[1] == "(0.50 GB at the measured 5.0 GB/s)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7260, "2 h 01 min")],
)
def test_a_duration_is_for_a_person(seconds: float, text: str):
    assert duration(seconds) == text


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    return tmp_path


def test_a_dry_run_measures_nothing_and_estimates_from_the_files_here(
    specbench, monkeypatch: pytest.MonkeyPatch, target: Path
):
    def fail(_: SweepConfig) -> None:
        raise AssertionError("a dry run must not measure")

    monkeypatch.setattr(run_module, "_measure", fail)
    monkeypatch.setattr("specbench.measure.bandwidth.copy_bandwidth", lambda _: 1e9)
    result = specbench("run", "--dry-run", "--target", str(target), "--drafter", "ngram")
    assert (result.code, result.err) == (0, "")
    assert "translation, T = 0, batch 1\n  ngram  γ = 1, 2, 4\n" in result.out
    size = f"{DEFAULT_SWEEP['prompts']} prompts × {DEFAULT_SWEEP['max_new_tokens']} tokens each"
    assert f"40 cells in 8 blocks, {size}" in result.out
    assert "estimate: at least 0 s" in result.out


def test_a_target_that_is_not_here_gets_no_estimate(specbench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("specbench.weights.catalog.cached_models", list)
    result = specbench("run", "--dry-run", "--drafter", "ngram")
    assert result.code == 0
    assert result.out.endswith("no estimate of the time: the target is not on this machine yet\n")


def test_the_bytes_of_a_target_are_those_of_its_weight_files(target: Path):
    (target / "config.json").write_text("{}")
    assert run_module._weight_bytes_here(str(target)) == 1000
    file = target / "model.gguf"
    file.write_bytes(b"y" * 10)
    assert run_module._weight_bytes_here(str(file)) == 10
    assert run_module._weight_bytes_here("no/such-model") is None
