"""Loss and acceptance of every kind against a plain computation, draft by draft."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

from specbench.training.corpus import Sample
from specbench.training.eagle import STATE_WEIGHT
from specbench.training.session import KINDS
from specbench.training.trainee import Acceptance, Guess, Trainee
from tests.tiny import ARCHITECTURES, VOCAB, language_model
from tests.unit.training import plain


@torch.no_grad()
def plain_loss(made: Trainee, samples: Sequence[Sample]) -> float:
    """Mean over drafts of each step's cross-entropy, a step further counting 0.8 of it."""
    by_step: list[list[float]] = [[] for _ in range(made.num_steps)]
    for sample in samples:
        truth = plain.target_logits(sample)
        for start in plain.starts(sample, 1):
            for step, (logits, state) in enumerate(plain.draft(made, sample, start), 1):
                if start not in plain.starts(sample, step):
                    break
                p = torch.softmax(truth[start + step, made.columns], dim=0)
                loss = -(p * torch.log_softmax(logits, dim=0)).sum()
                if state is not None:
                    wanted = sample.states[made.last_layer][start + step]
                    loss += STATE_WEIGHT * nn.functional.smooth_l1_loss(state, wanted)
                by_step[step - 1].append(loss.item())
    return sum(0.8**i * sum(found) / len(found) for i, found in enumerate(by_step) if found)


@torch.no_grad()
def plain_acceptance(made: Trainee, samples: Sequence[Sample]) -> Acceptance:
    """Counts drafts that go on (T = 0), or their weights (T = 1), step by step."""
    hits, counts = torch.zeros(2, made.num_steps), torch.zeros(2, made.num_steps)
    for sample in samples:
        truth = torch.softmax(plain.target_logits(sample), dim=-1)
        for start in plain.starts(sample, 1):
            alive = 1.0
            for step, (logits, _) in enumerate(plain.draft(made, sample, start), 1):
                if start not in plain.starts(sample, step) or sample.temperature == 0.7:
                    break
                p, text = truth[start + step], sample.tokens[start + step + 1]
                q = torch.zeros(VOCAB)
                q[made.columns] = torch.softmax(logits, dim=0)
                if sample.temperature == 0:
                    hits[0, step - 1] += alive * float(int(q.argmax()) == text)
                    counts[0, step - 1] += alive
                    alive *= float(int(q.argmax()) == text)
                else:
                    hits[1, step - 1] += alive * torch.minimum(p, q).sum()
                    counts[1, step - 1] += alive
                    alive *= min(1.0, float(q[text] / p[text]))
    greedy, overlap = (
        [h / c if c else None for h, c in zip(*rows, strict=True)]
        for rows in zip(hits.tolist(), counts.tolist(), strict=True)
    )
    return Acceptance(greedy, overlap)


@functools.cache
def learner(kind: str) -> tuple[Trainee, float]:
    """A trainee and its loss; a draft model's is over all ids: it draws more than are rare."""
    made = plain.trainee(kind)
    with torch.no_grad():  # sure of itself, so that a guess in the wrong place costs much
        for weight in made.module.parameters():
            weight.mul_(1.0 if kind == "model" else 3.0)
    if kind == "model":
        made.use_columns(torch.arange(VOCAB))
    return made, plain_loss(made, plain.answers())


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_loss_is_that_of_drafts_one_by_one(kind: str):
    made, expected = learner(kind)
    assert made.loss(plain.batch(plain.answers())).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
@pytest.mark.parametrize("fault", ["guess", "states", "answer"])
def test_one_place_off_is_seen(kind: str, fault: str, monkeypatch: pytest.MonkeyPatch):
    made, expected = learner(kind)
    batch = plain.batch(plain.answers())
    if fault == "states":
        batch = replace(batch, states={k: t.roll(1, dims=1) for k, t in batch.states.items()})
    elif fault == "answer":
        batch = replace(batch, is_asked=batch.is_asked.roll(-1, dims=1))
    else:
        right = made.guesses

        def one_off(batch) -> list[Guess]:
            return [replace(guess, starts=(guess.starts - 1).clamp(0)) for guess in right(batch)]

        monkeypatch.setattr(made, "guesses", one_off)
    assert abs(made.loss(batch).item() - expected) > 1e-3 * expected


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_acceptance_is_what_counting_gives(kind: str):
    made = plain.trainee(kind, vocab=50)
    with torch.no_grad():  # so that some drafts go on and some do not
        for weight in made.module.parameters():
            weight.mul_(0.3 if weight.dim() > 1 and kind != "model" else 1.0)
    samples = plain.answers(9, 10, temperatures=(0.0, 1.0, 0.7))
    made.acceptance([])  # a draft model guesses among all ids from now on
    expected = plain_acceptance(made, samples)
    one_by_one = made.acceptance([plain.batch([sample]) for sample in samples])
    together = made.acceptance([plain.batch(samples)])
    for found in (one_by_one, together):
        assert found.greedy == pytest.approx(expected.greedy, abs=1e-5)
        assert found.overlap == pytest.approx(expected.overlap, abs=1e-4)
    assert expected.greedy[0] is not None
    assert expected.overlap[0] is not None
    assert 0 < expected.overlap[0] < 1


def test_a_perfect_drafter_is_always_accepted():
    """A draft model that *is* the target."""
    made = KINDS["model"](plain.target(), torch.arange(VOCAB))
    made.module = plain.target().model
    found = made.acceptance([plain.batch(plain.answers())])
    assert found.greedy == [1.0]
    assert found.overlap == pytest.approx([1.0], abs=1e-5)


def test_what_no_answer_tells_is_unknown_and_not_zero():
    made = plain.trainee("medusa")
    greedy = made.acceptance([plain.batch(plain.answers(temperatures=(0.0,)))])
    assert greedy.overlap == [None] * 4
    sampled = made.acceptance([plain.batch(plain.answers(temperatures=(1.0,)))])
    assert sampled.greedy == [None] * 4
    short = made.acceptance([plain.batch(plain.answers(1, 3, temperatures=(1.0,)))])
    assert short.overlap[0] is not None
    assert short.overlap[2:] == [None, None]


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_answers_shorter_than_a_draft_give_a_loss_that_is_a_number(kind: str):
    made = plain.trainee(kind)
    loss = made.loss(plain.batch(plain.answers(2, 3)[:1]))
    loss.backward()
    assert torch.isfinite(loss)
    for weight in made.module.parameters():
        assert weight.grad is None or torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_architecture_can_have_drafters(architecture: str, kind: str, tmp_path):
    target = language_model(architecture)
    tokens = list(range(1, 12))
    sample = Sample(tokens, 4, 1.0, plain.full_states(target, tokens[:-1]))
    made = KINDS[kind](target, torch.arange(20))
    assert made.layers()[-1] == 2
    loss = made.loss(plain.batch([sample]))
    loss.backward()
    assert torch.isfinite(loss)
    made.save(tmp_path)
    assert (tmp_path / "config.json").exists()
