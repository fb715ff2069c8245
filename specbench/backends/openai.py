"""Any OpenAI-compatible server that is already running: ``openai:URL[,key=value]...``

A server decodes with the drafter it was started with, or with none. So one server gives the cells
of one drafter and gamma, and plain decoding comes from a second one, ``baseline=URL``: the same
engine and model, started without a drafter. Without it there is no speedup. ``model=NAME`` chooses
where several are served; ``timeout=SECONDS`` ends the wait for a stream that is silent.

Prompts are sent as token ids where ``--target`` names the model, so that its tokenizer is at hand.

    specbench run --backend openai:http://127.0.0.1:8000,baseline=http://127.0.0.1:8001 \\
        --drafter ngram --batch-size 1,4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.backends._served import (
    STOPS_OF_ITS_OWN,
    UNLIMITED,
    ServedBackend,
    sampling_of,
    seconds_of,
)
from specbench.backends.base import EngineOptions
from specbench.backends.spec import BackendSpec
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.serving.address import Address
from specbench.serving.client import Deadlines
from specbench.serving.dialects import Sampling
from specbench.serving.server import Server
from specbench.weights.progress import Progress
from specbench.weights.tokenizer import load_tokenizer

FACTS = {"runs_already": True, "reads": ("goodput",)}


class OpenAIBackend(ServedBackend):
    """Speculation on one server, plain decoding on another."""

    @classmethod
    def of(cls, spec: BackendSpec) -> OpenAIBackend:
        return cls(spec)

    def __init__(self, spec: BackendSpec) -> None:
        super().__init__()
        spec.allow_options(("baseline", "model", "timeout"))
        if not spec.argument:
            raise SpecbenchError(
                f"backend {spec.text!r} needs a URL", "Write openai:http://HOST:PORT"
            )
        options = spec.options
        deadlines = Deadlines(silence_s=seconds_of(spec, "timeout", 300.0))
        model = options.get("model")
        self.server = Server(Address.parse(spec.argument), deadlines, model)
        self.plain: Server | None = None
        if "baseline" in options:
            self.plain = Server(Address.parse(options["baseline"]), deadlines, model)

    @property
    def told(self) -> dict[str, Any]:
        facts = self.server.facts
        return {"target": facts.model, "gamma": facts.gamma, "drafter": facts.drafter}

    @property
    def decodes_plainly(self) -> bool:
        return self.plain is not None or self.server.facts.speculates is False

    @property
    def speculates(self) -> bool:
        return self.server.facts.speculates is not False

    def impossible(self, cell: Cell) -> str | None:
        facts, where = self.server.facts, self.server.address.root
        refusal = facts.dialect.refusal(sampling_of(cell, 1, ignore_eos=False))
        if refusal is not None:
            return refusal
        if facts.gamma not in (None, cell.gamma):
            return f"the server at {where} drafts {facts.gamma} tokens, not {cell.gamma}"
        if facts.drafter is None:
            return None
        kind = cell.drafter.partition(",")[0].partition(":")[0]
        is_tree = "tree=" in facts.drafter
        if kind != facts.drafter.partition(",")[0] or is_tree != (cell.draft_form == "tree"):
            return f"the server at {where} drafts with {facts.drafter}, not {cell.drafter}"
        return None

    def load(self, options: EngineOptions, progress: Progress) -> None:
        facts = self.server.facts
        asked = Sampling(0.0, 0, 1.0, 1, options.ignore_eos)
        if (refusal := facts.dialect.refusal(asked)) is not None:
            raise SpecbenchError(refusal, "Leave it out")
        self.tokenizer = None if options.target is None else load_tokenizer(options.target)
        self.chat_template_args = options.chat_template_args
        self.device = "server"
        self.stop_tokens = STOPS_OF_ITS_OWN
        self.context_limit = facts.context_limit or UNLIMITED
        self.target_facts = {"name": options.target or facts.model}
        self.drafter_facts = {}
        self.notices = []
        if self.plain is not None:
            self.server.refuse_unlike(self.plain)
        elif not self.decodes_plainly:
            self.notices.append("no speedup: no server decodes plainly (name one, ,baseline=URL)")
        for notice in self.notices:
            progress.note(notice)

    @property
    def server_facts(self) -> dict[str, Any]:
        servers = [self.server, *([self.plain] if self.plain else [])]
        return {server.address.root: server.facts.document() for server in servers}

    def check(self, cells: Sequence[Cell]) -> None:
        """The drafter is the server's; :meth:`impossible` asked what it is."""

    def draft_sampling(self, cell: Cell) -> str | None:
        """A server does not tell how its drafter proposes."""
        return None

    def server_of(self, cell: Cell) -> Server:
        return self.plain if cell.is_baseline and self.plain is not None else self.server

    def plain_server(self) -> Server:
        return self.plain or self.server


BACKEND = OpenAIBackend
