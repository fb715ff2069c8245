"""The training loop: steps until the time or their number is used up, resumable, seeded.

Every two minutes the acceptance on kept-out prompts is measured and the whole state saved, so that
a killed training goes on where it was. With a number of steps the result depends on the seed alone,
up to rounding; with minutes it also depends on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from specbench.errors import SpecbenchError
from specbench.training.batches import Batch, Split, padded, training_batches
from specbench.training.trainee import Acceptance, Trainee

_WARM_UP_SHARE = 0.03
_KEPT_OUT_TOKENS = 3_000


@dataclass(frozen=True)
class Budget:
    """When training ends: whichever comes first.

    Attributes:
        minutes: of training, resumed parts added up; None for no limit.
        steps: optimizer steps; None for no limit.
        tokens_per_step: batch size in tokens, padding included.
        seed: of initial weights and of the order of samples.
        check_s: seconds between checks on kept-out prompts.
    """

    minutes: float | None = 20.0
    steps: int | None = None
    tokens_per_step: int = 3000
    seed: int = 0
    check_s: float = 120.0

    def share(self, step: int, seconds: float) -> float:
        """How much of the budget is used, 0 to 1."""
        used = [0.0]
        if self.minutes is not None:
            used.append(seconds / (60 * self.minutes))
        if self.steps is not None:
            used.append(step / self.steps)
        return min(1.0, max(used))


@dataclass
class Progress:
    """Where a training is.

    Attributes:
        step: optimizer steps done.
        seconds: spent in them.
        loss: running mean of the training loss.
        checks: kept-out acceptance so far, the untrained module's first.
    """

    step: int = 0
    seconds: float = 0.0
    loss: float = float("nan")
    checks: list[dict[str, Any]] = field(default_factory=list)

    def note(self, acceptance: Acceptance) -> None:
        self.checks.append(
            {"step": self.step, "seconds": self.seconds, "loss": self.loss, **asdict(acceptance)}
        )


def train(
    trainee: Trainee,
    split: Split,
    folder: Path,
    budget: Budget,
    report: Callable[[Progress, float], None] = lambda progress, share: None,
) -> Progress:
    """Train a module in place.

    Args:
        trainee: what is trained.
        split: training and kept-out samples.
        folder: keeps the state of an unfinished training.
        budget: when to end.
        report: is told the progress and the share of the budget after every step.

    Raises:
        SpecbenchError: the folder holds the state of another training.
    """
    kept_out = _kept_out(split)
    parameters = [p for p in trainee.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1.0, betas=(0.9, 0.95), weight_decay=0.01)
    state_file = folder / "training.pt"
    torch.manual_seed(budget.seed)
    progress = _resumed(state_file, trainee, optimizer)
    if progress is None:
        progress = Progress()
        progress.note(trainee.acceptance(kept_out))
    batches = training_batches(
        split.training, budget.tokens_per_step, budget.seed, skip=progress.step
    )
    checked = begin = time.monotonic()
    while (share := budget.share(progress.step, progress.seconds)) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = trainee.learning_rate * _schedule(share)
        loss = trainee.loss(next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        now = time.monotonic()
        progress.step += 1
        progress.seconds += now - begin
        progress.loss = _running(progress.loss, loss.item())
        report(progress, budget.share(progress.step, progress.seconds))
        if now - checked > budget.check_s:
            progress.note(trainee.acceptance(kept_out))
            _save(state_file, trainee, optimizer, progress)
            report(progress, share)
            checked = now = time.monotonic()
        begin = now
    progress.note(trainee.acceptance(kept_out))
    state_file.unlink(missing_ok=True)
    return progress


def _schedule(share: float) -> float:
    """Factor of the learning rate: a short rise, then linearly down to a fiftieth."""
    return min(share / _WARM_UP_SHARE + 0.02, 1.0) * max(0.02, 1.0 - share)


def _running(mean: float, value: float) -> float:
    return value if mean != mean else 0.98 * mean + 0.02 * value


def _kept_out(split: Split) -> Sequence[Batch]:
    """Batches of kept-out samples, up to some thousand tokens."""
    batches: list[Batch] = []
    tokens = 0
    for sample in split.kept_out:
        if tokens > _KEPT_OUT_TOKENS:
            break
        batches.append(padded([sample]))
        tokens += len(sample.answer)
    return batches


def _save(
    file: Path, trainee: Trainee, optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    partial = file.with_suffix(".partial")
    state = {
        "kind": trainee.kind,
        "module": trainee.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "progress": asdict(progress),
    }
    torch.save(state, partial)
    partial.replace(file)


def _resumed(file: Path, trainee: Trainee, optimizer: torch.optim.Optimizer) -> Progress | None:
    if not file.exists():
        return None
    try:
        state = torch.load(file, weights_only=True)
        if state["kind"] != trainee.kind:
            raise SpecbenchError(f"{file} is the state of a {state['kind']} drafter")
        trainee.module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        return Progress(**state["progress"])
    except (RuntimeError, KeyError, TypeError, ValueError, EOFError) as error:
        raise SpecbenchError(
            f"cannot go on with {file}: {str(error).splitlines()[0]}", "Delete it to start again"
        ) from error
