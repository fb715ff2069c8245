"""The names of a sweep's options, and how their values are read.

An option on the command line, a key of a TOML file and a field of the configuration are one thing;
a value may be text or what TOML has. What is wrong is answered with one line that names the option
and the value.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from specbench import registry
from specbench.backends.spec import parse_backend
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.workloads.load import means_file

_Item = TypeVar("_Item")

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
    "goodput": "goodput",
    "device": "device",
    "dtype": "dtype",
    "attention": "attention",
    "threads": "threads",
    "cuda-graph": "cuda_graph",
    "compile": "compile",
    "seed": "seed",
    "ignore-eos": "ignore_eos",
    "share-prefix": "share_prefix",
    "prompt-source": "prompt_source",
    "chat-template-arg": "chat_template_args",
    "out": "out",
    "resume": "resume",
    "retry-failed": "retry_failed",
}
"""Option (and TOML key) -> field of :class:`SweepConfig`."""

FIELD_OPTIONS = {field: f"--{option}" for option, field in OPTION_FIELDS.items()}


def by_field(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Values by field, from values by option.

    Args:
        where: of the values, as the end of a sentence.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        option = key.replace("_", "-")
        if option not in OPTION_FIELDS:
            close = difflib.get_close_matches(option, OPTION_FIELDS, n=1, cutoff=0.5)
            suggestion = f"Did you mean {close[0]!r}? " if close else ""
            known = ", ".join(OPTION_FIELDS)
            raise SpecbenchError(f"unknown key {key!r} {where}", f"{suggestion}Known: {known}")
        if OPTION_FIELDS[option] in found:
            raise SpecbenchError(f"the key {key!r} {where} is there twice", "Write it once")
        found[OPTION_FIELDS[option]] = value
    return found


def a_list(
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


def whole_number(value: Any, field: str, least: int, note: str = "") -> int:
    """A whole number, at least ``least``; ``note`` is said to who gave less."""
    expected = f"a whole number, {least} or more" + (f"; {note}" if note else "")
    number = value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,30}", value.strip()):
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise wrong(field, value, expected)
    return number


def real_number(value: Any, field: str, least: float) -> float:
    """A finite number, at least ``least``."""
    expected = f"a number, {least:g} or more"
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        raise wrong(field, value, expected) from None
    if not math.isfinite(number) or number < least:
        raise wrong(field, value, expected)
    return number + 0.0  # -0.0 becomes 0.0


def plain_text(value: Any, field: str) -> str:
    """A text without the spaces around it."""
    if not isinstance(value, str) or not value.strip():
        raise wrong(field, value, "a text that is not empty")
    return value.strip()


def wrong(field: str, value: Any, expected: str) -> SpecbenchError:
    """That a value can't be used, and what can."""
    return SpecbenchError(f"{FIELD_OPTIONS[field]} {value!r} is not usable", f"Give {expected}")


def a_drafter(value: Any) -> str:
    """A SPEC, checked as far as it can be without weights."""
    text = plain_text(value, "drafters")
    if text == "none":
        raise SpecbenchError(
            "--drafter 'none' is not needed", "Every block measures plain decoding first and last"
        )
    return parse_spec(text).text


def a_setting(value: Any) -> tuple[str, Any]:
    """KEY=VALUE; the value as JSON where it is some, else as text."""
    key, equals, written = plain_text(value, "chat_template_args").partition("=")
    if not (equals and key.strip().isidentifier()):
        raise wrong("chat_template_args", value, "KEY=VALUE, e.g. enable_thinking=false")
    try:
        return key.strip(), json.loads(written)
    except json.JSONDecodeError:
        return key.strip(), written.strip()


def a_rate(value: Any) -> float:
    """Arrivals per second."""
    number = real_number(value, "request_rates", 0.0)
    if not number:
        raise wrong("request_rates", value, "requests per second, more than 0")
    return number


def a_backend(value: Any) -> str:
    """An engine."""
    return parse_backend(plain_text(value, "backends")).text


def a_task(value: Any) -> str:
    """A task's name, or a prompt file that is there."""
    name = plain_text(value, "tasks")
    path = Path(name).expanduser()
    if means_file(path):
        if not path.is_file():
            raise SpecbenchError(
                f"no prompt file {name!r}", "Give a .jsonl file or a name from specbench tasks"
            )
        return name
    registry.path("tasks", name)
    return name


def read_file(file: Path) -> dict[str, Any]:
    """The keys and values of a sweep's TOML file.

    Raises:
        SpecbenchError: no such file, or it is not TOML; the message has the line.
    """
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecbenchError(f"{file} is not valid TOML: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecbenchError(f"cannot read the sweep file {file}: {reason}") from error
