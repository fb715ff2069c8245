"""What a sweep is asked to measure: one validated object, from options, a TOML file, or defaults.

Every value is checked here, before anything is loaded, and a wrong one is answered with one line
that names it. The names in a TOML file are those of the options: ``gamma = [1, 2, 4]``,
``max-new-tokens = 64`` (or ``max_new_tokens``).

>>> SweepConfig(gammas="1,2,2,4").gammas
[1, 2, 4]
>>> SweepConfig(seed=1).digest() == SweepConfig(seed=1, out="elsewhere").digest()
True
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from specbench import registry
from specbench.backends.spec import parse_backend
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.records.served.goodput import parse_limits
from specbench.sweep.defaults import DEFAULT_SWEEP, OTHER_TARGET_DRAFTERS, SHAPE_SWEEP
from specbench.weights.shapes import is_shape

DTYPES = ("auto", "float32", "bfloat16", "float16")
ATTENTIONS = ("auto", "sdpa", "eager")
PROMPT_SOURCES = ("auto", "hub", "package", "offline")
_PROMPT_FILES = {".jsonl", ".json", ".toml", ".txt"}
_DTYPE_ALIASES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_LARGEST_SEED = 2**63 - 1

OPTION_FIELDS = {
    "target": "target",
    "drafter": "drafters",
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
    "prompt-source": "prompt_source",
    "out": "out",
    "resume": "resume",
    "retry-failed": "retry_failed",
}
"""Option (and TOML key) -> field of :class:`SweepConfig`."""

_FIELD_OPTIONS = {field: f"--{option}" for option, field in OPTION_FIELDS.items()}
_NOT_MEASUREMENT = {"engine_python", "out", "resume", "retry_failed"}
_CAME_LATER: dict[str, Any] = {
    **{"cuda_graph": True, "compile": False, "context_lengths": None},
    **{"request_rates": None, "served_as": None, "engine_args": None, "goodput": None},
}
"""Fields and their defaults, which older versions did not have."""

_FOR_ENGINES = {
    "engine_python": ("vllm",),
    "engine_args": ("vllm",),
    "goodput": ("vllm", "openai"),
}
"""Fields that say nothing to other engines than these."""

_Item = TypeVar("_Item")


class SweepConfig(BaseModel):
    """The grid and how it is measured. Lists are in the order given, duplicates removed.

    Raises:
        SpecbenchError: a value is out of range or unknown; the message names option and value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    target: str | None = DEFAULT_SWEEP["target"]
    drafters: list[str] = DEFAULT_SWEEP["drafters"]
    gammas: list[int] = DEFAULT_SWEEP["gammas"]
    temperatures: list[float] = DEFAULT_SWEEP["temperatures"]
    top_k: int = DEFAULT_SWEEP["top_k"]
    top_p: float = DEFAULT_SWEEP["top_p"]
    batch_sizes: list[int] = DEFAULT_SWEEP["batch_sizes"]
    request_rates: list[float] | None = None  # arrivals per second; None: batch_sizes in flight
    context_lengths: list[int] | None = None  # None: prompts as they are
    tasks: list[str] = DEFAULT_SWEEP["tasks"]
    prompts: int = DEFAULT_SWEEP["prompts"]
    max_new_tokens: int = DEFAULT_SWEEP["max_new_tokens"]
    repeats: int = DEFAULT_SWEEP["repeats"]
    backends: list[str] = DEFAULT_SWEEP["backends"]
    engine_python: str | None = None  # of the environment of an engine that is started
    engine_args: str | None = None  # more words of its command
    goodput: str | None = None  # limits of latency that a server's answers are to meet
    device: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    threads: int | None = None
    cuda_graph: bool = True
    compile: bool = False
    seed: int = 0
    ignore_eos: bool = False
    prompt_source: str = "auto"
    out: Path | None = None
    resume: bool = False
    retry_failed: bool = False
    served_as: str | None = None  # the target's name, where none was given and a server tells it

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_other_targets(cls, values: Any) -> Any:
        """The shipped drafters are for the embedded target only."""
        if not isinstance(values, dict) or values.get("target") is None or _served(values):
            return values
        if is_shape(str(values["target"]).strip()):
            return {**SHAPE_SWEEP, **values}
        return {"drafters": OTHER_TARGET_DRAFTERS, **values}

    @model_validator(mode="after")
    def _no_stop_tokens_of_shapes(self) -> Self:
        """Random weights write no text that could end."""
        if is_shape(self.target) and not self.ignore_eos:
            raise SpecbenchError(
                f"--stop-at-eos is not usable with --target {self.target!r}",
                "Leave it out: the tokens of random weights mean nothing, stop tokens neither",
            )
        return self

    @model_validator(mode="after")
    def _no_option_without_its_engine(self) -> Self:
        """What no engine would read was meant for one that is not there."""
        kinds = {parse_backend(text).kind for text in self.backends}
        for field, engines in _FOR_ENGINES.items():
            if getattr(self, field) is not None and not kinds & set(engines):
                needed = " or ".join(engines)
                raise SpecbenchError(
                    f"{_FIELD_OPTIONS[field]} says nothing to --backend {', '.join(self.backends)}",
                    f"Leave it out, or measure with --backend {needed}",
                )
        return self

    @property
    def target_name(self) -> str:
        """The target in words; the embedded default has a name too."""
        return self.target or self.served_as or "SmolLM2-135M-Instruct"

    @property
    def folder(self) -> Path:
        """Where the run is written: ``out``, else a name that the same sweep always gets.

        That name, ``results/<target>-<8 hex of the configuration>``, is what lets the same command
        typed again find its finished cells.
        """
        if self.out is not None:
            return self.out
        short = re.sub(r"[^A-Za-z0-9._]+", "-", Path(self.target_name).name).strip("-.")[:40]
        return Path("results") / f"{short or 'target'}-{self.digest()[:8]}"

    def measurement(self) -> dict[str, Any]:
        """The fields that decide what is measured, as plain JSON values: what a manifest keeps.

        Fields that came later are left out at their defaults, as in the versions without them.
        """
        values = self.model_dump(mode="json", exclude=_NOT_MEASUREMENT)
        return {
            name: value
            for name, value in values.items()
            if name not in _CAME_LATER or value != _CAME_LATER[name]
        }

    def digest(self) -> str:
        """SHA-256 (hex) of :meth:`measurement`, blind to the order of lists.

        The same cells in another order are the same sweep: their order inside a block is drawn
        from the seed. Files named as target or task count by name, not by content.
        """
        values = {
            name: sorted(value) if isinstance(value, list) else value
            for name, value in self.measurement().items()
        }
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @field_validator("gammas", "batch_sizes", "context_lengths", mode="before")
    @classmethod
    def _counts(cls, value: Any, info: Any) -> list[int] | None:
        if value is None and info.field_name == "context_lengths":
            return None
        return _listed(value, info.field_name, lambda item: _whole(item, info.field_name, 1))

    @field_validator("temperatures", mode="before")
    @classmethod
    def _temperatures(cls, value: Any, info: Any) -> list[float]:
        return _listed(value, info.field_name, lambda item: _real(item, info.field_name, 0.0))

    @field_validator("request_rates", mode="before")
    @classmethod
    def _request_rates(cls, value: Any) -> list[float] | None:
        return None if value is None else _listed(value, "request_rates", _rate)

    @field_validator("prompts", "repeats", mode="before")
    @classmethod
    def _count(cls, value: Any, info: Any) -> int:
        return _whole(value, info.field_name, 1)

    @field_validator("max_new_tokens", mode="before")
    @classmethod
    def _max_new_tokens(cls, value: Any) -> int:
        note = "the first one comes with the prompt, before there is anything to measure"
        return _whole(value, "max_new_tokens", 2, note)

    @field_validator("top_k", mode="before")
    @classmethod
    def _top_k(cls, value: Any) -> int:
        return _whole(value, "top_k", 0, "0 keeps every token")

    @field_validator("top_p", mode="before")
    @classmethod
    def _top_p(cls, value: Any) -> float:
        number = _real(value, "top_p", 0.0)
        if not 0.0 < number <= 1.0:
            raise _wrong("top_p", value, "a number above 0 and up to 1; 1 keeps every token")
        return number

    @field_validator("seed", mode="before")
    @classmethod
    def _seed(cls, value: Any) -> int:
        number = _whole(value, "seed", 0)
        if number > _LARGEST_SEED:
            raise _wrong("seed", value, "a whole number below 2^63")
        return number

    @field_validator("threads", mode="before")
    @classmethod
    def _threads(cls, value: Any) -> int | None:
        return None if value is None else _whole(value, "threads", 1)

    @field_validator("drafters", mode="before")
    @classmethod
    def _drafters(cls, value: Any) -> list[str]:
        return _listed(value, "drafters", _drafter, split=False)

    @field_validator("backends", mode="before")
    @classmethod
    def _backends(cls, value: Any) -> list[str]:
        return _listed(value, "backends", _backend, split=False)

    @field_validator("tasks", mode="before")
    @classmethod
    def _tasks(cls, value: Any) -> list[str]:
        return _listed(value, "tasks", _task)

    @field_validator("target", mode="before")
    @classmethod
    def _target(cls, value: Any) -> str | None:
        return None if value is None else _text(value, "target")

    @field_validator("dtype", "attention", "prompt_source", mode="before")
    @classmethod
    def _choice(cls, value: Any, info: Any) -> str:
        choices = {"dtype": DTYPES, "attention": ATTENTIONS, "prompt_source": PROMPT_SOURCES}
        text = _text(value, info.field_name)
        text = _DTYPE_ALIASES.get(text, text)
        if text not in choices[info.field_name]:
            raise _wrong(info.field_name, value, "one of " + ", ".join(choices[info.field_name]))
        return text

    @field_validator("device", mode="before")
    @classmethod
    def _device(cls, value: Any) -> str:
        text = _text(value, "device")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
            raise _wrong("device", value, "auto, cpu, cuda or cuda:N")
        return text

    @field_validator("out", mode="before")
    @classmethod
    def _out(cls, value: Any) -> Path | None:
        return None if value is None else Path(_text(str(value), "out")).expanduser()

    @field_validator("engine_python", mode="before")
    @classmethod
    def _engine_python(cls, value: Any) -> str | None:
        return None if value is None else str(Path(_text(value, "engine_python")).expanduser())

    @field_validator("engine_args", mode="before")
    @classmethod
    def _engine_args(cls, value: Any) -> str | None:
        if value is None:
            return None
        try:
            return shlex.join(shlex.split(_text(value, "engine_args")))
        except ValueError as error:  # a quote that is not closed
            raise _wrong("engine_args", value, f"words as in a shell ({error})") from None

    @field_validator("goodput", mode="before")
    @classmethod
    def _goodput(cls, value: Any) -> str | None:
        if value is None:
            return None
        limits = parse_limits(_text(value, "goodput"))
        return ",".join(f"{name}:{limit:g}" for name, limit in limits.items())

    @field_validator("ignore_eos", "cuda_graph", "compile", "resume", "retry_failed", mode="before")
    @classmethod
    def _switch(cls, value: Any, info: Any) -> bool:
        if not isinstance(value, bool):
            raise _wrong(info.field_name, value, "true or false")
        return value


def build(options: dict[str, Any], file: Path | None = None) -> SweepConfig:
    """The sweep of explicit options over those of a TOML file over the defaults.

    Args:
        options: option name (``max-new-tokens`` or ``max_new_tokens``) -> value; ``None`` means
            that the option was not given.
        file: the argument of ``--config``.

    Raises:
        SpecbenchError: a value or key is wrong, or the file cannot be read.
    """
    from_file = read_file(file) if file is not None else {}
    given = {name: value for name, value in options.items() if value is not None}
    return SweepConfig(**(_fields(from_file, f"in {file}") | _fields(given, "among the options")))


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


def _fields(values: dict[str, Any], where: str) -> dict[str, Any]:
    fields = {}
    for key, value in values.items():
        option = key.replace("_", "-")
        if option not in OPTION_FIELDS:
            close = difflib.get_close_matches(option, OPTION_FIELDS, n=1, cutoff=0.5)
            suggestion = f"Did you mean {close[0]!r}? " if close else ""
            known = ", ".join(OPTION_FIELDS)
            raise SpecbenchError(f"unknown key {key!r} {where}", f"{suggestion}Known: {known}")
        if OPTION_FIELDS[option] in fields:
            raise SpecbenchError(f"the key {key!r} {where} is there twice", "Write it once")
        fields[OPTION_FIELDS[option]] = value
    return fields


def _listed(
    value: Any, field: str, convert: Callable[[Any], _Item], *, split: bool = True
) -> list[_Item]:
    """A list without duplicates from one value, a list, or (``split``) text with commas."""
    items: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    flat: list[Any] = []
    for item in items:
        parts = item.split(",") if split and isinstance(item, str) else [item]
        if len(parts) > 1 and not all(part.strip() for part in parts):
            raise SpecbenchError(
                f"{_FIELD_OPTIONS[field]} {item!r} has nothing between two commas or at an end",
                "Give values with one comma between them",
            )
        flat += [part.strip() if isinstance(part, str) else part for part in parts]
    if not flat:
        raise SpecbenchError(f"{_FIELD_OPTIONS[field]} is an empty list", "Give at least one value")
    return list(dict.fromkeys(convert(item) for item in flat))


def _whole(value: Any, field: str, least: int, note: str = "") -> int:
    expected = f"a whole number, {least} or more" + (f"; {note}" if note else "")
    number = value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,30}", value.strip()):
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise _wrong(field, value, expected)
    return number


def _real(value: Any, field: str, least: float) -> float:
    expected = f"a number, {least:g} or more"
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        raise _wrong(field, value, expected) from None
    if not math.isfinite(number) or number < least:
        raise _wrong(field, value, expected)
    return number + 0.0  # -0.0 becomes 0.0


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(field, value, "a text that is not empty")
    return value.strip()


def _drafter(value: Any) -> str:
    text = _text(value, "drafters")
    if text == "none":
        raise SpecbenchError(
            "--drafter 'none' is not needed", "Every block measures plain decoding first and last"
        )
    return parse_spec(text).text


def _rate(value: Any) -> float:
    number = _real(value, "request_rates", 0.0)
    if not number:
        raise _wrong("request_rates", value, "requests per second, more than 0")
    return number


def _backend(value: Any) -> str:
    return parse_backend(_text(value, "backends")).text


def _served(values: dict[str, Any]) -> bool:
    """Whether a server drafts with whatever it was started with."""
    backends = values.get("backends", ())
    texts = backends if isinstance(backends, list | tuple) else (backends,)
    return any(str(text).startswith("openai:") for text in texts)


def _task(value: Any) -> str:
    name = _text(value, "tasks")
    path = Path(name).expanduser()
    if path.suffix in _PROMPT_FILES or len(path.parts) > 1:
        if not path.is_file():
            raise SpecbenchError(
                f"no prompt file {name!r}", "Give a .jsonl file or a name from specbench tasks"
            )
        return name
    return _registered("tasks", name)


def _registered(kind: registry.Kind, value: Any) -> str:
    name = _text(value, kind)
    registry.path(kind, name)
    return name


def _wrong(field: str, value: Any, expected: str) -> SpecbenchError:
    return SpecbenchError(f"{_FIELD_OPTIONS[field]} {value!r} is not usable", f"Give {expected}")
