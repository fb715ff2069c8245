"""Lines to type into vLLM, SGLang and Hugging Face for a schedule, or why there is none.

Names of options as of vLLM 0.32 (`SpeculativeConfig`), SGLang's server arguments of 2026 and
transformers 5. What an engine can't run is said by name, and so is where it drafts in another way
than what was measured, since alpha then need not be the same.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from specbench import registry
from specbench.analysis.recommending.choice import Decision
from specbench.analysis.recommending.schedule import Schedule
from specbench.records.importing.cells import UNNAMED
from specbench.records.spec_text import Pieces, pieces
from specbench.records.vllm_methods import METHODS, SAMPLING, WITH_WEIGHTS

_ENGINES = ("vLLM", "SGLang", "Hugging Face")
_MODEL, _EXAMPLE = "MODEL", "e.g. eagle:NAME"
_SHIPPED_IN = "specbench's own package"


@dataclass(frozen=True)
class Line:
    """For one engine.

    Attributes:
        engine: its name.
        text: what to type; empty where the engine can't run it.
        notes: why it can't, or what differs from what was measured.
    """

    engine: str
    text: str
    notes: tuple[str, ...] = ()


def lines(
    schedule: Schedule, target: str, quantization: str | None = None, foreign: bool = False
) -> tuple[Line, ...]:
    """One per engine; none where no drafter is shown to pay.

    Args:
        schedule: with a drafter.
        target: what is served, as the engines are to be told.
        quantization: the method that it was quantised by when it was measured.
        foreign: whether the drafter was imported or a server's, so that a SPEC without weights is
            not one of ours.
    """
    if schedule.served is None:
        return ()
    spec = pieces(schedule.drafter)
    if foreign and (unknown := untold(spec)):
        return tuple(Line(engine, "", (unknown,)) for engine in _ENGINES)
    made = [_vllm(schedule, spec, target), _sglang(schedule, spec, target)]
    if foreign and target == UNNAMED:
        made = [_with_model(line) for line in made]
    notes = _quantised_notes({"target": quantization, "drafter": spec.options.get("quantization")})
    return tuple(
        replace(line, notes=line.notes + notes) if line.text else line
        for line in (*made, _hugging_face(schedule, spec))
    )


def typed(decision: Decision) -> str | None:
    """What to type after ``specbench run``; None where nothing is shown to pay, and where an
    imported drafter is none that could be typed."""
    group = decision.choice.group
    is_read = group is not None and group.imported_from is not None and not group.served
    return None if is_read and untold(pieces(decision.drafter)) else decision.options


def untold(spec: Pieces) -> str:
    """Why the drafter of another tool's result can't be run again; empty if it can."""
    if spec.kind not in {*METHODS, *registry.names("drafters")}:
        said = "was not named" if spec.kind == UNNAMED else f"{spec.kind} is no SPEC"
        return f"the drafter {said}: name it with --drafter, {_EXAMPLE}"
    if spec.kind in WITH_WEIGHTS and not spec.argument:
        return f"whose {spec.kind} drafter it was is not told: name it with --drafter, {_EXAMPLE}"
    return ""


def _with_model(line: Line) -> Line:
    """A line for a target that nobody named."""
    if not line.text:
        return line
    note = f"{_MODEL} is what was measured, which no file told: specbench import --target NAME"
    return replace(line, text=line.text.replace(UNNAMED, _MODEL, 1), notes=(*line.notes, note))


def _quantised_notes(methods: Mapping[str, str | None]) -> tuple[str, ...]:
    """What a line leaves out of how models were measured."""
    return tuple(
        f"the {role} was measured as {method}: quantise it there too, else α may be another"
        for role, method in methods.items()
        if method is not None
    )


def _vllm(schedule: Schedule, spec: Pieces, target: str) -> Line:
    method = METHODS.get(spec.kind)
    lacking = _lacking(spec, method is not None, trees=False)
    if lacking or method is None:
        return Line("vLLM", "", lacking)
    config: dict[str, object] = {"method": method, "num_speculative_tokens": schedule.longest}
    notes = _head_notes(spec)
    if spec.kind == "ngram":
        config["prompt_lookup_min"] = int(spec.options.get("min", 1))
        config["prompt_lookup_max"] = int(spec.options.get("max", 3))
        notes += _match_notes(spec)
    if spec.kind in WITH_WEIGHTS:
        config["model"] = spec.argument
    if spec.kind == "suffix":
        notes += ("it needs the package arctic-inference",)
    if spec.kind in SAMPLING and schedule.load.temperature > 0.0:
        config["draft_sample_method"] = "probabilistic"  # as measured; its default is one-hot
    if len(schedule.ranges) > 1:
        config["num_speculative_tokens_per_batch_size"] = [list(part) for part in schedule.ranges]
    limit = ""
    if schedule.ranges[-1].gamma:
        limit = f" --max-num-seqs {schedule.last}"
        notes += (
            f"beyond batch {schedule.last}, the largest measured one, vLLM would go on with γ = "
            f"{schedule.ranges[-1].gamma}: --max-num-seqs ends there",
        )
    text = f"vllm serve {shlex.quote(target)}{limit} --speculative-config '{_json(config)}'"
    return Line("vLLM", text, notes)


def _sglang(schedule: Schedule, spec: Pieces, target: str) -> Line:
    algorithm = _SGLANG_ALGORITHMS.get(spec.kind)
    lacking = _lacking(spec, algorithm is not None, trees=spec.kind != "ngram")
    if lacking or algorithm is None:
        return Line("SGLang", "", lacking)
    options = [f"--speculative-algorithm {algorithm}"]
    notes = _head_notes(spec)
    if spec.kind == "ngram":
        options.append(f"--speculative-num-draft-tokens {schedule.longest + 1}")
        notes += ("SGLang looks in all earlier outputs and drafts trees, not what was measured",)
    else:
        nodes, topk = schedule.longest + 1, 1
        if spec.is_tree:
            nodes, topk = int(spec.options["tree"]), int(spec.options.get("topk", 10))
        if spec.argument:
            options.append(f"--speculative-draft-model-path {shlex.quote(spec.argument)}")
        options += [
            f"--speculative-num-steps {schedule.longest}",
            f"--speculative-eagle-topk {topk}",
            f"--speculative-num-draft-tokens {nodes}",
        ]
    notes += _one_gamma_notes(schedule, "SGLang")
    command = f"python3 -m sglang.launch_server --model-path {shlex.quote(target)}"
    return Line("SGLang", " ".join([command, *options]), notes)


def _hugging_face(schedule: Schedule, spec: Pieces) -> Line:
    known = spec.kind in ("ngram", "model", "early-exit")
    lacking = _lacking(spec, known, trees=False)
    gamma = schedule.ranges[0].gamma
    if not lacking and not gamma:
        lacking = ("generate() decodes one sequence at a time, where nothing is shown to pay",)
    if lacking:
        return Line("Hugging Face", "", lacking)
    notes: tuple[str, ...] = ()
    if schedule.last > 1:
        notes = ("generate() drafts for one sequence at a time: this is for batch 1",)
    if spec.kind == "ngram":
        longest = spec.options.get("max", "3")
        call = f"prompt_lookup_num_tokens={gamma}, max_matching_ngram_size={longest}"
        return Line("Hugging Face", f"model.generate(**inputs, {call})", notes + _match_notes(spec))
    drafter = f"assistant_early_exit={spec.argument}"
    if spec.kind == "model":
        drafter = "assistant_model=drafter"
        notes += (f"drafter = AutoModelForCausalLM.from_pretrained({spec.argument!r})",)
    call = (
        f"{drafter}, num_assistant_tokens={gamma}, num_assistant_tokens_schedule='constant', "
        "assistant_confidence_threshold=0"
    )
    return Line("Hugging Face", f"model.generate(**inputs, {call})", notes)


_SGLANG_ALGORITHMS = {
    "ngram": "NGRAM",
    "model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",  # with the target's own heads where no draft model is named
}


def _lacking(spec: Pieces, known: bool, trees: bool) -> tuple[str, ...]:
    """Why an engine can't run a drafter; empty if it can."""
    if not known:
        return (f"it has no {spec.kind} drafter",)
    if spec.is_adaptive:
        return ("it has no gamma=auto that ends drafts by the same rule",)
    if spec.is_tree and not trees:
        return ("it verifies chains only, not trees",)
    if spec.is_tree and not spec.options["tree"].isdigit():
        return ("it takes no tree of a given form",)
    if not spec.argument and spec.kind in WITH_WEIGHTS:
        return (f"the {spec.kind} drafter lies in {_SHIPPED_IN}: it has no name to give",)
    if spec.options.get("vocab") is not None:
        return (f"it can't draft among {spec.options['vocab']} tokens only (vocab=)",)
    return ()


def _head_notes(spec: Pieces) -> tuple[str, ...]:
    """What to know about a drafter that lies in a folder."""
    if spec.kind not in ("medusa", "eagle", "eagle3") or not _is_path(spec.argument):
        return ()
    return (f"{spec.argument} must have the layout that the engine reads",)


def _match_notes(spec: Pieces) -> tuple[str, ...]:
    if spec.options.get("match") == "first":
        return ()
    return ("it takes the first match: measure ngram,match=first to have the same α",)


def _one_gamma_notes(schedule: Schedule, engine: str) -> tuple[str, ...]:
    if len(schedule.ranges) == 1:
        return ()
    said = ", ".join(f"{part.gamma} at {part.first}–{part.last}" for part in schedule.ranges)
    return (f"{engine} keeps one γ at every batch size; shown to pay is {said}",)


def _is_path(argument: str) -> bool:
    return (
        argument.startswith(("/", ".", "~")) or argument.count("/") > 1 or Path(argument).exists()
    )


def _json(config: dict[str, object]) -> str:
    return json.dumps(config, ensure_ascii=False).replace("'", "'\\''")
