"""How much is left: measured steps, verification and acceptance beside limits of theory.limits.

Everything comes from the manifest and the lines of cells and traces, no table is read. What a run
did not record is None, and ``Limits.lacking`` says so in words.

>>> limits = limits_of(run, fit_run(run))                                       # doctest: +SKIP
>>> limits.steps[0].bandwidth_share                                             # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.analysis.acceptance.replayed import readable_traces
from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
from specbench.analysis.machine.columns import unknown_of
from specbench.analysis.machine.measured import (
    MachineUse,
    cost_of,
    forward_of,
    machine_of,
    machine_uses,
)
from specbench.analysis.pooling import Group, GroupKey, Setting, groups
from specbench.records.reading import Run
from specbench.records.schema import CellRecord
from specbench.records.traces import TraceRecord
from specbench.records.uncertainty import Uncertainty, load_uncertainty
from specbench.theory.limits import Forward, Machine, accepted_reference


@dataclass(frozen=True)
class StepLimit:
    """Plain decoding in one setting: its step beside the roofline.

    Attributes:
        step_s: T1, the baseline's whole time per step.
        forward: what its target forward needs.
        moving_s: shortest time to move the bytes: no one-token step is faster.
        computing_s: shortest time to do the operations.
        compute_bound_from: tokens per forward from which operations take longer than bytes.
    """

    setting: Setting
    step_s: float
    forward: Forward
    moving_s: float | None
    computing_s: float | None
    compute_bound_from: float | None

    @property
    def bandwidth_share(self) -> float | None:
        """How much of a step its bytes need at the measured peak bandwidth."""
        return self.moving_s / self.step_s if self.moving_s is not None else None

    @property
    def compute_share(self) -> float | None:
        """How much of a step its operations need at the measured matmul rate."""
        return self.computing_s / self.step_s if self.computing_s is not None else None


@dataclass(frozen=True)
class VerifyLimit:
    """Verification of one drafter at one gamma beside its roofline.

    Attributes:
        tokens: of all rows in one target forward, mean.
        verify_s: its mean time.
        v, roofline: measured and predicted, in units of T1 and of the roofline's one-token step.
    """

    key: GroupKey
    gamma: int
    tokens: float
    verify_s: float | None
    v: float | None
    roofline: float | None


@dataclass(frozen=True)
class DraftingLimit:
    """Acceptance above temperature 0 beside what the target's entropy sets.

    Attributes:
        verified: tokens of a row in one target forward, mean.
        accepted: drafted tokens accepted per round.
        reference: Pankratov and Alistarh's for so many verified tokens; asymptotic, no bound.
        most_one_hot: mean of max p where one-hot chains are evaluated, replayed on a trace: their
            alpha can't be higher but by chance; None without a trace, and for other drafts.
    """

    key: GroupKey
    gamma: int
    verified: float
    accepted: float
    alpha: float | None
    reference: float | None
    most_one_hot: float | None


@dataclass(frozen=True)
class Limits:
    """All limits of a run, and what it lacks for the others, one sentence each.

    Attributes:
        unrecorded: those of ``lacking`` that are about what no cell recorded of its machine.
    """

    machine: Machine
    steps: tuple[StepLimit, ...]
    verification: tuple[VerifyLimit, ...]
    drafting: tuple[DraftingLimit, ...]
    lacking: tuple[str, ...]
    uses: tuple[MachineUse, ...] = ()
    unrecorded: tuple[str, ...] = ()


def limits_of(run: Run, fitted: RunFit) -> Limits:
    """The limits of a fitted run.

    Raises:
        SpecbenchError: the recorded uncertainty or traces can't be read.
    """
    facts = run.manifest
    machine = machine_of(facts)
    parameters = facts.target.get("parameters")
    usable = [cell for cell in run.cells if cell.cell_id not in fitted.unusable]
    by_key = {group.key: group for group in groups(usable)}
    pairs = [(fit, by_key[fit.key]) for fit in fitted.groups]
    steps: dict[Setting, StepLimit] = {}
    for _, group in pairs:
        step = _step(group, machine, parameters)
        if step is not None:
            steps.setdefault(group.key.setting, step)
    verification = [
        _verification(fit, point, group, steps.get(fit.key.setting), machine)
        for fit, group in pairs
        for point in fit.points
    ]
    known, (traces, _) = load_uncertainty(run.path), readable_traces(run)
    drafting = [
        limit
        for fit, group in pairs
        for point in fit.points
        if (limit := _drafting(fit, point, group, known, traces))
    ]
    uses = machine_uses(usable, machine)
    unrecorded = tuple(unknown_of(uses))
    return Limits(
        machine,
        tuple(steps.values()),
        tuple(limit for limit in verification if limit is not None),
        tuple(drafting),
        (*_lacking(machine, parameters, steps, fitted, known), *unrecorded),
        uses,
        unrecorded,
    )


def _step(group: Group, machine: Machine, parameters: int | None) -> StepLimit | None:
    timed = [cell for cell in group.baselines if cell.parts_s and cell.num_rounds]
    moved = [cell.bytes_per_target_forward for cell in timed if cell.bytes_per_target_forward]
    weights = cost_of(timed, "weight_bytes")
    if not timed or not moved or weights is None or not parameters:
        return None
    count = sum(cell.num_rounds or 0 for cell in timed)
    step_s = sum((cell.parts_s or 0.0) * (cell.num_rounds or 0) for cell in timed) / count
    rows = group.key.setting.batch_size
    forward = forward_of(timed, weights, sum(moved) / len(moved), parameters)
    return StepLimit(
        group.key.setting,
        step_s,
        forward,
        machine.moving_s(forward, rows),
        machine.computing_s(forward, rows),
        machine.compute_bound_from(forward),
    )


def _verification(
    fit: GroupFit, point: GammaFit, group: Group, step: StepLimit | None, machine: Machine
) -> VerifyLimit | None:
    cells = group.cells[point.gamma]
    verified, rows = _verified(cells), fit.key.setting.batch_size
    if verified is None:
        return None
    times = [cell.verify_s for cell in cells if cell.verify_s is not None]
    # v is of full drafts only, and those of a chain are known
    full = point.gamma + 1.0 if fit.draft_form == "chain" else verified
    return VerifyLimit(
        fit.key,
        point.gamma,
        rows * verified,
        sum(times) / len(times) if times else None,
        point.v,
        machine.v(step.forward, rows, full) if step else None,
    )


def _drafting(
    fit: GroupFit,
    point: GammaFit,
    group: Group,
    known: Sequence[Uncertainty],
    traces: Sequence[TraceRecord],
) -> DraftingLimit | None:
    setting, cells = fit.key.setting, group.cells[point.gamma]
    verified = _verified(cells)
    if setting.temperature == 0.0 or verified is None or point.tau is None:
        return None
    if setting.context_length is not None:  # entropies are those of prompts as they are
        return None
    wanted = (setting.task, setting.temperature, setting.top_k, setting.top_p)
    moments = next((one for one in known if one.setting == wanted), None)
    if moments is None:
        return None
    replayed = (
        traced
        for trace in traces
        if (trace.drafter, trace.setting) == (fit.key.drafter, wanted)
        for traced in trace.by_gamma
        if traced.gamma == point.gamma
    )
    return DraftingLimit(
        fit.key,
        point.gamma,
        verified,
        point.tau - 1.0,
        point.alpha,
        accepted_reference(moments.entropy, moments.second_moment, verified),
        next((traced.max_p for traced in replayed), None),
    )


def _lacking(
    machine: Machine,
    parameters: int | None,
    steps: dict[Setting, StepLimit],
    fitted: RunFit,
    known: Sequence[Uncertainty],
) -> list[str]:
    found = []
    if machine.bandwidth_bytes_per_s is None:
        found.append("no peak bandwidth was measured, so there is no shortest step")
    if machine.matmul_flops_per_s is None:
        found.append("no matmul rate was measured, so there is no roofline of v")
    if not parameters:
        found.append("the target's parameters are not recorded, so its operations are not known")
    elif not steps:
        found.append("no baseline tells the bytes that its steps moved")
    own = [group for group in fitted.groups if not group.imported_from or group.served]
    sampled = [g.key.setting for g in own if g.key.setting.temperature > 0.0]
    hot = {(s.task, s.temperature, s.top_k, s.top_p) for s in sampled if s.context_length is None}
    unknown = sorted({task for task, *_ in hot - {one.setting for one in known}})
    if unknown:
        found.append(
            f"the target's entropy was not recorded above T = 0 ({', '.join(unknown)}), so there "
            "is no limit of drafting: specbench alpha RUN --drafter SPEC records it"
        )
    if any(g.key.setting.temperature > 0.0 for g in fitted.groups if g not in own):
        found.append(
            "imported results don't hold the target's entropy, so there is no limit of drafting"
        )
    if any(setting.context_length is not None for setting in sampled):
        found.append("the target's entropy is not recorded for padded prompts (--context-length)")
    return found


def _verified(cells: Sequence[CellRecord]) -> float | None:
    """Tokens of a row in one target forward: the drafted ones and the last committed one."""
    drafted, rounds = (
        [getattr(cell, name) for cell in cells] for name in ("num_drafted", "num_rounds")
    )
    if None in drafted or None in rounds or not sum(rounds):
        return None
    return 1.0 + float(sum(drafted)) / float(sum(rounds))
