"""``specbench run``: measure a sweep, show progress, print a table per task.

    specbench run
    specbench run --target Qwen/Qwen3-0.6B --drafter ngram --gamma 1,2,4,8 --batch-size 1,4
    specbench run --config sweep.toml --gamma 2 --dry-run

Values are read as text and checked in one place (``specbench.sweep.config``), so that an option, a
comma-separated list and a key of a sweep file are answered alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbench.cli._sweep_options import (
    Attention,
    ChatTemplateArgs,
    Device,
    DrafterQuantization,
    Dtype,
    IgnoreEos,
    MaxNewTokens,
    Prompts,
    PromptSource,
    Seed,
    TargetQuantization,
    Tasks,
    Temperatures,
    Threads,
    TopK,
    TopP,
)

if TYPE_CHECKING:
    from specbench.sweep.config import SweepConfig


def run(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH|FILE.gguf|shape:NAME",
            help="Model to measure: a Hugging Face name, a folder, a GGUF file, or an architecture "
            "with random weights (specbench models). "
            "Default: SmolLM2-135M-Instruct, fetched once and cached.",
        ),
    ] = None,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="kind[:argument][,key=value]..., e.g. ngram,max=3 or model:NAME; repeat for "
            "several; see specbench drafters. Default: ngram, and for the default target also "
            "the shipped model, medusa and eagle.",
        ),
    ] = None,
    target_quantization: TargetQuantization = None,
    drafter_quantization: DrafterQuantization = None,
    gamma: Annotated[
        list[str] | None, typer.Option(metavar="N,N", help="Draft lengths. Default: 1,2,4.")
    ] = None,
    temperature: Temperatures = None,
    top_k: TopK = None,
    top_p: TopP = None,
    batch_size: Annotated[
        list[str] | None, typer.Option(metavar="N,N", help="Prompts decoded at once. Default: 1.")
    ] = None,
    context_length: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N,N",
            help="Bring prompts to so many tokens with earlier text of their task. "
            "Default: as they are.",
        ),
    ] = None,
    request_rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="R,R",
            help="Requests per second that arrive at a server (Poisson), in place of --batch-size "
            "requests in flight.",
        ),
    ] = None,
    task: Tasks = None,
    prompts: Prompts = None,
    max_new_tokens: MaxNewTokens = None,
    repeats: Annotated[
        str | None, typer.Option(metavar="N", help="Measure everything N times. Default: 1.")
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|openai:URL",
            help="native, hf-assisted, vllm, or a running server; repeat for several. "
            "Default: native.",
        ),
    ] = None,
    engine_python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Python of the environment that vLLM is installed in, for --backend vllm.",
        ),
    ] = None,
    engine_args: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="More arguments for every server that is started, in one text."
        ),
    ] = None,
    goodput: Annotated[
        str | None,
        typer.Option(
            metavar="ttft:MS,tpot:MS,e2el:MS",
            help="Count the requests that a server answers within these limits, in milliseconds: "
            "to the first token, per token after it, to the last.",
        ),
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    threads: Threads = None,
    cuda_graph: Annotated[
        bool | None,
        typer.Option(
            "--cuda-graph/--no-cuda-graph",
            help="On a GPU, capture each step once and replay it. Default: on.",
        ),
    ] = None,
    compile: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Compile the steps of target and draft model first. Default: off.",
        ),
    ] = None,
    seed: Seed = None,
    ignore_eos: IgnoreEos = None,
    share_prefix: Annotated[
        bool | None,
        typer.Option(
            "--share-prefix",
            help="Read once what all prompts of a task begin with, as a server's prefix cache "
            "does. Default: every prompt is read as a whole.",
        ),
    ] = None,
    prompt_source: PromptSource = None,
    chat_template_arg: ChatTemplateArgs = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder to write. Default: results/TARGET-HASH, the same for the same sweep. "
            "A folder that holds another sweep is refused.",
        ),
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume",
            help="Continue an interrupted run; the same sweep in its folder is continued anyway.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool | None,
        typer.Option("--retry-failed", help="When continuing, measure failed cells again."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="SWEEP.toml",
            help="Read options from a file, by the same names; options given here win.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and an estimate; measure nothing.")
    ] = False,
) -> None:
    """Measure speculative decoding: acceptance, time, memory and speedup, each with an interval.

    Every drafter runs with every gamma, temperature, batch size and task, between two runs of
    plain decoding by the same engine. Without options it measures a small built-in model on four
    tasks. Finished cells are written at once: stop it when you like and type the command again.
    """
    options = {name: value for name, value in locals().items() if name not in _NOT_SWEEP_OPTIONS}

    from specbench.sweep.config import build

    sweep = build(options, config)
    if dry_run:
        _print_plan(sweep)
    else:
        _measure(sweep)


_NOT_SWEEP_OPTIONS = {"config", "dry_run"}


def _print_plan(sweep: SweepConfig) -> None:
    """Print the cells and, for a target that is on this machine, how long they may take."""
    from specbench.analysis.shown.names import printable
    from specbench.backends.base import make_backend
    from specbench.cli._plan_text import estimate_lines, plan_lines
    from specbench.measure.bandwidth import copy_bandwidth
    from specbench.measure.device import set_threads
    from specbench.sweep.grid import plan
    from specbench.sweep.told import with_told
    from specbench.weights.placement import Placement

    engines = {text: make_backend(text) for text in sweep.backends}
    sweep = with_told(sweep, engines)
    cells = plan(sweep, engines=engines)
    print("\n".join(map(printable, plan_lines(cells, sweep))))
    if not all(engine.in_process for engine in engines.values()):
        print("no estimate of the time: a server's speed is not known before it is measured")
        return
    if sweep.target_quantization is not None:
        print("no estimate of the time: quantised weights are made when the target is loaded")
        return
    weight_bytes = _weight_bytes_here(sweep.target, sweep.dtype)
    if weight_bytes is None:
        print("no estimate of the time: the target is not on this machine yet")
        return
    set_threads(sweep.threads)
    rate = copy_bandwidth(Placement.of(sweep.device).first)
    print("\n".join(estimate_lines(cells, sweep, weight_bytes, rate)))


def _weight_bytes_here(target: str | None, dtype: str = "auto") -> int | None:
    """Bytes of a target's weights if they are on this machine; nothing is fetched."""
    from specbench.weights.catalog import cached_models
    from specbench.weights.shapes import is_shape
    from specbench.weights.source import DEFAULT_NAME, weight_files

    if target is not None and is_shape(target):
        from specbench.weights.loading import shape_bytes

        return shape_bytes(target, dtype)
    name = target or DEFAULT_NAME
    path = Path(name).expanduser()
    folders = [path, *(model.folder for model in cached_models() if model.name == name)]
    files = [path] if path.is_file() else next(filter(None, map(weight_files, folders)), [])
    return sum(file.stat().st_size for file in files) or None


def _measure(sweep: SweepConfig) -> None:
    from specbench.analysis.shown.names import printable
    from specbench.cli._result_table import next_commands, result_lines, warning_lines
    from specbench.cli.console import reporter_for_terminal
    from specbench.records.store import load_run
    from specbench.sweep.runner import run as run_sweep

    with reporter_for_terminal() as report:
        folder = run_sweep(sweep, report)
    made = load_run(folder)
    lines = [
        *result_lines(made.cells),
        *warning_lines(made.manifest.warnings),
        "",
        *next_commands(folder),
    ]
    print("\n".join(map(printable, lines)))
