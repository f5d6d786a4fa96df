"""What a test runs on: a real target, held while it runs, or a simulated drive."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from ..ceiling import Ceiling
from ..dut import Dut, SupposedSpeed
from ..errors import TargetMissing, UsageError
from ..health import Health
from ..lab.cache import WriteCache
from ..lab.ceiling import Calibration
from ..lab.conditions import Conditions, foreseen, put_back, settled
from ..lab.device import read_dut
from ..lab.engine import FioEngine, Named
from ..lab.fio import IoEngine
from ..lab.health import read_health
from ..lab.laboratory import Laboratory, target_deviations
from ..lab.probe import IO_ENGINES, choose_io_engine, fio_version, require_options
from ..lab.process import Tick, find
from ..lab.purge import Purger
from ..lab.safety import Target, confirm, hold, require_holdable
from ..lab.speed import supposed_speed
from ..lab.stage import Stage, medium
from ..procedures.profile import points
from ..record.folder import RunFolder
from ..runner import Performer
from ..spec import Deviation, ProfileSpec, Spec, staged
from ..steps import Stimulus
from ..testplatform import HostSetting
from ..units import parse_size
from . import preparing

if TYPE_CHECKING:
    from ..lab.array import ArrayPurger

#: What a target begins with that is no path.
SIMULATED, ARRAY = "sim:", "array:"
#: A write cache that nobody wants otherwise than it is.
AS_FOUND = "as found"
_TO_BE_MADE = " For a test file give its size, for example --size 1G."


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What performs a test's steps, by which engine and clock; ``durable`` where the journal must outlive a crash.

    ``examine`` asks the drive for what it tells of its life.  ``calibrate`` tells what the host alone can do of a
    test's stimuli, for a test of at least so many seconds, and says that it does.
    """

    laboratory: Performer
    engine: Named
    now: Callable[[], datetime]
    examine: Callable[[], Health | None]
    calibrate: Callable[[Sequence[Stimulus], float, Callable[[str], None]], tuple[Ceiling, ...]]
    durable: bool


class Bench(Protocol):
    """A target, real or not."""

    @property
    def subject(self) -> str:
        """What a run folder is named after."""
        ...

    def dut(self, spec: Spec) -> Dut:
        """Return what is known of the target of a test."""
        ...

    def speed(self, spec: Spec) -> SupposedSpeed:
        """Return how fast the target of a test may be, as far as anything tells."""
        ...

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return what is known beforehand to differ from the standard."""
        ...

    def purge_deviation(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return what its purge will add to them."""
        ...

    def require_tools(self) -> None:
        """Raise ToolMissing where a program is wanted that there is not, UsageError where only root may go on."""
        ...

    def foresee(self, spec: Spec) -> None:
        """Raise what a run would be refused for, as far as that can be told by reading alone."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Hold the target for the time of a test or several."""
        ...

    def confirm(self, evidence: Path) -> None:
        """Let the operator confirm that everything on it will be lost."""
        ...

    def settled(
        self, spec: Spec, folder: RunFolder, write_cache: str
    ) -> AbstractContextManager[tuple[HostSetting, ...]]:
        """Have the write cache and the host as a run in ``folder`` wants them; give the settings of the host."""
        ...

    def set_clock(self, at: datetime) -> None:
        """Let the next test begin at a time, where the target has a clock of its own."""
        ...

    def equip(self, spec: Spec, evidence: Path, seed: int, tick: Tick) -> Equipment:
        """Return what performs a test's steps."""
        ...

    def remove(self) -> None:
        """Remove the file that was made for the run in a directory, if there is one; while it is held."""
        ...


class RealBench:
    """A drive, a loop device or a file."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._path: Path = arguments.target
        if arguments.size and _is(self._path, stat.S_ISBLK):
            raise UsageError(detail="--size is for files; a drive is tested whole.", hint="Leave it out.")
        if arguments.discard_data and (arguments.size or _is(self._path, stat.S_ISREG)):
            raise UsageError(
                detail="--discard-data is for drives.", hint="A file's content is given up by --overwrite."
            )
        self._size_bytes = parse_size(arguments.size) if arguments.size else None
        self._target: Target | None = None
        self._conditions: Conditions | None = None

    @property
    def subject(self) -> str:
        """The drive's model, else the file's or device's name."""
        model = read_dut(self._path).model if _is(self._path, stat.S_ISBLK) else ""
        return self._path.name if not model or model.startswith("loop device") else model

    def dut(self, spec: Spec) -> Dut:
        """Return what the target says of itself; what is held says it once, but for its write cache."""
        del spec
        dut = self._target.dut if self._target else self._found()
        return self._conditions.of(dut) if self._conditions else dut

    def speed(self, spec: Spec) -> SupposedSpeed:
        """See Bench."""
        return supposed_speed(self.dut(spec))

    def _found(self) -> Dut:
        try:
            return read_dut(self._path, size_bytes=self._size_bytes)
        except TargetMissing as missing:
            missing.hint += _TO_BE_MADE if missing.hint == TargetMissing.hint else ""  # nothing is made below /dev
            raise

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See Bench."""
        dut = self.dut(spec)
        if self._conditions is None:
            keep = self._arguments.keep_write_cache or spec.setup.write_cache == AS_FOUND
            dut = foreseen(dut, spec.setup.write_cache, keep=keep)
        return target_deviations(dut, spec)

    def purge_deviation(self, spec: Spec) -> tuple[Deviation, ...]:
        """See Bench; a profile says itself how it purges, so that only a purge that is left out differs from it."""
        if not isinstance(spec, ProfileSpec):
            return self._purger().foreseen(self.dut(spec))
        purges = spec.purge or any(workload.fresh for workload in spec.workload)
        found = self._purger().foreseen(self.dut(spec)) if purges else ()
        return found if preparing.purging(self._arguments) == "none" else ()

    def require_tools(self) -> None:
        """See Bench."""
        find("fio")
        with TemporaryDirectory(prefix="snia-pts-") as folder:
            fio_version(Path(folder))
        if self._arguments.tune and os.geteuid() != 0:
            raise UsageError(detail="--tune: only root may set the host.", hint="snia-pts host shows it to everybody.")

    def foresee(self, spec: Spec) -> None:
        """See Bench."""
        asked, dut = self._arguments, self.dut(spec)
        require_holdable(
            self._path, size_bytes=self._size_bytes, overwrite=asked.overwrite, discard_data=asked.discard_data
        )
        if asked.serial is not None and dut.kind != "file":
            confirm(dut, asked.serial)
        if isinstance(spec, ProfileSpec):
            _require_stage(spec, Stage(dut.path, medium(Path(dut.path))))
        with TemporaryDirectory(prefix="snia-pts-") as folder:
            self._io_engines(spec, dut, Path(folder))

    def _io_engines(self, spec: Spec, dut: Dut, evidence: Path) -> Sequence[IoEngine]:
        """Return the I/O engines to try, the best first; raises UsageError for options that fio takes with none."""
        engines = IO_ENGINES if self._arguments.engine == "auto" else (self._arguments.engine,)
        if not isinstance(spec, ProfileSpec):
            return engines
        stimuli = [point.stimulus for point in points(spec, dut)]
        taking, refusals = list[IoEngine](), list[UsageError]()
        for io_engine in engines:
            try:
                require_options(stimuli, dut.path, io_engine, evidence)
                taking.append(io_engine)
            except UsageError as refusal:
                refusals.append(refusal)
        if not taking:
            raise refusals[0]
        return taking

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the target against everybody else; what killed runs left is put back first."""
        asked = self._arguments
        with hold(
            self._path, size_bytes=self._size_bytes, overwrite=asked.overwrite, discard_data=asked.discard_data
        ) as target:
            self._target = target
            try:
                for line in put_back():
                    say(line)
                yield
            finally:
                self._target = None

    def confirm(self, evidence: Path) -> None:
        """See Bench."""
        preparing.confirmed(self._held(), self._arguments, evidence)

    @contextmanager
    def settled(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """See Bench."""
        asked = self._arguments
        keep = asked.keep_write_cache or write_cache == AS_FOUND
        with settled(
            self._held(), folder.path, folder.evidence, write_cache=write_cache, keep=keep, tune=asked.tune,
            tell=say, staged=staged(spec), cache=self._cache(write_cache, keep=keep),
        ) as conditions:  # fmt: skip
            self._conditions = conditions
            if isinstance(spec, ProfileSpec):
                _require_stage(spec, conditions.stage)
            try:
                yield conditions.settings
            finally:
                self._conditions = None

    def set_clock(self, at: datetime) -> None:
        """See Bench: it is the world's."""

    def equip(self, spec: Spec, evidence: Path, seed: int, tick: Tick) -> Equipment:
        """Return a laboratory with fio as its engine; raises UsageError for options that fio does not take."""
        target, asked = self._held(), self._arguments
        engines = self._io_engines(spec, target.dut, evidence)
        io_engine = choose_io_engine(target.dut.path, target.dut.logical_sector_bytes, evidence, engines)
        engine = FioEngine(
            target.dut.path, evidence, seed=seed, io_engine=io_engine, refill=asked.refill_buffers, tick=tick
        )
        if self._conditions is None:
            raise RuntimeError("the write cache is not settled")
        laboratory = Laboratory(
            target, engine, purger=self._purger(tick), cache=self._conditions.cache,
            stage=self._conditions.stage, seed=seed, evidence=evidence,
        )  # fmt: skip
        calibration = Calibration(io_engine=io_engine, refill=asked.refill_buffers, seed=seed, evidence=evidence)
        return Equipment(
            laboratory=laboratory, engine=engine, now=lambda: datetime.now().astimezone(),
            examine=lambda: read_health(target.dut, evidence), calibrate=calibration.ceilings, durable=True,
        )  # fmt: skip

    def remove(self) -> None:
        """See Bench; a run that can be resumed keeps its file."""
        if getattr(self._arguments, "scratch", None) == self._path and (why := self._held().remove()):
            say(f"{self._path} is left there: {why}")

    def _cache(self, write_cache: str, *, keep: bool) -> WriteCache | None:
        """Return what sets the write cache; None for the target's own."""
        del write_cache, keep
        return None

    def _purger(self, tick: Tick | None = None) -> Purger | ArrayPurger:
        asked = self._arguments
        return Purger(wanted=asked.purge, command=asked.purge_command, allow_unpurged=asked.allow_unpurged, tick=tick)

    def _held(self) -> Target:
        if self._target is None:
            raise RuntimeError("the target is not held")
        return self._target


def _require_stage(spec: ProfileSpec, stage: Stage) -> None:
    """Raise TargetUnfit where the host cannot be set as a profile wants it."""
    stage.require(sum(spec.settings(), ()), cold=any(workload.cold for workload in spec.workload))


def scratch_name(spec: Spec) -> str:
    """Return the name of the file that a profile's run makes in a directory; empty for a test of the standard."""
    return f"snia-pts-{spec.name}.data" if isinstance(spec, ProfileSpec) else ""


def say(line: str) -> None:
    """Tell what the operator should know and nothing stops for: what was put back, or could not be."""
    print(f"snia-pts: {line}", file=sys.stderr)


def is_directory(path: Path) -> bool:
    """Whether a directory is there, as far as this process may see."""
    return _is(path, stat.S_ISDIR)


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether something of a kind is there, as far as this process may see."""
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False


def bench(arguments: argparse.Namespace) -> Bench:
    """Return what the argument TARGET names; raises UsageError or SpecError."""
    if str(arguments.target).startswith(ARRAY) or arguments.layout is not None:
        from .array import ArrayBench

        return ArrayBench(arguments)
    if arguments.member_run is not None:
        raise UsageError(detail="--member-run is for arrays.", hint="Leave it out, or name an array: array:FILE.")
    if str(arguments.target).startswith(SIMULATED):
        from .simulated import SimulatedBench

        return SimulatedBench(arguments)
    return RealBench(arguments)
