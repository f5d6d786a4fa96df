"""Perform the steps of a procedure on a claimed target, with an I/O engine."""

from __future__ import annotations

import errno
import logging
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
from ..model.content_state import ContentState
from ..model.measurement import Measurement, Outcome, PurgeOutcome
from ..model.steps import ContinuousStimulus, Idle, Prepare, Purge, Round, Step, Stimulus
from .device.content_state import read_content_state
from .device.identity import attribute, block_directory
from .device.target_claim import Target
from .engine import Engine
from .evidence import last_number, pre_run_path
from .fio import AnswerRejected
from .host.configurator import HostConfigurator
from .observation.kernel_log import KernelLog, kernel_names, open_log
from .purge import FillProof
from .settings.write_cache import WriteCache

_LOGGER = logging.getLogger(__name__)
#: The maximum number of repeats of a point if fio loses count of its last I/Os.
MAX_REPEATS = 2


class PurgeStrategy(Protocol):
    """How a target is purged, as ``requested`` by the operator."""

    @property
    def requested(self) -> str: ...

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Purge a claimed target and check on samples that its content changed; see Purger."""
        ...


class Laboratory:
    """A claimed target with its I/O engine, purge strategy, write cache and host configurator."""

    def __init__(
        self,
        target: Target,
        engine: Engine,
        *,
        purger: PurgeStrategy,
        cache: WriteCache,
        configurator: HostConfigurator,
        seed: int,
        evidence: Path,
    ) -> None:
        self._target = target
        self._configurator = configurator
        self._cache = cache
        self._engine = engine
        self._purger = purger
        self._seed = seed
        self._evidence = evidence
        self._block = None if target.dut.kind == "file" else block_directory(os.fstat(target.descriptor).st_rdev)
        self._content: ContentState | None = None
        self._kernel = KernelLog(kernel_names(self._block), open_log()) if self._block else KernelLog(set(), None)

    def perform(self, step: Step) -> Generator[Outcome, None, None]:
        """Perform a step and yield each outcome; closing the generator stops running programs.

        Before each stimulus and with each sample, checks that the target is still the claimed one, and looks for other
        runs that use its disks.  Raises PurgeFailed, DeviceFailed or HostFailed, with the kernel's messages about the
        drive.
        """
        try:
            yield from self._checked_outcomes(step)
        except (DeviceFailed, HostFailed, PurgeFailed) as failure:
            if note := self._kernel_note():
                failure.add_note(note)
            raise

    def _checked_outcomes(self, step: Step) -> Generator[Outcome, None, None]:
        with closing(self._outcomes(step)) as outcomes:
            for part in self._parts(step):
                try:
                    self._target.require_same(step.label, part)
                    self._target.other_runs.find()
                    outcome = next(outcomes, None)
                except AnswerRejected as rejection:
                    raise self._failure(step.label, part, rejection) from rejection
                except (OSError, MemoryError) as error:
                    raise HostFailed(step=step.label, what=part, reason=str(error) or "out of memory") from error
                if outcome is None:
                    return
                self._require_content(step, part)
                for line in self._kernel.resets():
                    if not isinstance(step, Purge):  # A purge may reset the drive.
                        raise DeviceFailed(step=step.label, what=part, reason=f"the kernel reports: {line}")
                yield outcome

    def _require_content(self, step: Step, part: str) -> None:
        """Raise HostFailed if a file lost content other than by a purge since the last outcome."""
        if self._block is not None:
            return  # The telemetry counts the discards of a block device.
        current, before = read_content_state(self._target.descriptor), self._content
        self._content = current
        loss = current.loss_since(before) if current and before and not isinstance(step, Purge) else ""
        if loss:
            reason = f"another program emptied {self._target.dut.path}: {loss}"
            raise HostFailed(step=step.label, what=part, reason=reason)

    def _failure(self, step: str, part: str, rejection: AnswerRejected) -> DeviceFailed | HostFailed:
        """Return the failure for a rejected answer; if the target has changed, the reason says so first."""
        reason, device = rejection.reason, rejection.blame == "device"
        try:
            self._target.require_same(step, part)
        except (DeviceFailed, HostFailed) as changed:
            reason, device = f"{changed.reason}; {reason}", device or isinstance(changed, DeviceFailed)
        if self._block is not None:
            device = device or rejection.number == errno.ENOSPC  # All I/O is within the drive's reported size.
            if attribute(self._block / "ro") == "1":
                reason, device = f"the device has become read-only; {reason}", True
        error_class = DeviceFailed if device else HostFailed
        return error_class(step=step, what=part, reason=reason)

    def _kernel_note(self) -> str:
        """Save the kernel's messages about the drive, and return a note with the last one."""
        if self._block is None:
            return ""
        lines = self._kernel.lines()
        if not lines:
            return "" if self._kernel.readable else "The kernel log cannot be read here."
        evidence = pre_run_path(self._evidence, "kernel.txt")
        try:
            create_file(evidence, "\n".join((*lines, "")).encode(), replace=True)
        except (OSError, RunFolderError) as error:
            reason = getattr(error, "strerror", None) or error
            return f"Kernel log: {lines[-1]} (cannot save the whole log: {reason})."
        return f"Kernel log: {lines[-1]} (whole log: evidence/{evidence.name})."

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Return the recorded outcomes unchanged: a real drive keeps its own state."""
        del step
        yield from outcomes

    def _parts(self, step: Step) -> Iterator[str]:
        """Yield, for each outcome, the name of what is performed, for error messages."""
        match step:
            case Purge():
                yield self._purger.requested
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
                yield self._purge(self._evidence / self._purge_name())
            case Idle():
                yield self._engine.idle(step.seconds)
            case Prepare():
                yield self._configurator.prepare(step)
            case ContinuousStimulus() if step.sample_seconds is not None:
                yield from self._engine.measure_continuous(step)
            case ContinuousStimulus() if step.is_fill and _overwrites_range(step.stimulus):
                yield from self._fill(step)
            case ContinuousStimulus() | Round():
                yield from self._measure(step)

    def _fill(self, step: ContinuousStimulus) -> Generator[Measurement, None, None]:
        """Measure a stimulus that overwrites its range, and prove that it did."""
        proof = FillProof(self._target, step.stimulus, self._seed, step.label)
        for measurement in self._measure(step):
            proof.require_written()
            self._engine.count_idle_io()
            yield measurement

    def _measure(self, step: ContinuousStimulus | Round) -> Generator[Measurement, None, None]:
        """Measure the stimuli of a step; repeat one at most twice if its answer's rejection is ``repeatable``.

        If the next stimulus has already started, it is stopped and restarted after the repeat.  A fill is not repeated
        if fio loses count of a few I/Os, because its histogram is not reported.
        """
        count, rejected = 0, list[RejectedAttempt]()
        while count < len(step.stimuli):
            measurements = self._engine.measure(
                step.stimuli[count:],
                lambda stimulus: self._target.require_same(step.label, stimulus.label),
                allow_uncounted=isinstance(step, ContinuousStimulus) and step.is_fill,
            )
            try:
                for measurement in measurements:
                    yield replace(measurement, rejected=tuple(rejected))
                    count, rejected = count + 1, []
                return
            except AnswerRejected as rejection:
                if not rejection.repeatable or rejection.attempt is None or len(rejected) == MAX_REPEATS:
                    raise
                rejected.append(rejection.attempt)
                _LOGGER.warning("%s, %s is measured again: %s", step.label, step.stimuli[count].label, rejection.reason)
            finally:
                if isinstance(measurements, Generator):
                    measurements.close()

    def _purge(self, evidence: Path) -> PurgeOutcome:
        """Purge, and then check the write cache: some drives return to their default setting."""
        outcome = self._purger.purge(self._target, self._seed, evidence)
        remarks, deviations = self._cache.after_purge(evidence.with_name(f"{evidence.name}-write-cache"))
        self._engine.count_idle_io()
        return replace(outcome, remarks=outcome.remarks + remarks, deviations=outcome.deviations + deviations)

    def _purge_name(self) -> str:
        """Return the name of a purge's evidence: the next number, or 0 if there is none before."""
        has_earlier = last_number(self._evidence) or any(self._evidence.glob("00000-purge*"))
        return f"{last_number(self._evidence) + 1 if has_earlier else 0:05d}-purge"


def _overwrites_range(stimulus: Stimulus) -> bool:
    """Return whether a stimulus writes its whole range with random data; options may prescribe other data."""
    is_whole = bool(stimulus.passes) and (stimulus.limit_bytes is None or stimulus.limit_bytes >= stimulus.range_bytes)
    return is_whole and not stimulus.read_percent and not stimulus.options
