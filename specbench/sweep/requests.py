"""From workloads to requests: rendering, chat histories, recorded greedy outputs.

Two things need the target's own greedy output before anything is measured: the later turns of a
chat, whose history must be the same in every cell, and drafters that replay. Both use one recording
per prompt, made once per run and kept in ``references/``, so that a resumed run continues with the
very same prompts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specbench.backends.base import Backend
from specbench.drafters.spec import parse_spec
from specbench.engine.request import Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.store import RunWriter
from specbench.sweep.config import SweepConfig
from specbench.sweep.folder import REFERENCES
from specbench.sweep.report import Reporter
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.render import messages_of, render


def limits_of(config: SweepConfig, backend: Backend) -> Limits:
    """Where outputs end in a measured cell."""
    stops = frozenset() if config.ignore_eos else backend.stop_tokens
    return Limits(config.max_new_tokens, stops)


def refuse_long_prompts(
    config: SweepConfig, backend: Backend, workloads: Iterable[Workload]
) -> None:
    """Refuse prompts that cannot fit, before anything is generated or written.

    Later turns are taken with empty answers before them; :class:`RequestMaker` checks them again.

    Raises:
        SpecbenchError: naming the prompt and every number.
    """
    for workload in workloads:
        for prompt in workload.prompts:
            for turn in range(len(prompt.turns)):
                _fitting(prompt, turn, [""] * turn, workload.name, config, backend)


class RequestMaker:
    """Makes the requests of each workload, recording greedy outputs where they are needed."""

    def __init__(
        self, config: SweepConfig, backend: Backend, writer: RunWriter, report: Reporter
    ) -> None:
        self.report = report
        self.config = config
        self.backend = backend
        self.writer = writer
        self._replays = any(parse_spec(text).kind == "synthetic" for text in config.drafters)
        self._made: dict[str, list[Request]] = {}

    def of(self, workload: Workload) -> list[Request]:
        """The workload's requests, one per turn, made once."""
        if workload.name not in self._made:
            self._made[workload.name] = self._make(workload)
        return self._made[workload.name]

    def _make(self, workload: Workload) -> list[Request]:
        recorded = self._load(workload)
        histories: dict[str, list[str]] = {prompt.id: [] for prompt in workload.prompts}
        by_turn: list[list[Request]] = []
        for turn in range(max(len(prompt.turns) for prompt in workload.prompts)):
            prompts = [p for p in workload.prompts if turn < len(p.turns)]
            requests = [self._request(workload, p, turn, histories[p.id]) for p in prompts]
            continued = [p for p in prompts if turn + 1 < len(p.turns)]
            if self._replays or continued:
                self._record(requests, recorded)
            for prompt in continued:
                histories[prompt.id].append(self._text(recorded[_request_id(prompt, turn)]))
            by_turn.append([replace(r, reference=recorded.get(r.prompt_id, [])) for r in requests])
        self._save(workload, recorded)
        order = {prompt.id: index for index, prompt in enumerate(workload.prompts)}
        return sorted(
            (request for requests in by_turn for request in requests),
            key=lambda request: (order[request.conversation], request.labels["turn"]),
        )

    def _text(self, answer: list[int] | str) -> str:
        """A recorded answer as the next turn's history; a server's is text already."""
        if isinstance(answer, str):
            return answer.strip()
        ids = answer[: self.config.max_new_tokens]
        text: str = self.backend.tokenizer.decode(ids, skip_special_tokens=True)
        return text.strip()

    def _request(
        self, workload: Workload, prompt: Prompt, turn: int, history: Sequence[str]
    ) -> Request:
        token_ids = _fitting(prompt, turn, history, workload.name, self.config, self.backend)
        labels = {
            "task": workload.name,
            "category": prompt.category,
            "turn": turn,
            "source": workload.source,
        }
        messages = messages_of(prompt, turn, history)
        return Request(_request_id(prompt, turn), prompt.id, token_ids, (), labels, messages)

    def _record(self, requests: Sequence[Request], recorded: dict[str, Any]) -> None:
        """Add the greedy output of every request that is not recorded yet."""
        missing = [request for request in requests if request.prompt_id not in recorded]
        if missing:
            limits = limits_of(self.config, self.backend)
            ahead = max(self.config.gammas) + 1 if self._replays else 0
            longer = Limits(limits.max_new_tokens + ahead, limits.stop_tokens)
            task = missing[0].labels["task"]
            prompts = "1 prompt" if len(missing) == 1 else f"{len(missing)} prompts"
            turn = missing[0].labels["turn"]
            of_turn = f", turn {turn + 1}," if turn else ""
            self.report.message(f"{task}: recording greedy outputs of {prompts}{of_turn} first")
            outputs = self.backend.greedy_outputs(missing, longer)
            recorded.update(zip((r.prompt_id for r in missing), outputs, strict=True))

    def _file(self, workload: Workload) -> Path:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", workload.name)
        if safe != workload.name:  # "a:b" and "a-b" are two workloads
            safe += f"-{hashlib.sha256(workload.name.encode()).hexdigest()[:6]}"
        return Path(REFERENCES) / f"{safe}.json"

    def _load(self, workload: Workload) -> dict[str, list[int]]:
        path = self.writer.folder / self._file(workload)
        if not path.exists():
            return {}
        loaded: dict[str, list[int]] = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    def _save(self, workload: Workload, recorded: dict[str, Any]) -> None:
        if recorded:
            self.writer.write_extra(self._file(workload), recorded)


def _fitting(
    prompt: Prompt,
    turn: int,
    history: Sequence[str],
    task: str,
    config: SweepConfig,
    backend: Backend,
) -> list[int]:
    """The rendered turn with room for output and draft; none where a server renders it."""
    if backend.tokenizer is None:
        return []
    token_ids = render(prompt, turn, history, backend.tokenizer)
    need = len(token_ids) + config.max_new_tokens + max(config.gammas) + 1
    if need > backend.context_limit:
        raise SpecbenchError(
            f"prompt {prompt.id!r} of {task} has {len(token_ids)} tokens; with output and draft "
            f"{need}, beyond the target's context of {backend.context_limit}",
            "Shorten the prompt, lower --max-new-tokens or --gamma, or use another target",
        )
    return token_ids


def _request_id(prompt: Prompt, turn: int) -> str:
    return prompt.id if len(prompt.turns) == 1 else f"{prompt.id}#{turn + 1}"
