"""What a tokenizer's chat template does to a conversation, found out by letting it render some.

A template may put a system message where there is none, let the model think before it answers, or
write today's date. All of it is in the prompts, so it is recorded, and what surprises is told.

>>> template_of(tokenizer).notices()                                           # doctest: +SKIP
("the chat template writes today's date: on another day the prompts are others",)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specbench.errors import SpecbenchError

Thinking = Literal["begun", "ended", "possible"]
Settings = Mapping[str, Any]
"""What the user sets of a chat template, e.g. ``{"enable_thinking": False}``."""

_QUESTION, _ANSWER, _SYSTEM = "How far is the moon?", "Far enough.", "Be brief and be kind."
_TALK = [
    {"role": "user", "content": _QUESTION},
    {"role": "assistant", "content": _ANSWER},
    {"role": "user", "content": _QUESTION},
]
_TAKEN = ("messages", "add_generation_prompt", "bos_token", "eos_token", "tools")
"""Variables of a template that are not the user's to set."""
_THINKS, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template as it is used.

    Attributes:
        sha256: of its text, hex.
        system: the message it puts where the conversation has none; None: it puts none.
        thinking: ``begun`` where the prompt ends inside a thinking block, ``ended`` where it ends
            behind an empty one, ``possible`` where the model is left to begin one; None: the
            template knows of no thinking.
        dated: it asks what day it is.
    """

    sha256: str
    system: str | None
    thinking: Thinking | None
    dated: bool

    @property
    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    def notices(self) -> tuple[str, ...]:
        """What a user may not expect of prompts, one line each."""
        told = []
        if self.thinking in ("begun", "possible"):
            told.append(
                "the target thinks before it answers: within --max-new-tokens there may be nothing"
                " else (templates that can leave it out take --chat-template-arg"
                " enable_thinking=false)"
            )
        if self.dated:
            told.append(
                "the chat template writes today's date: on another day the prompts are others"
            )
        return tuple(told)


def template_of(tokenizer: Any, settings: Settings | None = None) -> ChatTemplate | None:
    """What is to be known of a tokenizer's chat template; None if it has none, or it can't render
    two turns."""
    text = getattr(tokenizer, "chat_template", None)
    shown = _rendered(tokenizer, _TALK[:1], settings)
    if not text or shown is None:
        return None
    source = str(text)
    begun = shown.removeprefix(_rendered(tokenizer, _TALK[:1], settings, answer=False) or "")
    thinking: Thinking | None = None
    if _THOUGHT in begun:
        thinking = "ended"
    elif _THINKS in begun:
        thinking = "begun"
    elif "enable_thinking" in source:
        thinking = "possible"
    return ChatTemplate(
        sha256=hashlib.sha256(source.encode()).hexdigest(),
        system=_own_system(tokenizer, shown, settings),
        thinking=thinking,
        dated="strftime_now" in source,
    )


def require_settings(tokenizer: Any, settings: Settings) -> None:
    """Refuse settings that change nothing.

    Raises:
        SpecbenchError: there is no chat template, or it knows no such variable.
    """
    source = str(getattr(tokenizer, "chat_template", None) or "")
    for name in settings:
        if name in _TAKEN:
            raise SpecbenchError(
                f"--chat-template-arg {name}: that is the conversation's to say", "Leave it out"
            )
        if name not in source:
            lacks = "knows no such variable" if source else "does not exist"
            raise SpecbenchError(
                f"--chat-template-arg {name}: the target's chat template {lacks}",
                "Leave it out",
            )


def other_template(
    tokenizer: Any, other: Any, settings: Settings
) -> Literal["another", "none", "one"] | None:
    """How another tokenizer puts the same conversation: in ``another`` way, having ``none`` to put
    it in where the first has one, or having ``one`` where the first has none; None: alike."""
    ours = _rendered(tokenizer, _TALK, settings)
    theirs = _rendered(other, _TALK, settings)
    if ours == theirs:
        return None
    if theirs is None:
        return "none"
    return "one" if ours is None else "another"


def turn_end(tokenizer: Any) -> str | None:
    """What a template writes behind an answer; None where it writes nothing, or is none."""
    shown = _rendered(tokenizer, _TALK[:2], None, answer=False)
    _, found, end = (shown or "").partition(_ANSWER)
    return end if found and end.strip() else None


def _rendered(
    tokenizer: Any, messages: list[dict[str, str]], settings: Settings | None, answer: bool = True
) -> str | None:
    """A conversation as text; None without a template, or with one that refuses it."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    try:
        return str(
            tokenizer.apply_chat_template(
                messages, add_generation_prompt=answer, tokenize=False, **(settings or {})
            )
        )
    except Exception:  # templates raise whatever their author chose
        return None


def _own_system(tokenizer: Any, shown: str, settings: Settings | None) -> str | None:
    """What stands where a system message would, in a conversation without one."""
    asked = [{"role": "system", "content": _SYSTEM}, _TALK[0]]
    before, found, behind = (_rendered(tokenizer, asked, settings) or "").partition(_SYSTEM)
    room = len(shown) - len(before) - len(behind)
    if not found or room <= 0 or not (shown.startswith(before) and shown.endswith(behind)):
        return None
    return shown[len(before) : len(shown) - len(behind)]
