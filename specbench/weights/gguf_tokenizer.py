"""Builds the tokenizer of a GGUF file so that its ids equal the original model's.

For byte-level byte-pair encodings (``tokenizer.ggml.model`` = ``gpt2``: SmolLM, Llama 3, Qwen,
GPT-2 and most others) it is built here from the file's own vocabulary and merges. transformers'
conversion leaves out the rule that splits text before merging: without SmolLM2's digit rule
"\\n\\n1" becomes other ids than the model was trained on. Some of its versions also confuse the
special tokens and decode a leading space away. Sentencepiece vocabularies (``llama``) go through
transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.weights.gguf_header import GgufHeader

_CONTROL, _USER_DEFINED = 3, 4

# The regular expressions and the names are llama.cpp's (src/llama-vocab.cpp).
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_DIGIT = r"\p{N}"


@dataclass(frozen=True)
class SplitRule:
    """How text is cut before merging.

    Attributes:
        patterns: applied one after the other, each match a piece of its own.
        ignore_merges: a piece that is a token as a whole is not built from merges.
        compose: text is normalised to NFC first.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    compose: bool = False


_PLAIN = SplitRule((_GPT2,))
_DIGITS = SplitRule((_DIGIT, _GPT2))
_LLAMA3_RULE = SplitRule((_LLAMA3,), ignore_merges=True)
_QWEN2_RULE = SplitRule((_QWEN2,), compose=True)

SPLIT_RULES: dict[str, SplitRule] = {
    "gpt-2": _PLAIN,
    "phi-2": _PLAIN,
    "mpt": _PLAIN,
    "olmo": _PLAIN,
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "codeshell": _DIGITS,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
}


def build(path: Path, header: GgufHeader) -> tuple[Any, tuple[str, ...]]:
    """The tokenizer in a GGUF file, and notices on what could not be made sure."""
    notices: tuple[str, ...] = ()
    if header.tokenizer_model == "gpt2":
        rule = SPLIT_RULES.get(header.pre_tokenizer)
        if rule is None:
            notices = (
                f"{path.name}: its pre-tokenizer {header.pre_tokenizer!r} is unknown here (GPT-2's"
                " rule is used), so token ids may differ from the original model's",
            )
        tokenizer = _byte_level(header, rule or _PLAIN)
    else:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
        if header.chat_template and not tokenizer.chat_template:
            tokenizer.chat_template = header.chat_template
    for role, number in header.special_ids.items():
        setattr(tokenizer, f"{role}_token", tokenizer.convert_ids_to_tokens(number))
    if header.adds_bos is not None and "bos" in header.special_ids:
        _set_bos(tokenizer, header.adds_bos, header.special_ids["bos"])
    return tokenizer, notices


def _byte_level(header: GgufHeader, rule: SplitRule) -> Any:
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate(header.tokens)}
    merges = [_pair(merge) for merge in header.merges]
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=rule.ignore_merges)
    )
    if rule.compose:
        backend.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    typed = list(zip(header.tokens, header.token_types, strict=False))
    backend.add_special_tokens(
        [AddedToken(token, normalized=False) for token, kind in typed if kind == _CONTROL]
    )
    backend.add_tokens(
        [AddedToken(token, normalized=False) for token, kind in typed if kind == _USER_DEFINED]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=header.chat_template,
        model_max_length=header.context_length or int(1e30),
        clean_up_tokenization_spaces=False,
    )


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _set_bos(tokenizer: Any, adds_bos: bool, bos_id: int) -> None:
    """Make encoding put a BOS in front, or not, as the header says."""
    from tokenizers import processors

    if (tokenizer("a")["input_ids"][:1] == [bos_id]) == adds_bos:
        return
    if not adds_bos:
        tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        return
    bos = tokenizer.convert_ids_to_tokens(bos_id)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, bos_id)]
    )
