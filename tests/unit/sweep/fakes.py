"""A backend without a model: every duration, acceptance and failure is scripted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specbench.backends.base import Backend, Divergence, EngineOptions, TieMeasure
from specbench.engine.request import Generation, Limits, Request
from specbench.records.schema import Cell
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter
from specbench.sweep.runner import run
from specbench.weights.progress import Progress
from tests.tiny_target import write_prompts

BASELINE_STEP_S = 1.0
DRAFT_STEP_S = 0.125
VERIFY_S = 1.25
OTHER_S = 0.125
PREFILL_S = 0.5


class FakeTokenizer:
    """One token per character."""

    chat_template = None
    bos_token_id = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(chr(token) for token in ids)


class FakeBackend(Backend):
    """Plain steps take 1 s; a round takes gamma / 8 + 1.375 s and accepts everything.

    Attributes:
        calls: the names of the methods called, with the cell's for ``generate``.
        on_generate, on_begin: called first with the cell, or the block's cells; may raise.
        output: the tokens of a cell and request, which the tests may spoil.
        baseline_speeds: seconds per step of the baseline "first" and "last".
        tie: what the measurement of a near-tie gives.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.generated: list[Cell] = []
        self.on_generate: Callable[[Cell], None] = lambda cell: None
        self.on_begin: Callable[[Sequence[Cell]], None] = lambda cells: None
        self.output: Callable[[Cell, Request, int], list[int]] = greedy_output
        self.baseline_step_s = {"first": BASELINE_STEP_S, "last": BASELINE_STEP_S}
        self.tie: Callable[[Cell, Divergence], TieMeasure | None] = lambda cell, where: None
        self.sha256 = "0" * 64
        self.drafter_weights: dict[str, dict[str, Any]] = {}
        self.context_limit = 1000
        self.recorded: list[list[str]] = []

    def load(self, options: EngineOptions, progress: Progress) -> None:
        self.calls.append("load")
        self.device = "cpu"
        self.tokenizer = FakeTokenizer()
        self.stop_tokens = frozenset({0})
        self.notices: list[str] = []
        self.target_facts = {"name": "fake", "sha256": self.sha256, "dtype": "float32"}

    def check(self, cells: Sequence[Cell]) -> None:
        self.calls.append("check")
        self.drafter_facts = self.drafter_weights

    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        self.calls.append("begin_block")
        self.on_begin(cells)

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        self.calls.append(f"generate {cell.cell_id}")
        self.on_generate(cell)
        self.generated.append(cell)
        rounds: dict[str, list[Any]] = {}
        asked: dict[str, list[Any]] = {}
        step = 0
        for index, request in enumerate(requests):
            output = self.output(cell, request, limits.max_new_tokens)
            done, number, decode_s = 1, 0, 0.0
            while done < len(output):
                row = self._round(cell, len(output) - done)
                row |= {"prompt_id": request.prompt_id, "request": index, "slot": 0, "step": step}
                row |= {"round": number, "position": done, "active_rows": 1, "replayed": False}
                row |= {"context_length": len(request.token_ids) + done}
                append(rounds, row)
                done += row["num_emitted"]
                decode_s += row["draft_s"] + row["verify_s"] + row["other_s"]
                number, step = number + 1, step + 1
            times = {"prefill_s": PREFILL_S, "drafter_prefill_s": 0.0, "ttft_s": PREFILL_S}
            times |= {"decode_s": decode_s, "wall_s": PREFILL_S + decode_s}
            answer = {"prompt_tokens": len(request.token_ids), "output_ids": output}
            answer |= {"num_tokens": len(output), "stop_reason": "length"}
            keys = {"prompt_id": request.prompt_id, "conversation": request.conversation}
            append(asked, {**keys, **request.labels, **answer, **times})
        return Generation(rounds, asked)

    def _round(self, cell: Cell, left: int) -> dict[str, Any]:
        if cell.baseline is not None:
            step_s = self.baseline_step_s[cell.baseline]
            counts = {"num_drafted": 0, "num_evaluated": 0, "num_accepted": 0, "num_emitted": 1}
            times = {"draft_s": 0.0, "verify_s": step_s - OTHER_S, "other_s": OTHER_S}
        else:
            counts = dict.fromkeys(("num_drafted", "num_evaluated", "num_accepted"), cell.gamma)
            counts["num_emitted"] = min(cell.gamma + 1, left)
            times = {"draft_s": cell.gamma * DRAFT_STEP_S, "verify_s": VERIFY_S, "other_s": OTHER_S}
        width = {"num_verified": counts["num_drafted"] + 1, "draft_levels": counts["num_drafted"]}
        return {**counts, **times, **width, "overlap": None, "path": None}

    def end_block(self) -> None:
        self.calls.append("end_block")

    def greedy_outputs(self, requests: Sequence[Request], limits: Limits) -> list[list[int]]:
        self.recorded.append([request.prompt_id for request in requests])
        plain = Cell(target="fake", drafter="none", gamma=0, temperature=0, batch_size=1, task="x")
        return [self.output(plain, request, limits.max_new_tokens) for request in requests]

    def cost(self, cell: Cell) -> dict[str, float | None]:
        return {"weight_bytes": 1000, "kv_bytes_per_token": 10, "drafter_weight_bytes": 100}

    def draft_sampling(self, cell: Cell) -> str | None:
        return None if cell.is_baseline else "one-hot"

    def measure_tie(self, cell: Cell, divergence: Divergence) -> TieMeasure | None:
        return self.tie(cell, divergence)

    def close(self) -> None:
        self.calls.append("close")


class Sweep:
    """A small sweep on the fake backend, which is a new one at each start as in real life."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.backend = FakeBackend()
        prompts = write_prompts(folder / "mine.jsonl")
        defaults: dict[str, Any] = {"tasks": [str(prompts)], "prompts": 6, "drafters": ["ngram"]}
        defaults |= {"gammas": [1, 3], "temperatures": [0.0], "max_new_tokens": 9, "threads": 1}
        self.config = SweepConfig(**{**defaults, "out": folder / "run", **options})
        self.report = SilentReporter()

    def run(self) -> Path:
        return run(self.config, self.report)


def greedy_output(cell: Cell, request: Request, length: int) -> list[int]:
    """Letters that depend on the prompt, and above temperature 0 on the cell."""
    start = sum(request.token_ids) + (sum(cell.cell_id.encode()) if cell.temperature else 0)
    return [ord("a") + (start + index) % 26 for index in range(length)]


def append(columns: dict[str, list[Any]], row: dict[str, Any]) -> None:
    for name, value in row.items():
        columns.setdefault(name, []).append(value)
