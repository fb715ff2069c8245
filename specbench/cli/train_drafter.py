"""``specbench train-drafter``: train a drafter for a small target on the target's own output.

    specbench train-drafter --kind eagle --out my-eagle --minutes 30
    specbench train-drafter --kind medusa --target ORG/NAME --corpus answers --out my-medusa
    specbench run --drafter eagle:my-eagle

The target answers some thousand prompts first; that corpus is kept and serves every kind. A call
that was interrupted goes on where it was when it is typed again.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_MINUTES = 20.0


def train_drafter(
    kind: Annotated[str, typer.Option(metavar="KIND", help="eagle, eagle3, medusa or model.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the checkpoint; it must not hold one.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH|FILE.gguf",
            help="Model to draft for, as for specbench run. Default: SmolLM2-135M-Instruct.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|NAME",
            help="Go on from a checkpoint of this kind, a folder or a hub name. Default: begin "
            "anew.",
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the target's output; kept, and extended where it is too small. "
            "Default: corpus-TARGET beside --out, with --prompts corpus-TARGET-PROMPTS.",
        ),
    ] = None,
    tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Tokens of output to learn from.")
    ] = 300_000,
    outputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl[.gz]",
            help="Output collected elsewhere: lines with prompt_ids, output_ids, temperature.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Another grammar of prompts than the built-in one."),
    ] = None,
    vocab: Annotated[
        int, typer.Option(min=1, metavar="K", help="Frequent tokens that can be drafted.")
    ] = 4096,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Time to train, without the collecting; parts of an interrupted training are "
            "added up. Default: 20, or no limit where --steps is given.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many steps.")
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option(min=2, metavar="N", help="Longest answer that is collected.")
    ] = 192,
    batch_size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Answers that are collected at once.")
    ] = 48,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of everything.")] = 0,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N.")
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="CPU threads. Default: all.")
    ] = None,
) -> None:
    """Train a drafter (EAGLE, EAGLE-3 or Medusa heads, a draft model) for a target.

    Learns from the target's own answers, measures acceptance on kept-out prompts as it goes, and
    writes a checkpoint that specbench run takes.
    """
    from specbench.cli._training_view import TrainingView, check_line
    from specbench.errors import SpecbenchError
    from specbench.measure.device import check_threads, set_threads
    from specbench.training.loop import Budget
    from specbench.training.order import Order
    from specbench.training.session import KINDS
    from specbench.training.session import train_drafter as train
    from specbench.weights.progress import TerminalProgress

    if kind not in KINDS:
        raise SpecbenchError(f"--kind {kind!r} is unknown", f"Choose {', '.join(sorted(KINDS))}")
    check_threads(threads)
    set_threads(threads)
    if minutes is None and steps is None:
        minutes = DEFAULT_MINUTES
    name = Path(target or "SmolLM2-135M-Instruct").name
    if prompts is not None:  # answers to other prompts are another corpus
        name += f"-{prompts.stem}"
    order = Order(
        kind=kind,
        out=out,
        corpus=corpus or out.parent / f"corpus-{name}",
        target=target,
        start=start,
        tokens=tokens,
        outputs=outputs,
        prompts=prompts,
        vocab=vocab,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        device=device,
        budget=Budget(minutes=minutes, steps=steps, seed=seed),
    )
    with TrainingView() as view:
        progress = train(order, TerminalProgress(), view)
    print(check_line(progress))
    print(f"written to {out}")
    print(f"next: specbench run{_option(target)} --drafter {shlex.quote(f'{kind}:{out}')}")


def _option(target: str | None) -> str:
    return f" --target {shlex.quote(target)}" if target else ""
