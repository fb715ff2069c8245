"""The training loop: steps until the time or their number is used up, resumable, seeded.

Every two minutes the acceptance on kept-out prompts is measured and the whole state saved, so that
a killed training goes on where it was. With a number of steps and no limit of time the result
depends on the seed alone, up to rounding; else it also depends on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.training.batches import Split, padded, training_batches
from specbench.training.interruption import Interruption
from specbench.training.state import Progress, load_state, save_state
from specbench.training.trainee import Trainee

_WARM_UP_SHARE = 0.03
_GOING_ON = 0.5  # of the learning rate, for weights that have been trained before
_LARGEST_SEED = 2**63 - 1
_LOOK_AT = 32  # samples from which initial weights are set


@dataclass(frozen=True)
class Budget:
    """When training ends: whichever comes first.

    Attributes:
        minutes: of training, more than 0, resumed parts added up; None for no limit.
        steps: optimizer steps, 1 or more; None for no limit.
        tokens_per_step: batch size in tokens, padding included.
        seed: of initial weights and of the order of samples; what torch takes.
        check_s: seconds between checks on kept-out prompts.

    Raises:
        SpecbenchError: minutes, steps or seed are none of these.
    """

    minutes: float | None = 20.0
    steps: int | None = None
    tokens_per_step: int = 1500
    seed: int = 0
    check_s: float = 120.0

    def __post_init__(self) -> None:
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise SpecbenchError(
                f"--minutes {self.minutes:g} is not usable", "Give a finite number, more than 0"
            )
        if self.steps is not None and self.steps < 1:
            raise SpecbenchError(f"--steps {self.steps} is not usable", "Give 1 or more")
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise SpecbenchError(
                f"--seed {self.seed} is not usable", "Give a whole number from 0 to below 2^63"
            )

    def share(self, step: int, seconds: float) -> float:
        """How much of the budget is used, 0 to 1."""
        used = [0.0]
        if self.minutes is not None:
            used.append(seconds / (60 * self.minutes))
        if self.steps is not None:
            used.append(step / self.steps)
        return min(1.0, max(used))


def train(
    trainee: Trainee,
    split: Split,
    folder: Path,
    budget: Budget,
    report: Callable[[Progress, float], None] = lambda progress, share: None,
    start: str | None = None,
) -> Progress:
    """Train a module in place; it ends up with weights that bfloat16 can hold, as they are saved.

    Args:
        trainee: what is trained.
        split: training and kept-out samples.
        folder: keeps the state of a training whose checkpoint is not written yet.
        budget: when to end.
        report: is told the progress and the share of the budget after every step.
        start: the checkpoint that the weights are from, None for new ones.

    Returns:
        The progress, whose last check is of the weights as they are saved.

    Raises:
        SpecbenchError: the folder holds the state of another training, or cannot be written.
        KeyboardInterrupt: after Ctrl-C, when the state is saved.
    """
    kept_out = [padded([sample]).to(trainee.device) for sample in split.checked]
    trainee.prepare(padded(split.training[:_LOOK_AT]).to(trainee.device))
    rate = trainee.learning_rate * (_GOING_ON if trainee.goes_on else 1.0)
    parameters = [p for p in trainee.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1.0, betas=(0.9, 0.95), weight_decay=0.01)
    about = {**_about(trainee, split, budget), "start": start}
    torch.manual_seed(budget.seed)
    progress = load_state(folder, about, trainee, optimizer)
    if progress is None:
        progress = Progress()
        progress.note(trainee.acceptance(kept_out))
    batches = training_batches(
        split.training, budget.tokens_per_step, budget.seed, skip=progress.step
    )
    checked = time.monotonic()
    with Interruption() as interruption:
        while (share := budget.share(progress.step, progress.seconds)) < 1.0:
            begin = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = rate * _schedule(share)
            loss = trainee.loss(next(batches).to(trainee.device))
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            progress.loss = _running(progress.loss, loss.item())
            progress.step += 1
            progress.seconds += time.monotonic() - begin
            report(progress, budget.share(progress.step, progress.seconds))
            if interruption.came:
                save_state(folder, about, trainee, optimizer, progress)
                raise KeyboardInterrupt
            if time.monotonic() - checked > budget.check_s:
                progress.note(trainee.acceptance(kept_out))
                save_state(folder, about, trainee, optimizer, progress)
                report(progress, share)
                checked = time.monotonic()
        save_state(folder, about, trainee, optimizer, progress)
    _round_to_bfloat16(trainee.module)
    progress.note(trainee.acceptance(kept_out))
    return progress


def _about(trainee: Trainee, split: Split, budget: Budget) -> dict[str, Any]:
    """What has to be the same for a training to go on."""
    return {
        "kind": trainee.kind,
        "target": Path(trainee.target.name).name,
        "seed": budget.seed,
        "draft vocabulary": len(trainee.columns),
        "answers": len(split.training),
    }


def _schedule(share: float) -> float:
    """Factor of the learning rate: a short rise, then linearly down to a fiftieth."""
    return min(share / _WARM_UP_SHARE + 0.02, 1.0) * max(0.02, 1.0 - share)


def _running(mean: float | None, value: float) -> float:
    return value if mean is None else 0.98 * mean + 0.02 * value


@torch.no_grad()
def _round_to_bfloat16(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.copy_(parameter.bfloat16())
