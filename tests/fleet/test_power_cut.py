"""A power failure at any moment: what is on stable storage then never lets a run start twice."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from snia_pts.fleet import run_process
from snia_pts.fleet.configuration import AgentConfiguration, read_configuration
from snia_pts.fleet.request import RequestOptions, RunRequest
from snia_pts.fleet.run_process import _RunProcess
from snia_pts.fleet.run_state import Ended, HostRuns, Lost
from snia_pts.fleet.state_folder import RunState
from snia_pts.fleet.unit import Units
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import RunStarted
from tests.fleet_killing import configure

#: What a file has that was written, but not synced: everything, nothing, or its first half.
Unsynced = Literal["all", "nothing", "half"]


@dataclass(slots=True, kw_only=True)
class Disk:
    """What is on stable storage of a folder, by the calls of ``fsync``, and what its files contain now.

    A file is stable if its content was synced, and its name if the folder was synced since it got that name.
    """

    folder: Path
    names: dict[Path, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)

    def sync(self, descriptor: int) -> None:
        """Record an fsync."""
        path, status = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self.contents[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def after_power_failure(self, to: Path, unsynced: Unsynced, *, names_are_stable: bool) -> None:
        """Write the folder as it may be after a power failure now, to an empty folder."""
        self._copy(self.folder, to, unsynced, names_are_stable=names_are_stable)

    def _copy(self, folder: Path, to: Path, unsynced: Unsynced, *, names_are_stable: bool) -> None:
        present = {entry.name: entry.inode() for entry in os.scandir(folder)}
        stable = self.names.get(folder, {})
        for name, inode in {**stable, **(present if names_are_stable else {})}.items():
            if present.get(name) == inode and (folder / name).is_dir():
                (to / name).mkdir()
                self._copy(folder / name, to / name, unsynced, names_are_stable=names_are_stable)
                continue
            synced = self.contents.get(inode, b"")
            current = (folder / name).read_bytes() if present.get(name) == inode else synced
            kept = {"all": len(current), "nothing": 0, "half": (len(synced) + len(current)) // 2}[unsynced]
            content = current[: max(len(synced), kept)] if current.startswith(synced) else synced
            (to / name).write_bytes(content)


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Checks what a power failure at each moment leaves; ``launches`` and ``drive_touched`` count what has happened."""

    configuration: AgentConfiguration
    disk: Disk
    request: RunRequest
    copies: Path
    launches: int = 0
    drive_touched: bool = False
    states: list[object] = field(default_factory=list)

    def check(self) -> None:
        """Require that every folder that a power failure may leave now is known, and starts nothing twice."""
        for names_are_stable in (False, True):
            for unsynced in ("nothing", "half", "all"):
                copy = self.copies / str(len(self.states))
                copy.mkdir(parents=True)
                self.disk.after_power_failure(copy, unsynced, names_are_stable=names_are_stable)
                self._require_safe(copy)

    def _require_safe(self, copy: Path) -> None:
        runs = HostRuns(replace(self.configuration, state_folder=copy, run_folder=copy / "lost"))
        state, outcome = RunState.of(copy, self.request.run_id), runs.state(self.request.run_id)
        self.states.append(outcome)
        used = {start.claim for start in state.starts()}
        assert state.claims >= self.launches, "a process was started without a permission on stable storage"
        assert len([start for start in state.starts() if start.kind == "fresh" and not start.began]) <= 1
        assert used <= set(range(state.claims))
        if self.drive_touched:
            assert any(start.began for start in state.starts()), "the drive was touched, and no start says so"
            assert isinstance(outcome, Ended) or (isinstance(outcome, Lost) and outcome.decision == "hold")
        if isinstance(outcome, Ended):
            assert outcome.message == "the end"
        if outcome is not None:
            assert state.request() == self.request
        shutil.rmtree(copy)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder whose runs are performed in this process; each test touches the drive, and has no other step."""
    configuration = read_configuration(configure(tmp_path))
    configuration.state_folder.mkdir()
    request = RunRequest(
        run_id=uuid.uuid4(), serial="SIM-0", model="trial", test="wsat", options=RequestOptions(formats=())
    )
    found = Recorder(
        configuration=configuration,
        disk=Disk(folder=configuration.state_folder),
        request=request,
        copies=tmp_path / "copies",
    )
    fsync = os.fsync

    def checked_fsync(descriptor: int) -> None:
        found.check()
        fsync(descriptor)
        found.disk.sync(descriptor)
        found.check()

    def start(_: Units, run: RunState, run_lock: int, drive_lock: int) -> None:
        found.launches += 1
        found.check()
        run_process._use_permission(configuration, run, run_lock)

    def perform(process: _RunProcess, _: Caller) -> int:
        path = configuration.run_folder / process.state.path.name
        path.mkdir(parents=True, exist_ok=True)
        process._on_event(lambda event: None, RunStarted.__new__(RunStarted))
        found.drive_touched = True
        found.check()
        process.verdict = "the end"
        return 130

    monkeypatch.setattr(os, "fsync", checked_fsync)
    monkeypatch.setattr(Units, "start", start)
    monkeypatch.setattr(_RunProcess, "_perform", perform)
    return found


@pytest.mark.long
def test_no_power_failure_lets_a_run_start_twice(recorder: Recorder) -> None:
    """At each sync of the first start and of a resume, with all that a disk may keep or lose of what was not synced."""
    runs = HostRuns(recorder.configuration)
    runs.ensure(recorder.request)
    assert isinstance(runs.state(recorder.request.run_id), Ended)
    runs.resume(recorder.request.run_id)
    recorder.check()

    assert recorder.launches == 2
    assert isinstance(runs.state(recorder.request.run_id), Ended)
    kinds = {type(state) for state in recorder.states}
    assert kinds == {type(None), Lost, Ended}
    assert len(recorder.states) > 100


def test_the_check_finds_a_missing_sync(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the sync of the folder, the permission of a run that was started may be gone."""
    monkeypatch.setattr("snia_pts.fleet.state_folder.sync_folder", lambda folder: None)
    with pytest.raises(AssertionError, match="a process was started without a permission on stable storage"):
        HostRuns(recorder.configuration).ensure(recorder.request)
