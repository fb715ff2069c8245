"""A run folder whose truth is known: chosen acceptance and costs, written as real runs write them.

Every number that the analysis can estimate is an argument here, so a test can say what the answer
must be. The rounds go through the same writer and the same summary as measured ones.

>>> run = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(alpha=0.7, c=0.02)})
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter
from specbench.records.summary import summarize

STEP_S = 0.02
"""T1, the baseline's time per step at batch 1, in seconds."""

_Raw = tuple[dict[str, Any], dict[str, Any]]
_OTHER_SHARE = 0.05  # of a baseline step, outside the forward


@dataclass(frozen=True)
class SimulatedDrafter:
    """What a drafter is like.

    Attributes:
        alpha: chance that an evaluated token is accepted; or a function of (task, temperature).
        c: time of one drafter step, in units of T1.
        d0: drafting time per round that does not grow with gamma, in units of T1.
        draft_chance: share of rounds in which it proposes anything at all.
        spread: standard deviation of alpha between conversations.
        nodes: nodes of a tree of gamma levels without its root; 0 for a chain. Then alpha is the
            chance of a level.
        shortest: drafts are from this many tokens to gamma long, all equally often; None: gamma.
        alphas: chances at depth 1, 2, ..., instead of alpha.
        weight_bytes: read per draft step; see simulate_run's cost.
        prefill: time to first token over that of plain decoding.
    """

    alpha: float | Callable[[str, float], float]
    c: float
    d0: float = 0.0
    draft_chance: float = 1.0
    spread: float = 0.0
    nodes: int = 0
    shortest: int | None = None
    alphas: Sequence[float] = ()
    weight_bytes: int = 0
    prefill: float = 1.0

    def alpha_of(self, task: str, temperature: float) -> float:
        """The mean chance for a task and temperature."""
        return self.alpha(task, temperature) if callable(self.alpha) else self.alpha


def simulate_run(
    folder: Path,
    drafters: Mapping[str, SimulatedDrafter],
    *,
    gammas: Sequence[int] = (1, 2, 4, 8),
    tasks: Sequence[str] = ("code",),
    temperatures: Sequence[float] = (0.0,),
    batch_sizes: Sequence[int] = (1,),
    context_lengths: Sequence[int | None] = (None,),
    prompts: int = 12,
    tokens: int = 64,
    turns: int = 1,
    repeats: int = 1,
    v: float | Callable[[int, int], float] = 1.0,
    overhead: float = 0.0,
    noise: float = 0.02,
    drift: float = 0.0,
    baseline: bool = True,
    failed: Collection[tuple[str, int]] = (),
    lossless: str = "identical",
    target: str = "simulated",
    cost: Mapping[str, float] | None = None,
    machine: Mapping[str, float] | None = None,
    parameters: int | None = None,
    seed: int = 0,
) -> Path:
    """Write a finished run of every drafter x gamma and setting.

    Args:
        v: time of a verifying forward in units of T1, or a function of (gamma, batch size).
        overhead: the round's remaining time in units of T1.
        noise: standard deviation of log time of one step.
        drift: the last baseline of a block is slower than the first by this share.
        turns: requests per conversation.
        failed: (drafter, gamma) pairs that end as failed cells.
        baseline: False leaves out both baselines, so that no speedup exists.
        cost: bytes that a forward moves (weight_bytes, kv_bytes_per_token), if they are recorded.
        machine: bandwidth_bytes_per_s and matmul_flops_per_s as measured.
        parameters: of the target.

    Returns:
        The run's folder.
    """
    world = _World(prompts, tokens, turns, noise, np.random.default_rng(seed))
    manifest = Manifest(
        name=folder.name,
        command="simulated",
        config={"seed": seed},
        config_hash=f"simulated-{seed}",
        seed=seed,
        target={"name": target, "parameters": parameters},
        tasks=[{"name": task, "source": "simulated", "num_prompts": prompts} for task in tasks],
        **(machine or {}),
    )
    with RunWriter.open(folder, manifest, resume=False) as writer:
        for key in _blocks(
            target, tasks, temperatures, batch_sizes, context_lengths, repeats, seed
        ):
            baselines = []
            for place, factor in (("first", 1.0), ("last", 1.0 + drift)) if baseline else ():
                cell = Cell(drafter="none", gamma=0, baseline=place, **key)
                baselines.append(world.baseline(cell.task, cell.batch_size, factor))
                _write(writer, cell, baselines[-1], [], None, cost)
            for (name, drafter), gamma in product(drafters.items(), gammas):
                cell = Cell(drafter=name, gamma=gamma, **key)
                if (name, gamma) in failed:
                    error = "simulated failure"
                    writer.write_cell(CellRecord.of(cell, status="failed", error=error))
                    continue
                verifying = v(gamma, cell.batch_size) if callable(v) else v
                raw = world.speculative(cell, drafter, verifying, overhead)
                verdict = lossless if cell.temperature == 0 else None
                moved = {**cost, "drafter_weight_bytes": drafter.weight_bytes} if cost else None
                _write(writer, cell, raw, baselines, verdict, moved)
        manifest.finished = "simulated"
        writer.write_manifest()
    return folder


def _blocks(
    target: str,
    tasks: Sequence[str],
    temperatures: Sequence[float],
    batch_sizes: Sequence[int],
    context_lengths: Sequence[int | None],
    repeats: int,
    seed: int,
) -> list[dict[str, Any]]:
    return [
        {
            "target": target,
            "task": task,
            "temperature": temperature,
            "batch_size": batch_size,
            "repeat": repeat,
            "seed": seed,
            "context_length": context_length,
        }
        for task, temperature, batch_size, context_length, repeat in product(
            tasks, temperatures, batch_sizes, context_lengths, range(repeats)
        )
    ]


def _write(
    writer: RunWriter,
    cell: Cell,
    raw: _Raw,
    baselines: list[_Raw],
    lossless: str | None,
    cost: Mapping[str, float] | None,
) -> None:
    rounds, requests = raw
    fields = summarize(cell, rounds, requests, baselines=baselines, cost=cost)
    if cost:
        fields["cost"] = dict(cost)
    writer.write_cell(CellRecord.of(cell, **{**fields, "lossless": lossless}), rounds, requests)


class _Draft(NamedTuple):
    """One row's draft and what became of it."""

    nodes: int
    levels: int
    accepted: int
    path: list[int] | None = None


_NO_DRAFT = _Draft(0, 0, 0)


@dataclass
class _World:
    """Draws rounds: rows in lockstep, slots refilled, steps with noisy times."""

    prompts: int
    tokens: int
    turns: int
    noise: float
    rng: np.random.Generator
    deviations: dict[str, Any] = field(default_factory=dict)  # of conversations, for all gammas

    def baseline(self, task: str, batch_size: int, factor: float) -> _Raw:
        forward, other = (1 - _OTHER_SHARE) * factor, _OTHER_SHARE * factor
        return self._decode(task, batch_size, lambda _: _NO_DRAFT, lambda _: (0.0, forward, other))

    def speculative(self, cell: Cell, drafter: SimulatedDrafter, v: float, overhead: float) -> _Raw:
        gamma, alpha = cell.gamma, drafter.alpha_of(cell.task, cell.temperature)
        if cell.task not in self.deviations:
            conversations = -(-self.prompts // self.turns)
            self.deviations[cell.task] = self.rng.normal(size=conversations)
        chances = np.clip(alpha + drafter.spread * self.deviations[cell.task], 0, 1)

        def one_round(request: int) -> _Draft:
            if self.rng.random() >= drafter.draft_chance:
                return _NO_DRAFT
            length = gamma
            if drafter.shortest is not None:
                length = int(self.rng.integers(drafter.shortest, gamma, endpoint=True))
            chance = drafter.alphas[:length] or chances[request // self.turns]
            hits = self.rng.random(length) < chance
            accepted = length if hits.all() else int(np.argmin(hits))
            path = list(range(1, accepted + 1)) if drafter.nodes else None
            return _Draft(drafter.nodes or length, length, accepted, path)

        def one_step(longest: int) -> tuple[float, float, float]:
            draft = drafter.d0 + longest * drafter.c
            return draft, (v if longest else 1.0), overhead

        return self._decode(cell.task, cell.batch_size, one_round, one_step, drafter.prefill)

    def _decode(
        self,
        task: str,
        batch_size: int,
        one_round: Callable[[int], _Draft],
        one_step: Callable[[int], tuple[float, float, float]],
        prefill: float = 1.0,
    ) -> _Raw:
        waiting = list(range(self.prompts))
        produced = np.ones(self.prompts, dtype=int)  # the first token comes from prefill
        num_rounds = np.zeros(self.prompts, dtype=int)
        seconds = np.zeros(self.prompts)
        slots: dict[int, int] = {}
        rounds: dict[str, list[Any]] = defaultdict(list)
        step = 0
        while waiting or slots:
            for slot in range(batch_size):
                if slot not in slots and waiting:
                    slots[slot] = waiting.pop(0)
            drawn = {slot: one_round(request) for slot, request in slots.items()}
            times = STEP_S * np.exp(self.noise * self.rng.normal(size=3))
            times = times * one_step(max(draft.levels for draft in drawn.values()))
            active = len(slots)
            for slot, request in list(slots.items()):
                draft = drawn[slot]
                emitted = min(draft.accepted + 1, self.tokens - int(produced[request]))
                row = {
                    "prompt_id": f"{task}-{request}",
                    "request": request,
                    "slot": slot,
                    "step": step,
                    "round": int(num_rounds[request]),
                    "position": int(produced[request]),
                    "context_length": 100 + int(produced[request]),
                    "num_verified": draft.nodes + 1,
                    "num_drafted": draft.nodes,
                    "draft_levels": draft.levels,
                    "num_evaluated": min(draft.accepted + 1, draft.levels),
                    "num_accepted": draft.accepted,
                    "num_emitted": emitted,
                    "overlap": None,
                    "path": draft.path,
                    "draft_s": float(times[0]),
                    "verify_s": float(times[1]),
                    "other_s": float(times[2]),
                    "active_rows": active,
                    "replayed": False,
                }
                for column, value in row.items():
                    rounds[column].append(value)
                produced[request] += emitted
                num_rounds[request] += 1
                seconds[request] += float(times.sum())
                if produced[request] >= self.tokens:
                    del slots[slot]
            step += 1
        return dict(rounds), self._requests(task, produced, seconds, prefill)

    def _requests(self, task: str, produced: Any, seconds: Any, share: float) -> dict[str, Any]:
        count = self.prompts
        prefill = 0.1 * share
        return {
            "prompt_id": [f"{task}-{request}" for request in range(count)],
            "conversation": [f"{task}-{request // self.turns}" for request in range(count)],
            "task": [task] * count,
            "category": [task] * count,
            "turn": [request % self.turns for request in range(count)],
            "source": ["simulated"] * count,
            "prompt_tokens": [100] * count,
            "output_ids": [list(range(int(number))) for number in produced],
            "num_tokens": [int(number) for number in produced],
            "stop_reason": ["length"] * count,
            "prefill_s": [prefill] * count,
            "drafter_prefill_s": [0.0] * count,
            "ttft_s": [prefill] * count,
            "decode_s": [float(value) for value in seconds],
            "wall_s": [prefill + float(value) for value in seconds],
        }
