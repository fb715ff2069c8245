"""``specbench fit``: what a run says about each drafter, and how well theory predicts it.

specbench fit results/main
specbench fit results/main --detail
specbench fit results/main --format csv > fit.csv
specbench fit results/main --convention vllm
specbench fit results/main --claims
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbench.cli._output import FORMAT_METAVAR, OutputFormat, print_csv, print_json, print_notes
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.analysis.fitted import RunFit
    from specbench.records.reading import Run


def fit(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, or its name in results/.")
    ],
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
    claims: Annotated[
        bool,
        typer.Option("--claims", help="Hold what the literature says against the run, instead."),
    ] = False,
    detail: Annotated[
        bool,
        typer.Option("--detail", help="Print every gamma and all tables; all of each claim."),
    ] = False,
) -> None:
    """Fit alpha, c, v and the overhead of a run, and set theory beside the measured speedups.

    alpha (α) is the maximum-likelihood estimate over all gammas: accepted / evaluated tokens. c is
    the time of one drafter step, v that of a verifying forward, o the round's remaining time, all
    in units of T1, the baseline's time per step. Intervals are 95% and cluster by conversation (c
    and speedup at batch sizes above 1: by time block).

    Whether one α describes acceptance is tested against an α per position, with a p-value that
    holds where rounds of one conversation are alike (from 6 conversations on). Where one α is
    rejected, the model that predicts best a γ left out takes over, and a sentence says which.

    A line per drafter and setting tells its fastest gamma; --detail has a line per gamma, and what
    is told in sentences as tables. JSON and CSV hold all of it.

    The closed form knows alpha and c only. The extended model also knows v, o, how many tokens were
    really drafted and, where one α is rejected, how acceptance goes with depth; what it leaves over
    is tokens cut at the end of an output, and noise.

    From three gammas on, each is also predicted from the others, by straight lines through the
    times of rounds (a fixed cost and one per token, for draft and verify) and by the acceptance
    model, with an interval for the measurement. The closed form's gap to the measured speedup is
    taken apart into terms that add up on the log scale.

    Trees and gamma=auto have no single alpha, so no closed form. The acceptance at
    each depth is shown, and the tokens that it would give: of a tree 1 + α1 + α1 α2 + ..., as if no
    accepted path ended before the last level. Their extended model takes the drafts as they were,
    whatever their lengths and wherever paths ended.

    The limits tell how much is left: a plain decoding step beside the time that its bytes and its
    operations need on this machine, v beside its roofline, and above temperature 0 accepted tokens
    beside what the target's entropy sets, where a run recorded it.

    --claims answers each claim with held, not held, not decided (the interval of the difference
    holds 0) or not measured, with the figures it rests on.

    Every run, imported ones too, is checked against identities that honest numbers obey; what
    breaks one is noted with both sides.
    """
    chosen = OutputFormat.of(format)
    if convention is not None and claims:
        raise SpecbenchError("--convention and --claims are two answers", "Ask for one of them")
    if convention is not None and detail:
        raise SpecbenchError("--convention shows all that it has", "Leave --detail out")
    if convention is not None:
        _report(run, convention, chosen)
        return

    from specbench.analysis.fit import fit_run
    from specbench.analysis.machine.limits import limits_of
    from specbench.analysis.shown.documents import fit_document, fit_rows
    from specbench.cli._fit_table import print_fit
    from specbench.cli._limits_table import limits_document, print_limits
    from specbench.records.store import load_run

    loaded = load_run(run)
    fitted = fit_run(loaded)
    if claims:
        _check_claims(loaded, fitted, chosen, detail)
    elif chosen == OutputFormat.JSON:
        limits = limits_document(limits_of(loaded, fitted))
        print_json({**fit_document(fitted), "limits": limits})
    elif chosen == OutputFormat.CSV:
        print_csv(fit_rows(fitted))
    else:
        print_fit(fitted, detail)
        print()
        print_limits(limits_of(loaded, fitted), detail)
    print_notes(fitted.warnings)


def _check_claims(run: Run, fitted: RunFit, chosen: OutputFormat, detail: bool) -> None:
    from specbench.analysis.claims import check_claims
    from specbench.cli._claims_list import print_claims

    print_claims(fitted.name, check_claims(run, fitted), chosen, detail)


def _report(run: Path, convention: str, chosen: OutputFormat) -> None:
    from specbench.analysis.others import conventions
    from specbench.cli._convention_table import print_convention
    from specbench.records.store import load_run

    name = conventions.checked(convention)
    loaded = load_run(run)
    rows, notes = conventions.report_run(loaded, name)
    print_convention(loaded.manifest.name, name, rows, chosen)
    print_notes(notes)
