"""Limits of the control group in which the suite and fio run."""

from __future__ import annotations

from pathlib import Path

import pytest

from snia_pts.lab.host import tuning
from snia_pts.lab.host.tuning.control_group import control_group
from snia_pts.runner.setup import host_warnings
from tests.hosts import FakeHost

V1 = "".join(
    f"3{number} 2{number} 0:3{number} {part} /cg/{name} rw - cgroup cgroup rw,{name}\n"
    for number, (name, part) in enumerate((("cpu,cpuacct", "/"), ("blkio", "/docker"), ("cpuset", "/")))
)
V2 = "30 23 0:26 / /cg rw,relatime - cgroup2 cgroup2 rw\n"
OWN_V1 = "4:cpuset:/set\n3:blkio:/docker/a\n2:cpu,cpuacct:/slice/own\n1:name=systemd:/x\n0::/\n"


def host_of(tmp_path: Path, mounts: str, groups: str, files: dict[str, str]) -> FakeHost:
    """Return a host with four CPUs."""
    host = FakeHost(tmp_path)
    host.write("proc/self/mountinfo", mounts)
    host.write("proc/self/cgroup", groups)
    host.write("sys/devices/system/cpu/online", "0-3\n")
    for name, text in files.items():
        host.write(f"cg/{name}", text)
    return host


@pytest.mark.parametrize(
    ("mounts", "groups", "files", "value"),
    [
        (V2, "0::/slice/own\n", {"slice/own/cpu.max": "max 100000\n", "slice/own/io.max": "8:0 rbps=max\n"}, ""),
        (V2, "0::/slice/own\n", {"slice/cpu.max": "40000 100000\n"}, "CPU time of 0.4 CPUs"),
        (
            V2,
            "0::/\n",
            {"io.max": "8:7 rbps=max wbps=1000 riops=max wiops=2000\n"},
            "io.max of 8:7: wbps=1000 wiops=2000",
        ),
        (V2, "0::/own\n", {"own/cpuset.cpus.effective": "0-1\n", "cpuset.cpus.effective": "0-3"}, "CPUs 0-1 of 0-3"),
        (V2, "0::/own\n", {"own/cpuset.cpus.effective": "0-3\n"}, ""),
        (V1, OWN_V1, {"cpu,cpuacct/slice/own/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, ""),
        (
            V1,
            OWN_V1,
            {
                "cpu,cpuacct/slice/cpu.cfs_quota_us": "150000",
                "cpu,cpuacct/slice/cpu.cfs_period_us": "100000",
                "blkio/a/blkio.throttle.write_iops_device": "8:7 2000\n8:8 100\n",
                "cpuset/set/cpuset.cpus": "2",
            },
            "blkio.throttle.write_iops_device of 8:7: 2000; blkio.throttle.write_iops_device of 8:8: 100; "
            "CPU time of 1.5 CPUs; CPUs 2 of 0-3",
        ),
    ],
)
def test_limits_are_a_warning(tmp_path: Path, mounts: str, groups: str, files: dict[str, str], value: str) -> None:
    """Those of the own group and of each above it; the effective CPUs are those of the own group."""
    host = host_of(tmp_path, mounts, groups, files)
    found = control_group(host.root).setting
    assert (found.value, found.judgement) == ((value, "affects results") if value else ("no limits", "good"))
    assert found in [item.setting for item in tuning.inspect(None, root=host.root, sample_seconds=0)]
    assert [warning for warning in host_warnings([found]) if value] == [*host_warnings([found])]
    assert any(value in warning.detail for warning in host_warnings([found])) == bool(value)


@pytest.mark.parametrize("groups", ["", "0::/elsewhere\n", "nonsense", "7:cpu:/a\n"])
def test_a_group_that_is_not_visible_is_unknown(tmp_path: Path, groups: str) -> None:
    """Its files are not mounted here, or the kernel does not say which group it is."""
    host = host_of(tmp_path, V2.replace(" / /cg", " /part /cg"), groups, {"cpu.max": "1 100000"})
    assert control_group(host.root).setting.judgement == "unknown"
