"""What chat templates do is found out by letting them render a conversation."""

from __future__ import annotations

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, render
from specbench.workloads.template import other_template, require_settings, template_of, turn_end
from tests.unit.workloads.test_render import NO_SYSTEM, tokenizer

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
ANSWER = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
PLAIN = TURNS + ANSWER
SYSTEM = "{% if messages[0].role != 'system' %}<|system|>You help.<|end|>{% endif %}" + PLAIN
HEADED = "{% if messages[0].role != 'system' %}<|system|><|end|>{% endif %}" + PLAIN
THINKS = TURNS + "{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
MAY_THINK = PLAIN + (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% endif %}"
)
DATED = "{{ strftime_now('%d %B') }}" + PLAIN


def of(template: str | None, **settings: object):
    return template_of(tokenizer(template), settings)


def test_a_tokenizer_without_a_template_or_with_one_that_refuses_everything():
    assert of(None) is None
    assert of("{{ raise_exception('no') }}") is None


@pytest.mark.parametrize(
    ("template", "system"),
    [(SYSTEM, "You help."), (PLAIN, None), (HEADED, None), (NO_SYSTEM, None), (THINKS, None)],
)
def test_a_system_message_of_the_templates_own_is_found(template, system):
    assert of(template).system == system


def test_thinking_is_told_by_what_stands_before_the_answer():
    assert of(PLAIN).thinking is None
    assert of(THINKS).thinking == "begun"
    assert of(MAY_THINK).thinking == "possible"
    assert of(MAY_THINK, enable_thinking=False).thinking == "ended"
    assert of(MAY_THINK, enable_thinking=True).thinking == "possible"


def test_what_surprises_is_told():
    assert of(PLAIN).notices() == of(SYSTEM).notices() == ()
    assert of(MAY_THINK, enable_thinking=False).notices() == ()
    for thinking in (THINKS, MAY_THINK):
        assert "thinks before it answers" in of(thinking).notices()[0]
    assert "today's date" in of(DATED).notices()[0]


def test_the_facts_tell_templates_apart():
    assert of(PLAIN).facts["sha256"] != of(SYSTEM).facts["sha256"]
    assert of(SYSTEM).facts | {"sha256": ""} == {
        "sha256": "",
        "system": "You help.",
        "thinking": None,
        "dated": False,
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (PLAIN, PLAIN, None),
        (PLAIN, "{# the same, in other words #}" + PLAIN, None),
        (PLAIN, SYSTEM, "another"),
        (PLAIN, None, "none"),
        (None, PLAIN, "one"),
        (None, None, None),
    ],
)
def test_templates_are_compared_by_what_they_write(ours, theirs, difference):
    assert other_template(tokenizer(ours), tokenizer(theirs), {}) == difference


def test_what_ends_a_turn():
    assert turn_end(tokenizer(PLAIN)) == "<|end|>"
    assert turn_end(tokenizer("{% for m in messages %}{{ m.content }}{% endfor %}")) is None
    assert turn_end(tokenizer()) is None


def test_settings_reach_the_prompt_and_those_that_change_nothing_are_refused():
    fast, prompt = tokenizer(MAY_THINK), Prompt("p", "t", "c", ("Hi",), "offline")
    settings = {"enable_thinking": False}
    require_settings(fast, settings)
    assert fast.decode(render(prompt, 0, [], fast)).endswith("<|assistant|>")
    shown = fast.decode(render(prompt, 0, [], fast, settings=settings))
    assert shown.endswith("<|assistant|><think></think>")
    with pytest.raises(SpecbenchError, match=r"thinking_off: .* no such"):
        require_settings(fast, {"thinking_off": True})
    with pytest.raises(SpecbenchError, match="messages: that is the conversation's"):
        require_settings(fast, {"messages": 1})
    with pytest.raises(SpecbenchError, match="does not exist"):
        require_settings(tokenizer(), settings)
