"""Sets up a real target: a drive, a loop device or a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ..errors import TargetMissing, UsageError
from ..lab.device.content_state import read_content_state
from ..lab.device.health import read_health
from ..lab.device.identity import ROOT, read_dut
from ..lab.device.refusals import require_space
from ..lab.device.target_claim import (
    Target,
    claim_target,
    confirm,
    contents,
    require_as_confirmed,
    require_claimable,
    wait_for_outstanding_io,
)
from ..lab.fio import IoEngine
from ..lab.fio.engine import FioEngine
from ..lab.fio.probe import (
    can_lock_buffers,
    choose_io_engine,
    exact_io_engines,
    fio_version,
    io_engines,
    require_options,
)
from ..lab.host.calibration import Calibration
from ..lab.host.conditions import Conditions, conditions_applied, restore_settings, with_expected_cache
from ..lab.host.configurator import HostConfigurator, backing_device
from ..lab.host.tuning.control_group import Throttling, read_throttling, throttling_sentence
from ..lab.host.tuning.direct_io import direct_io
from ..lab.laboratory import Laboratory, PurgeStrategy
from ..lab.link_speed import assumed_speed
from ..lab.observation.power import PowerMeter, power_command, power_meter
from ..lab.process.program import Tick, find
from ..lab.purge import NONE, Purger
from ..lab.settings.write_cache import WriteCache
from ..model.content_state import ContentState
from ..model.dut import AssumedSpeed, Dut
from ..model.run_options import RunOptions
from ..model.steps import Stimulus
from ..model.test_platform import HostSetting
from ..procedures import named_points
from ..record.folder import RunFolder
from ..results.result import RunWarning
from ..results.target_deviations import target_deviations
from ..spec import Deviation, Spec
from ..temporary import temporary_folder
from .confirmation import Confirm, ConfirmDestruction, ThreatenedDrive
from .target import AS_FOUND, RunContext

#: The extended attribute of a file that a run in a directory created, so that a resumed run removes it too.
_TEMPORARY = "user.snia-pts.temporary"
_SIZE_HINT = "For a test file give its size, for example --size 1G."


class TargetPurger(PurgeStrategy, Protocol):
    """A purge strategy that can also predict the deviations of its purge."""

    def expected_deviations(self, dut: Dut) -> tuple[Deviation, ...]:
        """Return the deviations that a purge of ``dut`` will add."""
        ...


class DeviceSetup:
    """A drive, a loop device or a file."""

    def __init__(self, options: RunOptions, tell: Callable[[str], None], *, file_in_directory: bool = False) -> None:
        """Use the target of ``options``; ``tell`` is called with notices for the operator.

        ``file_in_directory``: the target is a file that the run creates, and removes at its end.
        Raises UsageError for options that do not apply to this kind of target.
        """
        self._options, self._tell, self._file_in_directory = options, tell, file_in_directory
        self._path = options.path
        if options.size_bytes is not None and _has_type(self._path, stat.S_ISBLK):
            raise UsageError(detail="--size applies to files only; a drive has its own size.", hint=options.size_hint)
        if options.discard_data and (options.size_bytes is not None or _has_type(self._path, stat.S_ISREG)):
            raise UsageError(
                detail="--discard-data applies to drives only.", hint="To overwrite a file, use --overwrite."
            )
        self._target: Target | None = None
        self._conditions: Conditions | None = None
        self._meter: PowerMeter | None = None

    @property
    def subject(self) -> str:
        """The drive's model, otherwise the name of the file or device."""
        model = read_dut(self._path).model if _has_type(self._path, stat.S_ISBLK) else ""
        return self._path.name if not model or model.startswith("loop device") else model

    def dut(self, spec: Spec) -> Dut:
        """Return the description of the target; once it is claimed, only its write cache is read again."""
        del spec
        dut = self._target.dut if self._target else self._read_dut()
        return self._conditions.apply_to(dut) if self._conditions else dut

    def speed(self, spec: Spec) -> AssumedSpeed:
        """See TargetSetup."""
        return assumed_speed(self.dut(spec))

    def _read_dut(self) -> Dut:
        try:
            return read_dut(self._path, size_bytes=self._options.size_bytes)
        except TargetMissing as missing:
            if missing.hint == TargetMissing.hint:  # no file is created below /dev
                missing.add_note(_SIZE_HINT)
            raise

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup."""
        dut = self.dut(spec)
        if self._conditions is None:
            keep = self._options.keep_write_cache or spec.setup.write_cache == AS_FOUND
            dut = with_expected_cache(dut, spec.setup.write_cache, keep=keep)
        return target_deviations(dut, spec)

    def purge_deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup; if any method of Purge is allowed, only omitting it is a deviation."""
        deviations = self._purger().expected_deviations(self.dut(spec)) if spec.purges else ()
        return () if spec.any_purge_method and self._options.purge != NONE else deviations

    def buffered_io(self) -> tuple[HostSetting, ...]:
        """See TargetSetup."""
        return (direct_io(self._path).setting,)

    def require_tools(self) -> None:
        """See TargetSetup."""
        find("fio")
        if self._options.power_command is not None:
            power_command(self._options.power_command)
        with temporary_folder() as folder:
            fio_version(folder)
        if self._options.tune and os.geteuid() != 0:
            raise UsageError(
                detail="--tune: only root can change host settings.", hint="snia-pts host lists them without root."
            )

    def preflight(self, spec: Spec) -> None:
        """See TargetSetup."""
        options, dut = self._options, self.dut(spec)
        require_claimable(
            self._path, size_bytes=options.size_bytes, overwrite=options.overwrite, discard_data=options.discard_data
        )
        if spec.file_set_bytes:
            require_space(self._path, (options.size_bytes or 0) + spec.file_set_bytes)
        if options.serial is not None and dut.kind != "file":
            confirm(dut, options.serial)
        if _configures_host(spec):
            _require_configurable(spec, HostConfigurator(dut.path, backing_device(Path(dut.path))))
        with temporary_folder() as folder:
            self._io_engines(spec, dut, folder)

    def _io_engines(self, spec: Spec, dut: Dut, evidence: Path) -> Sequence[IoEngine]:
        """Return the I/O engines to try, the best first; raises UsageError if none of them accepts the options."""
        engines = io_engines(self._options.engine)
        stimuli = [point.stimulus for point in named_points(spec, dut)]  # only these can have options of their own
        usable, refusals = list[IoEngine](), list[UsageError]()
        for io_engine in engines:
            try:
                require_options(stimuli, dut.path, io_engine, evidence)
                usable.append(io_engine)
            except UsageError as refusal:
                refusals.append(refusal)
        if not usable:
            raise refusals[0]
        return usable

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """See TargetSetup; settings that killed runs changed are restored first."""
        options = self._options
        with claim_target(
            self._path, size_bytes=options.size_bytes, overwrite=options.overwrite, discard_data=options.discard_data
        ) as target:
            self._target = target
            if self._file_in_directory and target.new:
                with suppress(OSError):  # without extended attributes, a resumed run keeps the file
                    os.setxattr(target.descriptor, _TEMPORARY, b"1")
            try:
                for line in target.unchecked:
                    self._tell(f"not checked: {line}")
                for line in target.other_runs.find():
                    self._tell(line)
                for line in restore_settings():
                    self._tell(line)
                yield
            finally:
                self._target = None
                if outstanding := wait_for_outstanding_io(target):
                    self._tell(outstanding)

    def content_state(self) -> ContentState | None:
        """See TargetSetup; that of an array is unknown until it is assembled."""
        return read_content_state(self._target.descriptor) if self._target else None

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """See TargetSetup; a file needs no confirmation: snia-pts created it, or --overwrite was given.

        The file is checked again, because time may have passed since it was claimed: ``resume`` may have asked whether
        to restart the test.
        """
        target = self._claimed()
        dut, typed = target.dut, self._options.serial
        if dut.kind == "file":
            require_as_confirmed(target)
            return
        signatures = None
        if typed is None:
            signatures = contents(target, evidence)
            drive = ThreatenedDrive(
                path=dut.path,
                model=dut.model,
                serial=dut.serial,
                capacity_bytes=dut.capacity_bytes,
                signatures=signatures.descriptions(dut.name),
            )
            typed = ask(ConfirmDestruction(path=dut.path, drives=(drive,), expected=dut.identity))
        confirm(dut, typed)
        if signatures:
            require_as_confirmed(target, signatures)

    @contextmanager
    def conditions_applied(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """See TargetSetup."""
        options = self._options
        keep = options.keep_write_cache or write_cache == AS_FOUND
        with (
            conditions_applied(
                self._claimed(),
                folder.path,
                folder.evidence,
                write_cache=write_cache,
                keep=keep,
                tune=options.tune,
                report=self._tell,
                varied=tuple(spec.varied_settings),
                cache=self._cache(write_cache, keep=keep),
            ) as conditions,
            power_meter(options.power_command) as self._meter,
        ):
            self._conditions = conditions
            if _configures_host(spec):
                _require_configurable(spec, conditions.configurator)
            try:
                yield conditions.settings
            finally:
                self._conditions = self._meter = None

    def set_clock(self, at: datetime) -> None:
        """See TargetSetup: a real target uses the wall clock."""

    def context(self, spec: Spec, evidence: Path, seed: int, tick: Tick, stimuli: Sequence[Stimulus]) -> RunContext:
        """Return a laboratory with fio as its engine; raises UsageError for options that fio does not accept."""
        options, dut = self._options, self._claimed().dut
        engines = exact_io_engines(self._io_engines(spec, dut, evidence), stimuli)
        self._target = target = self._claimed().resized()
        path, sector = target.dut.path, target.dut.logical_sector_bytes
        version = fio_version(evidence)
        io_engine = choose_io_engine(path, sector, evidence, engines, version, target.descriptor)
        fixed_buffers = io_engine == "io_uring" and can_lock_buffers(stimuli, evidence, version)
        engine = FioEngine(
            path,
            evidence,
            seed=seed,
            io_engine=io_engine,
            version=version,
            refill=options.refill_buffers,
            fixed_buffers=fixed_buffers,
            stall_seconds=options.stall_seconds,
            tick=tick,
            meter=self._meter,
            descriptor=target.descriptor,
            file_sets=target.file_sets,
        )
        conditions, throttling, meter = self._conditions, read_throttling(ROOT), self._meter
        if conditions is None:
            raise RuntimeError("the conditions are not applied")
        laboratory = Laboratory(
            target,
            engine,
            purger=self._purger(tick),
            cache=conditions.cache,
            configurator=conditions.configurator,
            seed=seed,
            evidence=evidence,
        )
        calibration = Calibration(
            version=version,
            io_engine=io_engine,
            refill=options.refill_buffers,
            seed=seed,
            evidence=evidence,
            fixed_buffers=fixed_buffers,
        )
        return RunContext(
            laboratory=laboratory,
            engine=engine,
            now=lambda: datetime.now().astimezone(),
            read_health=lambda: read_health(target.dut, evidence),
            end_warnings=lambda: (
                *_changes(conditions, evidence),
                *_other_runs(target),
                *_throttling(throttling),
                *_power_problems(meter),
            ),
            calibrate=calibration.ceilings,
            read_content=lambda: read_content_state(target.descriptor),
            durable=True,
            unchecked=target.unchecked,
            other_runs=lambda: _other_runs(target),
        )

    def remove_file(self, *, refused: bool = False) -> None:
        """See TargetSetup; not called for a run that can be resumed."""
        target = self._claimed()
        if target.new if refused else self._file_in_directory:
            existed = "" if target.new or _is_temporary(target.descriptor) else "it may have existed before the run"
            if reason := existed or target.remove():
                self._tell(f"{self._path} was not removed: {reason}")

    def _cache(self, write_cache: str, *, keep: bool) -> WriteCache | None:
        """Return the write cache to set; None for the target's own."""
        del write_cache, keep
        return None

    def _purger(self, tick: Tick | None = None) -> TargetPurger:
        options = self._options
        method = "auto" if options.purge_command else options.purge
        return Purger(requested=method, command=options.purge_command, allow_unpurged=options.allow_unpurged, tick=tick)

    def _claimed(self) -> Target:
        if self._target is None:
            raise RuntimeError("the target is not claimed")
        return self._target


def _changes(conditions: Conditions, evidence: Path) -> tuple[RunWarning, ...]:
    """Return a warning for each setting that changed during a run, with the time of this check."""
    checked = datetime.now().astimezone().isoformat(timespec="milliseconds")
    lines = conditions.setting_changes(evidence)
    return tuple(RunWarning(what="changed during the run", detail=f"{checked}: {line}") for line in lines)


def _throttling(before: Throttling) -> tuple[RunWarning, ...]:
    sentence = throttling_sentence(before, read_throttling(ROOT))
    return (RunWarning(what="control group", detail=sentence),) if sentence else ()


def _power_problems(meter: PowerMeter | None) -> tuple[RunWarning, ...]:
    """End the program of a power meter, and return a warning for each problem with it."""
    if meter is None:
        return ()
    meter.end()
    return tuple(RunWarning(what="power meter", detail=sentence) for sentence in meter.problems())


def _other_runs(target: Target) -> tuple[RunWarning, ...]:
    return tuple(RunWarning(what="shared disk", detail=line) for line in target.other_runs.find())


def _configures_host(spec: Spec) -> bool:
    return bool(spec.varied_settings) or spec.drops_page_cache


def _require_configurable(spec: Spec, configurator: HostConfigurator) -> None:
    """Raise TargetUnfit if the host cannot be configured as the test requires."""
    settings = [(name, value) for name, values in spec.varied_settings.items() for value in values]
    configurator.require(settings, cold=spec.drops_page_cache)


def _is_temporary(descriptor: int) -> bool:
    try:
        return bool(os.getxattr(descriptor, _TEMPORARY))
    except OSError:
        return False


def _has_type(path: Path, is_type: Callable[[int], bool]) -> bool:
    """Return whether the path exists, is accessible, and leads to a file of a type, such as ``stat.S_ISREG``."""
    try:
        return is_type(path.stat().st_mode)
    except OSError:
        return False
