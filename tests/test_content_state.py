"""The content of a target that another program changed, while a run was stopped or during it."""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.errors import HostFailed
from snia_pts.lab.device.content_state import read_content_state
from snia_pts.lab.device.target_claim import claim_target
from snia_pts.model.content_state import ContentState
from snia_pts.model.steps import Purge, Round
from snia_pts.record.entries import ResumeEntry, adapter
from snia_pts.record.entries import line as line_of
from snia_pts.record.replay import inspect_run
from snia_pts.results.interruption import CONTENT_CHANGE, ResumePolicy
from snia_pts.runner.resume import with_content_checked
from tests import killing
from tests.drives import MIB, filled, loop_device, need_program
from tests.test_laboratory import ROUND, Scripted, laboratory
from tests.test_resuming_elsewhere import STOP

DEVICE = ContentState(attachment="boot a, disk 1", written_bytes=10**9, discarded_bytes=10**6)
FILE = ContentState(modified_ns=10**18, allocated_bytes=10**9)


@pytest.mark.parametrize(
    ("before", "changed", "loss", "change"),
    [
        (DEVICE, {}, "", ""),
        (DEVICE, {"written_bytes": 2 * 10**9}, "", "1 GB were written"),
        (DEVICE, {"discarded_bytes": 3 * 10**6}, "2 MB were discarded", "2 MB were discarded"),
        (DEVICE, {"attachment": "boot b, disk 1", "written_bytes": 2 * 10**9, "discarded_bytes": 10**9}, "", ""),
        (DEVICE, {"written_bytes": 0}, "", ""),
        (FILE, {"modified_ns": 10**18 + 1}, "", "it was written"),
        (FILE, {"modified_ns": 10**18 - 1, "allocated_bytes": 2 * 10**9}, "", ""),
        (FILE, {"modified_ns": 10**18 - 61 * 10**9}, "", "it was written"),
        (FILE, {"allocated_bytes": 995 * 10**6}, "", ""),
        (FILE, {"allocated_bytes": 9 * 10**8}, "100 MB were deallocated", "100 MB were deallocated"),
    ],
)
def test_states_show_changes(before: ContentState, changed: dict[str, Any], loss: str, change: str) -> None:
    """Counters of another boot or attachment cannot be compared; a file system may move its reservations.

    A file whose time was set back was replaced by an older one; a power failure loses less than a minute.
    """
    now = replace(before, **changed)
    assert now.loss_since(before) == loss
    assert now.change_since(before) == change


def _write(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, bytes(MIB), 0)
    os.fsync(descriptor)
    os.close(descriptor)


def _state(path: Path) -> ContentState:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = read_content_state(descriptor)
    finally:
        os.close(descriptor)
    assert state is not None
    return state


def test_the_kernel_counts_writes_and_discards_of_a_device(tmp_path: Path) -> None:
    """Reading is no change."""
    need_program("blkdiscard", "util-linux")
    with loop_device(tmp_path / "drive.img", 8 * MIB) as device:
        before = _state(device)
        device.read_bytes()
        assert _state(device).change_since(before) == ""
        _write(device)
        written = _state(device)
        assert "were written" in written.change_since(before)
        assert written.loss_since(before) == ""
        subprocess.run(["blkdiscard", "--force", device], check=True)
        assert _state(device).loss_since(written) == "8.389 MB were discarded"


def test_a_file_shows_writes_and_holes(tmp_path: Path) -> None:
    """A hole frees blocks; a write only changes the time."""
    file = filled(tmp_path / "drive.img", 8 * MIB)
    os.utime(file, ns=(0, 0))
    before = _state(file)
    file.read_bytes()
    assert _state(file).change_since(before) == ""
    _write(file)
    assert _state(file).change_since(before) == "it was written"
    assert _state(file).loss_since(before) == ""
    os.truncate(file, 0)
    os.truncate(file, 8 * MIB)
    assert "were deallocated" in _state(file).loss_since(before)


# -- while a run was stopped ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[killing.Reference, Path]:
    home = tmp_path_factory.mktemp("reference") / "iops"
    return killing.reference("iops", home), home


def _journal(lines: Sequence[bytes], content: ContentState | None, more: Sequence[bytes] = ()) -> bytes:
    """Return the lines of a journal with the state of the content in each outcome, and more entries after them."""
    entries = [json.loads(line)["entry"] for line in lines]
    for entry in entries:
        if entry["kind"] == "outcome":
            entry["content"] = asdict(content) if content else None
    checksum, journal = 0, b""
    for payload in (*(adapter().dump_json(adapter().validate_python(entry)) for entry in entries), *more):
        checksum = zlib.crc32(payload, checksum)
        journal += line_of(checksum, payload)
    return journal


def _target(now: ContentState | None) -> Any:
    return SimpleNamespace(content_state=lambda: now)


@pytest.mark.parametrize("policy", ["rule", "continue", "purge"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_changed_drive_is_purged_again(policy: ResumePolicy, is_killed: bool, reference: Any, tmp_path: Path) -> None:
    """In a loop of rounds, a run continues only if nobody changed the drive, or with the policy ``continue``."""
    link, home = reference
    folder = killing.killed(home, tmp_path / "run", _journal(link.journal.splitlines()[:20], DEVICE))
    plan = inspect_run(folder, policy)
    assert plan.last_content == DEVICE
    if not is_killed:
        plan = replace(plan, end_content=DEVICE)
    written = replace(DEVICE, written_bytes=2 * 10**9)
    discarded = replace(DEVICE, discarded_bytes=10**9)

    assert with_content_checked(folder, plan, _target(DEVICE)) == plan
    assert with_content_checked(folder, plan, _target(None)) == plan
    if is_killed:  # fio wrote until it ended, after the last outcome
        assert with_content_checked(folder, plan, _target(written)) == plan
    for now in (discarded,) if is_killed else (discarded, written):
        checked = with_content_checked(folder, plan, _target(now))
        assert checked.policy == policy
        if policy == "purge":
            assert checked == plan
        else:
            assert checked.content_change.startswith(CONTENT_CHANGE)
            assert checked.restarts_test == (policy == "rule")
            assert (checked.kept_steps == 0) == (policy == "rule")


@pytest.mark.parametrize(
    ("written_seconds", "is_noticed"),
    [(0.0, False), (3 * (60 + 120 + 60) - 1, False), (3 * (60 + 120 + 60) + 1, True), (-30, False), (-61, True)],
)
def test_a_file_that_was_written_after_a_kill_is_purged_again(
    written_seconds: float, is_noticed: bool, reference: Any, tmp_path: Path
) -> None:
    """The killed run itself may have written for the time of a point, its longest stall and two repeats."""
    link, home = reference
    folder = killing.killed(home, tmp_path / "run", _journal(link.journal.splitlines()[:20], FILE))
    plan = inspect_run(folder, "rule")
    assert isinstance(plan.current_step, Round)
    assert {stimulus.seconds for stimulus in plan.current_step.stimuli} == {60}
    last_ns = FILE.modified_ns if written_seconds < 0 else max(plan.journal_state[1], _ns(plan.stopped))
    now = replace(FILE, modified_ns=last_ns + int(written_seconds * 1e9))

    checked = with_content_checked(folder, plan, _target(now))

    assert checked.restarts_test == is_noticed
    assert ("it was written while the run was stopped" in checked.content_change) == is_noticed


def _ns(time: datetime) -> int:
    return int(time.timestamp() * 1e9)


def test_a_journal_without_the_state_is_resumed_as_before(reference: Any, tmp_path: Path) -> None:
    """Older journals, and simulated runs, have none."""
    link, home = reference
    text = _journal(link.journal.splitlines()[:20], None).replace(b'"content":null,', b"")
    checksum, journal = 0, b""
    for payload in (line[len(b'{"crc32":"01234567","entry":') : -1] for line in text.splitlines()):
        checksum = zlib.crc32(payload, checksum)
        journal += line_of(checksum, payload)
    assert b"content" not in journal
    folder = killing.killed(home, tmp_path / "run", journal)
    plan = inspect_run(folder, "rule")
    assert with_content_checked(folder, plan, _target(DEVICE)) == plan


def test_discards_of_a_killed_purge_are_no_change(reference: Any, tmp_path: Path) -> None:
    """The purge may already have discarded everything."""
    link, home = reference
    lines = link.journal.splitlines()[:20]
    resumed = ResumeEntry(
        kept_steps=0,
        policy="purge",
        stopped=STOP.stopped,
        at=STOP.resumed,
        idle_seconds=1.0,
        reason="no power",
        command_line=(),
    )
    purge = next(line for line in lines if b'"kind":"purge"' in line and b'"kind":"step"' in line)
    more = (adapter().dump_json(resumed), purge[len(b'{"crc32":"01234567","entry":') : -1])
    folder = killing.killed(home, tmp_path / "run", _journal(lines, DEVICE, more))
    plan = inspect_run(folder, "continue")
    assert isinstance(plan.current_step, Purge)
    assert plan.last_content is None


def test_the_deviation_of_continue_states_the_change() -> None:
    """With the default rule the run starts again at the purge, and the deviation does not state it."""
    change = f"{CONTENT_CHANGE}1 GB were written while the run was stopped"
    assert replace(STOP, changes=("kernel: 2, was 1", change)).deviation.actual.endswith(
        f"without a new purge; {change}"
    )
    assert change not in replace(STOP, policy="rule", changes=(change,)).deviation.actual


# -- during a run -----------------------------------------------------------------------------------------------------


def test_a_file_that_is_emptied_ends_the_run(tmp_path: Path) -> None:
    """Its preconditioning is void; a purge may empty it."""
    need_program("fallocate", "util-linux")
    path = filled(tmp_path / "x.img", 4 * MIB)
    punch = ["fallocate", "--punch-hole", "--offset", "0", "--length", str(2 * MIB), str(path)]
    with claim_target(path, size_bytes=None, overwrite=True) as target:
        engine = Scripted(None, lambda: subprocess.run(punch, check=True), None)
        lab = laboratory(target, engine, tmp_path)
        outcomes = lab.perform(ROUND)
        next(outcomes)
        with pytest.raises(HostFailed, match=r"another program emptied .*2\.097 MB were deallocated"):
            next(outcomes)
        assert len([*lab.perform(Purge(part=""))]) == 1
