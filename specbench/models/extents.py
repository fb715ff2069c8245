"""How many slots attention reads: the filled ones, rounded up to one of a few sizes.

A captured step has fixed shapes, so it is captured once per number of slots that its attention
covers. Sizes a quarter of a power of two apart take four captures per doubling of the context, and
attention reads at most 25% more slots than are filled, 9% on average; sizes one distance apart
would be either many or, in short texts, mostly empty. No distance is below 16, so that rows of a
mask begin where attention kernels want them (at multiples of 8 elements).

>>> [round_up(length) for length in (1, 16, 17, 100, 128, 129, 600)]
[16, 16, 32, 112, 128, 160, 640]
>>> sizes(100, 200)
[112, 128, 160, 192, 224]
"""

from __future__ import annotations

_LEAST_DISTANCE = 16


def round_up(length: int) -> int:
    """The smallest size that holds ``length`` slots."""
    power = 1 << (length - 1).bit_length()  # the next power of two
    distance = max(_LEAST_DISTANCE, power // 8)
    return -(-length // distance) * distance


def sizes(first: int, last: int) -> list[int]:
    """All sizes from the one that holds ``first`` slots to the one that holds ``last``."""
    found = [round_up(first)]
    while found[-1] < last:
        found.append(round_up(found[-1] + 1))
    return found
