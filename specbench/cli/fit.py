"""``specbench fit``: what a run says about each drafter, and how well theory predicts it.

specbench fit results/main
specbench fit results/main --format csv > fit.csv
specbench fit results/main --convention vllm
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli._output import FORMAT_METAVAR, OutputFormat, print_csv, print_json, print_notes


def fit(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name in results/.")],
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the fit.")
    ] = "table",
    convention: Annotated[
        str | None,
        typer.Option(
            metavar="TOOL",
            help="Report as vllm, sglang, spec-bench, gpt-fast, leviathan or nvidia does, instead.",
        ),
    ] = None,
) -> None:
    """Fit alpha, c, v and the overhead of a run, and set theory beside the measured speedups.

    alpha (α) is the maximum-likelihood estimate over all gammas: accepted / evaluated tokens. c is
    the time of one drafter step, v that of a verifying forward, o the round's remaining time, all
    in units of T1, the baseline's time per step. Intervals are 95% and cluster by conversation (c
    and speedup at batch sizes above 1: by time block).

    Whether one α describes acceptance is tested against an α per position, with a p-value that
    holds where rounds of one conversation are alike (from 6 conversations on). Where one α is
    rejected, the model that predicts best a γ left out takes over, and a sentence says which.

    The closed form knows alpha and c only. The extended model also knows v, o, how many tokens were
    really drafted and, where one α is rejected, how acceptance goes with depth; what it leaves over
    is tokens cut at the end of an output, and noise.

    Trees and gamma=auto have no single alpha, so no closed form. The acceptance at
    each depth is shown, and the tokens that it would give: of a tree 1 + α1 + α1 α2 + ..., as if no
    accepted path ended before the last level. Their extended model takes the drafts as they were,
    whatever their lengths and wherever paths ended.

    Every run, imported ones too, is checked against identities that honest numbers obey; what
    breaks one is noted with both sides.
    """
    chosen = OutputFormat.of(format)
    if convention is not None:
        _report(run, convention, chosen)
        return

    from specbench.analysis.documents import fit_document, fit_rows
    from specbench.analysis.fit import fit_run
    from specbench.cli._fit_table import print_fit
    from specbench.records.store import load_run

    fitted = fit_run(load_run(run))
    if chosen == OutputFormat.JSON:
        print_json(fit_document(fitted))
    elif chosen == OutputFormat.CSV:
        print_csv(fit_rows(fitted))
    else:
        print_fit(fitted)
    print_notes(fitted.warnings)


def _report(run: Path, convention: str, chosen: OutputFormat) -> None:
    from specbench.analysis import conventions
    from specbench.cli._convention_table import print_convention
    from specbench.records.store import load_run

    name = conventions.checked(convention)
    loaded = load_run(run)
    print_convention(loaded.manifest.name, name, conventions.report_run(loaded, name), chosen)
