"""``specbench train-drafter`` on a tiny chat model, from prompts to drafters that run."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from specbench.cli._training_view import TrainingView, check_line
from specbench.cli.main import main
from specbench.training import session
from specbench.training.order import Order
from specbench.training.prompts import PROMPTS_FILE
from specbench.training.state import Progress
from tests.cli.conftest import Result
from tests.tiny_target import write_prompts, write_target

STEPS = {"eagle": 30, "eagle3": 30, "medusa": 120, "model": 25}
SIZES = (
    "--corpus answers --prompts mine.toml --tokens 2500 --max-new-tokens 16 --vocab 100 --threads 1"
    " --device cpu"
)
# the built-in grammar from a start of its own: what is learned here does not hang on its weights
START = 5 * ["{chat}"] + 3 * ["{code}"] + 3 * ["{translation}"] + 3 * ["{summarization}"]
START += ["{extraction}", "{lookup}", "{story}", "{source}", "{source}"]


def options(kind: str, out: str, *more: str) -> list[str]:
    return [
        "train-drafter",
        "--kind",
        kind,
        "--target",
        "tiny",
        "--out",
        out,
        *SIZES.split(),
        *more,
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_target(folder / "tiny", chat=True)
    write_prompts(folder / "mine.jsonl")
    rules = PROMPTS_FILE.read_text(encoding="utf-8")
    start = f"prompt = {json.dumps(START)}\n"
    own = re.sub(r"(?ms)^prompt = \[.*?^\]\n", lambda _: start, rules, count=1)
    (folder / "mine.toml").write_text(own, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(home)


@pytest.fixture(scope="module")
def trained(home: Path) -> dict[str, Result]:
    """Every kind, one after the other, from one corpus."""
    results = {}
    for kind, steps in STEPS.items():
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(home),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ending,
        ):
            main(options(kind, kind, "--steps", str(steps)))
        results[kind] = Result(int(ending.value.code or 0), out.getvalue(), err.getvalue())
    return results


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("kind", STEPS)
def test_training_ends_with_the_command_to_type(home: Path, trained: dict[str, Result], kind: str):
    result = trained[kind]
    assert result.code == 0, result.err
    assert result.out.splitlines()[1:] == [
        f"written to {kind}",
        f"next: specbench run --target tiny --drafter {kind}:{kind}",
    ]
    assert "Traceback" not in result.err
    assert "answers to learn from, " in result.err
    assert ("collected " in result.err) == (kind == "eagle"), "the corpus serves every kind"
    assert not (home / kind / "training.pt").exists()


@pytest.mark.parametrize("kind", STEPS)
def test_training_improves_acceptance_on_kept_out_prompts(
    home: Path, trained: dict[str, Result], kind: str
):
    first, *_, last = facts(home / kind)["checks"]  # one more every two minutes
    assert last["step"] == STEPS[kind]
    for before, after in zip(first["overlap"], last["overlap"], strict=True):
        assert after > before + 0.005
    assert sum(last["greedy"]) >= sum(rate or 0.0 for rate in first["greedy"]) - 0.05
    assert trained[kind].out.splitlines()[0] == check_line(Progress(checks=[last]))


def test_the_drafters_run_and_change_no_output(specbench, home: Path, trained: dict[str, Result]):
    drafters = [word for kind in STEPS for word in ("--drafter", f"{kind}:{kind}")]
    sizes = "--gamma 2 --temperature 0 --prompts 6 --max-new-tokens 8 --task mine.jsonl --out run"
    result = specbench(
        "run", "--target", "tiny", *drafters, *sizes.split(), "--threads", "1", "--device", "cpu"
    )
    assert result.code == 0, result.err
    lines = (home / "run" / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    cells = [cell for cell in map(json.loads, lines) if cell["drafter"] != "none"]
    assert {cell["drafter"] for cell in cells} == {f"{kind}:{kind}" for kind in STEPS}
    assert [cell["lossless"] for cell in cells] == ["identical"] * 4
    assert all(cell["alpha"] > 0 for cell in cells)


def test_what_is_measured_before_training_does_not_depend_on_how_long_it_takes(
    specbench, home: Path, trained: dict[str, Result]
):
    result = specbench(*options("eagle", "short", "--steps", "1"))
    assert result.code == 0, result.err
    first, *_, last = facts(home / "short")["checks"]
    assert last["step"] == 1
    assert first["overlap"] == facts(home / "eagle")["checks"][0]["overlap"]
    shutil.rmtree(home / "short")


def test_a_training_goes_on_from_a_checkpoint(specbench, home: Path, trained):
    for kind in STEPS:
        result = specbench(*options(kind, f"more-{kind}", "--from", kind, "--steps", "2"))
        assert result.code == 0, result.err
        before, more = facts(home / kind), facts(home / f"more-{kind}")
        assert more["checks"][0]["overlap"] == pytest.approx(before["checks"][-1]["overlap"])
        assert (more["start"], more["earlier"]["steps"]) == (kind, STEPS[kind])
    result = specbench(*options("eagle", "refused", "--from", "nowhere/", "--steps", "2"))
    assert result.code == 2
    assert "no such head: 'nowhere/'" in result.err.splitlines()[-1]


def test_a_draft_vocabulary_is_at_most_the_targets(specbench, home: Path, trained):
    for kind in ("eagle", "eagle3"):
        result = specbench(*options(kind, f"wide-{kind}", "--vocab", "100000", "--steps", "1"))
        assert result.code == 0, result.err
        config = json.loads((home / f"wide-{kind}" / "config.json").read_text())
        assert config["draft_vocab_size"] == 259


def test_ctrl_c_says_how_to_go_on(specbench, trained, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "train", interrupted)
    result = specbench(*options("eagle", "unfinished"))
    assert result.code == 130
    assert result.err.splitlines()[-1] == (
        "interrupted. Finished shards of answers and steps of training are kept: type the same"
        " command again to go on"
    )


def test_a_state_of_another_kind_is_refused(specbench, home: Path, trained):
    def stop(progress: Progress, share: float) -> None:
        raise SystemExit(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "write_checkpoint", lambda *_: stop(Progress(), 1.0))
        assert specbench(*options("medusa", "half", "--steps", "1")).code == 0
    assert (home / "half" / "training.pt").exists()
    result = specbench(*options("eagle", "half", "--steps", "1"))
    assert result.code == 2
    assert "training with kind = 'medusa', not 'eagle'" in result.err.splitlines()[-1]


def test_answers_to_other_prompts_are_no_corpus_of_these(specbench, home: Path, trained):
    (home / "other.toml").write_text('prompt = ["{word}"]\nword = ["tea", "rain"]\n')
    words = options("medusa", "refused", "--steps", "1")
    for given in (["--prompts", "other.toml"], []):  # without the option they are the built-in ones
        at = words.index("--prompts")
        words[at : at + 2] = given
        result = specbench(*words)
        assert result.code == 2
        assert "the corpus answers answers the prompts of mine.toml (SHA-256 " in result.err
        assert not (home / "refused").exists()
        words[at:at] = ["--prompts", "other.toml"]


def test_each_grammar_has_a_default_corpus_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch):
    folders: list[str] = []

    def noted(order: Order, *_: object) -> None:
        folders.append(str(order.corpus))
        raise SystemExit(0)

    monkeypatch.setattr(session, "train_drafter", noted)
    command = ["train-drafter", "--kind", "eagle", "--target", "a/tiny", "--out", "x/eagle"]
    for more in ([], ["--prompts", "mine.toml"], ["--corpus", "c", "--prompts", "mine.toml"]):
        with pytest.raises(SystemExit):
            main([*command, *more])
    assert folders == ["x/corpus-tiny", "x/corpus-tiny-mine", "c"]


def test_a_card_names_the_file_of_outputs(specbench, home: Path, trained):
    lines = [
        {"prompt_ids": [number], "output_ids": [7, 8, 9], "temperature": 0.7}
        for number in range(60)
    ]
    (home / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = options("medusa", "trusting", "--steps", "1", "--outputs", "own.jsonl")
    words[words.index("--corpus") + 1] = "own"
    at = words.index("--prompts")
    del words[at : at + 2]
    words[words.index("--tokens") + 1] = "100"
    result = specbench(*words)
    assert result.code == 0, result.err
    card = (home / "trusting" / "README.md").read_text(encoding="utf-8")
    assert "- Data: 60 answers of two tokens or more, 0 of them greedy" in card
    assert "- Corpus: 60 from the file own.jsonl (SHA-256 " in card
    assert "taken on trust as the target's" in card
    assert facts(home / "trusting")["corpus"]["sources"][0]["file"] == "own.jsonl"


def write_outputs(file: Path, ids: list[int]) -> None:
    line = {"prompt_ids": [5, 6], "output_ids": ids, "temperature": 0.0}
    file.write_text(json.dumps(line) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--kind": "tree"}, "--kind 'tree' is unknown. Choose eagle, eagle3, medusa, model"),
        ({"--minutes": "nan"}, "--minutes nan is not usable"),
        ({"--minutes": "0"}, "--minutes 0 is not usable"),
        ({"--seed": "99999999999999999999999"}, "--seed 99999999999999999999999 is not usable"),
        ({"--threads": "100000"}, "--threads 100000 is not usable"),
        ({"--out": "medusa"}, "medusa holds a checkpoint already. Give another --out"),
        ({"--out": "mine.jsonl"}, "cannot make the folder mine.jsonl: File exists"),
        ({"--target": "nowhere/"}, "nowhere/"),
        ({"--target": "other"}, "the corpus answers was made with target = 'tiny', not 'other'"),
        ({"--outputs": "nowhere.jsonl"}, "cannot read the outputs in nowhere.jsonl: "),
        ({"--outputs": "mine.jsonl"}, "mine.jsonl, line 1, has no 'prompt_ids'"),
        ({"--outputs": "foreign.jsonl"}, "the outputs hold the token id 999, and target tiny has"),
        ({"--prompts": "mine.jsonl"}, "cannot read the prompt grammar mine.jsonl: "),
        ({"--device": "tpu"}, "unknown device 'tpu'. Use auto, cpu, cuda or cuda:N"),
        (
            {"--outputs": "few.jsonl", "--corpus": "few", "--tokens": "1"},
            "nothing in mine.toml would be asked: the outputs in few have 3 tokens already",
        ),
        ({"--target": "plain", "--corpus": "new"}, "target plain has no chat template, and the"),
        ({"--target": "bare", "--corpus": "new"}, "tokenizer"),
    ],
)
def test_bad_input_costs_one_line(
    specbench, home: Path, trained, changes: dict[str, str], message: str
):
    write_outputs(home / "foreign.jsonl", [999])
    write_outputs(home / "few.jsonl", [1, 2, 3])
    for name, chat in (("other", True), ("plain", False), ("bare", True)):
        if not (home / name).exists():
            write_target(home / name, chat=chat)
    for file in (home / "bare").glob("tokenizer*"):
        file.unlink()
    words = options("medusa", "refused", "--steps", "1")
    for option, value in changes.items():
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    result = specbench(*words)
    assert result.code == 2, result.err
    lines = [
        line for line in result.err.splitlines() if not line.startswith(("collect", "answers: "))
    ]
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert not (home / "refused").exists()


def test_the_view_says_where_a_training_goes_on_and_not_its_old_checks():
    stream = io.StringIO()
    checks = [{"step": step, "greedy": [0.5], "overlap": [0.25]} for step in (0, 7)]
    with TrainingView(stream, lambda: 0.0) as view:
        view.training(Progress(6, 1.0, 2.0, checks[:1]), 0.5)
        view.training(Progress(7, 1.0, 2.0, checks), 0.6)
    assert stream.getvalue().splitlines() == [
        "going on at step 6",
        "training: step 6, loss 2.000",
        "step 7, kept out: greedy .500; overlap .250",
    ]


def test_the_view_says_a_line_a_minute_and_each_check():
    stream, now = io.StringIO(), iter([0.0, 10.0, 70.0, 140.0, 141.0])
    with TrainingView(stream, lambda: next(now)) as view:
        view.collecting(1000, 3000)
        view.collecting(2000, 3000)
        view.collecting(2500, 3000)
        view.collecting(9000, 3000)
        check = {"step": 4, "greedy": [0.5, None], "overlap": [0.25, 0.125]}
        view.training(Progress(1, 1.0, 2.0, [check]), 0.5)
    assert stream.getvalue().splitlines() == [
        "collecting answers: 1,000 of 3,000 tokens",
        "collecting answers: 2,500 of 3,000 tokens",
        "answers: 9,000 tokens, enough",
        "step 4, kept out: greedy .500 -; overlap .250 .125",
    ]
