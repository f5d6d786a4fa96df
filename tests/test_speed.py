"""The maximum speed of a device follows from its link; without a known link it is assumed, and marked as such."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.lab.device.identity import block_dut
from snia_pts.lab.link_speed import assumed_speed
from snia_pts.model.array import BuiltArray, Layout, Member
from snia_pts.model.dut import AssumedSpeed
from tests.hosts import SLOT, FakeHost
from tests.strategies import dut

UNKNOWN = "PCIe 5.0 x4 (assumed; its link is not reported)"


def speed_of(host: FakeHost, block: Path) -> AssumedSpeed:
    """Return the assumed speed of a disk of a made-up host."""
    return assumed_speed(block_dut(host.root / "dev" / block.name, block, host.root), host.root)


def nvme(host: FakeHost) -> Path:
    return host.nvme()


def usb(host: FakeHost) -> Path:
    host.write("sys/devices/pci0000:00/usb2/2-1/speed", "5000\n")
    return host.disk("sdu", place="pci0000:00/usb2/2-1/host4/block")


def _sas(host: FakeHost, *rates: str) -> Path:
    port = "pci0000:00/host0/port-0:0"
    for number, rate in enumerate(rates):
        phy = f"phy-0:{number}"
        host.write(f"sys/devices/{port}/{phy}/sas_phy/{phy}/negotiated_linkrate", f"{rate}\n")
    return host.disk("sds", place=f"{port}/end_device-0:0/target0:0:0/0:0:0:0/block")


def sas(host: FakeHost) -> Path:
    return _sas(host, "12.0 Gbit", "12.0 Gbit")


def disabled_sas(host: FakeHost) -> Path:
    return _sas(host, "Unknown")


def virtio(host: FakeHost) -> Path:
    return host.disk("vdx", place="pci0000:00/virtio1/block")


@pytest.mark.parametrize(
    ("make", "most", "source"),
    [
        (nvme, 3938.46, "PCIe 3.0 x4"),
        (usb, 625, "USB 5000 Mb/s"),
        (sas, 2400, "SAS 12 Gb/s x2"),
        (disabled_sas, 15753.8, UNKNOWN),
        (FakeHost.disk, 600, "SATA 6 Gb/s"),
        (virtio, 15753.8, UNKNOWN),
    ],
)
def test_a_link_bounds_a_drive(make: Callable[[FakeHost], Path], most: float, source: str, tmp_path: Path) -> None:
    """The current link counts, for each direction; at least 500 MB/s are assumed."""
    host = FakeHost(tmp_path)
    found = speed_of(host, make(host))
    assert found.write == pytest.approx(most, abs=0.1)
    assert (found.read, found.minimum_write, found.source) == (found.write, 500, source)


def test_a_slow_link_limits_both_bounds(tmp_path: Path) -> None:
    """Streams over USB 2 do not reach 500 MB/s."""
    host = FakeHost(tmp_path)
    block = usb(host)
    host.write("sys/devices/pci0000:00/usb2/2-1/speed", "480\n")
    assert (found := speed_of(host, block)).minimum_write == found.write == 60


@pytest.mark.parametrize(
    ("speed", "lanes", "most", "source"),
    [
        ("64.0 GT/s PCIe", "4", 32000, "PCIe 64 GT/s x4"),
        ("Unknown", "4", 15753.8, UNKNOWN),
        ("16.0 GT/s PCIe", "0", 15753.8, UNKNOWN),
        ("2.5 GT/s PCIe", "1", 250, "PCIe 1.0 x1"),
    ],
)
def test_unusual_links(speed: str, lanes: str, most: float, source: str, tmp_path: Path) -> None:
    """A link newer than the suite limits a drive by its raw rate; an unreported link sets no limit."""
    host = FakeHost(tmp_path)
    block = host.nvme()
    slot = "sys/devices/pci0000:00/0000:01:00.0"
    assert set(SLOT) > {"current_link_speed", "current_link_width"}
    host.write(f"{slot}/current_link_speed", f"{speed}\n")
    host.write(f"{slot}/current_link_width", f"{lanes}\n")
    found = speed_of(host, block)
    assert found.write == pytest.approx(most, abs=0.1)
    assert found.source == source


def test_an_array_is_as_fast_as_its_members_together(tmp_path: Path) -> None:
    """This holds for any level: no array is faster than all links together."""
    host = FakeHost(tmp_path)
    paths = [f"{host.root}/dev/{block.name}" for block in (host.disk("sda"), host.disk("sdb"), host.nvme())]
    members = tuple(Member(path=path, model="", serial="", firmware="", capacity_bytes=1) for path in paths)
    layout = Layout(
        format=1, controller="mdadm", level=0, members=("/dev/sda", "/dev/sdb", "/dev/nvme0n1"), chunk="64K"
    )
    found = assumed_speed(dut(array=BuiltArray(layout=layout, version="", members=members)), host.root)
    assert found.write == pytest.approx(600 + 600 + 3938.46, abs=0.1)
    assert found.source == "the links of its members: SATA 6 Gb/s, PCIe 3.0 x4"


@pytest.mark.long
def test_the_operators_speed_is_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--assume sets all speeds; without it a plan states its assumption and the source."""
    path = str(tmp_path / "x.img")
    assert main(["iops", path, "--size", "1G", "--plan", "--assume", "750"]) == 0
    assert "  assuming exactly 750 MB/s (--assume)\n" in capsys.readouterr().out
    assert main(["iops", path, "--size", "1G", "--plan"]) == 0
    output = capsys.readouterr().out
    assert f"at most 15\N{NARROW NO-BREAK SPACE}754 MB/s each way: {UNKNOWN} (--assume" in output
    assert "streams of at least 500 MB/s" in output
    assert main(["iops", "sim:enterprise-sata", "--plan"]) == 0
    assert "at most 569 MB/s of reads and 538 MB/s of writes: its preset" in capsys.readouterr().out
