"""Starts and resumes batches: tests of several drives side by side, each in a process that outlives this one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...batch.folder import BatchDrive, BatchFolder
from ...batch.processes import DriveOrder, Order, StartedDrive, start_drives, wait_until_begun
from ...batch.resume import prepare_resume
from ...batch.start import BatchRequest, prepare_batch
from ...errors import BatchIncomplete, Interrupted, UsageError, stop_cause
from ...files import shell_quoted
from ...model.run_options import RunOptions
from ...runner.caller import Caller
from ...units import counted, whole_number
from ..notifications.config import load_mail_config
from ..notifications.webhook import load_webhook_config
from ..options import resume_options
from ..storing import stored_on_exit
from ..text.lines import print_lines
from ..text.terminal import Terminal

#: Tests one drive of a batch, in a process of its own.
_TEST_DRIVE = "snia_pts.cli.commands.batch_drive:test_drive"
#: The options of the command line that each process of a batch gets.
_SESSION = ("mail_to", "mail_server", "mail", "webhook", "webhook_secret", "store")


def start_batch(tests: Sequence[RunOptions], arguments: argparse.Namespace, *, suite: bool) -> int:
    """Start the tests on every target of the command line, and return when they have begun.

    ``tests`` are the options for the first target.
    """
    if not arguments.detach:
        detail = f"{counted(len(arguments.targets), 'target')} need --detach: each is tested by a process of its own."
        raise UsageError(detail=detail, hint="Add --detach, or name one target.")
    if arguments.plan:
        raise UsageError(detail="--plan is for one target.", hint="Omit --detach, and plan each target by itself.")
    caller = _caller(arguments)
    request = BatchRequest(
        drives=tuple(
            tuple(replace(test, target=str(target), serial=None, run_folder=None) for test in tests)
            for target in arguments.targets
        ),
        suite=suite,
        serials=arguments.serial,
        side_by_side=_side_by_side(arguments.side_by_side),
        folder=arguments.run_dir,
        session=_session(arguments),
    )
    batch, orders = prepare_batch(request, caller)
    return _start(batch, orders)


def resume_batch(batch: BatchFolder, arguments: argparse.Namespace) -> int:
    """Resume the interrupted tests of a batch, and start those that were never started."""
    options = resume_options(arguments)
    with batch.locked() as lock:
        orders, errors = prepare_resume(batch, options, _session(arguments), _caller(arguments))
        code = _start(batch, orders, lock.fileno()) if orders else 0
    return errors[0].exit_code if errors else code


def _caller(arguments: argparse.Namespace) -> Caller:
    """Return the caller of the checks; raises the error of invalid options of each process."""
    load_mail_config(arguments)
    load_webhook_config(arguments)
    terminal = Terminal(arguments.progress)
    with stored_on_exit(arguments.store, terminal.on_event):
        pass
    return Caller(on_event=terminal.on_event, confirm=terminal.confirm)


def _session(arguments: argparse.Namespace) -> Mapping[str, Any]:
    values = {name: getattr(arguments, name) for name in _SESSION}
    return {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in values.items()}


def _side_by_side(text: str | None) -> int | None:
    if text is None:
        return None
    number = whole_number(text)
    if not number:
        raise UsageError(detail=f"--side-by-side {text}: not a whole number above 0.", hint="For example 4.")
    return number


def _start(batch: BatchFolder, orders: Sequence[DriveOrder], lock: int | None = None) -> int:
    """Start drives, wait until those that are not waiting have begun, and print a line for each drive.

    Raises BatchIncomplete if the process of a drive ended before its test began.
    """
    order = Order(batch=batch.path, function=_TEST_DRIVE, drives=tuple(orders))
    if lock is None:
        with batch.locked() as file:
            started = start_drives(batch, order, file.fileno())
    else:
        started = start_drives(batch, order, lock)
    path = shell_quoted(batch.path)
    try:
        wait_until_begun(batch, started)
    except KeyboardInterrupt as stop:
        hint = f"The tests go on; snia-pts status {path} shows them, snia-pts stop {path} stops them."
        raise Interrupted(cause=stop_cause(stop), step="start of the batch", what=batch.path, hint=hint) from None
    print_lines(_start_lines(batch, orders, started))
    if len(started) < len(orders):
        print_lines((f"  {batch.side_by_side}",))
    commands = f"snia-pts status {path} shows the drives, snia-pts stop {path} stops them."
    print_lines(("", f"batch folder: {batch.path}", commands))
    failed = [name for name, drive in started.items() if drive.process.wait(0) and not _has_begun(batch, name, drive)]
    if failed:
        raise BatchIncomplete(path=batch.path, drives=", ".join(failed))
    return 0


def _has_begun(batch: BatchFolder, name: str, started: StartedDrive) -> bool:
    return batch.journal_bytes(batch.drive(name)) != started.journal_bytes


def _start_lines(
    batch: BatchFolder, orders: Sequence[DriveOrder], started: Mapping[str, StartedDrive]
) -> Iterator[str]:
    drives = [batch.drive(order.name) for order in orders]
    width, targets = max(len(drive.name) for drive in drives), max(len(drive.target) for drive in drives)
    yield f"{'folder':{width}}  {'drive':{targets}}  {'process':>7}  state"
    for drive in drives:
        pid, state = _start_state(batch, drive, started.get(drive.name))
        yield f"{drive.name:{width}}  {drive.target:{targets}}  {pid:>7}  {state}"


def _start_state(batch: BatchFolder, drive: BatchDrive, started: StartedDrive | None) -> tuple[str, str]:
    if started is None:
        return "", "being tested already" if batch.is_alive(drive) else "waits until another drive is finished"
    pid = str(started.process.pid)
    if _has_begun(batch, drive.name, started):
        return pid, "begun"
    return pid, f"ended before a test began: {batch.last_message(drive)}"
