"""A model that reads its prompt with an encoder and answers with a decoder (T5, BART, Marian).

To the engine it is a :class:`LanguageModel` like any other. The prompt is the source: it is read
once, and what the decoder's layers make of it is kept in the cache (:class:`SourceCache`). A row's
own tokens are the model's start tokens and then the output; K/V of these have per-row lengths and
are rolled back as everywhere.

    model = wrapped(transformers_model, tokenizer, "google-t5/t5-small")
    model.layout(prompt)        # Layout(context=[0], source=prompt)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from specbench.errors import SpecbenchError
from specbench.measure.transfer import to_device
from specbench.models.cache import RowCache
from specbench.models.decoder_positions import POSITIONS, DecoderPositions
from specbench.models.language_model import LanguageModel, Layout, Output
from specbench.models.sources import DecoderCache, SourceCache

TASK_PREFIXES = ("t5", "mt5")
"""Model types whose models are told the task by the words that a prompt begins with."""

_BANNED = "bad_words_ids"  # of one token each, as Marian's padding is
_HONOURED = frozenset({_BANNED, "suppress_tokens", "forced_bos_token_id"})


class EncoderDecoder(LanguageModel):
    """An encoder-decoder with a cache of per-row lengths.

    Args:
        model: a transformers model for conditional generation in eval mode.
        tokenizer, name, provenance: as of a :class:`LanguageModel`.

    Attributes:
        start_tokens: that every output begins behind; a forced first token is one of them.
        source_limit: tokens that the encoder reads at most; None: any number.

    Raises:
        SpecbenchError: a kind of decoder that is not known here, or two vocabularies.
    """

    has_encoder = True
    cache_kind = SourceCache

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        name: str = "model",
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model, tokenizer, name, provenance)
        if not getattr(model.config, "share_encoder_decoder_embeddings", True):
            raise SpecbenchError(
                f"{name} has a vocabulary for its source and another for its output",
                "Use a model of the same kind with one vocabulary",
            )
        self._decoder: nn.Module = model.get_decoder()
        self._positions: DecoderPositions = POSITIONS[self.config.model_type](self._decoder)
        self.start_tokens = _start_tokens(model, name)
        self.source_limit: int | None = getattr(self.config, "max_position_embeddings", None)
        self.prompt_form = "prefixed" if self.config.model_type in TASK_PREFIXES else "plain"
        banned = _setting(model, _BANNED) or []
        never = {
            *(_setting(model, "suppress_tokens") or []),
            *(w[0] for w in banned if len(w) == 1),
        }
        self._never = to_device(sorted(never), self.device) if never else None
        self.honours = _HONOURED if all(len(w) == 1 for w in banned) else _HONOURED - {_BANNED}

    def layout(self, prompt: Sequence[int]) -> Layout:
        return Layout(self.start_tokens, prompt)

    def misfit(self, prompt_tokens: int, room: int) -> str | None:
        """Why so many tokens can't be read, or so many of output and draft not follow; or None."""
        if self.source_limit is not None and prompt_tokens > self.source_limit:
            return f"beyond the {self.source_limit} that the target's encoder reads"
        need = len(self.start_tokens) + room
        if need > self.context_limit:
            return f"output and draft take {need}, beyond the decoder's {self.context_limit}"
        return None

    @torch.inference_mode()
    def read_prompt(
        self, token_ids: Sequence[int], cache: RowCache, hidden_layers: Sequence[int] = ()
    ) -> Output:
        """Read a source and the start tokens into a one-row cache, whatever it holds.

        Returns:
            logits [1, 1, V] after the last start token.
        """
        source = to_device([list(token_ids)], self.device)
        tokens = to_device([list(self.start_tokens)], self.device)

        def read(start: Tensor, extent: int, tokens: Tensor) -> list[Tensor]:
            return [self._decode(tokens, *self._place(start, extent, tokens), cache, source)]

        (logits,) = cache.run(self.name, "prompt", read, [0], tokens)
        return Output(logits[:, -1:], {})

    def show_source(self, prompt: Sequence[int], cache: RowCache) -> None:
        start = self.start_tokens
        alone = self.new_cache(1, len(start))
        self.read_prompt(prompt, alone)
        for row in range(cache.num_rows):
            cache.restore(row, alone.snapshot(0, len(start)))

    def compile(self) -> None:
        raise SpecbenchError(
            f"--compile is for captured steps, and those of {self.name}, an encoder-decoder, are"
            " not captured",
            "Leave it out with this target",
        )

    def _read(
        self,
        call: Callable[..., Any],
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: RowCache,
        keep: int | Tensor,
        layers: Sequence[int],
    ) -> list[Tensor]:
        logits = self._decode(tokens, positions, mask, cache)
        return [logits[:, -1:] if keep == 1 else logits]

    def _decode(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: RowCache,
        source: Tensor | None = None,
    ) -> Tensor:
        """The model's own forward: logits [B, S, V].

        Args:
            source: [1, P] to be read first; None: the cache has what was read before.
        """
        assert isinstance(cache, SourceCache)
        if source is not None:
            read = {"input_ids": source}
        else:
            read = self._as_read(cache, tokens.shape[1])
        with self._positions.told(positions, mask.shape[-1]):
            logits: Tensor = self.model(
                decoder_input_ids=tokens,
                decoder_attention_mask=mask,
                use_cache=True,
                **{self._cache_argument: DecoderCache(cache, known=source is None)},
                **read,
            ).logits
        if self._never is not None:
            logits[..., self._never] = torch.finfo(logits.dtype).min
        return logits

    def _as_read(self, cache: SourceCache, width: int) -> dict[str, Any]:
        """In place of a source that was read: which of its tokens each row sees.

        The encoder's states are asked for, and not used: keys and values are in the cache.
        """
        padding = cache.sources.padding
        assert padding is not None, "no row has a source"
        states = torch.empty(1, 1, 1, dtype=self.dtype, device=self.device)
        return {
            "encoder_outputs": (states.expand(*padding.shape, self.config.hidden_size),),
            "attention_mask": self._additive(padding[:, None].expand(-1, width, -1)),
        }


def wrapped(
    model: nn.Module,
    tokenizer: Any = None,
    name: str = "model",
    provenance: Mapping[str, Any] | None = None,
) -> LanguageModel:
    """A transformers model as the engine sees it, whichever kind it is."""
    kind = EncoderDecoder if model.config.is_encoder_decoder else LanguageModel
    return kind(model, tokenizer, name, provenance)


def _start_tokens(model: nn.Module, name: str) -> list[int]:
    """What ``generate`` begins with: the start token, and the one that it would force first.

    Raises:
        SpecbenchError: the model names no start token.
    """
    begin = _setting(model, "decoder_start_token_id")
    if not isinstance(begin, int):
        raise SpecbenchError(
            f"{name} names no decoder_start_token_id, which its outputs would begin behind",
            "Set it in the model's generation_config.json",
        )
    forced = _setting(model, "forced_bos_token_id")
    return [begin] if forced is None else [begin, int(forced)]


def _setting(model: nn.Module, name: str) -> Any:
    """Of the generation config, else of the model's."""
    found = getattr(getattr(model, "generation_config", None), name, None)
    return getattr(model.config, name, None) if found is None else found
