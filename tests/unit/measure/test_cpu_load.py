"""Others' load: this process left out, only usable cores counted, the busiest named."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from specbench.measure import cpu_load
from specbench.measure.cpu_load import Load, others_load

OWN = os.getpid()


class FakeProcessor:
    """The kernel's books before and after a look of one second.

    Args:
        cores: seconds that each core worked in it.
        processes: (number, name) -> seconds that it took.
    """

    def __init__(self, cores: list[float], processes: dict[tuple[int, str], float]) -> None:
        self._cores, self._processes = cores, processes
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def cpu_times(self, percpu: bool) -> list[Any]:
        assert percpu
        return [
            SimpleNamespace(user=100 + spent * self.now, system=5.0, idle=7.0)
            for spent in self._cores
        ]

    def process_iter(self, fields: list[str]) -> list[Any]:
        assert fields == ["pid", "name", "cpu_times"]
        infos = [
            {
                "pid": number,
                "name": name,
                "cpu_times": SimpleNamespace(user=9.0, system=spent * self.now),
            }
            for (number, name), spent in self._processes.items()
        ]
        hidden = {"pid": 1, "name": "init", "cpu_times": None}
        return [SimpleNamespace(info=info) for info in [*infos, hidden]]


def look(fake: FakeProcessor) -> Load:
    return others_load(1.0, fake, fake.sleep, lambda: fake.now)


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch):
    def use(*cores: int) -> None:
        monkeypatch.setattr(cpu_load.os, "sched_getaffinity", lambda _: set(cores), raising=False)

    return use


def test_this_process_is_no_other(affinity):
    affinity(0, 1)
    fake = FakeProcessor([1.0, 0.75], {(OWN, "python3"): 1.0, (7, "cc1plus"): 0.75})
    assert look(fake) == Load(0.75, ["cc1plus (7)"])


def test_only_cores_that_may_be_used_count(affinity):
    affinity(1, 2)
    assert look(FakeProcessor([1.0, 0.0, 0.25, 1.0], {})).busy_cores == pytest.approx(0.25)


def test_a_container_that_sees_its_own_cores_only_counts_them_all(affinity):
    affinity(6, 7)
    assert look(FakeProcessor([0.5, 0.25], {})).busy_cores == pytest.approx(0.75)


def test_the_busiest_are_named_first_and_the_idle_not_at_all(affinity):
    affinity(0, 1)
    fake = FakeProcessor(
        [1.0, 1.0], {(1, "a"): 0.3, (2, "b"): 0.9, (3, "c"): 0.05, (4, "d"): 0.4, (5, "e"): 0.2}
    )
    assert look(fake).busiest == ["b (2)", "d (4)", "a (1)"]


def test_a_quiet_machine_has_no_negative_load(affinity):
    affinity(0)
    assert look(FakeProcessor([0.01], {(OWN, "python3"): 0.02})) == Load(0.0, [])
