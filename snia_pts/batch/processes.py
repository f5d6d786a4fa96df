"""Start the processes of a batch: one for each drive, and one that starts the drives that must wait."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..errors import HostFailed, RecordError, SniaPtsError
from ..files import open_to_append
from ..lab.process.detached import DetachedProcess, close_order, order_file, python_program
from ..record.suite import running_folders
from ..runner.options import ResumeOptions
from .folder import BatchDrive, BatchFolder

#: The descriptor of the locked file that a process inherits: a drive's process file, or batch.json for the starter.
LOCK_DESCRIPTOR = 3
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveOrder:
    """A drive to start, with the options that a batch does not store and that the operator gives for each start.

    ``session`` are the options of the command line that concern mail, webhooks and store.
    """

    name: str
    given: ResumeOptions
    session: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The drives to start, in order, and the function ``module:name`` that tests one (``test_drive``)."""

    batch: Path
    function: str
    drives: tuple[DriveOrder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedDrive:
    """The process that tests a drive; ``journal_bytes`` is the size of the drive's journals before its start."""

    process: DetachedProcess
    journal_bytes: int


def parse_order(document: Mapping[str, Any]) -> tuple[BatchFolder, Order]:
    """Return the order of this process, and its batch; close the file that it was read from."""
    os.set_inheritable(LOCK_DESCRIPTOR, False)
    close_order()
    order = TypeAdapter(Order).validate_python(document["order"])
    batch = BatchFolder.existing(order.batch)
    if batch is None:
        raise RecordError(path=order.batch, reason="it has no batch.json")
    return batch, order


def start_drive(batch: BatchFolder, drive: DriveOrder, function: str) -> DetachedProcess | None:
    """Start a process that tests a drive and return it; None if another process tests the drive already."""
    found = batch.drive(drive.name)
    with ExitStack() as opened:
        descriptor = batch.process_locked(found)
        if descriptor is None:
            return None
        opened.callback(os.close, descriptor)
        output = opened.enter_context(open_to_append(batch.output(found), new=True)).fileno()
        return _start(function, Order(batch=batch.path, function=function, drives=(drive,)), descriptor, output)


def start_drives(batch: BatchFolder, order: Order, lock: int) -> dict[str, StartedDrive]:
    """Start as many drives as may be tested side by side, and a process that starts the others.

    Returns the started drives by name.  ``lock`` is the descriptor of the locked batch.json.
    """
    batch.as_run_folder.withdraw_stop()
    started = dict[str, StartedDrive]()
    waiting = list(order.drives)
    while waiting and _has_room(batch):
        drive = waiting.pop(0)
        journal_bytes = batch.journal_bytes(batch.drive(drive.name))
        if process := start_drive(batch, drive, order.function):
            started[drive.name] = StartedDrive(process=process, journal_bytes=journal_bytes)
    if waiting:
        rest = Order(batch=order.batch, function=order.function, drives=tuple(waiting))
        with open_to_append(batch.path / "batch.out", new=True) as output:
            _start("snia_pts.batch.processes:start_waiting", rest, lock, output.fileno())
    return started


def start_waiting(document: Mapping[str, Any]) -> None:
    """Start the drives that wait, each when another one has ended, until the batch is asked to stop."""
    batch, order = parse_order(document)
    started: list[DetachedProcess] = []
    for drive in order.drives:
        while not _has_room(batch) and not batch.as_run_folder.stop_requested:
            time.sleep(_POLL_SECONDS)
            started = [process for process in started if process.wait(0) is None]
        if batch.as_run_folder.stop_requested:
            return
        try:
            started += filter(None, [start_drive(batch, drive, order.function)])
        except SniaPtsError as error:  # the other drives are started all the same
            os.write(2, f"{drive.name}: {error} {error.full_hint}\n".encode())


def wait_until_begun(batch: BatchFolder, started: Mapping[str, StartedDrive]) -> None:
    """Wait until a test of each drive has begun, or resumed, or its process has ended."""
    waiting = dict(started)
    while waiting:
        for name, drive in list(waiting.items()):
            if drive.process.wait(0) is not None or batch.journal_bytes(batch.drive(name)) != drive.journal_bytes:
                del waiting[name]
        if waiting:
            time.sleep(_POLL_SECONDS)


def wait_until_stopped(batch: BatchFolder, drives: Sequence[BatchDrive]) -> None:
    """Ask the runs of these drives to stop, also those that are about to begin, and wait until all have ended."""
    batch.as_run_folder.request_stop()
    while batch.is_starting or any(map(batch.is_alive, drives)):
        for drive in drives:
            for folder in running_folders(batch.run_path(drive)):
                if not folder.stop_requested:
                    folder.request_stop()
        time.sleep(_POLL_SECONDS)


def _has_room(batch: BatchFolder) -> bool:
    return sum(map(batch.is_alive, batch.drives)) < batch.side_by_side.count


def _start(function: str, order: Order, lock: int, output: int) -> DetachedProcess:
    document = {"order": TypeAdapter(Order).dump_python(order, mode="json")}
    try:
        with order_file(document) as standard_input:
            descriptors = {0: standard_input, 1: output, 2: output, LOCK_DESCRIPTOR: lock}
            return DetachedProcess(python_program(function), descriptors)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostFailed(step="start of a process", what=order.batch, reason=reason) from None
