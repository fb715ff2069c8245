"""Runs whose truth is known, and what claims answer on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.analysis.claims import Answer, Evidence, check_claims
from specbench.analysis.fit import fit_run
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

COST = {"weight_bytes": 1e9, "kv_bytes_per_token": 1e4}


def answers(folder: Path) -> dict[str, Answer]:
    run = load_run(folder)
    return {one.claim.name: one.answer for one in check_claims(run, fit_run(run))}


def answer(
    name: str, folder: Path, drafters: Mapping[str, SimulatedDrafter], **options: Any
) -> Answer:
    return answers(simulate_run(folder / "run", drafters, **options))[name]


def by_temperature(cold: float, hot: float) -> dict[str, SimulatedDrafter]:
    return {"ngram": SimulatedDrafter(lambda _, t: hot if t else cold, 0.02)}


def by_task(c: float = 0.02, **alphas: float) -> dict[str, SimulatedDrafter]:
    return {"ngram": SimulatedDrafter(lambda task, _: alphas[task], c)}


def comparison(margin: float, half: float) -> Evidence:
    return Evidence("", "", (), margin, (margin - half, margin + half))
