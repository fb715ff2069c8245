"""``specbench optimal-gamma``: which draft length to use, from a run or from two numbers.

With ``--alpha`` and ``--cost`` nothing heavier than ``math`` is imported, so the answer is there at
once (options arrive as text because typer's own conversion is what takes long); with a run the
records are read and the extended model answers, evidence beside it.

    specbench optimal-gamma --alpha 0.8 --cost 0.02
    specbench optimal-gamma results/main --format json
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specbench.analysis.names import counted
from specbench.cli._output import FORMAT_METAVAR, OutputFormat, print_csv, print_json, print_notes
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.theory.closed_form import CurvePoint

_NEAR_BEST = 0.05  # how much worse than the best still counts as near it, in the sentence


def optimal_gamma(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run's folder, or its name in results/.")
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(metavar="A", help="Chance that an evaluated token is accepted, 0 to 1."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(metavar="C", help="c: time of a drafter step / time of a target step."),
    ] = None,
    max_gamma: Annotated[
        str, typer.Option(metavar="N", help="The longest draft to consider.")
    ] = "16",
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the answer.")
    ] = "table",
) -> None:
    """Say which draft length gamma to use; 0 means "do not speculate".

    From --alpha and --cost: the closed form (Leviathan et al. 2023) for every gamma, and its best.

    From a RUN, for each task, temperature and batch size: every drafter's gammas up to the largest
    measured one are scored by the extended model (measured alpha, draft lengths, draft, verify and
    other time per round; between measured gammas they are interpolated). A (drafter, gamma) may be
    recommended only if its measured speedup's 95% interval lies above 1, and the speedup above the
    noise floor of the block's two baselines; a gamma that was not measured borrows the weaker
    evidence of its two measured neighbours. The best modelled speedup among those wins; if there is
    none, the answer is "do not speculate", or "undecided" where too few prompts gave no interval.

    Trees and gamma=auto have no single alpha: they answer at measured gammas only (a tree's levels,
    the longest draft).

    Gammas beyond the largest measured one appear in JSON and CSV, marked as extrapolated by the
    closed form, and are never recommended; neither are synthetic drafters (they calibrate the
    instrument) nor cells whose output DIVERGED from plain decoding.
    """
    chosen, longest = OutputFormat.of(format), _longest(max_gamma)
    if run is not None and (alpha is not None or cost is not None):
        raise SpecbenchError(
            "give a RUN or --alpha and --cost, not both", "A RUN brings its own alpha and cost"
        )
    if run is not None:
        _from_run(run, longest, chosen)
    elif alpha is not None and cost is not None:
        _from_numbers(_number("--alpha", alpha), _number("--cost", cost), longest, chosen)
    else:
        missing = "--cost" if cost is None else "--alpha"
        if alpha is None and cost is None:
            missing = "RUN"
        raise SpecbenchError(
            f"{missing} is missing",
            "Give a RUN, or --alpha and --cost: specbench optimal-gamma --alpha 0.8 --cost 0.02",
        )


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecbenchError(f"{option} {text!r} is not a number", "For example: 0.8") from None


def _longest(text: str) -> int:
    try:
        longest = int(text)
    except ValueError:
        longest = 0
    if longest < 1:
        raise SpecbenchError(f"--max-gamma {text!r} is out of range", "Give a whole number from 1")
    return longest


def _from_numbers(alpha: float, cost: float, max_gamma: int, format: OutputFormat) -> None:
    from specbench.theory import closed_form

    curve = closed_form.curve(alpha, cost, max_gamma)
    best = closed_form.best(curve)
    rows = [
        {"gamma": p.gamma, "tokens_per_round": p.tokens_per_round, "speedup": p.speedup}
        for p in curve
    ]
    if format == OutputFormat.JSON:
        print_json(
            {
                "alpha": alpha,
                "cost": cost,
                "best": {"gamma": best.gamma, "speedup": best.speedup},
                "curve": rows,
            }
        )
    elif format == OutputFormat.CSV:
        print_csv(rows)
    else:
        print("  γ   tokens per round   speedup")
        for point in curve:
            mark = "  <- best" if point.gamma == best.gamma else ""
            print(
                f"{point.gamma:>3}   {point.tokens_per_round:>16.3f}   {point.speedup:>7.3f}{mark}"
            )
        print()
        print(_sentence(curve, best, alpha, cost))


def _sentence(curve: list[CurvePoint], best: CurvePoint, alpha: float, cost: float) -> str:
    given = f"at α = {alpha:g} and c = {cost:g}"
    last = curve[-1].gamma
    if best.gamma == 0:
        return (
            f"Do not speculate: {given} no draft of up to "
            f"{counted(last, 'token')} is faster than without."
        )
    near = [p.gamma for p in curve if p.gamma and p.speedup >= best.speedup * (1 - _NEAR_BEST)]
    span = f"γ = {near[0]}" if len(near) == 1 else f"γ = {near[0]} to {near[-1]}"
    answer = (
        f"Use γ = {best.gamma}: {best.speedup:.2f} times as fast {given}, by the closed form "
        f"({span} within {_NEAR_BEST:.0%} of it)."
    )
    if best.gamma == last:
        answer += " The longest draft considered wins: try a larger --max-gamma."
    return answer


def _from_run(run: str, max_gamma: int, format: OutputFormat) -> None:
    from specbench.analysis.documents import optimal_document, optimal_rows
    from specbench.analysis.fit import fit_run
    from specbench.analysis.optimal import recommend
    from specbench.cli._optimal_table import print_answer
    from specbench.records.store import load_run

    answer = recommend(fit_run(load_run(run)), max_gamma)
    if format == OutputFormat.JSON:
        print_json(optimal_document(answer))
    elif format == OutputFormat.CSV:
        print_csv(optimal_rows(answer))
    else:
        print_answer(answer)
    print_notes(answer.notes)
