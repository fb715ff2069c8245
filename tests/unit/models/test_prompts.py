"""What a user is told of prompts: of the target's own, and of a draft model that expects others."""

from __future__ import annotations

import pytest

from specbench.models.language_model import LanguageModel
from specbench.models.prompts import drafter_notices, prompt_notices
from specbench.workloads.template import template_of
from tests.tiny import language_model
from tests.unit.workloads.test_render import tokenizer
from tests.unit.workloads.test_template import MAY_THINK, PLAIN, SYSTEM, THINKS

ENDS = PLAIN.replace("<|end|>", "</s>")
"""Ends its turns with the tokenizer's last token."""


def model(template: str | None, name: str = "big", stop: str = "</s>") -> LanguageModel:
    fast = tokenizer(template)
    made = LanguageModel(language_model("llama").model, fast, name)
    made.config = type(made.config)(eos_token_id=fast.convert_tokens_to_ids(stop))
    return made


def told(target: LanguageModel) -> tuple[str, ...]:
    return prompt_notices(target, template_of(target.tokenizer))


@pytest.fixture(autouse=True)
def no_generation_config(monkeypatch):
    monkeypatch.setattr(language_model("llama").model, "generation_config", None, raising=False)


def test_a_turn_that_ends_with_no_stop_token_is_told():
    assert told(model(ENDS)) == ()
    assert told(model(None)) == ()
    (sentence,) = told(model(PLAIN))
    assert "'<|end|>'" in sentence
    assert "(</s>)" in sentence


def test_a_target_that_thinks_is_told():
    assert any("thinks before it answers" in text for text in told(model(THINKS)))


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (PLAIN, SYSTEM, "drafter small puts conversations in another form than target big"),
        (PLAIN, None, "drafter small has no chat template and target big has one"),
        (None, PLAIN, "drafter small has a chat template and target big has none"),
    ],
)
def test_a_drafter_with_another_template_is_told(ours, theirs, says):
    (sentence,) = drafter_notices(model(ours), model(theirs, "small"), {})
    assert sentence.startswith(says)
    assert "alpha" in sentence


def test_a_drafter_with_the_same_template_or_without_a_tokenizer_is_not():
    assert drafter_notices(model(PLAIN), model(PLAIN, "small"), {}) == ()
    assert drafter_notices(model(None), model(None, "small"), {}) == ()
    assert drafter_notices(model(PLAIN), language_model("llama"), {}) == ()


def test_the_form_is_the_one_that_the_user_asks_for():
    """One of the two templates can leave thinking out, and then writes what the other does."""
    ours, theirs = model(MAY_THINK), model(PLAIN, "small")
    assert drafter_notices(ours, theirs, {}) == ()
    (sentence,) = drafter_notices(ours, theirs, {"enable_thinking": False})
    assert "puts conversations in another form" in sentence
