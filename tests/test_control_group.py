"""Limits of the control group in which the suite and fio run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snia_pts.lab.host import tuning
from snia_pts.lab.host.tuning.control_group import Throttling, control_group, read_throttling, throttling_sentence
from snia_pts.runner.setup import host_warnings
from tests.command_line import ENVIRONMENT
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


@pytest.mark.parametrize(
    ("mounts", "groups", "files", "throttling"),
    [
        (
            V2,
            "0::/slice/own\n",
            {
                "slice/own/cpu.stat": "usage_usec 7\nnr_periods 9\nnr_throttled 2\nthrottled_usec 1500000\n",
                "slice/cpu.stat": "nr_throttled 3\nthrottled_usec 500000\n",
                "cpu.stat": "usage_usec 7\n",
            },
            Throttling(5, 2.0),
        ),
        (
            V1,
            OWN_V1,
            {"cpu,cpuacct/slice/own/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\n"},
            Throttling(4, 2.5),
        ),
        (V2, "0::/\n", {"cpu.stat": "nr_throttled many\nnr_throttled\n"}, Throttling(0, 0.0)),
        (V2, "", {}, Throttling(0, 0.0)),
    ],
)
def test_throttling_is_read_of_each_group_above(
    tmp_path: Path, mounts: str, groups: str, files: dict[str, str], throttling: Throttling
) -> None:
    """Version 2 counts microseconds, version 1 nanoseconds; a group above has counts of its own."""
    assert read_throttling(host_of(tmp_path, mounts, groups, files).root) == throttling


def test_throttling_is_a_sentence() -> None:
    """None without any; counters that fell are those of another group."""
    assert throttling_sentence(Throttling(3, 1.0), Throttling(3, 1.0)) == ""
    assert throttling_sentence(Throttling(3, 1.0), Throttling(0, 0.0)) == ""
    assert "12 times, for 2.5 s added over" in throttling_sentence(Throttling(3, 1.0), Throttling(15, 3.5))


@pytest.mark.root
def test_the_kernel_counts_a_real_limit() -> None:
    """A busy process with a fifth of a CPU for 0.5 s is stopped several times."""
    group = Path("/sys/fs/cgroup/cpu") / f"snia-pts-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("20000")
    except OSError:
        pytest.skip("no control groups of version 1 for the CPU here")
    code = (
        "import time, sys\nfrom pathlib import Path\n"
        "from snia_pts.lab.host.tuning.control_group import read_throttling, throttling_sentence\n"
        f"Path({str(group / 'cgroup.procs')!r}).write_text('0')\n"
        "before, end = read_throttling(Path('/')), time.monotonic() + 0.5\n"
        "while time.monotonic() < end:\n    pass\n"
        "print(throttling_sentence(before, read_throttling(Path('/'))))"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    finally:
        group.rmdir()
    assert done.stdout.startswith("a limit of CPU time stopped the processes of the suite's control group ")
