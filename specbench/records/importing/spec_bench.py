"""Answer files of Spec-Bench: one line per question, every round's length in it.

``accept_lengths`` holds new length - old length of each round, the bonus token included, so a round
accepted one less. One file is one method; a file whose rounds all have length 1 is plain decoding.
``wall_time`` is of whole turns, prefill included: decoding is not timed apart. How many tokens a
round drafted is not told, so alpha needs ``--gamma``.

A run that is started again adds its answers to the file: of a question that occurs twice the last
answer counts, as in Spec-Bench's own evaluation. Where a turn failed, the text is ``ERROR`` and the
numbers are those of the turn before: such a question is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    acceptance,
    plain_key,
    settled,
    temperature_of,
)
from specbench.records.importing.documents import Document, Source, numbers
from specbench.records.importing.notes import Note
from specbench.records.schema import Cell
from specbench.records.tables import REQUESTS, ROUNDS
from specbench.theory.clusters import cluster_sums
from specbench.theory.intervals import ratio_interval

CHAT = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
"""The categories that Spec-Bench reports together."""

_ERROR = "ERROR"
"""What stands for the text of a turn that failed."""

_TEMPERATURE = re.compile(r"temp(?:erature)?-(\d+(?:\.\d+)?)")


def recognises(document: Document) -> bool:
    """Whether this is an answer with its rounds."""
    choices = document.get("choices")
    return (
        "question_id" in document
        and isinstance(choices, list)
        and all(isinstance(choice, dict) and "accept_lengths" in choice for choice in choices)
    )


class _Answer(NamedTuple):
    """One choice of one question: all its turns; lengths of its rounds."""

    question: str
    task: str
    turns: int
    tokens: int
    seconds: float
    lengths: list[int]


def cells(source: Source, given: Given) -> list[Imported]:
    """One cell per task."""
    notes: list[Note] = []
    answers = [a for document in _counted(source, notes) for a in _answers(document)]
    key = _key(source, max((max(a.lengths, default=0) for a in answers), default=0), given, notes)
    tasks: dict[str, list[_Answer]] = {}
    for answer in answers:
        tasks.setdefault(given.task or answer.task, []).append(answer)
    found = [_cell({**key, "task": task}, part, given.gamma) for task, part in tasks.items()]
    found[0].notes = notes
    return found


def _counted(source: Source, notes: list[Note]) -> list[Document]:
    """The last answer to each question, without those of which a turn failed."""
    last = {str(document["question_id"]): document for document in source.documents}
    if twice := len(source.documents) - len(last):
        text = "answered again, the last answer counts"
        notes.append(Note(source.path.name, f"{_questions(twice)} {text}"))
    whole = [document for document in last.values() if not _has_error(document)]
    if failed := len(last) - len(whole):
        text = f"left out, as a turn failed ({_ERROR})"
        notes.append(Note(source.path.name, f"{_questions(failed)} {text}"))
    timed = [document for document in whole if not _took_no_time(document)]
    if untimed := len(whole) - len(timed):
        text = "left out, as a turn took no time"
        notes.append(Note(source.path.name, f"{_questions(untimed)} {text}"))
    return timed


def _questions(count: int) -> str:
    return f"{count} question{'' if count == 1 else 's'}"


def _took_no_time(document: Document) -> bool:
    """Whether a turn has tokens, and 0 seconds for them."""
    return any(
        tokens > 0 and seconds == 0
        for choice in document["choices"]
        for tokens, seconds in zip(
            numbers(choice, "new_tokens"), numbers(choice, "wall_time"), strict=False
        )
    )


def _has_error(document: Document) -> bool:
    turns = [choice.get("turns") for choice in document["choices"]]
    return any(isinstance(texts, list) and _ERROR in texts for texts in turns)


def _key(source: Source, longest: int, given: Given, notes: list[Note]) -> dict[str, Any]:
    """What all cells of a file share."""
    path = source.path
    if not longest:
        raise SpecbenchError(f"{path} has no round in any answer", "The method may have failed")
    methods = list(dict.fromkeys(str(d.get("model_id") or UNNAMED) for d in source.documents))
    if len(methods) > 1:
        raise SpecbenchError(
            f"{path} mixes answers of {methods[0]} and {methods[1]}", "Import them apart"
        )
    told = _TEMPERATURE.search(methods[0])
    key: dict[str, Any] = {
        "target": given.target or UNNAMED,
        "temperature": temperature_of(
            path, float(told[1]) if told else None, given.temperature, notes
        ),
        "batch_size": settled("batch_size", path, 1, given.batch_size),
        "backend": "spec-bench",
    }
    if longest == 1:
        notes.append(Note(path.name, "every round gave one token, taken as plain decoding"))
        return key | plain_key()
    if given.gamma is None:
        text = "how many tokens a round drafted is not told, so gamma is the longest run accepted, "
        notes.append(Note(path.name, f"{text}{longest - 1}, and there is no alpha (--gamma)"))
    elif longest > given.gamma + 1:
        raise SpecbenchError(
            f"{path} has a round of {longest} tokens, above --gamma {given.gamma} + 1",
            "Give the gamma that it was run with",
        )
    return key | {
        "drafter": given.drafter or methods[0],
        "gamma": longest - 1 if given.gamma is None else given.gamma,
    }


def _answers(document: Document) -> list[_Answer]:
    """The choices of one question."""
    category = str(document.get("category") or UNNAMED)
    found = []
    for choice in document["choices"]:
        tokens, seconds = numbers(choice, "new_tokens"), numbers(choice, "wall_time")
        lengths = numbers(choice, "accept_lengths")
        if any(length < 1 or length != int(length) for length in lengths):
            raise SpecbenchError(
                f"question {document['question_id']} has a round of {min(lengths):g} tokens",
                "Every round gives at least the target's own token",
            )
        found.append(
            _Answer(
                str(document["question_id"]),
                "mt_bench" if category in CHAT else category,
                max(len(tokens), 1),
                int(sum(tokens)),
                sum(seconds),
                [int(length) for length in lengths],
            )
        )
    return found


def _cell(key: dict[str, Any], answers: Sequence[_Answer], gamma: int | None) -> Imported:
    accepted = np.array([length - 1 for a in answers for length in a.lengths], dtype=np.int64)
    tokens, seconds = sum(a.tokens for a in answers), sum(a.seconds for a in answers)
    fields: dict[str, Any] = {
        "wall_s": seconds or None,
        "tokens": tokens,
        "tok_per_s": tokens / seconds if seconds else None,
        "num_prompts": len({a.question for a in answers}),
        "num_requests": sum(a.turns for a in answers),
        "warnings": ["times are of whole answers, prefill included: so is the speedup"],
    }
    if key["drafter"] == "none":
        fields |= {"num_rounds": int(accepted.size), "tau": 1.0}
    else:
        longest = key["gamma"]
        survival = [float((accepted >= i).mean()) for i in range(1, longest + 1)]
        is_chain = Cell(**key).draft_form == "chain"
        drafted = accepted.size * gamma if gamma and is_chain else None
        fields |= acceptance(longest, accepted.size, drafted, int(accepted.sum()), survival)
        if "alpha" in fields:
            fields["alpha_ci"] = _alpha_interval(answers, longest)
    rounds, requests = _tables(answers)
    return Imported(key, fields, _pairs(answers), True, rounds, requests)


def _pairs(answers: Sequence[_Answer]) -> dict[str, tuple[float, float]]:
    """Seconds and tokens by question, means over its choices."""
    choices: dict[str, list[_Answer]] = {}
    for answer in answers:
        choices.setdefault(answer.question, []).append(answer)
    return {
        question: (fmean(a.seconds for a in own), fmean(a.tokens for a in own))
        for question, own in choices.items()
    }


def _alpha_interval(answers: Sequence[_Answer], gamma: int) -> tuple[float, float] | None:
    """Clustered by question."""
    names = [answer.question for answer in answers for _ in answer.lengths]
    lengths = np.array([length for answer in answers for length in answer.lengths])
    _, (hits, trials) = cluster_sums(names, lengths - 1, np.minimum(lengths, gamma))
    interval = ratio_interval(hits, trials)
    return interval.ends if interval else None


def _tables(answers: Sequence[_Answer]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known of rounds and requests, a request per answer; all else is null."""
    owners = [place for place, answer in enumerate(answers) for _ in answer.lengths]
    lengths = [length for answer in answers for length in answer.lengths]
    rounds: dict[str, Any] = {name: [None] * len(owners) for name in ROUNDS.names}
    rounds |= {
        "prompt_id": [answers[owner].question for owner in owners],
        "request": owners,
        "round": [number for answer in answers for number in range(len(answer.lengths))],
        "num_accepted": [length - 1 for length in lengths],
    }
    requests: dict[str, Any] = {name: [None] * len(answers) for name in REQUESTS.names}
    requests |= {
        "prompt_id": [answer.question for answer in answers],
        "conversation": [answer.question for answer in answers],
        "task": [answer.task for answer in answers],
        "num_tokens": [answer.tokens for answer in answers],
        "wall_s": [answer.seconds for answer in answers],
    }
    return rounds, requests
