"""From workloads to requests: rendering, chat histories, recorded greedy outputs.

Two things need the target's own greedy output before anything is measured: the later turns of a
chat, whose history must be the same in every cell, and drafters that replay. Both use one recording
per prompt, made once per run and kept in ``references/``, so that a resumed run continues with the
very same prompts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from specbench.backends.base import Backend
from specbench.drafters.spec import parse_spec
from specbench.engine.request import Limits, Request
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.folder import REFERENCES
from specbench.sweep.grid import num_requests, room_needed
from specbench.sweep.report import Reporter
from specbench.workloads.context import render_padded
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.render import messages_of, render
from specbench.workloads.template import require_settings


def limits_of(config: SweepConfig, backend: Backend) -> Limits:
    """Where outputs end in a measured cell."""
    stops = frozenset() if config.ignore_eos else backend.stop_tokens
    return Limits(config.max_new_tokens, stops)


def for_batch(requests: Sequence[Request], batch_size: int) -> list[Request]:
    """The requests of a cell: where there are fewer prompts than slots, each one several times.

    A prompt asked again is another request with random numbers of its own in the same conversation,
    which stays what intervals cluster by.
    """
    prompts = len({request.conversation for request in requests})
    if prompts >= batch_size:
        return list(requests)
    total = max(len(requests), num_requests(prompts, batch_size))
    again = [
        replace(request, prompt_id=f"{request.prompt_id}~{number}")
        for number in range(2, total // len(requests) + 2)
        for request in requests
    ]
    return [*requests, *again][:total]


def refuse_prompts(
    config: SweepConfig,
    backend: Backend,
    workloads: Iterable[Workload],
    context_lengths: Collection[int | None] = (None,),
) -> None:
    """Refuse prompts that cannot be put as asked or do not fit, before anything is generated.

    Later turns are taken with empty answers before them; :class:`RequestMaker` checks them again.

    Raises:
        SpecbenchError: naming the prompt and every number, or the setting.
    """
    if backend.tokenizer is not None:
        require_settings(backend.tokenizer, config.chat_template_args)
    for workload, length in itertools.product(workloads, context_lengths):
        for prompt in workload.prompts:
            for turn in range(len(prompt.turns)):
                _fitting(prompt, turn, [""] * turn, workload, config, backend, length)


class Recordings(Protocol):
    """A run's folder, where recordings are kept."""

    @property
    def folder(self) -> Path:
        """The run's."""

    def write_extra(self, relative: str | Path, content: Any) -> Path:
        """Keep a document there."""


class RequestMaker:
    """Makes the requests of each workload, recording greedy outputs where they are needed."""

    def __init__(
        self, config: SweepConfig, backend: Backend, writer: Recordings, report: Reporter
    ) -> None:
        self.report = report
        self.config = config
        self.backend = backend
        self.writer = writer
        self._replays = any(parse_spec(text).kind == "synthetic" for text in config.drafters)
        self._made: dict[tuple[str, int | None], list[Request]] = {}

    def of(self, workload: Workload, context_length: int | None = None) -> list[Request]:
        """The workload's requests, one per turn, made once for each context length."""
        key = workload.name, context_length
        if key not in self._made:
            self._made[key] = self._make(workload, context_length)
        return self._made[key]

    def _make(self, workload: Workload, length: int | None) -> list[Request]:
        file = _file(workload, length)
        recorded = self._load(file)
        histories: dict[str, list[str]] = {prompt.id: [] for prompt in workload.prompts}
        by_turn: list[list[Request]] = []
        for turn in range(max(len(prompt.turns) for prompt in workload.prompts)):
            prompts = [p for p in workload.prompts if turn < len(p.turns)]
            requests = [self._request(workload, p, turn, histories[p.id], length) for p in prompts]
            continued = [p for p in prompts if turn + 1 < len(p.turns)]
            if self._replays or continued:
                self._record(requests, recorded)
            for prompt in continued:
                histories[prompt.id].append(self._text(recorded[_request_id(prompt, turn)]))
            by_turn.append([replace(r, reference=recorded.get(r.prompt_id, [])) for r in requests])
        self._save(file, recorded)
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
        self,
        workload: Workload,
        prompt: Prompt,
        turn: int,
        history: Sequence[str],
        length: int | None,
    ) -> Request:
        token_ids = _fitting(prompt, turn, history, workload, self.config, self.backend, length)
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

    def _load(self, file: Path) -> dict[str, list[int]]:
        path = self.writer.folder / file
        if not path.exists():
            return {}
        loaded: dict[str, list[int]] = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    def _save(self, file: Path, recorded: dict[str, Any]) -> None:
        if recorded:
            self.writer.write_extra(file, recorded)


def _file(workload: Workload, length: int | None) -> Path:
    """Where recordings are kept; those of padded prompts apart."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", workload.name)
    if safe != workload.name:  # "a:b" and "a-b" are two workloads
        safe += f"-{hashlib.sha256(workload.name.encode()).hexdigest()[:6]}"
    return Path(REFERENCES) / (f"{safe}.json" if length is None else f"{safe}@{length}.json")


def _fitting(
    prompt: Prompt,
    turn: int,
    history: Sequence[str],
    workload: Workload,
    config: SweepConfig,
    backend: Backend,
    length: int | None,
) -> list[int]:
    """The rendered turn, padded if there is a length, with room for output and draft; none where a
    server renders it."""
    if backend.tokenizer is None:
        return []
    settings = config.chat_template_args
    if length is None:
        token_ids = render(prompt, turn, history, backend.tokenizer, settings=settings)
    else:
        tokenizer, prompts = backend.tokenizer, workload.prompts
        token_ids = render_padded(prompt, turn, history, tokenizer, length, prompts, settings)
    misfit = backend.misfit(len(token_ids), room_needed(config))
    if misfit is not None:
        raise SpecbenchError(
            f"prompt {prompt.id!r} of {workload.name} has {len(token_ids)} tokens; {misfit}",
            "Shorten the prompt, lower --max-new-tokens or --gamma, or use another target",
        )
    return token_ids


def _request_id(prompt: Prompt, turn: int) -> str:
    return prompt.id if len(prompt.turns) == 1 else f"{prompt.id}#{turn + 1}"
