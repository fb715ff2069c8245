"""The answer of ``specbench optimal-gamma --alpha A --cost C``: curve, sensitivity, largest c.

Nothing heavier than ``math`` is imported, so that it is there at once.
"""

from __future__ import annotations

from typing import Any

from specbench.analysis.shown.names import counted
from specbench.cli._output import OutputFormat, print_csv, print_json, wrapped
from specbench.theory import closed_form
from specbench.theory.closed_form import CurvePoint, Shift

_NEAR_BEST = 0.05  # how much worse than the best still counts as near it, in the sentence


def answer_numbers(alpha: float, cost: float, max_gamma: int, format: OutputFormat) -> None:
    """Print the closed form's answer.

    Raises:
        SpecbenchError: a number is out of range.
    """
    curve = closed_form.curve(alpha, cost, max_gamma)
    best = closed_form.best(curve)
    shifts = closed_form.sensitivity(alpha, cost, best.gamma, max_gamma)
    if format == OutputFormat.JSON:
        print_json(_document(alpha, cost, curve, best, shifts))
    elif format == OutputFormat.CSV:
        print_csv([_point(point) for point in curve])
    else:
        _print_table(alpha, cost, curve, best, shifts)


def _document(
    alpha: float, cost: float, curve: list[CurvePoint], best: CurvePoint, shifts: list[Shift]
) -> dict[str, Any]:
    kept = closed_form.largest_paying_cost(alpha, best.gamma) if best.gamma else None
    return {
        "alpha": alpha,
        "cost": cost,
        "best": {"gamma": best.gamma, "speedup": best.speedup},
        "curve": [_point(point) for point in curve],
        "sensitivity": [
            {
                "alpha": shift.alpha,
                "best": {"gamma": shift.best.gamma, "speedup": shift.best.speedup},
                "speedup_at_chosen_gamma": shift.kept.speedup,
            }
            for shift in shifts
        ],
        "largest_paying_cost": closed_form.largest_paying_cost(alpha),
        "largest_paying_cost_at_chosen_gamma": kept,
    }


def _point(point: CurvePoint) -> dict[str, Any]:
    return {
        "gamma": point.gamma,
        "tokens_per_round": point.tokens_per_round,
        "speedup": point.speedup,
    }


def _print_table(
    alpha: float, cost: float, curve: list[CurvePoint], best: CurvePoint, shifts: list[Shift]
) -> None:
    print("  γ   tokens per round   speedup")
    for point in curve:
        mark = "  <- best" if point.gamma == best.gamma else ""
        print(f"{point.gamma:>3}   {point.tokens_per_round:>16.3f}   {point.speedup:>7.3f}{mark}")
    print()
    print("If α is another:")
    for shift in shifts:
        known = best.gamma in (0, shift.best.gamma)
        kept = "" if known else f"; γ = {best.gamma} gives {shift.kept.speedup:.2f}"
        print(f"  α = {shift.alpha:.3g}: {_what(shift.best)}{kept}")
    print(_largest_cost(alpha, best))
    print()
    print(_wrapped(_sentence(curve, best, alpha, cost)))


def _wrapped(text: str) -> str:
    """Lines of at most 80 columns; "γ = 4" stays together."""
    return wrapped(text.replace(" = ", "\xa0=\xa0"), "", "").replace("\xa0", " ")


def _what(point: CurvePoint) -> str:
    if not point.gamma:
        return "do not speculate"
    return f"best γ = {point.gamma} gives {point.speedup:.2f}"


def _largest_cost(alpha: float, best: CurvePoint) -> str:
    if alpha == 0.0:
        return "No draft pays at this α, whatever it costs."
    text = f"Some draft pays up to c = {closed_form.largest_paying_cost(alpha):.3g}"
    if best.gamma > 1:
        text += f", γ = {best.gamma} up to {closed_form.largest_paying_cost(alpha, best.gamma):.3g}"
    return f"{text}."


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
