"""The order in which CUDA is asked, on a fake that writes everything down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from specbench.models.cuda_graphs import CudaGraphs


class FakeCuda:
    """Stands in for ``torch.cuda``; ``log`` has what was called, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.mode: Any = 0
        self.current = FakeStream("main", self)

    def Stream(self, device: torch.device) -> FakeStream:
        return FakeStream(f"side of {device}", self)

    def current_stream(self, device: torch.device) -> FakeStream:
        return self.current

    def graph_pool_handle(self) -> str:
        self.log.append("new pool")
        return f"pool {self.log.count('new pool')}"

    def CUDAGraph(self) -> FakeGraph:
        return FakeGraph(self)

    def get_sync_debug_mode(self) -> Any:
        return self.mode

    def set_sync_debug_mode(self, mode: Any) -> None:
        self.mode = mode

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextlib.contextmanager
    def graph(self, graph: FakeGraph, **options: Any) -> Iterator[None]:
        self.log.append(f"begin {options['pool']} {options['capture_error_mode']}")
        self.current = options["stream"]  # and, as torch's, not given back if the capture fails
        yield
        self.log.append("end")


class FakeStream:
    def __init__(self, name: str, cuda: FakeCuda) -> None:
        self.name, self.cuda = name, cuda

    def wait_stream(self, other: FakeStream) -> None:
        self.cuda.log.append(f"{self.name} waits for {other.name}")


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def replay(self) -> None:
        self.cuda.log.append(f"replay on {self.cuda.current.name}")


def test_warm_up_and_capture_on_a_side_stream_and_replay_on_the_current_one():
    cuda = FakeCuda()
    graphs = CudaGraphs(torch.device("cuda:1"), cuda)
    pool = graphs.new_pool()

    def function() -> None:
        cuda.log.append(f"run on {cuda.current.name}, waiting: {cuda.mode}")

    replay = graphs.capture(function, pool)
    assert cuda.log == [
        "new pool",
        "side of cuda:1 waits for main",
        "run on side of cuda:1, waiting: error",
        "main waits for side of cuda:1",
        "begin pool 1 thread_local",
        "run on side of cuda:1, waiting: 0",
        "end",
    ]
    assert cuda.current.name == "main"
    replay()
    assert cuda.log[-1] == "replay on main"


def test_each_memory_has_a_pool():
    graphs = CudaGraphs(torch.device("cuda"), FakeCuda())
    assert [graphs.new_pool(), graphs.new_pool()] == ["pool 1", "pool 2"]


@pytest.mark.parametrize("when", [1, 2], ids=["in the warm-up", "while capturing"])
def test_an_error_leaves_everything_as_it_was(when):
    cuda = FakeCuda()
    graphs = CudaGraphs(torch.device("cuda"), cuda)
    calls: list[int] = []

    def function() -> None:
        calls.append(1)
        if len(calls) == when:
            raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.raises(RuntimeError, match="synchronizing"):
        graphs.capture(function, "pool")
    assert cuda.mode == 0
    assert cuda.current.name == "main"
