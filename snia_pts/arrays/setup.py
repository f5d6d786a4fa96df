"""Sets up an array that is created from drives for a run: ``array:FILE`` (docs/array.rst)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import NotConfirmed, NotResumable, TargetUnfit, UsageError
from ..files import make_folder
from ..lab.device.contents import Contents
from ..lab.device.target_claim import Target, require_as_confirmed
from ..lab.evidence import pre_run_path
from ..lab.fio.probe import io_engines
from ..lab.host.conditions import ARRAY_FOLDER as RESTORE_FOLDER
from ..lab.host.conditions import restore_settings, with_cache_status
from ..lab.host.settings_list import find as find_setting
from ..lab.host.tuning.direct_io import direct_io
from ..lab.process.program import Tick, find
from ..lab.purge import NONE, Purger
from ..lab.settings.settings import Change, applied
from ..lab.settings.write_cache import WriteCache
from ..model.array import BuiltArray, Layout, MemberRates, Speeds
from ..model.dut import Dut, joined_instances
from ..model.run_options import ARRAY, RunOptions
from ..model.test_platform import HostSetting
from ..record.folder import RunFolder
from ..record.replay import assess
from ..results.interruption import ResumePolicy
from ..results.target_deviations import target_deviations
from ..runner.confirmation import Confirm, ConfirmDestruction, ThreatenedDrive
from ..runner.device import DeviceSetup
from ..runner.target import AS_FOUND
from ..runner.verification import require_evidence
from ..spec import Deviation, IopsSpec, LatencySpec, Spec, ThroughputSpec
from ..temporary import temporary_folder
from ..units import KIB
from .file import read_layout
from .lab import ArrayPurger, AssembledArray, Drives, MemberCaches, Members, Slots, controller_of, predicted_dut
from .lab.assembled import identities
from .lab.controller import ArraySetting
from .lab.mdadm import require_driver
from .lab.preconditioning import Preconditioning

#: Block size of the member rates.
_SMALL_BYTES = 4 * KIB


class ArraySetup(DeviceSetup):
    """Sets up an array of drives, which is created for each test and removed at its end."""

    def __init__(self, options: RunOptions, tell: Callable[[str], None], layout: Layout | None = None) -> None:
        """Use the array of ``layout``, or of the target's file."""
        super().__init__(options, tell)
        path = options.target.removeprefix(ARRAY)
        self._layout = layout or read_layout(Path(path))
        if not self._layout.software and options.purge_method != NONE:
            raise TargetUnfit(
                path=path,
                reason="the controller hides its members, so they cannot be purged",
                hint="Use --purge none, which is a Deviation; or pass the controller's drives through to mdadm (JBOD).",
            )
        self._speeds = _speeds(self._layout.measured, path, options.member_run)
        self._members: Members = (
            Drives(self._layout, discard_data=options.discard_data) if self._layout.software else Slots(self._layout)
        )
        self._claims = ExitStack()
        self._targets: tuple[Target, ...] = ()
        self._assembled: AssembledArray | None = None
        self._spec: Spec | None = None

    @classmethod
    def resumed(
        cls, options: RunOptions, tell: Callable[[str], None], built: BuiltArray | None, run: Path, policy: ResumePolicy
    ) -> ArraySetup:
        """Return the setup of the array of a stopped run; raises NotResumable if the end of the run erased its data."""
        if built is not None and not built.layout.software and policy != "purge":
            raise NotResumable(
                path=run, reason="the data on a controller's array were lost with it", hint="Use --from-purge."
            )
        return cls(options, tell, built.layout if built else None)

    @property
    def subject(self) -> str:
        """The array's level, and the number and model of its members."""
        models = dict.fromkeys(member.model for member in self._members.read() if member.model)
        return f"raid{self._layout.level}-{len(self._layout.members)}x-{next(iter(models), 'drive')}"

    def dut(self, spec: Spec) -> Dut:
        """Return the description of the array; before it is created, the predicted one."""
        duts = self._duts()
        if self._assembled is not None:
            dut = super().dut(spec)
        else:
            sector = max((dut.logical_sector_bytes for dut in duts), default=512)
            dut = predicted_dut(self._layout, self._members.read(), sector_bytes=sector, speeds=self._speeds)
        return replace(dut, instance=joined_instances(duts))

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup."""
        dut = self.dut(spec)
        if self._conditions is None:
            keep = self._options.keep_write_cache or spec.setup.write_cache == AS_FOUND
            caches = MemberCaches(self._duts(), spec.setup.write_cache, keep=keep)
            dut = with_cache_status(dut, caches.expected_status()) if self._duts() else dut
        return (*target_deviations(dut, spec), *_sync_deviations(self._layout))

    def buffered_io(self) -> tuple[HostSetting, ...]:
        """See TargetSetup; each buffering member is a separate setting."""
        return tuple(direct_io(Path(dut.path)).setting for dut in self._duts())

    def require_tools(self) -> None:
        """See TargetSetup."""
        super().require_tools()
        if os.geteuid() != 0:
            raise UsageError(detail="Only root can create an array.", hint="Run it as root.")
        if self._layout.software:
            find("mdadm")
            require_driver(self._layout)

    def preflight(self, spec: Spec) -> None:
        """See TargetSetup."""
        self._members.require_claimable()
        with temporary_folder() as folder:
            self._io_engines(spec, self.dut(spec), folder)
        if self._options.serial is not None:
            self._require_confirmed(self._options.serial)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """See TargetSetup; claims all members.  Arrays that killed runs left behind are removed first."""
        for line in restore_settings():
            self._tell(line)
        with ExitStack() as self._claims:
            self._targets = self._claims.enter_context(self._members.claimed(confirmed=False))
            yield

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """See TargetSetup; the confirmation covers every member."""
        typed, contents = self._options.serial, tuple[Contents, ...]()
        if typed is None:
            members = self._members.read()
            contents = self._members.contents(self._targets, evidence)
            drives = tuple(
                ThreatenedDrive(
                    path=member.path,
                    model=member.model,
                    serial=member.serial,
                    capacity_bytes=member.capacity_bytes,
                    signatures=signatures.descriptions(Path(member.path).name),
                )
                for member, signatures in zip(members, contents, strict=True)
            )
            expected = identities(members)
            typed = ask(
                ConfirmDestruction(path=self._layout.device, drives=drives, expected=expected, array=self._layout)
            )
        self._require_confirmed(typed)
        for target, signatures in zip(self._targets, contents, strict=False):  # a controller hides its members
            require_as_confirmed(target, signatures)

    def _require_confirmed(self, typed: str) -> None:
        expected = identities(self._members.read())
        if typed != expected:
            reason = f"{typed!r} are not the serial numbers or names of its members"
            raise NotConfirmed(path=self._layout.device, reason=reason, confirmation=expected)

    @contextmanager
    def conditions_applied(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """See TargetSetup; creates the array, and records it first so that it is removed in any case."""
        for line in restore_settings(folder.path):
            self._tell(line)
        restore_folder, controller = folder.path / RESTORE_FOLDER, controller_of(self._layout)
        change = Change(setting=ArraySetting(place=controller.place))
        with ExitStack() as stack:
            make_folder(restore_folder)
            stack.callback(_remove_empty, restore_folder)
            stack.enter_context(applied((change,), restore_folder, find=partial(find_setting), report=self._tell))
            assembled = AssembledArray(self._layout, controller, speeds=self._speeds)
            stack.callback(self._forget, assembled)
            self._claims.close()  # the members are claimed again for each creation of the array
            with self._members.claimed(confirmed=True):
                members = self._members.read()
            assembled.create(
                members,
                pre_run_path(folder.evidence, "array"),
                clean=self._assume_synced(spec, resumed=folder.has_started),
            )
            self._target, self._assembled, self._spec = assembled.target, assembled, spec
            yield stack.enter_context(super().conditions_applied(spec, folder, write_cache))

    def remove_file(self, *, refused: bool = False) -> None:
        """See TargetSetup: there is no file."""

    def _assume_synced(self, spec: Spec, *, resumed: bool) -> bool:
        """Return whether the first array may skip its sync, because the first purge recreates it.

        The array of a resumed run contains the data of the run, and only a sync makes their redundancy consistent.
        """
        if not self._layout.redundant or self._layout.sync == "skip":
            return True
        return not resumed and spec.purges_first

    def _forget(self, assembled: AssembledArray) -> None:
        assembled.close()
        self._target = self._assembled = None

    def _duts(self) -> tuple[Dut, ...]:
        return self._members.duts if isinstance(self._members, Drives) else ()

    def _cache(self, write_cache: str, *, keep: bool) -> WriteCache | None:
        """Return the members' caches; that of a hardware controller is set by its write policy."""
        if self._duts():
            return MemberCaches(self._duts(), write_cache, keep=keep)
        return WriteCache(self._claimed().dut, None, write_cache, keep=True)

    def _purger(self, tick: Tick | None = None) -> Purger | ArrayPurger:
        options = self._options
        method = "auto" if options.purge_command else options.purge
        member_purger = Purger(
            requested=method, command=options.purge_command, allow_unpurged=options.allow_unpurged, tick=tick
        )
        assembled = self._assembled or AssembledArray(
            self._layout, controller_of(self._layout)
        )  # used for predictions only
        return ArrayPurger(
            array=assembled,
            members=self._members,
            member_purger=member_purger,
            preconditioning=self._preconditioning(),
            tick=tick,
        )

    def _preconditioning(self) -> Preconditioning | None:
        """Return the preconditioning of the members, as in the test; None for a test without."""
        if not isinstance(self._spec, IopsSpec | LatencySpec | ThroughputSpec):
            return None
        demand, options = self._spec.wipc_demand, self._options
        return Preconditioning(
            passes=self._spec.preconditioning.capacities,
            thread_count=demand.thread_count,
            queue_depth=demand.queue_depth,
            io_engines=io_engines(options.engine),
            refill=options.refill_buffers,
        )


def _speeds(measured: MemberRates, path: str, run: Path | None) -> Speeds | None:
    """Return the speed of a single member, from a run of one, otherwise from the array's file; raises RecordError."""
    if run is None:
        disk_iops = measured.disk_iops
        return None if disk_iops is None else Speeds(iops=((50, disk_iops),), source=f"{path}: disk_iops")
    folder = RunFolder.existing(run)
    result = assess(folder)
    require_evidence(folder, result)
    loop = result.loop()
    rounds = loop.window_rounds if loop else ()
    measurements = [measurement for measured_round in rounds for measurement in measured_round.measurements]
    iops_by_share: dict[int, list[float]] = {}
    for measurement in measurements:
        stimulus = measurement.stimulus
        if stimulus.block_size_bytes == _SMALL_BYTES and stimulus.access == "RND" and measurement.iops > 0:
            iops_by_share.setdefault(stimulus.read_percent, []).append(measurement.iops)
    if not isinstance(result.facts.spec, IopsSpec) or not iops_by_share:
        raise UsageError(
            detail=f"--member-run {run}: no IOPS test with a measurement window and 4 KiB.",
            hint="Name the folder of an IOPS run of one member.",
        )
    return Speeds(
        iops=tuple((share, sum(values) / len(values)) for share, values in sorted(iops_by_share.items())),
        source=f"run {result.facts.run_id} of {result.facts.dut.model} {result.facts.dut.serial}".strip(),
    )


def _sync_deviations(layout: Layout) -> Iterator[Deviation]:
    """Yield the deviation that the redundancy of an array is not consistent."""
    if layout.redundant and layout.sync == "skip":
        yield Deviation(
            what="first sync of the array",
            standard="copies and parity are consistent before the test",
            actual='skipped (sync = "skip"): they are not',
            clause="docs/array.rst",
        )


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
