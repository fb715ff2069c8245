"""Steps of fixed shape: captured once, then replayed with other numbers in the same memory.

Most of a small forward's time on a GPU goes into launching its kernels. A CUDA graph launches them
all at once, but repeats exactly what was captured: the same kernels on the same addresses with the
same numbers from Python. So a step that is to be captured takes all that varies as tensors (tokens,
and the slot where each row starts), writes into memory that stays (a cache), and is captured once
per shape::

    steps = Steps(Capturing(CudaGraphs(device)))
    logits, = steps.run(StepShape("target", width=1, extent=256), step, tokens, starts)

:meth:`Steps.run` copies the inputs into buffers of its own, replays, and returns buffers too. They
hold until the next run of the same model, width and form: whoever keeps an output longer copies it.

Who captures is behind a seam, :class:`Capture`. It happens in warm-ups only: inside a measured
region a shape that was not met before runs as it is, and its name is kept. A model that can't be
captured runs as it is from then on, and the reason is kept.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from specbench.errors import first_line

Function = Callable[..., Sequence[Tensor]]
"""What a step computes: for inputs of the same shapes, outputs of the same shapes."""


class Capture(Protocol):
    """How a function is captured."""

    def new_pool(self) -> Any:
        """Memory for what the steps over one cache compute on the way."""

    def capture(self, function: Callable[[], None], pool: Any) -> Callable[[], None]:
        """Run a function of fixed memory, as often as needed, and return what repeats it.

        Raises:
            Exception: it does what can't be repeated, such as reading a number back to the host.
        """


class Rerun:
    """Captures nothing and runs the function again: for compiled steps without graphs."""

    def new_pool(self) -> None:
        return None

    def capture(self, function: Callable[[], None], pool: None) -> Callable[[], None]:
        return function


@dataclass(frozen=True)
class StepShape:
    """What a captured step is known by.

    Attributes:
        model: whose step it is, by name.
        width: tokens per row.
        extent: slots that attention covers; 0 without a cache.
        form: whatever else decides which tensors go in and come out.
    """

    model: str
    width: int
    extent: int = 0
    form: Hashable = ()

    def __str__(self) -> str:
        tokens = "1 token" if self.width == 1 else f"{self.width} tokens"
        over = f" over {self.extent} slots" if self.extent else ""
        return f"{self.model}, {tokens} per row{over}"


class Capturing:
    """Whether steps may be captured now, by whom, and what became of it.

    Args:
        by: who captures.
        notify: told once per model that can't be captured, in a line.

    Attributes:
        captured: captured steps by model.
        eager: why the steps of a model run as they are, by model.
    """

    def __init__(self, by: Capture, notify: Callable[[str], None] = lambda text: None) -> None:
        self.by = by
        self.captured: Counter[str] = Counter()
        self.eager: dict[str, str] = {}
        self._notify = notify
        self._open = False
        self._late: dict[str, None] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Capture what is not captured yet: nothing is measured meanwhile."""
        before, self._open = self._open, True
        try:
            yield
        finally:
            self._open = before

    def allows(self, shape: StepShape) -> bool:
        """Whether a step may be captured now; if not, it is noted as late."""
        if not self._open:
            self._late[str(shape)] = None
        return self._open

    def leave_out(self, model: str, reason: str) -> None:
        """Let a model's steps run as they are from the beginning."""
        self.eager[model] = reason
        self._notify(f"{model} runs without captured steps ({reason})")

    def give_up(self, shape: StepShape, error: Exception) -> None:
        """Let a model's steps run as they are from now on."""
        reason = first_line(error)
        self.eager[shape.model] = f"{shape}: {reason}"
        self._notify(f"{shape.model} runs without captured steps ({shape}: {reason})")

    def facts(self) -> dict[str, dict[str, Any]]:
        """For the record: how many steps of each model were captured, and why others' were not."""
        return {"captured": dict(self.captured), "eager": dict(self.eager)}

    def take_late(self) -> list[str]:
        """Steps that were met where nothing could be captured, since this was last asked."""
        late, self._late = list(self._late), {}
        return late


class Steps:
    """The captured steps over one piece of memory, such as a cache; they vanish with it.

    Args:
        capturing: None runs everything as it is.
    """

    def __init__(self, capturing: Capturing | None) -> None:
        self.capturing = capturing
        self._pool = None if capturing is None else capturing.by.new_pool()
        self._captured: dict[StepShape, _Captured] = {}
        self._buffers: dict[StepShape, tuple[list[Tensor], list[Tensor]]] = {}

    def run(self, shape: StepShape, function: Function, *inputs: Tensor) -> Sequence[Tensor]:
        """What ``function(*inputs)`` returns: captured if it may be, replayed if it was.

        Args:
            shape: everything but the inputs' numbers that decides what the function does.
            function: reads and writes nothing but its inputs and memory that stays.
            inputs: on the device; of the same shapes for the same ``shape``.
        """
        capturing = self.capturing
        if capturing is None or shape.model in capturing.eager:
            return function(*inputs)
        step = self._captured.get(shape)
        if step is None:
            if not capturing.allows(shape):
                return function(*inputs)
            try:
                step = self._capture(capturing.by, shape, function, inputs)
            except torch.OutOfMemoryError:  # says nothing of the model
                raise
            except Exception as error:
                capturing.give_up(shape, error)
                return function(*inputs)
            capturing.captured[shape.model] += 1
            self._captured[shape] = step
        _fill(step.given, inputs)
        step.replay()
        return step.results

    def _capture(
        self, by: Capture, shape: StepShape, function: Function, inputs: Sequence[Tensor]
    ) -> _Captured:
        """Capture a step on buffers that it shares with its other extents: one runs at a time.

        Results are copied into buffers outside the pool, which the steps over a cache share and
        overwrite. Running the function first lets it allocate what stays, and compile.
        """
        values = function(*inputs)
        made = [_like(value) for value in inputs], [_like(value) for value in values]
        given, results = self._buffers.setdefault(replace(shape, extent=0), made)
        _fill(given, inputs)

        def fixed() -> None:
            _fill(results, function(*given))

        return _Captured(by.capture(fixed, self._pool), given, results)


@dataclass(frozen=True)
class _Captured:
    """How a step is repeated, and the buffers that it reads and writes."""

    replay: Callable[[], None]
    given: list[Tensor]
    results: list[Tensor]


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _fill(buffers: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.copy_(value)
