"""Results of llama.cpp's speed-bench, one object per run of its client against a server.

``summary`` has a row per category: drafted and accepted tokens, and the mean of the requests'
decoding speeds; ``results`` has the requests, whose ``predicted_ms`` is decoding alone. Rounds are
not counted. Every round gives its accepted tokens and one more, so there were as many as decoded
tokens that nobody drafted; the last round of a request may be cut, which is not told. A run that
drafted nothing is plain decoding. An object with llama-speculative's own counters (``n_drafted``,
``n_accept``) is taken as one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    full_length,
    needed,
    plain_key,
    settled,
    solved_alpha,
    temperature_of,
)
from specbench.records.importing.documents import Document, Source, count, number, positive

_DRAFTED = ("draft_n", "n_drafted")
_ACCEPTED = ("accepted", "draft_n_accepted", "n_accept")
_TOKENS = ("completion_tokens", "predicted_n", "n_predict")
_OVERALL = "overall"


def recognises(document: Document) -> bool:
    """Whether this is such a result."""
    if {"n_drafted", "n_accept"} <= document.keys():
        return True
    rows = document.get("summary")
    return isinstance(rows, list) and all(
        isinstance(row, dict) and {"category", "avg_pred_t_s"} <= row.keys() for row in rows
    )


def cells(source: Source, given: Given) -> list[Imported]:
    """One cell per category, or one for a run without them."""
    found: list[Imported] = []
    for document in source.documents:
        rows = document.get("summary", [document])
        named = [row for row in rows if row.get("category") != _OVERALL] or rows
        notes: list[str] = []
        plain = not any(count(row, *_DRAFTED) for row in named)
        for row in named:
            found.append(_cell(source.path, document, row, plain, given, notes))
        if notes:
            found[-1].notes = list(dict.fromkeys(notes))
    return found


def _cell(
    path: Path, document: Document, row: Document, plain: bool, given: Given, notes: list[str]
) -> Imported:
    config = _part(document, "config")
    told = number(_part(config, "extra_inputs"), "temperature")
    batch_size = settled("batch_size", path, count(config, "concurrency"), given.batch_size)
    if batch_size is None:
        batch_size = 1  # the tool's own way without a server
    key: dict[str, Any] = {
        "target": given.target or str(config.get("model") or UNNAMED),
        "task": given.task or str(row.get("category") or UNNAMED),
        "temperature": temperature_of(path, told, given.temperature, notes),
        "batch_size": batch_size,
        "backend": "llama.cpp",
    }
    requests = _requests(document, row)
    pairs = _pairs(requests)
    seconds, tokens = (sum(pair[place] for pair in pairs.values()) for place in (0, 1))
    turns = sum(count(request, "turns") or 1 for request in requests)
    whole = count(row, *_TOKENS) or sum(count(request, *_TOKENS) or 0 for request in requests)
    fields: dict[str, Any] = {
        "decode_s": seconds or None,
        "tokens": whole or None,
        "num_prompts": len(requests) or count(row, "requests"),
        "num_requests": turns or count(row, "turns", "requests"),
        "itl_s": seconds / tokens if tokens else None,
        "warnings": [],
    }
    fields["tok_per_s"] = _speed(row, fields, batch_size)
    if plain:
        return Imported({**key, **plain_key()}, fields, pairs)
    key["drafter"] = given.drafter or UNNAMED
    key["gamma"] = needed(
        "gamma", path, settled("gamma", path, count(document, "n_draft"), given.gamma)
    )
    drafted, accepted = count(row, *_DRAFTED), count(row, *_ACCEPTED)
    fields |= {"num_drafted": drafted, "num_accepted": accepted}
    if drafted and accepted is not None:
        fields["draft_acceptance_rate"] = accepted / drafted
    if tokens and accepted is not None:
        fields |= _per_round(int(tokens), accepted, drafted, key["gamma"], fields["warnings"])
    return Imported(key, fields, pairs)


def _per_round(
    tokens: int, accepted: int, drafted: int | None, gamma: int, warnings: list[str]
) -> dict[str, Any]:
    """Rounds and what follows from their number.

    Args:
        tokens: decoded ones, those that came from prefill left out.
    """
    rounds = tokens - accepted
    if rounds <= 0:
        raise SpecbenchError(
            f"{accepted} tokens were accepted but {tokens} decoded",
            "A round decodes at least one token more than it accepts",
        )
    tau = tokens / rounds
    warnings.append("rounds = decoded - accepted tokens, as if no round had been cut")
    fields: dict[str, Any] = {"num_rounds": rounds, "tau": 1.0 + accepted / rounds}
    if drafted is not None:
        fields["draft_length_mean"] = drafted / rounds
    if full_length(gamma, rounds, drafted):
        fields["alpha"] = solved_alpha(tau, gamma)
        warnings.append("alpha is the one that gives tau if acceptance is i.i.d.")
    else:
        warnings.append("drafts were shorter than gamma at times: no alpha")
    return fields


def _part(document: Document, key: str) -> Document:
    part = document.get(key)
    return part if isinstance(part, dict) else {}


def _requests(document: Document, row: Document) -> list[Document]:
    """The finished requests of a row's category."""
    category = row.get("category")
    return [
        request
        for request in document.get("results") or []
        if isinstance(request, dict)
        and request.get("ok", True)
        and category in (_OVERALL, request.get("category", category))
    ]


def _pairs(requests: Sequence[Document]) -> dict[str, tuple[float, float]]:
    """Seconds and tokens of decoding by request; the first token of a turn is prefill's."""
    pairs: dict[str, tuple[float, float]] = {}
    for place, request in enumerate(requests):
        milliseconds, tokens = positive(request, "predicted_ms"), count(request, *_TOKENS)
        decoded = (tokens or 0) - (count(request, "turns") or 1)
        if milliseconds and decoded > 0:
            pairs[str(request.get("id", place))] = (milliseconds / 1000.0, float(decoded))
    return pairs


def _speed(row: Document, fields: dict[str, Any], batch_size: int) -> float | None:
    """Tokens per second of all rows."""
    if fields["itl_s"]:
        return float(batch_size / fields["itl_s"])
    mean = positive(row, "avg_pred_t_s")
    if mean is not None:
        fields["warnings"].append("speed is the mean of the requests' own speeds")
        fields["itl_s"] = 1.0 / mean
    return None if mean is None else mean * batch_size
