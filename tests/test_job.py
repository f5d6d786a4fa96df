"""Jobs: runs in processes of their own that are followed, stopped, awaited, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import snia_pts as pts
from snia_pts import errors
from snia_pts.api.job_process import error_as_json, error_from_json
from snia_pts.errors import HostFailed, Interrupted, NotResumable, RecordError, SpecError, TargetMissing, UsageError
from snia_pts.record.folder import RunFolder
from snia_pts.record.log import logged
from tests.test_api_running import OPTIONS

#: A run that takes some seconds.
LONG = replace(
    OPTIONS, overrides=("rounds.maximum=14", "rounds.point_seconds=5", "steady_state.data_excursion_percent=0.001")
)

_CALLER = """
import sys, time
import snia_pts as pts
job = pts.start(pts.RunOptions(test="iops", target="sim:enterprise-nvme", overrides={overrides!r}, formats=(),
    run_folder={folder!r}))
print(job.pid, flush=True)
time.sleep(600)
"""


def until_round(events: Iterator[pts.events.Event], number: int) -> None:
    """Read the events up to the evaluation of a round."""
    for event in events:
        if isinstance(event, pts.events.RoundEvaluated) and event.evaluated_round.number == number:
            return


@pytest.mark.long
def test_a_job_is_followed_and_awaited(tmp_path: Path) -> None:
    """The events of the journal are those of the same run in this process; the run is the stored one."""
    job = pts.start(replace(OPTIONS, run_folder=tmp_path / "job"))
    followed = list(job.events())
    run = job.wait(timeout_seconds=60)
    direct: list[pts.events.Event] = []
    pts.run(replace(OPTIONS, run_folder=tmp_path / "run"), on_event=direct.append)

    def windows(events: list[pts.events.Event]) -> list[object]:
        evaluated = [event.window for event in events if isinstance(event, pts.events.RoundEvaluated)]
        return [window for window in evaluated if window]

    assert not job.running
    assert run.result == pts.load(tmp_path / "job").result
    assert isinstance(followed[-1], pts.events.TestFinished)
    assert followed[-1].result == run.result
    assert windows(followed) == windows(direct) != []
    kinds = (pts.events.StepStarted, pts.events.OutcomeRecorded, pts.events.RoundEvaluated, pts.events.TestFinished)
    assert [type(event) for event in followed] == [type(event) for event in direct if isinstance(event, kinds)]
    assert list(pts.follow(run.path)) == followed == list(job.events())


@pytest.mark.long
def test_a_job_is_stopped_and_resumed_as_a_job(tmp_path: Path) -> None:
    """``stop`` ends it after the current point; ``wait`` raises the error of the child with its fields."""
    job = pts.start(replace(LONG, run_folder=tmp_path / "run"))
    until_round(job.events(), 2)
    with pytest.raises(TimeoutError):
        job.wait(timeout_seconds=0)
    job.stop()
    with pytest.raises(Interrupted) as stopped:
        job.wait(timeout_seconds=60)
    assert stopped.value.cause == "Stopped by a request (snia-pts stop)"
    assert "snia-pts resume" in stopped.value.full_hint

    resumed = pts.start(pts.ResumeOptions(), tmp_path / "run")
    events = list(resumed.events())
    assert resumed.wait(timeout_seconds=120).result.ending == "finished"
    assert [type(event) for event in events].count(pts.events.RunResumed) == 1
    with pytest.raises(NotResumable):
        pts.start(pts.ResumeOptions(), tmp_path / "run")


@pytest.mark.long
def test_a_job_is_stopped_at_once(tmp_path: Path) -> None:
    """``stop(at_once=True)`` is SIGTERM, which ends the run as Ctrl-C does; a second one has no effect."""
    job = pts.start(replace(LONG, run_folder=tmp_path / "run"))
    until_round(job.events(), 1)
    job.stop(at_once=True)
    with pytest.raises(Interrupted) as stopped:
        job.wait(timeout_seconds=60)
    job.stop()
    job.stop(at_once=True)

    assert stopped.value.cause == "Terminated (SIGTERM)"
    assert not (tmp_path / "run/stop").exists()


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0, 0.05])
def test_a_job_stopped_before_its_first_entry_leaves_no_folder(seconds: float, tmp_path: Path) -> None:
    """A run that cannot be resumed is removed, and the error does not say that it has measurements."""
    job = pts.start(replace(LONG, run_folder=tmp_path / "run"))
    time.sleep(seconds)
    job.stop(at_once=True)
    with pytest.raises(Interrupted) as stopped:
        job.wait(timeout_seconds=60)

    if (tmp_path / "run").exists():  # the signal arrived later
        assert pts.resume(job.path).ending == "finished"
    else:
        assert stopped.value.full_hint == "Nothing was tested."


@pytest.mark.long
def test_a_killed_job_is_resumed(tmp_path: Path) -> None:
    """After SIGKILL, ``wait`` says so, the events end, and ``resume`` continues the run in this process."""
    job = pts.start(replace(LONG, run_folder=tmp_path / "run"))
    events = job.events()
    until_round(events, 3)
    os.kill(job.pid, signal.SIGKILL)
    for event in events:
        assert not isinstance(event, pts.events.TestFinished)
    with pytest.raises(HostFailed, match="killed by SIGKILL"):
        job.wait(timeout_seconds=60)
    run = pts.resume(job.path)

    assert run.result.ending == "finished"
    assert len(run.result.interruptions) == 1


@pytest.mark.long
def test_a_job_survives_the_death_of_its_caller(tmp_path: Path) -> None:
    """The caller is killed; the job continues, another process follows it, and it finishes."""
    program = _CALLER.format(overrides=LONG.overrides, folder=str(tmp_path / "run"))
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert caller.stdout is not None
    with caller, caller.stdout:
        pid = int(caller.stdout.readline())
        until_round(pts.follow(tmp_path / "run"), 1)
        caller.kill()

    assert RunFolder(path=tmp_path / "run").is_running
    assert os.getsid(pid) == pid
    assert isinstance(list(pts.follow(tmp_path / "run"))[-1], pts.events.TestFinished)
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.05)
    assert pts.load(tmp_path / "run").result.ending == "finished"


@pytest.mark.long
def test_a_run_is_followed_before_its_first_step(tmp_path: Path) -> None:
    """A run that is being prepared has no journal yet: ``follow`` waits for it, and ends if the process ends."""
    content = (pts.run(replace(OPTIONS, run_folder=tmp_path / "finished")).path / "journal.jsonl").read_bytes()
    folder = RunFolder.create(tmp_path / "run")
    with ThreadPoolExecutor(2) as threads, folder.opened():
        with logged(folder):
            followed = threads.submit(list, pts.follow(folder.path))
            time.sleep(0.2)
            assert not followed.done()
            folder.journal.write_bytes(content)
        assert isinstance(followed.result(timeout=30)[-1], pts.events.TestFinished)
        folder.journal.unlink()
        with logged(folder):
            abandoned = threads.submit(list, pts.follow(folder.path))
            time.sleep(0.2)
        assert abandoned.result(timeout=30) == []
    with pytest.raises(RecordError, match="killed before the first step"):
        pts.follow(folder.path)


@pytest.mark.long
def test_refusals_are_raised_by_start(tmp_path: Path) -> None:
    """``start`` raises the error of the child, with its class and fields; no folder is left."""
    folder = tmp_path / "run"
    with pytest.raises(TargetMissing) as missing:
        pts.start(replace(OPTIONS, target="/dev/snia-pts-missing", run_folder=folder))
    with pytest.raises(SpecError) as invalid:
        pts.start(replace(OPTIONS, overrides=("rounds.maximum=none",), run_folder=folder))
    with pytest.raises(UsageError, match="RunOptions, or ResumeOptions and the path"):
        pts.start(pts.ResumeOptions())

    assert missing.value.path == Path("/dev/snia-pts-missing")
    assert "rounds.maximum" in invalid.value.mistakes
    assert not folder.exists()


@pytest.mark.long
def test_options_that_destroy_data_are_on_no_disk(tmp_path: Path) -> None:
    """The confirmation to overwrite a file is neither in the run folder nor in the job's command line."""
    target = tmp_path / "file"
    target.write_bytes(bytes(8 << 20))
    options = pts.RunOptions(
        test="iops",
        target=str(target),
        overwrite=True,
        purge_command="true {device} sesame",
        allow_unpurged=True,
        run_folder=tmp_path / "run",
        formats=(),
    )
    job = pts.start(options)
    command_line = Path(f"/proc/{job.pid}/cmdline").read_bytes()
    next(job.events())
    files = {number.name: str(number.readlink()) for number in Path(f"/proc/{job.pid}/fd").iterdir()}
    job.stop(at_once=True)
    with pytest.raises((Interrupted, HostFailed)):
        job.wait(timeout_seconds=60)

    assert b"sesame" not in command_line
    assert files["0"] == "/dev/null"
    stored = pts.load(job.path).result.facts.options
    assert stored is not None
    assert (stored.overwrite, stored.purge_command) == (False, None)


_IGNORING = """
import signal, sys
import snia_pts as pts
for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
job = pts.start(pts.RunOptions(test="iops", target="sim:enterprise-nvme", overrides={overrides!r}, formats=(),
    run_folder={folder!r}))
print(open(f"/proc/{{job.pid}}/status").read().partition("SigIgn:")[2].split()[0])
print(job.wait().ending)
"""


@pytest.mark.long
def test_a_job_does_not_ignore_what_its_caller_ignores(tmp_path: Path) -> None:
    """The job can be stopped and waits for its programs, even if its caller ignores SIGINT or SIGCHLD."""
    program = _IGNORING.format(overrides=OPTIONS.overrides, folder=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    ignored, ending = done.stdout.split()

    numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    assert [number for number in numbers if int(ignored, 16) >> (number - 1) & 1] == []
    assert ending == "finished"


@pytest.mark.long
def test_a_job_inherits_no_other_files(tmp_path: Path) -> None:
    """A reader of a pipe of the caller does not wait for the end of the job."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        job = pts.start(replace(OPTIONS, run_folder=tmp_path / "run"))
        os.close(writer)
        assert os.read(reader, 1) == b""
        assert job.running
    finally:
        os.close(reader)
    job.wait(timeout_seconds=60)


@pytest.mark.parametrize(
    "error",
    [
        TargetMissing(path=Path("/dev/x")),
        SpecError(what="It", path="x", count="1 mistake", mistakes="a\nb", hint="Correct it."),
        errors.LimitsMissed(missed=1, total=2, details="a"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_processes(error: errors.SniaPtsError) -> None:
    """Class, message, fields with their types, hint and notes are the same."""
    error.add_note("A note.")
    copy = error_from_json(error_as_json(error))

    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert (str(copy), copy.full_hint) == (str(error), error.full_hint)
