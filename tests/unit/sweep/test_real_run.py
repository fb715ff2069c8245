"""A real run of a tiny model: records complete and consistent, outputs lossless, faults shouted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specbench.backends.base import EngineOptions
from specbench.backends.native import NativeBackend
from specbench.engine import speculative
from specbench.engine.request import Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.identities import identities
from specbench.records.schema import CellRecord
from specbench.records.store import Run, load_run
from specbench.sampling.verify import Verdict, verify_greedy
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter
from specbench.sweep.runner import run
from specbench.weights.progress import SILENT
from tests.tiny_target import PROMPTS, stop_at, write_prompts, write_target
from tests.unit.sweep.checks import check_derived, outputs

LINE = [
    "cell_id",
    "target",
    "drafter",
    "gamma",
    "temperature",
    "top_k",
    "top_p",
    "batch_size",
    "task",
    "backend",
    "repeat",
    "seed",
    "status",
    "error",
    "alpha",
    "alpha_ci",
    "alpha_overlap",
    "alpha_by_position",
    "survival_by_position",
    "draft_acceptance_rate",
    "tau",
    "wall_s",
    "prefill_s",
    "decode_s",
    "ttft_s",
    "itl_s",
    "tokens",
    "tok_per_s",
    "speedup",
    "speedup_ci",
    "c",
    "v",
    "overhead",
    "draft_s",
    "verify_s",
    "other_s",
    "memory_peak_bytes",
    "memory_capacity_bytes",
    "bandwidth_bytes_per_s",
    "bandwidth_utilization",
    "energy_j",
    "lossless",
    "baseline",
]
"""The fields that scripts rely on, in words of the contract."""

DRAFTERS = ["ngram", "early-exit:1", "synthetic:0.75"]


def measured(folder: Path, target: Path, **options: Any) -> tuple[Run, SilentReporter]:
    report = SilentReporter()
    config = SweepConfig(
        **{
            "target": str(target),
            "drafters": DRAFTERS,
            "gammas": [1, 3],
            "temperatures": [0.0, 1.0],
            "prompts": 8,
            "max_new_tokens": 10,
            "threads": 1,
            "out": folder / "run",
            **options,
        }
    )
    return load_run(run(config, report)), report


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_chat: Path) -> Run:
    """Batch 1 and 3, greedy and sampled, four single turns and two chats, outputs of any length."""
    folder = tmp_path_factory.mktemp("finished")
    prompts = write_prompts(folder / "mixed.jsonl", PROMPTS[:4], chats=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPECBENCH_CACHE", str(folder / "cache"))
        patched.setattr("specbench.sweep.runner.copy_bandwidth", lambda device: 1e10)
        patched.setattr("specbench.sweep.runner.read_bandwidth", lambda device: 2e10)
        patched.setattr("specbench.sweep.runner.matmul_rate", lambda device, dtype: 1e11)
        return measured(folder, tiny_chat, tasks=[str(prompts)], batch_sizes=[1, 3])[0]


def cells(run: Run, **key: Any) -> list[CellRecord]:
    """Those with these values; there are some."""
    found = [c for c in run.cells if all(getattr(c, name) == value for name, value in key.items())]
    assert found
    return found


def test_every_line_has_every_field_that_scripts_rely_on(finished: Run):
    lines = (finished.path / "cells.jsonl").read_text().splitlines()
    assert len(lines) == len(finished.cells) == 28
    for line in lines:
        assert [name for name in LINE if name not in json.loads(line)] == []


def test_numbers_are_filled_where_they_exist_and_null_where_they_do_not(finished: Run):
    on_cpu = {"energy_j"}
    of_drafts = {name for name in LINE if "alpha" in name or name == "c"}
    of_drafts |= {"survival_by_position", "draft_acceptance_rate", "speedup", "speedup_ci"}
    for cell in finished.cells:
        null = {name for name in LINE if getattr(cell, name) is None} - {"error", "baseline"}
        null -= {"lossless"}
        if cell.is_baseline:
            assert null == on_cpu | of_drafts, cell.cell_id
        else:
            # too few steps for an interval at batch 3; no overlap measured where nothing is sampled
            assert null - {"speedup_ci", "alpha_overlap"} <= on_cpu, cell.cell_id
        assert cell.status == "ok"
        assert 0 < cell.memory_peak_bytes <= cell.memory_capacity_bytes
        assert cell.bandwidth_utilization == pytest.approx(cell.bandwidth_bytes_per_s / 1e10)


def test_verdicts_are_given_at_temperature_0_only_and_outputs_are_identical(finished: Run):
    for cell in finished.cells:
        judged = cell.temperature == 0 and cell.baseline != "first"
        assert cell.lossless == ("identical" if judged else None), cell.cell_id
    for batch in (1, 3):
        greedy = cells(finished, temperature=0.0, batch_size=batch)
        assert all(outputs(finished, cell) == outputs(finished, greedy[0]) for cell in greedy)
    assert outputs(finished, cells(finished, temperature=0.0, batch_size=3)[0]) == outputs(
        finished, cells(finished, temperature=0.0, batch_size=1)[0]
    )


def test_the_same_seed_gives_a_sampled_cell_the_same_output_in_any_batch(finished: Run):
    for drafter, gamma in (("none", 0), ("ngram", 1), ("ngram", 3), ("early-exit:1", 3)):
        alone, together = (
            outputs(
                finished,
                cells(finished, temperature=1.0, drafter=drafter, gamma=gamma, batch_size=b)[0],
            )
            for b in (1, 3)
        )
        assert alone == together, drafter
    greedy = outputs(finished, cells(finished, temperature=0.0)[0])
    assert greedy != outputs(finished, cells(finished, temperature=1.0)[0])


def test_the_identities_hold_in_every_cell(finished: Run):
    for cell in finished.cells:
        tables = (finished.columns(part, cell.cell_id) for part in ("rounds", "requests"))
        assert identities(cell, *tables) == [], cell.cell_id


def test_rounds_add_up_to_requests_and_requests_to_the_record(finished: Run):
    for cell in finished.cells:
        rounds, requests = finished.rounds(cell.cell_id), finished.requests(cell.cell_id)
        step = rounds.drop_duplicates("step")
        seconds = step.draft_s + step.verify_s + step.other_s
        assert cell.decode_s == pytest.approx(seconds.sum())
        assert (seconds > 0).all()
        own = (rounds.draft_s + rounds.verify_s + rounds.other_s).groupby(rounds.request).sum()
        assert np.allclose(requests.decode_s[own.index], own)
        assert np.allclose(requests.wall_s, requests.ttft_s + requests.decode_s)
        assert (requests.ttft_s >= requests.prefill_s).all()
        assert cell.tokens == requests.num_tokens.sum()
        assert cell.tokens == len(requests) + rounds.num_emitted.sum()
        assert (step.active_rows <= cell.batch_size).all()
        assert (step.active_rows == rounds.groupby("step").size().to_numpy()).all()
        if cell.batch_size == 1:
            assert cell.wall_s == pytest.approx(requests.wall_s.sum())
        assert (
            rounds.context_length
            == rounds.position + requests.prompt_tokens[rounds.request].to_numpy()
        ).all()


def test_slots_are_refilled_in_the_baseline_too(finished: Run):
    for cell in cells(finished, batch_size=3):
        rounds = finished.rounds(cell.cell_id)
        assert set(rounds.request) == set(range(8))
        assert set(rounds.slot) == {0, 1, 2}
        full = rounds.active_rows == 3
        assert full.mean() > 0.5


def test_records_are_what_a_fresh_analysis_derives(finished: Run):
    check_derived(finished)


def test_the_second_turn_carries_the_recorded_greedy_answer_in_every_cell(
    finished: Run, tiny_chat: Path
):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_chat)
    recorded = json.loads((finished.path / "references" / "mixed.json").read_text())
    baseline = cells(finished, baseline="first", temperature=0.0, batch_size=1)[0]
    asked = finished.requests(baseline.cell_id)
    chats = asked[asked.conversation.isin(["c0", "c1"])]
    assert list(chats.prompt_id) == ["c0#1", "c0#2", "c1#1", "c1#2"]
    assert list(chats.turn) == [0, 1, 0, 1]
    for chat in ("c0", "c1"):
        first = chats[chats.prompt_id == f"{chat}#1"].iloc[0]
        assert recorded[f"{chat}#1"][:10] == list(first.output_ids)
        answer = tokenizer.decode(first.output_ids, skip_special_tokens=True).strip()
        number = chat[1]
        text = (
            f"<|im_start|>user\nWhat is {number}?<|im_end|>\n<|im_start|>assistant\n{answer}"
            "<|im_end|>\n<|im_start|>user\nAnd twice that?<|im_end|>\n<|im_start|>assistant\n"
        )
        second = chats[chats.prompt_id == f"{chat}#2"].iloc[0]
        assert second.prompt_tokens == len(tokenizer(text)["input_ids"])
    for cell in finished.cells:
        requests = finished.requests(cell.cell_id)
        assert list(requests.prompt_tokens) == list(asked.prompt_tokens), cell.cell_id
        assert list(requests.prompt_id) == list(asked.prompt_id)
        assert cell.num_prompts == 6  # eight requests in six conversations


def test_synthetic_accepts_what_it_was_told_to(tmp_path: Path, tiny: Path):
    prompts = write_prompts(tmp_path / "mine.jsonl")
    run, _ = measured(
        tmp_path,
        tiny,
        tasks=[str(prompts)],
        drafters=["synthetic:0.75", "synthetic:1", "synthetic:0"],
        temperatures=[0.0],
        gammas=[2, 8],
        max_new_tokens=24,
        ignore_eos=True,
    )
    for cell in cells(run, baseline=None):
        alpha = float(cell.drafter.partition(":")[2])
        spread = (alpha * (1 - alpha) / cell.num_evaluated) ** 0.5
        assert abs(cell.alpha - alpha) <= 3.5 * spread
        assert cell.lossless == "identical"
        # drafts reach beyond the cut, so that the last round is like every other
        assert cell.draft_length_mean == cell.gamma


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bfloat16 target two of whose outputs meet a stop token half-way."""
    folder = write_target(tmp_path_factory.mktemp("stopping") / "tiny", dtype="bfloat16")
    backend = NativeBackend()
    backend.load(EngineOptions(str(folder), device="cpu"), SILENT)
    asked = [Request(text, text, backend.tokenizer(text)["input_ids"]) for text in PROMPTS[:2]]
    first, second = backend.greedy_outputs(asked, Limits(8))
    stop_at(folder, [first[3], second[5]])
    return folder


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_bfloat16_works_with_the_coin_deciding_and_says_nothing_of_its_losslessness(
    tmp_path: Path, stopping: Path, ignore_eos: bool
):
    prompts = write_prompts(tmp_path / "mine.jsonl")
    run, report = measured(
        tmp_path,
        stopping,
        tasks=[str(prompts)],
        drafters=["ngram", "synthetic:0.75"],
        gammas=[3],
        temperatures=[0.0],
        batch_sizes=[1, 3],
        ignore_eos=ignore_eos,
    )
    assert {cell.status for cell in run.cells} == {"ok"}
    assert run.manifest.target["dtype"] == "bfloat16"
    recorded = json.loads((run.path / "references" / "mine.json").read_text())
    replayed = [ids[:10] for ids in recorded.values()]
    assert (min(map(len, replayed)) < 10) is not ignore_eos
    for cell in run.cells:
        if cell.drafter == "synthetic:0.75":
            assert cell.lossless is None
            assert run.rounds(cell.cell_id).replayed.all()
            assert outputs(run, cell) == replayed
        elif cell.baseline != "first":
            assert cell.lossless in {"identical", "near-tie"}
    assert report.warnings == []


def test_a_wrong_token_committed_by_the_engine_is_diverged_and_shouted(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
):
    def faulty(target_ids: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor) -> Verdict:
        good = verify_greedy(target_ids, tokens, lengths)
        wrong = torch.where(good.num_accepted < lengths, tokens[:, -1], good.next_token)
        return Verdict(good.num_accepted, wrong, good.overlap)  # commits what it rejected

    monkeypatch.setattr(speculative, "verify_greedy", faulty)
    prompts = write_prompts(tmp_path / "mine.jsonl")
    run, report = measured(
        tmp_path, tiny, tasks=[str(prompts)], drafters=["early-exit:1"], temperatures=[0.0]
    )
    for cell in cells(run, baseline=None):
        assert cell.lossless == "DIVERGED"
        assert any(text.startswith("DIVERGED at p") for text in cell.warnings)
        assert any(cell.cell_id in text and "DIVERGED" in text for text in report.warnings)
    assert cells(run, baseline="last")[0].lossless == "identical"


def test_a_real_failure_inside_one_cell_is_recorded_and_the_others_are_right(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
):
    from specbench.drafters.ngram import NgramDrafter

    propose = NgramDrafter.propose

    def broken(self: NgramDrafter, gamma: int) -> Any:
        if gamma == 3:
            raise torch.OutOfMemoryError("a draft of 3 GiB")
        return propose(self, gamma)

    monkeypatch.setattr(NgramDrafter, "propose", broken)
    prompts = write_prompts(tmp_path / "mine.jsonl")
    run, _ = measured(tmp_path, tiny, tasks=[str(prompts)], temperatures=[0.0], drafters=["ngram"])
    status = {(cell.drafter, cell.gamma): cell.status for cell in run.cells}
    assert status == {("none", 0): "ok", ("ngram", 1): "ok", ("ngram", 3): "out_of_memory"}
    assert cells(run, gamma=1)[0].lossless == "identical"
    assert cells(run, gamma=1)[0].speedup is not None


def test_outputs_of_one_token_leave_nothing_to_time_and_are_refused(tmp_path: Path, tiny: Path):
    prompts = write_prompts(tmp_path / "mine.jsonl")
    with pytest.raises(SpecbenchError, match=r"--max-new-tokens 1 .* 2 or more") as caught:
        measured(tmp_path, tiny, tasks=[str(prompts)], max_new_tokens=1)
    assert "\n" not in str(caught.value)
    run, _ = measured(tmp_path, tiny, tasks=[str(prompts)], max_new_tokens=2, gammas=[2])
    assert {cell.num_rounds for cell in run.cells} == {6}


def test_top_k_and_top_p_reach_the_engine(tmp_path: Path, tiny: Path):
    prompts = write_prompts(tmp_path / "mine.jsonl")
    options = {"tasks": [str(prompts)], "drafters": ["ngram", "early-exit:1"], "gammas": [3]}
    run, _ = measured(tmp_path, tiny, **options, top_k=1, max_new_tokens=6)
    greedy = outputs(run, cells(run, temperature=0.0)[0])
    for cell in cells(run, temperature=1.0):
        assert outputs(run, cell) == greedy
        assert cell.top_k == 1
