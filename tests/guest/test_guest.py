"""In a virtual machine with emulated drives: a purge by NVMe Format, purges that lie, drives that break and go.

One machine is booted for all of it, which takes minutes; what each test says is one thing that must have come of it.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree

from tests.drives import MIB, content
from tests.guest.machine import Drive, Machine, TooSlow, why_not

pytestmark = [pytest.mark.guest, pytest.mark.long]

SIZE = 64 * MIB
#: A sector that none of the 64 blocks of a purge's proof covers.
BAD_SECTOR = SIZE // 512 // 2 + 64
ROUNDS = (
    "--set", "rounds.read_percents=[50]", "--set", "rounds.block_sizes_kib=[4]", "--engine", "libaio",
    "--set", 'steady_state.tracked=[{metric="iops",block_size_kib=4,read_percent=50}]', "--max-rounds", "5",
    "--progress", "log",
)  # fmt: skip
SHORT, LONG = (*ROUNDS, "--point-seconds", "0.5"), (*ROUNDS, "--point-seconds", "100")
WRITES = (
    "--set", "settling.sample_seconds=1", "--set", "settling.stride_samples=5", "--set", "saturation.seconds=100",
    "--progress", "log",
)  # fmt: skip
#: Discards a SCSI disk, takes it off the system, and lets it be found again some seconds after the end.
LOST_AND_FOUND = (
    "sh -c 'blkdiscard --force $0 && host=$(readlink -f /sys/block/${0##*/}/device/../../scsi_host/*) && "
    "echo 1 >/sys/block/${0##*/}/device/delete && { (sleep 5; echo - - - >$host/scan) & }' {device}"
)


#: The drives that arrays are made of, one array after the other.
MEMBERS = ("RED", "GREEN", "BLUE")
#: An array of somebody else's on two of them, and what ends it.
OTHERS = (
    "mdadm", "--create", "/dev/md/other", "--run", "--quiet", "--level=1", "--bitmap=none", "--raid-devices=2",
    "--assume-clean", "RED", "GREEN",
)  # fmt: skip

#: How long the machine may take, wanted for sure or not: the processor that runs it is emulated.
_LONGEST_SECONDS = {True: 1500, False: 600}


def nvme(serial: str, **changes: object) -> Drive:
    """An NVMe drive with one namespace."""
    return Drive(serial=serial, size_bytes=SIZE, devices=("nvme,id={serial},serial={serial},drive={node}",), **changes)  # type: ignore[arg-type]


DRIVES = (
    Drive(
        serial="FORMAT",
        size_bytes=SIZE,
        devices=(
            "nvme,id={serial},serial={serial}",
            "nvme-ns,drive={node},bus={serial},nsid=1,logical_block_size=4096,physical_block_size=4096",
        ),
    ),
    Drive(serial="NEIGHBOUR", size_bytes=SIZE, devices=("nvme-ns,drive={node},bus=FORMAT,nsid=2",)),
    nvme("PULLED"),
    nvme(
        "BROKEN",
        driver={
            "driver": "blkdebug",
            "inject-error": [{"event": "read_aio", "iotype": "read", "sector": BAD_SECTOR, "errno": 5}],
        },
    ),
    Drive(serial="SATA", size_bytes=SIZE, devices=("ide-hd,bus=sata.0,serial={serial},drive={node}",)),
    Drive(serial="SCSI", size_bytes=SIZE, devices=("scsi-hd,bus=scsi.0,serial={serial},drive={node}",)),
    Drive(serial="SHY", size_bytes=SIZE, devices=("scsi-hd,bus=scsi.0,serial={serial},drive={node}",)),
    *(
        Drive(serial=serial, size_bytes=SIZE // 2, devices=("nvme,id={serial},serial={serial},drive={node}",))
        for serial in MEMBERS
    ),
)


def runs() -> Iterator[dict[str, object]]:
    """What the machine is to run: a name, the drive's serial number, the options, and what stops it, if anything."""
    erase = "hdparm --user-master u --security-erase snia-pts {device}"
    for name, serial, options, until in (
        ("format", "FORMAT", (*SHORT, "--tune", "--to", "rst,pdf"), ""),
        ("pulled", "PULLED", WRITES, ""),
        ("broken", "BROKEN", LONG, ""),
        ("scsi format", "SCSI", (*SHORT, "--purge", "scsi-format"), ""),
        ("security erase", "SATA", (*SHORT, "--purge", "ata-security-erase"), ""),
        ("hdparm", "SATA", (*SHORT, "--purge-command", erase), ""),
        ("lost and found", "SHY", (*SHORT, "--purge-command", LOST_AND_FOUND), '"purged"'),
    ):
        argv = ["wsat" if name == "pulled" else "iops", "DEVICE", "--serial", serial, *options]
        yield {"name": name, "serial": serial, "argv": argv, "until": until, "reports": name == "format"}
    yield from array_runs()


def array_runs() -> Iterator[dict[str, object]]:
    """Runs on arrays of the members: of each level, one that is killed, the same resumed, one that is refused."""
    serials, chunk = ",".join(MEMBERS), 'chunk = "64 KiB"'
    test = ["iops", "DEVICE", "--serial", serials, *SHORT, "--purge", "nvme-format", "--to", "none"]
    for name, argv, keys, changes in (
        ("raid 0", test, ("level = 0", chunk, "measured = {disk_iops = 1000}"), {}),
        ("raid 1", test, ("level = 1",), {}),
        ("raid 5", test, ("level = 5", chunk), {"until": '"number":2,', "killed": True}),
        (
            "raid 5 resumed",
            ["resume", "/run/guest/raid 5/run", "--continue", "--serial", serials, "--progress", "log"],
            (),
            {},
        ),
        ("in use", test, ("level = 0", chunk), {"before": [OTHERS]}),
    ):
        yield {
            "name": name, "serial": "", "members": MEMBERS, "argv": argv, "until": "", "reports": False,
            "array": "\n".join(("format = 1", 'controller = "mdadm"', *keys, "")), **changes,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that came out of the machine."""

    folder: Path

    @property
    def code(self) -> int:
        return int((self.folder / "code").read_text())

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text() + (self.folder / "out").read_text()

    @property
    def outcomes(self) -> list[dict[str, object]]:
        """What the journal keeps."""
        lines = (self.folder / "run/journal.jsonl").read_text().splitlines()
        return [each["entry"]["outcome"] for each in map(json.loads, lines) if each["entry"]["kind"] == "came"]

    def command(self, evidence: str = "00000-purge") -> list[str]:
        """Return the command line that a piece of evidence keeps."""
        argv = json.loads((self.folder / f"run/evidence/{evidence}.process.json").read_text())["argv"]
        return [str(word) for word in argv]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The machine, after all its runs, or as many as it did in its time."""
    if reason := why_not():
        (pytest.fail if os.environ.get("SNIA_PTS_GUEST") == "1" else pytest.skip)(reason)
    made = Machine(tmp_path_factory.mktemp("machine"), DRIVES)
    made.image("NEIGHBOUR").write_bytes(random.Random(1).randbytes(SIZE))
    wanted = os.environ.get("SNIA_PTS_GUEST") == "1"
    end = time.monotonic() + _LONGEST_SECONDS[wanted]
    try:
        with made.running(list(runs())):
            made.wait(end, made.folder / "pulled/run/journal.jsonl", '"sample"')
            made.remove("PULLED")
            made.wait(end)
    except TooSlow as slow:
        if wanted:
            pytest.fail(str(slow))
        made.slow = str(slow)
    return made


def ran(machine: Machine, name: str) -> Ran:
    """Return a run of the machine; what a slow machine did not come to is not judged."""
    run = Ran(folder=machine.folder / name)
    if machine.slow and not (run.folder / "code").exists():
        pytest.skip(f"{machine.slow}, and did not come to {name}")
    return run


def test_a_drive_is_formatted_tested_and_reported(machine: Machine) -> None:
    """On an NVMe drive with sectors of 4096 bytes: Format, proven, no Deviation; the test, its result and report."""
    run = ran(machine, "format")
    assert run.code == 0, run.said
    (purged,) = (each for each in run.outcomes if each["kind"] == "purged")
    root = etree.parse(run.folder / "run/result.xml")

    assert (purged["method"], purged["samples"], purged["survivors"]) == ("NVMe Format, SES 1", 64, 0)
    assert root.xpath("//*[local-name()='deviation'][@what='purge']") == []
    assert root.xpath("string(//*[local-name()='dut']/@serial)") == "FORMAT"
    assert root.xpath("string(//*[local-name()='dut']/@model)") == "QEMU NVMe Ctrl"
    assert root.xpath("string(//*[local-name()='dut']/@logical_sector_bytes)") == "4096"
    assert (run.folder / "run/report.pdf").read_bytes().startswith(b"%PDF-")
    assert "NVMe Format, SES 1 (proven on 64 blocks)" in (run.folder / "run/report.rst").read_text()


@pytest.mark.parametrize(
    ("name", "source", "after"),
    [
        ("format", "NVMe feature 06h", "0x00000001"),
        ("scsi format", "SCSI caching mode page", "write back"),
        ("hdparm", "ATA IDENTIFY", "write back"),
    ],
)
def test_the_write_cache_is_set_read_back_and_put_back(machine: Machine, name: str, source: str, after: str) -> None:
    """On NVMe, SCSI, SATA: disabled as the class wants, as the drive itself says, and enabled again after the run."""
    run = ran(machine, name)
    dut = json.loads((run.folder / "run/journal.jsonl").read_text().splitlines()[0])["entry"]["facts"]["dut"]

    assert (dut["write_cache"], dut["write_cache_source"]) == ("disabled", f"{source}; set for the run, was enabled")
    assert "write cache:" not in run.said
    assert (run.folder / "cache").read_text() == after
    assert not (run.folder / "run/settings.json").exists()


def test_what_tune_sets_is_in_the_result(machine: Machine) -> None:
    """On a run with --tune the drive gets I/Os of the size that is asked for, and the result tells what was before."""
    root = etree.parse(ran(machine, "format").folder / "run/result.xml")
    (merging,) = root.xpath("//*[local-name()='setting'][@name='merging']")

    assert (merging.get("value"), merging.get("before"), merging.get("judgement")) == ("off", "on", "good")


def test_a_format_keeps_the_form_of_the_drive(machine: Machine) -> None:
    """The LBA format in use (not the first of the drive's) is given to the tool, and is in use after."""
    run = ran(machine, "format")
    identify = [
        json.loads(json.loads((run.folder / f"run/evidence/00000-purge-{name}.process.json").read_text())["stdout"])
        for name in ("id-ns", "id-ns-after")
    ]
    before, after = ((each["flbas"], each["dps"]) for each in identify)

    assert before == after
    assert before[0] & 0xF
    assert f"--lbaf={before[0] & 0xF}" in run.command()


def test_a_format_leaves_the_neighbour_alone(machine: Machine) -> None:
    """The other namespace of the same drive is byte for byte what it was."""
    expected = random.Random(1).randbytes(SIZE)

    assert machine.image("NEIGHBOUR").read_bytes() == expected
    assert content(machine.image("FORMAT")) != content(machine.image("NEIGHBOUR"))


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("scsi format", 11, "The purge of DEVICE by SCSI Format Unit is a lie: 64 of 64 blocks"),
        ("hdparm", 11, "snia-pts {device} is a lie: 64 of 64 blocks"),
        ("security erase", 10, "purge method ata-security-erase is not on offer for it: the drive has no such"),
    ],
)
def test_a_lying_purge_is_found_out(machine: Machine, name: str, code: int, told: str) -> None:
    """QEMU's SCSI and SATA disks say success and keep the data; the latter does not even say that it can erase."""
    run = ran(machine, name)

    assert run.code == code, run.said
    assert told in run.said.replace(next(word for word in run.said.split() if word.startswith("/dev/")), "DEVICE")
    assert not (run.folder / "run/evidence/00001-fio.json").exists()


@pytest.mark.parametrize(
    ("name", "told", "kept"),
    [
        ("pulled", "no longer there", {"purged", "sample"}),
        ("broken", "fio reports error 61, No data available", {"purged", "measurement"}),
    ],
)
def test_a_drive_that_fails_in_the_middle_has_failed(machine: Machine, name: str, told: str, kept: set[str]) -> None:
    """Pulled out, or with an unreadable sector: an exit code of its own, and the journal keeps all before."""
    run = ran(machine, name)

    assert run.code == 12, run.said
    assert "The device failed in step" in run.said
    assert told in run.said
    assert "Traceback" not in run.said
    assert {outcome["kind"] for outcome in run.outcomes} == kept
    assert etree.parse(run.folder / "run/result.xml").xpath("string(//@ending)") == "device failed"


def test_a_drive_that_goes_away_while_it_is_purged_is_held_again(machine: Machine) -> None:
    """A purge that takes the drive off the system for seconds is proven on what came back, and the test goes on."""
    run = ran(machine, "lost and found")

    assert run.code == 130, run.said
    (purged, *_) = run.outcomes
    assert (purged["samples"], purged["survivors"]) == (64, 0)


# -- arrays -----------------------------------------------------------------------------------------------------------


def left(run: Ran) -> dict[str, list[str]]:
    """Return which arrays were left after a run, and which members had a superblock."""
    found: dict[str, list[str]] = json.loads((run.folder / "arrays").read_text())
    return found


@pytest.mark.parametrize("level", [0, 1, 5])
def test_an_array_is_made_of_purged_members_tested_and_taken_apart(machine: Machine, level: int) -> None:
    """Each member by NVMe Format, proven; a measurement window; nothing of the array is left."""
    run = ran(machine, "raid 5 resumed" if level == 5 else f"raid {level}")
    assert run.code == 0, run.said
    place = ran(machine, f"raid {level}").folder / "run"
    root = etree.parse(place / "result.xml")
    (purged,) = root.xpath("//*[local-name()='purge']")
    (array,) = root.xpath("//*[local-name()='dut']/*[local-name()='array']")

    assert purged.get("method") == "NVMe Format, SES 1, each of 3 members, then 2 x SEQ writes"
    assert (purged.get("samples"), purged.get("survivors")) == ("192", "0")
    assert root.xpath("//*[local-name()='deviation'][@what='purge']") == []
    assert [each.get("serial") for each in array if each.get("serial")] == list(MEMBERS)
    assert (array.get("level"), array.get("controller")) == (str(level), "mdadm")
    assert root.xpath("string(//*[local-name()='run']/@ending)") == "finished"
    assert root.xpath("string(//*[local-name()='dut']/@write_cache)") == "disabled"
    assert left(run) == {"standing": [], "marked": []}
    assert not (place / "array").exists()


def test_the_sizes_of_arrays_are_those_of_their_data(machine: Machine) -> None:
    """Three members hold three, one and two times what one holds, but for the superblocks."""
    sizes = [
        int(etree.parse(ran(machine, f"raid {level}").folder / "run/result.xml").xpath("string(//@capacity_bytes)"))
        for level in (0, 1, 5)
    ]
    assert [round(size / (SIZE // 2), 1) for size in sizes] == pytest.approx([3, 1, 2], abs=0.15)


def test_an_array_that_a_killed_run_left_is_taken_apart_by_the_next(machine: Machine) -> None:
    """After SIGKILL it stands; resume makes it again, synced, and goes on with the rounds that were measured."""
    killed, resumed = ran(machine, "raid 5"), ran(machine, "raid 5 resumed")
    assert killed.code == -9
    assert len(left(killed)["standing"]) == 1
    assert left(killed)["marked"] == list(MEMBERS)
    assert "put back what the run" in resumed.said
    assert [each["kind"] for each in killed.outcomes].count("purged") == 1


def test_members_of_another_array_are_refused_and_it_stays(machine: Machine) -> None:
    """One of somebody else's on two of the members: refused as in use, and untouched."""
    run = ran(machine, "in use")
    assert run.code == 7, run.said
    assert "(RAID) is made of it" in run.said
    assert len(left(run)["standing"]) == 1
    assert left(run)["marked"] == list(MEMBERS[:2])
    assert not (run.folder / "run").exists()
