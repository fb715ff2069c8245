"""The grid: which cells, in which order, and what is left out and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.sweep.config import SweepConfig
from specbench.sweep.grid import Plan, num_requests, plan

TASKS = {"chat": 8, "code": 8}


def grid(counts: dict[str, int] | None = None, **options: Any) -> Plan:
    defaults: dict[str, Any] = {"drafters": ["ngram", "early-exit:1"], "gammas": [1, 2, 4]}
    defaults |= {"temperatures": [0.0, 1.0], "batch_sizes": [1, 4], "repeats": 2, "prompts": 8}
    return plan(SweepConfig(**{**defaults, **options}), counts or TASKS)


def keys(cells: list[Cell]) -> list[tuple[str, int]]:
    return [(cell.drafter, cell.gamma) for cell in cells]


def test_every_combination_is_there_once_between_two_baselines():
    blocks = list(grid().blocks())
    seen = [(block[0], block[1], block[2], block[3]) for block, _ in blocks]
    assert sorted(seen) == sorted(
        (task, temperature, batch, repeat)
        for task in TASKS
        for temperature in (0.0, 1.0)
        for batch in (1, 4)
        for repeat in (0, 1)
    )
    for block, cells in blocks:
        assert [cell.baseline for cell in cells] == ["first", *[None] * 6, "last"]
        assert {cell.block for cell in cells} == {block}
        assert sorted(keys(cells[1:-1])) == [
            (drafter, gamma) for drafter in ("early-exit:1", "ngram") for gamma in (1, 2, 4)
        ]


def test_every_cell_has_an_id_of_its_own():
    specs = ["ngram", "ngram,max=3", "ngram,max=4", "model:a/b", "model:a-b", "model:A/b"]
    cells = grid({"chat": 8}, drafters=specs, gammas=list(range(1, 9))).cells
    assert len(cells) == 400
    assert len({cell.cell_id for cell in cells}) == len(cells)


def test_the_order_inside_a_block_is_drawn_from_the_seed_and_differs_between_blocks():
    orders = [keys(cells) for _, cells in grid().blocks()]
    assert orders == [keys(cells) for _, cells in grid().blocks()]
    assert len({tuple(order) for order in orders}) > len(orders) // 2
    assert orders != [keys(cells) for _, cells in grid(seed=1).blocks()]


def test_the_order_does_not_depend_on_the_order_in_which_options_were_typed():
    typed = {cells[0].block: keys(cells) for _, cells in grid().blocks()}
    turned = grid(drafters=["early-exit:1", "ngram"], gammas=[4, 1, 2], temperatures=[1.0, 0.0])
    assert typed == {cells[0].block: keys(cells) for _, cells in turned.blocks()}


def test_synthetic_is_left_out_above_temperature_0_and_listed():
    made = grid(drafters=["synthetic:0.8", "ngram"], gammas=[1, 2], repeats=1, batch_sizes=[1])
    hot = [cell for cell in made.cells if cell.temperature == 1.0 and not cell.is_baseline]
    assert {cell.drafter for cell in hot} == {"ngram"}
    cold = [cell for cell in made.cells if cell.drafter == "synthetic:0.8"]
    assert sorted((cell.task, cell.gamma) for cell in cold) == [
        (task, gamma) for task in TASKS for gamma in (1, 2)
    ]
    assert len(made.dropped) == 4
    assert {entry["reason"] for entry in made.dropped} == {
        "synthetic drafters replay greedy output"
    }
    kept = {cell.cell_id for cell in made.cells}
    assert all("t1" in entry["cell"] and entry["cell"] not in kept for entry in made.dropped)


def test_a_block_with_nothing_but_baselines_is_not_measured():
    made = grid(drafters=["synthetic:0.8"], repeats=1)
    assert {cell.temperature for cell in made.cells} == {0.0}


def test_a_batch_larger_than_a_task_has_prompts_is_measured_and_said():
    made = grid({"few": 3, "chat": 8}, repeats=1, temperatures=[0.0], drafters=["ngram"])
    assert {(cell.task, cell.batch_size) for cell in made.cells} == {
        (task, size) for task in ("few", "chat") for size in (1, 4)
    }
    assert made.dropped == []
    assert made.notes == ["few: 3 prompts for 4 slots are asked in turn, 8 requests in all"]


def test_a_prompt_file_is_counted_when_its_prompts_are_not_loaded_yet(tmp_path: Path):
    file = tmp_path / "two.jsonl"
    file.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    made = plan(SweepConfig(tasks=[str(file), "chat"], batch_sizes=[1, 4], prompts=4))
    assert [note.partition(":")[0] for note in made.notes] == ["two"]


@pytest.mark.parametrize(
    ("prompts", "batch_size", "requests"),
    [(8, 1, 8), (8, 4, 8), (8, 8, 8), (8, 9, 18), (3, 256, 512)],
)
def test_too_few_prompts_fill_every_slot_twice(prompts: int, batch_size: int, requests: int):
    assert num_requests(prompts, batch_size) == requests


def test_every_context_is_a_block_of_its_own_and_none_is_as_it_was():
    plain, padded = grid(repeats=1), grid(repeats=1, context_lengths=[64, 256])
    assert len(padded.cells) == 2 * len(plain.cells)
    assert {cell.context_length for cell in plain.cells} == {None}
    blocks = [(block, cells) for block, cells in padded.blocks()]
    assert sorted(block[-1] for block, _ in blocks) == sorted([64, 256] * (len(blocks) // 2))
    for _, cells in blocks:
        assert [cell.baseline for cell in cells] == ["first", *[None] * 6, "last"]
        assert len({cell.context_length for cell in cells}) == 1


def test_contexts_beyond_the_targets_are_dropped_and_listed():
    made = grid(repeats=1, temperatures=[0.0], batch_sizes=[1], context_lengths=[64, 256])
    config = SweepConfig(drafters=["ngram"], gammas=[1, 2, 4], max_new_tokens=12)
    assert made.within(256 + 12 + 4 + 1, config, "native") == made
    kept = made.within(256 + 12 + 4, config, "native")
    assert {cell.context_length for cell in kept.cells} == {64}
    gone = {c.cell_id for c in made.cells if c.context_length == 256 and not c.is_baseline}
    assert {entry["cell"] for entry in kept.dropped} == gone
    assert kept.reasons == ["context 256 with output and draft is beyond the target's 272"]
    assert made.within(1, config, "another").cells == made.cells
    with pytest.raises(SpecbenchError, match="no cell can be measured: context 64 with"):
        made.within(64, config, "native")


def test_prompts_as_they_are_are_never_dropped_for_their_context():
    made = grid(repeats=1)
    assert made.within(1, SweepConfig(), "native") == made


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"drafters": ["synthetic:0.8"], "temperatures": [1.0]},
            "synthetic drafters replay greedy output",
        ),
    ],
)
def test_nothing_left_is_one_line_that_says_why(options: dict[str, Any], reason: str):
    with pytest.raises(SpecbenchError) as caught:
        grid(**options)
    assert str(caught.value).startswith(f"no cell can be measured: {reason}")
    assert str(caught.value).count(reason) == 1


@pytest.mark.parametrize(
    "spec",
    [
        "ngram:4",
        "ngram,max=0",
        "ngram,min=4,max=2",
        "ngram,match=last",
        "early-exit",
        "early-exit:0",
        "early-exit:x",
        "synthetic",
        "synthetic:1.5",
        "synthetic:x",
        "model:",
        "ngram,size=2",
        "synthetic:0.5,cost=synthetic:0.5",
    ],
)
def test_a_spec_that_cannot_be_right_is_refused_before_anything_is_loaded(spec: str):
    with pytest.raises(SpecbenchError) as caught:
        grid(drafters=[spec])
    assert spec.partition(":")[0].partition(",")[0] in str(caught.value)


def test_the_spec_inside_a_spec_is_checked_too():
    with pytest.raises(SpecbenchError) as caught:
        grid(drafters=["synthetic:0.5,cost=ngram,max=0"])
    assert "max=0" in str(caught.value)


SHAPE = {"target": "shape:llama-3.2-1b", "temperatures": [0.0]}


@pytest.mark.parametrize("spec", ["ngram", "early-exit:2", "eagle:some/head", "eagle:shape"])
def test_on_random_weights_only_synthetic_drafters_are_measured(spec: str):
    with pytest.raises(SpecbenchError) as caught:
        grid(**SHAPE, drafters=[spec])
    assert "would be accepted by chance" in caught.value.message
    assert f"synthetic:A,cost={spec}" in caught.value.hint
    made = grid(**SHAPE, drafters=[f"synthetic:0.8,cost={spec}"])
    assert {cell.drafter for cell in made.cells} == {"none", f"synthetic:0.8,cost={spec}"}


@pytest.mark.parametrize("spec", ["medusa:shape", "model:shape:llama-3.2-1b"])
def test_a_drafter_with_random_weights_is_refused_on_real_ones_too(spec: str):
    with pytest.raises(SpecbenchError) as caught:
        grid(target="org/real", drafters=[spec])
    assert "the weights of the drafter are random" in caught.value.message
    grid(target="org/real", drafters=[f"synthetic:0.8,cost={spec}"])


def test_a_shape_alone_is_measured_with_an_eagle_head_at_three_alphas():
    made = plan(SweepConfig(target="shape:llama-3.2-1b", tasks=["chat"]), TASKS)
    assert {cell.drafter for cell in made.cells if not cell.is_baseline} == {
        f"synthetic:{alpha},cost=eagle:shape" for alpha in (0.6, 0.8, 0.9)
    }
    assert {cell.temperature for cell in made.cells} == {0.0}
