"""At temperature 0 a trace on plain decoding's text is the loop's rounds, draft by draft."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specbench.engine import teacher
from specbench.records.trace_summary import Drafts, drafts_by_request
from specbench.theory.replay import replay_drafts
from tests import trained
from tests.tiny import alpha, language_model, noisy_copy, requests, run_cell
from tests.tracing import trace_columns

LENGTH, LONGEST = 14, 4
BATCH_SIZES = (1, 3)
SPECS = (
    "ngram",
    "ngram,match=first",
    "ngram,min=2,max=4",
    "model:near",
    "model:other",
    "early-exit:1",
    "medusa:{}/medusa",
    "eagle:{}/eagle",
    "eagle3:{}/eagle3",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    made, target = tmp_path_factory.mktemp("heads"), language_model("llama")
    trained.train_medusa(made / "medusa", target, prompts()[1:5])
    trained.train_eagle(made / "eagle", target, prompts()[1:5])
    trained.train_eagle3(made / "eagle3", target, prompts()[1:5])
    return made


@functools.cache
def models():
    target = language_model("llama")
    return {"near": noisy_copy(target, 0.15), "other": language_model(seed=9)}


@functools.cache
def prompts():
    return tuple(requests(7))


@functools.cache
def stops() -> tuple[int, ...]:
    """Tokens that end some outputs early, one with its first token."""
    plain = run_cell(language_model("llama"), None, prompts(), max_new_tokens=LENGTH).outputs
    return (plain[0][0], plain[1][4], plain[2][9])


@functools.cache
def text(stop_tokens: tuple[int, ...]) -> list[list[int]]:
    return run_cell(
        language_model("llama"),
        None,
        prompts(),
        max_new_tokens=LENGTH,
        stop_tokens=stop_tokens,
    ).outputs


def traced(spec: str, stop_tokens: tuple[int, ...] = ()) -> Drafts:
    columns = trace_columns(
        language_model("llama"), spec, prompts(), text(stop_tokens), LONGEST, models=models()
    )
    return drafts_by_request(columns, LONGEST)


def rounds_of(spec: str, gamma: int, batch_size: int, stop_tokens: tuple[int, ...]):
    return run_cell(
        language_model("llama"),
        spec,
        prompts(),
        gamma=gamma,
        batch_size=batch_size,
        max_new_tokens=LENGTH,
        stop_tokens=stop_tokens,
        models=models(),
    )


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_every_round_of_the_loop_is_in_the_trace(folder, spec, stopping):
    spec, stop_tokens = spec.format(folder), stops() if stopping else ()
    outputs = text(stop_tokens)
    if stopping:
        assert 1 in map(len, outputs)
        assert len(set(map(len, outputs))) > 2
    drafts = traced(spec, stop_tokens)
    by_request = dict(
        zip((i for i, output in enumerate(outputs) if len(output) > 1), drafts.accept, strict=True)
    )
    for gamma in (1, 2, LONGEST):
        for batch_size in BATCH_SIZES:
            generation = rounds_of(spec, gamma, batch_size, stop_tokens)
            assert generation.outputs == outputs
            columns = (
                generation.rounds[name]
                for name in ("request", "position", "num_drafted", "num_accepted")
            )
            for request, position, num_drafted, num_accepted in zip(*columns, strict=True):
                draft = by_request[request][position - 1, :gamma]
                draft = draft[~np.isnan(draft)]
                assert len(draft) == num_drafted
                assert int(draft.cumprod().sum()) == num_accepted
            assert "other" in spec or 0 < alpha(generation) < 1


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_replayed_counts_are_the_loop_s(folder, spec, stopping):
    spec, stop_tokens = spec.format(folder), stops() if stopping else ()
    drafts = traced(spec, stop_tokens)
    for gamma in (1, 2, LONGEST):
        assert counted(drafts, gamma) == looped(rounds_of(spec, gamma, 3, stop_tokens), gamma)


def counted(drafts: Drafts, gamma: int):
    rounds, accepted, evaluated = drafts.replay(gamma)
    return rounds.sum(), accepted.sum(axis=0).tolist(), evaluated.sum(axis=0).tolist()


def looped(generation, gamma: int):
    columns = (np.array(generation.rounds[f"num_{name}"]) for name in ("accepted", "evaluated"))
    reaching = [[float((c >= i).sum()) for i in range(1, gamma + 1)] for c in columns]
    return len(generation.rounds["round"]), *reaching


def test_planted_faults_are_seen():
    """A bonus position that is not skipped, a trace shifted by one, a text that is not lengthened:
    none of them gives the loop's counts."""
    drafts = traced("model:near")
    truth = looped(rounds_of("model:near", 2, 1, ()), 2)
    assert counted(drafts, 2) == truth
    assert walked(drafts, 2, behind_bonus=1) == truth[0]
    assert walked(drafts, 2, behind_bonus=0) != truth[0]

    shifted = Drafts(drafts.conversations, [table[1:] for table in drafts.accept], None)
    assert counted(shifted, 2) != truth

    short = [table.copy() for table in drafts.accept]
    for table in short:  # drafts that end with the output
        table[-1:, 1] = np.nan
    assert counted(Drafts(drafts.conversations, short, None), 2) != truth


def walked(drafts: Drafts, gamma: int, *, behind_bonus: int) -> int:
    """Rounds, one after another; after full acceptance so many positions further."""
    rounds = 0
    for table in drafts.accept:
        start = 0
        while start < len(table):
            taken = int(table[start, :gamma].cumprod().sum())
            start += taken + (behind_bonus if taken == gamma else 1)
            rounds += 1
    return rounds


def test_heads_depend_on_where_a_draft_began(folder):
    """So a trace by position, good for models, would be wrong for them."""
    for spec, same in (("model:near", True), (f"eagle:{folder}/eagle", False)):
        drafts = traced(spec)
        by_position = [
            np.array([[row[0] for row in table[s : s + 2]] for s in range(len(table) - 1)])
            for table in drafts.accept
        ]
        steps = [table[:-1, :2] for table in drafts.accept]
        equal = all(np.array_equal(a, b) for a, b in zip(by_position, steps, strict=True))
        assert equal is same


def test_a_replay_without_worth_is_one_with_its_own_chances():
    drafts = traced("ngram")
    ours = replay_drafts(drafts.accept, 2)
    theirs = replay_drafts(drafts.accept, 2, worth=drafts.accept)
    for one, other in zip(ours, theirs, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("spec", SPECS)
def test_a_long_text_is_traced_in_stretches(folder, spec, monkeypatch):
    whole = traced(spec.format(folder)).accept
    monkeypatch.setattr(teacher, "MOST_DRAFTS", 4)
    for part, all_at_once in zip(traced(spec.format(folder)).accept, whole, strict=True):
        np.testing.assert_array_equal(part, all_at_once)
