"""``specbench import``: results of other tools as a run, to be fitted, plotted and compared.

specbench import plain.json speculative.json --drafter eagle --out results/vllm
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from specbench.analysis.shown.names import counted
from specbench.cli._output import print_notes, printable
from specbench.errors import SpecbenchError


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Result files; plain and speculative together."),
    ],
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="vllm-bench, sglang, spec-bench or llama-cpp. Default: what the files hold.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run's folder. Default: results/ and a file's name."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="The target, where a file doesn't name it.")
    ] = None,
    drafter: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The drafter of speculative results.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="What was generated.")] = None,
    gamma: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens per draft, where a file doesn't tell.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Where a file doesn't tell it; else 0.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="B", help="Requests at a time, where a file doesn't tell.")
    ] = None,
) -> None:
    """Read results of other tools into a run.

    What they lack stays null. vllm-bench: JSON of `vllm bench serve` and `vllm bench sweep`.
    sglang: JSONL of SGLang's bench_speculative. spec-bench: answer files of Spec-Bench. llama-cpp:
    JSON of llama.cpp's speed-bench. Give the file of plain decoding together with those of
    speculative decoding, and the run has speedups: plain results are told by what they hold.

    The run is read by fit, plot, optimal-gamma and compare like one's own. Most of these files
    hold sums and means, no rounds: then there are no intervals, c, v or overhead.
    """
    from specbench.records import importing
    from specbench.records.importing.cells import Given
    from specbench.records.importing.folder import write
    from specbench.records.importing.notes import told
    from specbench.records.importing.pairing import add_speedups, unpaired
    from specbench.theory.closed_form import LONGEST_GAMMA

    if gamma is not None and not 1 <= gamma <= LONGEST_GAMMA:
        raise SpecbenchError(
            f"--gamma {gamma} is out of range", f"Give a whole number from 1 to {LONGEST_GAMMA}"
        )
    if batch_size is not None and batch_size < 1:
        raise SpecbenchError(f"--batch-size {batch_size} is out of range", "Give 1 or more")
    if temperature is not None and not 0.0 <= temperature < math.inf:
        raise SpecbenchError(f"--temperature {temperature:g} is out of range", "Give 0 or more")
    given = Given(target, drafter, task, gamma, temperature, batch_size)
    name, sources, cells = importing.read(files, format, given)
    add_speedups(cells)
    folder = out if out is not None else Path("results") / files[-1].stem
    notes = [*told(note for cell in cells for note in cell.notes), *unpaired(cells)]
    targets = dict.fromkeys(cell.key["target"] for cell in cells)
    if len(targets) > 1:
        notes.append(f"the files are of several targets: {', '.join(targets)}")
    if all(not cell.is_baseline for cell in cells):
        notes.append("no result of plain decoding, so there is no speedup: import it together")
    records = write(folder, name, sources, cells, given, notes)
    plain = sum(record.is_baseline for record in records)
    said = (
        f"{counted(len(records), 'cell')} from {name} written to {folder}: "
        f"{plain} of plain decoding, {len(records) - plain} speculative"
    )
    print(printable(said))
    print_notes(notes)
