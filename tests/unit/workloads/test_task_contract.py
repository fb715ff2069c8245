"""The contract of every task file: a new one is tested by lying in the folder."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator

import pytest

from specbench import registry
from specbench.workloads import load_workload
from specbench.workloads.jsonl import parse_rows, read_bytes
from specbench.workloads.task_file import ROW_KEYS, TaskFile, read_task_file

TASKS = registry.names("tasks")

#: Words per conversation, template included; a task that is not here gets the default.
WORDS = {"summarization": (200, 550), "json": (150, 450), "translation": (20, 150)}
DEFAULT_WORDS = (25, 600)


def read(name: str) -> TaskFile:
    return read_task_file(registry.path("tasks", name))


def offline_rows(name: str) -> list[dict]:
    path = read(name).offline_path
    return [row.fields for row in parse_rows(read_bytes(path), path)]


def texts(value: object) -> Iterator[str]:
    """All prose of a row; a text that is itself JSON (a schema) is no prose."""
    if isinstance(value, str):
        if not value.startswith("{"):
            yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def five_grams(row: dict) -> set[tuple[str, ...]]:
    prose = {key: value for key, value in row.items() if key not in ROW_KEYS}
    words = re.findall(r"\w+", " ".join(texts(prose)).lower())
    return set(zip(*(words[i:] for i in range(5)), strict=False))


def test_the_main_tasks_are_there() -> None:
    assert {"translation", "summarization", "code", "chat", "json", "rag", "story"} <= set(TASKS)


@pytest.mark.parametrize("name", TASKS)
class TestEveryTask:
    def test_loads_offline_with_at_least_24_prompts(self, name: str) -> None:
        [workload] = load_workload(name, limit=24, source="offline")
        assert (workload.name, workload.source, workload.notice) == (name, "offline", None)
        assert len(workload.prompts) == 24
        assert {(prompt.task, prompt.source) for prompt in workload.prompts} == {(name, "offline")}

    def test_has_version_licence_and_a_description_of_one_line(self, name: str) -> None:
        task = read(name)
        assert task.version >= 1
        assert task.licence == "Apache-2.0"
        assert task.description == registry.describe("tasks", name)
        assert "\n" not in task.description

    def test_pins_its_data_set_to_a_commit(self, name: str) -> None:
        task = read(name)
        assert task.hub is None or re.fullmatch("[0-9a-f]{40}", task.hub.revision)

    def test_ids_are_unique_and_rows_have_only_what_the_template_needs(self, name: str) -> None:
        rows = offline_rows(name)
        assert len({row["id"] for row in rows}) == len(rows)
        for row in rows:
            assert row.keys() - ROW_KEYS == read(name).fields

    def test_prompts_have_a_realistic_length(self, name: str) -> None:
        least, most = WORDS.get(name, DEFAULT_WORDS)
        [workload] = load_workload(name, limit=1000, source="offline")
        for prompt in workload.prompts:
            assert least <= sum(len(turn.split()) for turn in prompt.turns) <= most, prompt.id

    def test_no_two_prompts_are_alike(self, name: str) -> None:
        grams = {row["id"]: five_grams(row) for row in offline_rows(name)}
        for (a, grams_a), (b, grams_b) in itertools.combinations(grams.items(), 2):
            shared = len(grams_a & grams_b) / min(len(grams_a), len(grams_b))
            assert shared < 0.05, f"{a} and {b} share {shared:.0%} of their 5-grams"


def test_chat_has_two_turns_and_eight_categories_that_take_turns() -> None:
    [workload] = load_workload("chat", limit=16, source="offline")
    assert {len(prompt.turns) for prompt in workload.prompts} == {2}
    first = [prompt.category for prompt in workload.prompts[:8]]
    assert sorted(first) == sorted(
        ["writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"]
    )
    assert [prompt.category for prompt in workload.prompts[8:]] == first


def test_code_prompts_are_python_up_to_the_missing_body() -> None:
    for row in offline_rows("code"):
        last = row["prompt"].rpartition("\n")[2]
        indent = len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0)
        assert ast.parse(f"{row['prompt']}\n{' ' * indent}pass").body, row["id"]


def test_json_schemas_are_schemas_of_objects() -> None:
    for row in offline_rows("json"):
        schema = json.loads(row["schema"])
        assert schema["type"] == "object"
        assert schema["required"] == list(schema["properties"])
        assert len(schema["properties"]) >= 5
