"""Results of vLLM's ``bench serve``, and the summaries that ``bench sweep`` makes of them.

A result without ``spec_decode_*`` fields is plain decoding. Milliseconds become seconds, the
percentage a share. ``mean_tpot_ms`` is the time per output token; ``mean_itl_ms`` is between
streamed chunks, which is the time of a step. Rates per position are survival: accepted at i / all
rounds that had a draft. A result does not tell the temperature, nor always the drafter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    acceptance,
    full_length,
    needed,
    plain_key,
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

_CONFIG = "speculative_config"
_LENGTH = "num_speculative_tokens"


def recognises(document: Document) -> bool:
    """Whether this is such a result."""
    return {"request_throughput", "output_throughput", "total_output_tokens"} <= document.keys()


def cells(source: Source, given: Given) -> list[Imported]:
    """One cell per result, a sweep's runs as repeats."""
    return [_cell(source.path, document, given) for document in source.documents]


def _cell(path: Path, document: Document, given: Given) -> Imported:
    notes: list[str] = []
    peak = count(document, "max_concurrency", "max_concurrent_requests")
    key: dict[str, Any] = {
        "target": given.target or str(document.get("model_id") or UNNAMED),
        "task": given.task or str(_swept(document, "dataset_name") or UNNAMED),
        "temperature": temperature_of(path, _temperature(document), given.temperature, notes),
        "batch_size": needed(
            "batch_size", path, settled("batch_size", path, peak or None, given.batch_size)
        ),
        "backend": "vllm",
        "repeat": count(document, "run_number") or 0,
    }
    fields: dict[str, Any] = {
        "wall_s": positive(document, "duration"),
        "ttft_s": _seconds(document, "mean_ttft_ms"),
        "itl_s": _seconds(document, "mean_tpot_ms"),
        "step_s": _seconds(document, "mean_itl_ms"),
        "tokens": count(document, "total_output_tokens"),
        "tok_per_s": positive(document, "output_throughput"),
        "num_requests": count(document, "completed"),
        "num_prompts": count(document, "completed"),
    }
    config, survival = _config(document), _survival(document)
    counts = [
        count(document, f"spec_decode_{name}")
        for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    ]
    swept = number(config, _LENGTH)
    if swept == 0 or (swept is None and counts[0] is None and not survival):
        if swept is None:
            notes.append(f"{path.name} has no spec_decode fields: taken as plain decoding")
        return Imported({**key, **plain_key()}, fields, notes=notes)
    rounds, drafted, accepted = counts
    gamma = needed("gamma", path, settled("gamma", path, _gamma(swept, survival), given.gamma))
    key |= {"drafter": given.drafter or _drafter(config), "gamma": gamma}
    stated = {
        "tau": positive(document, "spec_decode_acceptance_length"),
        "draft_acceptance_rate": _share(document, "spec_decode_acceptance_rate"),
    }
    told = {name: value for name, value in stated.items() if value is not None}
    fields |= acceptance(gamma, rounds, drafted, accepted, survival) | told
    fields["warnings"] = _warnings(document, gamma, rounds, drafted)
    return Imported({**key}, fields, notes=notes)


def _warnings(document: Document, gamma: int, rounds: int | None, drafted: int | None) -> list[str]:
    warnings = ["tau counts rounds that had a draft only"]
    if failed := count(document, "failed"):
        warnings.append(f"{failed} requests failed")
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
