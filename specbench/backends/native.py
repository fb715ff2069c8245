"""specbench's own engine: transformers models over a cache with per-row lengths."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import torch

from specbench.backends._capturing import capturing_for, one_per_size
from specbench.backends._costs import drafter_costs, source_costs, target_costs
from specbench.backends._ties import TieMeter
from specbench.backends.base import Backend, Divergence, EngineOptions, TieMeasure
from specbench.drafters.base import Drafter, Host, Session, build_drafter
from specbench.engine.autoregressive import Autoregressive
from specbench.engine.loop import Decoder, decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Generation, Limits, Request
from specbench.engine.shared_prefix import SharedPrefix, common_prefix
from specbench.engine.speculative import Speculative
from specbench.engine.teacher import trace_texts
from specbench.errors import SpecbenchError
from specbench.measure.clock import clock_for
from specbench.models.compiling import require_compiler
from specbench.models.description import experts_of, held_bytes, traffic_of
from specbench.models.encoder_decoder import EncoderDecoder, wrapped
from specbench.models.few_rows import use_fast_order
from specbench.models.grouped import group_queries
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel, Prefill
from specbench.models.prompts import prompt_notices
from specbench.models.rows import Rows
from specbench.models.support import require_rollback, unused_generation_settings
from specbench.records.schema import Cell
from specbench.records.traces import TracedText
from specbench.sampling.warp import SamplingParams
from specbench.weights.loading import load_causal_lm
from specbench.weights.placement import Placement
from specbench.weights.progress import Progress
from specbench.workloads.template import template_of

FACTS = {"loads_weights": True, "shares_prefixes": True}

WARM_UP_TOKENS = 4


class NativeBackend(Backend):
    """Baseline and speculation in one engine."""

    def load(self, options: EngineOptions, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        loaded = load_causal_lm(
            options.target,
            dtype=options.dtype,
            device=options.device,
            attention=options.attention,
            quantization=options.target_quantization,
            progress=progress,
            check=require_rollback,
        )
        name = loaded.source.name
        self.target = wrapped(loaded.model, loaded.vocabulary, name)
        if options.share_prefix and self.target.has_encoder:
            raise SpecbenchError(
                f"--share-prefix is not usable with {name}: its encoder reads prompts as a whole",
                "Leave it out",
            )
        self.tokenizer = loaded.tokenizer
        self.device = str(self.target.device)
        self.devices = [str(device) for device in self.target.devices]
        self.stop_tokens = self.target.stop_tokens
        self.context_limit = self.target.context_limit
        self.prompt_form = self.target.prompt_form
        if options.compile:
            self.target.compile()  # at its first step, or says why it can't be
            require_compiler(self.target.device)
        columns = use_fast_order(loaded.model)
        template = template_of(loaded.vocabulary, options.chat_template_args)
        self.target_facts = {
            **loaded.provenance,
            "grouped_queries": _group_on_gpu(self.target),
            "swapped_linear_rows": sorted(columns),
            "swapped_linear_columns": [columns[rows] for rows in sorted(columns)],
            "chat_template": template.facts if template else None,
        }
        self.notices = [*loaded.notices]
        self._tell(*_unused_settings(self.target), *prompt_notices(self.target, template))
        self._clock = clock_for(self.device)
        self._capturing = capturing_for(self.target, options, progress)
        self._caches = Caches(self._capturing)
        self._drafters: dict[str, Drafter] = {}
        self.drafter_facts = {}
        self._prefills: dict[str, Prefill] = {}
        self._warm: set[tuple[str, int, int, bool, int | None]] = set()
        self._ties: TieMeter | None = None
        self._traffic, self._experts = traffic_of(loaded.model), experts_of(loaded.model)
        self._held_bytes = held_bytes([loaded.model])

    def misfit(self, prompt_tokens: int, room: int) -> str | None:
        if isinstance(self.target, EncoderDecoder):
            return self.target.misfit(prompt_tokens, room)
        return super().misfit(prompt_tokens, room)

    def check(self, cells: Sequence[Cell]) -> None:
        host = Host(self.target, self._load_drafter_model, self._options.chat_template_args)
        for text in dict.fromkeys(cell.drafter for cell in cells if not cell.is_baseline):
            if text not in self._drafters:
                self._drafters[text] = drafter = build_drafter(text, host)
                self._tell(*drafter.notices)
                if drafter.weights:
                    self.drafter_facts[text] = dict(drafter.weights)

    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        layers = self._hidden_layers(cells)
        first = [requests[0], *(one_per_size(requests) if self._capturing else [])]
        self._caches.drop_others({cell.batch_size for cell in cells})
        self._give_memory_back()  # pools of graphs that are gone are not this block's
        with self._open():
            self._prefills = prefill_all(self.target, first, self._clock, layers, self._caches)
            self._warm_up(requests, cells, limits)
        if self._capturing is not None:
            self.captured = self._capturing.facts()
        prefix = self._shared_prefix(requests, layers)
        self._prefills = prefill_all(
            self.target, requests, self._clock, layers, self._caches, prefix
        )

    def _shared_prefix(
        self, requests: Sequence[Request], layers: Sequence[int]
    ) -> SharedPrefix | None:
        """What a block's prompts begin with, read once; None where nothing is to be shared."""
        self.shared_prefix = None
        if not self._options.share_prefix:
            return None
        shared = common_prefix([request.token_ids for request in requests])
        task = requests[0].labels["task"]
        if not shared:
            self.shared_prefix = {"tokens": 0, "seconds": None}
            self._tell(f"prompts of {task} share no first token")
            return None
        self._tell(f"prompts of {task} share their first {len(shared)} tokens, which are read once")
        SharedPrefix.read(self.target, shared, self._clock, layers)  # its shape is warm now
        prefix = SharedPrefix.read(self.target, shared, self._clock, layers)
        self.shared_prefix = {"tokens": len(shared), "seconds": prefix.seconds}
        return prefix

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        decoder = self._decoder(cell, self._longest(requests) + limits.max_new_tokens)
        generation = decode(decoder, requests, self._prefills, limits, self.watch)
        generation.notes = [*generation.notes, *self._late_notes()]
        return generation

    def end_block(self) -> None:
        self._prefills = {}

    def greedy_outputs(self, requests: Sequence[Request], limits: Limits) -> list[list[int]]:
        longest = self._longest(requests) + limits.max_new_tokens
        with self._open():
            prefills = prefill_all(self.target, requests, self._clock, (), self._caches)
            session = self._session(SamplingParams(), 1, 0, longest)
            decoder = Autoregressive(self.target, session, self._clock)
            return decode(decoder, requests, prefills, limits).outputs

    def cost(self, cell: Cell) -> dict[str, float | None]:
        drafter = self._drafters.get(cell.drafter)
        prefill = next(iter(self._prefills.values()), None)
        per_token = None
        if prefill is not None:
            per_token = prefill.snapshot.num_bytes / prefill.snapshot.keys[0].shape[2]
        return {
            **target_costs(self.target.weight_bytes, self._traffic, self._experts),
            "weight_held_bytes": self._held_bytes,
            "kv_bytes_per_token": per_token,
            "kv_written_bytes_per_token": per_token,
            **drafter_costs(drafter, self.target, per_token),
            **source_costs(self._prefills.values(), drafter),
        }

    def draft_sampling(self, cell: Cell) -> str | None:
        if cell.is_baseline:
            return None
        sampled = self._drafters[cell.drafter].samples and cell.temperature > 0
        return "sampled" if sampled else "one-hot"

    def measure_tie(self, cell: Cell, divergence: Divergence) -> TieMeasure | None:
        if self._ties is None:
            self._ties = TieMeter(self.target)
        drafter = self._drafters.get(cell.drafter)
        num_verified = 1 + (drafter.most_drafted(cell.gamma) if drafter else cell.gamma)
        return self._ties.measure(divergence, num_verified, cell.batch_size)

    def refuse_traces(self) -> None:
        if self.target.has_encoder:
            raise SpecbenchError(
                f"{self.target.name} is an encoder-decoder, on whose text no drafter is traced",
                "specbench run measures alpha in its rounds",
            )

    def trace(
        self, cells: Sequence[Cell], requests: Sequence[Request], outputs: Sequence[Sequence[int]]
    ) -> TracedText:
        cell, gamma = cells[0], max(cell.gamma for cell in cells)
        whole = zip(requests, outputs, strict=True)
        longest = max(len(request.token_ids) + len(output) for request, output in whole)
        session = self._session(
            _sampling(cell), 1, gamma, longest + gamma, seed=cell.seed, repeat=cell.repeat
        )
        drafters = {cell.cell_id: (self._drafters[cell.drafter], cell.gamma) for cell in cells}
        with self._open():
            return trace_texts(self.target, drafters, requests, outputs, session, self._clock)

    def close(self) -> None:
        del self.target, self._drafters, self._prefills, self._caches
        self._ties = None
        self._give_memory_back()

    def _tell(self, *notices: str) -> None:
        for notice in notices:
            if notice not in self.notices:
                self.notices.append(notice)
                self._progress.note(notice)

    def _give_memory_back(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()

    def _load_drafter_model(
        self,
        name: str,
        dtype: str | None = None,
        device: str | None = None,
        quantization: str | None = None,
    ) -> LanguageModel:
        """A draft model, in the target's dtype and on its device if others are not asked for."""
        if device is not None:
            Placement.of(device, f"drafter {name}: device={device}")
        loaded = load_causal_lm(
            name,
            dtype=dtype or str(self.target.dtype).removeprefix("torch."),
            device=device or self.device,
            attention=self._options.attention,
            quantization=quantization,
            progress=self._progress,
            check=require_rollback,
        )
        use_fast_order(loaded.model)
        source = loaded.source
        facts = {**source.provenance, "dtype": loaded.dtype}
        if loaded.quantization is not None:
            facts["quantization"] = loaded.quantization
        model = wrapped(loaded.model, loaded.vocabulary, source.name, facts)
        _group_on_gpu(model)
        if self._capturing is not None and model.device != self.target.device:
            self._capturing.leave_out(model.name, f"on {model.device}, not on the target's device")
        if self._options.compile:
            model.compile()
        return model

    def _decoder(self, cell: Cell, longest: int) -> Decoder:
        sampling = _sampling(cell)
        drafter = self._drafters.get(cell.drafter)
        drafted = drafter.most_drafted(cell.gamma) if drafter else 0
        session = self._session(
            sampling, cell.batch_size, cell.gamma, longest, drafted, cell.seed, cell.repeat
        )
        if drafter is None:
            return Autoregressive(self.target, session, self._clock)
        return Speculative(self.target, drafter, session, self._clock)

    def _hidden_layers(self, cells: Iterable[Cell]) -> list[int]:
        """The layers whose states the drafters of some cells read."""
        drafters = {cell.drafter for cell in cells if not cell.is_baseline}
        needed = [self._drafters[drafter].needs_hidden_layers for drafter in drafters]
        return sorted(set().union(*needed))

    def _session(
        self,
        sampling: SamplingParams,
        batch_size: int,
        gamma: int,
        longest: int,
        drafted: int = 0,
        seed: int = 0,
        repeat: int = 0,
    ) -> Session:
        capacity = longest + gamma + 1
        rows = Rows(batch_size, capacity, self.target.device)
        slots = longest + drafted + 1
        cache = self._caches.take(self.target, batch_size, slots, self.target.cache_kind)
        return Session(rows, cache, sampling, capacity, gamma, seed, repeat, self._caches)

    def _open(self) -> AbstractContextManager[None]:
        """Steps may be captured meanwhile: nothing is measured."""
        return contextlib.nullcontext() if self._capturing is None else self._capturing.opened()

    def _warm_up(self, requests: Sequence[Request], cells: Iterable[Cell], limits: Limits) -> None:
        """Every shape that the cells can meet, so that no first use is measured."""
        if self._capturing is not None:
            self._rehearse(requests, cells, limits)
        request = requests[0]
        for cell in cells:
            sampled, context = cell.temperature > 0, cell.context_length
            shape = (cell.drafter, cell.gamma, cell.batch_size, sampled, context)
            if shape in self._warm:
                continue
            self._warm.add(shape)
            copies = [request] * cell.batch_size
            room = self.context_limit - self._longest([request])
            tokens = min(WARM_UP_TOKENS + cell.gamma, room)
            with contextlib.suppress(Exception):  # the cell will fail the same way, and say so
                self.generate(cell, copies, Limits(max(1, tokens - cell.gamma)))

    @torch.inference_mode()
    def _rehearse(self, requests: Sequence[Request], cells: Iterable[Cell], limits: Limits) -> None:
        """Let the cells' steps be captured, the largest first: its caches serve the rest."""
        lengths = [len(request.token_ids) for request in one_per_size(requests)]
        longest = self._longest(requests) + limits.max_new_tokens
        for cell in sorted(cells, key=self._size, reverse=True):
            with contextlib.suppress(Exception):  # as in the warm-up
                decoder = self._decoder(cell, longest)
                if decoder.drafter is not None:
                    decoder.drafter.start(decoder.session)
                decoder.rehearse(lengths)

    def _longest(self, requests: Sequence[Request]) -> int:
        """The most tokens that a row holds before its output."""
        return max(len(self.target.layout(request.token_ids).context) for request in requests)

    def _size(self, cell: Cell) -> tuple[int, int]:
        """Grows with the slots that a cell needs in any cache."""
        drafter = self._drafters.get(cell.drafter)
        return (drafter.most_drafted(cell.gamma) if drafter else 0, cell.gamma)

    def _late_notes(self) -> list[str]:
        late = [] if self._capturing is None else self._capturing.take_late()
        return [f"{step}: not captured before the cell, run as it is" for step in late]


def _group_on_gpu(model: LanguageModel) -> bool:
    return model.device.type == "cuda" and group_queries(model.model)


def _unused_settings(target: LanguageModel) -> list[str]:
    config = getattr(target.model, "generation_config", None)
    settings = unused_generation_settings(config, target.honours)
    return [
        f"the generation config asks for {setting}, which baseline and speculation both leave out"
        for setting in settings
    ]


def _sampling(cell: Cell) -> SamplingParams:
    return SamplingParams(cell.temperature, cell.top_k, cell.top_p)


BACKEND = NativeBackend
