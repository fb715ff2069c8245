"""Prompts to token ids, with a byte-level tokenizer built here, with and without a template."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, render

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}x"
CHAT = Prompt("p", "chat", "writing", ("Frage eins?", "And two?"), "offline")


def tokenizer(chat_template: str | None = None) -> PreTrainedTokenizerFast:
    """One token per byte; puts <s> in front of plain text, as Llama's does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate(["<s>", "</s>", *alphabet])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    built = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    built.chat_template = chat_template
    return built


def test_first_turn_through_the_template_ends_where_the_answer_begins() -> None:
    fast = tokenizer(TEMPLATE)
    ids = render(CHAT, 0, [], fast)
    assert fast.decode(ids) == "<s>[user]Frage eins?[assistant]"
    assert all(type(i) is int for i in ids)


def test_history_is_interleaved_and_the_system_message_comes_first() -> None:
    fast = tokenizer(TEMPLATE)
    text = fast.decode(render(CHAT, 1, ["Ja."], fast, system="Kurz."))
    assert text == "<s>[system]Kurz.[user]Frage eins?[assistant]Ja.[user]And two?[assistant]"


def test_the_prompts_own_system_message_is_used() -> None:
    fast = tokenizer(TEMPLATE)
    prompt = Prompt("p", "t", "c", ("Hi",), "offline", system="Be brief.")
    assert fast.decode(render(prompt, 0, [], fast)) == "<s>[system]Be brief.[user]Hi[assistant]"


def test_plain_text_is_the_prompt_itself() -> None:
    fast = tokenizer()
    assert fast.decode(render(CHAT, 0, [], fast)) == "<s>Frage eins?"
    later = fast.decode(render(CHAT, 1, ["Ja."], fast))
    assert later == "<s>Frage eins?\n\nJa.\n\nAnd two?\n\n"


@pytest.mark.parametrize("template", [None, "{{ bos_token }}" + TEMPLATE])
def test_never_two_beginnings(template: str | None) -> None:
    prompt = Prompt("p", "t", "c", ("<s>Hi",), "offline")
    ids = render(prompt, 0, [], tokenizer(template))
    assert ids[0] == 0
    assert ids[1] != 0


def test_a_refusal_by_the_template_is_told_with_the_way_out() -> None:
    with pytest.raises(SpecbenchError) as caught:
        render(CHAT, 0, [], tokenizer(NO_SYSTEM), system="Be brief.")
    assert caught.value.message.endswith("refuses prompt 'p': no system")
    assert caught.value.hint == "Leave out the system message"


@pytest.mark.parametrize(("turn", "history"), [(2, ["a", "b"]), (-1, []), (1, []), (0, ["a"])])
def test_a_turn_needs_exactly_the_answers_before_it(turn: int, history: list[str]) -> None:
    with pytest.raises(ValueError, match="turn"):
        render(CHAT, turn, history, tokenizer())
