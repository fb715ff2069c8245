"""Drafters and their gamma in little room: long SPECs broken, shortened or cut in the middle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specbench.records.schema import DraftForm

_VALUE = re.compile(r"(?<=[:=])[^:=,]+")
_CONTROL = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ud800-\\udfff]"
)
_PART = re.compile(r"[^/:,\- ]+[/:,\- ]?|[/:,\- ]")


def broken(name: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters, broken after ``/ : , -`` or a space where possible.

    >>> broken("model:drafters/SmolLM2-21M", 13)
    ['model:', 'drafters/', 'SmolLM2-21M']
    """
    lines = [""]
    for part in _PART.findall(name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]


def printable(text: str) -> str:
    r"""Text as a terminal may have it: what would move, colour or reorder it is spelt out.

    As JSON spells it, so a line of JSON stays what it is.

    >>> print(printable("\x1b[31mred\u202e"))
    \u001b[31mred\u202e
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Each SPEC with its paths cut to their last part, where that still tells all of them apart.

    A hub's ORG/NAME is no path and stays: it is what one types.

    >>> list(short_names(["eagle:/data/heads/one,tree=24", "model:ORG/NAME"]).values())
    ['eagle:one,tree=24', 'model:ORG/NAME']
    """
    short = {name: _VALUE.sub(_last_part, name) for name in dict.fromkeys(names)}
    count = Counter(short.values())
    return {name: text if count[text] == 1 else name for name, text in short.items()}


def _last_part(value: re.Match[str]) -> str:
    text = value[0].rstrip("/")
    is_path = text.startswith(("/", "./", "../", "~")) or text.count("/") > 1
    return text.rpartition("/")[2] if is_path else value[0]


def cut_in_middle(text: str, width: int) -> str:
    """At most ``width`` characters, both ends kept: what tells SPECs apart stands at either.

    >>> cut_in_middle("model:a-long-folder,gamma=auto", 20)
    'model:a-lo…amma=auto'
    """
    if len(text) <= width:
        return text
    tail = max(width - 1, 0) // 2
    head = max(width - 1, 0) - tail
    return f"{text[:head]}…{text[len(text) - tail :]}"[: max(width, 0)]


def gamma_label(form: DraftForm, gamma: int, mean_length: float | None = None) -> str:
    """Gamma as tables show it; of an adaptive draft the longest allowed and, if known, the mean.

    >>> gamma_label("chain", 4), gamma_label("adaptive", 8, 3.14)
    ('4', '≤8 (3.1)')
    """
    if form != "adaptive":
        return str(gamma)
    return f"≤{gamma}" if mean_length is None else f"≤{gamma} ({mean_length:.1f})"


def load_column(batch_size: int, request_rate: float, context_length: int | None) -> str:
    """How much was asked at once, as tables have it: with the context that prompts were padded to.

    >>> load_column(8, 0.0, None), load_column(8, 0.0, 2048), load_column(1, 2.5, None)
    ('8', '8@2048', '2.5/s')
    >>> load_column(8, 2.5, None)  # arriving, no more than 8 of them at once
    '2.5/s≤8'
    """
    load = f"{request_rate:g}/s" if request_rate else str(batch_size)
    if request_rate and batch_size > 1:
        load += f"≤{batch_size}"
    return load if context_length is None else f"{load}@{context_length}"


def with_gamma(drafter: str, form: DraftForm, gamma: int) -> str:
    """A drafter with its gamma, e.g. ``ngram γ = 4`` or ``eagle:PATH,gamma=auto γ ≤ 8``."""
    return f"{drafter} γ {'≤' if form == 'adaptive' else '='} {gamma}"


def some(names: Iterable[str], most: int = 3) -> str:
    """The first names of many, the others counted.

    >>> some("abcde")
    'a; b; c and 2 more'
    """
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return "; ".join(listed[:most]) + more


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "prompt"), counted(12, "prompt")
    ('1 prompt', '12 prompts')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def load_label(batch_size: int, request_rate: float = 0.0) -> str:
    """How much was asked at once: so many in flight, or so many arriving per second.

    >>> load_label(4), load_label(1, 2.5), load_label(8, 2.5)
    ('batch 4', '2.5 requests/s', '2.5 requests/s, 8 at once')
    """
    if not request_rate:
        return f"batch {batch_size}"
    return f"{request_rate:g} requests/s" + (f", {batch_size} at once" if batch_size > 1 else "")


def engine_label(backend: str) -> str:
    """An engine; of a server without its options, e.g. without the baseline's URL.

    >>> engine_label("openai:http://a,baseline=http://b"), engine_label("hf-assisted,defaults")
    ('openai:http://a', 'hf-assisted,defaults')
    """
    return backend.partition(",")[0] if ":" in backend else backend


def task_title(task: str, backend: str, several: bool) -> str:
    """A task as tables name it, with its engine where there are several.

    >>> task_title("code", "native", True), task_title("code", "native", False)
    ('code, native', 'code')
    """
    return f"{task}, {engine_label(backend)}" if several else task
