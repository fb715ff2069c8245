"""What is captured when, how often and under which name; what happens where it can't be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specbench.models.capture import Capturing, Rerun, Steps, StepShape
from tests.tape import TapeCapture

ONE = StepShape("target", 1, 64)


class RecordingCapture:
    """Keeps each function and pool that it gets; a replay runs the function and is counted."""

    def __init__(self) -> None:
        self.pools: list[int] = []
        self.captured: list[int] = []
        self.replays = 0

    def new_pool(self) -> int:
        self.pools.append(len(self.pools))
        return self.pools[-1]

    def capture(self, function: Callable[[], None], pool: int) -> Callable[[], None]:
        self.captured.append(pool)

        def replay() -> None:
            self.replays += 1
            function()

        return replay


class Doubling:
    """A step that can be counted, over memory of its own."""

    def __init__(self) -> None:
        self.calls, self.memory = 0, torch.zeros(2)

    def __call__(self, values: Tensor) -> list[Tensor]:
        self.calls += 1
        self.memory += values
        return [values * 2, self.memory + 0]


@pytest.fixture
def by() -> RecordingCapture:
    return RecordingCapture()


@pytest.fixture
def capturing(by: RecordingCapture) -> Capturing:
    return Capturing(by)


def ones(value: float) -> Tensor:
    return torch.full((2,), value)


def test_a_shape_is_captured_once_and_replayed_after_that(by, capturing):
    steps, step = Steps(capturing), Doubling()
    with capturing.opened():
        found = [steps.run(ONE, step, ones(value))[0].tolist() for value in (1.0, 2.0, 3.0)]
    assert found == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert (len(by.captured), by.replays) == (1, 3)
    assert capturing.captured == {"target": 1}
    assert steps.run(ONE, step, ones(4.0))[0].tolist() == [8.0, 8.0], "replays need no opening"
    assert (len(by.captured), by.replays) == (1, 4)
    assert capturing.take_late() == []


@pytest.mark.parametrize(
    "other",
    [
        StepShape("drafter", 1, 64),
        StepShape("target", 2, 64),
        StepShape("target", 1, 80),
        StepShape("target", 1, 64, "prompt"),
    ],
    ids=str,
)
def test_whatever_differs_is_captured_apart(by, capturing, other):
    steps = Steps(capturing)
    with capturing.opened():
        steps.run(ONE, Doubling(), ones(1.0))
        steps.run(other, lambda values: [values * 3, values], ones(1.0))
        assert steps.run(ONE, Doubling(), ones(1.0))[0].tolist() == [2.0, 2.0]
    assert len(by.captured) == 2


def test_extents_of_a_step_share_their_buffers_and_a_pool(by, capturing):
    steps, step = Steps(capturing), Doubling()
    with capturing.opened():
        first = steps.run(ONE, step, ones(1.0))[0]
        second = steps.run(StepShape("target", 1, 80), step, ones(2.0))[0]
    assert first is second, "an output holds until the next run"
    assert by.captured == [0, 0]
    with capturing.opened():
        Steps(capturing).run(ONE, step, ones(1.0))
    assert by.captured == [0, 0, 1], "what lies over other memory has a pool of its own"


def test_nothing_is_captured_while_something_is_measured(by, capturing):
    steps, step = Steps(capturing), Doubling()
    for _ in range(2):
        assert steps.run(ONE, step, ones(1.0))[0].tolist() == [2.0, 2.0]
    assert by.captured == []
    assert capturing.take_late() == ["target, 1 token per row over 64 slots"]
    assert capturing.take_late() == []
    with capturing.opened():
        steps.run(ONE, step, ones(1.0))
    assert len(by.captured) == 1


def test_opening_nests_and_ends_with_an_error(capturing):
    with capturing.opened(), capturing.opened():
        pass
    with pytest.raises(KeyError), capturing.opened():
        raise KeyError
    assert not capturing.allows(ONE)


def test_a_model_that_cannot_be_captured_runs_as_it_is_with_one_notice(by):
    notices: list[str] = []
    capturing = Capturing(TapeCapture(), notices.append)
    steps = Steps(capturing)

    def waiting(values: Tensor) -> list[Tensor]:
        return [values * values.max().item()]

    with capturing.opened():
        for width in (1, 2):
            shape = StepShape("moe", width, 64)
            assert steps.run(shape, waiting, ones(3.0))[0].tolist() == [9.0, 9.0]
        steps.run(ONE, Doubling(), ones(1.0))
    reason = "moe, 1 token per row over 64 slots: operation not permitted while capturing: item"
    assert capturing.eager == {"moe": reason}
    assert notices == [f"moe runs without captured steps ({reason})"]
    assert capturing.facts() == {"captured": {"target": 1}, "eager": {"moe": reason}}
    assert steps.run(StepShape("moe", 3, 64), waiting, ones(2.0))[0].tolist() == [4.0, 4.0]
    assert capturing.take_late() == [], "it is known already why"


def test_a_model_that_gave_up_is_not_replayed_either(by, capturing):
    """Half of a model captured and half not would show as a verify cost that is none."""
    steps, step = Steps(capturing), Doubling()
    with capturing.opened():
        steps.run(ONE, step, ones(1.0))
    capturing.give_up(StepShape("target", 5, 64), RuntimeError(""))
    replays = by.replays
    steps.run(ONE, step, ones(1.0))
    assert by.replays == replays
    assert capturing.eager["target"].endswith(": RuntimeError")


def test_too_little_memory_says_nothing_of_the_model(by, capturing):
    def large(values: Tensor) -> list[Tensor]:
        raise torch.OutOfMemoryError("too much")

    with capturing.opened(), pytest.raises(torch.OutOfMemoryError):
        Steps(capturing).run(ONE, large, ones(1.0))
    assert capturing.eager == {}


def test_without_capturing_everything_runs_as_it_is():
    step = Doubling()
    given = ones(1.0)
    found = Steps(None).run(ONE, step, given)
    assert step.calls == 1
    assert found[0] is not Steps(None).run(ONE, step, given)[0]


def test_rerunning_is_running_on_fixed_memory():
    capturing, step = Capturing(Rerun()), Doubling()
    steps = Steps(capturing)
    with capturing.opened():
        first = steps.run(ONE, step, ones(1.0))[0]
    assert steps.run(ONE, step, ones(5.0))[0] is first
    assert first.tolist() == [10.0, 10.0]


# ---- the stand-in of the parity tests repeats as a graph does


def test_the_tape_repeats_with_the_buffers_numbers_and_pythons_constants():
    given, result, memory = torch.zeros(3), torch.zeros(3), torch.zeros(3)
    factor, at = 2, 1

    def function() -> None:
        memory[at : at + 1] += given[0]
        result.copy_(given * factor + memory.view(3, 1).reshape(3).float())

    replay = TapeCapture().capture(function, 0)
    memory.zero_()
    factor, at = 100, 0
    given.copy_(torch.tensor([1.0, 2.0, 3.0]))
    replay()
    assert memory.tolist() == [0.0, 1.0, 0.0]
    assert result.tolist() == [2.0, 5.0, 6.0]


@pytest.mark.parametrize(
    "bad",
    [
        lambda values: values.sum().item(),
        lambda values: values.tolist(),
        lambda values: bool(values.sum() > 0),
        lambda values: values.nonzero(),
        lambda values: torch.tensor([1, 2]),
    ],
)
def test_the_tape_refuses_what_a_graph_cannot_hold(bad):
    with pytest.raises(RuntimeError, match="not permitted while capturing"):
        TapeCapture().capture(lambda: bad(torch.ones(2)), 0)
