"""The state of a batch, a line per drive, and the verb ``stop`` for a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...batch.folder import BatchDrive, BatchFolder
from ...errors import NotRunning, RecordError
from ...files import shell_quoted
from ...model.run_options import SIMULATED
from ...record.ends import read_ends
from ...record.folder import RunFolder
from ...record.replay import parse_time
from ...units import counted, duration
from ..text.lines import print_lines
from .run_status import RunStatus, State, read_statuses


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveStatus:
    """The state of a drive of a batch: that of its test in progress, else of its first unfinished or its last test.

    ``process`` is its process, 0 if there is none.  ``most_seconds_left`` is None if the time left is not known, as for
    a simulated drive.
    """

    run: str
    target: str
    serial: str
    state: State
    test: str = ""
    position: str = ""
    detail: str = ""
    process: int = 0
    most_seconds_left: float | None = None


def drive_statuses(batch: BatchFolder) -> Iterator[DriveStatus]:
    """Yield the state of each drive."""
    is_starting = batch.is_starting
    for drive in batch.drives:
        try:
            yield _drive_status(batch, drive, is_starting=is_starting)
        except RecordError as error:
            yield _build_status(batch, drive, "unreadable", detail=f"{error} {error.full_hint}".strip())


def _drive_status(batch: BatchFolder, drive: BatchDrive, *, is_starting: bool) -> DriveStatus:
    alive = batch.is_alive(drive)
    runs = list(read_statuses(batch.run_path(drive), brief=True)) if batch.has_begun(drive) else []
    if not runs:
        state: State = "starting" if alive else "not started"
        reason = "waits until another drive is finished" if is_starting else batch.last_message(drive)
        return _build_status(batch, drive, state, detail="" if alive else reason, left=sum(drive.longest_seconds))
    run = _current(runs)
    left = sum(seconds for seconds, test in zip(drive.longest_seconds, runs, strict=False) if test.state != "finished")
    if alive:
        return _build_status(batch, drive, "running", run, left=max(0.0, left - _elapsed_seconds(batch, drive, run)))
    state = "stopped" if run.state == "not started" else run.state  # the drive has begun its tests
    return _build_status(batch, drive, state, run, detail=_detail(runs, run), left=left)


def _current(runs: Sequence[RunStatus]) -> RunStatus:
    """Return the run in progress, else the first that is not finished, else the last."""
    running = [run for run in runs if run.state == "running"]
    unfinished = [run for run in runs if run.state != "finished"]
    return (running or unfinished or list(runs))[0 if running or unfinished else -1]


def _detail(runs: Sequence[RunStatus], run: RunStatus) -> str:
    if run.state == "finished" and len(runs) > 1:
        return counted(len(runs), "test")
    return run.detail


def _elapsed_seconds(batch: BatchFolder, drive: BatchDrive, run: RunStatus) -> float:
    """Return for how long the current process has performed the current test."""
    process, folder = batch.process(drive), RunFolder(path=Path(run.run))
    if process is None or run.state != "running":
        return 0.0
    started = max(process.started, parse_time(folder, read_ends(folder.journal).facts.started))
    return max(0.0, (datetime.now().astimezone() - started).total_seconds())


def _build_status(
    batch: BatchFolder,
    drive: BatchDrive,
    state: State,
    run: RunStatus | None = None,
    *,
    detail: str = "",
    left: float | None = None,
) -> DriveStatus:
    unknown = state == "finished" or drive.target.startswith(SIMULATED)  # a simulated drive's time is virtual
    process = batch.process(drive) if state in ("running", "starting") else None
    return DriveStatus(
        run=str(batch.run_path(drive)),
        target=drive.target,
        serial=drive.serial,
        state=state,
        test=run.test if run else "",
        position=run.position if run and state != "finished" else "",
        detail=detail,
        process=process.pid if process else 0,
        most_seconds_left=None if unknown else left,
    )


def batch_lines(batch: BatchFolder, drives: Sequence[DriveStatus]) -> Iterator[str]:
    """Yield a line per drive, the counts, why some wait, and the command that continues and starts the others."""
    width = max(len(Path(drive.run).name) for drive in drives)
    for drive in drives:
        where = ", ".join(filter(None, (drive.test, drive.position)))
        left = (
            "" if drive.most_seconds_left is None else f"at most {duration(drive.most_seconds_left)} left by its plan"
        )
        text = "; ".join(filter(None, (where, left, drive.detail)))
        yield f"{Path(drive.run).name:{width}}  {drive.state:11}  {text}".rstrip()
    counts = {state: sum(drive.state == state for drive in drives) for state in dict.fromkeys(d.state for d in drives)}
    yield ""
    yield f"{counted(len(drives), 'drive')}: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    if batch.is_starting:
        yield f"  {batch.side_by_side}"
    interrupted = counts.get("stopped", 0) + (0 if batch.is_starting else counts.get("not started", 0))
    if interrupted:
        yield f"  snia-pts resume {shell_quoted(batch.path)}"


def stop_batch(batch: BatchFolder) -> int:
    """Stop all runs of a batch after their current point or sample, and wait until they have ended."""
    from ...batch.processes import wait_until_stopped

    running = [drive for drive in batch.drives if batch.is_alive(drive)]
    if not running and not batch.is_starting:
        raise NotRunning(path=batch.path, reason="none of its drives is being tested")
    print_lines((f"{counted(len(running), 'drive')} of {batch.path}: each stops after its current point or sample.",))
    wait_until_stopped(batch, batch.drives)
    print_lines(batch_lines(batch, list(drive_statuses(batch))))
    return 0
