"""Greedy texts of two runs or engines in ``specbench compare``, and the target's word on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.analysis.comparing.texts import Answer
from specbench.backends._ties import TieMeter
from specbench.cli.main import main
from specbench.records.reading import load_run
from tests.cli.conftest import Result
from tests.tiny_target import write_prompts, write_target

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native engine and Hugging Face's, greedy and not."""
    folder = tmp_path_factory.mktemp("texts")
    target, prompts = write_target(folder / "tiny"), write_prompts(folder / "mine.jsonl", chats=1)
    words = ["run", "--target", str(target), "--task", str(prompts), "--gamma", "2"]
    words += ["--drafter", "ngram,match=first", "--temperature", "0,1", "--prompts", "7"]
    words += ["--max-new-tokens", "8", "--threads", "1", "--device", "cpu"]
    words += ["--backend", "native", "--backend", "hf-assisted", "--out", str(folder / "run")]
    with pytest.raises(SystemExit) as ending:
        main(words)
    assert ending.value.code == 0
    return folder / "run"


@pytest.fixture
def altered(run: Path, tmp_path: Path) -> Path:
    """The same run, in which prompt lookup wrote another fourth token in two answers."""
    copy = shutil.copytree(run, tmp_path / "altered")
    cells = load_run(copy).of_backend("native").cells
    [cell] = [cell for cell in cells if cell.gamma and cell.temperature == 0]
    file = copy / "requests" / f"{cell.cell_id}.parquet"
    table = pq.ParquetFile(file).read()
    outputs = table["output_ids"].to_pylist()
    for answer in (outputs[1], outputs[-1]):  # the last one is a chat's second turn
        answer[3] = (answer[3] + 1) % 256
    place = table.column_names.index("output_ids")
    column = pa.array(outputs, type=table["output_ids"].type)
    pq.write_table(table.set_column(place, "output_ids", column), file)
    return copy


def texts_of(result: Result) -> dict[tuple[float, int], dict[str, object]]:
    assert result.code == 0, result.err
    cells = json.loads(result.out)["cells"]
    return {(cell["temperature"], cell["gamma"]): cell["text"] for cell in cells}


def test_two_engines_of_one_run_wrote_the_same(specbench: Command, run: Path):
    words = ["compare", str(run), str(run), "--backend-a", "native", "--backend-b", "hf-assisted"]
    told = texts_of(specbench(*words, "--format", "json"))
    same = {"verdict": "identical", "compared": 8, "differ": 0, "why_not": None}
    assert told[0.0, 0] == told[0.0, 2] == same
    assert told[1.0, 2]["verdict"] is None
    document = json.loads(specbench(*words, "--format", "json").out)
    parity = {(one["temperature"], one["gamma"]): one["parity"] for one in document["cells"]}
    assert parity[0.0, 2] is True
    assert parity[0.0, 0] is None, "plain decoding accepts nothing"
    shown = specbench(*words)
    assert [line.split()[-1] for line in shown.out.splitlines() if line.startswith("ngram")] == [
        "=",
        "-",
    ]
    assert "acceptance is the same, within intervals, in " in shown.out
    assert "texts not compared, above temperature 0" in shown.err
    assert "another backend: native" in shown.err
    assert "missing" not in shown.err, "the other engine's cells"
    assert max(map(len, shown.out.splitlines())) <= 80


def test_an_engine_that_a_run_lacks_is_refused(specbench: Command, run: Path):
    line = specbench("compare", str(run), str(run), "--backend-b", "vllm").error_line
    assert "has no cell of backend 'vllm'" in line
    assert "native, hf-assisted" in line


def test_texts_that_part_are_counted_and_the_target_is_asked_why(
    specbench: Command, run: Path, altered: Path, monkeypatch: pytest.MonkeyPatch
):
    words = ["compare", str(run), str(altered), "--backend-a", "native", "--backend-b", "native"]
    shown = specbench(*words)
    assert "≠2" in shown.out
    assert "ngram,match=first γ = 2: 2 of 8 texts differ; --judge tells" in shown.err
    judged = specbench(*words, "--judge", "--format", "json")
    assert texts_of(judged)[0.0, 2]["verdict"] == "DIVERGED"
    assert "DIVERGED at p1 token 3: " in judged.err
    assert "DIVERGED at c0#2 token 3: " in judged.err
    monkeypatch.setattr(TieMeter, "_measure_noise", lambda *_: 1e9)
    judged = specbench(*words, "--judge", "--format", "json")
    assert texts_of(judged)[0.0, 2]["verdict"] == "near-tie"
    assert texts_of(judged)[0.0, 0]["verdict"] == "identical"


@pytest.mark.parametrize(
    ("fact", "value"), [("sha256", "0" * 64), ("quantization", {"method": "int8"})]
)
def test_texts_of_other_weights_are_not_compared(
    specbench: Command, run: Path, altered: Path, fact: str, value: object
):
    file = altered / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["target"][fact] = value
    file.write_text(json.dumps(manifest), encoding="utf-8")
    words = ("compare", str(run), str(altered), "--backend-a", "native", "--backend-b", "native")
    result = specbench(*words, "--judge", "--format", "json")
    text = texts_of(result)[0.0, 2]
    assert text["verdict"] is None
    assert "other weights" in str(text["why_not"])
    assert "DIVERGED" not in result.out + result.err
    if fact == "quantization":
        assert "another quantization of the target: none in" in result.err


def test_the_target_is_not_loaded_where_no_text_parts(
    specbench: Command, run: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("specbench.sweep.judging.make_backend", None)
    assert specbench("compare", str(run), str(run), "--judge").code == 0


def test_a_text_is_another_as_far_as_its_limit_let_it_go():
    short, whole = Answer([1, 2], is_cut=True), Answer([1, 2, 3], is_cut=False)
    assert short.is_of(whole)
    assert whole.is_of(short)
    assert not Answer([1, 2], is_cut=False).is_of(whole)
    assert not Answer([1, 9], is_cut=True).is_of(whole)
    assert not Answer([1, 2, 4], is_cut=True).is_of(Answer([1, 2, 3], is_cut=True))
