"""Hugging Face's assisted generation and prompt lookup (batch 1), beside its own ``generate``.

``hf-assisted`` holds the draft length: confidence threshold 0, schedule ``constant``, so that gamma
means what it means elsewhere. ``hf-assisted,defaults`` leaves both as the library sets them: drafts
end where the drafter is unsure, which picks easy tokens and raises alpha; its cells say so.

The target is loaded as in the native engine, and the baseline is ``generate`` without a drafter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteriaList

from specbench.backends._hf_loop import Ending, LoopWatch, Trail
from specbench.backends.base import EngineOptions
from specbench.backends.native import NativeBackend
from specbench.backends.spec import BackendSpec
from specbench.drafters.model import placement
from specbench.drafters.spec import parse_spec
from specbench.engine.recorder import Recorder
from specbench.engine.request import Generation, Limits, Request
from specbench.engine.round import Round
from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.models.prompts import drafter_notices
from specbench.models.rows import Row, Rows, up_to_stop
from specbench.models.vocabulary import require_same_vocabulary
from specbench.records.schema import Cell
from specbench.weights.progress import Progress
from specbench.weights.quiet import quiet_transformers
from specbench.weights.shipped import drafter_name, weights_of

FACTS = {"loads_weights": True}

VARIES = (
    "hf-assisted,defaults ends drafts where the drafter is unsure: alpha is of easier tokens than "
    "at a fixed gamma"
)


class HfAssistedBackend(NativeBackend):
    """Runs ``model.generate`` and reads its rounds.

    Args:
        defaults: leave the library's confidence threshold and schedule as they are.
    """

    @classmethod
    def of(cls, spec: BackendSpec) -> HfAssistedBackend:
        spec.allow_options(("defaults",))
        if spec.argument is not None or spec.options.get("defaults"):
            raise SpecbenchError(
                f"backend {spec.text!r} takes no value",
                "Write hf-assisted or hf-assisted,defaults",
            )
        return cls(defaults="defaults" in spec.options)

    def __init__(self, defaults: bool = False) -> None:
        self.defaults = defaults

    def load(self, options: EngineOptions, progress: Progress) -> None:
        if options.compile:
            raise SpecbenchError(
                "--compile is for specbench's own engine", "Leave it out with --backend hf-assisted"
            )
        super().load(replace(options, cuda_graph=False), progress)  # the loop is the library's
        if self.target.has_encoder:
            raise SpecbenchError(
                f"{self.target.name} is an encoder-decoder, which hf-assisted does not run",
                "Measure it with --backend native",
            )
        model: Any = self.target.model
        model.generation_config = GenerationConfig()  # the record names what it asked for
        self._assistants: dict[str, LanguageModel] = {}

    def impossible(self, cell: Cell) -> str | None:
        if (reason := super().impossible(cell)) is not None:
            return reason
        spec = parse_spec(cell.drafter)
        if cell.batch_size > 1:
            return "Hugging Face's assisted generation takes one prompt at a time"
        if spec.kind not in ("ngram", "model", "early-exit"):
            return f"Hugging Face's assisted generation has no {spec.kind} drafter"
        if spec.options.get("gamma") == "auto" or "tree" in spec.options:
            return "Hugging Face's assisted generation drafts chains of its own length"
        if spec.kind == "ngram" and spec.options.get("match", "recent") != "first":
            return "Hugging Face's prompt lookup takes the first match: write ngram,match=first"
        if spec.kind == "ngram" and spec.integer("min", 1) != 1:
            return "Hugging Face's prompt lookup goes down to one token: write min=1"
        return None

    def check(self, cells: Sequence[Cell]) -> None:
        for text in dict.fromkeys(cell.drafter for cell in cells if not cell.is_baseline):
            spec = parse_spec(text)
            if spec.kind == "model" and text not in self._assistants:
                assistant = self._load_drafter_model(
                    drafter_name(spec, self.target), **placement(spec)
                )
                require_same_vocabulary(self.target, assistant)
                settings = self._options.chat_template_args
                self._tell(*drafter_notices(self.target, assistant, settings))
                assistant.model.generation_config = GenerationConfig()
                self._assistants[text] = assistant
                if assistant.provenance:
                    self.drafter_facts[text] = weights_of(spec, assistant.provenance)

    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        self._warm_up(requests, cells, limits)

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        recorder = Recorder(list(requests), self._clock)
        for index, request in enumerate(requests):
            self._answer(cell, request, limits, recorder, index)
        generation = recorder.generation()
        unknown = [None] * len(generation.rounds["other_s"])  # choosing tokens is part of the loop
        generation.rounds["sampling_s"] = unknown
        if not cell.is_baseline and self.defaults and cell.draft_form == "adaptive":
            generation.notes = [VARIES]
        return generation

    def cost(self, cell: Cell) -> dict[str, float | None]:
        weight_bytes: float | None = 0
        kv_bytes: float | None = 0
        if (own := self._assistants.get(cell.drafter)) is not None:
            weight_bytes, kv_bytes = own.weight_bytes, None
        elif not cell.is_baseline and parse_spec(cell.drafter).kind == "early-exit":
            weight_bytes = kv_bytes = None
        return {
            "weight_bytes": self.target.weight_bytes,
            "kv_bytes_per_token": None,
            "drafter_weight_bytes": weight_bytes,
            "drafter_kv_bytes_per_token": kv_bytes,
            "drafter_one_step": False,
        }

    def draft_sampling(self, cell: Cell) -> str | None:
        if cell.is_baseline:
            return None
        samples = parse_spec(cell.drafter).kind != "ngram" and cell.temperature > 0
        return "sampled" if samples else "one-hot"

    @torch.inference_mode()
    def _answer(
        self, cell: Cell, request: Request, limits: Limits, recorder: Recorder, index: int
    ) -> None:
        """Continue one prompt and record its rounds."""
        prompt = torch.tensor([list(request.token_ids)], device=self.target.device)
        watch = LoopWatch(self.target.model, self._clock, self.watch)
        ending = Ending(watch, limits, prompt.shape[1])
        torch.manual_seed(_seed(cell, request))
        with quiet_transformers(), watch.on() as trail:  # it warns of its own inner call
            output = self.target.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                stopping_criteria=StoppingCriteriaList([ending]),
                **self._arguments(cell, limits),
            )
        self.watch.pause()
        tokens = output[0, prompt.shape[1] :].tolist()
        self._record(request, tokens, trail, limits, recorder, index)

    def _arguments(self, cell: Cell, limits: Limits) -> dict[str, Any]:
        """``generate``'s keyword arguments for a cell."""
        config = GenerationConfig(
            max_new_tokens=limits.max_new_tokens + cell.gamma + 2,  # the watch ends it before
            do_sample=cell.temperature > 0,
            **(
                {"temperature": cell.temperature, "top_k": cell.top_k, "top_p": cell.top_p}
                if cell.temperature > 0
                else {}
            ),
        )
        options: dict[str, Any] = {"generation_config": config}
        if cell.is_baseline:
            return options
        spec = parse_spec(cell.drafter)
        if spec.kind == "ngram":
            config.prompt_lookup_num_tokens = cell.gamma
            config.max_matching_ngram_size = spec.integer("max", 3)
            return options
        if spec.kind == "early-exit":
            config.assistant_early_exit = int(spec.need_argument("K"))
            drafting: Any = self.target.model.generation_config
        else:
            options["assistant_model"] = self._assistants[cell.drafter].model
            drafting = options["assistant_model"].generation_config
        drafting.num_assistant_tokens = cell.gamma
        if not self.defaults:
            drafting.num_assistant_tokens_schedule = "constant"
            drafting.assistant_confidence_threshold = 0.0
        return options

    def _record(
        self,
        request: Request,
        tokens: list[int],
        trail: Trail,
        limits: Limits,
        recorder: Recorder,
        index: int,
    ) -> None:
        """Turn a request's trail into the record's rounds; tokens beyond an ending are cut."""
        seconds = self._clock.seconds
        recorder.begin(
            index,
            sum(seconds(*span) for span in trail.prefill),
            sum(seconds(*span) for span in trail.first),
            sum(seconds(*span) for span in trail.drafter_prefill),
        )
        rows = Rows(1, 1, self.target.device)
        rows.slots[0] = row = Row(
            tokens=[*request.token_ids, tokens[0]],
            prompt_length=len(request.token_ids),
            prompt_id=request.prompt_id,
            active=True,
        )
        done = 1
        for step in trail.steps:
            committed = tokens[done : done + step.num_accepted + 1]
            done += len(committed)
            room = limits.max_new_tokens - len(row.output)
            kept = up_to_stop(committed[:room], limits.stop_tokens)
            row.tokens.extend(kept)
            begin, drafted, verified, end = step.marks
            recorder.add(
                rows,
                [index],
                Round(
                    committed=[committed],
                    num_drafted=[step.num_drafted],
                    draft_levels=[step.num_drafted],
                    num_evaluated=[min(step.num_accepted + 1, step.num_drafted)],
                    num_accepted=[step.num_accepted],
                    num_verified=step.num_drafted + 1,
                    marks=(begin, drafted, verified, verified),
                ),
                [len(kept)],
                end,
            )
        if done != len(tokens):
            raise SpecbenchError(
                f"Hugging Face's loop gave {len(tokens)} tokens, its rounds account for {done}",
                "This release of transformers counts accepted tokens otherwise",
            )
        stopped = row.tokens[-1] in limits.stop_tokens
        recorder.end(index, row, "stop" if stopped else "length")


def _seed(cell: Cell, request: Request) -> int:
    """Of torch's generator, which Hugging Face draws from: the same for a prompt in any order."""
    name = f"{cell.seed}/{cell.repeat}/{request.prompt_id}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=7).digest(), "little")


BACKEND = HfAssistedBackend
