"""Purges that happen, purges that lie, and how each is told apart."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import DeviceFailed, HostFailed, PurgeFailed, TargetUnfit
from snia_pts.lab import purge as purging
from snia_pts.lab.purge import METHODS, Method, choose, count_survivors, purge, sample_offsets
from snia_pts.lab.safety import Target, hold
from tests import samples
from tests.drives import MIB, allocated_bytes, filled, loop_device

SEED = 99
SIZE = 4 * MIB
Command = Callable[[str], tuple[str, ...]]


def lying(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Offer a method that runs another command."""
    method = Method(name="lie", offered=lambda dut: True, command=lambda dut: command(dut.path))
    monkeypatch.setattr(purging, "METHODS", {**METHODS, "lie": method})


def purged(path: Path, method: str, evidence: Path) -> Any:
    """Purge a target."""
    with hold(path, size_bytes=None, overwrite=True) as target:
        return purge(target, method, SEED, evidence / "00000-purge")


def refused(path: Path, evidence: Path) -> str:
    """Purge by the lying method; return what is said of it."""
    with pytest.raises(PurgeFailed) as failed:
        purged(path, "lie", evidence)
    assert failed.value.exit_code == 11
    return str(failed.value)


def test_punch_hole_empties_a_file(tmp_path: Path) -> None:
    """A file is emptied for real: no room is taken any more, its size is kept, and 64 blocks prove it."""
    target = filled(tmp_path / "x.img", SIZE)
    found = purged(target, "punch-hole", tmp_path)

    assert (found.method, found.samples, found.survivors) == ("punch-hole", 64, 0)
    assert allocated_bytes(target) == 0
    assert target.read_bytes() == bytes(SIZE)
    assert [deviation.what for deviation in found.deviations] == ["purge"]
    assert (tmp_path / "00000-purge.process.json").exists()


@pytest.mark.root
def test_blkdiscard_empties_a_loop_device(tmp_path: Path) -> None:
    """On a loop device the discard reaches the file below it."""
    image = filled(tmp_path / "x.img", SIZE)
    with loop_device(image) as device:
        found = purged(device, "blkdiscard", tmp_path)

    assert (found.method, found.samples, found.survivors) == ("blkdiscard", 64, 0)
    assert allocated_bytes(image) == 0


@pytest.mark.parametrize("size", [3 * MIB + 512, 131072 + 1024, 4096, 8192, 4096 * 64 + 4095 // 512 * 512])
def test_odd_capacities_are_purged_to_the_end(tmp_path: Path, size: int) -> None:
    """A capacity that is no multiple of 4096 is purged as a whole."""
    target = filled(tmp_path / "x.img", size)
    found = purged(target, "punch-hole", tmp_path)

    assert found.samples == min(64, size // 4096)
    assert target.read_bytes() == bytes(size)


def test_a_purge_that_does_nothing_is_a_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that says success and keeps the data is found out."""
    lying(monkeypatch, lambda path: ("true",))
    said = refused(filled(tmp_path / "x.img", SIZE), tmp_path)

    assert "is a lie: 64 of 64 blocks" in said


@pytest.mark.parametrize(
    ("kept", "skip", "count"), [("second half", 0, SIZE // 2), ("first block", 4096, SIZE - 4096),
                                ("last block", 0, SIZE - 4096), ("last sector", 0, SIZE - 512)],
)  # fmt: skip
def test_a_purge_of_a_part_is_a_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str, skip: int, count: int
) -> None:
    """A command that clears all but a part, be it one sector of the last block, is found out."""
    lying(monkeypatch, lambda path: ("fallocate", "--zero-range", "-o", str(skip), "-l", str(count), path))
    said = refused(filled(tmp_path / "x.img", SIZE), tmp_path)

    expected = "32 of 64" if kept == "second half" else "1 of 64"
    assert f"is a lie: {expected} blocks" in said


def test_a_command_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool's own last words are in the sentence."""
    lying(monkeypatch, lambda path: ("sh", "-c", "echo 'not supported' >&2; exit 1"))

    assert refused(filled(tmp_path / "x.img", SIZE), tmp_path).endswith("by lie failed: not supported.")


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge beyond its limit has failed, though it empties the target and says success when it is ended."""
    monkeypatch.setattr(purging, "_TIMEOUT_SECONDS", 0.4)
    lying(monkeypatch, lambda path: ("sh", "-c", f"fallocate -p -l {SIZE} {path}; trap 'exit 0' TERM; sleep 60 & wait"))

    assert "by lie failed" in refused(filled(tmp_path / "x.img", SIZE), tmp_path)


def test_a_device_that_loses_writes_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the pattern cannot be read back before the purge, its absence after it is no proof."""
    monkeypatch.setattr(purging, "_write", lambda descriptor, dut, offset, pattern: None)
    lying(monkeypatch, lambda path: ("touch", str(tmp_path / "was run")))

    assert "cannot be proven" in refused(filled(tmp_path / "x.img", SIZE), tmp_path)
    assert not (tmp_path / "was run").exists()


def test_a_device_that_loses_one_write_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block lost of 64 is enough."""
    write = purging._write

    def losing(descriptor: int, dut: Any, offset: int, pattern: bytes) -> None:
        if offset:
            write(descriptor, dut, offset, pattern)

    monkeypatch.setattr(purging, "_write", losing)

    assert "cannot be proven" in refused_by(filled(tmp_path / "x.img", SIZE), "punch-hole", tmp_path)


def refused_by(path: Path, method: str, evidence: Path) -> str:
    """Purge by a true method; return what is said of it."""
    with pytest.raises(PurgeFailed) as failed:
        purged(path, method, evidence)
    return str(failed.value)


@pytest.mark.parametrize(("number", "failure"), [(errno.EIO, DeviceFailed), (errno.ENOSPC, HostFailed)])
@pytest.mark.parametrize("call", ["pwritev", "preadv"])
def test_an_error_while_proving_has_its_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, failure: type[Exception]
) -> None:
    """A device that fails to write or read is the device's failure, a full disk below a file the host's."""

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with hold(filled(tmp_path / "x.img", SIZE), size_bytes=None, overwrite=True) as target:
        monkeypatch.setattr(os, call, failing)
        with pytest.raises(failure, match=os.strerror(number)):
            purge(target, "punch-hole", SEED, tmp_path / "00000-purge")


def test_a_short_write_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that takes half a block has failed."""
    with hold(filled(tmp_path / "x.img", SIZE), size_bytes=None, overwrite=True) as target:
        monkeypatch.setattr(os, "pwritev", lambda *_: 2048)
        with pytest.raises(DeviceFailed, match="2048 of 4096 bytes"):
            purge(target, "punch-hole", SEED, tmp_path / "00000-purge")


def test_none_is_a_deviation_and_touches_nothing(tmp_path: Path) -> None:
    """No purge is told as such, and not a byte is written."""
    target = filled(tmp_path / "x.img", SIZE)
    before = target.read_bytes()
    found = purged(target, "none", tmp_path)

    assert (found.method, found.samples) == ("none", 0)
    assert [(deviation.what, deviation.actual) for deviation in found.deviations] == [("purge", "not purged")]
    assert target.read_bytes() == before


@given(st.integers(0, 1 << 50))
def test_samples_stay_inside(capacity: int) -> None:
    """Places are whole blocks inside the capacity, in order, none twice, the first and the last block among them."""
    places = sample_offsets(capacity)
    blocks = capacity // 4096

    assert len(places) == min(64, blocks)
    assert list(places) == sorted(set(places))
    assert all(place % 4096 == 0 and place + 4096 <= capacity for place in places)
    if blocks:
        assert places[0] == 0
        assert places[-1] == (blocks - 1) * 4096


@given(st.integers(65, 1 << 40))
def test_samples_are_spread_evenly(blocks: int) -> None:
    """No two neighbours are further apart than the others, but for rounding."""
    places = sample_offsets(blocks * 4096)
    gaps = [(after - before) // 4096 for before, after in itertools.pairwise(places)]

    assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("sector", [0, 3, 7])
def test_one_surviving_sector_counts(tmp_path: Path, sector: int) -> None:
    """A block of which 512 bytes are left has survived, wherever in it they are."""
    pattern = random.Random(1).randbytes(4096)
    target = tmp_path / "x.img"
    with target.open("wb") as file:
        file.truncate(SIZE)
        file.seek(8192 + 512 * sector)
        file.write(pattern[512 * sector :][:512])
    with target.open("rb", buffering=0) as file:
        assert count_survivors(file.fileno(), samples.dut(), (0, 4096, 8192, 12288), pattern) == 1


@pytest.mark.parametrize(
    ("kind", "discard", "wanted", "chosen"),
    [
        ("drive", True, "auto", "blkdiscard"), ("loop device", True, "auto", "blkdiscard"),
        ("file", True, "auto", "punch-hole"), ("drive", True, "blkdiscard", "blkdiscard"),
        ("drive", False, "none", "none"), ("file", True, "none", "none"),
    ],
)  # fmt: skip
def test_choosing(kind: str, discard: bool, wanted: str, chosen: str) -> None:
    """The first method on offer, the one named, or none."""
    assert choose(samples.dut(kind=kind, discard=discard), wanted) == chosen


@pytest.mark.parametrize(
    ("kind", "discard", "wanted"),
    [("drive", False, "auto"), ("file", True, "blkdiscard"), ("drive", True, "punch-hole"), ("drive", True, "magic")],
)
def test_what_is_not_on_offer_is_refused(kind: str, discard: bool, wanted: str) -> None:
    """A method that the target does not have is refused with those it has."""
    with pytest.raises(TargetUnfit, match="on offer") as unfit:
        choose(samples.dut(kind=kind, discard=discard), wanted)

    assert "none" in unfit.value.hint


def test_the_held_target_is_written_and_no_other(tmp_path: Path) -> None:
    """The pattern goes through the held descriptor: a file that took the name's place is not written."""
    path = filled(tmp_path / "x.img", SIZE)
    with hold(path, size_bytes=None, overwrite=True) as target:
        path.rename(tmp_path / "moved.img")
        other = filled(path, SIZE, seed=8)
        before = other.read_bytes()
        with purging._direct(Target(dut=target.dut, descriptor=target.descriptor)) as descriptor:
            purging._write(descriptor, target.dut, 0, b"p" * 4096)

    assert other.read_bytes() == before
    assert (tmp_path / "moved.img").read_bytes()[:4096] == b"p" * 4096
