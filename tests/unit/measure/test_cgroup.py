"""Limits of control groups: both versions, inherited ones, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.measure.cgroup import cpu_quota, memory_left, memory_limit

TREE = "sys/fs/cgroup"


@pytest.fixture
def root(tmp_path: Path):
    def write(**files: str) -> Path:
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return lambda files: write(**files)


def test_without_control_groups_nothing_is_limited(tmp_path: Path):
    assert (cpu_quota(tmp_path), memory_limit(tmp_path)) == (None, None)
    assert memory_left(tmp_path) is None


def test_max_is_no_limit(root):
    files = {"proc/self/cgroup": "0::/\n", f"{TREE}/cpu.max": "max 100000\n"}
    machine = root({**files, f"{TREE}/memory.max": "max\n"})
    assert (cpu_quota(machine), memory_limit(machine)) == (None, None)


def test_a_container_sees_its_own_group_as_the_root(root):
    files = {"proc/self/cgroup": "0::/\n", f"{TREE}/cpu.max": "150000 100000\n"}
    machine = root({**files, f"{TREE}/memory.max": "1073741824\n"})
    assert (cpu_quota(machine), memory_limit(machine)) == (1.5, 2**30)


def test_the_lowest_limit_of_all_groups_above_holds(root):
    machine = root(
        {
            "proc/self/cgroup": "0::/jobs/one/step\n",
            f"{TREE}/jobs/cpu.max": "400000 100000\n",
            f"{TREE}/jobs/one/cpu.max": "200000 100000\n",
            f"{TREE}/jobs/one/step/cpu.max": "max 100000\n",
            f"{TREE}/jobs/memory.max": "100\n",
            f"{TREE}/jobs/one/memory.max": "200\n",
            "sys/fs/memory.max": "1\n",  # above the tree: no group
        }
    )
    assert (cpu_quota(machine), memory_limit(machine)) == (2.0, 100)


def test_what_a_group_uses_is_not_left_but_what_files_take_is(root):
    machine = root(
        {
            "proc/self/cgroup": "0::/job\n",
            f"{TREE}/job/memory.max": "1000\n",
            f"{TREE}/job/memory.current": "900\n",
            f"{TREE}/job/memory.stat": "anon 500\ninactive_file 300\nactive_file 100\n",
            f"{TREE}/memory.max": "max\n",
        }
    )
    assert (memory_limit(machine), memory_left(machine)) == (1000, 400)


def test_the_first_version_has_a_tree_per_controller(root):
    machine = root(
        {
            "proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n2:cpuset:/\n",
            f"{TREE}/cpu/docker/x/cpu.cfs_quota_us": "300000\n",
            f"{TREE}/cpu/docker/x/cpu.cfs_period_us": "100000\n",
            f"{TREE}/cpu/cpu.cfs_quota_us": "-1\n",
            f"{TREE}/cpu/cpu.cfs_period_us": "100000\n",
            f"{TREE}/memory/docker/x/memory.limit_in_bytes": "4096\n",
            f"{TREE}/memory/docker/x/memory.usage_in_bytes": "96\n",
            f"{TREE}/memory/memory.limit_in_bytes": "9223372036854771712\n",
        }
    )
    assert (cpu_quota(machine), memory_limit(machine)) == (3.0, 4096)
    assert memory_left(machine) == 4000
