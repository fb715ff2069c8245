"""What a user should know of how prompts are put to a target, and to a drafter beside it."""

from __future__ import annotations

from specbench.models.language_model import LanguageModel
from specbench.workloads.template import ChatTemplate, Settings, other_template, turn_end

_UNLIKE = {
    "another": "puts conversations in another form than target {target}: it reads prompts of a kind"
    " that it was not trained on, which lowers alpha",
    "none": "has no chat template and target {target} has one: if it was not trained on chats,"
    " alpha is lower for it",
    "one": "has a chat template and target {target} has none: prompts come to it as plain text,"
    " which lowers alpha if it was trained on chats alone",
}


def prompt_notices(target: LanguageModel, template: ChatTemplate | None) -> tuple[str, ...]:
    """What may surprise about a target's prompts, and about where its answers end."""
    if template is None or target.tokenizer is None:
        return ()
    told = list(template.notices())
    end = turn_end(target.tokenizer)
    stops = [target.tokenizer.decode([token]) for token in sorted(target.stop_tokens)]
    if end and stops and not any(stop.strip() and stop.strip() in end for stop in stops):
        told.append(
            f"turns end with {end.strip()!r} in the chat template, which is none of the target's"
            f" stop tokens ({', '.join(stops)}): outputs may run on behind an answer"
        )
    return tuple(told)


def drafter_notices(
    target: LanguageModel, drafter: LanguageModel, settings: Settings
) -> tuple[str, ...]:
    """What lowers the alpha of a draft model: prompts in a form that is not its own.

    Args:
        settings: what the user sets of the chat template, which is part of that form.
    """
    if target.tokenizer is None or drafter.tokenizer is None:
        return ()
    difference = other_template(target.tokenizer, drafter.tokenizer, settings)
    if difference is None:
        return ()
    return (f"drafter {drafter.name} {_UNLIKE[difference].format(target=target.name)}",)
