"""GPM: what is asked of the driver, shares from its percentages, and every way to have none."""

from __future__ import annotations

import pytest

from specbench.measure.gpm import Gpm, GpmError
from tests.unit.measure.counting import CountingNvml
from tests.unit.measure.fakes import FakeNvml


def test_two_samples_give_the_shares_between_them():
    fake = CountingNvml()
    fake.pass_time(10.0, dram=0.9)  # before: no part of it
    gpm = Gpm(fake, "handle")
    gpm.begin()
    fake.pass_time(1.0, dram=0.5)
    fake.pass_time(1.0, dram=0.7)
    shares = gpm.end()
    fake.pass_time(10.0, dram=0.9)
    assert shares == {
        "dram_utilization": pytest.approx(0.6),
        "sm_utilization": pytest.approx(0.3),
        "tensor_utilization": pytest.approx(0.15),
    }
    gpm.close()
    assert fake.open_samples == 0


def test_samples_are_used_again():
    fake = CountingNvml()
    gpm = Gpm(fake, "handle")
    for dram in (0.25, 0.75):
        gpm.begin()
        fake.pass_time(2.0, dram=dram)
        assert gpm.end()["dram_utilization"] == pytest.approx(dram)
    assert fake.calls.count("nvmlGpmSampleAlloc") == 2


def test_a_value_that_the_driver_does_not_have_is_none():
    fake = CountingNvml()
    fake.not_a_number = (fake.NVML_GPM_METRIC_DRAM_BW_UTIL,)
    gpm = Gpm(fake, "handle")
    gpm.begin()
    fake.pass_time(1.0, dram=0.5)
    shares = gpm.end()
    assert shares["dram_utilization"] is None
    assert shares["sm_utilization"] == pytest.approx(0.25)


def test_before_hopper_there_are_none():
    fake = CountingNvml()
    fake.gpm = False
    with pytest.raises(GpmError, match="Hopper"):
        Gpm(fake, "handle")


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ("nvmlGpmQueryDeviceSupport", "Function Not Found"),
        ("nvmlGpmSampleAlloc", "Not Supported"),
        ("nvmlGpmSampleGet", "Insufficient Permissions"),
    ],
)
def test_what_the_driver_refuses_is_said_and_given_back(refused: str, reason: str):
    fake = CountingNvml(unsupported=(refused,), reason=reason)
    with pytest.raises(GpmError, match=reason):
        Gpm(fake, "handle")
    assert fake.open_samples == 0


def test_an_older_package_has_no_such_function():
    with pytest.raises(GpmError, match="pip install"):
        Gpm(FakeNvml(), "handle")
