"""Data frames of figures that need more than a row per gamma: positions, and target forwards.

``positions``: run, the setting's columns, drafter, draft_form, synthetic; position (from 1), alpha
with alpha_low and alpha_high, evaluated (rounds), iid_alpha (one for all positions), model and
model_alpha: what the chosen model says. Chains only.

``forwards``: run, the setting's columns; drafter ("none" for plain decoding), gamma and synthetic,
tokens of all rows in one target forward, forward_s (mean of a cell), weight_bytes, kv_bytes,
parameters, expert_bytes, num_experts and active_experts, attention_flops per token,
bandwidth_bytes_per_s, matmul_flops_per_s; roofline_s, what a verifying forward would take if v were
the roofline's. One row per finished cell that was timed and can be used.

Missing numbers are NaN.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from specbench.analysis.fitted import RunFit
from specbench.analysis.machine.limits import StepLimit, limits_of
from specbench.analysis.pooling import Setting
from specbench.records.reading import Run
from specbench.records.schema import CellRecord
from specbench.theory.limits import Machine

_POSITION_NUMBERS = (
    *("alpha", "alpha_low", "alpha_high", "iid_alpha", "model_alpha"),
    "context_length",
)
_NEEDS = (
    *("weight_bytes", "kv_bytes", "parameters", "attention_flops"),
    *("expert_bytes", "num_experts", "active_experts"),
)
_FORWARD_NUMBERS = (
    "context_length",
    "tokens",
    "forward_s",
    *_NEEDS,
    "bandwidth_bytes_per_s",
    "matmul_flops_per_s",
    "roofline_s",
)
_KEYS = ("run", *Setting._fields, "drafter")


def positions_frame(fitted: RunFit, name: str | None = None) -> pd.DataFrame:
    """Acceptance by position of every chain of a fitted run.

    Args:
        name: what to call the run, if its own name won't do.
    """
    rows: list[dict[str, Any]] = []
    for group in fitted.groups:
        found = group.acceptance
        for place, position in enumerate(found.positions if found else (), start=1):
            assert found is not None
            low, high = position.alpha_ci or (None, None)
            rows.append(
                {
                    "run": name or fitted.name,
                    **group.key.setting._asdict(),
                    "target": fitted.shown_target,
                    "drafter": group.key.drafter,
                    "draft_form": group.draft_form,
                    "synthetic": group.synthetic,
                    "position": place,
                    "alpha": position.alpha,
                    "alpha_low": low,
                    "alpha_high": high,
                    "evaluated": position.evaluated,
                    "iid_alpha": found.alpha,
                    "model": found.model.name,
                    "model_alpha": found.model.alpha_at(place),
                }
            )
    return _frame(rows, (*_KEYS, "position"), _POSITION_NUMBERS)


def forwards_frame(run: Run, fitted: RunFit, name: str | None = None) -> pd.DataFrame:
    """The target forwards of every timed cell of a run, with what the roofline needs.

    Args:
        name: what to call the run, if its own name won't do.
    """
    limits = limits_of(run, fitted)
    steps = {step.setting: step for step in limits.steps}
    rows = [
        {
            "run": name or fitted.name,
            **Setting.of(cell)._asdict(),
            "target": fitted.shown_target,
            "drafter": cell.drafter,
            "gamma": cell.gamma,
            "synthetic": cell.synthetic,
            "tokens": cell.batch_size * (1.0 + (cell.num_drafted or 0) / cell.num_rounds),
            "forward_s": cell.verify_s,
            **_needs(steps.get(Setting.of(cell))),
            "bandwidth_bytes_per_s": limits.machine.bandwidth_bytes_per_s,
            "matmul_flops_per_s": limits.machine.matmul_flops_per_s,
            "roofline_s": _roofline_s(cell, steps.get(Setting.of(cell)), limits.machine),
        }
        for cell in run.cells
        if cell.num_rounds and _is_timed(cell) and cell.cell_id not in fitted.unusable
    ]
    return _frame(rows, (*_KEYS, "gamma"), _FORWARD_NUMBERS)


def _is_timed(cell: CellRecord) -> bool:
    return cell.status == "ok" and cell.verify_s is not None


def _needs(step: StepLimit | None) -> dict[str, float | None]:
    if step is None:
        return dict.fromkeys(_NEEDS)
    forward = step.forward
    return {
        "weight_bytes": forward.weight_bytes,
        "kv_bytes": forward.kv_bytes,
        "parameters": forward.parameters,
        "expert_bytes": forward.experts.num_bytes,
        "num_experts": forward.experts.count,
        "active_experts": forward.experts.active,
        "attention_flops": forward.attention_flops,
    }


def _roofline_s(cell: CellRecord, step: StepLimit | None, machine: Machine) -> float | None:
    """T1 times the roofline's v, of verification only."""
    if step is None or cell.is_baseline or not cell.num_rounds:
        return None
    verified = 1.0 + (cell.num_drafted or 0) / cell.num_rounds
    v = machine.v(step.forward, cell.batch_size, verified)
    return None if v is None else v * step.step_s


def _frame(
    rows: list[dict[str, Any]], keys: tuple[str, ...], figures: tuple[str, ...]
) -> pd.DataFrame:
    if not rows:
        return pd.DataFrame(columns=list(dict.fromkeys([*keys, *figures])))
    return pd.DataFrame(rows).astype(dict.fromkeys(figures, "float64"))
