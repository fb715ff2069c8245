"""The hub source: local folders, and a hub that streams, refuses, or is not there.

The hub here is a small server on this machine that speaks just enough of the protocol. Since the
client libraries read their settings on import, each case is a process of its own.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.arrow_writer import ArrowWriter

from specbench.workloads import load_workload
from specbench.workloads.hub import _within
from specbench.workloads.sources import scrambled

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TASK = f"""
description = "A task of the tests"
version = 1
licence = "Apache-2.0"
template = "Say {{what}}"
[offline]
file = "own.jsonl"
[hub]
dataset = "DATASET"
split = "test"
revision = "{COMMIT}"
licence = "MIT"
columns = {{ what = "pair.en" }}
"""
CARD = b"""---
dataset_info:
  features:
  - name: pair
    struct:
    - name: en
      dtype: string
    - name: de
      dtype: string
  splits:
  - name: train
  - name: test
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*
---
"""
PROGRAM = """
import sys
from specbench.workloads import hub, load_workload
hub.CONNECT_SECONDS = hub.ROW_SECONDS = 100.0  # a busy machine is no silent hub
for path in sys.argv[1:]:
    [workload] = load_workload(path, limit=2)
    print(workload.source, workload.notice, [prompt.id for prompt in workload.prompts], sep="|")
"""


def parquet() -> bytes:
    rows = [{"en": f"word {i}", "de": f"Wort {i}"} for i in range(30)]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"pair": rows}), buffer)
    return buffer.getvalue()


def task_file(folder: Path, dataset: str) -> Path:
    (folder / "own.jsonl").write_text('{"id": "own-1", "what": "hello"}\n', encoding="utf-8")
    path = folder / "own.toml"
    path.write_text(TASK.replace("DATASET", dataset), encoding="utf-8")
    return path


class Hub(http.server.BaseHTTPRequestHandler):
    """One data set, ``lab/pairs``, which notes what is asked of it."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {
        "README.md": CARD,
        "data/test-00000.parquet": parquet(),
        "data/train-00000.parquet": b"not to be touched",
    }
    requested: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.requested.append(path)
        if path == "/":
            self.answer(200, b"")
        elif path.startswith("/datasets/lab/pairs/resolve/"):
            self.file(path.split("/", 6)[-1])
        elif "/tree/" in path:
            inside = path.partition("/tree/")[2].partition("/")[2]
            self.answer(200, json.dumps(self.entries(inside)).encode())
        elif path.startswith("/api/datasets/lab/pairs"):
            siblings = [{"rfilename": name} for name in self.files]
            info = {"_id": "1", "id": "lab/pairs", "sha": COMMIT, "siblings": siblings, "tags": []}
            self.answer(200, json.dumps(info | {"private": False, "downloads": 0}).encode())
        else:
            self.answer(404, b"{}")

    def entries(self, inside: str) -> list[dict]:
        names = [name for name in self.files if name.startswith(inside)]
        files = [
            {"type": "file", "path": n, "size": len(self.files[n]), "oid": self.tag(n)}
            for n in names
        ]
        return files if inside else [*files, {"type": "directory", "path": "data", "oid": "0" * 40}]

    def tag(self, name: str) -> str:
        return hashlib.sha1(self.files[name]).hexdigest()

    def file(self, name: str) -> None:
        commit = {"X-Repo-Commit": COMMIT}
        if name not in self.files:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound", **commit})
        content = self.files[name]
        headers = {"ETag": f'"{self.tag(name)}"', "Accept-Ranges": "bytes", **commit}
        wanted = self.headers.get("Range", "")
        if not wanted:
            return self.answer(200, content, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return self.answer(206, content[start : end + 1], headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(folder: Path, endpoint: str, *paths: Path) -> list[list[str]]:
    """The program's lines, split; it must end well, with nothing on stderr."""
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        "HF_HOME": str(folder / "cache"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    arguments = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line.split("|") for line in done.stdout.splitlines()]


def test_streams_the_pinned_commit_and_only_the_split_wanted(tmp_path: Path, hub: str) -> None:
    Hub.requested.clear()
    [[source, notice, ids]] = run(tmp_path, hub, task_file(tmp_path, "lab/pairs"))
    assert source == f"hub:lab/pairs@{COMMIT[:7]}"
    assert notice == "None"
    assert ids == str([f"own-{i}" for i in scrambled(30)[:2]])
    assert any("test-00000" in path for path in Hub.requested)
    assert not any("/resolve/" in path and "train" in path for path in Hub.requested)


def test_a_data_set_that_the_hub_lacks_is_said(tmp_path: Path, hub: str) -> None:
    [[source, notice, _]] = run(tmp_path, hub, task_file(tmp_path, "lab/gone"))
    assert source == "offline"
    assert notice.startswith(
        f"own: hub:lab/gone@{COMMIT[:7]}: not in the local cache; {hub} did not serve it ("
    )
    assert "using the offline prompts instead" in notice


def test_a_hub_that_is_not_there_is_said_and_the_offline_prompts_serve(tmp_path: Path) -> None:
    endpoint = "http://127.0.0.1:9"  # the discard port: refused
    [[source, notice, ids]] = run(tmp_path, endpoint, task_file(tmp_path, "lab/pairs"))
    assert (source, ids) == ("offline", "['own-1']")
    assert f"not in the local cache; {endpoint} cannot be reached (" in notice
    assert notice.endswith("2 prompts asked for, 1 found in the offline prompts")


def test_a_hub_switched_off_is_said(tmp_path: Path) -> None:
    [workload] = load_workload(str(task_file(tmp_path, "lab/pairs")), limit=1)
    assert workload.source == "offline"
    assert workload.notice == (
        f"own: hub:lab/pairs@{COMMIT[:7]}: not in the local cache; the hub is switched off "
        "(HF_HUB_OFFLINE or HF_DATASETS_OFFLINE); using the offline prompts instead"
    )


@pytest.mark.parametrize("commit", [COMMIT, "f" * 40])
def test_the_cache_serves_the_pinned_commit_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    """A cache as `load_dataset` leaves it: lab___pairs/default/0.0.0/COMMIT."""
    folder = tmp_path / "cache" / "lab___pairs" / "default" / "0.0.0" / commit
    folder.mkdir(parents=True)
    table = datasets.Dataset(pa.table({"pair": [{"en": f"word {i}"} for i in range(30)]}))
    with ArrowWriter(features=table.features, path=str(folder / "pairs-test.arrow")) as writer:
        writer.write_table(table.data.table)
        writer.finalize()
    info = datasets.DatasetInfo(
        features=table.features,
        builder_name="parquet",
        dataset_name="pairs",
        config_name="default",
        version="0.0.0",
        splits={"test": {"name": "test", "num_examples": 30, "dataset_name": "pairs"}},
    )
    info.write_to_directory(str(folder))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))

    [workload] = load_workload(str(task_file(tmp_path, "lab/pairs")), limit=1)
    if commit == COMMIT:
        assert (workload.source, workload.notice) == (f"hub:lab/pairs@{COMMIT[:7]}", None)
        assert workload.prompts[0].turns == (f"Say word {scrambled(30)[0]}",)
    else:
        assert workload.source == "offline"
        assert workload.notice is not None
        assert "the local cache holds commit fffffff" in workload.notice


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_local_folder_is_read_without_any_hub(tmp_path: Path, form: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [{"pair": {"en": f"word {i}"}} for i in range(30)]
    if form == "parquet":
        (data / "test.parquet").write_bytes(parquet())
    else:
        (data / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    [workload] = load_workload(str(task_file(tmp_path, str(data))), limit=2)
    assert workload.source == f"folder:{data}"
    assert workload.notice is None
    first = scrambled(30)[0]
    assert workload.prompts[0].turns == (f"Say word {first}",)


def test_a_folder_without_data_is_said(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    [workload] = load_workload(str(task_file(tmp_path, str(data))), limit=1)
    assert workload.source == "offline"
    assert workload.notice is not None
    assert f"folder {data} cannot be read" in workload.notice


def test_a_hub_that_stalls_between_two_rows_is_not_waited_for() -> None:
    stalled = threading.Event()

    def rows() -> Iterator[dict[str, str]]:
        yield {"id": "first"}
        stalled.wait(60.0)

    with pytest.raises(TimeoutError):
        _within(0.2, rows())
    stalled.set()
    assert _within(60.0, iter([{"id": "a"}, {"id": "b"}])) == [{"id": "a"}, {"id": "b"}]
