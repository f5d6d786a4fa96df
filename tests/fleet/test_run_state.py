"""Each run of a host is started at most once: what is known of it after any crash, and what then becomes of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from snia_pts.errors import NotConfirmed, NotResumable, NotRunning, RecordError, RequestRefused, SpecError, TargetBusy
from snia_pts.fleet import run_process
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.request import RequestOptions, RunRequest, TestName, request_json
from snia_pts.fleet.run_state import Ended, HostRuns, Lost, Outcome, Running
from snia_pts.fleet.state_folder import Exit, RunState, Start, drive_lock, now
from snia_pts.fleet.unit import Units
from tests.command_line import ROOT
from tests.drives import MIB, loop_device
from tests.fleet_killing import caller, configure, journal_kinds, kill_runs

_DEADLINE_SECONDS = 300


def _request(serial: str = "SIM-0", test: TestName = "wsat", **options: str) -> RunRequest:
    chosen = RequestOptions(formats=(), **options)  # type: ignore[arg-type]  # texts only
    return RunRequest(run_id=uuid.uuid4(), serial=serial, model="trial", test=test, options=chosen)


def _state(folder: Path, request: RunRequest) -> RunState:
    return RunState.of(folder / "state", request.run_id)


def _start(claim: int, *, began: bool = False) -> Start:
    return Start(claim=claim, kind="resume" if claim else "fresh", began=began, pid=1, at=now())


def _wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _ended(runs: HostRuns, request: RunRequest) -> Outcome | None:
    """Wait until the process of a run has ended; return the state of the run."""
    _wait_until(lambda: not isinstance(runs.state(request.run_id), Running))
    return runs.state(request.run_id)


@pytest.fixture
def runs(tmp_path: Path) -> HostRuns:
    """The runs of a host with drives for trials."""
    return HostRuns(read_configuration(configure(tmp_path)))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose process would have been started; none is."""
    names: list[str] = []
    monkeypatch.setattr(Units, "start", lambda self, run, *locks: names.append(run.path.name))
    return names


# -- decisions, without a process -------------------------------------------------------------------------------------


def test_a_crash_between_the_claim_and_the_start_is_lost_without_a_start(
    runs: HostRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The permission cannot be created again, so that nothing is started twice."""

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    request = _request()
    with monkeypatch.context() as crashing:
        crashing.setattr(Units, "start", crash)
        with pytest.raises(KeyboardInterrupt):
            runs.ensure(request)
    lost = Lost(starts=0, decision="resume", progress="not begun", folder=tmp_path / "runs" / str(request.run_id))
    assert runs.ensure(request) == runs.ensure(request) == lost


def test_a_run_is_started_by_the_first_of_many_calls(runs: HostRuns, started: list[str], tmp_path: Path) -> None:
    """Later ones find the permission, and no process: the run is lost, and its decision is that of the table."""
    request = _request()
    assert runs.state(request.run_id) is None
    assert isinstance(runs.ensure(request), Running)
    assert [type(runs.ensure(request)) for _ in range(3)] == [Lost] * 3
    assert started == [str(request.run_id)]
    for resumes in range(1, 4):
        assert isinstance(runs.resume(request.run_id), Running)
        assert _state(tmp_path, request).claims == 1 + resumes
    lost = runs.state(request.run_id)
    assert isinstance(lost, Lost)
    assert lost.decision == "hold"


def test_another_request_with_the_same_run_id_is_refused(runs: HostRuns, started: list[str]) -> None:
    """The first one decides what is tested."""
    request = _request()
    runs.ensure(request)
    other = RunRequest(run_id=request.run_id, serial="FILE-0", model="trial", test="iops")
    with pytest.raises(RequestRefused, match="another request with this run_id"):
        runs.ensure(other)
    assert len(started) == 1


@pytest.mark.parametrize("request_", [_request("S9"), _request("FILE-0", purge="nvme-format")], ids=["drive", "purge"])
def test_a_request_that_the_host_may_not_perform_leaves_nothing(
    runs: HostRuns, started: list[str], tmp_path: Path, request_: RunRequest
) -> None:
    """It is refused before the first file is written."""
    with pytest.raises(RequestRefused):
        runs.ensure(request_)
    assert (started, (tmp_path / "state").exists()) == ([], False)


def test_a_drive_has_one_run_at_a_time(runs: HostRuns, started: list[str], tmp_path: Path) -> None:
    """A second run is refused as long as a process has locked the drive, and can be started afterwards."""
    request = _request()
    lock = drive_lock(tmp_path / "state", request.serial)
    assert lock is not None
    with pytest.raises(TargetBusy, match="another run of this host tests it"):
        runs.ensure(request)
    assert runs.state(request.run_id) is None
    os.close(lock)
    assert isinstance(runs.ensure(request), Running)
    assert len(started) == 1


def test_a_run_without_a_request_cannot_be_resumed_or_stopped(runs: HostRuns) -> None:
    """Both say so."""
    with pytest.raises(NotResumable, match="it was never started on this host"):
        runs.resume(uuid.uuid4())
    with pytest.raises(NotRunning):
        runs.stop(uuid.uuid4())


# -- the state folder --------------------------------------------------------------------------------------------------


def test_a_permission_is_used_at_most_once(runs: HostRuns, started: list[str], tmp_path: Path) -> None:
    """A second process, such as a unit that somebody starts again by hand, touches nothing."""
    request = _request()
    runs.ensure(request)
    state = _state(tmp_path, request)
    state.record_start(_start(0))
    for _ in range(2):
        lock = state.locked()
        assert lock is not None
        code = run_process._use_permission(read_configuration(tmp_path / "agent.toml"), state, lock)
        os.close(lock)
        assert code == NotResumable.exit_code
    assert len(state.starts()) == 1
    assert state.exit() is None
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_folder_was_removed_is_not_started_again(
    runs: HostRuns, started: list[str], tmp_path: Path
) -> None:
    """Its first step may have written to the drive, so that only a person can ask for a purge."""
    request = _request()
    runs.ensure(request)
    state = _state(tmp_path, request)
    for began in (False, True):
        state.record_start(_start(0, began=began))
    lost = runs.state(request.run_id)
    assert isinstance(lost, Lost)
    assert (lost.starts, lost.decision, lost.progress) == (1, "hold", "begins again")

    runs.resume(request.run_id)
    lock = state.locked()
    assert lock is not None
    with pytest.raises(NotResumable):
        run_process._use_permission(read_configuration(tmp_path / "agent.toml"), state, lock)
    os.close(lock)
    end = state.exit()
    assert end is not None
    assert end.code == NotResumable.exit_code
    assert "its run folder has no journal any more" in end.message
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_line_that_was_being_written_when_the_power_failed_is_no_start(tmp_path: Path) -> None:
    """The next start replaces it."""
    state = RunState(path=tmp_path)
    state.record_start(_start(0))
    whole = (tmp_path / "starts").read_bytes()
    for length in range(1, len(whole)):
        (tmp_path / "starts").write_bytes(whole + whole[:length].rstrip(b"\n"))
        assert len(state.starts()) == 1
        state.record_start(_start(1))
        assert [start.claim for start in state.starts()] == [0, 1]


def test_the_end_of_an_earlier_process_is_not_that_of_a_resumed_run(tmp_path: Path) -> None:
    """An end counts only for the last permission."""
    state = RunState(path=tmp_path)
    state.claim("fresh")
    state.record_exit(Exit(claim=0, code=130, message="stopped", at=now()))
    end = state.exit()
    assert end is not None
    assert end.code == 130
    state.claim("resume")
    assert state.exit() is None


@pytest.mark.parametrize("name", ["starts", "exit", "request.json"])
def test_a_damaged_state_is_an_error_and_starts_nothing(
    runs: HostRuns, started: list[str], tmp_path: Path, name: str
) -> None:
    """A person decides what becomes of the run."""
    request = _request()
    runs.ensure(request)
    (_state(tmp_path, request).path / name).write_text("damaged\n")
    with pytest.raises((RecordError, SpecError)):
        runs.ensure(request)
    assert len(started) == 1


def _size(journal: Path) -> int:
    return journal.stat().st_size if journal.exists() else 0


def _has_grown(journal: Path, size: int) -> bool:
    return _size(journal) > size


# -- with processes ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_ends_once_and_its_end_is_kept(runs: HostRuns, tmp_path: Path) -> None:
    """It has one start, one journal and one verdict, however often it is ensured."""
    request = _request()
    assert isinstance(runs.ensure(request), Running)
    assert isinstance(runs.ensure(request), Running)
    ended = _ended(runs, request)
    assert isinstance(ended, Ended)
    assert (ended.exit_code, runs.ensure(request)) == (0, ended)
    assert ended.message
    assert [(start.kind, start.began) for start in _state(tmp_path, request).starts()] == [
        ("fresh", False),
        ("fresh", True),
    ]
    assert journal_kinds(ended.folder)["start"] == 1
    with pytest.raises(NotResumable, match="it is finished"):
        runs.resume(request.run_id)
    with pytest.raises(NotRunning):
        runs.stop(request.run_id)


@pytest.mark.long
def test_a_stopped_run_is_resumed(runs: HostRuns, tmp_path: Path) -> None:
    """Both ways to stop it leave a known end, and its journal goes on."""
    request = _request(test="hir")
    runs.ensure(request)
    for at_once in (False, True):
        journal = tmp_path / "runs" / str(request.run_id) / "journal.jsonl"
        size = _size(journal)
        _wait_until(partial(_has_grown, journal, size))
        runs.stop(request.run_id, at_once=at_once)
        stopped = _ended(runs, request)
        assert isinstance(stopped, Ended)
        assert stopped.exit_code == 130, stopped
        cause = "Terminated (SIGTERM)" if at_once else "Stopped by a request to the lab"
        assert stopped.message.startswith(f"{cause} in step ")
        runs.resume(request.run_id, from_purge=True)
    ended = _ended(runs, request)
    assert isinstance(ended, Ended)
    assert ended.exit_code == 0, ended
    assert journal_kinds(ended.folder)["start"] == 1


def test_only_the_process_of_the_run_is_stopped(
    runs: HostRuns, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the number in its lock is that of another process by now, no signal is sent, and the run is asked to stop."""
    request = _request()
    runs.ensure(request)
    state = _state(tmp_path, request)
    lock = state.locked()
    assert lock is not None
    signals: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda _, number: signals.append(number))
    with subprocess.Popen(["sleep", "100"]) as other:
        os.write(lock, f"{other.pid}\n".encode())
        runs.stop(request.run_id, at_once=True)
        other.kill()
    assert (signals, state.stop_requested) == ([], True)
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    runs.stop(request.run_id, at_once=True)
    assert signals == [signal.SIGTERM]
    os.close(lock)


@pytest.mark.long
def test_a_run_outlives_the_caller_that_started_it(tmp_path: Path) -> None:
    """SIGKILL of the caller leaves the run alone, in a session of its own; the next caller finds its end."""
    configuration, request = configure(tmp_path), _request(test="hir")
    file = tmp_path / "requests.jsonl"
    file.write_bytes(request_json(request) + b"\n")
    state, runs = _state(tmp_path, request), HostRuns(read_configuration(configuration))
    killed = caller(configuration, file)
    _wait_until(lambda: state.pid)
    killed.kill()
    killed.join()
    running = runs.ensure(request)
    assert isinstance(running, Running)
    assert running.pid is not None
    assert os.getsid(running.pid) == running.pid
    ended = _ended(runs, request)
    assert isinstance(ended, Ended)
    assert (ended.exit_code, len(state.starts())) == (0, 2)


@pytest.mark.long
def test_several_callers_at_once_start_a_run_once(tmp_path: Path) -> None:
    """The lock of the drive decides; no permission is used twice."""
    configuration, request = configure(tmp_path), _request()
    file = tmp_path / "requests.jsonl"
    file.write_bytes(request_json(request) + b"\n")
    callers = [caller(configuration, file) for _ in range(4)]
    for process in callers:
        process.join(_DEADLINE_SECONDS)
    assert [process.exitcode for process in callers] == [0] * 4
    state = _state(tmp_path, request)
    assert [start.kind for start in state.starts()] == ["fresh", "fresh"]
    assert journal_kinds(tmp_path / "runs" / str(request.run_id))["start"] == 1


@pytest.mark.root
@pytest.mark.long
def test_another_drive_at_the_path_of_the_configuration_is_not_tested(tmp_path: Path) -> None:
    """The run compares the serial number itself, after it has claimed the drive; its end says so."""
    content = os.urandom(MIB)
    image = tmp_path / "image"
    image.write_bytes(content)
    configuration = configure(tmp_path)
    with loop_device(image) as device:
        drive = f'[[drive]]\nserial = "S1"\ntarget = "{device}"\ndiscard_data = true\n'
        configuration.write_text(configuration.read_text() + drive)
        runs, request = HostRuns(read_configuration(configuration)), _request("S1", purge="none")
        runs.ensure(request)
        ended = _ended(runs, request)
    assert isinstance(ended, Ended)
    assert (ended.exit_code, image.read_bytes()) == (NotConfirmed.exit_code, content)
    assert f"'S1' is not its name. Nothing was written to it. Type {device.name}" in ended.message


_SYSTEMCTL = """#!/bin/sh
echo "$@" >> {folder}/calls
unit="${{*##* }}"
name="${{unit#snia-pts-run@}}"
case "$1" in
    start)
        output="{folder}/state/runs/${{name%.service}}/output"
        [ -e "$output" ] || exit 1 # systemd would create it with root's group, which the agent does not have
        exec >> "$output" 2>&1
        setsid {python} -m snia_pts.fleet.run_process {folder}/agent.toml "${{name%.service}}" &
        ;;
    show) echo inactive ;;
esac
"""


@pytest.mark.long
def test_a_unit_takes_the_locks_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With systemd, here a script in its place, the run is a unit of its own with one start."""
    configuration = configure(tmp_path)
    configuration.write_text(configuration.read_text().replace('"process"', '"systemd"'))
    script = tmp_path / "bin" / "systemctl"
    script.parent.mkdir()
    script.write_text(_SYSTEMCTL.format(folder=tmp_path, python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    runs, request = HostRuns(read_configuration(configuration)), _request()
    state = _state(tmp_path, request)
    assert isinstance(runs.ensure(request), Running)
    _wait_until(lambda: state.starts())
    ended = _ended(runs, request)
    assert isinstance(ended, Ended)
    assert (ended.exit_code, len(state.starts())) == (0, 2)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == f"start --no-block snia-pts-run@{request.run_id}.service"
    assert set(calls[1:]) <= {f"show --property=ActiveState --value snia-pts-run@{request.run_id}.service"}


@pytest.mark.long
def test_random_kills_start_no_run_twice(tmp_path: Path) -> None:
    """Of callers, processes of runs and fio in any combination; bench/fleet_kills.py does more of them."""
    counts = kill_runs(tmp_path, 8, random.SystemRandom().getrandbits(32))
    assert counts.kills.total() >= 8
    assert counts.most_fresh_starts == 1
    assert sum(counts.ends.values()) == counts.runs
