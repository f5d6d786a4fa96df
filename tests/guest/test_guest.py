"""In a virtual machine with emulated drives: NVMe Format, false purges, and drives that fail or disappear.

One machine is booted for all tests, which takes minutes; each test checks one outcome.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from snia_pts.cli.main import main
from snia_pts.units import KIB
from tests.drives import MIB, content
from tests.guest.machine import Drive, Machine, TooSlow, why_not

pytestmark = [pytest.mark.guest, pytest.mark.long]

SIZE = 64 * MIB
#: The drive with a bad sector is small, so that fio reads the sector soon.  The blocks that prove the purge and the
#: preconditioning depend on the seed: with this one, none of them covers the sector.
BROKEN_SIZE, BROKEN_SEED = 8 * MIB, 1
BAD_SECTOR = BROKEN_SIZE // 512 // 2 + 64
#: As few programs as make a measurement window: to start one takes the emulated processor seconds.
FEW = ("--engine", "libaio", "--progress", "log", "--to", "none")
ROUNDS = (
    *FEW,
    "--set",
    "rounds.read_percents=[50]",
    "--set",
    "rounds.block_sizes_kib=[4]",
    "--set",
    'steady_state.tracked=[{metric="iops",block_size_kib=4,read_percent=50}]',
    "--set",
    "steady_state.window_rounds=2",
    "--max-rounds",
    "2",
)
SHORT, LONG = (*ROUNDS, "--point-seconds", "0.5"), (*ROUNDS, "--point-seconds", "40")
SAMPLES = (
    *FEW,
    "--set",
    "settling.sample_seconds=1",
    "--set",
    "settling.stride_samples=5",
    "--set",
    "histogram.seconds=1",
)
WRITES, FEW_WRITES = ((*SAMPLES, "--set", f"saturation.seconds={seconds}") for seconds in (30, 6))
#: Discards a SCSI disk, takes it off the system, and lets it be found again some seconds after the end.
LOST_AND_FOUND = (
    "sh -c 'blkdiscard --force $0 && host=$(readlink -f /sys/block/${0##*/}/device/../../scsi_host/*) && "
    "echo 1 >/sys/block/${0##*/}/device/delete && { (sleep 2; echo - - - >$host/scan) & }' {device}"
)

#: The drives that arrays are made of, one array after the other: of each level those that it takes.
MEMBERS = ("RED", "GREEN", "BLUE")
LOOPS = ("loop0", "loop1", "loop2", "loop3")
ARRAYS = {0: LOOPS[:2], 1: LOOPS[:2], 5: MEMBERS, 6: LOOPS, 10: LOOPS}
MEMBER_SIZE = 16 * MIB  # of loop devices too (inside.py)
#: Another user's array on two of them, and the command that stops it.
OTHERS = (
    "mdadm",
    "--create",
    "/dev/md/other",
    "--run",
    "--quiet",
    "--level=1",
    "--bitmap=none",
    "--raid-devices=2",
    "--assume-clean",
    "RED",
    "GREEN",
)

#: How long the machine may take, wanted for sure or not: the processor that runs it is emulated.
_LONGEST_SECONDS = {True: 1500, False: 600}


def nvme(serial: str, size_bytes: int = SIZE, **changes: Any) -> Drive:
    """An NVMe drive with one namespace."""
    devices = ("nvme,id={serial},serial={serial},drive={node}",)
    return Drive(serial=serial, size_bytes=size_bytes, devices=devices, **changes)


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
        BROKEN_SIZE,
        driver={
            "driver": "blkdebug",
            "inject-error": [{"event": "read_aio", "iotype": "read", "sector": BAD_SECTOR, "errno": 5}],
        },
    ),
    Drive(serial="SATA", size_bytes=SIZE, devices=("ide-hd,bus=sata.0,serial={serial},drive={node}",)),
    Drive(serial="SCSI", size_bytes=SIZE, devices=("scsi-hd,bus=scsi.0,serial={serial},drive={node}",)),
    Drive(serial="SHY", size_bytes=SIZE, devices=("scsi-hd,bus=scsi.0,serial={serial},drive={node}",)),
    *(nvme(serial, MEMBER_SIZE) for serial in MEMBERS),
)


def runs() -> Iterator[dict[str, object]]:
    """What the machine is to run: a name, the drive's serial number, the options, and what stops it, if anything."""
    erase = "hdparm --user-master u --security-erase snia-pts {device}"
    for name, serial, options, until in (
        ("pulled", "PULLED", WRITES, ""),
        ("format", "FORMAT", (*SHORT, "--tune"), ""),
        ("scsi format", "SCSI", (*SHORT, "--purge", "scsi-format"), ""),
        ("hdparm", "SATA", (*SHORT, "--purge-command", erase), ""),
        ("broken", "BROKEN", (*LONG, "--seed", str(BROKEN_SEED)), ""),
        ("lost and found", "SHY", (*SHORT, "--purge-command", LOST_AND_FOUND), '"outcome":{"kind":"purge"'),
        ("security erase", "SATA", (*SHORT, "--purge", "ata-security-erase"), ""),
    ):
        argv = ["wsat" if name == "pulled" else "iops", "DEVICE", "--serial", serial, *options]
        yield {"name": name, "serial": serial, "argv": argv, "until": until, "lane": "drives"}
    yield from array_runs()


def array_runs() -> Iterator[dict[str, object]]:
    """Runs on arrays: one that is killed, the same resumed, one of each other level, a profile, one that is refused."""
    test, writes = ("iops", "DEVICE"), ("wsat", "DEVICE", *FEW_WRITES)
    profile = ("profile", "run", "node-storage", "DEVICE", "--range", "4 MiB", *FEW)
    for name, level, argv, changes in (
        ("raid 5", 5, (*test, "--purge", "nvme-format", *SHORT), {"until": '"number":2,', "killed": True}),
        ("raid 5 resumed", 5, ("resume", "/run/guest/raid 5/run", "--continue", "--progress", "log"), {}),
        ("raid 0", 0, (*test, *SHORT), {}),
        ("raid 6", 6, writes, {}),
        ("raid 10", 10, writes, {}),
        ("raid 1", 1, (*test, *SHORT), {}),
        ("profile", 1, profile, {}),
        ("in use", 5, (*test, *SHORT), {"before": [OTHERS]}),
    ):
        yield {
            "name": name,
            "serial": "",
            "members": ARRAYS[level],
            "array": "\n".join(array(level)),
            "until": "",
            "argv": [*argv, "--serial", ",".join(ARRAYS[level])],
            "lane": "arrays",
            **changes,
        }


def array(level: int) -> Iterator[str]:
    """Yield the lines of an array's file, but for its members."""
    yield from ("format = 1", 'controller = "mdadm"', f"level = {level}")
    if level != 1:
        yield 'chunk = "64 KiB"'
    if level == 0:
        yield "measured = {disk_iops = 1000}"
    yield ""


@dataclass(frozen=True, kw_only=True)
class GuestRun:
    """The output of a run in the machine."""

    folder: Path

    @property
    def code(self) -> int:
        return int((self.folder / "code").read_text())

    @property
    def output(self) -> str:
        return (self.folder / "err").read_text() + (self.folder / "out").read_text()

    @property
    def outcomes(self) -> list[dict[str, object]]:
        """What the journal keeps."""
        lines = (self.folder / "run/journal.jsonl").read_text().splitlines()
        return [item["entry"]["outcome"] for item in map(json.loads, lines) if item["entry"]["kind"] == "outcome"]

    @property
    def result(self) -> etree._Element:
        """Return the content of the run's result.xml."""
        return etree.parse(self.folder / "run/result.xml").getroot()

    def reported(self, formats: str = "rst") -> str:
        """Make the report here, where that is fast; return its text."""
        assert main(["report", str(self.folder / "run"), "--to", formats]) == 0
        return (self.folder / "run/report.rst").read_text()

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


def run_of(machine: Machine, name: str) -> GuestRun:
    """Return a run of the machine; skip the test if a slow machine did not perform it."""
    run = GuestRun(folder=machine.folder / name)
    if machine.slow and not (run.folder / "code").exists():
        pytest.skip(f"{machine.slow}, and did not come to {name}")
    return run


def test_a_drive_is_formatted_tested_and_reported(machine: Machine) -> None:
    """On an NVMe drive with sectors of 4096 bytes: Format, proven, no Deviation; the test, its result and report."""
    run = run_of(machine, "format")
    assert run.code == 0, run.output
    (purged,) = (outcome for outcome in run.outcomes if outcome["kind"] == "purge")
    root, report = run.result, run.reported("rst,pdf")

    assert (purged["method"], purged["samples"], purged["survivors"]) == ("NVMe Format, SES 1", 64, 0)
    assert root.xpath("//*[local-name()='deviation'][@what='purge']") == []
    assert root.xpath("string(//*[local-name()='dut']/@serial)") == "FORMAT"
    assert root.xpath("string(//*[local-name()='dut']/@model)") == "QEMU NVMe Ctrl"
    assert root.xpath("string(//*[local-name()='dut']/@logical_sector_bytes)") == "4096"
    assert (run.folder / "run/report.pdf").read_bytes().startswith(b"%PDF-")
    assert "NVMe Format, SES 1" in report
    assert "verified: 64 of 64 sample blocks were erased" in report


@pytest.mark.parametrize(
    ("name", "source", "after"),
    [
        ("format", "NVMe feature 06h", "0x00000001"),
        ("scsi format", "SCSI caching mode page", "write back"),
        ("hdparm", "ATA IDENTIFY", "write back"),
    ],
)
def test_the_write_cache_is_set_read_back_and_restored(machine: Machine, name: str, source: str, after: str) -> None:
    """On NVMe, SCSI and SATA the class disables it, which the drive itself confirms, and the end restores it."""
    run = run_of(machine, name)
    dut = json.loads((run.folder / "run/journal.jsonl").read_text().splitlines()[0])["entry"]["facts"]["dut"]

    assert (dut["write_cache"], dut["write_cache_source"]) == ("disabled", f"{source}; set for the run, was enabled")
    assert "write cache:" not in run.output
    assert (run.folder / "cache").read_text() == after
    assert not (run.folder / "run/settings.json").exists()


def test_settings_of_tune_are_in_the_result(machine: Machine) -> None:
    """On a run with --tune the drive gets I/Os of the requested size, and the result has the old values."""
    (merging,) = run_of(machine, "format").result.xpath("//*[local-name()='setting'][@name='merging']")

    assert (merging.get("value"), merging.get("before"), merging.get("judgement")) == ("off", "on", "good")


def test_a_format_keeps_the_form_of_the_drive(machine: Machine) -> None:
    """The LBA format in use (not the first of the drive's) is given to the tool, and is in use after."""
    run = run_of(machine, "format")
    identify = [
        json.loads(json.loads((run.folder / f"run/evidence/00000-purge-{name}.process.json").read_text())["stdout"])
        for name in ("id-ns", "id-ns-after")
    ]
    before, after = ((reading["flbas"], reading["dps"]) for reading in identify)

    assert before == after
    assert before[0] & 0xF
    assert f"--lbaf={before[0] & 0xF}" in run.command()


def test_a_format_leaves_the_neighbour_alone(machine: Machine) -> None:
    """The other namespace of the same drive is byte for byte what it was."""
    expected = random.Random(1).randbytes(SIZE)

    assert machine.image("NEIGHBOUR").read_bytes() == expected
    assert content(machine.image("FORMAT")) != content(machine.image("NEIGHBOUR"))


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("scsi format", 11, "The purge of DEVICE by SCSI Format Unit reported success, but 64 of 64 blocks"),
        ("hdparm", 11, "snia-pts {device} reported success, but 64 of 64 blocks"),
        (
            "security erase",
            10,
            "purge method ata-security-erase is not available for it: the drive does not support this",
        ),
    ],
)
def test_a_lying_purge_is_found_out(machine: Machine, name: str, code: int, text: str) -> None:
    """QEMU's SCSI and SATA disks say success and keep the data; the latter does not even say that it can erase."""
    run = run_of(machine, name)

    assert run.code == code, run.output
    assert text in run.output.replace(next(word for word in run.output.split() if word.startswith("/dev/")), "DEVICE")
    assert not (run.folder / "run/evidence/00001-fio.json").exists()


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("pulled", "no longer there", {"purge", "sample"}),
        ("broken", "fio reports error 61, No data available", {"purge", "measurement"}),
    ],
)
def test_a_drive_that_fails_during_the_test_is_a_device_failure(
    machine: Machine, name: str, text: str, kept: set[str]
) -> None:
    """It disappears, or has an unreadable sector: its exit code is 12, and the journal keeps all earlier outcomes."""
    run = run_of(machine, name)

    assert run.code == 12, run.output
    assert "The device failed in step" in run.output
    assert text in run.output
    assert "Traceback" not in run.output
    assert {outcome["kind"] for outcome in run.outcomes} == kept
    assert run.result.xpath("string(//@ending)") == "device failed"


def test_a_drive_that_disappears_during_its_purge_is_claimed_again(machine: Machine) -> None:
    """If a purge removes the drive for seconds, the returned drive is checked, and the test continues."""
    run = run_of(machine, "lost and found")

    assert run.code == 130, run.output
    (purged, *_) = run.outcomes
    assert (purged["samples"], purged["survivors"]) == (64, 0)


# -- arrays -----------------------------------------------------------------------------------------------------------


def left(run: GuestRun) -> dict[str, list[str]]:
    """Return which arrays were left after a run, and which members had a superblock."""
    document: dict[str, list[str]] = json.loads((run.folder / "arrays").read_text())
    return document


def made(machine: Machine, level: int) -> GuestRun:
    """Return the run on an array of a level, once it is done."""
    end = run_of(machine, "raid 5 resumed" if level == 5 else f"raid {level}")
    assert end.code == 0, end.output
    return run_of(machine, f"raid {level}")


@pytest.mark.parametrize("level", ARRAYS)
def test_the_members_of_an_array_are_purged(machine: Machine, level: int) -> None:
    """Each by NVMe Format, a loop device by blkdiscard, a Deviation, and proven; for IOPS each is written over too."""
    run, members = made(machine, level), ARRAYS[level]
    (purge,) = run.result.xpath("//*[local-name()='purge']")
    how = f"{'NVMe Format, SES 1' if members == MEMBERS else 'blkdiscard'}, each of {len(members)} members"
    output = [path.read_text() for path in run.folder.glob("run/evidence/00000-purge-member*-wipc/*-r0.json")]
    fio = [json.loads(text[text.index("{") :])["jobs"] for text in output]
    written = 0 if level in (6, 10) else len(members)

    assert purge.get("method") == (f"{how}, then 2 x SEQ writes" if written else how)
    assert (purge.get("samples"), purge.get("survivors")) == (str(64 * len(members)), "0")
    assert len(run.result.xpath("//*[local-name()='deviation'][@what='purge']")) == (members != MEMBERS)
    assert [sum(job["write"]["io_bytes"] for job in jobs) for jobs in fio] == [2 * MEMBER_SIZE] * written


@pytest.mark.parametrize("level", ARRAYS)
def test_an_array_is_made_again_tested_and_taken_apart(machine: Machine, level: int) -> None:
    """Of its level and members, before the purge and after; a measurement window; nothing of it is left on them."""
    run = made(machine, level)
    end = run_of(machine, "raid 5 resumed") if level == 5 else run
    paths = run.result.xpath("//*[local-name()='array']/*[local-name()='member']/@path")

    for when in ("00000-array", "00000-purge-after"):
        making = run.command(f"{when}-create")
        assert f"--level={level}" in making
        assert making[-len(paths) :] == paths
    assert run.result.xpath("string(//*[local-name()='run']/@ending)") == "finished"
    assert left(end) == {"assembled": [], "marked": []}
    assert not (run.folder / "run/array").exists()


@pytest.mark.parametrize("level", ARRAYS)
def test_an_array_is_told(machine: Machine, level: int) -> None:
    """Level, chunk and members in their order in the result, as md says them, and all of them in the report."""
    run, members, chunk = made(machine, level), ARRAYS[level], None if level == 1 else 64 * KIB
    (array,) = run.result.xpath("//*[local-name()='dut']/*[local-name()='array']")
    properties = {element.get("name"): element.get("value") for element in array.xpath("*[local-name()='property']")}
    serials = [item.get("serial") or Path(item.get("path")).name for item in array.xpath("*[local-name()='member']")]
    report = run.reported()
    (row,) = (line for line in report.splitlines() if line.strip().startswith('"Chunk",'))

    assert (array.get("controller"), array.get("level")) == ("mdadm", str(level))
    assert array.get("chunk_bytes") == (chunk and str(chunk))
    assert (properties["Level"], properties["Chunk (bytes)"]) == (f"raid{level}", str(chunk or 0))
    assert serials == [*members]
    assert f'"RAID {level} of {len(members)}"' in report
    assert ("64 KiB" in row) == bool(chunk)
    assert all(member in report for member in members)


@pytest.mark.parametrize(("level", "share"), [(0, 2), (1, 1), (5, 2), (6, 2), (10, 2)])
def test_the_size_of_an_array_is_that_of_its_data(machine: Machine, level: int, share: int) -> None:
    """All members' of RAID 0, one's of 1, of 5 and 6 all but one's and two's, half of 10: but for the superblocks."""
    size = int(made(machine, level).result.xpath("string(//@capacity_bytes)"))

    assert 0.9 * share < size / MEMBER_SIZE <= share


def test_a_profile_runs_on_an_array(machine: Machine) -> None:
    """With a built-in profile, the array is synced, overwritten, measured and stopped, and its members are listed."""
    run = run_of(machine, "profile")
    assert run.code == 0, run.output
    kinds = [str(outcome["kind"]) for outcome in run.outcomes]

    assert "measurement" in kinds
    assert "purge" not in kinds
    assert [element.rpartition("/")[2] for element in run.result.xpath("//*[local-name()='member']/@path")] == [
        *ARRAYS[1]
    ]
    assert "--assume-clean" not in run.command("00000-array-create")
    assert left(run) == {"assembled": [], "marked": []}
    assert "RAID 1 of 2" in run.reported()


def test_the_write_caches_of_the_members_are_those_of_the_array(machine: Machine) -> None:
    """The cache of each drive is disabled as the class requires, which the result reports once for the array."""
    dut = made(machine, 5).result.xpath("//*[local-name()='dut']")[0]

    assert dut.get("write_cache") == "disabled"
    assert dut.get("write_cache_source").startswith("each member: NVMe feature 06h")


def test_an_array_of_a_killed_run_is_stopped_by_the_next(machine: Machine) -> None:
    """It survives SIGKILL; resume creates it again, synced, and continues with the measured rounds."""
    killed, resumed = run_of(machine, "raid 5"), run_of(machine, "raid 5 resumed")
    assert killed.code == -9
    assert len(left(killed)["assembled"]) == 1
    assert left(killed)["marked"] == list(MEMBERS)
    assert "restored what the run" in resumed.output
    assert [outcome["kind"] for outcome in killed.outcomes].count("purge") == 1


def test_members_of_another_array_are_refused(machine: Machine) -> None:
    """Another user's array on two of the members is in use: the run is refused, and the array is unchanged."""
    run = run_of(machine, "in use")
    assert run.code == 7, run.output
    assert "it backs " in run.output
    assert "(RAID)" in run.output
    assert len(left(run)["assembled"]) == 1
    assert left(run)["marked"] == list(MEMBERS[:2])
    assert not (run.folder / "run").exists()
