"""What the machine did during a cell: memory, and on a GPU its counters; read around decoding.

A cell's record gets three descriptions side by side: what lies in memory, what must move (derived
in :mod:`specbench.records.traffic`), and what the device counted. Where two of them disagree, or
the GPU was held back or not alone, the cell is warned about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np

from specbench.backends.base import Backend
from specbench.engine.request import Generation
from specbench.measure import nvml
from specbench.measure.counters import Counters
from specbench.measure.memory import PeakMemory, capacity_bytes
from specbench.measure.sampler import Sampler
from specbench.measure.watch import UNWATCHED
from specbench.records.schema import CellRecord
from specbench.records.steps import numbers
from specbench.records.traffic import disagreement
from specbench.theory.capacity import Memory

ON_THE_CPU = "the run is on the CPU"
ON_SEVERAL = "the target is spread over several devices"


class CellWatch:
    """Context manager around a cell's generation, told of its stretches of decoding as a Watch is.

    After it :meth:`fields` are the record's.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._spread = len(backend.devices) > 1
        self._uuid = None if self._spread else nvml.uuid_of(backend.device)
        self._memory = PeakMemory(backend.device)
        self._sampler = Sampler(self._uuid) if self._uuid else None
        self._readings: list[nvml.Reading] = []
        self._open = ExitStack()
        self._decoding = False

    def __enter__(self) -> CellWatch:
        self._read()
        if self._sampler is not None:
            self._open.enter_context(self._sampler)
        self._open.enter_context(self._memory)
        self._backend.watch = self
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._backend.watch = UNWATCHED
        self._open.__exit__(exception_type, exception, trace)
        self._read()

    def resume(self) -> None:
        if not self._decoding:
            self._decoding = True
            self._memory.mark_held()  # weights, caches and prompts; what comes now is work
        if self._sampler is not None:
            self._sampler.resume()

    def pause(self) -> None:
        if self._sampler is not None:
            self._sampler.pause()

    def fields(self, record: CellRecord, generation: Generation) -> dict[str, Any]:
        """What is added to a record that has its traffic and cost already."""
        why_not = ON_SEVERAL if self._spread else ON_THE_CPU
        counters = self._sampler.counters if self._sampler else Counters(unavailable=why_not)
        emitted = sum(generation.rounds["num_emitted"])
        energy = counters.energy_j
        return {
            "memory_peak_bytes": None if self._spread else self._memory.peak_bytes,
            "memory_capacity_bytes": self._capacity_bytes,
            "memory": self._in_memory(record, generation),
            "energy_j": energy,
            "energy_per_token_j": energy / emitted if energy is not None and emitted else None,
            "counters": counters.to_dict(),
            "gpu": self._readings[-1].to_dict() if self._readings else None,
            "warnings": [*record.warnings, *self._doubts(record, counters)],
        }

    @property
    def _capacity_bytes(self) -> int:
        """Of all devices together."""
        return sum(map(capacity_bytes, self._backend.devices or [self._backend.device]))

    def _in_memory(self, record: CellRecord, generation: Generation) -> dict[str, Any]:
        """Bytes of what lies in memory, and how many rows as long as this cell's would fit.

        Activations are those of this batch size, None where they can't be told from the rest; those
        of captured steps lie in what graphs keep.
        """
        cost: dict[str, float | None] = (record.model_extra or {}).get("cost") or {}
        lengths = sum(
            numbers(generation.requests, name) for name in ("prompt_tokens", "num_tokens")
        )
        room = Memory(
            capacity_bytes=self._capacity_bytes,
            weight_bytes=cost.get("weight_held_bytes"),
            kv_bytes_per_token=cost.get("kv_bytes_per_token"),
            drafter_weight_bytes=cost.get("drafter_held_bytes"),
            drafter_kv_bytes_per_token=cost.get("drafter_kv_bytes_per_token"),
            context=float(np.mean(lengths)),
        )
        return {
            "weight_bytes": room.weight_bytes,
            "drafter_weight_bytes": room.drafter_weight_bytes,
            "kv_bytes_per_token": room.kv_bytes_per_token,
            "drafter_kv_bytes_per_token": room.drafter_kv_bytes_per_token,
            "activation_bytes": None if self._spread else self._memory.beyond_bytes,
            "graph_bytes": None if self._spread else self._memory.graph_bytes,
            "row_tokens": room.context,
            "rows_without_drafter": room.sequences_without,
            "rows_with_drafter": None if record.is_baseline else room.sequences_with,
        }

    def _doubts(self, record: CellRecord, counters: Counters) -> Iterator[str]:
        """What makes the cell's times worth less, one sentence each."""
        for reason, share in (counters.throttled or {}).items():
            yield f"the GPU was slowed down in {share:.0%} of {counters.looks} looks: {reason}"
        others = {
            process["pid"]
            for reading in self._readings
            for process in reading.foreign_processes or []
        }
        if others:
            named = ", ".join(str(pid) for pid in sorted(others))
            yield f"other processes were on the GPU: {named}"
        moved = (record.traffic or {}).get("total_bytes")
        if moved and counters.seconds and counters.dram_bytes_per_s is not None:
            apart = disagreement(moved / counters.seconds, counters.dram_bytes_per_s)
            if apart is not None:
                yield apart

    def _read(self) -> None:
        if self._uuid is not None:
            self._readings.append(nvml.read(uuid=self._uuid))
