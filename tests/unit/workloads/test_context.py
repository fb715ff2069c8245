"""Prompts of a given length: exact, of real tokens, whole at the end, the same text growing."""

from __future__ import annotations

import pytest

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, render
from specbench.workloads.context import render_padded
from tests.unit.workloads.test_render import TEMPLATE, tokenizer

TEXTS = ("Frage eins?", "A second question, longer than the first.", "0 is a number", "Four")
PROMPTS = tuple(
    Prompt(f"p{index}", "chat", "x", (text,), "offline") for index, text in enumerate(TEXTS)
)
TWO_TURNS = Prompt("two", "chat", "x", ("First turn?", "Second turn?"), "offline")


@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("extra", [0, 1, 2, 17, 50, 333, 1000])
def test_the_length_is_exact_and_the_prompt_whole(template, prompt, extra):
    fast = tokenizer(template)
    own = render(prompt, 0, [], fast)
    padded = render_padded(prompt, 0, [], fast, len(own) + extra, PROMPTS)
    assert len(padded) == len(own) + extra
    head = "<s>[user]" if template else "<s>"
    before, after = fast.decode(own).removeprefix(head), fast.decode(padded)
    assert after.startswith(head)
    assert after.endswith(before)
    if extra == 0:
        assert padded == own


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_what_stands_before_is_the_text_of_the_other_prompts_in_turn(template):
    fast = tokenizer(template)
    text = fast.decode(render_padded(PROMPTS[1], 0, [], fast, 200, PROMPTS))
    filled = text.partition(TEXTS[1])[0].removeprefix("<s>").removeprefix("[user]")
    order = "\n\n".join([TEXTS[0], TEXTS[3], TEXTS[2]] * 20) + "\n\n"
    assert order.endswith(filled)
    assert TEXTS[1] not in filled


def test_a_longer_context_only_adds_text_before_a_shorter_ones():
    fast = tokenizer(TEMPLATE)
    short, long = (
        fast.decode(render_padded(PROMPTS[2], 0, [], fast, length, PROMPTS)) for length in (90, 400)
    )
    assert long.endswith(short.removeprefix("<s>[user]"))


def test_a_prompt_alone_is_repeated_and_stays_whole_at_the_end():
    fast = tokenizer(TEMPLATE)
    text = fast.decode(render_padded(PROMPTS[0], 0, [], fast, 70, PROMPTS[:1]))
    assert text.endswith(f"{TEXTS[0]}\n\n{TEXTS[0]}[assistant]")


def test_a_later_turn_keeps_its_history():
    fast = tokenizer(TEMPLATE)
    prompts = (*PROMPTS, TWO_TURNS)
    ids = render_padded(TWO_TURNS, 1, ["Ja."], fast, 300, prompts)
    assert len(ids) == 300
    text = fast.decode(ids)
    assert text.startswith("<s>[user]")
    assert text.endswith("First turn?[assistant]Ja.[user]Second turn?[assistant]")


def test_all_turns_of_a_conversation_serve_as_text():
    fast = tokenizer()
    text = fast.decode(render_padded(PROMPTS[3], 0, [], fast, 60, (PROMPTS[3], TWO_TURNS)))
    assert text.endswith("First turn?\n\nSecond turn?\n\nFour")


def test_a_prompt_that_is_too_long_is_named_with_both_figures():
    fast = tokenizer()
    with pytest.raises(SpecbenchError) as caught:
        render_padded(PROMPTS[1], 0, [], fast, 20, PROMPTS)
    assert str(caught.value) == (
        "prompt 'p1' of chat has 42 tokens, more than --context-length 20. Give a greater length, "
        "or leave the task out"
    )
