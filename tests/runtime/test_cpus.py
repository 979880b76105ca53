import os

import pytest

from clgraph.runtime.cpus import usable_cores


def tree(root, cgroup, files):
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/", {}, 8),
        ("0::/", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ("0::/", {"sys/fs/cgroup/cpu.max": "350000 100000\n"}, 3),
        ("0::/", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ("0::/a/b", {"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 2),
        (
            "4:cpu,cpuacct:/x",
            {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "400000", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"},
            4,
        ),
        (
            "4:cpu,cpuacct:/x",
            {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"},
            8,
        ),
        ("7:memory:/x", {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "100000"}, 8),
        ("3:cpu:/x", {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "200000"}, 2),
    ],
)
def test_cores_are_cut_to_the_quota_of_the_control_groups(tmp_path, cgroup, files, cores):
    assert usable_cores(tree(tmp_path, cgroup, files)) == cores


def test_without_control_groups_the_affinity_counts(tmp_path):
    assert usable_cores(tmp_path) == 8
