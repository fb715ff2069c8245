"""Values of a sweep as they are typed, in options or in TOML, read into numbers, texts and lists.

>>> listed("1,2, 2", "gammas", lambda item: whole(item, "gammas", 1))
[1, 2]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from specbench.errors import SpecbenchError

OPTION_FIELDS = {
    "target": "target",
    "drafter": "drafters",
    "target-quantization": "target_quantization",
    "drafter-quantization": "drafter_quantization",
    "gamma": "gammas",
    "temperature": "temperatures",
    "top-k": "top_k",
    "top-p": "top_p",
    "batch-size": "batch_sizes",
    "request-rate": "request_rates",
    "context-length": "context_lengths",
    "task": "tasks",
    "prompts": "prompts",
    "max-new-tokens": "max_new_tokens",
    "repeats": "repeats",
    "backend": "backends",
    "engine-python": "engine_python",
    "engine-args": "engine_args",
    "device": "device",
    "dtype": "dtype",
    "attention": "attention",
    "threads": "threads",
    "cuda-graph": "cuda_graph",
    "compile": "compile",
    "seed": "seed",
    "ignore-eos": "ignore_eos",
    "prompt-source": "prompt_source",
    "out": "out",
    "resume": "resume",
    "retry-failed": "retry_failed",
}
"""Option (and TOML key) -> field of :class:`SweepConfig`."""

FIELD_OPTIONS = {field: f"--{option}" for option, field in OPTION_FIELDS.items()}

_Item = TypeVar("_Item")


def listed(
    value: Any, field: str, convert: Callable[[Any], _Item], *, split: bool = True
) -> list[_Item]:
    """A list without duplicates from one value, a list, or (``split``) text with commas."""
    items: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    flat: list[Any] = []
    for item in items:
        parts = item.split(",") if split and isinstance(item, str) else [item]
        if len(parts) > 1 and not all(part.strip() for part in parts):
            raise SpecbenchError(
                f"{FIELD_OPTIONS[field]} {item!r} has nothing between two commas or at an end",
                "Give values with one comma between them",
            )
        flat += [part.strip() if isinstance(part, str) else part for part in parts]
    if not flat:
        raise SpecbenchError(f"{FIELD_OPTIONS[field]} is an empty list", "Give at least one value")
    return list(dict.fromkeys(convert(item) for item in flat))


def whole(value: Any, field: str, least: int, note: str = "") -> int:
    expected = f"a whole number, {least} or more" + (f"; {note}" if note else "")
    number = value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,30}", value.strip()):
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise wrong(field, value, expected)
    return number


def real(value: Any, field: str, least: float) -> float:
    expected = f"a number, {least:g} or more"
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        raise wrong(field, value, expected) from None
    if not math.isfinite(number) or number < least:
        raise wrong(field, value, expected)
    return number + 0.0  # -0.0 becomes 0.0


def as_text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong(field, value, "a text that is not empty")
    return value.strip()


def wrong(field: str, value: Any, expected: str) -> SpecbenchError:
    return SpecbenchError(f"{FIELD_OPTIONS[field]} {value!r} is not usable", f"Give {expected}")
