from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specbench.theory.moderated import moderated
from specbench.theory.scatter import Scatter


def drawn(variances: np.ndarray, freedom: int, generator: np.random.Generator) -> list[Scatter]:
    scale = generator.chisquare(freedom, variances.size) / freedom
    return [Scatter(float(variance), freedom) for variance in variances * scale]


def test_what_is_the_same_is_mostly_pooled() -> None:
    generator, whole = np.random.default_rng(1), 0
    for _ in range(200):
        found = moderated(drawn(np.full(24, 4.0), 3, generator))
        whole += found[0].freedom == 72
        assert np.mean([one.variance for one in found]) == pytest.approx(4.0, rel=0.6)
    assert whole >= 0.75 * 200


def test_its_t_is_student_s_where_variances_differ_as_assumed() -> None:
    """Variances from an inverse chi-square of 4 degrees of freedom: tails of 2.5% are 2 to 3.5."""
    generator, beyond, own = np.random.default_rng(2), [], []
    for _ in range(200):
        variances = 4.0 / generator.chisquare(4, 24)
        told = drawn(variances, 3, generator)
        amounts = np.sqrt(variances) * generator.normal(size=24)
        for amount, led, alone in zip(amounts, moderated(told), told, strict=True):
            beyond.append(amount / led.variance**0.5 > stats.t.ppf(0.975, led.freedom))
            own.append(led.freedom > alone.freedom)
    assert 0.018 <= np.mean(beyond) <= 0.035
    assert np.mean(own) == 1.0


def test_a_noisy_block_among_quiet_ones_keeps_most_of_its_own() -> None:
    generator = np.random.default_rng(3)
    variances = np.where(np.arange(24) % 3 == 0, 0.04**2, 0.003**2)
    noisy, quiet = [], []
    for _ in range(100):
        found = moderated(drawn(variances, 2, generator))
        noisy += [one.variance for one in found[::3]]
        quiet += [one.variance for one in found[1::3]]
    assert np.mean(noisy) > 0.5 * 0.04**2
    assert np.median(quiet) < 3 * 0.003**2  # pooled: 60 times


def test_what_nothing_tells_has_the_common_one() -> None:
    alike = moderated([Scatter(1.0, 5), None, Scatter(1.1, 5)])
    assert alike[1] == Scatter(pytest.approx(1.05), 10.0)
    generator = np.random.default_rng(4)
    apart = moderated([*drawn(4.0 / generator.chisquare(2, 30), 20, generator), None])
    assert apart[-1] is not None
    assert apart[-1].freedom < 10
    assert moderated([None, None]) == [None, None]
    assert moderated([]) == []


def test_one_alone_and_those_that_are_0_stay_as_they_are() -> None:
    assert moderated([Scatter(2.0, 3)]) == [Scatter(2.0, 3.0)]
    assert moderated([Scatter(0.0, 3), Scatter(0.0, 1)]) == [Scatter(0.0, 4.0)] * 2
