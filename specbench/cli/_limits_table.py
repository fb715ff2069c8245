"""The end of ``specbench fit``: how far the run is from limits of hardware and drafting."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from specbench.analysis.shown.formats import MISSING, milliseconds, share, span
from specbench.analysis.shown.names import gamma_label, short_names
from specbench.cli._machine_table import machine_document, machine_sentences, print_machine
from specbench.cli._output import beside_label, number, print_table, wrapped

if TYPE_CHECKING:
    from specbench.analysis.machine.limits import DraftingLimit, Limits, StepLimit, VerifyLimit

_STEPS = ("task", "T", "B", "step ms", "bytes ms", "of step", "operations ms", "of step")
_VERIFY = ("B", "γ", "tokens", "v measured", "lowest–highest", "roofline v")
_DRAFTING = ("drafter", "T", "B", "γ", "verified", "accepted", "reference", "α", "max p")
_LABEL_WIDTH = 16


def print_limits(limits: Limits, detail: bool = False) -> None:
    """Print what is known, then what the run lacks for the rest.

    Args:
        detail: as tables instead of a sentence each, and what no cell recorded of its machine.
    """
    if detail:
        _print_tables(limits)
    lacking = [text for text in limits.lacking if detail or text not in limits.unrecorded]
    for sentence in (*([] if detail else _sentences(limits)), *lacking):
        print(wrapped(f"limits: {sentence}", indent="", hanging="  "))


def _sentences(limits: Limits) -> list[str]:
    """Each limit beside what was measured, from the least to the most."""
    said = []
    if limits.steps:
        times = span([1e3 * step.step_s for step in limits.steps], "{:.3g}")
        moving = span([step.bandwidth_share for step in limits.steps], "{:.0%}")
        computing = span([step.compute_share for step in limits.steps], "{:.0%}")
        parts = [f"a plain decoding step takes {times} ms"]
        if moving != MISSING:
            parts.append(f"its bytes need {moving} of that at the measured peak bandwidth")
        if computing != MISSING:
            parts.append(f"its operations {computing} at the measured matmul rate")
        said.append("; ".join(parts))
    known = [limit for limit in limits.verification if limit.roofline is not None]
    if known:
        measured, roofline = (
            span([getattr(limit, name) for limit in known], "{:.2f}") for name in ("v", "roofline")
        )
        said.append(f"v is measured at {measured}; by the roofline it would be {roofline}")
    if limits.drafting:
        accepted, reference = (
            span([getattr(limit, name) for limit in limits.drafting], "{:.2f}")
            for name in ("accepted", "reference")
        )
        said.append(
            f"above T = 0 rounds accept {accepted} drafted tokens; the target's entropy sets "
            f"{reference} for as many verified ones (a reference, no bound)"
        )
    return [*said, *machine_sentences(limits.uses)]


def _print_tables(limits: Limits) -> None:
    print_machine(limits.uses)
    if limits.steps:
        rows = [row for step in limits.steps for row in _step(step)]
        print_table("limits: a plain decoding step", _STEPS, rows)
    known = [limit for limit in limits.verification if limit.roofline is not None]
    if known:
        print_table("limits: verification (v), over drafters and tasks", _VERIFY, _verify(known))
    if limits.drafting:
        names = short_names(limit.key.drafter for limit in limits.drafting)
        rows = [row for limit in limits.drafting for row in _drafting(limit, names)]
        print_table("limits: drafting above T = 0", _DRAFTING, rows)
    if limits.steps:
        print("bytes ms: weights and K/V at the measured peak bandwidth, no step is faster;")
        print("operations ms: at the measured matmul rate · tokens: of one target forward")
    if limits.drafting:
        print("accepted: drafted tokens per round · reference: what the target's entropy sets")
        print("for as many verified tokens (asymptotic, no bound) · max p: the target's, where")
        print("one-hot chains are evaluated: their α is above it by chance only")


def limits_document(limits: Limits) -> dict[str, Any]:
    """All limits as plain data, for JSON."""
    return {
        "bandwidth_bytes_per_s": limits.machine.bandwidth_bytes_per_s,
        "matmul_flops_per_s": limits.machine.matmul_flops_per_s,
        "steps": [_step_document(step) for step in limits.steps],
        "verification": [
            {
                **limit.key.setting._asdict(),
                "drafter": limit.key.drafter,
                "gamma": limit.gamma,
                "tokens": limit.tokens,
                "verify_s": limit.verify_s,
                "v": limit.v,
                "roofline_v": limit.roofline,
            }
            for limit in limits.verification
        ],
        "drafting": [
            {
                **limit.key.setting._asdict(),
                "drafter": limit.key.drafter,
                "gamma": limit.gamma,
                "verified_tokens": limit.verified,
                "accepted_tokens": limit.accepted,
                "accepted_reference": limit.reference,
                "alpha": limit.alpha,
                "mean_max_p": limit.most_one_hot,
            }
            for limit in limits.drafting
        ],
        "machine": [machine_document(use) for use in limits.uses],
        "lacking": list(limits.lacking),
    }


def _step_document(step: StepLimit) -> dict[str, Any]:
    return {
        **step.setting._asdict(),
        "step_s": step.step_s,
        "bytes": step.forward.bytes,
        "shortest_step_s": step.moving_s,
        "bandwidth_share": step.bandwidth_share,
        "computing_s": step.computing_s,
        "compute_share": step.compute_share,
        "compute_bound_from_tokens": step.compute_bound_from,
    }


def _step(step: StepLimit) -> list[list[str]]:
    row = [
        f"{step.setting.temperature:g}",
        step.setting.load,
        milliseconds(step.step_s),
        milliseconds(step.moving_s),
        share(step.bandwidth_share),
        milliseconds(step.computing_s),
        share(step.compute_share),
    ]
    return beside_label(step.setting.task, [row], _LABEL_WIDTH)


def _verify(limits: Sequence[VerifyLimit]) -> list[list[str]]:
    """A row per batch size, context and gamma, the medians over drafters and tasks."""
    rows = []
    for place in sorted(set(map(_place, limits))):
        here = [limit for limit in limits if _place(limit) == place]
        measured = [limit.v for limit in here if limit.v is not None]
        spread = f"{min(measured):.2f}–{max(measured):.2f}" if measured else "-"
        tokens = median(limit.tokens for limit in here)
        roofline = median(limit.roofline or 0.0 for limit in here)
        rows.append(
            [
                here[0].key.setting.load,
                str(here[0].gamma),
                f"{tokens:.1f}",
                number(median(measured) if measured else None),
                spread,
                number(roofline),
            ]
        )
    return rows


def _place(limit: VerifyLimit) -> tuple[int, int, int]:
    setting = limit.key.setting
    return setting.batch_size, setting.context_length or 0, limit.gamma


def _drafting(limit: DraftingLimit, names: dict[str, str]) -> list[list[str]]:
    setting = limit.key.setting
    row = [
        f"{setting.temperature:g}",
        setting.load,
        gamma_label("chain", limit.gamma),
        f"{limit.verified:.1f}",
        number(limit.accepted),
        number(limit.reference),
        number(limit.alpha),
        number(limit.most_one_hot),
    ]
    return beside_label(f"{names[limit.key.drafter]} {setting.task}", [row], _LABEL_WIDTH)
