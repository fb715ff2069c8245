"""The data frame that figures draw: one row per measured gamma of every group.

==============================  =================================================================
column                          meaning
==============================  =================================================================
run, target, backend            where it was measured
task, temperature, batch_size   the setting, with top_k, top_p and context_length
drafter, gamma, synthetic       what was measured; synthetic drafters calibrate
draft_form                      chain, tree or adaptive: what gamma means
num_cells                       cells behind the row, one per repeat
alpha, alpha_low, alpha_high    of this gamma, with its 95% interval; comparable between chains
speedup, speedup_low,           measured, with its 95% interval
speedup_high
tau, c, v, overhead             of this gamma; times in units of T1
draft_t1, verify_t1, other_t1   mean times of a round's parts, in units of T1
round_low, round_high           95% interval of their sum
step_s                          T1 in seconds
fit_alpha_low, fit_alpha_high   95% interval of fit_alpha
draft_length_mean               tokens drafted per round, or levels of a tree
fit_alpha, fit_c                of the group, pooled over gammas: what the closed form uses
closed_form, extended           predicted speedups; the closed form of chains only
held_out, held_out_low,         speedup predicted from the other gammas, with its 95% prediction
held_out_high,                  interval; the closed form from alpha and c of the others; whether
held_out_closed_form,           gamma lies outside them
extrapolated
gap_TERM                        part of log(measured / closed form), for each TERM of
                                specbench.analysis.rounds.gap.TERMS
noise_floor                     difference of the block's baselines, 0.02 for 2%
lossless                        the verdict, None above temperature 0
==============================  =================================================================

Missing numbers are NaN.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
from specbench.analysis.others.published import PAPER, load_published
from specbench.analysis.rounds.gap import TERMS
from specbench.analysis.shown.documents import two_columns

_POINT = (
    "gamma",
    "num_cells",
    "alpha",
    "tau",
    "draft_length_mean",
    "c",
    "v",
    "overhead",
    "draft_t1",
    "verify_t1",
    "other_t1",
    "speedup",
    "closed_form",
    "extended",
)
_GAPS = tuple(f"gap_{name}" for name in TERMS)
_HELD_OUT = ("held_out", "held_out_low", "held_out_high", "held_out_closed_form")
_NUMBERS = (
    *_POINT[2:],
    "context_length",
    "fit_alpha_low",
    "fit_alpha_high",
    "round_low",
    "round_high",
    "step_s",
    "alpha_low",
    "alpha_high",
    "speedup_low",
    "speedup_high",
    "fit_alpha",
    "fit_c",
    "noise_floor",
    *_GAPS,
    *_HELD_OUT,
)


def points_frame(run: RunFit, name: str | None = None) -> pd.DataFrame:
    """The measured points of a fitted run; columns in the module's docstring.

    Args:
        name: what to call the run, if its own name won't do.
    """
    rows = [
        _row(run, name or run.name, group, point) for group in run.groups for point in group.points
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, "float64"))


def published_frame() -> pd.DataFrame:
    """Published measurements with an alpha: columns source, alpha, gamma, c and speedup.

    Spec-Bench's leaderboard tells no alpha, so it is not here.
    """
    rows = load_published().measured
    return pd.DataFrame(
        [
            {
                "source": f"{PAPER} ({row.target.upper()})",
                "alpha": row.alpha,
                "gamma": row.gamma,
                "c": row.c,
                "speedup": row.measured_speedup,
            }
            for row in rows
        ]
    )


def _row(run: RunFit, name: str, group: GroupFit, point: GammaFit) -> dict[str, Any]:
    alpha, speedup = point.alpha_ci or (None, None), point.speedup_ci or (None, None)
    cell = group.prediction.at(point.gamma) if group.prediction else None
    held_out = (cell.ci if cell else None) or (None, None)
    return {
        "run": name,
        **group.key.setting._asdict(),
        "target": run.shown_target,
        "drafter": group.key.drafter,
        "draft_form": group.draft_form,
        "synthetic": group.synthetic,
        **{name: getattr(point, name) for name in _POINT},
        "step_s": group.step_s,
        **two_columns("fit_alpha", group.alpha_ci),
        **two_columns("round", point.round_ci),
        "alpha_low": alpha[0],
        "alpha_high": alpha[1],
        "speedup_low": speedup[0],
        "speedup_high": speedup[1],
        "fit_alpha": group.alpha,
        "fit_c": group.c,
        "noise_floor": point.noise_floor,
        "lossless": point.lossless,
        **{f"gap_{name}": point.gap.terms[name] if point.gap else None for name in TERMS},
        "held_out": cell.speedup if cell else None,
        "held_out_low": held_out[0],
        "held_out_high": held_out[1],
        "held_out_closed_form": cell.closed_form if cell else None,
        "extrapolated": cell is not None and cell.extrapolated,
    }
