"""Turns rounds into columns: one row per prompt and round, one per request.

Clock marks and overlaps are read late and many at once: on a GPU reading what has not been computed
yet would wait. Times are those of rounds before the last one; overlaps wait for the cell's end.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from specbench.engine.request import Generation, Request
from specbench.engine.round import Round
from specbench.measure.clock import Clock
from specbench.models.rows import Row, Rows

ROUND_COLUMNS = (
    "prompt_id", "request", "slot", "step", "round", "position", "context_length",
    "num_verified", "num_drafted", "draft_levels", "num_evaluated", "num_accepted",
    "num_emitted", "overlap", "path", "draft_s", "verify_s", "other_s", "sampling_s",
    "active_rows", "replayed",
)  # fmt: skip

MOST_UNRESOLVED = 256
"""Rounds whose marks are kept before their times are read."""


class Recorder:
    """Collects one cell."""

    def __init__(self, requests: list[Request], clock: Clock) -> None:
        self.clock = clock
        self.requests = requests
        self._rounds: dict[str, list[Any]] = {column: [] for column in ROUND_COLUMNS}
        self._steps: list[tuple[Any, ...]] = []  # seconds of each, of the last ones still marks
        self._resolved = 0
        self._overlaps: list[Tensor | None] = []  # on the device until the cell has ended
        self._rounds_of: dict[int, int] = {}
        self._begun: dict[int, dict[str, Any]] = {}
        self._ended: dict[int, dict[str, Any]] = {}

    def begin(self, request: int, prefill_s: float, first_s: float, drafter_s: float) -> None:
        """A request got its first token, after its prefill and the drafter's own."""
        self._rounds_of[request] = 0
        self._begun[request] = {
            "prefill_s": prefill_s,
            "drafter_prefill_s": drafter_s,
            "ttft_s": prefill_s + first_s + drafter_s,
        }

    def add(
        self, rows: Rows, owners: list[int | None], result: Round, emitted: list[int], end: Any
    ) -> None:
        """A round ended.

        Args:
            rows: after the commit.
            owners: [B] the request in each slot, None where the slot was empty.
            result: the round.
            emitted: [B] tokens committed after cuts.
            end: the clock's mark after the commit.
        """
        self._overlaps.append(result.measure_overlap())
        active = sum(owner is not None for owner in owners)
        for slot, owner in enumerate(owners):
            if owner is None:
                continue
            evaluated = result.num_evaluated[slot]
            row = rows[slot]
            self._append(
                prompt_id=row.prompt_id,
                request=owner,
                slot=slot,
                step=len(self._steps),
                round=self._rounds_of[owner],
                position=len(row.output) - emitted[slot],
                context_length=len(row.tokens) - emitted[slot],
                num_verified=result.num_verified,
                num_drafted=result.num_drafted[slot],
                draft_levels=result.draft_levels[slot],
                num_evaluated=evaluated,
                num_accepted=result.num_accepted[slot],
                num_emitted=emitted[slot],
                path=None if result.path is None else result.path[slot],
                active_rows=active,
                replayed=result.replayed,
            )
            self._rounds_of[owner] += 1
        if len(self._steps) - self._resolved >= MOST_UNRESOLVED:
            self._resolve()  # no mark is of this round, so nothing waits
        self._steps.append((*result.marks, end))

    def end(self, request: int, row: Row, stop_reason: str) -> None:
        """A request is complete."""
        self._ended[request] = {
            "prompt_tokens": len(row.prompt),
            "output_ids": list(row.output),
            "num_tokens": len(row.output),
            "stop_reason": stop_reason,
        }

    def generation(self) -> Generation:
        """All columns, seconds resolved."""
        self._resolve()
        seconds = [
            {"draft_s": draft, "verify_s": verify, "other_s": chosen + rest, "sampling_s": chosen}
            for draft, verify, chosen, rest in self._steps
        ]
        decode_s = dict.fromkeys(range(len(self.requests)), 0.0)
        for owner, step in zip(self._rounds["request"], self._rounds["step"], strict=True):
            self._append(**seconds[step])
            decode_s[owner] += sum(self._steps[step])
        self._rounds["overlap"] = self._read_overlaps()
        requests: dict[str, list[Any]] = {}
        for index, request in enumerate(self.requests):
            fields = {
                "prompt_id": request.prompt_id,
                "conversation": request.conversation,
                **request.labels,
                **self._begun[index],
                **self._ended[index],
                "decode_s": decode_s[index],
                "wall_s": self._begun[index]["ttft_s"] + decode_s[index],
            }
            for column, value in fields.items():
                requests.setdefault(column, []).append(value)
        return Generation(self._rounds, requests)

    def _resolve(self) -> None:
        self._steps[self._resolved :] = self.clock.spans(self._steps[self._resolved :])
        self._resolved = len(self._steps)

    def _read_overlaps(self) -> list[list[float] | None]:
        """Per line the overlaps of its evaluated positions."""
        steps = [None if overlap is None else overlap.tolist() for overlap in self._overlaps]
        lines = (self._rounds[column] for column in ("step", "slot", "num_evaluated"))
        return [
            None if (rows := steps[step]) is None else rows[slot][:evaluated]
            for step, slot, evaluated in zip(*lines, strict=True)
        ]

    def _append(self, **fields: Any) -> None:
        for column, value in fields.items():
            self._rounds[column].append(value)
