"""The measured region of a cell: told to whoever counts on the device meanwhile.

Decoding goes in stretches, interrupted where a finished row's slot takes the next prompt. What is
done between stretches (copying a prefill, a drafter's own prefill) is no decoding and is not to be
counted. Both calls come between rounds, whose times do not hold them.
"""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Told of stretches of decoding; calls may repeat."""

    def resume(self) -> None:
        """A round is about to begin."""

    def pause(self) -> None:
        """Something else is about to."""


class _Unwatched:
    """Counts nothing."""

    def resume(self) -> None:
        pass

    def pause(self) -> None:
        pass


UNWATCHED = _Unwatched()
