"""``specbench report``: a run as one HTML file, the answer first.

specbench report results/main
specbench report results/main --out main.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specbench.errors import SpecbenchError


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, or its name in results/.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Where to write. Default: report.html in RUN."),
    ] = None,
) -> None:
    """Write a report of a run: one HTML file that needs nothing else.

    It opens with the answer in two sentences, what to do and how sure that is, and with what speaks
    against the numbers. Then follows the evidence: figures, every drafter's acceptance, costs and
    speedup with intervals, predictions beside measurements, limits, what the literature says,
    published numbers, every cell, the method, hardware and versions.

    The file has its figures and its style in it, no script, and loads nothing, so it can be sent as
    it is. A run without an answer has a report too, which says why. Prints the path of the file.
    """
    if out is not None and (out.is_dir() or not out.name):
        raise SpecbenchError(f"--out {str(out)!r} is a folder", "Give the name of a file")

    from specbench.records.files import disk_errors, write_durably
    from specbench.records.store import load_run
    from specbench.report.document import build

    loaded = load_run(run)
    file = out if out is not None else loaded.path / "report.html"
    html = build(loaded)
    with disk_errors(f"the report to {file}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, html.encode())
    print(file)
