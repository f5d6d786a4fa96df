"""Performs the steps that a procedure asks for, on a held target, with an engine."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Protocol

from ..errors import DeviceFailed, HostFailed, PurgeFailed, RunFolderError
from ..files import create_file
from ..model.attempt import RejectedAttempt
from ..model.dut import Dut
from ..model.measurement import Measurement, Outcome, PurgeOutcome
from ..model.steps import ContinuousStimulus, Idle, Prepare, Purge, Round, Step
from ..spec import (
    DemandSpec,
    Deviation,
    IopsSpec,
    LatencySpec,
    PatternSpec,
    ProfileSpec,
    Spec,
    WriteSaturationSpec,
)
from ..units import block_size
from .device.identity import attribute, block_directory
from .device.safety import Target
from .evidence import last_number, pre_run_path
from .fio import AnswerRejected
from .fio.engine import Engine
from .host.configurator import HostConfigurator
from .observation.kernel_log import KernelLog, names, open_log
from .settings.write_cache import CLAUSE, WriteCache

#: A point is measured so often again where fio lost count of its last I/Os.
_MOST_REPEATS = 2


class PurgeStrategy(Protocol):
    """The way a target is purged: ``wanted`` is how it is asked for."""

    @property
    def wanted(self) -> str: ...

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Purge a held target and prove it; see Purger."""
        ...


class Laboratory:
    """A held target, the engine that does I/O on it, the way it is purged, and its write cache."""

    def __init__(
        self,
        target: Target,
        engine: Engine,
        *,
        purger: PurgeStrategy,
        cache: WriteCache,
        stage: HostConfigurator,
        seed: int,
        evidence: Path,
    ) -> None:
        self._target = target
        self._stage = stage
        self._cache = cache
        self._engine = engine
        self._purger = purger
        self._seed = seed
        self._evidence = evidence
        self._block = None if target.dut.kind == "file" else block_directory(os.fstat(target.descriptor).st_rdev)
        self._kernel = KernelLog(names(self._block), open_log()) if self._block else KernelLog(set(), None)

    def perform(self, step: Step) -> Generator[Outcome, None, None]:
        """Perform a step, giving each outcome as it comes; closing it ends what still runs.

        Raises PurgeFailed, DeviceFailed or HostFailed; that the target is still what was held is looked at before
        each stimulus, and with each sample.  What the kernel said of the drive is kept with a failure.
        """
        try:
            yield from self._performed(step)
        except (DeviceFailed, HostFailed, PurgeFailed) as failure:
            if testimony := self._testimony():
                failure.add_note(testimony)
            raise

    def _performed(self, step: Step) -> Generator[Outcome, None, None]:
        with closing(self._outcomes(step)) as outcomes:
            for part in self._parts(step):
                try:
                    self._target.require_same(step.label, part)
                    outcome = next(outcomes, None)
                except AnswerRejected as refusal:
                    raise self._failure(step.label, part, refusal) from refusal
                except (OSError, MemoryError) as error:
                    raise HostFailed(step=step.label, what=part, reason=str(error) or "out of memory") from error
                if outcome is None:
                    return
                for line in self._kernel.resets():
                    if not isinstance(step, Purge):  # which may well reset it
                        raise DeviceFailed(step=step.label, what=part, reason=f"the kernel says: {line}")
                yield outcome

    def _failure(self, step: str, part: str, refusal: AnswerRejected) -> DeviceFailed | HostFailed:
        """Return the failure that a refusal tells of; first of all what became of the target."""
        reason, device = refusal.reason, refusal.blame == "device"
        try:
            self._target.require_same(step, part)
        except (DeviceFailed, HostFailed) as changed:
            reason, device = f"{changed.reason}; {reason}", device or isinstance(changed, DeviceFailed)
        if self._block is not None:
            device = device or refusal.number == errno.ENOSPC  # within the size that it has, or had
            if attribute(self._block / "ro") == "1":
                reason, device = f"it is read-only by now; {reason}", True
        failed = DeviceFailed if device else HostFailed
        return failed(step=step, what=part, reason=reason)

    def _testimony(self) -> str:
        """Keep what the kernel said of the drive, and return its last word on it."""
        if self._block is None:
            return ""
        lines = self._kernel.lines()
        if not lines:
            return "" if self._kernel.readable else "What the kernel says cannot be read here."
        evidence = pre_run_path(self._evidence, "kernel.txt")
        try:
            create_file(evidence, "\n".join((*lines, "")).encode(), replace=True)
        except (OSError, RunFolderError) as error:
            reason = getattr(error, "strerror", None) or error
            return f"The kernel says: {lines[-1]} (all it said could not be kept: {reason})."
        return f"The kernel says: {lines[-1]} (all of it is in evidence/{evidence.name})."

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Take note of what came of a step before the run was interrupted: a real drive bears it itself."""
        del step
        yield from outcomes

    def _parts(self, step: Step) -> Iterator[str]:
        """Name what each outcome is about."""
        match step:
            case Purge():
                yield self._purger.wanted
            case Idle():
                yield "no I/O"
            case Prepare():
                yield "the host"
            case ContinuousStimulus():
                yield from repeat(step.stimulus.label, step.samples + 1)
            case Round():
                yield from (stimulus.label for stimulus in step.stimuli)

    def _outcomes(self, step: Step) -> Generator[Outcome, None, None]:
        match step:
            case Purge():
                yield self._purged(self._evidence / self._purge_name())
            case Idle():
                yield self._engine.idle(step.seconds)
            case Prepare():
                yield self._stage.prepare(step)
            case ContinuousStimulus() if step.sample_seconds is not None:
                yield from self._engine.stretch(step)
            case ContinuousStimulus() | Round():
                yield from self._measured(step)

    def _measured(self, step: ContinuousStimulus | Round) -> Generator[Measurement, None, None]:
        """Measure the stimuli of a step, and one whose answer is refused as repeatable once more, at most twice.

        Preconditioning is not repeated for a few I/Os that fio lost count of: its histogram is not reported.
        The next one may have begun then: it is ended, and begins anew after it.
        """
        done, rejected = 0, list[RejectedAttempt]()
        while done < len(step.stimuli):
            left = step.stimuli[done:]
            found = self._engine.measure(
                left,
                lambda stimulus: self._target.require_same(step.label, stimulus.label),
                allow_uncounted=isinstance(step, ContinuousStimulus) and step.phase == "WIPC",
            )
            try:
                for measurement in found:
                    yield replace(measurement, rejected=tuple(rejected))
                    done, rejected = done + 1, []
                return
            except AnswerRejected as refusal:
                if not refusal.repeatable or refusal.attempt is None or len(rejected) == _MOST_REPEATS:
                    raise
                rejected.append(refusal.attempt)
            finally:
                if isinstance(found, Generator):
                    found.close()

    def _purged(self, evidence: Path) -> PurgeOutcome:
        """Purge, and look what became of the write cache: some drives come back with their default."""
        purged = self._purger.purge(self._target, self._seed, evidence)
        remarks, deviations = self._cache.after_purge(evidence.with_name(f"{evidence.name}-write-cache"))
        return replace(purged, remarks=purged.remarks + remarks, deviations=purged.deviations + deviations)

    def _purge_name(self) -> str:
        """Name a purge's evidence by the stimulus that follows it; the first one, before all, by 0."""
        before = last_number(self._evidence) or any(self._evidence.glob("00000-purge*"))
        return f"{last_number(self._evidence) + 1 if before else 0:05d}-purge"


def target_deviations(dut: Dut, spec: Spec) -> tuple[Deviation, ...]:
    """Return what makes a target differ from what the standard tests.

    That is a solid state drive, raw, its write cache as asked, its sectors small enough for every block size.
    """
    if isinstance(spec, ProfileSpec):  # the standard says nothing of it
        return ()
    setup, found = spec.setup, []
    if dut.kind != "drive":
        found.append(
            Deviation(
                what="device under test",
                standard="a solid state drive, raw",
                actual=_instead(dut),
                clause="PTS chapter 1",
            )
        )
    if dut.write_cache != setup.write_cache and (dut.write_cache, setup.write_cache) != ("none", "disabled"):
        found.append(
            Deviation(
                what="write cache",
                standard=setup.write_cache,
                actual=f"{dut.write_cache} ({dut.write_cache_source})",
                clause=CLAUSE,
            )
        )
    if dut.rotational:
        found.append(Deviation(what="media", standard="solid state", actual="rotational", clause="PTS chapter 1"))
    return (*found, *_lost_sizes(dut, spec))


def _instead(dut: Dut) -> str:
    """Tell what is tested in place of a drive."""
    if dut.simulated:
        return f"SIMULATED: {dut.model}"
    return "a file through a file system" if dut.kind == "file" else dut.model


def _sequential(spec: PatternSpec) -> Iterator[Deviation]:
    """Tell how a sequential pattern differs from one unbroken stream: fio begins anew with every start."""
    if spec.pattern.access != "SEQ":
        return
    if isinstance(spec, WriteSaturationSpec) and spec.saturation.until_steady and 0 < spec.pattern.read_percent < 100:
        yield Deviation(
            what="stop at steady state",
            standard="the stimulus ends when steady state is reached, if not before",
            actual="it goes on to its amount or time: a mixed sequential stream is not broken off to decide",
            clause="PTS chapter 10, test loop",
        )
    if isinstance(spec, DemandSpec):
        yield Deviation(
            what="sequential stream",
            standard="one stream over the ActiveRange",
            actual="each point and pre-write begins at the start of the ActiveRange",
            clause="PTS chapters 13 and 14",
        )


def _lost_sizes(dut: Dut, spec: Spec) -> Iterator[Deviation]:
    """Tell the block sizes that the device's sectors cannot hold, as far as the test goes on without them."""
    left_out = f"left out: sectors of {dut.logical_sector_bytes} bytes cannot hold them"
    match spec:
        case IopsSpec() | LatencySpec():
            lost = [size for size in spec.rounds.block_sizes_bytes if size % dut.logical_sector_bytes]
            chapter = 7 if isinstance(spec, IopsSpec) else 9
            if lost:
                yield Deviation(
                    what="block sizes",
                    standard=", ".join(map(block_size, lost)),
                    actual=left_out,
                    clause=f"PTS chapter {chapter}, block sizes",
                )
        case PatternSpec():
            yield from _sequential(spec)
            gone = [size for size in spec.pattern.block_sizes if size.size_bytes % dut.logical_sector_bytes]
            if gone:
                yield Deviation(
                    what="block sizes",
                    standard=", ".join(f"{block_size(size.size_bytes)} {size.percent} %" for size in gone),
                    actual=f"{left_out}; the shares of the others were scaled to 100 %",
                    clause=f"PTS, access pattern {spec.pattern.name}",
                )
