"""The service that starts runs for an agent without rights on drives."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from snia_pts.errors import HostFailed, NotResumable, NotRunning, RequestRefused, TargetBusy, UsageError
from snia_pts.fleet import host_process, host_service
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.host_service import Answer, Failure, HostService, RemoteRuns
from snia_pts.fleet.request import RequestOptions, RunRequest
from snia_pts.fleet.run_state import Ended, HostRuns, Running
from snia_pts.fleet.state_folder import drive_lock
from tests.fleet.labs import LONGER, SHORT, TestLab, request, until
from tests.fleet_killing import configure


@contextmanager
def serving(runs: HostRuns, path: Path) -> Iterator[Path]:
    """Answer calls at a socket, inside the block."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with HostService(listening, runs) as service:
            thread = threading.Thread(target=service.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield path
            finally:
                service.shutdown()
                thread.join()
    path.unlink()


def short_request(serial: str = "SIM-0") -> RunRequest:
    """Return a request for a test of less than a second."""
    options = RequestOptions(formats=(), overrides=SHORT)
    return RunRequest(run_id=uuid.uuid4(), serial=serial, model="trial", test="iops", options=options)


@pytest.fixture
def host(tmp_path: Path) -> HostRuns:
    """The runs of a host with drives for trials."""
    return HostRuns(read_configuration(configure(tmp_path)))


@pytest.fixture
def remote(host: HostRuns, tmp_path: Path) -> Iterator[RemoteRuns]:
    """The same runs for an agent."""
    with serving(host, tmp_path / "socket") as path:
        yield RemoteRuns(path)


def test_an_agent_has_the_outcomes_of_the_host(host: HostRuns, remote: RemoteRuns, tmp_path: Path) -> None:
    """A run is started, attached to and ended; each call gives what it gives on the host."""
    wanted = short_request()
    assert remote.state(wanted.run_id) is None
    folder = tmp_path / "runs" / str(wanted.run_id)
    assert remote.ensure(wanted) == Running(pid=None, folder=folder)
    until(lambda: isinstance(remote.state(wanted.run_id), Ended), "the end of the run")
    assert remote.state(wanted.run_id) == remote.ensure(wanted) == host.state(wanted.run_id)
    assert remote.side_by_side() == host.side_by_side()


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RequestRefused, lambda remote: remote.ensure(short_request("FOREIGN"))),
        (NotRunning, lambda remote: remote.stop(uuid.UUID(int=1))),
        (NotResumable, lambda remote: remote.resume(uuid.UUID(int=1))),
    ],
)
def test_an_agent_has_the_errors_of_the_host(
    host: HostRuns, remote: RemoteRuns, error: type[Exception], call: Callable[[HostRuns | RemoteRuns], object]
) -> None:
    """With class, text and hint."""
    with pytest.raises(error) as here:
        call(host)
    with pytest.raises(error) as there:
        call(remote)
    assert str(there.value).partition("run_id")[2:] == str(here.value).partition("run_id")[2:]
    assert getattr(there.value, "hint", "") == getattr(here.value, "hint", "") != ""


def test_a_drive_in_use_is_an_error_of_its_own(remote: RemoteRuns, tmp_path: Path) -> None:
    """The agent waits for it instead of reporting the run as refused."""
    locked = drive_lock(tmp_path / "state", "SIM-0")
    assert locked is not None
    with pytest.raises(TargetBusy):
        remote.ensure(short_request())
    os.close(locked)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b'{"method": "purge", "run_id": "6a1e2a3c-1111-4222-8333-444455556666"}\n',
        b'{"method": "state", "run_id": "../../etc"}\n',
        b'{"method": "state", "run_id": "6a1e2a3c-1111-4222-8333-444455556666", "folder": "/etc"}\n',
        b'{"method": "ensure", "run_id": "6a1e2a3c-1111-4222-8333-444455556666"}\n',
    ],
)
def test_an_invalid_call_is_answered_with_an_error(host: HostRuns, tmp_path: Path, line: bytes) -> None:
    """Nothing is started, and the next call is answered."""
    with serving(host, tmp_path / "socket") as path, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(line)
        with connection.makefile("rb") as file:
            answer = json.loads(file.readline())
        assert answer["failure"]["error"] == "UsageError"
        assert RemoteRuns(path).state(uuid.uuid4()) is None
    assert not (tmp_path / "runs").exists()


def test_an_agent_that_is_killed_during_a_call_leaves_no_traceback(
    host: HostRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The service answers the next call."""
    called, gone = threading.Event(), threading.Event()

    def state(_run_id: uuid.UUID) -> None:
        called.set()
        gone.wait(60)

    monkeypatch.setattr(host, "state", state)
    with serving(host, tmp_path / "socket") as path:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b'{"method": "state", "run_id": "6a1e2a3c-1111-4222-8333-444455556666"}\n')
            assert called.wait(60)
        gone.set()
        assert RemoteRuns(path).state(uuid.uuid4()) is None
    assert capfd.readouterr().err == ""


def test_a_call_is_repeated_while_the_service_starts_again(
    host: HostRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not the one that resumes a run: its second answer would be that the run is in progress."""
    monkeypatch.setattr(host_service, "_REPEAT_SECONDS", 0.05)
    remote = RemoteRuns(tmp_path / "socket")
    with pytest.raises(FileNotFoundError):
        remote.state(uuid.uuid4())
    with pytest.raises(FileNotFoundError):
        remote.resume(uuid.uuid4())
    monkeypatch.setattr(host_service, "_REPEAT_SECONDS", 1.0)
    started = threading.Event()

    def start() -> None:
        with serving(host, tmp_path / "socket"):
            started.wait(60)

    timer = threading.Timer(0.2, start)
    timer.start()
    assert remote.state(uuid.uuid4()) is None
    started.set()
    timer.join()


def test_an_error_of_another_version_is_a_failure_of_the_host() -> None:
    """Its reason is kept."""
    answer = Answer(failure=Failure(error="DriveOnFire", fields={"reason": "it is hot"}))
    with pytest.raises(HostFailed, match="it is hot"):
        answer.outcome()


def test_an_error_is_no_number_of_runs_side_by_side(remote: RemoteRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that cannot say how many raises its error; an agent that assumed one would hide it."""

    def fail(_: HostRuns) -> NoReturn:
        raise UsageError(detail="there is no number")

    monkeypatch.setattr(HostRuns, "side_by_side", fail)
    with pytest.raises(UsageError, match="there is no number"):
        remote.side_by_side()


def test_the_service_needs_the_socket_of_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started by hand, it says how to start it."""
    monkeypatch.delenv("LISTEN_PID", raising=False)
    with pytest.raises(UsageError) as error:
        host_process.serve(str(configure(tmp_path)))
    assert "systemctl start" in error.value.hint


@pytest.mark.long
def test_a_lab_tests_through_the_service(lab: TestLab, tmp_path: Path) -> None:
    """An agent whose configuration names the socket starts a run, stops one, and reports both."""
    added = lab.add("h1", "D1", "D2")
    with serving(HostRuns(read_configuration(added.configuration)), tmp_path / "socket") as path:
        text = added.configuration.read_text()
        added.configuration.write_text(f'host_service = "{path}"\n{text}')
        added.start()
        first, second = request("D1"), request("D2", LONGER)
        until(lambda: len(lab.query("SELECT 1 FROM lab_drive")) == 2, "the drives of the host")
        lab.submit(second)
        lab.until_state(second.run_id, "running")
        with lab.open() as opened:
            opened.stop(str(second.run_id), at_once=True)
        lab.until_state(second.run_id, "stopped")
        lab.submit(first)
        lab.until_state(first.run_id, "finished")
        assert not (tmp_path / "h1" / "state" / "agent").exists()
