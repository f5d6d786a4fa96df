"""How a failure is classified (device or host), and which lines of the kernel log are quoted as its reason."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import DeviceFailed, HostFailed, SniaPtsError
from snia_pts.lab import laboratory as laboratories
from snia_pts.lab.device.target_claim import Target, claim_target
from snia_pts.lab.fio import AnswerRejected
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.host.configurator import HostConfigurator
from snia_pts.lab.laboratory import Laboratory
from snia_pts.lab.observation.kernel_log import KernelLog, kernel_names, open_log
from snia_pts.lab.purge import Purger
from snia_pts.lab.settings.write_cache import WriteCache
from snia_pts.model.steps import ContinuousStimulus, Idle, Purge, Round, Step
from snia_pts.results.warnings import run_warnings
from snia_pts.units import exact_capacity
from tests import samples
from tests.drives import MIB, loop_device
from tests.simulated_device import slow
from tests.simulated_device.drive import loop_drive
from tests.test_laboratory import Scripted, stimulus

ROUND = Round(number=1, stimuli=(stimulus(4096), stimulus(8192)))


class Kernel:
    """A fake kernel log: a test writes records, the suite reads them one at a time."""

    def __init__(self) -> None:
        self.writer, self.reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.reader.setblocking(False)

    def log(self, text: str, priority: int = 4) -> None:
        """Write a record into the log."""
        self.writer.send(f"{priority},77,5001234567,-;{text}\n SUBSYSTEM=block\n DEVICE=b7:0\n".encode())

    def descriptor(self) -> int:
        """Return a file descriptor for reading the log."""
        return os.dup(self.reader.fileno())


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A fake kernel log."""
    kernel = Kernel()
    yield kernel
    kernel.reader.close()
    kernel.writer.close()


# -- the kernel's log -------------------------------------------------------------------------------------------------

SATA = "/sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sdb"
NVME = "/sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1"
SHARED = "/sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n2"


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (SATA, {"sdb", "ata3", "2:0:0:0", "0000:02:00.0"}),
        (NVME, {"nvme0n1", "nvme0", "0000:01:00.0"}),
        (SHARED, {"nvme1n2", "nvme1"}),
        ("/sys/devices/virtual/block/loop7", {"loop7"}),
        ("/sys/devices/pci0000:00/0000:00:04.0/virtio2/block/vdb", {"vdb", "virtio2", "0000:00:04.0"}),
    ],
)
def test_a_drive_is_known_by_its_port_and_controller(place: str, names: set[str]) -> None:
    """The names are those of the drive, its port and its controller, not of bridges, which other drives share."""
    assert kernel_names(Path(place)) == names


@pytest.mark.parametrize(
    ("place", "line", "matches"),
    [
        (SATA, "sd 2:0:0:0: [sdb] tag#3 FAILED Result: hostbyte=DID_OK", True),
        (SATA, "ata3.00: exception Emask 0x10 SAct 0x0", True),
        (SATA, "ata3: SATA link down (SStatus 0 SControl 300)", True),
        (SATA, "I/O error, dev sdb, sector 2048 op 0x1:(WRITE)", True),
        (SATA, "sd 12:0:0:0: [sdc] tag#3 FAILED", False),
        (SATA, "ata31.00: exception Emask 0x10", False),
        (SATA, "I/O error, dev sdba, sector 2048", False),
        (NVME, "nvme nvme0: I/O 12 QID 3 timeout, aborting", True),
        (NVME, "nvme 0000:01:00.0: AER: Corrected error", True),
        (NVME, "nvme nvme01: I/O 12 QID 3 timeout, aborting", False),
        (NVME, "nvme 10000:01:00.0: AER: Corrected error", False),
    ],
)
def test_only_lines_that_name_the_drive_are_kept(kernel: Kernel, place: str, line: str, matches: bool) -> None:
    """A line that names another drive is ignored, even if that name contains this drive's name."""
    log = KernelLog(kernel_names(Path(place)), kernel.descriptor())
    kernel.log(line)

    assert log.lines() == ((f"[5001.234567] {line}",) if matches else ())


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: I/O 12 (Write) QID 3 timeout, aborting",
        "nvme nvme0: controller is down; will reset: CSTS=0x3",
        "nvme nvme0: resetting controller",
        "nvme0n1: Write(0x1) timed out",
        "nvme0n1: rejecting I/O to offline device",
    ],
)
def test_a_reset_is_reported_once(kernel: Kernel, line: str) -> None:
    """`resets` returns resets, timeouts and rejected I/O once each; other lines are only in `lines`."""
    log = KernelLog(kernel_names(Path(NVME)), kernel.descriptor())
    kernel.log("nvme0n1: p1 p2")
    kernel.log(line)

    assert log.resets() == (f"[5001.234567] {line}",)
    assert log.resets() == ()
    assert len(log.lines()) == 2


def test_records_that_the_kernel_did_not_write_are_ignored(kernel: Kernel) -> None:
    """Records of facility user, which any program can write, and malformed records are ignored."""
    log = KernelLog({"loop7"}, kernel.descriptor())
    kernel.log("loop7: reset", priority=(1 << 3) + 4)
    kernel.writer.send(b"loop7: reset\n")
    kernel.writer.send(b"x,y,z,-;loop7: reset\n")
    kernel.writer.send(b"4;loop7: reset\n")

    assert log.resets() == ()


def test_the_log_keeps_the_last_200_lines(kernel: Kernel) -> None:
    """Of 1000 lines, the last 200 are kept."""
    log = KernelLog({"loop7"}, kernel.descriptor())
    for number in range(1000):
        kernel.log(f"loop7: line {number}")
        log.resets()

    assert len(log.lines()) == 200
    assert log.lines()[-1].endswith("loop7: line 999")


def test_an_unreadable_log_has_no_lines() -> None:
    """Without a descriptor the log is marked unreadable and returns no lines and no resets."""
    log = KernelLog({"loop7"}, None)

    assert (log.readable, log.resets(), log.lines()) == (False, (), ())


# -- device or host failed -------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A claimed loop device."""
    with (
        loop_device(tmp_path / "x.img", 4 * MIB) as device,
        claim_target(device, size_bytes=None, overwrite=False, discard_data=True) as claim,
    ):
        yield claim


def perform(target: Target, evidence: Path, engine: Any, step: Step = ROUND) -> list[object]:
    """Perform a step."""
    evidence.mkdir(exist_ok=True)
    cache, purger = WriteCache(target.dut, None, "disabled"), Purger(requested="blkdiscard")
    stage = HostConfigurator(target.dut.path, 0)
    lab = Laboratory(target, engine, purger=purger, cache=cache, configurator=stage, seed=1, evidence=evidence)
    return list(lab.perform(step))


def failure(target: Target, evidence: Path, engine: Any, step: Step = ROUND) -> SniaPtsError:
    """Perform a step that fails; return the failure."""
    with pytest.raises((DeviceFailed, HostFailed)) as failed:
        perform(target, evidence, engine, step)
    return failed.value


@pytest.mark.root
def test_a_reset_during_a_point_is_a_device_failure(
    target: Target, tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel log line about a reset fails the point as a device failure, quotes it and stores the log."""
    monkeypatch.setattr(laboratories, "open_log", kernel.descriptor)
    name = Path(target.dut.path).name
    engine = Scripted(None, lambda: kernel.log(f"{name}: command timed out, reset"))
    failed = failure(target, tmp_path / "evidence", engine)

    assert isinstance(failed, DeviceFailed)
    assert f"(RND 8 KiB 0/100): the kernel reports: [5001.234567] {name}: command timed out, reset" in str(failed)
    assert "(whole log: evidence/00000-kernel.txt)" in failed.full_hint
    assert (tmp_path / "evidence" / "00000-kernel.txt").read_text().endswith("timed out, reset\n")


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    "step", [Purge(), Idle(seconds=1.0), ContinuousStimulus(phase="PC", stimulus=stimulus(4096, passes=1))]
)
def test_a_purge_may_reset_the_drive(
    target: Target, tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """A logged reset is ignored in a purge; in an idle time or a continuous stimulus it is a device failure."""
    monkeypatch.setattr(laboratories, "open_log", kernel.descriptor)
    kernel.log(f"{Path(target.dut.path).name}: reset")
    if isinstance(step, Purge):
        assert len(perform(target, tmp_path / "evidence", Scripted(None), step)) == 1
    else:
        assert isinstance(failure(target, tmp_path / "evidence", Scripted(None), step), DeviceFailed)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    ("rejection", "kind"),
    [
        (AnswerRejected("host", "fio was killed by signal 9"), HostFailed),
        (AnswerRejected("device", "it stalled"), DeviceFailed),
        (AnswerRejected("device", "error 5", errno.EIO), DeviceFailed),
        (AnswerRejected("host", "error 28", errno.ENOSPC), DeviceFailed),
        (AnswerRejected("host", "error 12", errno.ENOMEM), HostFailed),
    ],
)
def test_no_space_left_on_a_device_is_a_device_failure(
    target: Target, tmp_path: Path, rejection: AnswerRejected, kind: type[SniaPtsError]
) -> None:
    """ENOSPC on a device is a device failure (removed or thin drive); other errors keep their classification."""
    assert type(failure(target, tmp_path / "evidence", Scripted(rejection))) is kind


def test_a_full_file_system_is_a_host_failure(tmp_path: Path) -> None:
    """ENOSPC on a file is a host failure."""
    with claim_target(tmp_path / "x.img", size_bytes=4 * MIB, overwrite=False) as claim:
        engine = Scripted(AnswerRejected("host", "error 28", errno.ENOSPC))
        assert type(failure(claim, tmp_path / "evidence", engine)) is HostFailed


@pytest.mark.root
def test_a_drive_that_becomes_read_only_is_a_device_failure(target: Target, tmp_path: Path) -> None:
    """fio reports EPERM; the message names the read-only device as the reason."""
    (tmp_path / "evidence").mkdir()
    engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
    subprocess.run(["blockdev", "--setro", target.dut.path], check=True)
    try:
        failed = failure(target, tmp_path / "evidence", engine)
    finally:
        subprocess.run(["blockdev", "--setrw", target.dut.path], check=True)

    assert isinstance(failed, DeviceFailed)
    assert "the device has become read-only; fio reports error 1, Operation not permitted" in str(failed)


@pytest.mark.root
def test_a_changed_target_is_named_before_the_error(target: Target, tmp_path: Path) -> None:
    """A change of the device's size is a device failure, and is named before the error that it caused."""
    (tmp_path / "evidence").mkdir()

    def shrink() -> None:
        os.truncate(tmp_path / "x.img", 2 * MIB)
        subprocess.run(["losetup", "--set-capacity", target.dut.path], check=True)
        raise AnswerRejected("host", "error 28", errno.ENOSPC)

    failed = failure(target, tmp_path / "evidence", Scripted(shrink))

    assert isinstance(failed, DeviceFailed)
    assert f"its size was {exact_capacity(4 * MIB)} and is {exact_capacity(2 * MIB)}; error 28" in str(failed)


@pytest.mark.long
@pytest.mark.root
def test_the_kernel_log_of_an_io_error_is_kept(tmp_path: Path) -> None:
    """On EIO, the message quotes fio; the hint and the evidence contain the kernel's line."""
    log = open_log()
    if log is None:
        pytest.skip("the kernel's log cannot be read here")
    os.close(log)
    (tmp_path / "evidence").mkdir()
    with (
        loop_drive(tmp_path) as drive,
        claim_target(drive.path, size_bytes=None, overwrite=False, discard_data=True) as claim,
    ):
        engine = FioEngine(str(drive.path), tmp_path / "evidence", seed=1, io_engine="libaio")
        step = Round(number=1, stimuli=(stimulus(4096, range_bytes=slow.CAPACITY_BYTES, seconds=0.5),))
        drive.fail_after(20)
        failed = failure(claim, tmp_path / "evidence", engine, step)

    assert isinstance(failed, DeviceFailed)
    assert "fio reports error 5, Input/output error" in str(failed)
    assert f"I/O error, dev {drive.path.name}, sector" in failed.full_hint
    assert "I/O error" in (tmp_path / "evidence" / "00001-kernel.txt").read_text()


@pytest.mark.root
def test_an_unreadable_kernel_log_is_reported(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure's hint says if the kernel log cannot be read; a readable but empty log leaves the hint unchanged."""
    rejection = AnswerRejected("device", "it stalled")
    quiet = failure(target, tmp_path / "quiet", Scripted(rejection))
    monkeypatch.setattr(laboratories, "open_log", lambda: None)
    unreadable = failure(target, tmp_path / "unreadable", Scripted(rejection))

    assert quiet.full_hint == DeviceFailed.hint
    assert unreadable.full_hint == DeviceFailed.hint + " The kernel log cannot be read here."


# -- warnings of a result --------------------------------------------------------------------------------------------


def test_a_restart_of_fio_is_a_warning() -> None:
    """The warning gives the number of points for which fio was restarted and the first of them; the verdict stays."""
    result = samples.iops_result()
    loop = result.loops[0]
    point, *others = loop.rounds[2].measurements
    changed = replace(point, timing=replace(point.timing, engine_restarted=True))
    rounds = (*loop.rounds[:2], replace(loop.rounds[2], measurements=(changed, *others)), *loop.rounds[3:])
    changed_result = replace(result, loops=(replace(loop, rounds=rounds),))

    assert not any(warning.what == "fio restarted" for warning in run_warnings(result))
    (detail,) = (warning.detail for warning in run_warnings(changed_result) if warning.what == "fio restarted")
    assert detail.startswith("for 1 of ")
    assert detail.endswith(f": {point.stimulus.label} {point.stimulus.demand.label} ({point.evidence})")
    assert (changed_result.verdict, changed_result.deviations) == (result.verdict, result.deviations)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3600.0, "forward by 3600.0 s"), (-7.25, "back by 7.2 s"), (0.4, ""), (0.0, "")],
)
def test_a_wall_clock_that_was_set_is_a_warning(seconds: float, text: str) -> None:
    """A step of the wall clock gives a warning with its size and time; a small one gives none; the verdict stays."""
    result = samples.iops_result()
    loop = result.loops[0]
    first, *others = loop.rounds[2].measurements
    changed = replace(first, timing=replace(first.timing, clock_set_seconds=seconds))
    rounds = (*loop.rounds[:2], replace(loop.rounds[2], measurements=(changed, *others)), *loop.rounds[3:])
    changed_result = replace(result, loops=(replace(loop, rounds=rounds),))

    expected = [f"the wall clock was set {text} at about {first.timing.started}: "] if text else []
    assert [
        warning.detail[: len(expected[0])] for warning in run_warnings(changed_result) if warning.what == "clock"
    ] == expected
    assert (changed_result.verdict, changed_result.deviations) == (result.verdict, result.deviations)
