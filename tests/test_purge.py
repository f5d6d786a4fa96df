"""Purges that work, purges that only report success, and how the two are distinguished."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import DeviceFailed, HostFailed, PurgeFailed, TargetUnfit
from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.device.target_claim import Target, claim_target, regain
from snia_pts.lab.purge import METHODS, Method, PurgeCapability, Purger, is_command_of, method, proof
from snia_pts.lab.purge.choice import choose
from snia_pts.lab.purge.generic import vendor
from snia_pts.lab.purge.method import MethodFailed, Tools, any_device
from snia_pts.lab.purge.proof import count_survivors, sample_offsets
from snia_pts.model.measurement import PurgeOutcome
from tests import samples
from tests.drives import MIB, allocated_bytes, filled, loop_device, make_ext4, need_root
from tests.hosts import make_kernel_files

SEED = 99
SIZE = 4 * MIB
Command = Callable[[str], tuple[str, ...]]


def false_method(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Return a method that runs another command."""
    method = Method(
        name="lie",
        title="lie",
        words=(),
        standard=True,
        fits=any_device,
        query=lambda tools: PurgeCapability(command=command(tools.dut.path)),
    )
    monkeypatch.setitem(METHODS, "lie", method)


def purged(path: Path, wanted: str, evidence: Path, **how: Any) -> PurgeOutcome:
    """Purge a target."""
    with claim_target(path, size_bytes=None, overwrite=True) as target:
        return Purger(requested=wanted, **how).purge(target, SEED, evidence / "00000-purge")


def refused(path: Path, evidence: Path) -> str:
    """Purge with a false method; return the reason of the failure."""
    with pytest.raises(PurgeFailed) as failed:
        purged(path, "lie", evidence)
    assert failed.value.exit_code == 11
    return str(failed.value)


def test_punch_hole_empties_a_file(tmp_path: Path) -> None:
    """The file uses no more space, keeps its size, and 64 blocks prove that it is empty."""
    target = filled(tmp_path / "x.img", SIZE)
    purge = purged(target, "punch-hole", tmp_path)

    assert (purge.method, purge.samples, purge.survivors) == ("punch-hole", 64, 0)
    assert allocated_bytes(target) == 0
    assert target.read_bytes() == bytes(SIZE)
    assert [deviation.what for deviation in purge.deviations] == ["purge"]
    assert (tmp_path / "00000-purge.process.json").exists()


@pytest.mark.root
def test_blkdiscard_empties_a_loop_device_on_a_device(tmp_path: Path) -> None:
    """Written data that has not yet reached the device beneath does not prevent the purge."""
    with loop_device(tmp_path / "x.img", 2 * SIZE) as below, loop_device(below, 0, "--sizelimit", str(SIZE)) as device:
        with device.open("r+b") as file:
            file.write(random.Random(7).randbytes(SIZE))
        purge = purged(device, "blkdiscard", tmp_path)

        assert (purge.method, purge.samples, purge.survivors) == ("blkdiscard", 64, 0)
        assert device.read_bytes() == bytes(SIZE)


@pytest.mark.root
def test_blkdiscard_empties_a_loop_device(tmp_path: Path) -> None:
    """On a loop device the discard reaches the file below it."""
    image = filled(tmp_path / "x.img", SIZE)
    with loop_device(image) as device:
        purge = purged(device, "blkdiscard", tmp_path)

    assert (purge.method, purge.samples, purge.survivors) == ("blkdiscard", 64, 0)
    assert allocated_bytes(image) == 0


@pytest.mark.long_but_first
@pytest.mark.parametrize("size", [3 * MIB + 512, 131072 + 1024, 4096, 8192, 4096 * 64 + 4095 // 512 * 512])
def test_odd_capacities_are_purged_to_the_end(tmp_path: Path, size: int) -> None:
    """A capacity that is not a multiple of 4096 is purged completely."""
    target = filled(tmp_path / "x.img", size)
    purge = purged(target, "punch-hole", tmp_path)

    assert purge.samples == min(64, size // 4096)
    assert target.read_bytes() == bytes(size)


def test_a_purge_that_does_nothing_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that reports success but keeps the data is detected."""
    false_method(monkeypatch, lambda path: ("true",))
    message = refused(filled(tmp_path / "x.img", SIZE), tmp_path)

    assert "reported success, but 64 of 64 blocks" in message


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("text", "skip", "count"),
    [
        ("second half", 0, SIZE // 2),
        ("first block", 4096, SIZE - 4096),
        ("last block", 0, SIZE - 4096),
        ("last sector", 0, SIZE - 512),
    ],
)
def test_a_partial_purge_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, skip: int, count: int
) -> None:
    """A command that keeps a part of the data, even one sector of the last block, is detected."""
    false_method(monkeypatch, lambda path: ("fallocate", "--punch-hole", "-o", str(skip), "-l", str(count), path))
    message = refused(filled(tmp_path / "x.img", SIZE), tmp_path)

    expected = "32 of 64" if text == "second half" else "1 of 64"
    assert f"reported success, but {expected} blocks" in message


@pytest.mark.long
def test_a_command_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the last line of the tool's output."""
    false_method(monkeypatch, lambda path: ("sh", "-c", "echo 'not supported' >&2; exit 1"))

    assert refused(filled(tmp_path / "x.img", SIZE), tmp_path).endswith("by lie failed: not supported.")


@pytest.mark.long
def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge that exceeds its timeout has failed, even if it empties the target and reports success at its end."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.4)
    false_method(
        monkeypatch, lambda path: ("sh", "-c", f"fallocate -p -l {SIZE} {path}; trap 'exit 0' TERM; sleep 60 & wait")
    )

    assert "by lie failed: sh timed out after" in refused(filled(tmp_path / "x.img", SIZE), tmp_path)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("lost", "surviving"), [("all", 0), ("all but the first", 1)])
def test_a_device_that_loses_writes_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, surviving: int
) -> None:
    """If the pattern cannot be read back before the purge, its absence afterwards proves nothing: nothing is purged."""
    write = proof._write

    def losing(descriptor: int, dut: Any, offset: int, pattern: bytes) -> None:
        if surviving and not offset:
            write(descriptor, dut, offset, pattern)

    monkeypatch.setattr(proof, "_write", losing)
    false_method(monkeypatch, lambda path: ("touch", str(tmp_path / "was run")))
    with pytest.raises(DeviceFailed, match=f"of 64 blocks just written, {surviving} can be read back"):
        purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path)

    assert not (tmp_path / "was run").exists()


def test_a_device_with_less_memory_than_capacity_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drive that stores all blocks in the first MiB does not return what was written to each."""
    write, read = proof._write, proof._read
    monkeypatch.setattr(proof, "_write", lambda fd, dut, offset, pattern: write(fd, dut, offset % (8 * 4096), pattern))
    monkeypatch.setattr(proof, "_read", lambda fd, dut, offset: read(fd, dut, offset % (8 * 4096)))
    false_method(monkeypatch, lambda path: ("true",))
    with pytest.raises(DeviceFailed, match="of 64 blocks just written"):
        purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("number", "failure"), [(errno.EIO, DeviceFailed), (errno.ENOSPC, HostFailed)])
@pytest.mark.parametrize("call", ["pwritev", "preadv"])
def test_an_error_during_the_proof_has_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, failure: type[Exception]
) -> None:
    """A failed read or write is the device's failure, a full disk below a file the host's."""

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with claim_target(filled(tmp_path / "x.img", SIZE), size_bytes=None, overwrite=True) as target:
        monkeypatch.setattr(os, call, failing)
        with pytest.raises(failure, match=os.strerror(number)):
            Purger(requested="punch-hole").purge(target, SEED, tmp_path / "00000-purge")


def test_a_short_write_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that writes half a block has failed."""
    with claim_target(filled(tmp_path / "x.img", SIZE), size_bytes=None, overwrite=True) as target:
        monkeypatch.setattr(os, "pwritev", lambda *_: 2048)
        with pytest.raises(DeviceFailed, match="2048 of 4096 bytes"):
            Purger(requested="punch-hole").purge(target, SEED, tmp_path / "00000-purge")


@pytest.mark.long
def test_none_is_a_deviation_and_touches_nothing(tmp_path: Path) -> None:
    """Omitting the purge is a deviation, and no byte is written."""
    target = filled(tmp_path / "x.img", SIZE)
    before = target.read_bytes()
    purge = purged(target, "none", tmp_path)

    assert (purge.method, purge.samples) == ("none", 0)
    assert [(deviation.what, deviation.actual) for deviation in purge.deviations] == [("purge", "not purged")]
    assert target.read_bytes() == before


@given(capacity=st.integers(0, 1 << 50), seed=st.integers(0, 1 << 64))
def test_samples_are_inside_the_capacity(capacity: int, seed: int) -> None:
    """Offsets are whole blocks, ascending, without duplicates, and include the first and the last block."""
    places = sample_offsets(capacity, random.Random(seed))
    blocks = capacity // 4096

    assert len(places) == min(64, blocks)
    assert list(places) == sorted(set(places))
    assert all(place % 4096 == 0 and place + 4096 <= capacity for place in places)
    if blocks:
        assert places[0] == 0
        assert places[-1] == (blocks - 1) * 4096


@given(blocks=st.integers(65, 1 << 40), seed=st.integers(0, 1 << 64))
def test_each_part_of_the_capacity_has_a_sample(blocks: int, seed: int) -> None:
    """Each of 64 equal parts has one."""
    places = sample_offsets(blocks * 4096, random.Random(seed))

    assert [(place // 4096 + 1) * 64 > blocks * number for number, place in enumerate(places)] == [True] * 64
    assert [place // 4096 * 64 < blocks * (number + 1) for number, place in enumerate(places)] == [True] * 64


def test_samples_are_at_other_offsets_in_each_run() -> None:
    """Otherwise a purge of just these blocks would be proven, or stripes at the same distance missed."""
    first, second = (sample_offsets(1 << 40, random.Random(seed)) for seed in (1, 2))
    assert len(set(first) & set(second)) == 2
    assert len({after - before for before, after in itertools.pairwise(first)}) > 32


@pytest.mark.parametrize("sector", [0, 3, 7])
def test_one_surviving_sector_counts(tmp_path: Path, sector: int) -> None:
    """A block with 512 surviving bytes at any offset counts as surviving."""
    pattern = random.Random(1).randbytes(4096)
    target = tmp_path / "x.img"
    with target.open("wb") as file:
        file.truncate(SIZE)
        file.seek(8192 + 512 * sector)
        file.write(pattern[512 * sector :][:512])
    with target.open("rb", buffering=0) as file:
        assert count_survivors(file.fileno(), samples.dut(), dict.fromkeys((0, 4096, 8192, 12288), pattern)) == 1


@pytest.mark.parametrize(
    ("kind", "discard", "wanted", "chosen"),
    [
        ("drive", True, "auto", "blkdiscard"),
        ("loop device", True, "auto", "blkdiscard"),
        ("virtual device", True, "auto", "blkdiscard"),
        ("file", True, "auto", "punch-hole"),
        ("drive", True, "blkdiscard", "blkdiscard"),
        ("drive", False, "overwrite", "overwrite"),
        ("file", True, "overwrite", "overwrite"),
        ("drive", False, "none", None),
        ("file", True, "none", None),
    ],
)
def test_choosing(tmp_path: Path, kind: str, discard: bool, wanted: str, chosen: str | None) -> None:
    """The first available method, the named one, or none."""
    found = choose(Tools(samples.dut(kind=kind, discard=discard, path="/dev/none"), tmp_path / "x"), wanted)

    assert (found.name if found else None) == chosen


@pytest.mark.parametrize(
    ("kind", "discard", "wanted", "instead"),
    [
        ("drive", False, "auto", "overwrite, none"),
        ("file", True, "blkdiscard", "punch-hole, overwrite, none"),
        ("drive", True, "punch-hole", "blkdiscard, overwrite, none"),
        ("drive", True, "magic", "blkdiscard"),
        ("drive", True, "nvme-format", "blkdiscard"),
        ("drive", False, "blkdiscard", "overwrite, none"),
    ],
)
def test_an_unavailable_method_is_refused(tmp_path: Path, kind: str, discard: bool, wanted: str, instead: str) -> None:
    """The message lists the available methods; overwrite is never chosen automatically."""
    dut = samples.dut(kind=kind, discard=discard, path="/dev/none")
    with pytest.raises(TargetUnfit, match="available") as unfit:
        choose(Tools(dut, tmp_path / "x"), wanted)

    assert instead in unfit.value.hint


def test_an_unknown_purge_is_reported_as_such(tmp_path: Path) -> None:
    """A user who may not open the drive gets a plan with an unknown purge; for a new file it is with_serial_number."""
    drive, file = (samples.dut(kind=kind, path=str(tmp_path / "none")) for kind in ("drive", "file"))

    assert "unknown" in Purger(requested="auto").expected_deviations(drive)[0].actual
    assert [expected_deviation.actual for expected_deviation in Purger(requested="auto").expected_deviations(file)] == [
        "punch-hole"
    ]


def test_only_the_claimed_target_is_written(tmp_path: Path) -> None:
    """The pattern goes through the claimed descriptor: a file that replaced the path is not written."""
    path = filled(tmp_path / "x.img", SIZE)
    with claim_target(path, size_bytes=None, overwrite=True) as target:
        path.rename(tmp_path / "moved.img")
        other = filled(path, SIZE, seed=8)
        before = other.read_bytes()
        with proof._direct(Target(dut=target.dut, descriptor=target.descriptor)) as descriptor:
            proof._write(descriptor, target.dut, 0, b"p" * 4096)

    assert other.read_bytes() == before
    assert (tmp_path / "moved.img").read_bytes()[:4096] == b"p" * 4096


# -- going on without ------------------------------------------------------------------------------------------------


def test_an_unproven_purge_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --allow-unpurged a false purge is a Deviation that says so, even for a method of the standard."""
    false_method(monkeypatch, lambda path: ("true",))
    purge = purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path, allow_unpurged=True)

    assert (purge.method, purge.samples, purge.survivors) == ("lie", 64, 64)
    (deviation,) = purge.deviations
    assert deviation.what == "purge"
    assert "lie, NOT PROVEN: the purge reported success, but 64 of 64 blocks" in deviation.actual
    assert "proven on" not in purge.label


def test_a_failed_purge_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --allow-unpurged a method that fails is a Deviation with the last line of the tool's output."""
    false_method(monkeypatch, lambda path: ("sh", "-c", "echo 'not supported' >&2; exit 1"))
    purge = purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path, allow_unpurged=True)

    assert purge.survivors == 64
    assert purge.deviations[0].actual.endswith("failed: not supported")


@pytest.mark.parametrize(("allow", "reads"), [(False, 1), (True, 2)])
def test_a_failed_purge_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: bool, reads: int) -> None:
    """After a failed method the device is read only if the run continues: a locked drive would hide the reason."""
    survivors, seen = proof.Proof.survivors, []

    def counted(self: proof.Proof) -> int:
        seen.append(1)
        return survivors(self)

    monkeypatch.setattr(proof.Proof, "survivors", counted)
    false_method(monkeypatch, lambda path: ("false",))
    with nullcontext() if allow else pytest.raises(PurgeFailed):
        purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path, allow_unpurged=allow)

    assert len(seen) == reads


@pytest.mark.long
def test_a_purge_that_never_started_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a device could not be prepared, no block was written, and none is reported as erased."""

    def refusing(tools: Tools) -> None:
        raise MethodFailed("is not possible: it is locked")

    method = Method(
        name="lie",
        title="lie",
        words=(),
        standard=True,
        fits=any_device,
        query=lambda tools: PurgeCapability(command=("true",)),
        prepare=refusing,
    )
    monkeypatch.setitem(METHODS, "lie", method)
    target = filled(tmp_path / "x.img", SIZE)
    before = target.read_bytes()
    purge = purged(target, "lie", tmp_path, allow_unpurged=True)

    assert (purge.samples, purge.survivors, purge.label) == (0, 0, "lie (not proven)")
    assert purge.deviations[0].actual == "lie, NOT PROVEN: the purge is not possible: it is locked"
    assert target.read_bytes() == before


@pytest.mark.long
def test_a_successful_purge_ignores_allow_unpurged(tmp_path: Path) -> None:
    """--allow-unpurged changes nothing if the purge is proven."""
    target = filled(tmp_path / "x.img", SIZE)
    strict, lenient = (purged(target, "punch-hole", tmp_path, allow_unpurged=allow) for allow in (False, True))

    assert strict.deviations == lenient.deviations
    assert lenient.label == "punch-hole (proven on 64 blocks)"


@pytest.mark.long_but_first
@pytest.mark.parametrize("allow", [False, True])
def test_a_purge_that_changes_the_device_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: bool
) -> None:
    """A device whose size changed is not tested, whatever is allowed: its plan is invalid."""
    false_method(monkeypatch, lambda path: ("truncate", "-s", str(SIZE // 2), path))

    with pytest.raises(PurgeFailed, match="changed the drive: capacity_bytes was"):
        purged(filled(tmp_path / "x.img", SIZE), "lie", tmp_path, allow_unpurged=allow)


# -- overwriting -----------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("size", [SIZE, 3 * MIB + 512, 131072 + 1024, 4096])
def test_an_overwrite_reaches_every_byte(tmp_path: Path, size: int) -> None:
    """The file contains only zeros and keeps its size, nothing beside it is written; it is a Deviation."""
    target = filled(tmp_path / "x.img", size)
    purge = purged(target, "overwrite", tmp_path)

    assert purge.method == "overwrite with zeros"
    assert purge.survivors == 0
    assert target.read_bytes() == bytes(size)
    assert [deviation.actual for deviation in purge.deviations] == ["overwrite with zeros"]


@pytest.mark.long
@pytest.mark.root
def test_an_overwrite_reaches_every_sector(tmp_path: Path) -> None:
    """This holds for a device whose size is not a multiple of a mebibyte, too."""
    image = filled(tmp_path / "x.img", SIZE + 1536)
    with loop_device(image) as device:
        purged(device, "overwrite", tmp_path)

    assert image.read_bytes() == bytes(SIZE + 1536)


# -- a drive that goes away for a moment ------------------------------------------------------------------------------


def with_serial_number(root: Path, device: Path, serial: str) -> None:
    """Describe a device as a drive with a serial number, in a separate sysfs."""
    number = device.stat().st_rdev
    block = root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    (block / "device").mkdir(parents=True)
    make_kernel_files(root)
    (block / "device/model").write_text("ACME 960\n")
    (block / "dev").write_text(f"{os.major(number)}:{os.minor(number)}\n")
    (block / "serial").write_text(f"{serial}\n")
    (block / "size").write_text(f"{SIZE // 512}\n")


def link(name: Path, device: Path) -> None:
    """Make a path lead to a device, in place of its previous target."""
    name.unlink(missing_ok=True)
    os.mknod(name, 0o600 | stat.S_IFBLK, device.stat().st_rdev)


@contextmanager
def moved(tmp_path: Path, serial: str) -> Iterator[tuple[Target, Path, Path]]:
    """Return a target that was claimed as one device and returned as another, and both devices.

    Its node does not have the kernel's name, because two loop devices cannot share one.
    """
    name, root = tmp_path / "disk", tmp_path / "root"
    with (
        pytest.MonkeyPatch.context() as patch,
        loop_device(filled(tmp_path / "a.img", SIZE)) as old,
        loop_device(filled(tmp_path / "b.img", SIZE)) as new,
    ):
        patch.setattr("snia_pts.lab.device.identity._kernel_node", lambda path: path)
        with_serial_number(root, old, "S1")
        with_serial_number(root, new, serial)
        link(name, old)
        descriptor = os.open(name, os.O_RDWR | os.O_EXCL)
        try:
            target = Target(dut=replace(read_dut(name, root=root), kind="drive"), descriptor=descriptor)
            link(name, new)
            yield target, old, new
        finally:
            os.close(descriptor)


@pytest.mark.root
def test_a_drive_that_comes_back_is_claimed_again(tmp_path: Path) -> None:
    """It is opened exclusively and locked with the same descriptor, which closes the old device."""
    need_root()
    with moved(tmp_path, "S1") as (target, old, new):
        regain(target, purged=True, patience_seconds=0, root=tmp_path / "root")

        assert os.fstat(target.descriptor).st_rdev == new.stat().st_rdev
        os.close(os.open(old, os.O_RDWR | os.O_EXCL))
        with pytest.raises(OSError, match="busy"):
            os.open(new, os.O_RDWR | os.O_EXCL)
        second = os.open(tmp_path / "disk", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(second)


@pytest.mark.root
def test_another_drive_in_its_place_is_refused(tmp_path: Path) -> None:
    """A drive under the name of the one that disappeared ends the run; it is not claimed."""
    need_root()
    with moved(tmp_path, "S2") as (target, _, new):
        with pytest.raises(
            DeviceFailed, match=r"cannot be claimed again: .*another drive is in its place: ACME 960, serial S2"
        ):
            regain(target, purged=True, patience_seconds=0, root=tmp_path / "root")
        os.close(os.open(new, os.O_RDWR | os.O_EXCL))


@pytest.mark.root
@pytest.mark.parametrize("purged", [True, False])
def test_a_drive_that_holds_data_after_its_purge_is_another_drive(tmp_path: Path, purged: bool) -> None:
    """Drives can share a serial number; without a purge it may be the same drive."""
    need_root()
    with moved(tmp_path, "S1") as (target, _, new):
        make_ext4(new, "photos")
        if purged:
            with pytest.raises(DeviceFailed, match=r"cannot be claimed again: .* holds ext4 photos"):
                regain(target, purged=True, patience_seconds=0, root=tmp_path / "root")
            os.close(os.open(new, os.O_RDWR | os.O_EXCL))
        else:
            regain(target, purged=False, patience_seconds=0, root=tmp_path / "root")
            assert os.fstat(target.descriptor).st_rdev == new.stat().st_rdev


@pytest.mark.root
def test_a_drive_with_another_worldwide_identifier_is_refused(tmp_path: Path) -> None:
    """This holds even with the same serial number and without data; it is not claimed."""
    need_root()
    root = tmp_path / "root"
    with moved(tmp_path, "S1") as (target, _, new):
        wwid = root / f"sys/class/block/{new.name}/wwid"
        wwid.parent.mkdir(parents=True)
        wwid.write_text("eui.2\n")
        confirmed = replace(target, traits=((wwid, b"eui.1\n"),))
        with pytest.raises(DeviceFailed, match=r"its wwid was 'eui\.1' and is 'eui\.2'"):
            regain(confirmed, purged=True, patience_seconds=0, root=root)
        os.close(os.open(new, os.O_RDWR | os.O_EXCL))


@pytest.mark.root
def test_a_drive_that_does_not_come_back_has_failed(tmp_path: Path) -> None:
    """If it is still missing after the timeout, that is the device's failure."""
    need_root()
    with moved(tmp_path, "S1") as (target, _, _):
        (tmp_path / "disk").unlink()
        with pytest.raises(DeviceFailed, match="it disappeared, and cannot be claimed again"):
            regain(target, purged=True, patience_seconds=0, root=tmp_path / "root")


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_each_command_is_of_one_method(method: Method) -> None:
    """The words that identify a method are in the command of no other one."""
    assert [other.title for other in METHODS.values() if is_command_of(other.title, method.words)] == [method.title]


def test_the_command_of_a_vendor() -> None:
    """A vendor's command starts with its program, also if its path contains a space."""
    title = vendor("'/opt/my tool' erase {device}").title

    assert is_command_of(title, ("/opt/my tool", "erase", "/dev/sdx"))
    assert not is_command_of(title, ("blkdiscard", "/dev/sdx"))
