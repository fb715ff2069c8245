"""From a prompt to token ids: the chat template where the tokenizer has one, else plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt


def render(
    prompt: Prompt,
    turn: int,
    history: Sequence[str],
    tokenizer: Any,
    system: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[int]:
    """Token ids of one turn, with the turns and answers before it, ready for the answer.

    Args:
        prompt: the conversation.
        turn: which of its turns is asked, from 0.
        history: the answers to the ``turn`` earlier turns.
        tokenizer: a Hugging Face tokenizer (slow or fast).
        system: system message; the prompt's own if None.
        settings: variables of the chat template.

    Returns:
        A flat list of ids, never empty, with at most one beginning-of-sequence token.

    Raises:
        SpecbenchError: the chat template refuses the conversation (e.g. a system message).
        ValueError: ``turn`` is out of range, or ``history`` has not one answer per earlier turn.
    """
    if not 0 <= turn < len(prompt.turns):
        raise ValueError(f"turn {turn} of a prompt with {len(prompt.turns)} turns")
    if len(history) != turn:
        raise ValueError(f"turn {turn} needs {turn} earlier answers, got {len(history)}")
    if system is None:
        system = prompt.system
    if getattr(tokenizer, "chat_template", None):
        ids = _chat_ids(_messages(prompt, turn, history, system), tokenizer, prompt, settings or {})
    else:
        ids = list(tokenizer(_plain_text(prompt, turn, history, system))["input_ids"])
    return _without_double_bos(ids, tokenizer)


def messages_of(prompt: Prompt, turn: int, history: Sequence[str]) -> list[dict[str, str]]:
    """The same turn as messages, for who renders them elsewhere."""
    return _messages(prompt, turn, history, prompt.system)


def _messages(
    prompt: Prompt, turn: int, history: Sequence[str], system: str | None
) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": system}] if system else []
    for question, answer in zip(prompt.turns, history, strict=False):  # one question more is left
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    messages.append({"role": "user", "content": prompt.turns[turn]})
    return messages


def _chat_ids(
    messages: list[dict[str, str]], tokenizer: Any, prompt: Prompt, settings: Mapping[str, Any]
) -> list[int]:
    try:
        # return_dict: since transformers 5 the default is a BatchEncoding.
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False, **settings
        )
    except Exception as error:  # templates raise whatever their author chose
        has_system = messages[0]["role"] == "system"
        raise SpecbenchError(
            f"the tokenizer's chat template refuses prompt {prompt.id!r}: {error}",
            "Leave out the system message" if has_system else "Use another target or prompt",
        ) from error
    return list(ids[0]) if ids and isinstance(ids[0], list) else list(ids)


def _plain_text(prompt: Prompt, turn: int, history: Sequence[str], system: str | None) -> str:
    """System message, questions and answers as paragraphs; a single turn is its text alone."""
    parts = [system] if system else []
    for question, answer in zip(prompt.turns, history, strict=False):
        parts += [question, answer]
    return "\n\n".join([*parts, prompt.turns[turn]]) + ("\n\n" if parts else "")


def _without_double_bos(ids: list[int], tokenizer: Any) -> list[int]:
    bos = getattr(tokenizer, "bos_token_id", None)
    while bos is not None and len(ids) > 1 and ids[0] == ids[1] == bos:
        ids = ids[1:]
    return ids
