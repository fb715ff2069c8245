"""One language model as the engine sees it: tokens in at per-row positions, logits out.

Target and drafter models are both a :class:`LanguageModel`. It hides what differs between
transformers releases and architectures, and adds nothing else: the forward is the library's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from specbench.models.cache import RowCache, Snapshot
from specbench.models.support import cache_argument, context_limit, require_rollback
from specbench.models.tree import Tree


@dataclass(frozen=True)
class Output:
    """Logits [B, S, V] and, where asked for, the states entering the named layers [B, S, H]."""

    logits: Tensor
    hidden: dict[int, Tensor]


@dataclass(frozen=True)
class Prefill:
    """A prompt that has been read.

    Attributes:
        snapshot: its K/V.
        logits: [V] after its last token.
        seconds: what reading it took.
        hidden: its states [P, H] for each layer that a drafter asks for.
    """

    snapshot: Snapshot
    logits: Tensor
    seconds: float
    hidden: dict[int, Tensor] = field(default_factory=dict)


class LanguageModel:
    """A causal model with a cache of per-row lengths.

    Args:
        model: a transformers causal LM in eval mode.
        tokenizer: its tokenizer, or None.
        name: how messages call it.

    Raises:
        SpecbenchError: its cache cannot be rolled back by length.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        name: str = "model",
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        require_rollback(model.config, name)
        self.provenance = dict(provenance or {})
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.config = model.config.get_text_config()
        self.vocab_size: int = model.get_output_embeddings().weight.shape[0]
        self.context_limit: int = context_limit(model.config)
        self.device: torch.device = model.get_output_embeddings().weight.device
        self.dtype: torch.dtype = model.get_output_embeddings().weight.dtype
        accepted = inspect.signature(model.forward).parameters
        self._cache_argument = cache_argument(accepted, model.config, name)

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an output, from the generation config and the model's config."""
        generation = getattr(self.model, "generation_config", None)
        found = getattr(generation, "eos_token_id", None)
        if found is None:
            found = getattr(self.config, "eos_token_id", None)
        return frozenset([found] if isinstance(found, int) else found or [])

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that one forward reads: every parameter once, tied ones too.

        An untied input embedding is a lookup of a few rows and is left out.
        """
        embedding = self.model.get_input_embeddings().weight
        tied = embedding is self.model.get_output_embeddings().weight
        tensors = {p.data_ptr(): p for p in self.model.parameters()}
        if not tied:
            tensors.pop(embedding.data_ptr(), None)
        return sum(p.numel() * p.element_size() for p in tensors.values())

    def new_cache(self, batch_size: int, capacity: int) -> RowCache:
        return RowCache(batch_size, capacity)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        cache: RowCache,
        starts: Sequence[int],
        *,
        last_only: bool = False,
        hidden_layers: Sequence[int] = (),
        tree: Tree | None = None,
    ) -> Output:
        """Read tokens [B, S] into slots starts[b]..starts[b]+S-1, each seeing what is before it.

        Args:
            tokens: [B, S] ids.
            cache: of this model; slots from starts[b] on are overwritten.
            starts: [B] slot of each row's first token here; without a tree also its position.
            last_only: give logits for the last token only ([B, 1, V]).
            hidden_layers: indices i of states to return, i being the state entering layer i (0
                the embeddings, the number of layers the last state after the final norm).
            tree: the tokens are its last S nodes, and the slots before hold its other ones: each
                token sees what is before the root, its ancestors and itself.
        """
        width = tokens.shape[1]
        extent = cache.expect(starts, width, tokens.device)
        start = torch.tensor(starts, device=tokens.device)
        if tree is None:
            positions = start[:, None] + torch.arange(width, device=tokens.device)  # [B, S]
            mask = self._mask(positions, extent)
        else:
            roots = start - (tree.depths.shape[1] - width)
            positions = roots[:, None] + tree.depths[:, -width:]
            mask = self._additive(~tree.visible(roots, extent, width))
        outputs = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1 if last_only else 0,
            output_hidden_states=bool(hidden_layers),
            **{self._cache_argument: cache},
        )
        states = {layer: outputs.hidden_states[layer] for layer in hidden_layers}
        return Output(outputs.logits, states)

    def prefill(self, token_ids: Sequence[int], cache: RowCache) -> Tensor:
        """Read one prompt into an empty one-row cache; returns the last token's logits [V]."""
        tokens = torch.tensor([list(token_ids)], device=self.device)
        return self.forward(tokens, cache, [0], last_only=True).logits[0, -1]

    def _mask(self, positions: Tensor, extent: int) -> Tensor:
        """[B, 1, S, extent], added to attention scores: 0 where slot <= own position, else -inf."""
        slots = torch.arange(extent, device=positions.device)
        return self._additive(slots > positions[:, :, None])

    def _additive(self, hidden: Tensor) -> Tensor:
        """[B, 1, S, extent] from booleans [B, S, extent]: 0, or the lowest number where hidden."""
        mask = torch.zeros(hidden.shape, dtype=self.dtype, device=hidden.device)
        return mask.masked_fill_(hidden, torch.finfo(self.dtype).min)[:, None]
