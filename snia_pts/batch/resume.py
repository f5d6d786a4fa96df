"""Resumes a batch: the tests that were interrupted, and those of the drives that were never started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import NotResumable, SniaPtsError, UsageError
from ..files import shell_quoted
from ..lab.device.identity import read_dut
from ..model.dut import Dut
from ..model.run_options import SIMULATED, RunOptions
from ..record.ends import read_ends
from ..record.folder import RunFolder
from ..record.suite import SuiteFolder
from ..runner.caller import Caller
from ..runner.confirmation import ThreatenedDrive
from ..runner.options import ResumeOptions
from .folder import BatchDrive, BatchFolder
from .processes import DriveOrder
from .start import confirm_all, identity, present_target, refuse_power_command, threatened


def prepare_resume(
    batch: BatchFolder, given: ResumeOptions, session: Mapping[str, Any], caller: Caller
) -> tuple[tuple[DriveOrder, ...], list[SniaPtsError]]:
    """Return an order for each drive that is not finished and not being tested, after the caller has confirmed them.

    A drive that cannot be tested, for example because it is missing, does not stop the others: its error is shown
    before the confirmation, and returned.
    Raises NotResumable if no drive is left to test, NotConfirmed, and UsageError.
    """
    if given.target is not None or given.overwrite:
        option = "--target" if given.target is not None else "--overwrite"
        hint = f"Resume that drive by itself: name its folder in {shell_quoted(batch.path)}."
        raise UsageError(detail=f"{option} is for one drive, and {batch.path} is a batch of drives.", hint=hint)
    refuse_power_command(given.power_command)
    remaining = [drive for drive in batch.drives if not batch.is_alive(drive) and not is_finished(batch, drive)]
    if not remaining:
        hint = f"snia-pts status {shell_quoted(batch.path)} shows its drives."
        raise NotResumable(path=batch.path, reason="each of its drives is finished or being tested", hint=hint)
    orders, errors, drives = list[DriveOrder](), list[SniaPtsError](), list[ThreatenedDrive]()
    for drive in remaining:
        try:
            options = replace(drive.options[0], target=present_target(drive), discard_data=given.discard_data)
            erased: tuple[ThreatenedDrive, ...] = ()
            if not options.target.startswith(SIMULATED) and options.path.is_block_device():
                dut = read_dut(options.path)
                require_same_drive(batch, drive, dut)
                erased = threatened(options, dut, caller)
        except SniaPtsError as error:
            caller.tell(f"{error} {error.full_hint}")
            errors.append(error)
            continue
        drives += erased
        target = options.target if options.target != drive.target else None
        serial = identity(erased[0]) if erased else None
        orders.append(DriveOrder(name=drive.name, session=session, given=replace(given, target=target, serial=serial)))
    confirm_all(drives, given.serial, caller)
    return tuple(orders), errors


def require_same_drive(batch: BatchFolder, drive: BatchDrive, dut: Dut) -> None:
    """Raise NotResumable if the model or the serial number is not that of the drive of the batch."""
    if (dut.model, dut.serial) != (drive.model, drive.serial):
        expected, found = (
            f"{model or 'unknown model'}, serial {serial or 'unknown'}"
            for model, serial in ((drive.model, drive.serial), (dut.model, dut.serial))
        )
        reason = f"{dut.path} is another drive: expected {expected}, got {found}"
        hint = "Connect the drive of the batch again, or test the other one in a batch of its own."
        raise NotResumable(path=batch.run_path(drive), reason=reason, hint=hint)


def is_finished(batch: BatchFolder, drive: BatchDrive) -> bool:
    """Whether all tests of a drive are finished.  Raises RecordError."""
    path = batch.run_path(drive)
    suite = SuiteFolder.existing(path)
    runs = [suite.run_folder(test) for test in suite.tests] if suite else [RunFolder(path=path)]
    for run in runs:
        if run is None or not run.has_started:
            return False
        end = read_ends(run.journal).end
        if end is None or end.ending != "finished":
            return False
    return True


def options_for_start(drive: BatchDrive, given: ResumeOptions, batch: BatchFolder) -> tuple[RunOptions, ...]:
    """Return the stored options of a drive that was never started, with the options ``given`` for this start."""
    again = {name: getattr(given, name) for name in ("serial", "overwrite", "discard_data", "purge_command", "plugins")}
    target = given.target or drive.target
    return tuple(
        replace(test, **again, target=target, run_folder=batch.run_path(drive), purge=_purge(test, given))
        for test in drive.options
    )


def _purge(options: RunOptions, given: ResumeOptions) -> str:
    """Return the purge method; raises UsageError for a purge command that is not given again."""
    if options.purge == "command" and given.purge_command is None:
        detail = "The purge command is never taken from a stored batch."
        raise UsageError(detail=detail, hint="Give it again with --purge-command.")
    return options.purge
