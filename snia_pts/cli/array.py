"""An array that is made of drives for a run, as what a test runs on: ``array:FILE`` (docs/array.rst)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ..array import BuiltArray, Layout, Measured, Member, Speeds
from ..dut import Dut
from ..errors import NotConfirmed, NotResumable, TargetUnfit, UsageError
from ..lab.array import ArrayPurger, Drives, MemberCaches, Members, Slots, Standing, controller_of, predicted_dut
from ..lab.array.controller import MadeArray
from ..lab.array.preconditioning import Preconditioning
from ..lab.array.standing import identities
from ..lab.cache import WriteCache
from ..lab.conditions import ARRAY as NOTE
from ..lab.conditions import put_back, with_cache
from ..lab.evidence import looked_up
from ..lab.laboratory import target_deviations
from ..lab.probe import IO_ENGINES
from ..lab.process import Tick, find
from ..lab.purge import NONE, Purger
from ..lab.safety import Target
from ..lab.settable import find as find_setting
from ..lab.settings import Change, hold
from ..record.folder import RunFolder
from ..replay import assess
from ..spec import Deviation, IopsSpec, LatencySpec, ProfileSpec, Spec, ThroughputSpec
from ..testplatform import HostSetting
from ..tomlfile import read_file
from ..units import KIB, capacity
from .benches import ARRAY, AS_FOUND, RealBench, say

_WHAT = "The array"
_REMEDY = "Correct the file; docs/array.rst tells every key."
#: The block size of what a member is known by.
_SMALL_BYTES = 4 * KIB


class ArrayBench(RealBench):
    """An array of drives; it stands from the confirmation of its members to the end of a test, and is made for each."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        for option in ("size", "overwrite"):
            if getattr(arguments, option):
                raise UsageError(detail=f"--{option} is for files; an array is made of drives.", hint="Leave it out.")
        super().__init__(arguments)
        path = str(arguments.target).removeprefix(ARRAY)
        given: Layout | None = arguments.layout
        self._layout = given or read_file(Path(path), Layout, _WHAT, remedy=_REMEDY)
        if not self._layout.software and (arguments.purge != NONE or arguments.purge_command):
            raise TargetUnfit(
                path=path, reason="the controller hides its members, and nothing can purge them",
                hint="Say --purge none, which is a Deviation; or give the controller's drives to mdadm (JBOD).",
            )  # fmt: skip
        self._speeds = _speeds(self._layout.measured, path, arguments.member_run)
        self._members: Members = (
            Drives(self._layout, discard_data=arguments.discard_data) if self._layout.software else Slots(self._layout)
        )
        self._free = ExitStack()
        self._targets: tuple[Target, ...] = ()
        self._standing: Standing | None = None
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
        """See Bench."""
        dut = self.dut(spec)
        if self._conditions is None:
            keep = self._arguments.keep_write_cache or spec.setup.write_cache == AS_FOUND
            caches = MemberCaches(self._duts(), spec.setup.write_cache, keep=keep)
            dut = with_cache(dut, caches.foreseen()) if self._duts() else dut
        return (*target_deviations(dut, spec), *_unsynced(self._layout))

    def require_tools(self) -> None:
        """See Bench."""
        super().require_tools()
        if os.geteuid() != 0:
            raise UsageError(detail="Only root may make an array.", hint="Run it as root.")
        if self._layout.software:
            find("mdadm")

    def foresee(self, spec: Spec) -> None:
        """See Bench."""
        self._members.require_free()
        with TemporaryDirectory(prefix="snia-pts-") as folder:
            self._io_engines(spec, self.dut(spec), Path(folder))
        if self._arguments.serial is not None:
            self._require_confirmed(self._arguments.serial)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold all members against everybody else; arrays that killed runs left are taken apart first."""
        for line in put_back():
            say(line)
        with ExitStack() as self._free:
            self._targets = self._free.enter_context(self._members.free(confirmed=False))
            yield

    def confirm(self, evidence: Path) -> None:
        """Let the operator confirm that everything on every member will be lost."""
        members, asked = self._members.look(), self._arguments
        wanted = identities(members)
        if asked.serial is None:
            for line in _destruction_lines(self._layout, members, self._members.on_it(self._targets, evidence)):
                print(line, file=sys.stderr)
            if not sys.stdin.isatty():
                reason = "there is no terminal to ask at"
                raise NotConfirmed(path=self._layout.device, reason=reason, confirmation=wanted)
            print(f"Type their serial numbers or names, {wanted}, to go on: ", end="", file=sys.stderr, flush=True)
        self._require_confirmed(sys.stdin.readline().strip() if asked.serial is None else asked.serial)

    def _require_confirmed(self, typed: str) -> None:
        wanted = identities(self._members.look())
        if typed != wanted:
            reason = f"{typed!r} are not the serial numbers or names of its members"
            raise NotConfirmed(path=self._layout.device, reason=reason, confirmation=wanted)

    @contextmanager
    def settled(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """Make the array, noted so that it is taken apart whatever happens; see Bench."""
        for line in put_back(folder.path):
            say(line)
        note, made = folder.path / NOTE, controller_of(self._layout)
        change = Change(setting=MadeArray(place=made.place))
        with ExitStack() as stack:
            note.mkdir(exist_ok=True)
            stack.callback(_remove_empty, note)
            stack.enter_context(hold((change,), note, find=partial(find_setting), tell=say))
            standing = Standing(self._layout, made, speeds=self._speeds)
            stack.callback(self._forget, standing)
            self._free.close()  # from here on they are looked at anew each time
            with self._members.free(confirmed=True):
                known = self._members.look()
            standing.make(
                known, looked_up(folder.evidence, "array"), clean=self._clean(spec, goes_on=folder.journal.exists())
            )
            self._target, self._standing, self._spec = standing.target, standing, spec
            yield stack.enter_context(super().settled(spec, folder, write_cache))

    def remove(self) -> None:
        """See Bench: there is no file."""

    def _clean(self, spec: Spec, *, goes_on: bool) -> bool:
        """Whether the first array's redundancy may stay as it is: it is made anew by the purge that comes first.

        One of a run that goes on holds what was measured; only a sync tells that its redundancy does too.
        """
        if not self._layout.redundant or self._layout.sync == "skip":
            return True
        return not goes_on and (not isinstance(spec, ProfileSpec) or spec.purge)

    def _forget(self, standing: Standing) -> None:
        standing.close()
        self._target = self._standing = None

    def _duts(self) -> tuple[Dut, ...]:
        return self._members.duts if isinstance(self._members, Drives) else ()

    def _cache(self, write_cache: str, *, keep: bool) -> WriteCache | None:
        """Return the members' caches; that of a hardware controller is set by its policy."""
        if self._duts():
            return MemberCaches(self._duts(), write_cache, keep=keep)
        return WriteCache(self._held().dut, None, write_cache, keep=True)

    def _purger(self, tick: Tick | None = None) -> Purger | ArrayPurger:
        asked = self._arguments
        each = Purger(wanted=asked.purge, command=asked.purge_command, allow_unpurged=asked.allow_unpurged, tick=tick)
        standing = self._standing or Standing(self._layout, controller_of(self._layout))  # only asked what is foreseen
        return ArrayPurger(
            standing=standing, members=self._members, each=each, preconditioning=self._preconditioning(), tick=tick
        )

    def _preconditioning(self) -> Preconditioning | None:
        """Return how the members are written over: as the test does with its target; None for one that does not."""
        if not isinstance(self._spec, IopsSpec | LatencySpec | ThroughputSpec):
            return None
        wipc, asked = self._spec.preconditioning, self._arguments
        return Preconditioning(
            passes=wipc.capacities, thread_count=wipc.thread_count, queue_depth=wipc.queue_depth,
            io_engines=IO_ENGINES if asked.engine == "auto" else (asked.engine,), refill=asked.refill_buffers,
        )  # fmt: skip


def resumable(built: BuiltArray, arguments: argparse.Namespace) -> Layout:
    """Return what a run that goes on makes its array of; raises NotResumable where what it held is gone."""
    if not built.layout.software and arguments.way != "purge":
        raise NotResumable(
            path=arguments.run, reason="what a controller's array held is gone with it", hint="Say --from-purge."
        )
    return built.layout


def _speeds(measured: Measured, path: str, run: Path | None) -> Speeds | None:
    """Return what a member does by itself, from a run of one, else from what the file tells; raises RecordError."""
    if run is None:
        told = measured.disk_iops
        return None if told is None else Speeds(iops=((50, told),), source=f"{path}: disk_iops")
    result = assess(RunFolder.existing(run))
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


def _destruction_lines(layout: Layout, members: Sequence[Member], on_it: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """What will be lost, for the operator to see before the word is typed."""
    yield f"A {layout.label} is made of these drives as {layout.device}; everything on them will be destroyed:"
    for member, found in zip(members, on_it, strict=True):
        serial = f", serial {member.serial}" if member.serial else ""
        yield f"  {member.path}  {member.model or 'unknown model'}{serial}, {capacity(member.capacity_bytes)}"
        yield (
            f"    on it: {', '.join(found)}" if found else "    on it: no file system or partition table is recognised"
        )


def _unsynced(layout: Layout) -> Iterator[Deviation]:
    """Tell that the redundancy of an array is not consistent."""
    if layout.redundant and layout.sync == "skip":
        yield Deviation(
            what="first sync of the array", standard="copies and parity are consistent before the test",
            actual="left out (sync = \"skip\"): they are not", clause="docs/array.rst",
        )  # fmt: skip


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
