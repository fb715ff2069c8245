"""The tables at the end of a run: what stands where, in 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.cli._result_table import inside_noise, next_commands, result_lines, warning_lines
from tests.cli.records import baselines, record


def test_a_row_has_every_number_of_its_cell():
    lines = result_lines([*baselines(), record()])
    assert lines == [
        "drafter       γ       α (95%)    τ     c  tok/s   speedup (95%) theory lossless",
        "",
        "chat, T = 0, batch 1: plain decoding 30.5 tok/s, noise floor ±1.3%",
        "ngram         4  0.80 .70–.90 3.36 0.020   62.5  2.00 1.80–2.20   3.11 identical",
    ]


def test_plain_decoding_is_as_fast_as_its_baselines_together():
    first, last = baselines()
    plain = [first, last.model_copy(update={"tok_per_s": 10.0})]
    (title,) = (line for line in result_lines([*plain, record()]) if "plain" in line)
    assert "plain decoding 15.0 tok/s" in title, "1 / (mean of 1/30 and 1/10), not 20"


def test_speedups_that_no_drafter_can_have_are_counted():
    cells = [*baselines(), record(gamma=2, measured={"speedup": 5.0}), record()]
    assert "speedup above τ in 1 cell: noise, no drafter can do it" in result_lines(cells)


def test_the_widest_rows_fit_80_columns():
    wide = {
        "alpha_ci": (0.0, 1.0),
        "tau": 16.99,
        "c": 12.345,
        "tok_per_s": 12345.6,
        "speedup": 1.01,
        "speedup_ci": (0.5, 11.22),
    }
    records = [
        *baselines(task="summarization", temperature=0.75, batch_size=16),
        record(task="summarization", temperature=0.75, batch_size=16, gamma=16, measured=wide),
        record("failed", {"error": "x" * 400}, task="summarization", drafter="early-exit:12"),
        record(task="chat", drafter="model:HuggingFaceTB/SmolLM2-135M-Instruct"),
    ]
    assert max(len(line) for line in result_lines(records)) <= 80


def test_a_drafter_is_named_once_and_a_long_name_gets_its_own_line():
    name = "model:HuggingFaceTB/SmolLM2-135M-Instruct"
    lines = result_lines([record(drafter=name, gamma=1), record(drafter=name, gamma=2)])
    assert lines[3] == name
    assert lines[4].split()[0] == "1"
    assert lines[5].split()[0] == "2"
    assert "\n".join(lines).count(name) == 1


TREE = {"alpha_by_position": [0.8, 0.5, None, None], "tree_nodes": 24, "draft_length_mean": 4.0}
AUTO = {"survival_by_position": [0.75, 0.5, 0.25, 0.0], "draft_length_mean": 3.14}


def test_trees_and_adaptive_drafts_are_marked_and_explained():
    lines = result_lines(
        [
            record(),
            record(drafter="eagle,tree=24,topk=4", measured=TREE),
            record(drafter="model:/long/path/to/folder,gamma=auto", gamma=8, measured=AUTO),
        ]
    )
    # 1 + .8 + .8 x .5 tokens over 1 + 4 x .02; 1 + .75 + .5 + .25 over 1 + 3.14 x .02
    assert lines[3:8] == [
        "eagle,tree=24,topk=4",
        "              4 †0.80 .70–.90 3.36 0.020   62.5  2.00 1.80–2.20  †2.04 identical",
        "model:folder,gamma=auto",
        "       ≤8 (3.1) ‡0.80 .70–.90 3.36 0.020   62.5  2.00 1.80–2.20  ‡2.35 identical",
        "ngram         4  0.80 .70–.90 3.36 0.020   62.5  2.00 1.80–2.20   3.11 identical",
    ]
    assert [line[0] for line in lines if line.startswith(("†", "‡"))] == ["†", "‡"]
    assert max(map(len, lines)) <= 80


def test_chains_alone_have_no_footnote_and_a_tree_without_depths_no_theory():
    assert not any(mark in line for line in result_lines([record()]) for mark in "†‡")
    lines = result_lines([record(drafter="medusa:x,tree=8", measured={"alpha_by_position": None})])
    assert lines[4].split()[-2:] == ["-", "identical"]


def test_the_widest_marked_rows_fit_80_columns():
    wide = {"alpha": 1.0, "alpha_ci": (0.0, 1.0), "tau": 16.99, "c": 12.345, "tok_per_s": 12345.6}
    wide |= {"speedup": 1.01, "speedup_ci": (0.5, 11.22)}
    records = [
        record(drafter="eagle:x,tree=60", gamma=16, measured=TREE | wide),
        record(drafter="eagle:x,gamma=auto", gamma=16, measured=wide | AUTO),
        record("failed", {"error": "x" * 400}, drafter="eagle:x,gamma=auto", gamma=8),
        record(drafter="eagle:" + "x" * 100 + ",tree=60", measured=TREE),
    ]
    assert max(len(line) for line in result_lines(records)) <= 80


def test_what_is_missing_is_a_dash_and_no_prediction_is_made_from_it():
    missing = dict.fromkeys(("alpha_ci", "c", "speedup", "speedup_ci", "lossless"))
    row = result_lines([record(measured=missing)])[-1].split()
    assert row == ["ngram", "4", "0.80", "3.36", "-", "62.5", "-", "-", "-"]


def test_each_task_has_its_table_and_each_block_its_title():
    records = [
        record(task=task, temperature=temperature)
        for task in ("code", "chat")
        for temperature in (1.0, 0.0)
    ]
    titles = [line for line in result_lines(records) if ", T = " in line]
    assert titles == [
        "code, T = 0, batch 1: noise floor ±1.3%",
        "code, T = 1, batch 1: noise floor ±1.3%",
        "chat, T = 0, batch 1: noise floor ±1.3%",
        "chat, T = 1, batch 1: noise floor ±1.3%",
    ]


def test_what_differs_from_the_usual_is_in_the_title():
    line = result_lines(
        [
            record(
                top_k=40, top_p=0.9, repeat=1, backend="hf-assisted", measured={"noise_floor": None}
            )
        ]
    )[2]
    assert line == "chat, T = 0, batch 1, top-k 40, top-p 0.9, hf-assisted, repeat 2"


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({"speedup": 1.01, "speedup_ci": (1.005, 1.015)}, True),
        ({"speedup": 1.2, "speedup_ci": (0.9, 1.5)}, True),
        ({"speedup": 0.915, "speedup_ci": (0.9, 0.93), "noise_floor": 0.09}, False),
        ({"speedup": 0.92, "speedup_ci": (0.9, 0.94), "noise_floor": 0.09}, True),
        ({"speedup": 0.7, "speedup_ci": (0.6, 0.8)}, False),
        ({"speedup": 1.2, "speedup_ci": None}, True),
        ({"speedup": None, "speedup_ci": None}, False),
        ({"speedup": 1.01, "speedup_ci": None, "noise_floor": None}, True),
    ],
)
def test_a_speedup_inside_the_noise_is_marked(measured: dict, expected: bool):
    cell = record(measured=measured)
    assert inside_noise(cell) is expected
    text = "\n".join(result_lines([cell]))
    assert ("~" in text) is expected


def test_few_prompts_are_said_under_the_table():
    few = {"warnings": ["few prompts"]}
    lines = result_lines([record(measured=few), record(task="code")])
    notes = [line for line in lines if line.startswith("few prompts")]
    assert len(notes) == 1
    assert lines.index(notes[0]) < lines.index("code, T = 0, batch 1: noise floor ±1.3%")


def test_failures_say_why():
    lines = result_lines(
        [
            record("failed", {"error": "RuntimeError:\n  boom"}, gamma=1),
            record("out_of_memory", gamma=2),
            baselines()[0].updated(status="failed", error="no luck"),
        ]
    )
    assert lines[-3].endswith("1  failed: RuntimeError: boom")
    assert lines[-2].endswith("2  out of memory")
    assert lines[-1] == "  none (first) failed: no luck"


def test_a_diverged_cell_is_shouted_after_the_tables():
    diverged = record(measured={"lossless": "DIVERGED"})
    lines = result_lines([record(gamma=1), diverged])
    assert any(line.startswith("DIVERGED: 1 cell gave") for line in lines)
    assert lines[-1] == f"  {diverged.cell_id}"


def test_the_next_two_commands_can_be_pasted():
    assert next_commands(Path("results/my run")) == [
        "next:",
        "  specbench plot 'results/my run'",
        "  specbench optimal-gamma 'results/my run'",
    ]


def test_what_the_run_was_warned_of_stands_after_the_tables_within_80_columns():
    long = "GPU processes: also used by python3 (41, 1.0 GiB). End them, or choose another GPU"
    assert warning_lines([]) == []
    assert warning_lines([long, "short"]) == [
        "",
        "warning: GPU processes: also used by python3 (41, 1.0 GiB). End them, or choose",
        "  another GPU",
        "warning: short",
    ]
