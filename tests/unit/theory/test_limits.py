from __future__ import annotations

import math

import pytest

from specbench.errors import SpecbenchError
from specbench.theory.limits import Forward, Machine, accepted_reference
from specbench.theory.traffic import Experts

SMALL = Forward(weight_bytes=2e9, kv_bytes=5e8, parameters=1e9)
MACHINE = Machine(bandwidth_bytes_per_s=1e12, matmul_flops_per_s=1e14)


def test_the_reference_of_drafting_by_hand() -> None:
    assert accepted_reference(2.0, 6.0, math.e) == pytest.approx((2 + 6) * 1 / 4)
    assert accepted_reference(0.5, 0.5, 5) == pytest.approx(1.0 / 0.25 * math.log(5))
    assert accepted_reference(1.0, 1.0, 1) == 0.0
    assert accepted_reference(0.0, 0.0, 5) is None


def test_a_fair_coin_of_eight_sides_has_known_moments() -> None:
    entropy, second = math.log(8), math.log(8) ** 2
    assert accepted_reference(entropy, second, 8) == pytest.approx(1 + math.log(8))


@pytest.mark.parametrize("arguments", [(-1.0, 1.0, 2), (1.0, float("nan"), 2), (1.0, 1.0, 0.5)])
def test_what_cannot_be_is_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(SpecbenchError, match="out of range"):
        accepted_reference(*arguments)


def test_the_roofline_by_hand() -> None:
    assert MACHINE.moving_s(SMALL) == pytest.approx(2.5e-3)
    assert MACHINE.computing_s(SMALL, 1) == pytest.approx(2e-5)
    assert MACHINE.seconds(SMALL, 1) == pytest.approx(2.5e-3)
    assert MACHINE.seconds(SMALL, 1000) == pytest.approx(2e-2)
    assert MACHINE.compute_bound_from(SMALL) == pytest.approx(125)


def test_v_rises_where_verification_becomes_compute_bound() -> None:
    assert MACHINE.v(SMALL, 1, 5) == 1.0
    assert MACHINE.v(SMALL, 25, 5) == pytest.approx(1.0)  # 125 tokens: just as long
    assert MACHINE.v(SMALL, 25, 10) == pytest.approx(2.0)
    assert MACHINE.v(SMALL, 250, 4) == pytest.approx(4.0)  # one token a row is bound already


def test_what_was_not_measured_stays_unknown() -> None:
    blind = Machine(None, 1e14)
    assert blind.moving_s(SMALL) is None
    assert blind.v(SMALL, 1, 5) is None
    assert Machine(1e12, None).computing_s(SMALL, 1) is None
    assert Machine(1e12, None).compute_bound_from(SMALL) is None


MIXTURE = Forward(
    weight_bytes=1e9, kv_bytes=0.0, parameters=1e9, experts=Experts(16e9, count=16, active=1)
)


def test_the_roofline_of_experts_by_hand() -> None:
    # one token reads 1 GB and one expert of 1 GB; two tokens 1 + 1/16 less than two experts
    assert MIXTURE.bytes == pytest.approx(2e9)
    assert MIXTURE.bytes_for(2) == pytest.approx(1e9 + 16e9 * (1 - (15 / 16) ** 2))
    assert MACHINE.moving_s(MIXTURE, 2) == pytest.approx(2.9375e-3)
    # bound by bytes, v rises all the same: more tokens touch more experts
    assert MACHINE.v(MIXTURE, 1, 2) == pytest.approx(2.9375 / 2)
    assert MACHINE.v(SMALL, 1, 2) == 1.0


def test_experts_move_the_turn_to_where_operations_take_as_long() -> None:
    tokens = MACHINE.compute_bound_from(MIXTURE)
    assert tokens is not None
    assert MACHINE.computing_s(MIXTURE, tokens) == pytest.approx(MACHINE.moving_s(MIXTURE, tokens))
    assert tokens == pytest.approx(850, rel=1e-3)  # all experts are touched by then: 17 GB


def test_attention_adds_to_the_operations_of_every_token() -> None:
    long = Forward(2e9, 5e8, parameters=1e9, attention_flops=2e9)
    assert long.flops(3) == 3 * (2e9 + 2e9)
    assert MACHINE.compute_bound_from(long) == pytest.approx(62.5)
