"""A window as the columns of a cell's requests (see :mod:`specbench.records.tables`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specbench.serving.window import Window


def request_columns(asked: Sequence[Mapping[str, Any]], window: Window) -> dict[str, list[Any]]:
    """One row per request.

    Beside the columns that every cell has: ``text``; ``due_s``, ``sent_s`` and ``chunk_s``, in
    seconds since the window began; ``chunk_tokens``, None where the server does not tell them;
    ``cached_tokens``; ``figures``, what it tells of the request's speculation, as JSON.

    Args:
        asked: what is known of each request before it is sent: prompt_id, conversation, labels.
    """
    columns: dict[str, list[Any]] = {}
    for known, answer in zip(asked, window.answers, strict=True):
        told = None not in answer.chunk_tokens
        row = {
            **known,
            "prompt_tokens": answer.prompt_tokens,
            "output_ids": answer.token_ids,
            "text": answer.text,
            "num_tokens": answer.num_tokens,
            "stop_reason": answer.finish_reason,
            "prefill_s": None,
            "drafter_prefill_s": None,
            "ttft_s": answer.chunk_s[0] - answer.due_s,
            "decode_s": answer.chunk_s[-1] - answer.chunk_s[0],
            "wall_s": answer.chunk_s[-1] - answer.due_s,
            "due_s": answer.due_s - window.started_s,
            "sent_s": answer.sent_s - window.started_s,
            "chunk_s": [arrived - window.started_s for arrived in answer.chunk_s],
            "chunk_tokens": answer.chunk_tokens if told else None,
            "cached_tokens": answer.cached_tokens,
            "figures": json.dumps(answer.figures) if answer.figures else None,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns
