"""An imported cell before it is written, and the numbers that all formats work out alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from specbench.errors import SpecbenchError
from specbench.records.importing.notes import Note
from specbench.records.schema import BASELINE_DRAFTER
from specbench.records.tables import Columns

UNNAMED = "unnamed"
"""A target, drafter or task that no file names and nobody gave."""

FULL_SHARE = 0.99
"""Drafts count as all of full length from this share on; the last draft of an output is shorter."""

Value = TypeVar("Value", int, float)


@dataclass(frozen=True)
class Given:
    """What the user says in place of what files leave out; None where nothing was said."""

    target: str | None = None
    drafter: str | None = None
    task: str | None = None
    gamma: int | None = None
    temperature: float | None = None
    batch_size: int | None = None


@dataclass
class Imported:
    """One cell: the fields of its key, what was measured, and raw tables where there are any.

    Attributes:
        key: fields of specbench.records.schema.Cell.
        fields: measured fields of CellRecord.
        pairs: prompt -> (seconds, tokens) of decoding, where a source tells them apart; of a prompt
            with several answers their means.
        whole_answers: whether those seconds are of whole answers, prefill included.
        rounds, requests: columns of specbench.records.tables.
        notes: what was taken for granted of which file, for the manifest.
    """

    key: dict[str, Any]
    fields: dict[str, Any]
    pairs: dict[str, tuple[float, float]] = field(default_factory=dict)
    whole_answers: bool = False
    rounds: Columns | None = None
    requests: Columns | None = None
    notes: list[Note] = field(default_factory=list)

    @property
    def is_baseline(self) -> bool:
        """Whether this is plain decoding."""
        return bool(self.key["drafter"] == BASELINE_DRAFTER)

    @property
    def failed(self) -> bool:
        """Whether nothing of it was measured."""
        return bool(self.fields.get("status", "ok") != "ok")


def plain_key() -> dict[str, Any]:
    """What the key of a baseline has."""
    return {"drafter": BASELINE_DRAFTER, "gamma": 0, "baseline": "first"}


def settled(name: str, path: Path, told: Value | None, given: Value | None) -> Value | None:
    """What a file tells, or what the user gives where it tells nothing.

    Raises:
        SpecbenchError: they contradict each other.
    """
    if told is not None and given is not None and told != given:
        option = name.replace("_", "-")
        raise SpecbenchError(
            f"{path} has {name.replace('_', ' ')} {told}, --{option} says {given}",
            f"Leave --{option} out",
        )
    return given if told is None else told


def needed(name: str, path: Path, value: Value | None) -> Value:
    """A value that a cell can't be without.

    Raises:
        SpecbenchError: neither the file nor the user gave it.
    """
    if value is None:
        text, option = name.replace("_", " "), name.replace("_", "-")
        raise SpecbenchError(f"{path} does not tell the {text}", f"Give it with --{option} N")
    return value


def temperature_of(path: Path, told: float | None, given: float | None, notes: list[Note]) -> float:
    """The temperature; where neither tells it, 0 is taken and noted."""
    value = settled("temperature", path, told, given)
    if value is None:
        notes.append(Note(path.name, "the temperature is not told, taken as 0 (--temperature)"))
    return value or 0.0


def acceptance(
    gamma: int,
    rounds: int | None,
    drafted: int | None,
    accepted: int | None,
    survival: Sequence[float] = (),
) -> dict[str, Any]:
    """Acceptance fields from counts, as far as they go.

    With survival at each position and drafts of full length, position i was evaluated by every
    round that accepted i - 1 tokens, so the maximum-likelihood alpha is accepted / evaluated.

    Args:
        gamma: tokens per draft.
        rounds: those with a draft.
        survival: rounds that accepted at least 1, 2, ..., gamma tokens / rounds.
    """
    fields: dict[str, Any] = {
        "num_rounds": rounds,
        "num_drafted": drafted,
        "num_accepted": accepted,
        "survival_by_position": list(survival) or None,
    }
    if drafted and accepted is not None:
        fields["draft_acceptance_rate"] = accepted / drafted
    if rounds:
        if drafted is not None:
            fields["draft_length_mean"] = drafted / rounds
        if accepted is not None:
            fields["tau"] = 1.0 + accepted / rounds
        if survival and full_length(gamma, rounds, drafted) and len(survival) == gamma:
            reached = [1.0, *survival[:-1]]
            fields["alpha_by_position"] = [
                share / before if before else None
                for share, before in zip(survival, reached, strict=True)
            ]
            fields["alpha"] = sum(survival) / sum(reached)
            fields["num_evaluated"] = round(sum(reached) * rounds)
    return fields


def check_lengths(
    path: Path, gamma: int, rounds: int | None, drafted: int | None, uncounted: int = 0
) -> None:
    """Drafts of gamma tokens at most.

    Args:
        rounds: those with a draft.
        uncounted: rounds that there may have been besides.

    Raises:
        SpecbenchError: more was drafted than that many rounds could.
    """
    if rounds and drafted and drafted > gamma * (rounds + uncounted):
        raise SpecbenchError(
            f"{path} drafted {drafted} tokens in {rounds} rounds, {drafted / rounds:.2f} a round, "
            f"above gamma {gamma}",
            "Give the gamma that it was run with (--gamma); a file that tells it is damaged",
        )


def remark(path: Path, text: str, warnings: list[str], notes: list[Note]) -> None:
    """Warn of a cell, and say it of its file too."""
    warnings.append(text)
    notes.append(Note(path.name, text))


def remark_failures(
    path: Path, failed: int, asked: int, warnings: list[str], notes: list[Note], of: str = ""
) -> None:
    """As :func:`remark`, of requests that failed.

    Args:
        of: what they are a part of, where a file has several.
    """
    if failed:
        whose = f"{of}: " if of else ""
        text = f"{whose}{failed} of {asked} requests failed and are in no number"
        remark(path, text, warnings, notes)


def full_length(gamma: int, rounds: int | None, drafted: int | None) -> bool:
    """Whether as good as every draft had gamma tokens."""
    return bool(rounds and drafted and drafted >= FULL_SHARE * rounds * gamma)


def solved_alpha(tau: float, gamma: int) -> float | None:
    """The one alpha whose closed form gives tau: 1 + alpha + ... + alpha^gamma = tau.

    None where there is none, below 1 or above gamma + 1 tokens.
    """
    from specbench.theory.closed_form import expected_tokens

    if gamma < 1 or not 1.0 <= tau <= gamma + 1.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < tau else (low, middle)
    return (low + high) / 2
