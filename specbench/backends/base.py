"""What a backend is: an engine that can run a cell and say what happened in every round.

The sweep calls, in this order::

    backend.load(options, progress)               # once
    backend.check(cells)                          # refuse what cannot work, before any measurement
    backend.begin_block(requests, cells, limits)  # shared prefill; warm-up, never counted
    backend.generate(cell, requests, limits)      # once per cell
    backend.end_block()
    backend.close()

A new engine is one file in this folder whose module sets ``BACKEND`` to its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench import registry
from specbench.backends.spec import BackendSpec, parse_backend
from specbench.drafters.base import drafter_class
from specbench.drafters.spec import SERVER_KINDS, parse_spec
from specbench.engine.request import Generation, Limits, Request
from specbench.errors import SpecbenchError
from specbench.measure.watch import UNWATCHED, Watch
from specbench.records.schema import Cell
from specbench.records.traces import TracedText
from specbench.weights.progress import Progress
from specbench.workloads.prompt import PromptForm


@dataclass(frozen=True)
class EngineOptions:
    """How the target is loaded.

    Attributes:
        target: hub name, folder, GGUF file, or None for the embedded default.
        device, dtype, attention: as on the command line, ``auto`` included.
        target_quantization: a method of :mod:`specbench.weights.methods`; None: as it comes.
        ignore_eos: outputs are as long as they may be; a server must be able to.
        cuda_graph: on CUDA, capture steps as graphs.
        compile: compile the target's and draft models' steps.
        engine_python: interpreter of an environment with the engine, where it has one of its own.
        engine_args: more arguments of a server that is started here.
        share_prefix: what all prompts of a task begin with is read once.
        chat_template_args: variables of the target's chat template.
        logs: folder for what such servers print.
    """

    target: str | None
    device: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    target_quantization: str | None = None
    ignore_eos: bool = False
    cuda_graph: bool = True
    compile: bool = False
    engine_python: str | None = None
    engine_args: tuple[str, ...] = ()
    share_prefix: bool = False
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    logs: Path = Path("logs")


@dataclass(frozen=True)
class Divergence:
    """Where two greedy outputs of one prompt part.

    Attributes:
        request: the prompt.
        shared: output tokens before the parting.
        tokens: the two tokens that follow, the baseline's first.
    """

    request: Request
    shared: Sequence[int]
    tokens: tuple[int, int]


@dataclass(frozen=True)
class TieMeasure:
    """Whether rounding can explain a divergence.

    Attributes:
        gap: by how much the less likely of the two tokens falls short of the best logit.
        noise: how far rounding moves the logit of a likely token: the largest difference between a
            one-token and a verify forward of this cell's shape and dtype, and from float32 where
            the gap is from there.
        gap_dtype: dtype of the forward that gave the gap.
    """

    gap: float
    noise: float
    gap_dtype: str


class Backend(ABC):
    """Base of all engines. What holds from :meth:`load` on has no value here.

    Attributes:
        in_process: whether the target runs in this process, so that memory, bandwidth and GPU
            counters of this machine are its own.
        device: resolved device name; of a target that is spread over several, the one where its
            logits are.
        devices: all of them, by name.
        tokenizer: the target's; None where a server renders prompts.
        stop_tokens: ids that end an output.
        context_limit: the most tokens a prompt, its output and a draft may take together; without
            the prompt where an encoder reads it.
        prompt_form: how its prompts are put; see :data:`specbench.workloads.prompt.PromptForm`.
        notices: what the user should know about the target, one line each.
        target_facts: what the manifest says about the target: name, source, sha256, dtype, ...
        drafter_facts: the same of drafters with weights of their own, by SPEC; from :meth:`check`
            on.
        watch: told of the stretches in which :meth:`generate` decodes; set from outside.
        shared_prefix: tokens that a block's prompts share, and the seconds in which they were read
            once; None where each prompt is read as a whole.
        captured: steps captured by model, and why those of others were not; None where none were
            to be.
    """

    device: str
    tokenizer: Any
    stop_tokens: frozenset[int]
    context_limit: int
    notices: list[str]
    target_facts: dict[str, Any]
    drafter_facts: dict[str, dict[str, Any]]
    watch: Watch = UNWATCHED
    captured: dict[str, Any] | None = None
    shared_prefix: dict[str, float | None] | None = None

    in_process: bool = True
    devices: Sequence[str] = ()
    prompt_form: PromptForm = "chat"

    @classmethod
    def of(cls, spec: BackendSpec) -> Backend:
        """From what the user typed; most engines have but a name.

        Raises:
            SpecbenchError: it has something that this engine does not take.
        """
        spec.forbid_argument()
        return cls()

    @property
    def speculates(self) -> bool:
        """Whether drafters can be measured."""
        return True

    @property
    def decodes_plainly(self) -> bool:
        """Whether baselines can be measured."""
        return True

    @property
    def told(self) -> dict[str, Any] | None:
        """Target, gamma and drafter as a server that runs already tells them, None where it does
        not; no dict where they are the sweep's to say."""
        return None

    @property
    def server_facts(self) -> dict[str, Any]:
        """What the manifest says about servers, by URL."""
        return {}

    def impossible(self, cell: Cell) -> str | None:
        """Why a cell with a drafter can't exist, asked before :meth:`load`; None if it can."""
        if cell.request_rate:
            return "requests that arrive at a rate need a server as --backend"
        spec = parse_spec(cell.drafter)
        if spec.kind in SERVER_KINDS:
            return f"{spec.kind} is a drafter that only servers have"
        return drafter_class(spec).impossible(
            spec, gamma=cell.gamma, temperature=cell.temperature, batch_size=cell.batch_size
        )

    def arranged(self, cells: Sequence[Cell]) -> list[Cell]:
        """Planned cells in the order to measure them: as planned, unless a change costs much."""
        return list(cells)

    @abstractmethod
    def load(self, options: EngineOptions, progress: Progress) -> None:
        """Get the target ready.

        Raises:
            SpecbenchError: it cannot be had, or not be rolled back.
        """

    def misfit(self, prompt_tokens: int, room: int) -> str | None:
        """Why a prompt of so many tokens leaves no room for so many of output and draft; or None.
        Asked after :meth:`load`."""
        need = prompt_tokens + room
        if need <= self.context_limit:
            return None
        return f"with output and draft {need}, beyond the target's context of {self.context_limit}"

    @abstractmethod
    def check(self, cells: Sequence[Cell]) -> None:
        """Load every drafter that the cells name.

        Raises:
            SpecbenchError: a drafter cannot be had or does not fit the target.
        """

    @abstractmethod
    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        """Prefill the block's prompts and warm up the shapes of its cells, which will be generated
        within these limits."""

    @abstractmethod
    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        """Run one cell over the block's prompts."""

    @abstractmethod
    def end_block(self) -> None:
        """Free what the block shared."""

    @abstractmethod
    def greedy_outputs(
        self, requests: Sequence[Request], limits: Limits
    ) -> list[list[int]] | list[str]:
        """The target's own temperature-0 outputs, untimed, outside any block; text of a server."""

    @abstractmethod
    def cost(self, cell: Cell) -> dict[str, float | None]:
        """What forwards move and compute, and what lies in memory, by the names of
        :data:`specbench.records.traffic.Cost`; None where unknown."""

    @abstractmethod
    def draft_sampling(self, cell: Cell) -> str | None:
        """How the cell's drafter proposes: ``sampled`` from its own distribution, or ``one-hot``;
        None for a baseline."""

    def measure_tie(self, cell: Cell, divergence: Divergence) -> TieMeasure | None:
        """Measure whether rounding explains a divergence; None where the engine can't tell."""
        return None

    def refuse_traces(self) -> None:
        """Asked after :meth:`load`, before any text is made for :meth:`trace`.

        Raises:
            SpecbenchError: the target is of a kind that drafters are not traced for.
        """

    def trace(
        self, cells: Sequence[Cell], requests: Sequence[Request], outputs: Sequence[Sequence[int]]
    ) -> TracedText:
        """What each drafter would have proposed at every position of outputs that are there.

        Args:
            cells: checked; of one task, temperature and seed, each with its longest draft.
            requests: the prompts.
            outputs: what plain decoding answered to each.

        Returns:
            the drafters' columns by cell id.
        """
        raise SpecbenchError(
            "this engine can't trace drafters on a text", "Trace them with the native backend"
        )

    def close(self) -> None:
        """Free the engine."""


def make_backend(text: str) -> Backend:
    """A new backend from what the user typed, not loaded yet.

    Raises:
        SpecbenchError: it takes no such argument.
    """
    spec = parse_backend(text)
    kind: type[Backend] = registry.load("backends", spec.kind).BACKEND
    return kind.of(spec)
