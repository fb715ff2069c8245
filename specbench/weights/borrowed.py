"""A tokenizer for models without one: SmolLM2's, its ids folded into the model's vocabulary.

Random weights give token ids no meaning, but prompts are to have the lengths, repetitions and chat
form of real text. Ids of a larger vocabulary stand for themselves; those that a smaller one lacks
are taken modulo its size, and generated ids that SmolLM2 lacks are read modulo its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.weights.shipped import shipped

BORROWED = "SmolLM2's, ids only"
"""What the record says of it."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
"""A folder that has one of these has a tokenizer of its own."""


class BorrowedTokenizer:
    """What rendering prompts and reading answers asks of a tokenizer.

    Args:
        tokenizer: whose text rules and chat template are borrowed.
        vocab_size: ids that the model has.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self.chat_template = tokenizer.chat_template

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": self._folded(self._tokenizer(text)["input_ids"])}

    def apply_chat_template(self, messages: Any, **options: Any) -> list[int]:
        return self._folded(self._tokenizer.apply_chat_template(messages, **options))

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        known = len(self._tokenizer)
        text: str = self._tokenizer.decode([token % known for token in ids], **options)
        return text

    def _folded(self, ids: Sequence[int]) -> list[int]:
        return [token % self._vocab_size for token in ids]


def borrowed_tokenizer(vocab_size: int) -> BorrowedTokenizer:
    """SmolLM2's tokenizer, which comes with specbench, for a vocabulary of that size."""
    from transformers import AutoTokenizer

    return BorrowedTokenizer(AutoTokenizer.from_pretrained(shipped("model")), vocab_size)
