from __future__ import annotations

import csv
import errno
import io
import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.records import files
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        {
            "ngram": SimulatedDrafter(lambda task, _: 0.75 if task == "code" else 0.02, 0.02),
            "model:drafters/A-LONG-NAME-400M": SimulatedDrafter(0.3, 0.3),
            "synthetic:0.9": SimulatedDrafter(0.9, 0.0),
        },
        gammas=(1, 4),
        tasks=("code", "chat"),
        prompts=8,
    )
    return str(folder)


def test_two_numbers_give_the_curve_and_one_sentence(specbench: Command) -> None:
    result = specbench("optimal-gamma", "--alpha", "0.8", "--cost", "0.02")
    assert result.code == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert len([line for line in lines if line.lstrip()[:1].isdigit()]) == 17
    assert next(line for line in lines if "<- best" in line).split()[0] == "11"
    assert max(map(len, lines)) <= 80
    sentence = " ".join(result.out.split("\n\n")[-1].split())
    assert sentence.startswith("Use γ = 11: 3.82 times as fast at α = 0.8 and c = 0.02")


def test_json_is_the_contract_s(specbench: Command) -> None:
    words = ("--alpha", "0.8", "--cost", "0.02", "--max-gamma", "4", "--format", "json")
    document = json.loads(specbench("optimal-gamma", *words).out)
    assert list(document)[:4] == ["alpha", "cost", "best", "curve"]
    assert (document["alpha"], document["cost"]) == (0.8, 0.02)
    assert document["best"] == {"gamma": 4, "speedup": closed_form.speedup(0.8, 4, 0.02)}
    assert [list(point) for point in document["curve"]] == [
        ["gamma", "tokens_per_round", "speedup"]
    ] * 5
    assert document["curve"][4]["tokens_per_round"] == pytest.approx(3.3616)


def test_alpha_may_be_another_and_c_higher(specbench: Command) -> None:
    words = ("optimal-gamma", "--alpha", "0.8", "--cost", "0.02", "--max-gamma", "16")
    document = json.loads(specbench(*words, "--format", "json").out)
    less, more = document["sensitivity"]
    assert (less["alpha"], more["alpha"]) == (pytest.approx(0.75), pytest.approx(0.85))
    for shift in (less, more):
        gamma = shift["best"]["gamma"]
        assert gamma == closed_form.optimal_gamma(shift["alpha"], 0.02, 16)
        kept = closed_form.speedup(shift["alpha"], document["best"]["gamma"], 0.02)
        assert shift["speedup_at_chosen_gamma"] == pytest.approx(kept)
    assert document["largest_paying_cost"] == pytest.approx(0.8)
    out = specbench(*words).out
    assert "  α = 0.75: best γ = 9 gives " in out
    assert "Some draft pays up to c = 0.8, γ = 11 up to 0.332." in out
    assert out.count("; γ = 11 gives ") == 2


def test_csv_is_the_same_curve(specbench: Command) -> None:
    words = ("--alpha", "0.8", "--cost", "0.02", "--max-gamma", "4", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(specbench("optimal-gamma", *words).out)))
    assert [int(row["gamma"]) for row in rows] == [0, 1, 2, 3, 4]
    assert float(rows[4]["speedup"]) == pytest.approx(3.113, abs=5e-4)


def test_0_where_nothing_helps(specbench: Command) -> None:
    words = ("optimal-gamma", "--alpha", "0.1", "--cost", "0.2")
    assert specbench(*words).out.split("\n\n")[-1].startswith("Do not speculate")
    document = json.loads(specbench(*words, "--format", "json").out)
    assert document["best"] == {"gamma": 0, "speedup": 1.0}


def test_the_longest_draft_winning_is_said(specbench: Command) -> None:
    words = ("--alpha", "1", "--cost", "0", "--max-gamma", "3")
    assert "--max-gamma" in specbench("optimal-gamma", *words).out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "RUN is missing"),
        (("--alpha", "0.5"), "--cost is missing"),
        (("--cost", "0.5"), "--alpha is missing"),
        (("RUN", "--alpha", "0.5", "--cost", "0.1"), "not both"),
        (("RUN", "--cost", "0.1"), "not both"),
        (("--alpha", "1.5", "--cost", "0.1"), "1.5"),
        (("--alpha", "nan", "--cost", "0.1"), "nan"),
        (("--alpha", "-0.1", "--cost", "0.1"), "-0.1"),
        (("--alpha", "0.5", "--cost", "-1"), "-1"),
        (("--alpha", "0.5", "--cost", "inf"), "inf"),
        (("--alpha", "much", "--cost", "0.1"), "much"),
        (("--alpha", "0.5", "--cost", "0.1", "--max-gamma", "0"), "0"),
        (("--alpha", "0.5", "--cost", "0.1", "--max-gamma", "x"), "x"),
        (("no/such/run", "--max-gamma", "9" * 20), "from 1 to 1024"),
        (("--alpha", "0.5", "--cost", "0.1", "--format", "xml"), "xml"),
        (("no/such/run",), "no/such/run"),
        (("--alpha", "0.5", "--cost", "0.1", "--policy", "x.toml"), "--policy needs a RUN"),
    ],
)
def test_mistakes_are_one_line(specbench: Command, words: tuple[str, ...], says: str) -> None:
    assert says in specbench("optimal-gamma", *words).error_line


def test_a_run_is_answered_with_evidence(specbench: Command, run: str) -> None:
    result = specbench("optimal-gamma", run)
    assert result.code == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    code, chat = (
        next(line for line in lines if line.startswith(task)) for task in ("code", "chat")
    )
    assert "ngram" in code
    assert "do not speculate" in chat
    assert "never recommended" in result.out


def test_a_run_as_json(specbench: Command, run: str) -> None:
    document = json.loads(specbench("optimal-gamma", run, "--format", "json").out)
    assert {group["drafter"] for group in document["groups"]} == {
        "ngram",
        "model:drafters/A-LONG-NAME-400M",
        "synthetic:0.9",
    }
    code, chat = document["policy"]
    assert (code["task"], code["drafter"], code["gamma"]) == ("code", "ngram", 4)
    assert code["measured_gamma"] == 4
    low, high = code["measured_speedup_ci"]
    assert low < code["measured_speedup"] < high
    assert code["speedup_ci"][0] < code["speedup"] < code["speedup_ci"][1]
    assert 1 < code["lower_bound"] < code["speedup"]
    assert 0 <= code["chance_best"] <= code["chance_near_best"] <= 1
    assert 0 <= code["expected_loss"] < 0.1
    assert (chat["task"], chat["drafter"], chat["gamma"]) == ("chat", "none", 0)
    assert chat["reason"]


def test_a_run_as_csv(specbench: Command, run: str) -> None:
    out = specbench("optimal-gamma", run, "--format", "csv", "--max-gamma", "5").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6 * 6
    (recommended,) = [row for row in rows if row["recommended"] == "True"]
    assert (recommended["drafter"], recommended["gamma"]) == ("ngram", "4")
    assert {row["source"] for row in rows if row["gamma"] == "5"} == {"extrapolated"}


def test_what_diverged_is_marked(specbench: Command, run: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    cells = copy / "cells.jsonl"
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    wrong = [{**line, "lossless": "DIVERGED"} if line["gamma"] == 4 else line for line in lines]
    cells.write_text("".join(json.dumps(line) + "\n" for line in wrong))
    assert (
        "DIVERGED from plain decoding: the speedup means" not in specbench("optimal-gamma", run).out
    )
    out = specbench("optimal-gamma", str(copy)).out
    assert "\n! DIVERGED from plain decoding: the speedup means nothing\n" in out
    table = out[out.index("expected speedup by") :]
    assert table.splitlines()[2].count("!") == 3  # its own gamma, and those that rest on it
    rows = csv.DictReader(io.StringIO(specbench("optimal-gamma", str(copy), "--format", "csv").out))
    assert {row["gamma"] for row in rows if row["diverged"] == "True"} == {"2", "3", "4"}


def test_the_chosen_gamma_and_all_measured_ones_stand_in_the_table(
    specbench: Command, tmp_path: Path
) -> None:
    drafters = {"ngram": SimulatedDrafter(0.8, 0.06)}
    run = simulate_run(tmp_path / "run", drafters, gammas=(1, 2, 12, 20), prompts=24, tokens=128)
    lines = specbench("optimal-gamma", str(run)).out.splitlines()
    assert max(map(len, lines)) <= 80
    chosen = next(line for line in lines if line.startswith("code")).split()[4]
    heading = next(line for line in lines if line.startswith("drafter")).split()
    assert chosen not in ("1", "2", "12", "20")  # so it is an interpolated one
    assert {"1", "2", "12", "20", chosen} <= set(heading)


def test_a_run_without_an_answer_ends_with_2(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.5, 0.1)}
    folder = simulate_run(tmp_path / "bare", drafters, gammas=(2,), prompts=4, baseline=False)
    assert "baseline" in specbench("optimal-gamma", str(folder)).error_line
    folder = simulate_run(tmp_path / "empty", {}, tasks=())
    assert "no finished cell" in specbench("optimal-gamma", str(folder)).error_line


def test_a_damaged_table_is_named(specbench: Command, tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.5, 0.1)}, gammas=(2,))
    table = next((folder / "rounds").glob("*-g2-*"))
    table.write_bytes(table.read_bytes()[:100])
    line = specbench("optimal-gamma", str(folder)).error_line
    assert table.name in line
    assert "damaged" in line


def test_a_run_that_failed_altogether_is_named(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.5, 0.1)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), failed=[("ngram", 2)])
    assert "simulated failure" in specbench("optimal-gamma", str(folder)).error_line


@pytest.mark.parametrize(
    ("options", "answer", "says"),
    [
        ({"prompts": 1}, "do not speculate?", "has no interval (1 prompt)"),
        ({"prompts": 3, "overhead": 0.2}, "do not speculate?", "does not clear 1"),
        ({"gammas": (2,), "prompts": 24}, "ngram", "--drafter ngram --gamma 2"),
        ({"batch_sizes": (4,), "prompts": 8, "tokens": 8}, "do not speculate?", "has no interval"),
    ],
)
def test_little_to_go_by_is_never_a_wrong_number(
    specbench: Command, tmp_path: Path, options: dict[str, Any], answer: str, says: str
) -> None:
    drafters = {"ngram": SimulatedDrafter(0.6, 0.2, spread=0.25)}
    folder = simulate_run(tmp_path / "run", drafters, **{"gammas": (1, 2), **options})
    result = specbench("optimal-gamma", str(folder))
    assert result.code == 0, result.err
    assert answer in next(line for line in result.out.splitlines() if line.startswith("code"))
    assert says in " ".join(result.out.split())
    document = json.loads(specbench("optimal-gamma", str(folder), "--format", "json").out)
    (policy,) = document["policy"]
    assert policy["decided"] is (answer == "ngram")
    assert (policy["gamma"] > 0) is (answer == "ngram")


def test_the_rule_stands_in_the_help(specbench: Command) -> None:
    text = " ".join(specbench("optimal-gamma", "--help").out.split())
    for words in ("everything compared in the run", "noise floor", "synthetic", "extrapolated"):
        assert words in text


def test_trees_are_recommended_with_what_to_type(specbench: Command, tmp_path: Path) -> None:
    drafters = {
        "eagle:/data/heads/small,tree=24": SimulatedDrafter(0.85, 0.02, nodes=23),
        "model:/data/models/tiny,gamma=auto": SimulatedDrafter(0.6, 0.05, shortest=1),
    }
    run = simulate_run(tmp_path / "run", drafters, gammas=(2, 8), tasks=("code", "chat"), prompts=8)
    lines = specbench("optimal-gamma", str(run)).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "  --drafter eagle:/data/heads/small,tree=24 --gamma 8" in lines
    assert "    code, T = 0, batch 1; chat, T = 0, batch 1" in lines
    headings = [line.split() for line in lines if line.startswith("drafter")]
    assert headings == [["drafter", "2", "8"]] * 2  # no gamma between the measured ones
    assert any(line.startswith("eagle:small,tree=24 ") for line in lines)


def test_a_policy_is_written_and_lines_for_other_engines_are_shown(
    specbench: Command, tmp_path: Path
) -> None:
    run = simulate_run(
        tmp_path / "run",
        {"ngram": SimulatedDrafter(0.75, 0.01)},
        gammas=(1, 4),
        batch_sizes=(1, 16),
        prompts=32,
        v=lambda gamma, size: 1.0 + (2.0 if size == 16 else 0.0),
    )
    file = tmp_path / "policy.toml"
    result = specbench("optimal-gamma", str(run), "--policy", str(file))
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80
    (policy,) = tomllib.loads(file.read_text())["policy"]
    assert policy["num_speculative_tokens_per_batch_size"][-1] == [2, 16, 0]
    assert "Batch size from which speculation stops paying" in result.out
    assert "Other engines: code, T = 0" in result.out
    config = result.out.partition("--speculative-config '")[2].partition("'")[0]
    assert json.loads(config)["num_speculative_tokens_per_batch_size"][-1] == [2, 16, 0]
    nowhere = specbench("optimal-gamma", str(run), "--policy", str(tmp_path / "no" / "x.toml"))
    assert "no folder" in nowhere.error_line


def test_an_undecided_policy_is_not_told_as_a_no(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    run = simulate_run(
        tmp_path / "run", drafters, gammas=(1, 2), batch_sizes=(1, 2), prompts=1, tokens=12
    )
    out = specbench("optimal-gamma", str(run)).out
    policy = out.partition("One policy for a load that varies")[2].partition("\n\n")[0]
    assert "do not speculate? " in policy
    assert "do not speculate " not in policy
    assert "do not speculate?: undecided, " in out


def test_the_policies_of_several_engines_are_told_apart(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.8, 0.01)}
    run = simulate_run(tmp_path / "run", drafters, gammas=(2,), batch_sizes=(1, 4), prompts=16)
    cells = run / "cells.jsonl"
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    for line in lines:  # the same again, by another engine
        other = {**line, "backend": "hf-assisted", "cell_id": f"{line['cell_id']}-hf"}
        for part in ("rounds", "requests"):
            file = run / part / f"{line['cell_id']}.parquet"
            if file.exists():
                shutil.copy(file, file.with_name(f"{other['cell_id']}.parquet"))
        with cells.open("a") as stream:
            stream.write(json.dumps(other) + "\n")
    out = specbench("optimal-gamma", str(run)).out
    policy = out.partition("One policy for a load that varies")[2].partition("\n\n")[0]
    assert "code, native " in policy
    assert "code, hf-assisted " in policy


def test_what_memory_holds_is_told_by_the_sequence(specbench: Command, tmp_path: Path) -> None:
    drafters = {"model:x": SimulatedDrafter(0.7, 0.02, weight_bytes=10**8)}
    cost = {"weight_bytes": 1e9, "kv_bytes_per_token": 1e5, "drafter_kv_bytes_per_token": 1e4}
    run = simulate_run(tmp_path / "run", drafters, gammas=(1,), prompts=4, cost=cost)
    cells = run / "cells.jsonl"
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    for line in lines:
        line["memory_capacity_bytes"] = 10**10
    cells.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = " ".join(specbench("optimal-gamma", str(run)).out.split())
    (group,) = json.loads(specbench("optimal-gamma", str(run), "--format", "json").out)["groups"]
    memory = group["memory"]
    without, beside = memory["sequences_without_drafter"], memory["sequences_with_drafter"]
    assert f"model:x: sequences of {memory['context_tokens']:.0f} tokens: {without:,}" in said
    assert f"{without:,} without the drafter, {beside:,} with it" in said


def test_a_full_disk_leaves_the_policy_that_is_there(
    specbench: Command, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("old")

    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write_synced", full)
    line = specbench("optimal-gamma", run, "--policy", str(file)).error_line
    assert f"cannot write the policy to {file}: the disk is full" in line
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
