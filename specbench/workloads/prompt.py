"""What a workload is: prompts of one or more user turns, with their origin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

PromptForm = Literal["chat", "prefixed", "plain"]
"""How a model wants its prompts: instructions, in a chat template where its tokenizer has one; the
text alone behind the task's prefix (T5); the text alone (BART, Marian). The last two are forms of
tasks that have a text to work on; the prompts of others stay as they are."""


@dataclass(frozen=True)
class Prompt:
    """One conversation: the user's turns, in order; the answers between them are measured.

    Attributes:
        id: unique in its workload; in the record, the cluster key of the intervals.
        task: name of the workload.
        category: e.g. ``writing``; the task's name where the source has none.
        turns: the user's messages, never empty.
        source: as :attr:`Workload.source`.
        system: system message, where the user's own file brings one.
        texts: what the turns are to work on, without instructions; None where there is no such.
        prefix: what stands before a text for models that were trained on the task by that name.
    """

    id: str
    task: str
    category: str
    turns: tuple[str, ...]
    source: str
    system: str | None = None
    texts: tuple[str, ...] | None = None
    prefix: str = ""

    def put(self, form: PromptForm) -> Prompt:
        """The same prompt as a model wants it."""
        if form == "chat" or self.texts is None:
            return self
        prefix = self.prefix if form == "prefixed" else ""
        return replace(self, turns=tuple(prefix + text for text in self.texts))


@dataclass(frozen=True)
class Workload:
    """The prompts of one task, and where they came from.

    Attributes:
        name: task name, file stem, or ``stem:category``.
        version: the task file's version; 0 for the user's own file, which its hash identifies.
        licence: of the prompts served.
        source: ``hub:DATASET@COMMIT``, ``folder:PATH`` (a data set on disk),
            ``package:NAME VERSION``, ``offline`` or ``file:NAME sha256:HEX``.
        notice: what the user must know, one line, e.g. what was tried and not there; or None.
    """

    name: str
    version: int
    licence: str
    source: str
    notice: str | None
    prompts: tuple[Prompt, ...]

    def put(self, form: PromptForm) -> Workload:
        """The same prompts as a model wants them."""
        return replace(self, prompts=tuple(prompt.put(form) for prompt in self.prompts))


def take_turns(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Reorder so that categories take turns, each keeping its own order.

    Any first n prompts then cover the categories evenly, and more prompts only add to fewer.
    """
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    queues = list(by_category.values())
    longest = max(map(len, queues), default=0)
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]
