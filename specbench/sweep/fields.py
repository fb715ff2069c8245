"""The types of a sweep's fields: each says how a value of a user is read, and which are right.

Values come from the command line, from TOML or from Python; a wrong one is answered with one line
that names the option and the value.

>>> from pydantic import TypeAdapter
>>> TypeAdapter(Words).validate_python("--a  'b c'")
"--a 'b c'"
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from specbench.measure.device import DEVICES, DTYPES, SEVERAL_DEVICES, check_threads
from specbench.records.served.goodput import parse_limits
from specbench.sweep.options import (
    FIELD_OPTIONS,
    a_backend,
    a_drafter,
    a_list,
    a_rate,
    a_setting,
    a_task,
    plain_text,
    real_number,
    whole_number,
    wrong,
)
from specbench.theory.closed_form import LONGEST_GAMMA
from specbench.weights.choices import ATTENTIONS, SHORT_DTYPES
from specbench.weights.methods import check_method

PROMPT_SOURCES = ("auto", "hub", "package", "offline")
_LARGEST_SEED = 2**63 - 1
_MOST = {"gammas": LONGEST_GAMMA, "batch_sizes": 65_536, "repeats": 10_000}
"""More is a typing mistake, and the list of what is to be measured would fill the memory."""

Reader = Callable[[Any, str], Any]
"""From a value and its field's name to what the field holds."""


def _read(read: Reader) -> BeforeValidator:
    def validate(value: Any, info: ValidationInfo) -> Any:
        return read(value, info.field_name or "")

    return BeforeValidator(validate)


def _read_or_none(read: Reader) -> BeforeValidator:
    return _read(lambda value, field: None if value is None else read(value, field))


def _count(value: Any, field: str) -> int:
    number, most = whole_number(value, field, 1), _MOST.get(field)
    if most is not None and number > most:
        raise wrong(field, value, f"a whole number from 1 to {most}")
    return number


def _counts(value: Any, field: str) -> list[int]:
    return a_list(value, field, lambda item: _count(item, field))


def _max_new_tokens(value: Any, field: str) -> int:
    note = "the first one comes with the prompt, before there is anything to measure"
    return whole_number(value, field, 2, note)


def _top_p(value: Any, field: str) -> float:
    number = real_number(value, field, 0.0)
    if not 0.0 < number <= 1.0:
        raise wrong(field, value, "a number above 0 and up to 1; 1 keeps every token")
    return number


def _seed(value: Any, field: str) -> int:
    number = whole_number(value, field, 0)
    if number > _LARGEST_SEED:
        raise wrong(field, value, "a whole number below 2^63")
    return number


def _threads(value: Any, field: str) -> int:
    number = _count(value, field)
    check_threads(number)
    return number


def _device(value: Any, field: str) -> str:
    text = plain_text(value, field)
    if not re.fullmatch(f"{DEVICES}|{SEVERAL_DEVICES}", text):
        raise wrong(field, value, "auto, cpu, cuda, cuda:N, or several: cuda:0,cuda:1")
    return text


def _one_of(*choices: str) -> BeforeValidator:
    def read(value: Any, field: str) -> str:
        text = plain_text(value, field)
        text = SHORT_DTYPES.get(text, text)
        if text not in choices:
            raise wrong(field, value, "one of " + ", ".join(choices))
        return text

    return _read(read)


def _template_args(value: Any, field: str) -> dict[str, Any]:
    if isinstance(value, dict):  # as TOML has it
        return dict(value)
    given: Any = value if isinstance(value, list | tuple) else [value]
    return dict(a_setting(item) for item in given)


def _words(value: Any, field: str) -> str:
    try:
        return shlex.join(shlex.split(plain_text(value, field)))
    except ValueError as error:  # a quote that is not closed
        raise wrong(field, value, f"words as in a shell ({error})") from None


def _limits(value: Any, field: str) -> str:
    limits = parse_limits(plain_text(value, field))
    return ",".join(f"{name}:{limit:g}" for name, limit in limits.items())


def _switch(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(field, value, "true or false")
    return value


def _path(value: Any, field: str) -> Path:
    return Path(plain_text(str(value), field)).expanduser()


def _several(read: Callable[[Any], Any], split: bool) -> BeforeValidator:
    return _read(lambda value, field: a_list(value, field, read, split=split))


def _method(value: Any, field: str) -> str:
    return check_method(plain_text(value, field), FIELD_OPTIONS[field])


Text = Annotated[str | None, _read_or_none(plain_text)]
Switch = Annotated[bool, _read(_switch)]
Count = Annotated[int, _read(_count)]
Counts = Annotated[list[int], _read(_counts)]
CountsOrNone = Annotated[list[int] | None, _read_or_none(_counts)]
Threads = Annotated[int | None, _read_or_none(_threads)]
Seed = Annotated[int, _read(_seed)]

Drafters = Annotated[list[str], _several(a_drafter, split=False)]
Backends = Annotated[list[str], _several(a_backend, split=False)]
Tasks = Annotated[list[str], _several(a_task, split=True)]
Method = Annotated[str | None, _read_or_none(_method)]
"""Of quantisation."""

Temperatures = Annotated[
    list[float],
    _read(lambda value, field: a_list(value, field, lambda item: real_number(item, field, 0.0))),
]
Rates = Annotated[
    list[float] | None, _read_or_none(lambda value, field: a_list(value, field, a_rate))
]
TopK = Annotated[
    int, _read(lambda value, field: whole_number(value, field, 0, "0 keeps every token"))
]
TopP = Annotated[float, _read(_top_p)]
MaxNewTokens = Annotated[int, _read(_max_new_tokens)]

Device = Annotated[str, _read(_device)]
Dtype = Annotated[str, _one_of(*DTYPES)]
Attention = Annotated[str, _one_of(*ATTENTIONS)]
PromptSource = Annotated[str, _one_of(*PROMPT_SOURCES)]
TemplateArgs = Annotated[dict[str, Any], _read(_template_args)]
Folder = Annotated[Path | None, _read_or_none(_path)]
Program = Annotated[str | None, _read_or_none(lambda value, field: str(_path(value, field)))]
Words = Annotated[str | None, _read_or_none(_words)]
"""Of a command."""
Limits = Annotated[str | None, _read_or_none(_limits)]
"""Of latency."""
