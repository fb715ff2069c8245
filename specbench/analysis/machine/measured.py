"""What a run measured of its machine, and what its cells made of it.

Shares of bandwidth are of the faster of copying and reading as measured at the start of the run, so
that none can be above 1 by the choice of the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from specbench.records.schema import CellRecord, Manifest
from specbench.theory.limits import Forward, Machine
from specbench.theory.traffic import Experts


@dataclass(frozen=True)
class MachineUse:
    """What one drafter at one gamma, or plain decoding, made of the machine: medians over cells.

    Attributes:
        temperature, batch_size, drafter, gamma: where; tasks and repeats are taken together.
        moved: share of the peak bandwidth that bytes which must move need.
        counted: share of it that the GPU's own counter saw.
        compute: share of the matmul rate that the target's operations need.
        memory_bytes: peak.
        rows_without, rows_with: that fit into memory without the drafter and beside it.
        energy_per_token_j: of the whole card, per emitted token.
        timing_share: of a step, what timing it takes at most.
        uncounted: why the GPU's counters are missing in all of the cells, where they say so.
    """

    temperature: float
    batch_size: int
    drafter: str
    gamma: int
    moved: float | None
    counted: float | None
    compute: float | None
    memory_bytes: float | None
    rows_without: float | None
    rows_with: float | None
    energy_per_token_j: float | None
    timing_share: float | None
    uncounted: str | None = None


def machine_of(manifest: Manifest) -> Machine:
    """What was measured of the machine; of copying and reading the faster, as no step is faster."""
    rates = (manifest.bandwidth_bytes_per_s, manifest.read_bandwidth_bytes_per_s)
    known = [rate for rate in rates if rate is not None]
    return Machine(max(known, default=None), manifest.matmul_flops_per_s)


def forward_of(
    cells: Sequence[CellRecord], weights: float, moved: float, parameters: int
) -> Forward:
    """What the plain forwards of some cells of one setting need.

    Args:
        weights: bytes of all weights that a forward may read.
        moved: bytes of a forward, mean.
        parameters: multiplied with a token, where the record has no better count.
    """
    rows = cells[0].batch_size
    experts = Experts(
        cost_of(cells, "expert_bytes") or 0.0,
        int(cost_of(cells, "num_experts") or 0),
        int(cost_of(cells, "active_experts") or 0),
    )
    common = weights - experts.num_bytes
    cached = max(moved - common - float(experts.read(rows)), 0.0)
    per_token = cost_of(cells, "kv_bytes_per_token")
    context = cached / (per_token * rows) if per_token else 0.0
    return Forward(
        weight_bytes=common,
        kv_bytes=cached,
        parameters=cost_of(cells, "multiplied_weights") or float(parameters),
        experts=experts,
        attention_flops=context * (cost_of(cells, "attention_flops_per_pair") or 0.0),
    )


def machine_uses(cells: Iterable[CellRecord], machine: Machine) -> tuple[MachineUse, ...]:
    """One per temperature, batch size, drafter and gamma of cells that recorded their bytes."""
    places: dict[tuple[float, int, str, int], list[CellRecord]] = {}
    for cell in cells:
        if cell.status == "ok" and cell.bandwidth_bytes_per_s is not None:
            key = (cell.temperature, cell.batch_size, cell.drafter, cell.gamma)
            places.setdefault(key, []).append(cell)
    order = sorted(places, key=lambda key: (*key[:2], not places[key][0].is_baseline, *key[2:]))
    return tuple(_use(key, places[key], machine) for key in order)


def cost_of(cells: Sequence[CellRecord], *names: str) -> float | None:
    """The first of these names that one of the cells recorded of its models."""
    costs = [(cell.model_extra or {}).get("cost") or {} for cell in cells]
    values = [cost.get(name) for name in names for cost in costs]
    return next((float(value) for value in values if value is not None), None)


def _use(
    key: tuple[float, int, str, int], cells: Sequence[CellRecord], machine: Machine
) -> MachineUse:
    peak = machine.bandwidth_bytes_per_s
    counted = _middle(cells, lambda cell: (cell.counters or {}).get("dram_bytes_per_s"))
    moved = _middle(cells, lambda cell: cell.bandwidth_bytes_per_s)
    return MachineUse(
        *key,
        moved=_share(moved, peak),
        counted=_share(counted, peak),
        compute=_middle(cells, lambda cell: cell.compute_utilization),
        memory_bytes=_middle(cells, lambda cell: cell.memory_peak_bytes),
        rows_without=_middle(cells, lambda cell: (cell.memory or {}).get("rows_without_drafter")),
        rows_with=_middle(cells, lambda cell: (cell.memory or {}).get("rows_with_drafter")),
        energy_per_token_j=_middle(cells, lambda cell: cell.energy_per_token_j),
        timing_share=_middle(cells, lambda cell: cell.timing_share),
        uncounted=_reason(cells),
    )


def _middle(
    cells: Sequence[CellRecord], field: Callable[[CellRecord], float | None]
) -> float | None:
    known = [value for cell in cells if (value := field(cell)) is not None]
    return float(median(known)) if known else None


def _reason(cells: Sequence[CellRecord]) -> str | None:
    reasons = {(cell.counters or {}).get("unavailable") for cell in cells}
    return reasons.pop() if len(reasons) == 1 else None


def _share(rate: float | None, peak: float | None) -> float | None:
    return rate / peak if rate is not None and peak else None
