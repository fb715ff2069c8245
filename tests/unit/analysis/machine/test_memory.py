from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.machine.memory import Memory
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run


def test_a_drafter_takes_the_room_of_sequences() -> None:
    memory = Memory(1000.0, 400.0, 2.0, 100.0, 0.5, 10.0)
    assert memory.missing == ()
    assert memory.sequences_without == 30  # 600 / (2 x 10)
    assert memory.sequences_with == 20  # 500 / (2.5 x 10)


def test_unknown_keys_and_values_make_an_upper_bound_and_are_named() -> None:
    memory = Memory(1000.0, 400.0, 2.0, 100.0, None, 10.0)
    assert memory.sequences_with == 25
    assert memory.missing == ("the drafter's bytes of keys and values per token",)


def test_what_is_not_recorded_is_named(tmp_path: Path) -> None:
    drafters = {"model:x": SimulatedDrafter(0.7, 0.1), "ngram": SimulatedDrafter(0.7, 0.1)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=3)
    model, ngram = (group.memory for group in fit_run(load_run(folder)).groups)
    assert model is not None
    assert ngram is not None
    assert model.context == pytest.approx(100 + 64)
    assert (model.sequences_without, model.sequences_with) == (None, None)
    assert len(model.missing) == 5
    assert ngram.drafter_kv_bytes_per_token == 0.0


def test_a_target_that_does_not_fit_leaves_no_sequence() -> None:
    assert Memory(100.0, 400.0, 2.0, 0.0, 0.0, 10.0).sequences_without == 0
