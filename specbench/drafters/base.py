"""What a drafter is.

A drafter proposes up to gamma tokens per row and is told how many of them were accepted. One round
of the engine, from the drafter's side::

    draft = drafter.propose(gamma)      # tokens [B, N], N <= gamma
    ...                                 # the target verifies
    drafter.commit(num_accepted)        # roll its own state back to what was accepted

The engine calls :meth:`Drafter.start` once per cell and :meth:`Drafter.begin` whenever a prompt
enters a slot. A new kind is one file in this folder whose module sets ``DRAFTER`` to its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor, nn

from specbench import registry
from specbench.drafters.spec import DrafterSpec, parse_spec
from specbench.errors import SpecbenchError
from specbench.models.cache import RowCache
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel
from specbench.models.rows import Rows
from specbench.sampling.warp import SamplingParams


@dataclass(frozen=True)
class Draft:
    """Proposed tokens.

    Attributes:
        tokens: [B, N] ids; beyond lengths[b] they are padding. N may be 0.
        lengths: [B] proposed tokens per row.
        probs: [B, N, V] the distribution each token was drawn from, or None: one-hot.
        parents: [B, N] number of each one's parent in a tree, or None: a chain. Drafted token i is
            node i + 1 and node 0, the root, the last committed token; parents come first.
        levels: [B] levels of a tree that were drafted, whether any node of them was kept or not.
        siblings: the most children that a node of a tree has.
        replay: [B, N + 1] tokens to compare and commit *instead of the target's own*, or None; -1
            where nothing is recorded and the target chooses. Only calibration uses it: the target
            still runs, for its time.
    """

    tokens: Tensor
    lengths: list[int]
    probs: Tensor | None = None
    parents: Tensor | None = None
    levels: list[int] | None = None
    siblings: int = 1
    replay: Tensor | None = None


@dataclass(frozen=True)
class Text:
    """A prompt and what follows it, as the target reads it: what a drafter is traced on.

    Draft s of ``num_drafts`` begins where ``tokens[: first + s]`` are committed, and its token
    j = 1, 2, ... is held against ``tokens[first + s + j - 1]``.

    Attributes:
        tokens: long enough for all drafts.
        first: the prompt's tokens and the one that prefill gives.
        hidden: per layer of ``needs_hidden_layers`` the target's states [T, H] of the tokens, the
            last one's not among them.
    """

    tokens: list[int]
    first: int
    num_drafts: int
    hidden: dict[int, Tensor]

    def stretches(self, longest: int) -> Iterator[Text]:
        """The same text with at most so many of its drafts at a time, in order."""
        for start in range(0, self.num_drafts, longest):
            count = min(longest, self.num_drafts - start)
            yield Text(self.tokens, self.first + start, count, self.hidden)


@dataclass(frozen=True)
class Guess:
    """One token of each of S drafts, given that the tokens before it are the text's.

    Attributes:
        tokens: [S] the token that is drafted, or -1 where the draft has ended; None where it is
            sampled.
        probs: [S, V] the distribution that it is sampled from; None: one-hot.
    """

    tokens: Tensor | None = None
    probs: Tensor | None = None


@dataclass(frozen=True)
class Host:
    """What a drafter may be built from: the target, and a way to load another model like it.

    Attributes:
        load: a model by name; ``dtype``, ``device`` and ``quantization`` by keyword if they are not
            the target's.
        template_settings: what the user sets of the target's chat template.
    """

    target: LanguageModel
    load: Callable[..., LanguageModel]
    template_settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """What holds for one cell: the batch, the target's cache and how tokens are sampled.

    Attributes:
        capacity: positions that a row may take, a draft of gamma levels included. A cache that
            holds trees needs more slots than that.
        caches: where a drafter gets caches of its own from.
    """

    rows: Rows
    target_cache: RowCache
    sampling: SamplingParams
    capacity: int
    gamma: int
    seed: int
    repeat: int
    caches: Caches = field(default_factory=Caches)


class Drafter(ABC):
    """Base of all kinds.

    Attributes:
        weights: what the manifest says about weights of its own (name, sha256, files, ...); empty
            where there are none.
        weight_bytes: bytes of weights that one draft step reads beyond the target's.
        notices: what the user should know about it beside this target, one line each.
        modules: what holds its weights, the target's own among them or not.
        shared_layers: of the target's cache that a draft step reads, where it has none of its own.
        one_step: all tokens of a draft come from one step.
        needs_hidden_layers: states of the target that :meth:`begin` and :meth:`commit` want, by
            the layer that they enter; the number of layers is the last state, after the final norm.
        samples: above temperature 0 it draws from its own distribution and gives it to the rule.
            One that does not is one-hot: alpha then is the target's probability of its choice,
            not the overlap of two distributions.
        drafts_for_encoders: it can draft for targets whose prompt an encoder reads.
        only_prefix: a guess depends on the tokens before it alone, not on where the draft began.
        cache: keys and values of its own, from :meth:`start` on; None where it keeps none.
    """

    OPTIONS: ClassVar[tuple[str, ...]] = ()
    drafts_for_encoders: ClassVar[bool] = False
    weights: Mapping[str, Any] = MappingProxyType({})
    weight_bytes: int = 0
    notices: Sequence[str] = ()
    modules: Sequence[nn.Module] = ()
    shared_layers: int = 0
    one_step: bool = False
    needs_hidden_layers: tuple[int, ...] = ()
    samples: bool = False
    only_prefix: bool = False
    cache: RowCache | None = None

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        """Refuse a SPEC that can't be right, before any model is loaded.

        Raises:
            SpecbenchError: naming the argument or option.
        """
        spec.allow_options(cls.OPTIONS)

    @classmethod
    def impossible(
        cls, spec: DrafterSpec, *, gamma: int, temperature: float, batch_size: int
    ) -> str | None:
        """Why this cell cannot exist, or None. Such cells are dropped from the grid and listed."""
        return None

    @classmethod
    @abstractmethod
    def build(cls, spec: DrafterSpec, host: Host) -> Drafter:
        """Make the drafter for a target; loads weights, checks vocabularies."""

    def most_drafted(self, gamma: int) -> int:
        """The most tokens that it drafts per row and round; a tree's nodes without the root."""
        return gamma

    def draft_widths(self, gamma: int) -> Sequence[int]:
        """How many tokens per row a draft may have: N of :class:`Draft`."""
        return [self.most_drafted(gamma)]

    def drafts_trees(self, gamma: int) -> bool:
        """Whether its drafts have ``parents``."""
        return False

    def start(self, session: Session) -> None:
        """A cell begins: all slots are empty."""
        self.session = session
        self.rows = session.rows

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        """Take every step that it may take in a cell, for steps to be captured before it.

        Called after :meth:`start`, and only where steps are captured. What the rows hold, and what
        they read and wrote, says nothing.

        Args:
            prompt_lengths: of the prompts to come.
        """

    @abstractmethod
    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        """A prompt and its first output token were committed in ``slot``.

        Args:
            hidden: the prompt's states [P, H] for each of ``needs_hidden_layers``.
        """

    @abstractmethod
    def propose(self, gamma: int) -> Draft:
        """Up to ``gamma`` tokens per row; empty slots get none."""

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        """The verdict is in; ``rows`` will hold the new tokens, stop cuts applied, right after.

        Args:
            num_accepted: [B] accepted tokens of the last draft.
            hidden: the target's states [B, M, H] for each of ``needs_hidden_layers``: of row b the
                first ``num_accepted[b] + 1`` count, the last committed token's before the round
                and those of the accepted tokens in order.
        """

    def notes(self) -> list[str]:
        """What went otherwise than planned since :meth:`start`, for the record."""
        return []

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        """What drafts from every position of a text would hold, without a loop: token by token.

        Yields token 1, 2, ... gamma of the drafts; if ``only_prefix``, one guess of all
        ``num_drafts + gamma - 1`` positions instead, the first of which is draft 0's first token.
        Needs no :meth:`start`. A kind that has none of its own can't be traced.
        """
        raise NotImplementedError


def drafter_class(spec: DrafterSpec) -> type[Drafter]:
    """The class behind a SPEC's kind."""
    found: type[Drafter] = registry.load("drafters", spec.kind).DRAFTER
    return found


def build_drafter(text: str, host: Host) -> Drafter:
    """Make the drafter that a SPEC describes.

    Raises:
        SpecbenchError: the SPEC, the weights or the vocabulary don't fit.
    """
    spec = parse_spec(text)
    kind = drafter_class(spec)
    kind.check(spec)
    if host.target.has_encoder:
        _refuse_for_encoders(spec, kind, host.target)
    return kind.build(spec, host)


def _refuse_for_encoders(spec: DrafterSpec, kind: type[Drafter], target: LanguageModel) -> None:
    """Raises SpecbenchError if this drafter can't draft for a target with an encoder."""
    hint = "Use ngram, model:NAME with a smaller model of the same family, or synthetic:A"
    if not kind.drafts_for_encoders:
        raise SpecbenchError(
            f"drafter {spec.text!r} can't draft for {target.name}, an encoder-decoder", hint
        )
    if "tree" in spec.options:
        raise SpecbenchError(
            f"drafter {spec.text!r}: no trees are drafted for {target.name}, an encoder-decoder",
            "Leave out tree=",
        )
