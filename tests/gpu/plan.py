"""What the script measures, in the order of what it would be worst to lose.

The full plan is for one GPU with 80 GB or more: Llama-3.1-8B's shape in bfloat16, which takes 16 GB
of weights. ``tiny`` is the same plan on the CPU with a model of 2 layers, to test the script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.stages import UNAVAILABLE, Command, Stage

ALPHAS = (0.6, 0.8, 0.9)
GAMMAS = (2, 4, 8)
BATCH_SIZES = (1, 8, 64)
TOTAL_S = 585.0
"""Of the whole script, so that it ends in under ten minutes."""

DOCTOR = "doctor.json"
FITS = "fits"

_SHIPPED = Path("specbench/_drafters/smollm2-135m-instruct")
_TINY_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Options:
    """What is asked of the script.

    Attributes:
        out: folder of all results.
        tiny: on the CPU, with a tiny shape.
        smollm2: folder with the weights of SmolLM2-135M-Instruct; its shape serves where None.
        engines: other backends than the native one.
        vllm_python: the interpreter of an environment with vLLM, if there is one.
    """

    out: Path
    tiny: bool = False
    smollm2: Path | None = None
    engines: tuple[str, ...] = ()
    vllm_python: Path | None = None

    def shape(self, name: str) -> str:
        """A published shape, or the tiny one in its place."""
        return f"shape:{self.out / 'tiny' if self.tiny else name}"

    @property
    def small_target(self) -> str:
        return str(self.smollm2) if self.smollm2 else self.shape("smollm2-135m")

    @property
    def small_drafters(self) -> tuple[str, ...]:
        """With weights prompt lookup and those that come with specbench; random weights make no
        text that could be looked up, so there prompt lookup is given a chance to be accepted."""
        if not self.smollm2:
            return ("synthetic:0.8,cost=ngram",)
        return ("ngram", *(f"{kind}:{_SHIPPED / kind}" for kind in ("model", "medusa", "eagle")))


def plan(options: Options) -> list[Stage]:
    """All stages of a script."""
    runs = [*_large_runs(options), *_small_runs(options), _vllm(options)]
    return [
        _doctor(options),
        *runs,
        _figures(options, [stage.name for stage in runs if stage.commands]),
    ]


def prepare(options: Options) -> None:
    """Write the tiny shape."""
    folder = options.out / "tiny"
    if options.tiny:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(_TINY_CONFIG, indent=2), encoding="utf-8")


def _doctor(options: Options) -> Stage:
    words = ("-m", "specbench", "doctor", "--json", "--offline")
    command = Command(words, stdout=options.out / DOCTOR)
    return Stage("doctor", "is this machine fit to measure", 35, (command,))


def _large_runs(options: Options) -> list[Stage]:
    """The shape of Llama-3.1-8B: plain decoding, and drafters of known acceptance."""
    target, cost = options.shape("llama-3.1-8b"), f"cost=model:{options.shape('llama-3.2-1b')}"
    return [
        _run(
            options, "8b", "8B shape, captured, batch 1, 8, 64", 65, target=target,
            drafters=[f"synthetic:0.8,{cost}"], batch_sizes=BATCH_SIZES,
        ),
        _run(
            options, "8b-compile", "8B shape, compiled, one token and γ = 4", 190, target=target,
            drafters=["synthetic:0.8"], switches=("--compile",), prompts=2, tokens=128,
        ),
        _run(
            options, "synthetic-model", "α × γ, drafter of Llama-3.2-1B's shape", 70,
            target=target, drafters=[f"synthetic:{alpha},{cost}" for alpha in ALPHAS],
            gammas=GAMMAS,
        ),
        _run(
            options, "synthetic-eagle", "α × γ, drafter of an EAGLE head's shape", 60,
            target=target, drafters=[f"synthetic:{alpha},cost=eagle:shape" for alpha in ALPHAS],
            gammas=GAMMAS,
        ),
        _run(
            options, "8b-eager", "8B shape, eager, batch 1, 8, 64", 45, target=target,
            drafters=[f"synthetic:0.8,{cost}"], batch_sizes=BATCH_SIZES,
            switches=("--no-cuda-graph",), tokens=32,
        ),
    ]  # fmt: skip


def _small_runs(options: Options) -> list[Stage]:
    """SmolLM2: captured, eager, and by other engines, which read weights and know no shapes."""
    target = options.small_target
    model = "SmolLM2" if options.smollm2 else "SmolLM2's shape"
    stages = [
        _run(
            options, "smollm2", f"{model}, captured", 35, target=target,
            drafters=options.small_drafters, gammas=(1, 2, 4),
        ),
        _run(
            options, "smollm2-eager", f"{model}, eager", 35, target=target,
            drafters=options.small_drafters[:1], switches=("--no-cuda-graph",), tokens=32,
        ),
    ]  # fmt: skip
    lacking = None if options.smollm2 else "no weights for them: give --smollm2 FOLDER"
    if not options.engines:
        lacking = f"{UNAVAILABLE}: no other engine"
    if lacking is not None:
        return [*stages, Stage("engines", "other engines", 20, left_out=lacking)]
    return stages + [
        _run(
            options, f"engine-{name}", f"{model} by {name}", 20 / len(options.engines),
            target=target, drafters=["ngram"], switches=("--backend", name), tokens=32,
        )
        for name in options.engines
    ]  # fmt: skip


def _vllm(options: Options) -> Stage:
    """Last, with the time that the others left: a server for each drafter has to start."""
    if not options.smollm2 or not options.vllm_python:
        lacking = "no weights or no vLLM: give --smollm2 FOLDER and --vllm-python PATH"
        return Stage("engine-vllm", "SmolLM2 by vLLM", 0, left_out=lacking)
    switches = ("--backend", "vllm", "--engine-python", str(options.vllm_python))
    return _run(
        options, "engine-vllm", "SmolLM2 by vLLM", 180, target=str(options.smollm2),
        drafters=["ngram,match=first"], switches=switches,
    )  # fmt: skip


def _run(
    options: Options,
    name: str,
    what: str,
    budget_s: float,
    *,
    target: str,
    drafters: Sequence[str],
    gammas: Sequence[int] = (4,),
    batch_sizes: Sequence[int] = (1,),
    switches: tuple[str, ...] = (),
    prompts: int = 8,
    tokens: int = 64,
) -> Stage:
    """A stage that is one ``specbench run``: greedy, on prompts that are always there."""
    words = ["-m", "specbench", "run", "--target", target]
    for drafter in drafters:
        words += ["--drafter", drafter]
    words += ["--gamma", _listed(gammas), "--batch-size", _listed(batch_sizes)]
    words += ["--temperature", "0", "--ignore-eos", "--task", "code", "--prompt-source", "offline"]
    if options.tiny:
        words += ["--device", "cpu", "--dtype", "float32", "--prompts", "2"]
        words += ["--max-new-tokens", "8", "--threads", "1"]
    else:
        words += ["--device", "cuda", "--dtype", "bfloat16", "--prompts", str(prompts)]
        words += ["--max-new-tokens", str(tokens)]
    words += [*switches, "--out", str(options.out / name)]
    shapes = ("shape:NAME",) if target.startswith("shape:") else ()
    known = tuple(word for word in switches if word.startswith("--"))
    return Stage(name, what, budget_s, (Command(tuple(words)),), options=(*shapes, *known))


def _figures(options: Options, runs: Sequence[str]) -> Stage:
    """Every run's fit, which the summary reads, then figures; one of both synthetic runs."""
    specbench, fits, plots = ("-m", "specbench"), [], []
    for name in runs:
        run, lines = options.out / name, options.out / name / "cells.jsonl"
        fit = (*specbench, "fit", str(run), "--format", "json")
        plot = (*specbench, "plot", str(run), "--format", "png")
        fits.append(Command(fit, stdout=options.out / FITS / f"{name}.json", needs=lines))
        plots.append(Command(plot, needs=lines))
    both = [options.out / "synthetic-model", options.out / "synthetic-eagle"]
    together = (*specbench, "plot", *map(str, both), "--format", "png")
    plots.append(
        Command((*together, "--out", str(options.out / "figures")), needs=both[1] / "cells.jsonl")
    )
    commands = (*fits, *plots)
    return Stage("figures", "fits and figures of every run", 30, commands, reserved=True)


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
