"""Sets up an array that is made of drives for a run: ``array:FILE`` (docs/array.rst)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import NotConfirmed, NotResumable, TargetUnfit, UsageError
from ..files import make_folder
from ..lab.array import ArrayPurger, AssembledArray, Drives, MemberCaches, Members, Slots, controller_of, predicted_dut
from ..lab.array.assembled import identities
from ..lab.array.controller import MadeArray
from ..lab.array.mdadm import require_driver
from ..lab.array.preconditioning import Preconditioning
from ..lab.device.safety import Target
from ..lab.evidence import pre_run_path
from ..lab.fio.probe import IO_ENGINES
from ..lab.host.conditions import ARRAY as NOTE
from ..lab.host.conditions import put_back, with_cache
from ..lab.host.settable import find as find_setting
from ..lab.laboratory import target_deviations
from ..lab.process.program import Tick, find
from ..lab.purge import NONE, Purger
from ..lab.settings.settings import Change, applied
from ..lab.settings.write_cache import WriteCache
from ..model.array import BuiltArray, Layout, Measured, Speeds
from ..model.dut import Dut
from ..model.run_options import ARRAY, RunOptions
from ..model.test_platform import HostSetting
from ..record.folder import RunFolder
from ..record.replay import assess
from ..results.interruption import ResumePolicy
from ..spec import Deviation, IopsSpec, LatencySpec, ProfileSpec, Spec, ThroughputSpec
from ..spec.toml_file import read_file
from ..units import KIB
from .confirmation import Confirm, ConfirmDestruction, ThreatenedDrive
from .device import DeviceSetup
from .target import AS_FOUND
from .verification import require_evidence

_WHAT = "The array"
_REMEDY = "Correct the file; docs/array.rst tells every key."
#: The block size of what a member is known by.
_SMALL_BYTES = 4 * KIB


class ArraySetup(DeviceSetup):
    """Sets up an array of drives, which is made for each test and taken apart at its end."""

    def __init__(self, options: RunOptions, tell: Callable[[str], None], layout: Layout | None = None) -> None:
        """Use the array of ``layout``, or of the file that the target names."""
        super().__init__(options, tell)
        path = options.target.removeprefix(ARRAY)
        self._layout = layout or read_file(Path(path), Layout, _WHAT, remedy=_REMEDY)
        if not self._layout.software and options.purge_method != NONE:
            raise TargetUnfit(
                path=path,
                reason="the controller hides its members, and nothing can purge them",
                hint="Say --purge none, which is a Deviation; or give the controller's drives to mdadm (JBOD).",
            )
        self._speeds = _speeds(self._layout.measured, path, options.member_run)
        self._members: Members = (
            Drives(self._layout, discard_data=options.discard_data) if self._layout.software else Slots(self._layout)
        )
        self._free = ExitStack()
        self._targets: tuple[Target, ...] = ()
        self._standing: AssembledArray | None = None
        self._spec: Spec | None = None

    @property
    def subject(self) -> str:
        """Level and members."""
        models = dict.fromkeys(each.model for each in self._members.look() if each.model)
        return f"raid{self._layout.level}-{len(self._layout.members)}x-{next(iter(models), 'drive')}"

    def dut(self, spec: Spec) -> Dut:
        """Return the array; before it is made, what it will be."""
        if self._standing is not None:
            return super().dut(spec)
        sector = max((each.logical_sector_bytes for each in self._duts()), default=512)
        return predicted_dut(self._layout, self._members.look(), sector_bytes=sector, speeds=self._speeds)

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup."""
        dut = self.dut(spec)
        if self._conditions is None:
            keep = self._options.keep_write_cache or spec.setup.write_cache == AS_FOUND
            caches = MemberCaches(self._duts(), spec.setup.write_cache, keep=keep)
            dut = with_cache(dut, caches.foreseen()) if self._duts() else dut
        return (*target_deviations(dut, spec), *_unsynced(self._layout))

    def require_tools(self) -> None:
        """See TargetSetup."""
        super().require_tools()
        if os.geteuid() != 0:
            raise UsageError(detail="Only root may make an array.", hint="Run it as root.")
        if self._layout.software:
            find("mdadm")
            require_driver(self._layout)

    def preflight(self, spec: Spec) -> None:
        """See TargetSetup."""
        self._members.require_free()
        with TemporaryDirectory(prefix="snia-pts-") as folder:
            self._io_engines(spec, self.dut(spec), Path(folder))
        if self._options.serial is not None:
            self._require_confirmed(self._options.serial)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold all members against everybody else; arrays that killed runs left are taken apart first."""
        for line in put_back():
            self._tell(line)
        with ExitStack() as self._free:
            self._targets = self._free.enter_context(self._members.free(confirmed=False))
            yield

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """Let the operator confirm that everything on every member will be lost."""
        typed = self._options.serial
        if typed is None:
            members = self._members.look()
            found = self._members.on_it(self._targets, evidence)
            drives = tuple(
                ThreatenedDrive(
                    path=member.path,
                    model=member.model,
                    serial=member.serial,
                    capacity_bytes=member.capacity_bytes,
                    on_it=on_it,
                )
                for member, on_it in zip(members, found, strict=True)
            )
            expected = identities(members)
            typed = ask(
                ConfirmDestruction(path=self._layout.device, drives=drives, expected=expected, array=self._layout)
            )
        self._require_confirmed(typed)

    def _require_confirmed(self, typed: str) -> None:
        wanted = identities(self._members.look())
        if typed != wanted:
            reason = f"{typed!r} are not the serial numbers or names of its members"
            raise NotConfirmed(path=self._layout.device, reason=reason, confirmation=wanted)

    @contextmanager
    def conditions_applied(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """Make the array, noted so that it is taken apart whatever happens; see TargetSetup."""
        for line in put_back(folder.path):
            self._tell(line)
        note, made = folder.path / NOTE, controller_of(self._layout)
        change = Change(setting=MadeArray(place=made.place))
        with ExitStack() as stack:
            make_folder(note)
            stack.callback(_remove_empty, note)
            stack.enter_context(applied((change,), note, find=partial(find_setting), tell=self._tell))
            standing = AssembledArray(self._layout, made, speeds=self._speeds)
            stack.callback(self._forget, standing)
            self._free.close()  # from here on they are looked at anew each time
            with self._members.free(confirmed=True):
                known = self._members.look()
            standing.make(
                known, pre_run_path(folder.evidence, "array"), clean=self._clean(spec, goes_on=folder.journal.exists())
            )
            self._target, self._standing, self._spec = standing.target, standing, spec
            yield stack.enter_context(super().conditions_applied(spec, folder, write_cache))

    def remove_file(self, *, refused: bool = False) -> None:
        """See TargetSetup: there is no file."""

    def _clean(self, spec: Spec, *, goes_on: bool) -> bool:
        """Whether the first array's redundancy may stay as it is: it is made anew by the purge that comes first.

        One of a run that goes on holds what was measured; only a sync tells that its redundancy does too.
        """
        if not self._layout.redundant or self._layout.sync == "skip":
            return True
        return not goes_on and (not isinstance(spec, ProfileSpec) or spec.purge)

    def _forget(self, standing: AssembledArray) -> None:
        standing.close()
        self._target = self._standing = None

    def _duts(self) -> tuple[Dut, ...]:
        return self._members.duts if isinstance(self._members, Drives) else ()

    def _cache(self, write_cache: str, *, keep: bool) -> WriteCache | None:
        """Return the members' caches; that of a hardware controller is set by its policy."""
        if self._duts():
            return MemberCaches(self._duts(), write_cache, keep=keep)
        return WriteCache(self._claimed().dut, None, write_cache, keep=True)

    def _purger(self, tick: Tick | None = None) -> Purger | ArrayPurger:
        asked = self._options
        wanted = "auto" if asked.purge_command else asked.purge
        each = Purger(wanted=wanted, command=asked.purge_command, allow_unpurged=asked.allow_unpurged, tick=tick)
        standing = self._standing or AssembledArray(
            self._layout, controller_of(self._layout)
        )  # only asked what is foreseen
        return ArrayPurger(
            standing=standing, members=self._members, each=each, preconditioning=self._preconditioning(), tick=tick
        )

    def _preconditioning(self) -> Preconditioning | None:
        """Return how the members are written over: as the test does with its target; None for one that does not."""
        if not isinstance(self._spec, IopsSpec | LatencySpec | ThroughputSpec):
            return None
        demand, asked = self._spec.wipc_demand, self._options
        return Preconditioning(
            passes=self._spec.preconditioning.capacities,
            thread_count=demand.thread_count,
            queue_depth=demand.queue_depth,
            io_engines=IO_ENGINES if asked.engine == "auto" else (asked.engine,),
            refill=asked.refill_buffers,
        )


def require_resumable_array(built: BuiltArray, run: Path, policy: ResumePolicy) -> None:
    """Raise NotResumable where the data on the array are gone with it."""
    if not built.layout.software and policy != "purge":
        raise NotResumable(path=run, reason="what a controller's array held is gone with it", hint="Say --from-purge.")


def _speeds(measured: Measured, path: str, run: Path | None) -> Speeds | None:
    """Return what a member does by itself, from a run of one, else from what the file tells; raises RecordError."""
    if run is None:
        told = measured.disk_iops
        return None if told is None else Speeds(iops=((50, told),), source=f"{path}: disk_iops")
    folder = RunFolder.existing(run)
    result = assess(folder)
    require_evidence(folder, result)
    loop = result.loop()
    points = [each for measured_round in (loop.window_rounds if loop else ()) for each in measured_round.measurements]
    found: dict[int, list[float]] = {}
    for each in points:
        if each.stimulus.block_size_bytes == _SMALL_BYTES and each.stimulus.access == "RND" and each.iops > 0:
            found.setdefault(each.stimulus.read_percent, []).append(each.iops)
    if not isinstance(result.facts.spec, IopsSpec) or not found:
        raise UsageError(
            detail=f"--member-run {run}: no IOPS test with a measurement window and 4 KiB.",
            hint="Name the folder of an IOPS run of one member.",
        )
    return Speeds(
        iops=tuple((share, sum(values) / len(values)) for share, values in sorted(found.items())),
        source=f"run {result.facts.run_id} of {result.facts.dut.model} {result.facts.dut.serial}".strip(),
    )


def _unsynced(layout: Layout) -> Iterator[Deviation]:
    """Tell that the redundancy of an array is not consistent."""
    if layout.redundant and layout.sync == "skip":
        yield Deviation(
            what="first sync of the array",
            standard="copies and parity are consistent before the test",
            actual='left out (sync = "skip"): they are not',
            clause="docs/array.rst",
        )


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
