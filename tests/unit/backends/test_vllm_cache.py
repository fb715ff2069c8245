"""What is written for vLLM is there whole or not at all, whoever writes and however it ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from safetensors.torch import load_file

from specbench.backends._vllm_cache import made_in_cache
from specbench.backends._vllm_drafters import as_vllm_takes_it, eagle_for_vllm
from specbench.backends._vllm_export import for_vllm
from specbench.errors import SpecbenchError
from specbench.weights.finding import resolve
from tests.unit.backends.test_vllm_drafters import write_medusa
from tests.unit.weights.tiny import write_folder

SHA = "a" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vllm"


def write(folder: Path) -> None:
    (folder / "config.json").write_text("{}", encoding="utf-8")
    time.sleep(0.2)
    (folder / "model.safetensors").write_text("weights", encoding="utf-8")


def killed(folder: Path) -> None:
    (folder / "config.json").write_text("", encoding="utf-8")
    os._exit(9)


def is_whole(folder: Path) -> bool:
    return {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors"}


def test_what_a_killed_run_left_is_made_anew(cache: Path):
    run = multiprocessing.get_context("fork").Process(
        target=made_in_cache, args=(SHA, "eagle", {}, killed)
    )
    run.start()
    run.join()
    assert run.exitcode == 9
    folder = made_in_cache(SHA, "eagle", {}, write)
    assert is_whole(folder)
    assert {file for file in cache.iterdir() if file.is_dir()} == {folder}


def test_of_two_runs_one_writes_and_both_have_it_whole():
    writers, ready = [], threading.Barrier(2)

    def one_run() -> bool:
        ready.wait()
        return is_whole(made_in_cache(SHA, "eagle", {}, lambda at: (writers.append(at), write(at))))

    with ThreadPoolExecutor(2) as runs:
        found = [runs.submit(one_run) for _ in range(2)]
    assert [one.result() for one in found] == [True, True]
    assert len(writers) == 1


def test_what_cannot_be_made_leaves_nothing(cache: Path):
    def refuse(folder: Path) -> None:
        (folder / "config.json").write_text("", encoding="utf-8")
        raise SpecbenchError("no heads")

    with pytest.raises(SpecbenchError, match="no heads"):
        made_in_cache(SHA, "eagle", {}, refuse)
    assert not [file for file in cache.iterdir() if file.is_dir()]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(SpecbenchError, match=r"cannot write a drafter for vLLM .* SPECBENCH_CACHE"):
        made_in_cache(SHA, "eagle", {}, write)


@pytest.mark.parametrize("form", ["draft model", "EAGLE", "Medusa"])
def test_an_edited_config_is_taken_up(tmp_path: Path, form: str):
    drafter = tmp_path / "drafter"
    if form == "Medusa":
        write_medusa(drafter, None)
        target = resolve(str(write_folder(tmp_path / "target")))
    else:
        write_folder(drafter)
    file = drafter / "config.json"
    if form == "EAGLE":
        config = json.loads(file.read_text())
        file.write_text(json.dumps({**config, "architectures": None}))

    def made() -> Path:
        if form == "Medusa":
            return as_vllm_takes_it("medusa", str(drafter), target, resolve)[0]
        return (for_vllm if form == "draft model" else eagle_for_vllm)(resolve(str(drafter)))

    before = made()
    assert before not in (drafter, drafter.resolve())
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "rms_norm_eps": 0.5}))
    after = made()
    assert after != before
    if form != "Medusa":  # heads have no such layer: their configuration is made from the weights
        assert json.loads((after / "config.json").read_text())["rms_norm_eps"] == 0.5
    weights = load_file(after / "model.safetensors")
    assert load_file(before / "model.safetensors").keys() == weights.keys()
    file.write_text(json.dumps(config))
    assert made() == before
