"""How many drives of a host are tested side by side: a table of loads, and recorded trees of sysfs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from snia_pts.analysis.side_by_side import DriveLoad, SharedLink, SideBySide, fit_side_by_side
from snia_pts.lab.device.identity import block_dut
from snia_pts.lab.host.side_by_side import read_load
from tests.hosts import FakeHost
from tests.strategies import dut

#: MB/s of PCIe 3.0 x4 and of SATA.
_NVME, _SATA = 3938.46, 600.0
_COST_US = 1.5
_UPLINK = SharedLink("PCIe 3.0 x8 at 0000:10:00.0", 2 * _NVME)


def spaced(text: str) -> str:
    """Return a text with narrow spaces for the underscores of its numbers."""
    return text.replace("_", "\N{NARROW NO-BREAK SPACE}")


def load(mb_per_second: float | None, cpus: int, node: int | None = None, *links: SharedLink) -> DriveLoad:
    """Return the load of a drive."""
    return DriveLoad(mb_per_second=mb_per_second, node=node, cpus=cpus, links=links)


@pytest.mark.parametrize(
    ("loads", "cost_us", "expected"),
    [
        ([], None, SideBySide(1, "0 drives, and all fit")),
        ([load(_NVME, 1)], _COST_US, SideBySide(1, "1 drive, and all fit")),
        ([load(_NVME, 9)] * 3, _COST_US, SideBySide(3, "3 drives, and all fit")),
        (
            [load(_NVME, 8)] * 3,
            _COST_US,
            SideBySide(2, "this host has 8 CPUs, and a test can use 2.9 (from the calibration and the link)"),
        ),
        ([load(_NVME, 8)] * 5, None, SideBySide(4, "this host has 8 CPUs, and a test can use 2.0 (assumed)")),
        ([load(None, 8)] * 5, _COST_US, SideBySide(4, "this host has 8 CPUs, and a test can use 2.0 (assumed)")),
        ([load(None, 1)] * 5, None, SideBySide(1, "this host has 1 CPU, and a test can use 2.0 (assumed)")),
        (
            [load(_SATA, 4)] * 5,
            _COST_US,
            SideBySide(4, "this host has 4 CPUs, and a test can use 1.0 (from the calibration and the link)"),
        ),
        (
            [load(_SATA, 4, 0)] * 4 + [load(_NVME, 4, 1)] * 3,
            _COST_US,
            SideBySide(1, "NUMA node 1 has 4 CPUs, and a test can use 2.9 (from the calibration and the link)"),
        ),
        (
            [load(_NVME, 99, None, _UPLINK)] * 3 + [load(_NVME, 99)] * 3,
            _COST_US,
            SideBySide(
                2,
                spaced("PCIe 3.0 x8 at 0000:10:00.0 transfers 7_877 MB/s, and 3 drives of up to 3_938 MB/s share it"),
            ),
        ),
        ([load(_NVME, 99, None, _UPLINK)] * 2, _COST_US, SideBySide(2, "2 drives, and all fit")),
        (
            [load(_NVME, 99, None, SharedLink("slow", 985.0))] * 2,
            _COST_US,
            SideBySide(1, spaced("slow transfers 985 MB/s, and 2 drives of up to 3_938 MB/s share it")),
        ),
        ([load(None, 99, None, _UPLINK)] * 9, _COST_US, SideBySide(9, "9 drives, and all fit")),
    ],
)
def test_as_many_fit_as_the_cpus_and_the_links_bear(
    loads: list[DriveLoad], cost_us: float | None, expected: SideBySide
) -> None:
    """The reason names what limits them; at least one is tested, also where one alone fills a link."""
    assert fit_side_by_side(loads, cost_us) == expected


def loads_of(host: FakeHost, *blocks: Path) -> list[DriveLoad]:
    """Return the loads of disks of a made-up host with 99 CPUs."""
    root = host.root
    found = (read_load(block_dut(root / "dev" / block.name, block, root), root) for block in blocks)
    return [replace(load, cpus=99) for load in found]


def test_drives_behind_a_switch_share_its_uplink(tmp_path: Path) -> None:
    """Four drives of PCIe 3.0 x4 behind one of x8: two fit."""
    host = FakeHost(tmp_path)
    for key, text in {"current_link_speed": "8.0 GT/s PCIe\n", "current_link_width": "8\n"}.items():
        host.write(f"sys/devices/pci0000:00/0000:10:00.0/{key}", text)
    blocks = [host.nvme(number, address=f"0000:10:00.0/0000:11:0{number}.0") for number in range(4)]
    loads = loads_of(host, *blocks)
    assert [link.name for link in loads[0].links] == ["PCIe 3.0 x4 at 0000:11:00.0", "PCIe 3.0 x8 at 0000:10:00.0"]
    assert fit_side_by_side(loads, 1e-3) == SideBySide(
        2, spaced("PCIe 3.0 x8 at 0000:10:00.0 transfers 7_877 MB/s, and 4 drives of up to 3_938 MB/s share it")
    )


def test_drives_behind_an_expander_share_its_port(tmp_path: Path) -> None:
    """Three drives of SAS 12 Gb/s behind a port of two lanes: two fit."""
    host = FakeHost(tmp_path)
    port = "pci0000:00/host0/port-0:0"
    for number in range(2):
        phy = f"phy-0:{number}"
        host.write(f"sys/devices/{port}/{phy}/sas_phy/{phy}/negotiated_linkrate", "12.0 Gbit\n")
    blocks = []
    for number in range(3):
        own, phy = f"{port}/expander-0:0/port-0:0:{number}", f"phy-0:0:{number}"
        host.write(f"sys/devices/{own}/{phy}/sas_phy/{phy}/negotiated_linkrate", "12.0 Gbit\n")
        end = f"{own}/end_device-0:0:{number}"
        blocks.append(host.disk(f"sd{'abc'[number]}", place=f"{end}/target0:0:{number}/0:0:{number}:0/block"))
    assert fit_side_by_side(loads_of(host, *blocks), 1e-3) == SideBySide(
        2, spaced("SAS 12 Gb/s x2 at port-0:0 transfers 2_400 MB/s, and 3 drives of up to 1_200 MB/s share it")
    )


def test_drives_at_a_usb_hub_share_it(tmp_path: Path) -> None:
    """The hub is as fast as each of its two drives: one fits."""
    host = FakeHost(tmp_path)
    hub = "pci0000:00/usb2/2-1"
    for folder in (hub, f"{hub}/2-1.1", f"{hub}/2-1.2"):
        host.write(f"sys/devices/{folder}/speed", "5000\n")
    blocks = [host.disk(f"sd{number}", place=f"{hub}/2-1.{number}/host4/block") for number in (1, 2)]
    assert fit_side_by_side(loads_of(host, *blocks), 1e-3) == SideBySide(
        1, "USB 5000 Mb/s at 2-1 transfers 625 MB/s, and 2 drives of up to 625 MB/s share it"
    )


def test_the_cpus_are_those_of_the_node_of_the_drive(tmp_path: Path) -> None:
    """Of a host with two nodes, this process may use the CPUs of the second one."""
    host = FakeHost(tmp_path)
    own = min(os.sched_getaffinity(0))
    host.write("sys/devices/system/node/node0/cpulist", "4000-4007\n")
    host.write("sys/devices/system/node/node1/cpulist", f"{own}\n")
    block = host.nvme()
    found = read_load(block_dut(tmp_path / "dev" / block.name, block, tmp_path), tmp_path)
    assert (found.node, found.cpus) == (1, 1)


def test_a_drive_whose_link_is_not_reported_is_assumed_to_need_two_cpus(tmp_path: Path) -> None:
    """So are a file and a simulated drive, which have no link."""
    host = FakeHost(tmp_path)
    (found,) = loads_of(host, host.disk("vdx", place="pci0000:00/virtio1/block"))
    file = read_load(dut(kind="file"), tmp_path)
    assert found == replace(file, cpus=99) == DriveLoad(mb_per_second=None, node=None, cpus=99)
    assert file.cpus == len(os.sched_getaffinity(0))
