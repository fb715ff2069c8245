"""Capturing with CUDA graphs.

The graphs over one cache share one pool of memory: what a step computes on the way lies where that
of the others lies, as only one runs at a time. A pool is given back when the last of its graphs is
gone. They are captured on a stream of their own, as CUDA demands, and replayed on the current one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


class CudaGraphs:
    """A :class:`~specbench.models.capture.Capture` on one CUDA device.

    Args:
        device: where everything lies that is captured.
        cuda: stands in for ``torch.cuda`` in tests.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._cuda = cuda
        self._device = device
        self._stream = cuda.Stream(device)

    def new_pool(self) -> Any:
        return self._cuda.graph_pool_handle()

    def capture(self, function: Callable[[], None], pool: Any) -> Callable[[], None]:
        """Warm up, which also finds what waits for the device, then capture.

        A step that waits can't be captured, and trying would leave the stream in a bad state: so
        waiting is an error in the warm-up already.
        """
        current = self._cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with self._cuda.stream(self._stream), self._no_waiting():
            function()
        current.wait_stream(self._stream)
        graph = self._cuda.CUDAGraph()
        with (
            self._cuda.stream(self._stream),  # gives the current stream back, whatever happens
            self._cuda.graph(
                graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"
            ),
        ):
            function()
        replay: Callable[[], None] = graph.replay
        return replay

    @contextlib.contextmanager
    def _no_waiting(self) -> Iterator[None]:
        """Make torch raise where it would wait for the device."""
        before = self._cuda.get_sync_debug_mode()
        self._cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            self._cuda.set_sync_debug_mode(before)
