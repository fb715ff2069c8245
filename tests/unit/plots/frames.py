"""Frames of measured points with a known shape, without a run behind them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from specbench import registry
from specbench.analysis.rounds.gap import TERMS
from specbench.records.schema import Cell
from specbench.theory import closed_form


def draw(name: str, frame: pd.DataFrame) -> Figure:
    """A figure, by its name."""
    figure = registry.load("plots", name).draw(frame)
    assert isinstance(figure, Figure)
    return figure


def draft_form(drafter: str) -> str:
    """As records say it."""
    cell = Cell(target="m", drafter=drafter, gamma=1, temperature=0, batch_size=1, task="x")
    return cell.draft_form


def points(
    drafters: tuple[str, ...] = ("ngram",),
    tasks: tuple[str, ...] = ("code",),
    temperatures: tuple[float, ...] = (0.0,),
    batch_sizes: tuple[int, ...] = (1,),
    gammas: tuple[int, ...] = (4,),
) -> pd.DataFrame:
    """One row per combination, alpha and cost depending on it, noise from a fixed seed."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for drafter, task, temperature, batch, gamma in product(
        drafters, tasks, temperatures, batch_sizes, gammas
    ):
        place = drafters.index(drafter)
        group_alpha = 0.75 - 0.12 * tasks.index(task) - 0.08 * temperature - 0.07 * place
        c = (0.01, 0.22, 0.12)[place % 3]
        v = 1 + 0.04 * gamma * (1 + 0.3 * np.log2(batch))
        alpha = float(np.clip(group_alpha + 0.02 * rng.normal(), 0.02, 0.98))
        tau = closed_form.expected_tokens(alpha, gamma)
        extended = closed_form.extended_speedup(tau, gamma, c, v, 0.03)
        speedup = extended * (1 + 0.03 * rng.normal())
        closed = closed_form.speedup(group_alpha, gamma, c)
        chain = draft_form(drafter) == "chain"
        gaps = [-0.02, 0.0, -0.01, -0.04 * gamma, -0.02, -0.01]
        gaps.append(float(np.log(speedup / closed)) - sum(gaps))
        rows.append(
            {
                "run": "main",
                "target": "HuggingFaceTB/SmolLM2-135M-Instruct",
                "backend": "native",
                "top_k": 0,
                "top_p": 1.0,
                "context_length": float("nan"),
                "request_rate": 0.0,
                "task": task,
                "drafter": drafter,
                "temperature": temperature,
                "batch_size": batch,
                "gamma": gamma,
                "draft_form": draft_form(drafter),
                "num_cells": 1,
                "synthetic": drafter.startswith("synthetic"),
                "alpha": alpha,
                "alpha_low": alpha - 0.05,
                "alpha_high": alpha + 0.05,
                "tau": tau,
                "c": c,
                "v": v,
                "overhead": 0.03,
                "draft_t1": gamma * c,
                "verify_t1": v,
                "other_t1": 0.03,
                "speedup": speedup,
                "speedup_low": speedup - 0.12,
                "speedup_high": speedup + 0.12,
                "closed_form": closed if chain else float("nan"),
                "extended": extended,
                "fit_alpha": group_alpha,
                "fit_c": c,
                "noise_floor": 0.03,
                **{
                    f"gap_{term}": gap if chain else float("nan")
                    for term, gap in zip(TERMS, gaps, strict=True)
                },
                "held_out": extended if chain and len(gammas) > 2 else float("nan"),
                "held_out_low": extended * 0.85,
                "held_out_high": extended * 1.2,
                "held_out_closed_form": closed if chain else float("nan"),
                "extrapolated": gamma in (min(gammas), max(gammas)),
            }
        )
    return pd.DataFrame(rows)
