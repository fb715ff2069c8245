"""Vocabularies are compared by content, not by size."""

from __future__ import annotations

import pytest

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.models.vocabulary import require_same_vocabulary
from tests.tiny import Words, language_model, with_head

WORDS = [f"w{index}" for index in range(500)]


def model(words: list[str] | None, name: str, width: int = 61) -> LanguageModel:
    sized = with_head(language_model("llama"), width) if width != 61 else language_model("llama")
    return LanguageModel(sized.model, Words(words) if words is not None else None, name)


@pytest.mark.parametrize("width", [40, 61, 64, 128])
def test_padded_heads_of_one_tokenizer_are_accepted(width):
    require_same_vocabulary(model(WORDS, "target"), model(WORDS, "drafter", width))


def test_the_first_id_that_differs_is_named():
    other = [*WORDS[:41], "other", *WORDS[42:]]
    with pytest.raises(SpecbenchError) as raised:
        require_same_vocabulary(model(WORDS, "big"), model(other, "small"))
    assert "drafter small has another vocabulary than target big" in str(raised.value)
    assert "id 41 is 'other' there and 'w41' here" in str(raised.value)
    assert "share the target's tokenizer" in raised.value.hint


def test_the_same_words_in_another_order_are_another_vocabulary():
    with pytest.raises(SpecbenchError, match="id 0 is 'w499' there"):
        require_same_vocabulary(model(WORDS, "t"), model(WORDS[::-1], "d"))


def test_a_few_added_tokens_are_no_other_vocabulary():
    require_same_vocabulary(model(WORDS, "t"), model([*WORDS, "<tool>", "</tool>"], "d"))
    require_same_vocabulary(model([*WORDS, "<tool>"], "t"), model(WORDS, "d"))


def test_a_much_larger_vocabulary_is_refused():
    larger = WORDS + [f"more{index}" for index in range(100)]
    with pytest.raises(SpecbenchError, match="600 tokens there, 500 here"):
        require_same_vocabulary(model(WORDS, "t"), model(larger, "d"))


def test_without_tokenizers_widths_decide():
    require_same_vocabulary(model(None, "t"), model(None, "d"))
    for target, drafter in ((None, WORDS), (WORDS, None), (None, None)):
        with pytest.raises(SpecbenchError) as raised:
            require_same_vocabulary(model(target, "t"), model(drafter, "d", 64))
        assert "d has 64 ids, target t has 61" in str(raised.value)
