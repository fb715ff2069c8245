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
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from specbench import registry
from specbench.backends.spec import parse_backend
from specbench.drafters.spec import QUANTIZATION, parse_spec, quantised
from specbench.errors import SpecbenchError
from specbench.records.spec_text import quantised_name
from specbench.sweep.defaults import DEFAULT_SWEEP, OTHER_TARGET_DRAFTERS, SHAPE_SWEEP
from specbench.sweep.values import FIELD_OPTIONS, OPTION_FIELDS, as_text, listed, real, whole, wrong
from specbench.weights.methods import check_method
from specbench.weights.shapes import is_shape

DTYPES = ("auto", "float32", "bfloat16", "float16")
ATTENTIONS = ("auto", "sdpa", "eager")
PROMPT_SOURCES = ("auto", "hub", "package", "offline")
_PROMPT_FILES = {".jsonl", ".json", ".toml", ".txt"}
_DTYPE_ALIASES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_LOADING_BACKENDS = ("native", "hf-assisted")
_LARGEST_SEED = 2**63 - 1

_NOT_MEASUREMENT = {"drafter_quantization", "engine_python", "out", "resume", "retry_failed"}
_CAME_LATER: dict[str, Any] = {
    **{"cuda_graph": True, "compile": False, "context_lengths": None},
    **{"request_rates": None, "served_as": None, "engine_args": None},
    "target_quantization": None,
}
"""Fields and their defaults, which older versions did not have."""


class SweepConfig(BaseModel):
    """The grid and how it is measured. Lists are in the order given, duplicates removed.

    Raises:
        SpecbenchError: a value is out of range or unknown; the message names option and value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    target: str | None = DEFAULT_SWEEP["target"]
    drafters: list[str] = DEFAULT_SWEEP["drafters"]
    target_quantization: str | None = None  # None: as it comes
    drafter_quantization: str | None = None  # put into the SPECs of draft models
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
    def _defaults(cls, values: Any) -> Any:
        """Shipped drafters are for the embedded target only; SPECs say how they are quantised."""
        if not isinstance(values, dict):
            return values
        if values.get("target") is not None and not _served(values):
            shape = is_shape(str(values["target"]).strip())
            values = {**(SHAPE_SWEEP if shape else {"drafters": OTHER_TARGET_DRAFTERS}), **values}
        return _with_quantised_drafters(values)

    @model_validator(mode="after")
    def _quantised_here(self) -> Self:
        """Servers load weights themselves."""
        method = self.target_quantization or self.drafter_quantization
        for backend in self.backends:
            if method is not None and parse_backend(backend).kind not in _LOADING_BACKENDS:
                raise SpecbenchError(
                    f"quantization {method!r} is for weights that specbench loads, and {backend}"
                    " loads its own",
                    "Name a checkpoint that is quantised, or use the server's own options",
                )
        return self

    @model_validator(mode="after")
    def _no_stop_tokens_of_shapes(self) -> Self:
        """Random weights write no text that could end."""
        if is_shape(self.target) and not self.ignore_eos:
            raise SpecbenchError(
                f"--stop-at-eos is not usable with --target {self.target!r}",
                "Leave it out: the tokens of random weights mean nothing, stop tokens neither",
            )
        return self

    @property
    def target_name(self) -> str:
        """The target in words; the embedded default has a name too."""
        name = self.target or self.served_as or "SmolLM2-135M-Instruct"
        return quantised_name(name, self.target_quantization)

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
        return listed(value, info.field_name, lambda item: whole(item, info.field_name, 1))

    @field_validator("temperatures", mode="before")
    @classmethod
    def _temperatures(cls, value: Any, info: Any) -> list[float]:
        return listed(value, info.field_name, lambda item: real(item, info.field_name, 0.0))

    @field_validator("request_rates", mode="before")
    @classmethod
    def _request_rates(cls, value: Any) -> list[float] | None:
        return None if value is None else listed(value, "request_rates", _rate)

    @field_validator("prompts", "repeats", mode="before")
    @classmethod
    def _count(cls, value: Any, info: Any) -> int:
        return whole(value, info.field_name, 1)

    @field_validator("max_new_tokens", mode="before")
    @classmethod
    def _max_new_tokens(cls, value: Any) -> int:
        note = "the first one comes with the prompt, before there is anything to measure"
        return whole(value, "max_new_tokens", 2, note)

    @field_validator("top_k", mode="before")
    @classmethod
    def _top_k(cls, value: Any) -> int:
        return whole(value, "top_k", 0, "0 keeps every token")

    @field_validator("top_p", mode="before")
    @classmethod
    def _top_p(cls, value: Any) -> float:
        number = real(value, "top_p", 0.0)
        if not 0.0 < number <= 1.0:
            raise wrong("top_p", value, "a number above 0 and up to 1; 1 keeps every token")
        return number

    @field_validator("seed", mode="before")
    @classmethod
    def _seed(cls, value: Any) -> int:
        number = whole(value, "seed", 0)
        if number > _LARGEST_SEED:
            raise wrong("seed", value, "a whole number below 2^63")
        return number

    @field_validator("threads", mode="before")
    @classmethod
    def _threads(cls, value: Any) -> int | None:
        return None if value is None else whole(value, "threads", 1)

    @field_validator("drafters", mode="before")
    @classmethod
    def _drafters(cls, value: Any) -> list[str]:
        return listed(value, "drafters", _drafter, split=False)

    @field_validator("backends", mode="before")
    @classmethod
    def _backends(cls, value: Any) -> list[str]:
        return listed(value, "backends", _backend, split=False)

    @field_validator("tasks", mode="before")
    @classmethod
    def _tasks(cls, value: Any) -> list[str]:
        return listed(value, "tasks", _task)

    @field_validator("target", mode="before")
    @classmethod
    def _target(cls, value: Any) -> str | None:
        return None if value is None else as_text(value, "target")

    @field_validator("target_quantization", "drafter_quantization", mode="before")
    @classmethod
    def _quantization(cls, value: Any, info: Any) -> str | None:
        name = info.field_name
        return None if value is None else check_method(as_text(value, name), FIELD_OPTIONS[name])

    @field_validator("dtype", "attention", "prompt_source", mode="before")
    @classmethod
    def _choice(cls, value: Any, info: Any) -> str:
        choices = {"dtype": DTYPES, "attention": ATTENTIONS, "prompt_source": PROMPT_SOURCES}
        text = as_text(value, info.field_name)
        text = _DTYPE_ALIASES.get(text, text)
        if text not in choices[info.field_name]:
            raise wrong(info.field_name, value, "one of " + ", ".join(choices[info.field_name]))
        return text

    @field_validator("device", mode="before")
    @classmethod
    def _device(cls, value: Any) -> str:
        text = as_text(value, "device")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
            raise wrong("device", value, "auto, cpu, cuda or cuda:N")
        return text

    @field_validator("out", mode="before")
    @classmethod
    def _out(cls, value: Any) -> Path | None:
        return None if value is None else Path(as_text(str(value), "out")).expanduser()

    @field_validator("engine_python", mode="before")
    @classmethod
    def _engine_python(cls, value: Any) -> str | None:
        return None if value is None else str(Path(as_text(value, "engine_python")).expanduser())

    @field_validator("engine_args", mode="before")
    @classmethod
    def _engine_args(cls, value: Any) -> str | None:
        if value is None:
            return None
        try:
            return shlex.join(shlex.split(as_text(value, "engine_args")))
        except ValueError as error:  # a quote that is not closed
            raise wrong("engine_args", value, f"words as in a shell ({error})") from None

    @field_validator("ignore_eos", "cuda_graph", "compile", "resume", "retry_failed", mode="before")
    @classmethod
    def _switch(cls, value: Any, info: Any) -> bool:
        if not isinstance(value, bool):
            raise wrong(info.field_name, value, "true or false")
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


def _drafter(value: Any) -> str:
    text = as_text(value, "drafters")
    if text == "none":
        raise SpecbenchError(
            "--drafter 'none' is not needed", "Every block measures plain decoding first and last"
        )
    return parse_spec(text).text


def _with_quantised_drafters(values: dict[str, Any]) -> dict[str, Any]:
    """The values with a method for draft models in the SPECs, which are what is recorded.

    Raises:
        SpecbenchError: there is no draft model.
    """
    method = values.get("drafter_quantization")
    if method is None:
        return values
    check_method(as_text(method, "drafter_quantization"), "--drafter-quantization")
    asked = values.get("drafters", DEFAULT_SWEEP["drafters"])
    texts = listed(asked, "drafters", _drafter, split=False)
    drafters = [quantised(text, method.strip()) for text in texts]
    if not any(QUANTIZATION in text for text in drafters):
        raise SpecbenchError(
            f"--drafter-quantization {method!r} has no draft model to quantise",
            "It is for --drafter model or model:NAME",
        )
    return {**values, "drafters": drafters}


def _rate(value: Any) -> float:
    number = real(value, "request_rates", 0.0)
    if not number:
        raise wrong("request_rates", value, "requests per second, more than 0")
    return number


def _backend(value: Any) -> str:
    return parse_backend(as_text(value, "backends")).text


def _served(values: dict[str, Any]) -> bool:
    """Whether a server drafts with whatever it was started with."""
    backends = values.get("backends", ())
    texts = backends if isinstance(backends, list | tuple) else (backends,)
    return any(str(text).startswith("openai:") for text in texts)


def _task(value: Any) -> str:
    name = as_text(value, "tasks")
    path = Path(name).expanduser()
    if path.suffix in _PROMPT_FILES or len(path.parts) > 1:
        if not path.is_file():
            raise SpecbenchError(
                f"no prompt file {name!r}", "Give a .jsonl file or a name from specbench tasks"
            )
        return name
    return _registered("tasks", name)


def _registered(kind: registry.Kind, value: Any) -> str:
    name = as_text(value, kind)
    registry.path(kind, name)
    return name
