"""The result of a run names the runs that went on beside it, its CPUs, and the time in the queue."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from snia_pts.fleet.side_by_side import SharedHost, neighbours
from snia_pts.fleet.state_folder import Exit, RunState, Start
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from tests.command_line import ENVIRONMENT
from tests.fleet.labs import LONG, TestLab, request, until

_NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def at(minutes: int) -> datetime:
    """Return a time after noon."""
    return _NOON + timedelta(minutes=minutes)


def stored_run(folder: Path, serial: str, started: int, ended: int | None, run_id: UUID | None = None) -> RunState:
    """Store a run on a host that went on between these minutes after noon; without end its process was killed."""
    made = request(serial)
    state = RunState.of(folder, run_id or made.run_id)
    state.make_folder()
    state.accept(made)
    state.claim("fresh")
    state.record_start(Start(claim=0, kind="fresh", began=False, pid=1, at=at(started)))
    state.record_start(Start(claim=0, kind="fresh", began=True, pid=1, at=at(started + 1)))
    if ended is not None:
        state.record_exit(Exit(claim=0, code=0, message="", at=at(ended)))
    return state


def test_neighbours_are_the_runs_that_overlap(tmp_path: Path) -> None:
    """Runs that ended before are none; one whose process lives is one, although it has no end yet."""
    own = uuid4()
    stored_run(tmp_path, "OWN", 10, None, own)
    stored_run(tmp_path, "BEFORE", 0, 9)
    stored_run(tmp_path, "KILLED-BEFORE", 1, None)
    stored_run(tmp_path, "INSIDE", 20, 30)
    stored_run(tmp_path, "KILLED", 25, None)
    stored_run(tmp_path, "OVERLAPS", 0, 11)
    alive = stored_run(tmp_path, "ALIVE", 2, None)
    lock = alive.locked()
    assert lock is not None
    try:
        found = list(neighbours(tmp_path, own, at(10)))
    finally:
        os.close(lock)
    assert [(run.serial, run.started, run.ended) for run in found] == [
        ("OVERLAPS", at(0), at(11)),
        ("ALIVE", at(2), None),
        ("INSIDE", at(20), at(30)),
        ("KILLED", at(25), None),
    ]


def test_a_run_that_was_alone_has_no_warning(tmp_path: Path) -> None:
    """Its settings say so, and how long it waited for its start."""
    own = uuid4()
    state = stored_run(tmp_path, "OWN", 10, None, own)
    stored_run(tmp_path, "BEFORE", 0, 9)
    state.record_submission(at(-80))
    host = SharedHost(state_folder=tmp_path, run_id=own, started=at(10))
    assert host.end_warnings() == ()
    assert {setting.name: (setting.value, setting.judgement) for setting in host.settings()} == {
        "tests side by side": ("none at the start", "good"),
        "CPUs of the test": ("all", "good"),
        "time in the queue": ("1 h 30 min", "good"),
    }


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_each_process_has_its_own_share_of_the_cpus(tmp_path: Path) -> None:
    """A third one, for which no share is left, uses all; the share of a process that has ended is free again."""
    program = (
        "import os, sys; from pathlib import Path; from uuid import uuid4; from datetime import datetime, UTC;"
        "from snia_pts.fleet.side_by_side import SharedHost;"
        "os.sched_setaffinity(0, set(map(int, sys.argv[2].split(','))));"
        "host = SharedHost(state_folder=Path(sys.argv[1]), run_id=uuid4(), started=datetime.now(UTC));"
        "host.take_cpus('/dev/null', 2);"
        "print(','.join(map(str, sorted(os.sched_getaffinity(0)))), host.cpus, flush=True); sys.stdin.read()"
    )
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    words = [sys.executable, "-c", program, str(tmp_path), ",".join(cpus)]

    def start() -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        assert process.stdout is not None
        return process, process.stdout.readline().split()

    processes = [start() for _ in range(3)]
    try:
        assert [taken for _, taken in processes] == [[cpus[0]] * 2, [cpus[1]] * 2, [",".join(cpus)]]
        processes[0][0].communicate()
        processes.append(start())
        assert processes[-1][1] == [cpus[0]] * 2
    finally:
        for process, _ in processes:
            process.communicate()


@pytest.mark.long
def test_the_results_of_two_runs_side_by_side_name_each_other(lab: TestLab) -> None:
    """The warning has the serial number and the test of the other one, and the settings the time in the queue."""
    host = lab.add("h1", "A", "B").start()
    until(lambda: len(lab.query("SELECT serial FROM lab_drive")) == 2, "the agent reports its drives")
    runs = {serial: request(serial, LONG) for serial in "AB"}
    lab.submit(*runs.values())
    folders = {serial: Path(lab.until_state(run.run_id, "finished")["folder"]) for serial, run in runs.items()}
    for serial, other in ("AB", "BA"):
        result = assess(RunFolder.existing(folders[serial]))
        warnings = [warning.detail for warning in result.end_warnings if warning.what == "tests side by side"]
        assert len(warnings) == 1, host.log
        assert f"serial {other}, iops, from " in warnings[0]
        settings = {setting.name: setting.value for setting in result.facts.platform.settings}
        assert set(settings) >= {"tests side by side", "CPUs of the test", "time in the queue"}
        assert f"serial {other}, iops" in RunFolder.existing(folders[serial]).result.read_text()
