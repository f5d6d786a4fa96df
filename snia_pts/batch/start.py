"""Starts a batch: checks every drive and has the destruction of all of them confirmed, before the first test starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..analysis.side_by_side import SideBySide
from ..errors import NotConfirmed, UsageError
from ..lab.device.identity import read_dut
from ..lab.host.side_by_side import calibrated_cost_us, fitting_side_by_side
from ..lab.inventory import drive_paths
from ..model.dut import Dut
from ..model.run_options import ARRAY, SIMULATED, RunOptions
from ..record.folder import require_empty
from ..runner.caller import Caller
from ..runner.confirmation import Confirm, ConfirmDestruction, ConfirmRestart, ThreatenedDrive
from ..runner.options import ResumeOptions
from ..runner.run import estimate
from ..runner.setup import target_setup
from ..runner.suite import estimate_suite
from ..temporary import temporary_folder
from .folder import BatchDrive, BatchFolder, drive_name
from .processes import DriveOrder

_RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The drives of a new batch, with the options of their tests: several for a ``suite``.

    ``serials`` confirms the drives, if it is given: their serial numbers or names, with commas between them.
    ``side_by_side`` is None for as many as fit the host.
    """

    drives: tuple[tuple[RunOptions, ...], ...]
    suite: bool
    serials: str | None
    side_by_side: int | None
    folder: Path | None
    session: Mapping[str, Any]


def prepare_batch(request: BatchRequest, caller: Caller) -> tuple[BatchFolder, tuple[DriveOrder, ...]]:
    """Check every drive, have their destruction confirmed, and create the folder of the batch.

    Raises the error of the first drive whose run would be refused; then nothing was written.
    """
    refuse_power_command(request.drives[0][0].power_command)
    if request.folder is not None:
        require_empty(request.folder)
    estimates = []
    for options in request.drives:
        if options[0].target.startswith(ARRAY):
            detail = f"{options[0].target}: an array is tested by itself, not with other drives."
            raise UsageError(detail=detail, hint="Name drives, or test the array without --detach.")
        estimates.append(estimate_suite(options, caller) if request.suite else (estimate(options[0], caller),))
    duts = [tests[0].dut for tests in estimates]
    targets = [options[0] for options in request.drives]
    require_distinct(duts, [options.target for options in targets])
    drives_to_erase = [threatened(options, dut, caller) for options, dut in zip(targets, duts, strict=True)]
    confirm_all([drive for drives in drives_to_erase for drive in drives], request.serials, caller)
    drives = tuple(
        BatchDrive(
            name=drive_name(number, dut.name if dut.simulated else dut.identity),
            model=dut.model,
            serial="" if dut.simulated else dut.serial,
            suite=request.suite,
            options=tuple(replace(test, target=_absolute(test.target)) for test in options),
            longest_seconds=tuple(test.plan.longest.seconds for test in tests),
        )
        for number, (options, dut, tests) in enumerate(zip(request.drives, duts, estimates, strict=True), start=1)
    )
    stamp = datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")
    if request.side_by_side is None:
        side_by_side = fitting_side_by_side(duts, calibrated_cost_us())
    else:
        side_by_side = SideBySide(request.side_by_side)
    batch = BatchFolder.create(request.folder or _RUNS / f"batch-{stamp}", drives, side_by_side)
    orders = tuple(
        DriveOrder(name=drive.name, given=_given(options, erased), session=request.session)
        for drive, options, erased in zip(drives, targets, drives_to_erase, strict=True)
    )
    return batch, orders


def refuse_power_command(command: str | None) -> None:
    """Raise UsageError if a power command is given: its readings are those of one drive."""
    if command is not None:
        detail = "--power-command reads the meter of one drive, and each drive of a batch would need its own."
        raise UsageError(detail=detail, hint="Omit it, or test the drive by itself without --detach.")


def require_distinct(duts: Sequence[Dut], names: Sequence[str]) -> None:
    """Raise UsageError if two targets are the same drive or file, or parts of the same drive.

    ``names`` are the targets as the operator typed them, for the message.
    """
    seen: dict[tuple[str, ...], str] = {}
    for dut, name in zip(duts, names, strict=True):
        for key in _keys(dut):
            if key in seen:
                what = f"the same {'target' if dut.kind == 'file' else 'drive'}, {dut.path}"
                raise UsageError(detail=f"{seen[key]} and {name} are {what}.", hint="Name each drive once.")
        seen |= dict.fromkeys(_keys(dut), name)


def _keys(dut: Dut) -> Iterator[tuple[str, ...]]:
    """Yield what distinguishes a target: two names of one drive, or namespaces of it, have one in common."""
    if dut.simulated:
        return
    yield "path", dut.path
    if dut.serial:
        yield "serial", dut.model, dut.serial
    yield from (("instance", instance) for instance in dut.instances if instance)


def threatened(options: RunOptions, dut: Dut, caller: Caller) -> tuple[ThreatenedDrive, ...]:
    """Claim a drive and return what a test would destroy; nothing for a file or a simulated drive.

    Raises the error with which the drive is refused.
    """
    if dut.kind in ("file", "simulated"):
        return ()
    drives: list[ThreatenedDrive] = []
    target = target_setup(replace(options, serial=None), caller.tell)
    with temporary_folder() as evidence, target.claimed():
        target.confirm(evidence, _collected(drives))
    return tuple(drives)


def confirm_all(drives: Sequence[ThreatenedDrive], typed: str | None, caller: Caller) -> None:
    """Let the operator confirm the destruction of all drives at once; ``typed`` is the answer, if it was given before.

    Raises NotConfirmed.
    """
    if not drives:
        return
    paths, identities = ", ".join(drive.path for drive in drives), list(map(identity, drives))
    expected = ",".join(identities)
    if typed is None:
        typed = caller.confirm(ConfirmDestruction(path=paths, drives=tuple(drives), expected=expected))
    if sorted(map(str.strip, typed.split(","))) != sorted(identities):
        reason = f"{typed!r} is not the list of their serial numbers or names"
        raise NotConfirmed(path=paths, reason=reason, confirmation=expected)


def identity(drive: ThreatenedDrive) -> str:
    """Return what confirms a drive, as ``Dut.identity``."""
    return drive.serial or Path(drive.path).name


def _collected(drives: list[ThreatenedDrive]) -> Confirm:
    """Return a confirmation that only collects the drives: the operator is asked about all of them together."""

    def collect(request: ConfirmDestruction | ConfirmRestart) -> str:
        if isinstance(request, ConfirmDestruction):
            drives.extend(request.drives)
        return request.expected

    return collect


def _given(options: RunOptions, erased: Sequence[ThreatenedDrive]) -> ResumeOptions:
    return ResumeOptions(
        serial=identity(erased[0]) if erased else None,
        overwrite=options.overwrite,
        discard_data=options.discard_data,
        purge_command=options.purge_command,
        plugins=options.plugins,
    )


def present_target(drive: BatchDrive) -> str:
    """Return the present target of a drive: a reboot may give the name of a drive to another one.

    Returns the stored target if no other drive, or more than one, has its model and serial number.
    """
    if not drive.serial or drive.target.startswith(SIMULATED) or _is_at(drive, drive.target):
        return drive.target
    paths = drive_paths(drive.model, drive.serial)
    return paths[0] if len(paths) == 1 else drive.target


def _is_at(drive: BatchDrive, target: str) -> bool:
    path = Path(target)
    if not path.exists():
        return False
    dut = read_dut(path)
    return (dut.model, dut.serial) == (drive.model, drive.serial)


def _absolute(target: str) -> str:
    """Return a target that means the same in every working directory."""
    return target if target.startswith(SIMULATED) else str(Path(target).absolute())
