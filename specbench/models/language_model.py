"""One language model as the engine sees it: tokens in at per-row positions, logits out.

Target and drafter models are both a :class:`LanguageModel`. It hides what differs between
transformers releases and architectures, and adds nothing else: the forward is the library's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from specbench.measure.transfer import to_device
from specbench.models.cache import RowCache, Snapshot
from specbench.models.compiling import compiled
from specbench.models.extents import round_up, sizes
from specbench.models.output_layer import head_sizes, where_it_computes
from specbench.models.reading import read_by_forward
from specbench.models.support import cache_argument, context_limit, require_rollback
from specbench.models.tree import Tree
from specbench.models.windows import layer_windows, masks_by_layer, open_own_windows
from specbench.weights.stored import num_bytes
from specbench.workloads.prompt import PromptForm


@dataclass(frozen=True)
class Output:
    """Logits [B, S, V] and, where asked for, the states entering the named layers [B, S, H].

    From a cache with captured steps they hold until the next forward over it: copy what is kept.
    """

    logits: Tensor
    hidden: dict[int, Tensor]


class Layout(NamedTuple):
    """Where a prompt goes.

    Attributes:
        context: what a row holds before its output: the prompt, or a decoder's start tokens.
        source: what an encoder reads: the prompt, or nothing.
    """

    context: Sequence[int]
    source: Sequence[int] = ()


@dataclass(frozen=True)
class Prefill:
    """A prompt that has been read.

    Attributes:
        layout: where it went.
        snapshot: its K/V.
        logits: [V] after its last token.
        seconds: what reading it took.
        hidden: its states [P, H] for each layer that a drafter asks for.
    """

    layout: Layout
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

    Attributes:
        has_encoder: whether the prompt is read apart from the output.
        cache_kind: the class of its caches.
        vocab_size, state_size: logits per token, and width H of the states that they are made of.
        device, dtype: of logits and states; quantised weights may have another.
        honours: settings of its generation config that its logits or layout follow.
        prompt_form: how prompts are put; see :data:`specbench.workloads.prompt.PromptForm`.
    """

    has_encoder: ClassVar[bool] = False
    cache_kind: ClassVar[Callable[..., RowCache]] = RowCache
    honours: frozenset[str] = frozenset()
    prompt_form: PromptForm = "chat"

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
        self.vocab_size, self.state_size = head_sizes(model)
        self.context_limit: int = context_limit(model.config)
        self._windows = layer_windows(model.config)
        open_own_windows(model)
        self.device, self.dtype = where_it_computes(model)
        accepted = inspect.signature(model.forward).parameters
        self._cache_argument = cache_argument(accepted, model.config, name)
        self._call: Callable[..., Any] = model  # of captured steps

    @property
    def devices(self) -> list[torch.device]:
        """Where its weights are, in the order of its layers."""
        return list(dict.fromkeys(weight.device for weight in self.model.parameters()))

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
        """Bytes of the weights that one forward reads, as they are stored."""
        return num_bytes(read_by_forward(self.model))

    def new_cache(self, batch_size: int, capacity: int) -> RowCache:
        return self.cache_kind(batch_size, capacity)

    def layout(self, prompt: Sequence[int]) -> Layout:
        """Where a prompt's tokens go."""
        return Layout(prompt)

    def show_source(self, prompt: Sequence[int], cache: RowCache) -> None:
        """Let all rows of a cache see a prompt's source, where there is one."""

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
        layers = tuple(hidden_layers)
        nodes = [] if tree is None else [tree.depths, tree.ancestors]
        call = self.model if cache.steps is None else self._call

        def read(start: Tensor, extent: int, tokens: Tensor, *nodes: Tensor) -> list[Tensor]:
            positions, mask = self._place(start, extent, tokens, Tree(*nodes) if nodes else None)
            return self._read(call, tokens, positions, mask, cache, int(last_only), layers)

        form = (last_only, layers, 0 if tree is None else tree.depths.shape[1])
        return _output(layers, cache.run(self.name, form, read, starts, tokens, *nodes))

    @torch.inference_mode()
    def read_prompt(
        self, token_ids: Sequence[int], cache: RowCache, hidden_layers: Sequence[int] = ()
    ) -> Output:
        """Read one prompt of P tokens into a one-row cache, whatever it holds.

        Where steps are captured the prompt is padded behind its end: K/V of the padding lies where
        the output's will, and no token of the prompt sees it.

        Returns:
            logits [1, 1, V] after its last token and states [1, P, H], to be kept.
        """
        length, layers = len(token_ids), tuple(hidden_layers)
        if cache.steps is None:
            tokens = to_device([list(token_ids)], self.device)
            return self.forward(tokens, cache, [0], last_only=True, hidden_layers=layers)

        def read(start: Tensor, extent: int, tokens: Tensor, last: Tensor) -> list[Tensor]:
            positions, mask = self._place(start, extent, tokens)
            return self._read(self.model, tokens, positions, mask, cache, last, layers)

        padding = [0] * (round_up(length) - length)
        tokens = to_device([[*token_ids, *padding]], self.device)
        last = to_device([length - 1], self.device)
        found = cache.run(self.name, ("prompt", layers), read, [0], tokens, last)
        output = _output(layers, found)
        states = {layer: states[:, :length].clone() for layer, states in output.hidden.items()}
        return Output(output.logits.clone(), states)

    def prefill(self, token_ids: Sequence[int], cache: RowCache) -> Tensor:
        """Read one prompt into a one-row cache; returns the last token's logits [V]."""
        return self.read_prompt(token_ids, cache).logits[0, -1]

    def compile(self) -> None:
        """Compile captured steps, except those that read prompts, at their first call."""
        self._call = compiled(self.model, self.device)

    def rehearse(
        self,
        cache: RowCache,
        width: int,
        shortest: int,
        *,
        last_only: bool = False,
        hidden_layers: Sequence[int] = (),
        num_nodes: int = 0,
    ) -> None:
        """Let the cache's steps meet this kind of forward with every extent that it may have.

        Args:
            cache: steps over it are captured meanwhile; its contents are overwritten.
            width: S.
            shortest: tokens that some row holds at least.
            last_only, hidden_layers: as in :meth:`forward`.
            num_nodes: of the tree, the root included, or 0 for a chain.
        """
        zeros = torch.zeros(cache.num_rows, width, dtype=torch.long, device=self.device)
        tree = Tree.star(cache.num_rows, num_nodes, self.device) if num_nodes else None
        most = self.context_limit + max(0, num_nodes - 2)  # slots whose tokens have positions
        for extent in sizes(max(shortest, width, num_nodes), cache.num_slots):
            start = min(extent, most) - width
            self.forward(
                zeros,
                cache,
                [start] * cache.num_rows,
                last_only=last_only,
                hidden_layers=hidden_layers,
                tree=tree,
            )

    def _place(
        self, start: Tensor, extent: int, tokens: Tensor, tree: Tree | None = None
    ) -> tuple[Tensor, Tensor | dict[str, Tensor]]:
        """Positions [B, S] of tokens whose rows start at slots [B], and what they see of a cache.

        A mask [B, 1, S, extent] is added to attention scores; there is one per kind of layer if
        kinds differ.
        """
        width = tokens.shape[1]
        if tree is None:
            slots = torch.arange(extent, device=tokens.device)[None]
            positions = start[:, None] + torch.arange(width, device=tokens.device)
            visible = slots[:, None] <= positions[:, :, None]
        else:
            roots = start - (tree.depths.shape[1] - width)
            slots = tree.positions(roots, extent)
            positions = roots[:, None] + tree.depths[:, -width:]
            visible = tree.visible(roots, extent, width)
        masks = masks_by_layer(self._windows, visible, positions, slots, self._additive)
        return positions, masks

    def _read(
        self,
        call: Callable[..., Any],
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor | dict[str, Tensor],
        cache: RowCache,
        keep: int | Tensor,
        layers: Sequence[int],
    ) -> list[Tensor]:
        """The model's own forward: logits, then the states entering some layers.

        Args:
            call: the model, or what was compiled from it.
            keep: how many last tokens get logits (0: all), or which ones [K].
        """
        outputs = call(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=keep,
            output_hidden_states=bool(layers),
            **{self._cache_argument: cache},
        )
        return [outputs.logits, *(outputs.hidden_states[layer] for layer in layers)]

    def _additive(self, hidden: Tensor) -> Tensor:
        """[B, 1, S, extent] from booleans [B, S, extent]: 0, or the lowest number where hidden."""
        mask = torch.zeros(hidden.shape, dtype=self.dtype, device=hidden.device)
        return mask.masked_fill_(hidden, torch.finfo(self.dtype).min)[:, None]


def _output(layers: Sequence[int], found: Sequence[Tensor]) -> Output:
    """From logits and the states of some layers."""
    logits, *states = found
    return Output(logits, dict(zip(layers, states, strict=True)))
