"""Several drives, each tested by a process of its own: started, killed, resumed and stopped."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.analysis.side_by_side import SideBySide
from snia_pts.batch import resume as batch_resume
from snia_pts.batch.folder import BatchDrive, BatchFolder, drive_name
from snia_pts.batch.start import confirm_all, present_target, require_distinct
from snia_pts.cli.commands import batch as commands
from snia_pts.cli.commands import batch_status
from snia_pts.cli.commands.run_status import RunStatus
from snia_pts.cli.main import main
from snia_pts.errors import BatchIncomplete, NotConfirmed, NotResumable, UsageError
from snia_pts.lab import inventory
from snia_pts.lab.simulated.preset import read_preset, simulated_dut
from snia_pts.model.dut import Dut
from snia_pts.model.run_options import RunOptions
from snia_pts.runner.caller import Caller
from snia_pts.runner.confirmation import ConfirmDestruction, ConfirmRestart, ThreatenedDrive
from snia_pts.runner.events import Event, Notice
from snia_pts.runner.options import ResumeOptions
from tests import samples
from tests.command_line import opened_files

_DRIVE = "sim:enterprise-nvme"
#: A test that takes seconds, so that a test here can kill it before it ends.
_SLOW = ("hir", "--set", "wait_states.cycles=180")
_DEADLINE_SECONDS = 120


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _processes(folder: Path) -> dict[str, int]:
    """Return the processes of a batch by the file of it that each has locked, and that alone they have open."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        for name in opened_files(int(path.name)):
            if name == str(folder / "batch.json") or (name.startswith(f"{folder}/") and name.endswith(".process")):
                found[Path(name).name] = int(path.name)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def batch(tmp_path: Path) -> Iterator[Path]:
    """The path of a batch; what still runs at the end is killed."""
    path = tmp_path / "batch"
    yield path
    for pid in _processes(path).values():
        _kill(pid)


def _snia_pts(*words: str, code: int = 0) -> str:
    """Run the command line in this process; return what it prints."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        found = main(words)
    assert found == code, errors.getvalue()
    return output.getvalue() + errors.getvalue()


def _start(folder: Path, count: int, *options: str, test: Sequence[str] = ("wsat",)) -> str:
    words = [*test, *[_DRIVE] * count, "--detach", "--run-dir", str(folder), "--to", "none"]
    return _snia_pts(*words, *options)


def _status(folder: Path) -> list[dict[str, Any]]:
    statuses: list[dict[str, Any]] = json.loads(_snia_pts("status", str(folder), "--json"))
    return statuses


def _all_ended(folder: Path) -> bool:
    return not _processes(folder)


def _journal_kinds(run: Path) -> list[str]:
    return [json.loads(line)["entry"]["kind"] for line in (run / "journal.jsonl").read_text().splitlines()]


def _require_one_fresh_start_each(folder: Path, count: int) -> None:
    """Each drive has one journal with one start entry, and its test is finished."""
    journals = sorted(folder.rglob("journal.jsonl"))
    assert len(journals) == count
    for journal in journals:
        kinds = _journal_kinds(journal.parent)
        assert kinds.count("start") == 1
        assert kinds[-1] == "end"
    assert {drive["state"] for drive in _status(folder)} == {"finished"}


@pytest.mark.long
def test_a_batch_tests_each_drive_once_within_its_limit(batch: Path) -> None:
    """The command returns when the first has begun; the others follow without it."""
    output = _start(batch, 3, "--side-by-side", "2")
    most = 0

    def ended() -> bool:
        nonlocal most
        names = _processes(batch)
        most = max(most, sum(name.endswith(".process") for name in names))
        return not names

    _wait_until(ended)

    assert output.count("begun") == 2
    assert output.count("waits until another drive is finished") == 1
    assert most <= 2
    _require_one_fresh_start_each(batch, 3)


@pytest.mark.long
def test_after_a_power_failure_every_drive_ends_with_a_verdict(batch: Path) -> None:
    """Killing all processes at once leaves interrupted and unstarted drives, which resume finishes."""
    _start(batch, 2, "--side-by-side", "1", test=_SLOW)
    for pid in _processes(batch).values():
        _kill(pid)
    _wait_until(lambda: _all_ended(batch))
    states = [drive["state"] for drive in _status(batch)]
    assert states == ["stopped", "not started"]

    _snia_pts("resume", str(batch))
    _wait_until(lambda: _all_ended(batch))

    _require_one_fresh_start_each(batch, 2)
    assert "each of its drives is finished" in _snia_pts("resume", str(batch), code=16)


@pytest.mark.long
def test_runs_survive_the_process_that_starts_the_others(batch: Path) -> None:
    """Resume starts the drive that waited; the one that is being tested is left alone."""
    _start(batch, 2, "--side-by-side", "1", test=_SLOW)
    processes = _processes(batch)
    os.kill(processes["01-sim-enterprise-nvme.process"], signal.SIGSTOP)
    _kill(processes["batch.json"])
    _wait_until(lambda: "batch.json" not in _processes(batch))

    output = _snia_pts("resume", str(batch))
    assert "waits until another drive is finished" in output
    assert _processes(batch)["01-sim-enterprise-nvme.process"] == processes["01-sim-enterprise-nvme.process"]
    os.kill(processes["01-sim-enterprise-nvme.process"], signal.SIGCONT)
    _wait_until(lambda: _all_ended(batch))

    _require_one_fresh_start_each(batch, 2)


@pytest.mark.long
def test_a_process_killed_before_its_test_began_is_started_again(batch: Path) -> None:
    """Its empty run folder does not stand in the way."""
    _start(batch, 1, test=_SLOW)
    for pid in _processes(batch).values():
        _kill(pid)
    _wait_until(lambda: _all_ended(batch))
    (batch / "01-sim-enterprise-nvme" / "journal.jsonl").unlink()
    for path in (batch / "01-sim-enterprise-nvme" / "evidence").iterdir():
        path.unlink()

    _snia_pts("resume", str(batch))
    _wait_until(lambda: _all_ended(batch))

    _require_one_fresh_start_each(batch, 1)


@pytest.mark.long
def test_stop_waits_and_starts_no_further_drive(batch: Path) -> None:
    """Afterwards nothing runs, and status names the command that continues the batch."""
    _start(batch, 3, "--side-by-side", "1", test=_SLOW)
    _snia_pts("stop", str(batch))

    assert _all_ended(batch)
    output = _snia_pts("status", str(batch))
    assert f"snia-pts resume {batch}" in output
    assert "none of its drives is being tested" in _snia_pts("stop", str(batch), code=17)


def test_several_targets_need_detach(tmp_path: Path) -> None:
    """Nothing is started without it."""
    path = tmp_path / "batch"
    assert "--detach" in _snia_pts("wsat", _DRIVE, _DRIVE, "--run-dir", str(path), code=2)
    assert not path.exists()


def test_one_refused_target_starts_none(tmp_path: Path) -> None:
    """All targets are checked before the first test."""
    path = tmp_path / "batch"
    _snia_pts("wsat", _DRIVE, "sim:no-such-drive", "--detach", "--run-dir", str(path), code=2)
    assert not path.exists()


def test_two_names_of_a_file_are_refused(tmp_path: Path) -> None:
    """Symlinks and hard links lead to the same file."""
    target = tmp_path / "target"
    target.write_bytes(bytes(1 << 20))
    (tmp_path / "symlink").symlink_to(target)
    words = ("wsat", str(target), str(tmp_path / "symlink"), "--overwrite", "--detach")
    assert "are the same target" in _snia_pts(*words, "--run-dir", str(tmp_path / "batch"), code=2)


def test_two_names_of_a_drive_are_refused() -> None:
    """Two paths of a drive, or two namespaces, have one serial number."""
    one, names = samples.dut(), ["/dev/nvme0n1", "by-id/one"]
    with pytest.raises(UsageError, match="/dev/nvme0n1 and by-id/one are the same drive"):
        require_distinct([one, samples.dut(path="/dev/nvme0n2")], names)
    require_distinct([one, samples.dut(path="/dev/nvme1n1", serial="another")], names)
    simulated = simulated_dut("enterprise-nvme", read_preset("enterprise-nvme"))
    require_distinct([simulated, simulated], ["sim:enterprise-nvme"] * 2)


def _threatened(number: int) -> ThreatenedDrive:
    return ThreatenedDrive(path=f"/dev/nvme{number}n1", model="M", serial=f"S{number}", capacity_bytes=1, signatures=())


def test_all_drives_are_confirmed_by_one_answer() -> None:
    """The question lists every drive; an answer without one of them confirms none."""
    asked: list[ConfirmDestruction | ConfirmRestart] = []

    def answer(request: ConfirmDestruction | ConfirmRestart) -> str:
        asked.append(request)
        return "S2, S1"

    confirm_all([_threatened(1), _threatened(2)], None, Caller(confirm=answer))
    assert [request.expected for request in asked] == ["S1,S2"]
    for typed in ("S1", "S1,S1", "S1,S2,S3", ""):
        with pytest.raises(NotConfirmed):
            confirm_all([_threatened(1), _threatened(2)], typed, Caller(confirm=answer))
    assert len(asked) == 1


def test_options_that_destroy_data_or_start_programs_are_not_stored(batch: Path) -> None:
    """batch.json lists the drives and the tests only."""
    _start(batch, 1, "--seed", "7")
    stored = BatchFolder.existing(batch)
    assert stored is not None
    (options,) = stored.drives[0].options
    assert (options.seed, options.serial, options.purge_command, options.plugins) == (7, None, None, ())
    assert present_target(stored.drives[0]) == _DRIVE


def test_a_damaged_list_of_drives_is_an_error(tmp_path: Path) -> None:
    """A name that leads out of the batch is refused."""
    (tmp_path / "batch.json").write_text('{"format": 1, "side_by_side": 1, "drives": [{"name": "../01-x"}]}')
    assert "batch.json has" in _snia_pts("status", str(tmp_path), code=14)


def _batch_drive(dut: Dut) -> BatchDrive:
    return BatchDrive(
        name=drive_name(1, dut.identity),
        model=dut.model,
        serial=dut.serial,
        suite=False,
        options=(RunOptions(test="iops", target=dut.path),),
        longest_seconds=(1.0,),
    )


def test_another_drive_at_the_name_of_one_that_never_began_is_not_tested(
    batch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its serial number is not even asked for: the operator reads first that the drive of the batch is not there."""
    before = samples.dut(path="/dev/nvme98n1")
    folder = BatchFolder.create(batch, [_batch_drive(before)], SideBySide(1))
    events: list[Event] = []
    monkeypatch.setattr(batch_resume, "present_target", lambda drive: drive.target)
    monkeypatch.setattr(Path, "is_block_device", lambda path: True)
    monkeypatch.setattr(batch_resume, "threatened", lambda *_: (_threatened(98),))
    caller = Caller(on_event=events.append, confirm=lambda request: request.expected)
    for dut, tested in ((before, 1), (samples.dut(path=before.path, serial="another"), 0)):
        monkeypatch.setattr(batch_resume, "read_dut", lambda path, dut=dut: dut)
        orders, errors = batch_resume.prepare_resume(folder, ResumeOptions(), {}, caller)
        assert (len(orders), len(errors)) == (tested, 1 - tested)
    (error,) = errors
    assert isinstance(error, NotResumable)
    assert "serial another" in str(error)
    assert any(isinstance(event, Notice) and str(error) in event.text for event in events)


def test_a_drive_is_found_under_its_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reboot, the drive with the stored serial number is tested, whatever its name; a unique one only."""
    before, now = samples.dut(path="/dev/nvme98n1"), samples.dut(path="/dev/nvme99n1")
    other = samples.dut(path="/dev/nvme97n1", serial="another")
    drive = _batch_drive(before)
    for duts, expected in (((other, now), now.path), ((other,), before.path), ((now, now), before.path)):
        devices = [SimpleNamespace(path=dut.path, dut=dut) for dut in duts]
        monkeypatch.setattr(inventory, "read_inventory", lambda devices=devices: devices)
        assert present_target(drive) == expected


def test_a_drive_that_stopped_between_two_tests_is_stopped(batch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first test is finished, so the drive does not count as one that never began."""
    folder = BatchFolder.create(batch, [_batch_drive(samples.dut())], SideBySide(1))
    runs = [
        RunStatus(run="r", test="iops", state="finished"),
        RunStatus(run="r", test="wsat", state="not started"),
    ]
    monkeypatch.setattr(BatchFolder, "has_begun", lambda *_: True)
    monkeypatch.setattr(batch_status, "read_statuses", lambda *_, **__: iter(runs))
    (drive,) = batch_status.drive_statuses(folder)
    assert (drive.state, drive.test) == ("stopped", "wsat")


@pytest.mark.long
def test_a_process_that_ends_before_its_test_begins_is_reported(batch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command fails, and resume starts the drive; the folder of the batch keeps its output."""
    with monkeypatch.context() as broken:
        broken.setattr(commands, "_TEST_DRIVE", "snia_pts.cli.commands.batch_drive:missing")
        words = ("wsat", _DRIVE, "--detach", "--run-dir", str(batch), "--to", "none")
        assert "ended before a test began" in _snia_pts(*words, code=BatchIncomplete.exit_code)
    assert [drive["state"] for drive in _status(batch)] == ["not started"]
    assert "missing" in (batch / "01-sim-enterprise-nvme.out").read_text()

    _snia_pts("resume", str(batch))
    _wait_until(lambda: _all_ended(batch))

    _require_one_fresh_start_each(batch, 1)


def test_invalid_options_of_the_processes_are_refused(tmp_path: Path) -> None:
    """Each process would refuse them; no folder is created."""
    words = ("wsat", _DRIVE, _DRIVE, "--detach", "--run-dir", str(tmp_path / "batch"))
    _snia_pts(*words, "--mail-to", "a@example.org", code=UsageError.exit_code)
    _snia_pts(*words, "--side-by-side", "0", code=UsageError.exit_code)
    _snia_pts(*words, "--power-command", "true", code=UsageError.exit_code)
    assert not list(tmp_path.iterdir())
