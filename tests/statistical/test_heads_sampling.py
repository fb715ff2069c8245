"""Sampled output with heads is distributed as the target's own.

With eight tokens a random head overlaps enough with the target that both acceptance and rejection
are frequent. The head's files are written as published, some with a vocabulary cut to five.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests import published
from tests.lossless import SOUND, enumerated_joint, joint_p_value
from tests.tiny import alpha, copies, language_model, make_drafter, run_cell

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
WARPS = {
    "cool": SamplingParams(0.7),
    "plain": SamplingParams(1.0),
    "cool, top-k": SamplingParams(0.7, top_k=5),
    "plain, top-p": SamplingParams(1.0, top_p=0.9),
}
SPECS = (
    "medusa:{}/medusa",
    "medusa:{}/medusa,vocab=5",
    "medusa:{}/medusa,tree=8",
    "eagle:{}/eagle",
    "eagle:{}/eagle,vocab=5",
    "eagle:{}/eagle,tree=8,topk=3",
    "eagle3:{}/eagle3",
    "eagle3:{}/few",
    "eagle3:{}/few,tree=8,topk=3",
)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=8, seed=4)


@functools.cache
def joint(sampling: SamplingParams, length: int):
    return enumerated_joint(target(), PROMPT, sampling, length)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("heads")
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    ranking = [6, 2, 5, 1, 3]
    published.write_ranking(published.write_medusa(made / "medusa", target()), ranking)
    published.write_ranking(published.write_eagle(made / "eagle", target()), ranking)
    published.write_eagle3(made / "eagle3", target(), **layers)
    published.write_eagle3(made / "few", target(), ids=sorted(ranking), **layers)
    return made


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("spec", SPECS)
def test_speculation_samples_from_the_model(folder, spec, warp):
    drafter = make_drafter(target(), spec.format(folder))
    generation = run_cell(
        target(),
        drafter,
        copies(PROMPT, 600),
        gamma=2,
        batch_size=48,
        sampling=WARPS[warp],
        max_new_tokens=3,
    )
    assert 0.05 < alpha(generation) < 0.97
    assert joint_p_value(generation.outputs, joint(WARPS[warp], 3)) > SOUND
    assert drafter.samples == ("tree" not in spec)


@pytest.mark.parametrize("spec", ["medusa:{}/medusa,vocab=5", "eagle:{}/eagle", "eagle3:{}/few"])
def test_longer_drafts_in_small_batches(folder, spec):
    """Every position of a draft of three counts, rows accept differently, slots are refilled."""
    generation = run_cell(
        target(),
        spec.format(folder),
        copies(PROMPT, 700),
        gamma=3,
        batch_size=7,
        sampling=WARPS["plain"],
        max_new_tokens=4,
    )
    assert joint_p_value(generation.outputs, joint(WARPS["plain"], 4)) > SOUND
