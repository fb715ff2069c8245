"""``specbench alpha``: alpha of many drafters from one pass over a text, no decoding loop.

    specbench alpha --drafter model --drafter eagle --task code --prompts 24 --max-new-tokens 64
    specbench alpha results/main --drafter eagle:my-eagle
    specbench alpha results/main --format json

Values are read as text and checked in one place (``specbench.sweep.config``), as those of ``run``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli._output import FORMAT_METAVAR, OutputFormat, print_csv, print_json, print_notes
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
from specbench.errors import SpecbenchError

DEFAULT_GAMMAS = "1,2,4,8"


def alpha(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run whose plain decoding is the text: its folder, or its name in results/.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH|FILE.gguf",
            help="Model whose text it is, as for specbench run. Default: SmolLM2-135M-Instruct.",
        ),
    ] = None,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="As for specbench run, chains only; repeat for several. Default: those of "
            "specbench run.",
        ),
    ] = None,
    target_quantization: TargetQuantization = None,
    drafter_quantization: DrafterQuantization = None,
    gamma: Annotated[
        list[str] | None,
        typer.Option(metavar="N,N", help=f"Draft lengths to replay. Default: {DEFAULT_GAMMAS}."),
    ] = None,
    temperature: Temperatures = None,
    top_k: TopK = None,
    top_p: TopP = None,
    task: Tasks = None,
    prompts: Prompts = None,
    max_new_tokens: MaxNewTokens = None,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    threads: Threads = None,
    seed: Seed = None,
    ignore_eos: IgnoreEos = None,
    prompt_source: PromptSource = None,
    chat_template_arg: ChatTemplateArgs = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder of text and traces. Default: results/TARGET-alpha-HASH, the same for the "
            "same text.",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the answer.")
    ] = "table",
) -> None:
    """Tell alpha and tau of many drafters from one pass over the target's own text.

    The target decodes plainly, or has done so in RUN; then every drafter says what it would have
    drafted at each position of that text, all at once (Leviathan et al. 2023 estimate alpha so).
    Rounds of every gamma are replayed on these traces, since a loop does not evaluate every
    position: at temperature 0 they are the loop's own, above it its expectation. Nothing is timed.

    Chains only: trees, gamma=auto and synthetic drafters have no trace. With a RUN, its
    configuration decides everything but drafters, gammas, device and threads; a RUN without
    --drafter shows the traces that it has.
    """
    options = {name: value for name, value in locals().items() if name not in ("run", "format")}
    given = {name: value for name, value in options.items() if value is not None}
    chosen = OutputFormat.of(format)
    if run is None or drafter is not None:
        folder = _trace(run, given)
    elif given:
        name = next(iter(given)).replace("_", "-")
        raise SpecbenchError(
            f"--{name} with RUN {run!r} needs a drafter to trace", "Name one with --drafter SPEC"
        )
    else:
        folder = Path(run)

    from specbench.analysis.acceptance.replayed import Traces
    from specbench.analysis.acceptance.tracing import trace_document, trace_rows, traces_of
    from specbench.analysis.pooling import RawTables
    from specbench.cli._alpha_table import print_traces
    from specbench.records.store import load_run

    loaded = load_run(folder)
    traces = traces_of(loaded)
    if chosen == OutputFormat.JSON:
        print_json(trace_document(loaded, traces))
    elif chosen == OutputFormat.CSV:
        print_csv(trace_rows(traces))
    else:
        print_traces(traces)
    print_notes(Traces.of(loaded, RawTables(loaded)).check())


_WITH_RUN = {"drafter", "gamma", "device", "threads"}


def _trace(run: str | None, given: dict[str, object]) -> Path:
    """Trace what is asked for; returns the run's folder."""
    decided = sorted(given.keys() - _WITH_RUN)
    if run is not None and decided:
        name = decided[0].replace("_", "-")
        raise SpecbenchError(
            f"--{name} is decided by the run {run!r}", "Leave it out, or leave out the RUN"
        )

    from specbench.cli.console import reporter_for_terminal
    from specbench.sweep.config import build
    from specbench.sweep.tracing import trace

    config = build({"gamma": [DEFAULT_GAMMAS], **given})
    with reporter_for_terminal() as report:
        return trace(config, report, None if run is None else Path(run))
