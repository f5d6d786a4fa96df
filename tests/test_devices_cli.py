"""``snia-pts devices`` as an operator sees it: terminals of every width, pipes, JSON; and ``--discard-data``."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.commands import devices
from snia_pts.cli.commands.devices import device_json, device_lines
from snia_pts.cli.main import main
from snia_pts.errors import KernelFilesMissing
from snia_pts.lab.inventory import ListedDevice, read_inventory
from tests.drives import MIB, UNSHARE, content, loop_device, make_ext4, mounted
from tests.hosts import FakeHost

pytestmark = pytest.mark.device  # holds loop devices
PROGRAM = (sys.executable, "-m", "snia_pts")
LONG = "INTEL CORPORATION SOLID STATE DRIVE OF SERIES \N{GREEK CAPITAL LETTER OMEGA}"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host with drives of several kinds, one of them free."""
    host = FakeHost(tmp_path / "host")
    host.nvme()
    (host.root / "dev/disk/by-id").mkdir(parents=True)
    (host.root / "dev/disk/by-id/nvme-SAMSUNG_MZQL2960HCJR-00A07_S64HNE0R500001").symlink_to("../../nvme0n1")
    disk = host.disk("sda", device__model=LONG, device__vendor="ATA\n", device__serial="BTYF\x1b[2J7")
    host.mount_block(host.partition(disk, 2), "/")
    host.partition(host.disk("sdb", queue__rotational="1\n"), 1)
    host.disk("sdc", size="0\n")
    return host


@pytest.fixture
def found(host: FakeHost) -> tuple[ListedDevice, ...]:
    """What is listed of that host."""
    return read_inventory(host.root)


@pytest.mark.parametrize("width", [20, 44, 80, 100, 132, 200, 400])
def test_it_fits_a_terminal(found: tuple[ListedDevice, ...], width: int) -> None:
    """No line is longer than the terminal, but for a name that would not survive a break; nothing is lost by that."""
    lines = list(device_lines(found, width))
    words = re.split(r"\s+", "\n".join(lines))

    for line in lines:
        assert len(line) <= width or len(line.split()) == 1
    for entry in found:
        assert entry.path in words
    for expected in ("S64HNE0R500001", "GDC5302Q", "OMEGA".replace("OMEGA", "\N{GREEK CAPITAL LETTER OMEGA}"), "sda2"):
        assert any(expected in word for word in words)
    assert "/dev/disk/by-id/nvme-SAMSUNG_MZQL2960HCJR-00A07_S64HNE0R500001" in " ".join(words)
    assert " ".join(words).endswith("1 of 4 devices may be tested.")


def test_a_wide_terminal_has_a_column_for_each(found: tuple[ListedDevice, ...]) -> None:
    """Where there is room all stands in the table, only the verdict below; a column without content is left out."""
    lines = list(device_lines(found, 400))

    assert re.split("  +", lines[0]) == [
        "device",
        "size",
        "model",
        "serial",
        "bus",
        "firmware",
        "media",
        "PCIe",
        "NUMA",
        "write cache",
        "sectors",
        "purge",
        "by-id",
    ]
    assert "8 GT/s x4 of 16 GT/s x4" in lines[1]
    assert not {"PCIe", "NUMA", "firmware", "by-id"} & set(re.split("  +", next(device_lines(found[1:], 400))))
    assert [line for line in lines if line.startswith(" ")] == [
        "    may be tested: yes",
        "    may be tested: no: its partition sda2 holds the root file system",
        "    may be tested: no: it holds sdb1 (nothing recognised) (--discard-data allows it)",
        "    may be tested: no: it has no size (no medium, or an unbound loop device)",
    ]


def test_a_pipe_has_a_line_for_each(found: tuple[ListedDevice, ...]) -> None:
    """Without a terminal nothing is wrapped or left out: the head, and a line for each device, its verdict last."""
    head, *lines = device_lines(found, None)

    assert re.split("  +", head)[0] == "device"
    assert re.split("  +", head)[-1] == "may be tested"
    assert [line.split()[0] for line in lines] == [entry.path for entry in found]
    assert [re.split("  +", line)[-1][:3] for line in lines] == ["yes", "no:", "no:", "no:"]
    assert len({line.index(verdict) for line, verdict in zip(lines, ("yes", *["no: "] * 3), strict=True)}) == 1


def test_a_drives_name_commands_no_terminal(found: tuple[ListedDevice, ...]) -> None:
    """What a drive calls itself is shown, and not obeyed."""
    text = "\n".join(device_lines(found, None))

    assert "\x1b" not in text
    assert "BTYF\ufffd[2J7" in text


def documented(host: FakeHost) -> Iterator[ListedDevice]:
    """Give the drives that docs/usage.rst shows, as a host with such drives would list them."""
    sizes = {"nvme0n1": 960_197_124_096, "sda": 480_103_981_056, "sdb": 3_840_755_982_336}
    traits: dict[str, dict[str, Any]] = {
        "sda": {"model": "INTEL SSDSC2KB48", "serial": "BTYF9382047Q48", "firmware": "XCV10132"},
        "sdb": {"model": "SAMSUNG MZ7L33T8", "serial": "S6KMNE0T400002", "firmware": "JXTC104Q"},
    }
    purges = {
        "nvme0n1": ("nvme-format", "nvme-sanitize-block", "nvme-sanitize-crypto", "blkdiscard"),
        "sda": ("ata-sanitize-block", "ata-security-erase", "blkdiscard"),
        "sdb": ("ata-security-erase", "ata-sanitize-crypto", "blkdiscard"),
    }
    host.nvme()
    ids = host.root / "dev/disk/by-id"
    ids.mkdir(parents=True)
    (ids / "nvme-SAMSUNG_MZQL2960HCJR-00A07_S64HNE0R500001").symlink_to("../../nvme0n1")
    usual = {"queue__rotational": "0\n", "queue__write_cache": "write back\n", "queue__physical_block_size": "4096\n"}
    host.mount_block(host.partition(host.disk("sda", **usual), 2), "/")
    host.partition(host.disk("sdb", **usual), 1)
    for device in read_inventory(host.root):
        name = Path(device.path).name
        assert device.dut is not None
        dut = replace(device.dut, capacity_bytes=sizes[name], **traits.get(name, {}))
        yield replace(device, path=f"/dev/{name}", dut=dut, purge_methods=purges[name])


def test_the_sample_in_the_docs_is_as_made(tmp_path: Path) -> None:
    """docs/usage.rst shows what the verb would say of such drives on a terminal of 112 columns."""
    lines = list(device_lines(list(documented(FakeHost(tmp_path / "host"))), 112))

    text = (Path(__file__).parent.parent / "docs" / "usage.rst").read_text()
    shown = text.partition("the loop devices in use::\n\n")[2].partition("\n\nDetails that")[0]
    assert textwrap.dedent(shown).splitlines() == lines


def test_no_devices_is_told() -> None:
    """In a container without devices, the message says that there are none."""
    assert list(device_lines((), 80)) == ["There are no block devices."]


def test_the_json_says_all(found: tuple[ListedDevice, ...]) -> None:
    """Every fact by its name; what is not known is null; the refusal with its exit code, reason and remedy."""
    free, root, parts, slot = (json.loads(json.dumps(device_json(entry))) for entry in found)

    assert free["usable"] is True
    assert free["refusal"] is None
    assert free["pcie"] == {
        "current": {"gigatransfers_per_second": 8.0, "lanes": 4},
        "maximum": {"gigatransfers_per_second": 16.0, "lanes": 4},
    }
    assert (free["dut"]["serial"], free["dut"]["capacity_bytes"], free["numa_node"]) == ("S64HNE0R500001", 2 * MIB, 1)
    assert root["refusal"]["reason"] == "its partition sda2 holds the root file system"
    assert (root["usable"], root["refusal"]["exit_code"], root["pcie"]["current"]) == (False, 7, None)
    assert (parts["contents"], parts["refusal"]["exit_code"]) == (["sdb1 (nothing recognised)"], 8)
    assert "--discard-data" in parts["refusal"]["remedy"]
    assert (slot["dut"], slot["refusal"]["exit_code"]) == (None, 10)


def test_the_json_is_described(found: tuple[ListedDevice, ...]) -> None:
    """docs/formats.rst names every field."""
    text = (
        (Path(__file__).parent.parent / "docs" / "formats.rst").read_text().partition("``snia-pts devices --json``")[2]
    )

    for name in {*device_json(found[0]), "format", "devices", "exit_code", "reason", "remedy", "lanes"}:
        assert f"``{name}``" in text


def test_the_verb(host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends well whatever it finds, in both forms."""
    monkeypatch.setattr(devices, "read_inventory", lambda: read_inventory(host.root))

    assert main(["devices"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == 1
    assert [Path(device["path"]).name for device in document["devices"]] == ["nvme0n1", "sda", "sdb", "sdc"]
    assert main(["devices", "/dev/sda"]) == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_sysfs_is_no_empty_list(
    form: tuple[str, ...], host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without sysfs nothing is listed, as text or as JSON: an error says so, with an exit code of its own."""
    monkeypatch.setattr(devices, "read_inventory", lambda: read_inventory(host.root))
    shutil.rmtree(host.root / "sys")

    assert main(["devices", *form]) == KernelFilesMissing.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert f"sysfs is not mounted at {host.root / 'sys'}" in err


# -- real devices -----------------------------------------------------------------------------------------------------


def run(*argv: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    return subprocess.run(
        [*PROGRAM, *argv], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **how
    )


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[Path]:
    """A loop device with somebody's file system."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path:
        make_ext4(path, "photos")
        yield path


@pytest.mark.long
@pytest.mark.root
def test_a_real_device_is_listed(photos: Path, tmp_path: Path) -> None:
    """A loop device is listed with its content and mount point; nothing on it changes."""
    before = content(photos)
    (text,) = (
        device for device in json.loads(run("devices", "--json").stdout)["devices"] if device["path"] == str(photos)
    )
    assert text["contents"] == ["ext4 photos"]
    assert text["refusal"]["reason"] == "it holds ext4 photos"
    assert text["dut"]["model"] == f"loop device on {tmp_path / 'disk.img'}"
    assert content(photos) == before

    with mounted(photos, tmp_path / "mnt", "-o", "ro") as place:
        (line,) = (line for line in run("devices").stdout.splitlines() if line.startswith(f"{photos} "))
        assert line.endswith(f"no: it is mounted at {place}")


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("verb", ["devices", "iops", "host"])
def test_a_host_without_sysfs_is_no_host_without_drives(verb: str, tmp_path: Path) -> None:
    """Where /sys is empty, neither the list of devices nor a test pretends that it read anything."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path:
        script, argv = 'mount -t tmpfs none /sys && exec "$@"', [verb] if verb == "devices" else [verb, str(path)]
        command = (*UNSHARE, "sh", "-c", script, "sh")
        done = subprocess.run([*command, *PROGRAM, *argv], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (KernelFilesMissing.exit_code, "")
    assert "sysfs is not mounted at /sys" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("columns", [80, 40])
def test_a_real_terminal_is_filled_and_not_overrun(photos: Path, columns: int) -> None:
    """The width is that of the terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    text = b""
    with subprocess.Popen([*PROGRAM, "devices"], stdout=theirs, stdin=theirs, env=environment) as running:
        os.close(theirs)
        while b"may be tested." not in text:
            text += os.read(ours, 65536)
        assert running.wait() == 0
    os.close(ours)
    lines = text.decode().replace("\r", "").splitlines()

    assert any(line.startswith(f"{photos} ") for line in lines)
    assert all(len(line) <= columns or len(line.split()) == 1 for line in lines)


@pytest.mark.root
def test_a_run_refuses_somebodys_data(photos: Path, tmp_path: Path) -> None:
    """A test on a drive with a file system ends before the question, untouched, and leaves no run folder."""
    before = content(photos)
    done = run("wsat", str(photos), "--serial", photos.name, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (8, "")
    assert "may hold data of other people: it holds ext4 photos. Nothing was written to it." in done.stderr
    assert "--discard-data" in done.stderr
    assert content(photos) == before
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.long
@pytest.mark.root
def test_discarding_is_still_confirmed(photos: Path, tmp_path: Path) -> None:
    """With --discard-data the operator is shown what is on the drive, and asked as ever."""
    before = content(photos)
    done = run("wsat", str(photos), "--discard-data", cwd=tmp_path)

    assert done.returncode == 9
    assert "contains: ext4 photos" in done.stderr
    assert "stdin is not a terminal" in done.stderr
    assert content(photos) == before


def test_discarding_is_for_drives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a file there is --overwrite; a simulated drive holds nothing."""
    (tmp_path / "data.img").write_bytes(b"x" * 4096)
    for target in ([str(tmp_path / "data.img")], [str(tmp_path / "new.img"), "--size", "1M"], ["sim:enterprise-nvme"]):
        assert main(["wsat", *target, "--discard-data"]) == 2
        assert "--discard-data" in capsys.readouterr().err
    assert (tmp_path / "data.img").read_bytes() == b"x" * 4096
    assert not (tmp_path / "new.img").exists()


@pytest.mark.parametrize("seconds", ["0", "0.9", "-5", "nan", "inf", "86401", "x"])
def test_how_long_a_drive_may_stand_still_is_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    """A second to a day; a simulated drive never does."""
    assert main(["wsat", str(tmp_path / "new.img"), "--size", "1M", f"--stall-seconds={seconds}"]) == 2
    assert "--stall-seconds" in capsys.readouterr().err
    assert main(["wsat", "sim:enterprise-nvme", "--stall-seconds=60"]) == 2
    assert "is for real targets" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
