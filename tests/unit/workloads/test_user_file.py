"""The user's own prompts: every accepted form, and one clear line per mistake."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import load_workload


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_reads_the_three_forms_in_file_order(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mine.jsonl",
        {"prompt": "Name a river."},
        {"id": "two", "category": "trips", "turns": ["Plan a trip.", "Make it cheaper."]},
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello?"},
            ]
        },
    )
    [workload] = load_workload(str(file), limit=10)
    one, two, three = workload.prompts
    assert (one.id, one.category, one.turns) == ("mine-1", "mine", ("Name a river.",))
    assert (two.id, two.category, len(two.turns)) == ("two", "trips", 2)
    assert (three.turns, three.system) == (("Hello?",), "Be brief.")
    assert workload.name == one.task == "mine"
    assert workload.notice is None


def test_source_is_the_file_name_and_its_hash(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", {"prompt": "Hello"})
    [workload] = load_workload(str(file), limit=1)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert workload.source == workload.prompts[0].source == f"file:mine.jsonl sha256:{digest}"


def test_answers_in_messages_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Recorded answer"},
        {"role": "user", "content": "Two"},
    ]
    [workload] = load_workload(str(write(tmp_path / "m.jsonl", {"messages": messages})), limit=1)
    assert workload.prompts[0].turns == ("One", "Two")
    assert workload.notice is not None
    assert "assistant messages" in workload.notice


def test_a_question_file_gives_one_workload_per_category(tmp_path: Path) -> None:
    rows = [
        {"question_id": 81 + i, "category": category, "turns": ["a", "b"], "reference": ["r"]}
        for i, category in enumerate(["writing", "writing", "writing", "rag"])
    ]
    workloads = load_workload(str(write(tmp_path / "question.jsonl", *rows)), limit=2)
    assert [workload.name for workload in workloads] == ["question:writing", "question:rag"]
    assert [[p.id for p in workload.prompts] for workload in workloads] == [["81", "82"], ["84"]]
    assert workloads[0].prompts[0].task == "question:writing"
    assert workloads[0].prompts[0].category == "writing"


def test_blank_lines_a_byte_order_mark_and_line_separators_are_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes('\ufeff\n{"prompt": "a\u2028b"}\r\n\n'.encode())
    [workload] = load_workload(str(file), limit=5)
    assert [(p.id, p.turns) for p in workload.prompts] == [("mine-2", ("a\u2028b",))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "mine.jsonl' is empty"),
        (b"\n \n", "mine.jsonl' is empty"),
        (b'{"prompt": "a"}\n{"prompt": "b"\n', "mine.jsonl:2 is malformed JSON"),
        (b"hello\n", "mine.jsonl:1 is malformed JSON"),
        (b'["a"]\n', "mine.jsonl:1 is a JSON array, not an object"),
        (b'{"prompt": "a"}\n{"text": "b"}\n', "mine.jsonl:2 has no prompt, turns or messages"),
        (b'{"prompt": "  "}\n', "mine.jsonl:1 has an empty prompt"),
        (b'{"turns": ["a", ""]}\n', "mine.jsonl:1 has an empty prompt"),
        (b'{"turns": []}\n', "mine.jsonl:1 has no user turn"),
        (b'{"turns": "a", "prompt": "a"}\n', "mine.jsonl:1 has both prompt and turns"),
        (b'{"prompt": 7}\n', "mine.jsonl:1 has a prompt that is int, not text"),
        (b'{"prompt": null}\n', "mine.jsonl:1 has a prompt that is NoneType, not text"),
        (b'{"messages": ["a"]}\n', "mine.jsonl:1 has messages that are no list of objects"),
        (b'{"messages": [{"role": "tool", "content": "a"}]}\n', "of role 'tool' at position 0"),
        (b'{"messages": [{"role": "user"}]}\n', "mine.jsonl:1 has a message without content"),
        (b'{"prompt": "a", "id": null}\n', "mine.jsonl:1 has the id None"),
        (b'{"prompt": "a", "category": ["b"]}\n', "mine.jsonl:1 has the category ['b']"),
        (b'{"id": 1, "prompt": "a"}\n{"id": "1", "prompt": "b"}\n', "mine.jsonl:2 repeats the id"),
        (b'{"prompt": "a"}\n{"prompt": "caf\xe9"}\n', "mine.jsonl:2 is not UTF-8 (byte 0xe9)"),
        (b"[" * 100_000, "mine.jsonl:1 is malformed JSON"),
    ],
)
def test_a_mistake_is_one_error_that_names_file_and_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "mine.jsonl").write_bytes(content)
    with pytest.raises(SpecbenchError) as caught:
        load_workload(str(tmp_path / "mine.jsonl"), limit=3)
    assert message in caught.value.message
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_bad_line_beyond_the_limit_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", {"prompt": "a"}, {"prompt": ""})
    with pytest.raises(SpecbenchError, match=r"mine\.jsonl:2 has an empty prompt"):
        load_workload(str(file), limit=1)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"gone\.jsonl' not found"):
        load_workload(str(tmp_path / "gone.jsonl"), limit=1)
    with pytest.raises(SpecbenchError, match="is a folder, not a prompt file"):
        load_workload(str(tmp_path), limit=1)
