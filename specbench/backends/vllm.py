"""vLLM, started and stopped for each drafter and gamma: ``vllm[,start=SECONDS][,timeout=SECONDS]``

A vLLM server drafts with what it was started with. So the sweep's cells are measured server by
server: plain decoding first, then each drafter and gamma in an order drawn from the seed, plain
decoding again last. ``--engine-python PATH`` is the interpreter of an environment with vLLM, and
``--engine-args`` go to every server as they are. ``start`` is how long a server may take until it
is up, 600 seconds by default; ``timeout`` ends the wait for a stream that is silent.

Servers listen on the loopback interface and end with specbench, however it ends. Each has a log in
the run's folder. vLLM's usage reports are switched off.

    specbench run --backend vllm --engine-python ~/vllm/bin/python --drafter ngram,match=first \\
        --gamma 2,4 --batch-size 1,4
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from specbench.backends._served import STOPS_OF_ITS_OWN, UNLIMITED, ServedBackend, seconds_of
from specbench.backends._vllm_drafters import as_vllm_takes_it
from specbench.backends._vllm_options import (
    SAMPLING,
    WITH_WEIGHTS,
    Installed,
    Options,
    lacks_mtp,
    refusal,
)
from specbench.backends.base import EngineOptions
from specbench.backends.spec import BackendSpec
from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.engine.request import Generation, Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.serving.address import Address
from specbench.serving.client import Deadlines
from specbench.serving.process import LOOPBACK, ServerProcess, free_port
from specbench.serving.server import Server
from specbench.weights.finding import resolve
from specbench.weights.progress import Progress
from specbench.weights.shipped import drafter_name, weights_of
from specbench.weights.source import DEFAULT_NAME, ModelSource
from specbench.weights.tokenizer import load_tokenizer

FACTS = {"reads": ("engine_python", "engine_args", "goodput")}

MODULE = "vllm.entrypoints.openai.api_server"
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_PLAIN = "plain"
_WRONG_TOKENS = (
    "vLLM's CPU build was seen (0.32.0) to write other text than its target would above "
    "temperature 0 when it speculates: acceptance and speedup mean nothing"
)
_CRASH_S = 5.0  # a stream breaks off a moment before its server is seen to have ended

Key = tuple[str, int, bool]
"""What needs a server of its own: drafter, gamma, whether drafts are sampled."""


@dataclass
class _Running:
    """The server that is up."""

    key: Key
    process: ServerProcess
    server: Server


class VllmBackend(ServedBackend):
    """One vLLM server at a time."""

    @classmethod
    def of(cls, spec: BackendSpec) -> VllmBackend:
        return cls(spec)

    def __init__(self, spec: BackendSpec) -> None:
        super().__init__()
        spec.allow_options(("start", "timeout"))
        if spec.argument is not None:
            raise SpecbenchError(
                f"backend {spec.text!r}: vllm starts its servers itself",
                "A server that runs already is measured with openai:URL",
            )
        self._start_s = seconds_of(spec, "start", 600.0)
        self._deadlines = Deadlines(silence_s=seconds_of(spec, "timeout", 300.0))
        self._running: _Running | None = None
        self._broken: dict[Key, SpecbenchError] = {}
        self._started: dict[str, dict[str, Any]] = {}

    def impossible(self, cell: Cell) -> str | None:
        spec = parse_spec(cell.drafter)
        if (reason := refusal(spec)) is not None or spec.kind != "medusa":
            return reason
        return drafter_class(spec).impossible(  # no more tokens than heads
            spec, gamma=cell.gamma, temperature=cell.temperature, batch_size=cell.batch_size
        )

    def arranged(self, cells: Sequence[Cell]) -> list[Cell]:
        """Cells by the server that they need: as few starts as there are servers, and one more."""
        keys = sorted({self._key(cell) for cell in cells if not cell.is_baseline})
        random.Random(cells[0].seed if cells else 0).shuffle(keys)
        place = {key: number for number, key in enumerate(keys)}

        def turn(cell: Cell) -> int:
            if cell.is_baseline:
                return -1 if cell.baseline == "first" else len(place)
            return place[self._key(cell)]

        return sorted(cells, key=turn)

    def load(self, options: EngineOptions, progress: Progress) -> None:
        self._options = options
        self._engine = Installed.find(options.engine_python or sys.executable)
        self._target = self._weights(options.target, progress)
        config = json.loads((self._target.path / "config.json").read_text(encoding="utf-8"))
        self._config = config
        stored = config.get("dtype") or config.get("torch_dtype") or "float32"
        self._dtype = stored if options.dtype == "auto" else options.dtype
        self._progress = progress
        self._drafters: dict[str, str] = {}
        self.tokenizer = load_tokenizer(options.target or DEFAULT_NAME)
        self.chat_template_args = options.chat_template_args
        self.device = "server"
        self.stop_tokens = STOPS_OF_ITS_OWN
        self.context_limit = config.get("max_position_embeddings") or UNLIMITED
        self.target_facts = {**self._target.provenance, "dtype": self._dtype}
        self.drafter_facts = {}
        self.notices = []

    def check(self, cells: Sequence[Cell]) -> None:
        for text in dict.fromkeys(cell.drafter for cell in cells if not cell.is_baseline):
            spec = parse_spec(text)
            reason = self._engine.lacks(spec.kind)
            if reason is None and spec.kind == "mtp":
                reason = lacks_mtp(self._config)
            if reason is not None:
                raise SpecbenchError(reason, "Leave this drafter out, or use one that has it")
            if spec.kind in WITH_WEIGHTS:
                name = drafter_name(spec, self._target)
                find = partial(self._weights, progress=self._progress)
                folder, provenance = as_vllm_takes_it(spec.kind, name, self._target, find)
                self._drafters[text] = str(folder)
                self.drafter_facts[text] = weights_of(spec, provenance)

    @property
    def server_facts(self) -> dict[str, Any]:
        facts = {"dialect": "vllm", "version": self._engine.version, "python": self._engine.python}
        return {"vllm": facts} | {name: {**facts, **told} for name, told in self._started.items()}

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        try:
            generation = super().generate(cell, requests, limits)
        except SpecbenchError as error:
            running = self._running
            if running is None or not running.process.ends_within(_CRASH_S):
                raise
            raise running.process.ended("while it was measured") from error
        if self._running is not None:
            generation.server["command"] = shlex.join(self._running.process.command)
        if cell.temperature > 0 and not cell.is_baseline and self._engine.is_cpu_build:
            generation.notes.append(_WRONG_TOKENS)
        greedy = cell.temperature > 0 and not self._engine.can_sample_drafts
        if greedy and not cell.is_baseline and parse_spec(cell.drafter).kind in SAMPLING:
            generation.notes.append("this vLLM drafts greedily: alpha is of its likeliest tokens")
        return generation

    def draft_sampling(self, cell: Cell) -> str | None:
        if cell.is_baseline:
            return None
        return "sampled" if self._drafting(self._key(cell)).samples else "one-hot"

    def server_of(self, cell: Cell) -> Server:
        return self._server(self._key(cell))

    def plain_server(self) -> Server:
        return self._server((_PLAIN, 0, False))

    def close(self) -> None:
        if self._running is not None:
            self._running.process.stop()
            self._running = None

    def _key(self, cell: Cell) -> Key:
        if cell.is_baseline:
            return (_PLAIN, 0, False)
        sampled = cell.temperature > 0 and parse_spec(cell.drafter).kind in SAMPLING
        return (cell.drafter, cell.gamma, sampled)

    def _server(self, key: Key) -> Server:
        """The server of a key, started if it isn't up; one that did not come up is not tried again.

        Raises:
            SpecbenchError: it does not start, or drafts otherwise than it was told to.
        """
        if key in self._broken:
            raise self._broken[key]
        running = self._running
        if running is not None and running.key == key and running.process.is_alive:
            return running.server
        self.close()
        try:
            self._running = self._start(key)
            return self._running.server
        except SpecbenchError as error:
            self._broken[key] = error
            raise

    def _start(self, key: Key) -> _Running:
        """Start a server and wait until it is up and has told what it is."""
        drafter, gamma, sampled = key
        name = drafter if drafter == _PLAIN else f"{drafter} γ = {gamma}"
        name += " sampled" if sampled else ""
        port = free_port()
        command = self._command(key, port)
        log = self._options.logs / f"vllm-{_slug(name.replace(' γ = ', ' g'))}.log"
        self._progress.note(f"starting vLLM: {name} (log: {log})")
        process = ServerProcess(command, {**os.environ, **_QUIET}, log, "vLLM")
        self._started[f"vllm: {name}"] = {"command": shlex.join(command), "log": f"logs/{log.name}"}
        process.wait_until_healthy(port, "/health", self._start_s)
        server = Server(Address(f"http://{LOOPBACK}:{port}"), self._deadlines)
        try:
            told = (server.facts.speculates, server.facts.gamma)
            if told != ((True, gamma) if gamma else (False, None)):
                raise SpecbenchError(
                    f"vLLM was started for {name} and tells otherwise: speculates, gamma = {told}",
                    f"See {log}",
                )
        except BaseException:
            process.stop()
            raise
        return _Running(key, process, server)

    def _command(self, key: Key, port: int) -> list[str]:
        words = [self._engine.python, "-m", MODULE, "--model", str(self._target.path)]
        words += ["--host", LOOPBACK, "--port", str(port), "--dtype", self._dtype]
        if key[0] != _PLAIN:
            words += ["--speculative-config", json.dumps(self._drafting(key).config)]
        return [*words, *self._options.engine_args]

    def _drafting(self, key: Key) -> Options:
        drafter, gamma, sampled = key
        samples = sampled and self._engine.can_sample_drafts
        weights = self._drafters.get(drafter)
        return Options.of(parse_spec(drafter), gamma, samples=samples, weights=weights)

    def _weights(self, name: str | None, progress: Progress) -> ModelSource:
        source = resolve(name, progress)
        if source.kind == "gguf":
            raise SpecbenchError(
                f"vLLM is not started on a GGUF file ({name})", "Give a folder or a hub name"
            )
        return source


def _slug(name: str) -> str:
    """A name with nothing in it that a file system minds."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[-80:].strip("-")


BACKEND = VllmBackend
