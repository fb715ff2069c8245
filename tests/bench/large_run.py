"""How long the commands take that read a run, and how much memory, on a run of a million rounds.

The run is simulated, with known acceptance and costs, and written by the project's own writer: two
settings (temperature 0 and 1, the latter with overlaps) of two baselines and two drafters at six
gammas, 28 cells. Then `fit`, `optimal-gamma` and `plot` read it, each in a process of its own.

    python -m tests.bench.large_run --rounds 36000
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter
from specbench.records.summary import summarize

GAMMAS = (1, 2, 3, 4, 6, 8)
DRAFTERS = {"model:draft": (0.75, 0.08), "eagle:head": (0.6, 0.03)}  # alpha, c
COMMANDS = ("fit", "optimal-gamma", "plot")
LONGEST_S = 10.0
MOST_BYTES = 2**30

STEP_S = 0.02
PREFILL_S = 0.1

Raw = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class World:
    """Draws the tables of cells at batch size 1, all rounds at once."""

    rng: np.random.Generator
    prompts: int
    rounds: int  # of each prompt

    def raw(self, cell: Cell, alpha: float, c: float, context: np.ndarray) -> Raw:
        """Rounds and requests of one cell.

        Args:
            context: [prompts] how much slower a prompt is in all.
        """
        shape = (self.prompts, self.rounds)
        hits = self.rng.random((*shape, cell.gamma)) < alpha
        accepted = np.cumprod(hits, axis=2).sum(axis=2)
        noise = self.rng.lognormal(0.0, 0.1, (3, *shape)) * STEP_S * context[:, None]
        verify = 1.0 + 0.04 * cell.gamma if cell.gamma else 0.95
        costs = np.array([0.02 * (cell.gamma > 0) + c * cell.gamma, verify, 0.05])
        draft_s, verify_s, other_s = costs[:, None, None] * noise
        emitted = accepted + 1
        position = 1 + np.cumsum(emitted, axis=1) - emitted
        owner = np.repeat(np.arange(self.prompts), self.rounds)
        ids = np.array([f"{cell.task}-{prompt}" for prompt in range(self.prompts)])
        rounds = {
            "prompt_id": ids[owner],
            "request": owner,
            "slot": np.zeros_like(owner),
            "step": np.arange(owner.size),
            "round": np.tile(np.arange(self.rounds), self.prompts),
            "position": position,
            "context_length": 100 + position,
            "num_verified": np.full(owner.size, cell.gamma + 1),
            "num_drafted": np.full(owner.size, cell.gamma),
            "draft_levels": np.full(owner.size, cell.gamma),
            "num_evaluated": np.minimum(emitted, cell.gamma),
            "num_accepted": accepted,
            "num_emitted": emitted,
            "overlap": self._overlap(cell, np.minimum(emitted, cell.gamma), alpha),
            "path": [None] * owner.size,
            "draft_s": draft_s,
            "verify_s": verify_s,
            "other_s": other_s,
            "active_rows": np.ones_like(owner),
            "replayed": np.zeros(owner.size, dtype=bool),
        }
        rounds = {
            name: column.ravel() if isinstance(column, np.ndarray) else column
            for name, column in rounds.items()
        }
        seconds = (draft_s + verify_s + other_s).sum(axis=1)
        return rounds, self._requests(cell, ids, 1 + emitted.sum(axis=1), seconds)

    def _overlap(self, cell: Cell, evaluated: np.ndarray, alpha: float) -> list[Any]:
        """A value per evaluated position, where acceptance was sampled."""
        if cell.temperature == 0.0 or not cell.gamma:
            return [None] * evaluated.size
        values = self.rng.beta(8 * alpha, 8 * (1 - alpha), int(evaluated.sum()))
        return np.split(values, np.cumsum(evaluated)[:-1])

    def _requests(
        self, cell: Cell, ids: np.ndarray, tokens: np.ndarray, seconds: np.ndarray
    ) -> dict[str, Any]:
        same = np.ones(self.prompts)
        return {
            "prompt_id": ids,
            "conversation": ids,
            "task": [cell.task] * self.prompts,
            "category": [cell.task] * self.prompts,
            "turn": np.zeros(self.prompts, dtype=int),
            "source": ["simulated"] * self.prompts,
            "prompt_tokens": np.full(self.prompts, 100),
            "output_ids": [np.arange(count) for count in tokens],
            "num_tokens": tokens,
            "stop_reason": ["length"] * self.prompts,
            "prefill_s": PREFILL_S * same,
            "drafter_prefill_s": 0.0 * same,
            "ttft_s": PREFILL_S * same,
            "decode_s": seconds,
            "wall_s": PREFILL_S + seconds,
        }


def write_run(folder: Path, prompts: int, rounds: int, seed: int) -> int:
    """Write the run; returns how many rounds it has."""
    world = World(np.random.default_rng(seed), prompts, -(-rounds // prompts))
    manifest = Manifest(
        name=folder.name, command="simulated", config={"seed": seed}, config_hash=f"large-{seed}",
        seed=seed, target={"name": "simulated"}, tasks=[{"name": "code", "num_prompts": prompts}],
    )  # fmt: skip
    written = 0
    with RunWriter.open(folder, manifest) as writer:
        for temperature in (0.0, 1.0):
            context = world.rng.lognormal(0.0, 0.1, prompts)
            key = {
                "target": "simulated", "temperature": temperature, "batch_size": 1,
                "task": "code", "seed": seed,
            }  # fmt: skip
            plain = []
            for place in ("first", "last"):
                cell = Cell(drafter="none", gamma=0, baseline=place, **key)
                plain.append(world.raw(cell, 0.0, 0.0, context))
                written += _write(writer, cell, plain[-1], [])
            for drafter, (alpha, c) in DRAFTERS.items():
                for gamma in GAMMAS:
                    cell = Cell(drafter=drafter, gamma=gamma, **key)
                    written += _write(writer, cell, world.raw(cell, alpha, c, context), plain)
        writer.write_manifest()
    return written


def _write(writer: RunWriter, cell: Cell, raw: Raw, plain: Sequence[Raw]) -> int:
    fields = summarize(cell, *raw, baselines=plain)
    lossless = "identical" if cell.temperature == 0.0 else None
    writer.write_cell(CellRecord.of(cell, **fields, lossless=lossless), *raw)
    return len(raw[0]["step"])


def measured(command: str, folder: Path) -> tuple[float, float, int]:
    """Seconds, processor seconds and peak bytes of one command over the run."""
    words = [sys.executable, "-m", "specbench", command, str(folder)]
    start = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    elapsed = time.perf_counter() - start
    if process.returncode:
        raise typer.Exit(process.returncode)
    unit = 1 if sys.platform == "darwin" else 1024
    return elapsed, used.ru_utime + used.ru_stime, unit * used.ru_maxrss


def main(
    rounds: Annotated[int, typer.Option(help="Of each of 28 cells.")] = 36_000,
    prompts: Annotated[int, typer.Option(help="Of each cell.")] = 24,
    seed: Annotated[int, typer.Option()] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep the run here.")] = None,
) -> None:
    """Print a line per command; exit 1 if one took longer or more than it may."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = (out or Path(temporary)) / "large"
        if not folder.exists():
            print(f"{write_run(folder, prompts, rounds, seed):,} rounds in {folder}", flush=True)
        held = True
        for command in COMMANDS:
            seconds, busy, peak = measured(command, folder)
            print(
                f"{command}: {seconds:.1f} s ({busy:.1f} s of a processor), {peak / 2**20:.0f} MiB",
                flush=True,
            )
            held &= seconds <= LONGEST_S and peak <= MOST_BYTES
    raise typer.Exit(not held)


if __name__ == "__main__":
    typer.run(main)
