from __future__ import annotations

import json
import math
import re

import pytest
from pydantic import ValidationError

from specbench.records.schema import CellRecord, Manifest
from tests.unit.records import samples


def test_cell_id_is_readable_and_tells_every_field_apart() -> None:
    assert re.fullmatch(r"chat-t0-b1-r0-ngram-g2-[0-9a-f]{6}", samples.cell().cell_id)
    changes = [
        {},
        {"target": "n"},
        {"drafter": "ngram,max=3"},
        {"gamma": 3},
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.9},
        {"batch_size": 2},
        {"task": "code"},
        {"backend": "vllm"},
        {"repeat": 1},
        {"seed": 1},
        {"context_length": 512},
        {"context_length": 2048},
        {"drafter": "none", "gamma": 0, "baseline": "first"},
        {"drafter": "none", "gamma": 0, "baseline": "last"},
    ]
    ids = {samples.cell(**change).cell_id for change in changes}
    assert len(ids) == len(changes)


def test_cell_id_never_changes() -> None:
    # a changed id would orphan the cells of every run on disk
    assert samples.cell().cell_id == "chat-t0-b1-r0-ngram-g2-364c2e"
    assert samples.cell(temperature=0).cell_id == samples.cell().cell_id
    assert samples.cell(context_length=None).cell_id == samples.cell().cell_id
    copy = samples.cell().model_copy(update={"temperature": 1})
    assert copy.cell_id == samples.cell(temperature=1.0).cell_id


@pytest.mark.parametrize(
    "name", ["/home/me/My Prompts.jsonl", "model:ORG/NAME", "..", "a" * 300, "été|<>:*?", ""]
)
def test_cell_id_is_safe_in_any_file_system(name: str) -> None:
    made = samples.cell(task=name, drafter=name).cell_id
    assert re.fullmatch(r"[a-z0-9.-]+", made)
    assert not made.startswith((".", "-"))
    assert len(made) < 120


def test_block_is_what_baselines_are_shared_by() -> None:
    point = samples.cell(temperature=0.7, batch_size=4, repeat=2, top_k=5, top_p=0.9)
    assert point.block == ("chat", 0.7, 4, 2, 5, 0.9, "native")
    baseline = samples.cell(
        temperature=0.7, batch_size=4, repeat=2, top_k=5, top_p=0.9, drafter="none", gamma=0
    )
    assert baseline.block == point.block
    assert baseline.is_baseline
    assert not point.is_baseline


def test_cells_are_frozen_and_hashable() -> None:
    point = samples.cell()
    assert {point: 1}[samples.cell()] == 1
    with pytest.raises(ValidationError):
        point.gamma = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": -1},
        {"temperature": -1},
        {"batch_size": 0},
        {"top_p": 0},
        {"top_k": -1},
        {"context_length": 0},
    ],
)
def test_impossible_cells_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        samples.cell(**change)


def test_a_line_has_every_promised_field_and_null_for_the_unmeasured() -> None:
    line = json.loads(CellRecord.of(samples.cell()).model_dump_json())
    promised = set(  # other people's scripts rely on these
        re.findall(
            r"\w+",
            """
        cell_id target drafter gamma temperature top_k top_p batch_size task backend repeat seed
        status error alpha alpha_ci alpha_overlap alpha_by_position survival_by_position
        draft_acceptance_rate tau wall_s prefill_s decode_s ttft_s itl_s tokens tok_per_s speedup
        speedup_ci c v overhead draft_s verify_s other_s memory_peak_bytes memory_capacity_bytes
        bandwidth_bytes_per_s bandwidth_utilization energy_j lossless baseline
            """,
        )
    )
    assert promised <= line.keys()
    assert line["alpha"] is None
    assert line["energy_j"] is None


def test_what_is_not_finite_was_not_measured() -> None:
    record = samples.record(
        samples.cell(), alpha=math.nan, c=math.inf, alpha_by_position=[0.5, math.nan]
    )
    assert record.alpha is None
    assert record.c is None
    assert record.alpha_by_position == [0.5, None]
    assert "NaN" not in record.model_dump_json()


def test_a_record_round_trips_with_fields_of_a_newer_version() -> None:
    record = samples.record(samples.cell(), alpha_ci=(0.4, 0.6), entropy=1.5)
    again = CellRecord.model_validate_json(record.model_dump_json())
    assert again == record
    assert again.model_dump()["entropy"] == 1.5
    assert again.cell == samples.cell()
    assert again.cell.cell_id == again.cell_id
    assert again.updated(speedup=1.5).speedup == 1.5
    manifest = Manifest.model_validate_json(
        samples.manifest(schema_version=7, novelty=[1]).model_dump_json()
    )
    assert (manifest.schema_version, manifest.model_dump()["novelty"]) == (7, [1])


@pytest.mark.parametrize(
    ("drafter", "form"),
    [
        ("none", "chain"),
        ("ngram,max=3", "chain"),
        ("model:d,tree=16", "tree"),
        ("medusa:PATH,tree=trees/a,b.json", "tree"),
        ("eagle:PATH,tree=chain", "chain"),
        ("eagle:PATH,vocab=100,gamma=auto,c=0.1", "adaptive"),
        ("eagle:folder,gamma=auto/x", "chain"),
        ("synthetic:0.8,cost=eagle:PATH,tree=24", "chain"),
        ("synthetic:0.8,cost=eagle:PATH,gamma=auto", "chain"),
    ],
)
def test_the_form_of_a_draft_is_read_from_its_drafter(drafter: str, form: str) -> None:
    point = samples.cell(drafter=drafter)
    assert point.draft_form == form
    assert samples.record(point).draft_form == form
    assert "draft_form" not in point.model_dump()  # so ids stay what they were


def test_what_was_verified_as_a_tree_is_one_whatever_it_is_called() -> None:
    assert samples.record(samples.cell(drafter="medusa"), tree_nodes=8).draft_form == "tree"


def test_a_context_length_is_in_name_and_block_where_there_is_one() -> None:
    padded = samples.cell(context_length=2048)
    assert re.fullmatch(r"chat-t0-b1-r0-c2048-ngram-g2-[0-9a-f]{6}", padded.cell_id)
    assert padded.block == (*samples.cell().block, 2048)
    assert sorted([padded.block, samples.cell().block]) == [samples.cell().block, padded.block]
    assert CellRecord.of(padded).cell == padded


@pytest.mark.parametrize(
    ("drafter", "synthetic"),
    [
        ("synthetic:0.8", True),
        ("synthetic:0.8,cost=eagle:shape", True),
        ("ngram", False),
        ("model:synthetic", False),
        ("none", False),
    ],
)
def test_a_line_says_whose_acceptance_was_set(drafter: str, synthetic: bool) -> None:
    record = CellRecord.of(samples.cell(drafter=drafter))
    line = json.loads(record.model_dump_json())
    assert line["synthetic"] is synthetic
    del line["synthetic"]  # as older versions wrote it
    assert CellRecord(**line).synthetic is synthetic
    assert record.updated(speedup=2.0).synthetic is synthetic
