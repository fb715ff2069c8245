"""An unrolled draft computes at every place at once what drafts compute one by one."""

from __future__ import annotations

import pytest
import torch

from specbench.training import unrolled
from specbench.training.eagle3 import feature_layers
from specbench.training.unrolled import UnrolledTrainee, unrolled_mask
from tests.unit.training import plain

KINDS = ("eagle", "eagle3")


def made(kind: str, num_steps: int = 3) -> UnrolledTrainee:
    trainee = plain.trainee(kind, num_steps=num_steps)
    assert isinstance(trainee, UnrolledTrainee)
    return trainee


@pytest.mark.parametrize("kind", KINDS)
def test_step_1_is_the_plain_causal_forward(kind: str):
    trainee, batch = made(kind), plain.batch(plain.answers())
    width = batch.tokens.shape[1] - 2
    embeddings = trainee.embed(batch.tokens[:, 1 : width + 1])
    positions = torch.arange(width).expand(len(embeddings), -1)
    with torch.no_grad():
        causal = trainee.module(embeddings, trainee.enter(batch)[:, :width], positions)
        found = trainee.unroll(batch)[0]
    assert found == pytest.approx(causal, abs=1e-5)


@torch.no_grad()
def differences(kind: str) -> list[float]:
    """The largest difference of each step to drafts one by one, from every place of every row."""
    trainee, samples = made(kind), plain.answers()
    outputs = trainee.unroll(plain.batch(samples))
    largest = [0.0] * trainee.num_steps
    for row, sample in enumerate(samples):
        for start in range(len(sample.tokens) - trainee.num_steps - 1):
            for step, output in enumerate(plain.eagle_draft(trainee, sample, start)):
                difference = (outputs[step][row, start + step] - output).abs().max().item()
                largest[step] = max(largest[step], difference)
    return largest


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_what_a_draft_computes_with_a_cache(kind: str):
    assert max(differences(kind)) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_that_shows_one_key_too_many_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch):
    def leaky(width: int, step: int, device: torch.device | None = None) -> torch.Tensor:
        mask = unrolled_mask(width, step, device)
        keys = torch.arange(width)
        mask[..., :width] |= keys <= keys[:, None] - max(0, step - 2)
        return mask

    monkeypatch.setattr(unrolled, "unrolled_mask", leaky)
    first, second, _ = differences(kind)
    assert first < 1e-5
    assert second > 1e-3


def test_the_mask_of_step_3():
    rows = unrolled_mask(4, 3)[0, 0].int()
    assert rows.shape == (4, 12)
    # input 3 began at 1: sees true states 0 and 1, its own step 2 at 2, and itself
    assert rows[3].tolist() == [1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("num_layers", "layers"),
    [(30, (2, 15, 27)), (6, (2, 3, 3)), (4, (2, 2, 1)), (2, (2, 1, 1)), (1, (1, 1, 1))],
)
def test_features_of_targets_of_any_depth(num_layers: int, layers: tuple[int, int, int]):
    assert feature_layers(num_layers) == layers
