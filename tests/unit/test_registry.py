"""The registry: plug-ins are found by file name, described without being imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specbench import registry
from specbench.backends.spec import Facts, facts_of
from specbench.errors import SpecbenchError

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("drafters", "backends", "plots", "tasks", "shapes")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("drafters", {"ngram", "model", "early-exit", "synthetic"}),
        ("backends", {"native"}),
        ("plots", {"speedup-vs-alpha", "speedup-vs-gamma"}),
        ("tasks", {"translation", "summarization", "code", "chat", "json", "rag", "story"}),
        ("shapes", {"llama-3.1-8b", "qwen3-30b-a3b", "t5-xxl"}),
    ],
)
def test_what_is_there_is_listed_by_name(kind: registry.Kind, expected: set[str]):
    assert expected <= set(registry.names(kind))
    assert "base" not in registry.names(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_listed_has_a_description_of_one_line(kind: registry.Kind):
    for name in registry.names(kind):
        description = registry.describe(kind, name)
        assert description.strip(), name
        assert "\n" not in description, name


@pytest.mark.parametrize("kind", ["drafters", "backends", "plots"])
def test_everything_listed_can_be_loaded(kind: registry.Kind):
    for name in registry.names(kind):
        module = registry.load(kind, name)
        assert module.__name__ == f"specbench.{kind}.{name.replace('-', '_')}"
        if kind == "drafters":
            assert hasattr(module, "DRAFTER"), f"{name} is listed but is no drafter"


@pytest.mark.parametrize("name", registry.names("backends"))
def test_facts_are_read_from_the_source(name: str):
    assert registry.facts("backends", name) == registry.load("backends", name).FACTS
    assert facts_of(name) != Facts()


def test_facts_need_no_import():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from specbench.backends.spec import facts_of;"
            "print([facts_of(kind).loads_weights for kind in ('native', 'vllm')]);"
            "print('torch' in sys.modules, 'specbench.backends.native' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert told.stdout.split("\n")[:2] == ["[True, False]", "False False"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_is_answered_with_the_list(kind: registry.Kind):
    with pytest.raises(SpecbenchError) as caught:
        registry.path(kind, "no-such-thing")
    assert "'no-such-thing'" in caught.value.message
    assert caught.value.hint.endswith(", ".join(registry.names(kind)))


def test_a_close_name_is_suggested():
    with pytest.raises(SpecbenchError, match="Did you mean 'early-exit'"):
        registry.load("drafters", "earlyexit")


def test_listing_and_describing_start_neither_torch_nor_numpy():
    program = (
        "import sys; from specbench import registry\n"
        f"for kind in {KINDS}:\n"
        "    [registry.describe(kind, name) for name in registry.names(kind)]\n"
        "print(sorted({'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_a_new_file_is_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "drafters"
    folder.mkdir()
    for name in ("my_new_one.py", "base.py", "_helper.py", "__init__.py", "notes.txt"):
        (folder / name).write_text('"""What it is.\n\nMore."""\nraise RuntimeError\n')
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path)
    assert registry.names("drafters") == ["my-new-one"]
    assert registry.describe("drafters", "my-new-one") == "What it is."


def test_tasks_are_found_in_a_checkout_and_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "specbench"
    package.mkdir()
    monkeypatch.setattr(registry, "_PACKAGE", package)
    assert registry.tasks_dir() == tmp_path / "tasks"
    (package / "_tasks").mkdir()
    assert registry.tasks_dir() == package / "_tasks"
