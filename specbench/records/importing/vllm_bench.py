"""Results of vLLM's ``bench serve``, and the summaries that ``bench sweep`` makes of them.

A result without ``spec_decode_*`` fields is plain decoding. Milliseconds become seconds, the
percentage a share. ``mean_tpot_ms`` is the time per output token; ``mean_itl_ms`` is between
streamed chunks, which is the time of a step. Rates per position are survival: accepted at i / all
rounds that had a draft. A result does not tell the temperature, nor always the drafter.

Without ``max_concurrency`` as many requests are in flight as arrive: at a finite ``request_rate``
the rate is what was set, and the batch size 1, as in runs of our own; else the peak stands for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    acceptance,
    check_lengths,
    full_length,
    needed,
    plain_key,
    remark,
    remark_failures,
    settled,
    temperature_of,
)
from specbench.records.importing.documents import (
    Document,
    Source,
    count,
    number,
    numbers,
    positive,
)
from specbench.records.importing.notes import Note

_CONFIG = "speculative_config"
_LENGTH = "num_speculative_tokens"
_PERCENTILE = re.compile(r"(?:p(\d+(?:\.\d+)?)|median)_(ttft|tpot|e2el)_ms")
_FIGURES = {"ttft": "ttft_s", "tpot": "itl_s", "e2el": "wall_s"}


def recognises(document: Document) -> bool:
    """Whether this is such a result."""
    return is_serving(document) and not of_sglang(document)


def is_serving(document: Document) -> bool:
    """Whether this has the figures of a server's benchmark, which SGLang's tool took over."""
    return {"request_throughput", "output_throughput", "total_output_tokens"} <= document.keys()


def of_sglang(document: Document) -> bool:
    """Whether it is of SGLang's tool: its own engine, or a figure that vLLM's does not write."""
    backend = document.get("backend")
    return "accept_length" in document or str(backend).startswith("sglang")


def cells(source: Source, given: Given) -> list[Imported]:
    """One cell per result, a sweep's runs as repeats."""
    return [_cell(source.path, document, given) for document in source.documents]


def _cell(path: Path, document: Document, given: Given) -> Imported:
    notes: list[Note] = []
    warnings: list[str] = []
    rate = _rate(document)
    key: dict[str, Any] = {
        "target": given.target or str(document.get("model_id") or UNNAMED),
        "task": given.task or str(_swept(document, "dataset_name") or UNNAMED),
        "temperature": temperature_of(path, _temperature(document), given.temperature, notes),
        "batch_size": _batch_size(path, document, rate, given, warnings, notes),
        "request_rate": rate,
        "backend": "vllm",
        "repeat": count(document, "run_number") or 0,
    }
    fields = {**_speeds(document), "warnings": warnings}
    failed, completed = count(document, "failed") or 0, fields["num_requests"]
    config, survival = _config(document), _survival(document)
    rounds, drafted, accepted = (
        count(document, f"spec_decode_{name}")
        for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    swept = number(config, _LENGTH)
    is_plain = swept == 0 or (swept is None and rounds is None and not survival)
    if completed == 0:
        why = f"all {failed} requests failed" if failed else "no request finished"
        if is_plain and swept is None:
            problem = f"{path}: {why}, so nothing tells how it decoded"
            raise SpecbenchError(problem, "Measure it again")
        fields = {"status": "failed", "error": why}
        notes.append(Note(path.name, f"{why}: a failed cell"))
    else:
        asked = failed + completed if completed else count(document, "num_prompts") or failed
        remark_failures(path, failed, asked, warnings, notes)
    if is_plain:
        if swept is None:
            notes.append(Note(path.name, "without spec_decode fields, taken as plain decoding"))
        return Imported({**key, **plain_key()}, fields, notes=notes)
    told = _gamma(swept, survival)
    if told is not None and len(survival) > told:
        raise SpecbenchError(
            f"{path} has a gamma of {told} and rates of {len(survival)} positions",
            "One of the two is wrong",
        )
    if told is None and given.gamma is None and rounds and drafted and drafted % rounds == 0:
        told = drafted // rounds
        remark(path, "gamma is not told, taken as drafted tokens / drafts", warnings, notes)
    gamma = needed("gamma", path, settled("gamma", path, told, given.gamma))
    key |= {"drafter": given.drafter or _drafter(config), "gamma": gamma}
    if completed == 0:
        return Imported(key, fields, notes=notes)
    check_lengths(path, gamma, rounds, drafted)
    stated = {
        "tau": positive(document, "spec_decode_acceptance_length"),
        "draft_acceptance_rate": _share(document, "spec_decode_acceptance_rate"),
    }
    fields |= acceptance(gamma, rounds, drafted, accepted, survival)
    fields |= {name: value for name, value in stated.items() if value is not None}
    warnings += _warnings(gamma, rounds, drafted)
    return Imported(key, fields, notes=notes)


def _speeds(document: Document) -> dict[str, Any]:
    """Times and throughput."""
    completed = count(document, "completed")
    good = number(document, "request_goodput", "request_goodput:")
    duration = positive(document, "duration")
    return {
        "wall_s": duration,
        "ttft_s": _seconds(document, "mean_ttft_ms"),
        "itl_s": _seconds(document, "mean_tpot_ms"),
        "step_s": _seconds(document, "mean_itl_ms"),
        "tokens": count(document, "total_output_tokens"),
        "tok_per_s": positive(document, "output_throughput"),
        "num_requests": completed,
        "num_prompts": completed,
        "requests_per_s": positive(document, "request_throughput"),
        "goodput_per_s": good,
        "goodput_share": good * duration / completed
        if good is not None and duration and completed and count(document, "failed") == 0
        else None,
        "percentiles": _percentiles(document),
    }


def _percentiles(document: Document) -> dict[str, dict[str, float]] | None:
    """Of requests, as far as they were asked for; the median is p50."""
    found: dict[str, dict[str, float]] = {}
    for key in document:
        if (parts := _PERCENTILE.fullmatch(key)) and (value := _seconds(document, key)):
            found.setdefault(_FIGURES[parts[2]], {})[f"p{parts[1] or 50}"] = value
    return found or None


def _batch_size(
    path: Path,
    document: Document,
    rate: float,
    given: Given,
    warnings: list[str],
    notes: list[Note],
) -> int:
    """Requests in flight: what was set or given, never a peak without saying so."""
    peak = count(document, "max_concurrent_requests") or None
    told = count(document, "max_concurrency") or None
    size = settled("batch_size", path, told, given.batch_size)
    if rate:
        return size or 1
    if size is None and peak is not None:
        text = "the peak of concurrent requests stands for the batch size, a guess (--batch-size)"
        remark(path, text, warnings, notes)
    return needed("batch_size", path, size or peak)


def _rate(document: Document) -> float:
    """Arrivals per second; 0 where all requests are there from the start (inf)."""
    value = _swept(document, "request_rate")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError as error:
            raise SpecbenchError(f"request_rate is {value[:40]!r}, not a number") from error
    return number({"request_rate": value}, "request_rate") or 0.0


def _warnings(gamma: int, rounds: int | None, drafted: int | None) -> list[str]:
    warnings = ["tau counts rounds that had a draft only"]
    if rounds and drafted and not full_length(gamma, rounds, drafted):
        warnings.append(
            f"drafts had {drafted / rounds:.2f} of {gamma} tokens on average, so how many tokens "
            "were evaluated is not known: no alpha"
        )
    return warnings


def _gamma(swept: float | None, survival: list[float]) -> int | None:
    if swept is not None:
        return int(swept)
    return len(survival) or None


def _survival(document: Document) -> list[float]:
    return numbers(document, "spec_decode_per_position_acceptance_rates")


def _drafter(config: Mapping[str, Any]) -> str:
    method, model = config.get("method"), config.get("model")
    if model and method in (None, "draft_model"):
        return f"model:{model}"
    return f"{method}:{model}" if method and model else str(method or UNNAMED)


def _config(document: Document) -> dict[str, Any]:
    """A sweep's speculative configuration, whichever way it was spelt."""
    whole = _swept(document, _CONFIG)
    if isinstance(whole, str):
        try:
            whole = json.loads(whole)
        except json.JSONDecodeError:
            whole = None
    config = (
        {str(key).replace("-", "_"): value for key, value in (whole or {}).items()}
        if (isinstance(whole, dict))
        else {}
    )
    for key, value in document.items():
        head, _, name = key.replace("-", "_").partition(".")
        if head == _CONFIG and name:
            config[name] = value
        elif head == _LENGTH and not name:
            config[_LENGTH] = value
    return config


def _swept(document: Document, name: str) -> Any:
    """A parameter that a sweep adds under its option's name."""
    return document.get(name, document.get(name.replace("_", "-")))


def _temperature(document: Document) -> float | None:
    value = _swept(document, "temperature")
    try:  # what --metadata adds is text
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _seconds(document: Document, key: str) -> float | None:
    value = positive(document, key)
    return None if value is None else value / 1000.0


def _share(document: Document, key: str) -> float | None:
    value = number(document, key)
    return None if value is None else value / 100.0
