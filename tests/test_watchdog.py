"""What a failure is called, and what the kernel says of the drive: device failed, host failed, and why."""

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
from snia_pts.lab.device.safety import Target, claim_target
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
    """A kernel that says what a test lets it say, a record at a time."""

    def __init__(self) -> None:
        self._says, self.heard = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.heard.setblocking(False)

    def says(self, text: str, priority: int = 4) -> None:
        """Put a line into the log."""
        self._says.send(f"{priority},77,5001234567,-;{text}\n SUBSYSTEM=block\n DEVICE=b7:0\n".encode())

    def descriptor(self) -> int:
        """Return a descriptor of the log."""
        return os.dup(self.heard.fileno())


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel whose words are a test's."""
    kernel = Kernel()
    yield kernel
    kernel.heard.close()
    kernel._says.close()


# -- the kernel's log -------------------------------------------------------------------------------------------------

SATA = "/sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sdb"
NVME = "/sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1"
SHARED = "/sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n2"


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (SATA, {"sdb", "ata3", "2:0:0:0", "0000:02:00.0"}),
        (NVME, {"nvme0n1", "nvme0", "0000:01:00.0"}),
        (SHARED, {"nvme1n2", "nvme1"}),
        ("/sys/devices/virtual/block/loop7", {"loop7"}),
        ("/sys/devices/pci0000:00/0000:00:04.0/virtio2/block/vdb", {"vdb", "virtio2", "0000:00:04.0"}),
    ],
)
def test_a_drive_is_known_by_its_port_and_controller(place: str, found: set[str]) -> None:
    """The kernel names a drive, its port or its controller; bridges on the way lead to others as well."""
    assert kernel_names(Path(place)) == found


@pytest.mark.parametrize(
    ("place", "line", "of_it"),
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
def test_only_lines_that_name_the_drive_are_its_own(kernel: Kernel, place: str, line: str, of_it: bool) -> None:
    """A line of another drive, though its name begins or ends alike, says nothing of this one."""
    log = KernelLog(kernel_names(Path(place)), kernel.descriptor())
    kernel.says(line)

    assert log.lines() == ((f"[5001.234567] {line}",) if of_it else ())


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
def test_a_reset_is_told_once(kernel: Kernel, line: str) -> None:
    """Resets and commands that were not answered are told, each once; other words are kept only."""
    log = KernelLog(kernel_names(Path(NVME)), kernel.descriptor())
    kernel.says("nvme0n1: p1 p2")
    kernel.says(line)

    assert log.resets() == (f"[5001.234567] {line}",)
    assert log.resets() == ()
    assert len(log.lines()) == 2


def test_programs_do_not_speak_for_the_kernel(kernel: Kernel) -> None:
    """Any program may write to the log (facility user); that is not taken for the kernel's word, nor is nonsense."""
    log = KernelLog({"loop7"}, kernel.descriptor())
    kernel.says("loop7: reset", priority=(1 << 3) + 4)
    kernel._says.send(b"loop7: reset\n")
    kernel._says.send(b"x,y,z,-;loop7: reset\n")
    kernel._says.send(b"4;loop7: reset\n")

    assert log.resets() == ()


def test_a_flood_is_kept_to_its_end(kernel: Kernel) -> None:
    """Of very many lines the last ones are kept."""
    log = KernelLog({"loop7"}, kernel.descriptor())
    for number in range(1000):
        kernel.says(f"loop7: line {number}")
        log.resets()

    assert len(log.lines()) == 200
    assert log.lines()[-1].endswith("loop7: line 999")


def test_a_log_that_cannot_be_read_says_nothing() -> None:
    """Without a log nothing is heard, and that is known."""
    log = KernelLog({"loop7"}, None)

    assert (log.readable, log.resets(), log.lines()) == (False, (), ())


# -- whose failure it is ----------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A held loop device."""
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
    lab = Laboratory(target, engine, purger=purger, cache=cache, stage=stage, seed=1, evidence=evidence)
    return list(lab.perform(step))


def failure(target: Target, evidence: Path, engine: Any, step: Step = ROUND) -> SniaPtsError:
    """Perform a step that fails; return the failure."""
    with pytest.raises((DeviceFailed, HostFailed)) as failed:
        perform(target, evidence, engine, step)
    return failed.value


@pytest.mark.root
def test_a_reset_in_a_point_is_the_devices_failure(
    target: Target, tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A point that fio believes is none when the kernel had to reset the drive meanwhile; its words are the reason."""
    monkeypatch.setattr(laboratories, "open_log", kernel.descriptor)
    name = Path(target.dut.path).name
    engine = Scripted(None, lambda: kernel.says(f"{name}: command timed out, reset"))
    failed = failure(target, tmp_path / "evidence", engine)

    assert isinstance(failed, DeviceFailed)
    assert f"(RND 8 KiB 0/100): the kernel reports: [5001.234567] {name}: command timed out, reset" in str(failed)
    assert "(whole log: evidence/00000-kernel.txt)" in failed.full_hint
    assert (tmp_path / "evidence" / "00000-kernel.txt").read_text().endswith("timed out, reset\n")


@pytest.mark.root
@pytest.mark.parametrize(
    "step", [Purge(), Idle(seconds=1.0), ContinuousStimulus(phase="PC", stimulus=stimulus(4096, passes=1))]
)
def test_a_purge_may_reset_the_drive(
    target: Target, tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """What the kernel says of a reset in a purge is the purge's own; in any other step it is a failure."""
    monkeypatch.setattr(laboratories, "open_log", kernel.descriptor)
    kernel.says(f"{Path(target.dut.path).name}: reset")
    if isinstance(step, Purge):
        assert len(perform(target, tmp_path / "evidence", Scripted(None), step)) == 1
    else:
        assert isinstance(failure(target, tmp_path / "evidence", Scripted(None), step), DeviceFailed)


@pytest.mark.root
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (AnswerRejected("host", "fio was killed by signal 9"), HostFailed),
        (AnswerRejected("device", "it stalled"), DeviceFailed),
        (AnswerRejected("device", "error 5", errno.EIO), DeviceFailed),
        (AnswerRejected("host", "error 28", errno.ENOSPC), DeviceFailed),
        (AnswerRejected("host", "error 12", errno.ENOMEM), HostFailed),
    ],
)
def test_a_device_that_has_no_room_within_its_size_has_failed(
    target: Target, tmp_path: Path, refusal: AnswerRejected, kind: type[SniaPtsError]
) -> None:
    """ENOSPC is the host's mistake on a file, and a drive's that vanished or is thin; others keep their blame."""
    assert type(failure(target, tmp_path / "evidence", Scripted(refusal))) is kind


def test_a_full_file_system_is_the_hosts(tmp_path: Path) -> None:
    """A file whose file system is full is no device that failed."""
    with claim_target(tmp_path / "x.img", size_bytes=4 * MIB, overwrite=False) as claim:
        engine = Scripted(AnswerRejected("host", "error 28", errno.ENOSPC))
        assert type(failure(claim, tmp_path / "evidence", engine)) is HostFailed


@pytest.mark.root
def test_a_drive_that_turns_read_only_has_failed(target: Target, tmp_path: Path) -> None:
    """Real fio is told that it may not write; that the drive is read-only by now is the reason."""
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
def test_what_became_of_the_target_comes_first(target: Target, tmp_path: Path) -> None:
    """A device of another size by now is named before the error that came of it, and is the device's failure."""
    (tmp_path / "evidence").mkdir()

    def shrink() -> None:
        os.truncate(tmp_path / "x.img", 2 * MIB)
        subprocess.run(["losetup", "--set-capacity", target.dut.path], check=True)
        raise AnswerRejected("host", "error 28", errno.ENOSPC)

    failed = failure(target, tmp_path / "evidence", Scripted(shrink))

    assert isinstance(failed, DeviceFailed)
    assert f"its size was {exact_capacity(4 * MIB)} and is {exact_capacity(2 * MIB)}; error 28" in str(failed)


@pytest.mark.root
def test_what_the_kernel_says_of_an_error_is_kept(tmp_path: Path) -> None:
    """EIO of a drive: fio's words are the reason, and the kernel's own line on it is the hint and the evidence."""
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
def test_a_log_that_cannot_be_read_is_told(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel's log is not ours to read, a failure says that; where it is and tells nothing, nothing is."""
    refusal = AnswerRejected("device", "it stalled")
    quiet = failure(target, tmp_path / "quiet", Scripted(refusal))
    monkeypatch.setattr(laboratories, "open_log", lambda: None)
    deaf = failure(target, tmp_path / "deaf", Scripted(refusal))

    assert quiet.full_hint == DeviceFailed.hint
    assert deaf.full_hint == DeviceFailed.hint + " The kernel log cannot be read here."


# -- the wall clock ---------------------------------------------------------------------------------------------------


def test_a_point_that_was_begun_twice_is_a_warning() -> None:
    """A result tells that fio fell while it stood ready, how often, and where first; no verdict changes."""
    result = samples.iops_result()
    loop = result.loops[0]
    point, *others = loop.rounds[2].measurements
    changed = replace(point, timing=replace(point.timing, engine_restarted=True))
    rounds = (*loop.rounds[:2], replace(loop.rounds[2], measurements=(changed, *others)), *loop.rounds[3:])
    found = replace(result, loops=(replace(loop, rounds=rounds),))

    assert not any(warning.what == "fio restarted" for warning in run_warnings(result))
    (told,) = (warning.detail for warning in run_warnings(found) if warning.what == "fio restarted")
    assert told.startswith("for 1 of ")
    assert told.endswith(f": {point.stimulus.label} ({point.evidence})")
    assert (found.verdict, found.deviations) == (result.verdict, result.deviations)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3600.0, "forward by 3600.0 s"), (-7.25, "back by 7.2 s"), (0.4, ""), (0.0, "")],
)
def test_a_wall_clock_that_was_set_is_a_warning(seconds: float, text: str) -> None:
    """A result warns when the wall clock was set, and by how much, where times of day would mislead."""
    result = samples.iops_result()
    loop = result.loops[0]
    first, *others = loop.rounds[2].measurements
    changed = replace(first, timing=replace(first.timing, clock_set_seconds=seconds))
    rounds = (*loop.rounds[:2], replace(loop.rounds[2], measurements=(changed, *others)), *loop.rounds[3:])
    found = replace(result, loops=(replace(loop, rounds=rounds),))

    expected = [f"the wall clock was set {text} at about {first.timing.started}: "] if text else []
    assert [
        warning.detail[: len(expected[0])] for warning in run_warnings(found) if warning.what == "clock"
    ] == expected
    assert (found.verdict, found.deviations) == (result.verdict, result.deviations)
