"""Results of llama.cpp's speed-bench, one object per run of its client against a server.

``summary`` has a row per category: drafted and accepted tokens, and the mean of the requests'
decoding speeds; ``results`` has the requests, whose ``predicted_ms`` is decoding alone. Rounds are
not counted. Every round gives its accepted tokens and one more, so there were as many as decoded
tokens that nobody drafted; the last round of a request may be cut, which is not told. A run that
drafted nothing is plain decoding. An object with llama-speculative's own counters (``n_drafted``,
``n_accept``) is taken as one row. A category whose requests all failed is a failed cell; a file of
such requests alone is refused, since nothing tells whether it was to draft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    check_lengths,
    full_length,
    needed,
    plain_key,
    remark,
    remark_failures,
    settled,
    solved_alpha,
    temperature_of,
)
from specbench.records.importing.documents import Document, Source, count, number, positive
from specbench.records.importing.notes import Note

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
        notes: list[Note] = []
        _refuse_failed(source.path, document)
        plain = not any(count(row, *_DRAFTED) for row in named)
        for row in named:
            found.append(_cell(source.path, document, row, plain, given, notes))
        if notes:
            found[-1].notes = notes
    return found


def _cell(
    path: Path, document: Document, row: Document, plain: bool, given: Given, notes: list[Note]
) -> Imported:
    key, warnings = _key(path, document, row, given, notes), list[str]()
    if key["temperature"] > 0 and not {"top_k", "top_p"} <= key.keys():
        remark(path, "top_k or top_p is not told, taken as none", warnings, notes)
    if plain:
        key |= plain_key()
    else:
        told = settled("gamma", path, count(document, "n_draft"), given.gamma)
        key |= {"drafter": given.drafter or UNNAMED, "gamma": needed("gamma", path, told)}
    asked = _requests(document, row)
    requests = [request for request in asked if request.get("ok", True)]
    failed = len(asked) - len(requests) if asked else count(row, "failed") or 0
    done = len(requests) if asked else count(row, "requests") or 0
    if failed and not done:
        why = _reason(failed, asked)
        notes.append(Note(path.name, f"{key['task']}: {why}: a failed cell"))
        return Imported(key, {"status": "failed", "error": why})
    remark_failures(path, failed, failed + done, warnings, notes, key["task"])
    pairs = _pairs(requests)
    fields = _speeds(row, requests, pairs, key["batch_size"], warnings)
    if not plain:
        fields |= _acceptance(path, row, requests, pairs, key["gamma"], warnings)
    return Imported(key, {**fields, "warnings": warnings}, pairs)


def _key(
    path: Path, document: Document, row: Document, given: Given, notes: list[Note]
) -> dict[str, Any]:
    """What a cell shares with plain decoding."""
    config = _part(document, "config")
    sampling = _part(config, "extra_inputs")
    told = number(sampling, "temperature")
    batch_size = settled("batch_size", path, count(config, "concurrency"), given.batch_size)
    return {
        "target": given.target or str(config.get("model") or UNNAMED),
        "task": given.task or str(row.get("category") or UNNAMED),
        "temperature": temperature_of(path, told, given.temperature, notes),
        **_filters(sampling),
        "batch_size": 1 if batch_size is None else batch_size,  # without a server it has one row
        "backend": "llama.cpp",
    }


def _filters(sampling: Document) -> dict[str, Any]:
    """top_k and top_p as the client set them; a top_k of 0 or less is none.

    What it left out is the server's own, which is not told.
    """
    found: dict[str, Any] = {}
    top_k, top_p = sampling.get("top_k"), number(sampling, "top_p")
    if isinstance(top_k, int | float) and not isinstance(top_k, bool):
        found["top_k"] = max(int(top_k), 0)
    if top_p is not None:
        found["top_p"] = min(top_p, 1.0)
    return found


def _speeds(
    row: Document,
    requests: Sequence[Document],
    pairs: Mapping[str, tuple[float, float]],
    batch_size: int,
    warnings: list[str],
) -> dict[str, Any]:
    """Times, tokens and their ratios."""
    seconds, tokens = (sum(pair[place] for pair in pairs.values()) for place in (0, 1))
    whole = count(row, *_TOKENS) or sum(count(request, *_TOKENS) or 0 for request in requests)
    itl_s = seconds / tokens if tokens else None
    mean = positive(row, "avg_pred_t_s")
    if itl_s is None and mean is not None:
        warnings.append("speed is the mean of the requests' own speeds")
        itl_s = 1.0 / mean
    return {
        "decode_s": seconds or None,
        "tokens": whole or None,
        "num_prompts": len(requests) or count(row, "requests"),
        "num_requests": _turns(requests) or count(row, "turns", "requests"),
        "itl_s": itl_s,
        "tok_per_s": None if itl_s is None else batch_size / itl_s,
    }


def _acceptance(
    path: Path,
    row: Document,
    requests: Sequence[Document],
    pairs: Mapping[str, tuple[float, float]],
    gamma: int,
    warnings: list[str],
) -> dict[str, Any]:
    drafted, accepted = count(row, *_DRAFTED), count(row, *_ACCEPTED)
    fields: dict[str, Any] = {"num_drafted": drafted, "num_accepted": accepted}
    if drafted and accepted is not None:
        fields["draft_acceptance_rate"] = accepted / drafted
    tokens = int(sum(pair[1] for pair in pairs.values()))
    if tokens and accepted is not None:
        fields |= _per_round(tokens, accepted, drafted, gamma, warnings)
        cut = _turns(requests) * (1 if _never_stopped(requests) else gamma)
        check_lengths(path, gamma, fields["num_rounds"], drafted, uncounted=cut)
    return fields


def _turns(requests: Sequence[Document]) -> int:
    return sum(count(request, "turns") or 1 for request in requests)


def _never_stopped(requests: Sequence[Document]) -> bool:
    """Whether all ended at the length limit, where no round is cut."""
    return bool(requests) and all(request.get("finish_reason") == "length" for request in requests)


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
    """The requests of a row's category, failed ones too."""
    category = row.get("category")
    return [
        request
        for request in document.get("results") or []
        if isinstance(request, dict) and category in (_OVERALL, request.get("category", category))
    ]


def _refuse_failed(path: Path, document: Document) -> None:
    """Refuse a run without a finished request.

    Raises:
        SpecbenchError: it has requests, and all of them failed.
    """
    asked = [one for one in document.get("results") or [] if isinstance(one, dict)]
    done = sum(bool(request.get("ok", True)) for request in asked)
    failed = len(asked) - done
    if not asked:
        failed = count(document, "failed_samples") or 0
        done = count(document, "completed_samples") or 0
    if failed and not done:
        problem = f"{path}: {_reason(failed, asked)}, so nothing tells how it decoded"
        raise SpecbenchError(problem, "Measure it again")


def _reason(failed: int, asked: Sequence[Document]) -> str:
    """That all requests failed, with what the first one says of it."""
    why = next((str(request["error"])[:80] for request in asked if request.get("error")), "")
    return f"all {failed} requests failed" + (f", the first one with {why!r}" if why else "")


def _pairs(requests: Sequence[Document]) -> dict[str, tuple[float, float]]:
    """Seconds and tokens of decoding by request; the first token of a turn is prefill's."""
    pairs: dict[str, tuple[float, float]] = {}
    for place, request in enumerate(requests):
        milliseconds, tokens = positive(request, "predicted_ms"), count(request, *_TOKENS)
        decoded = (tokens or 0) - (count(request, "turns") or 1)
        if milliseconds and decoded > 0:
            pairs[str(request.get("id", place))] = (milliseconds / 1000.0, float(decoded))
    return pairs
