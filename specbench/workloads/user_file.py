"""The user's own prompts: ``--task FILE.jsonl``.

A row is ``{"prompt": ...}``, ``{"turns": [...]}`` or ``{"messages": [...]}``, with optional ``id``
and ``category``. A file whose rows have a ``question_id`` (Spec-Bench's ``question.jsonl``, and
MT-Bench's) gives one workload per category, since acceptance differs most between them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.workloads.jsonl import Row, parse_rows, read_bytes
from specbench.workloads.prompt import Prompt, Workload

_HINT = (
    'A row is {"prompt": "..."}, {"turns": ["...", ...]} or '
    '{"messages": [{"role": "user", "content": "..."}, ...]}'
)
_NOTICE_ANSWERS = (
    "assistant messages in the file are not used: the history of a later turn is the target's "
    "own answer"
)


def load_user_file(path: Path, limit: int) -> list[Workload]:
    """Read at most ``limit`` prompts (per category of a question file), in file order.

    Raises:
        SpecbenchError: the file or one of its rows is unusable; file and line are named.
    """
    content = read_bytes(path)
    rows = list(parse_rows(content, path))
    source = f"file:{path.name} sha256:{hashlib.sha256(content).hexdigest()}"
    by_category = all("question_id" in row.fields for row in rows)

    groups: dict[str, list[Prompt]] = {}
    first_seen: dict[str, str] = {}
    for row in rows:
        prompt = _prompt(row, path.stem, source, by_category)
        if prompt.id in first_seen:
            raise SpecbenchError(
                f"{row.where} repeats the id {prompt.id!r} of {first_seen[prompt.id]}",
                "Give every row its own id, or none",
            )
        first_seen[prompt.id] = row.where
        groups.setdefault(prompt.task, []).append(prompt)
    notice = _NOTICE_ANSWERS if any(_has_answers(row.fields) for row in rows) else None
    return [
        Workload(name, 0, "the user's own file", source, notice, tuple(prompts[:limit]))
        for name, prompts in groups.items()
    ]


def _prompt(row: Row, stem: str, source: str, by_category: bool) -> Prompt:
    system, turns = _turns(row)
    category = row.fields.get("category", stem)
    identifier = row.fields.get("question_id", row.fields.get("id", f"{stem}-{row.line}"))
    for field, value in (("category", category), ("id", identifier)):
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise SpecbenchError(
                f"{row.where} has the {field} {value!r}", "It must be a text or an integer"
            )
    task = f"{stem}:{category}" if by_category else stem
    return Prompt(str(identifier), task, str(category), turns, source, system)


def _turns(row: Row) -> tuple[str | None, tuple[str, ...]]:
    """(system message or None, user turns) of a row in any of the three forms."""
    fields = row.fields
    forms = [name for name in ("prompt", "turns", "messages") if name in fields]
    if not forms:
        raise SpecbenchError(f"{row.where} has no prompt, turns or messages", _HINT)
    if len(forms) > 1:
        raise SpecbenchError(f"{row.where} has both {forms[0]} and {forms[1]}", _HINT)
    system: str | None = None
    turns: list[Any]
    if forms == ["messages"]:
        system, turns = _from_messages(row)
    else:
        value = fields[forms[0]]
        turns = value if forms == ["turns"] and isinstance(value, list) else [value]
    if not turns:
        raise SpecbenchError(f"{row.where} has no user turn", _HINT)
    for turn in turns:
        if not isinstance(turn, str):
            raise SpecbenchError(
                f"{row.where} has a {forms[0]} that is {type(turn).__name__}, not text", _HINT
            )
        if not turn.strip():
            raise SpecbenchError(f"{row.where} has an empty prompt", "Fill it or remove the line")
    return system, tuple(turns)


def _from_messages(row: Row) -> tuple[str | None, list[Any]]:
    messages = row.fields["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise SpecbenchError(f"{row.where} has messages that are no list of objects", _HINT)
    system: str | None = None
    turns: list[Any] = []
    for position, message in enumerate(messages):
        role = message.get("role")
        if "content" not in message:
            raise SpecbenchError(f"{row.where} has a message without content", _HINT)
        if role == "user":
            turns.append(message["content"])
        elif role == "system" and position == 0 and isinstance(message["content"], str):
            system = message["content"]
        elif role != "assistant":
            raise SpecbenchError(
                f"{row.where} has a message of role {role!r} at position {position}",
                "Use user and assistant, with at most one system message, of text, at the start",
            )
    return system, turns


def _has_answers(fields: dict[str, Any]) -> bool:
    return any(message.get("role") == "assistant" for message in fields.get("messages", []))
