"""The sizes to which lengths are rounded up."""

from __future__ import annotations

from specbench.models.extents import round_up, sizes


def test_every_length_fits_and_little_is_wasted():
    for length in range(1, 9000):
        size = round_up(length)
        assert size >= length
        assert size % 16 == 0
        assert size == round_up(size), "a size is its own"
        assert size - length < max(16, length / 4)


def test_there_are_four_sizes_per_doubling():
    for power in (64, 128, 1024, 8192):
        assert len(sizes(power + 1, 2 * power)) == 4
    assert sizes(1, 64) == [16, 32, 48, 64]


def test_sizes_are_all_that_lengths_between_are_rounded_to():
    for first, last in ((1, 1), (5, 700), (96, 96), (97, 98), (500, 5000)):
        expected = sorted({round_up(length) for length in range(first, last + 1)})
        assert sizes(first, last) == expected
