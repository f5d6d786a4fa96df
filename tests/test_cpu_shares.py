"""Shares of the CPUs near a drive, on recorded topology trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from snia_pts.lab.host.cpu_shares import cpu_list, cpu_shares
from tests.hosts import FakeHost

#: The CPUs of each node of a host with two sockets of eight cores; each core has the threads N and N + 16.
_NODES = ("0-7,16-23", "8-15,24-31")
_ALL = frozenset(range(32))


@pytest.fixture(name="two_sockets")
def _two_sockets(tmp_path: Path) -> tuple[Path, Path]:
    """A host with an NVMe drive in a slot of the second socket; the drive's sysfs folder."""
    host = FakeHost(tmp_path)
    for node, cpus in enumerate(_NODES):
        host.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")
    for cpu in _ALL:
        siblings = f"{cpu % 16},{cpu % 16 + 16}\n"
        host.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    return tmp_path, host.nvme()


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        (1, ["8-15,24-31"]),
        (3, ["8-9,24-25", "10-12,26-28", "13-15,29-31"]),
        (4, ["8-9,24-25", "10-11,26-27", "12-13,28-29", "14-15,30-31"]),
        (99, [f"{cpu},{cpu + 16}" for cpu in range(8, 16)]),
    ],
)
def test_shares_are_whole_cores_of_the_node_of_the_drive(
    two_sockets: tuple[Path, Path], count: int, shares: list[str]
) -> None:
    """They are disjoint, together the whole node, and no core is in two of them."""
    root, block = two_sockets
    found = cpu_shares(block, count, _ALL, root)
    assert [cpu_list(share) for share in found] == shares
    assert frozenset().union(*found) == {*range(8, 16), *range(24, 32)}
    assert sum(map(len, found)) == 16


def test_only_cpus_that_the_process_may_use_are_shared(two_sockets: tuple[Path, Path]) -> None:
    """Without a CPU of the drive's node among them, those of another node are shared."""
    root, block = two_sockets
    assert list(map(cpu_list, cpu_shares(block, 2, {0, 9, 10, 25}, root))) == ["9,25", "10"]
    assert list(map(cpu_list, cpu_shares(block, 2, {0, 1, 16, 17}, root))) == ["0,16", "1,17"]


def test_a_host_that_reports_no_nodes_shares_all_cpus(tmp_path: Path) -> None:
    """So does a drive whose node is not reported; each CPU is a core if the threads are not reported."""
    host = FakeHost(tmp_path)
    assert list(map(cpu_list, cpu_shares(host.nvme(), 2, {0, 1, 2, 3}, tmp_path))) == ["0-1", "2-3"]
    assert list(map(cpu_list, cpu_shares(None, 2, {0, 1, 2}, tmp_path))) == ["0", "1-2"]
    assert list(map(cpu_list, cpu_shares(None, 4, {5}, tmp_path))) == ["5"]
