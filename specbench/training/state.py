"""The state of an unfinished training on disk, so that a killed one goes on where it was."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from specbench.errors import SpecbenchError
from specbench.training.reasons import reason
from specbench.training.trainee import Acceptance, Trainee

STATE_FILE = "training.pt"
_DAMAGES = (
    OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, pickle.UnpicklingError
)  # fmt: skip


@dataclass
class Progress:
    """Where a training is.

    Attributes:
        step: optimizer steps done.
        seconds: spent in them.
        loss: running mean of the training loss; None before the first step.
        checks: kept-out acceptance so far, the untrained module's first.
    """

    step: int = 0
    seconds: float = 0.0
    loss: float | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)

    def note(self, acceptance: Acceptance) -> None:
        self.checks.append(
            {"step": self.step, "seconds": self.seconds, "loss": self.loss, **asdict(acceptance)}
        )


def save_state(
    folder: Path,
    about: dict[str, Any],
    trainee: Trainee,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
) -> None:
    """Write the state, whole or not at all.

    Args:
        folder: of the checkpoint.
        about: what the training depends on; plain values.
        trainee, optimizer, progress: the state, with that of torch's random numbers.

    Raises:
        SpecbenchError: it cannot be written; the state before, if any, is still there.
    """
    file = folder / STATE_FILE
    partial = file.with_suffix(".partial")
    state = {
        "about": about,
        "module": trainee.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "progress": asdict(progress),
    }
    try:
        with partial.open("wb") as stream:  # its errors say more than those of torch's own writer
            torch.save(state, stream)
        partial.replace(file)
    except (OSError, RuntimeError) as error:
        again = "goes on from the last state written" if file.exists() else "begins to train anew"
        raise SpecbenchError(
            f"cannot write {file}: {reason(error, 'the disk took only a part of it')}",
            f"Make room and type the same command again: it {again}",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def load_state(
    folder: Path, about: dict[str, Any], trainee: Trainee, optimizer: torch.optim.Optimizer
) -> Progress | None:
    """Put a written state into trainee, optimizer and torch's random numbers, if there is one.

    Raises:
        SpecbenchError: it is damaged, or of a training that ``about`` does not describe.
    """
    file = folder / STATE_FILE
    if not file.exists():
        return None
    try:
        state = torch.load(file, weights_only=True, map_location="cpu")
        for key, value in about.items():
            if state["about"][key] != value:
                raise SpecbenchError(
                    f"{file} is of a training with {key} = {state['about'][key]!r}, not {value!r}",
                    "Use the options and the corpus it was begun with, or delete it to start again",
                )
        trainee.module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        return Progress(**state["progress"])
    except PermissionError as error:
        raise SpecbenchError(f"cannot go on with {file}: {error.strerror}") from error
    except _DAMAGES as error:
        raise SpecbenchError(
            f"cannot go on with {file}: it is damaged", "Delete it to start again"
        ) from error


def forget_state(folder: Path) -> None:
    """Remove the state of a training whose checkpoint is written."""
    (folder / STATE_FILE).unlink(missing_ok=True)
