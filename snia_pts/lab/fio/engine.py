"""The seam behind which I/O is done: real fio here, a simulated device elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import math
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...errors import SniaPtsError
from ...files import create, rename
from ...model.attempt import RejectedAttempt
from ...model.measurement import IdleOutcome, Measurement, Sample, Timing, Transfers
from ...model.steps import ContinuousStimulus, Stimulus
from .. import fio
from ..device.identity import block_directory
from ..evidence import last_number
from ..observation.clocks import Moment, read_moment
from ..observation.telemetry import Observer, observe
from ..process import program as process
from ..process.staged import StagedProgram
from .point import IdleGap, PointPipeline, PreparedPoint
from .probe import fio_version
from .sampling import Sampler, Totals

if TYPE_CHECKING:
    from ...model.telemetry import TelemetrySample

#: A host that was suspended for so long did something else than the test.
_LONGEST_SUSPENSION_SECONDS = 0.1
#: Of the options that a profile may set, fio is known to repeat these as they were written.
_REPEATED_AS_WRITTEN = {"ioengine", "direct"}
#: So long before the end of an idle time the next fio starts, and is checked what must be before its I/O.
_STAGING_NS, _CHECKS_NS = 1_500_000_000, 50_000_000
#: fio's runtime is in whole ms, and may be rounded.
_ROUNDING_SECONDS = 0.01


#: Asked before a stimulus: raises where it must not be.
Guard = Callable[[Stimulus], None]


def allow(_: Stimulus) -> None:
    """Raise nothing: whatever is asked may be."""


class Named(Protocol):
    """What a report tells of an engine."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def io_engine(self) -> str: ...


class Engine(Named, Protocol):
    """Runs stimuli on the target of a run."""

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Run ``stimuli`` one after the other, without a pause, giving each measurement as it comes.

        All of them are known ahead, so that the next can be made ready while one runs; it may run already when a
        measurement is given.  ``before`` is asked right before each, and raises what forbids it.  Raises fio.Refused
        when an answer is not believed; I/Os that the engine lost count of are no reason with ``allow_uncounted``.
        """
        ...

    def stretch(self, step: ContinuousStimulus) -> Iterator[Sample | Measurement]:
        """Run a stretch's stimulus without a break, giving each sample while it runs, and at last the whole.

        There are ``step.samples`` samples, each about ``step.sample_seconds`` long; fewer where a limit ended it, or
        where all I/O stood still over more than one.  Raises fio.Refused when an answer is not believed.
        """
        ...

    def idle(self, seconds: float) -> IdleOutcome:
        """Do no I/O on the target, so that it is left alone for ``seconds`` from its last I/O to the next one's.

        It may return earlier; the next stimulus is then held until the time is over.
        """
        ...


class FioEngine:
    """fio on a block device or file."""

    name = "fio"

    def __init__(
        self,
        path: str,
        evidence: Path,
        *,
        seed: int,
        io_engine: fio.IoEngine,
        refill: bool = False,
        stall_seconds: float = fio.STALL_SECONDS,
        tick: process.Tick | None = None,
        clock: Callable[[], Moment] = read_moment,
        observer: Observer | None = None,
        descriptor: int | None = None,
    ) -> None:
        """Run on ``path``, keep evidence in the folder ``evidence``, derive every stimulus's seed from ``seed``.

        With a ``descriptor`` the target is what that holds, whatever ``path`` leads to by then.

        Evidence that is there already stays: what comes is numbered after it.  That the host is not suspended is looked
        at by ``clock``, from now on: before and after each stimulus, and about once a second.  ``observer`` watches
        drive and host while fio runs, and is left alone while it does not; by default one of the target at ``path``.
        A drive that stands still for longer than ``stall_seconds`` has failed.
        """
        self.io_engine = f"{io_engine}, random buffers {'refilled' if refill else 'scrambled'}"
        self._io_engine = io_engine
        self._refill = refill
        self._stall_seconds = stall_seconds
        self.version = fio_version(evidence).removeprefix("fio-")
        self._path, self._descriptor = path, descriptor
        self._evidence = evidence
        self._seed = seed
        self._tick = tick
        self._count = last_number(evidence)
        self._pause = IdleGap()
        self._last_begun: process.Program | None = None
        self._around_ns = self._idle_until_ns = 0
        self._child_signals = process.ChildSignalListener()
        self._clock = clock
        self._moment = clock()
        self._node = None if observer else _node(path)
        self._observer = observe(path) if observer is None else observer

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Run ``stimuli``; see Engine.

        The next fio stands ready before one's end, and is let go as soon as that one's threads say that all their I/O
        has come back.  What that one says of itself is awaited while the next one works.
        """
        self._reattach_observer()
        with ExitStack() as left:  # whatever ends this, no fio goes on
            left.callback(self._pause_since_last_end)
            upcoming = PointPipeline(map(self._prepare_next, stimuli), left)
            if point := upcoming.take():
                self._release(point, before)
            while point:
                at_work = upcoming.during(point, self._on_tick)
                done_ns = point.program.wait_for_io_end(self._timeout_seconds(point.stimulus), at_work)
                vitals, following = self._observer.whole(), upcoming.take() if done_ns else None
                if following and done_ns:
                    self._pause = IdleGap(since_ns=done_ns)
                    try:
                        self._release(following, before)
                    except (SniaPtsError, fio.AnswerRejected, OSError) as error:
                        upcoming.trouble = error
                yield self._collect(point, vitals, allow_uncounted=allow_uncounted)
                if upcoming.trouble:
                    break
                if not done_ns and (following := upcoming.take()):  # a point that is not believed has none after it
                    self._release(following, before)
                point = following
            if upcoming.trouble:
                raise upcoming.trouble

    def stretch(self, step: ContinuousStimulus) -> Iterator[Sample | Measurement]:
        """Run a stretch; see Engine.  All that fio says meanwhile is kept, compressed, beside its final answer.

        Samples end at whole multiples of their time from the release of fio's threads on, and where the I/O ends.
        """
        if step.sample_seconds is None:
            yield from self.measure(step.stimuli)
            return
        self._reattach_observer()
        answers, running, sampler = fio.StatusStream(), fio.RunningTotals(step.stimulus), Sampler(step.samples)
        with ExitStack() as left:
            left.callback(self._pause_since_last_end)
            point = left.enter_context(self._prepare_next(step.stimulus, sampled=True))
            kept = left.enter_context(_compressed(point.files.path.with_suffix(".samples.json.gz")))
            self._release(point, allow)
            reports = process.Reports(
                seconds=step.sample_seconds, count=step.samples - 1
            )  # the final answer is the last
            for said in point.program.iter_stdout(self._timeout_seconds(step.stimulus), self._on_tick, reports=reports):
                kept.write(said)
                for answer in answers.more(said):
                    kept.flush(zlib.Z_SYNC_FLUSH)
                    set_seconds = self._clock().set_seconds(self._moment)
                    yield from self._cut(sampler.cut, running.read(answer, set_seconds))
            point.exited_ns = time.monotonic_ns()
            point.program.end()
            point.files.keep(answers.last)
            ended_ns = point.program.finished.ended_monotonic_ns
            self._pause = IdleGap(since_ns=ended_ns, not_ours_ns=max(0, point.exited_ns - ended_ns))
            whole = self._measurement(point, self._observer.whole(), allow_uncounted=True)
        totals = running.read(answers.last.decode("utf-8", "replace"), whole.timing.clock_set_seconds, final=True)
        yield from self._cut(sampler.last, totals)
        yield whole

    def idle(self, seconds: float) -> IdleOutcome:
        """Leave the device alone; see Engine.

        It returns shortly before the idle time is over, so that the next stimulus is prepared and then begins exactly
        then; how long the device was left alone is in that one's ``idle_gap_ms``.
        """
        started, began = datetime.now().astimezone(), time.monotonic_ns()
        since = began if self._pause.since_ns is None else self._pause.since_ns
        self._idle_until_ns = since + round(1e9 * seconds)
        self._wait_until(self._idle_until_ns - _STAGING_NS)
        idled = time.monotonic_ns() - began
        return IdleOutcome(started=started.isoformat(timespec="milliseconds"), seconds=idled / 1e9)

    def _wait_until(self, until_ns: int) -> None:
        """Wait until a time (monotonic ns), and do what is done about once a second."""
        began = time.monotonic_ns()
        while (left := until_ns - time.monotonic_ns()) > 0:
            time.sleep(min(1.0, left / 1e9))
            self._each_second((time.monotonic_ns() - began) / 1e9, 0)

    def _timeout_seconds(self, stimulus: Stimulus) -> float:
        return fio.timeout_seconds(stimulus, self._stall_seconds)

    def _reattach_observer(self) -> None:
        """Watch the target anew where it went away, and came back, since it was looked at: an array, or in a purge."""
        if self._node is not None and (node := _node(self._path)) != self._node:
            self._node, self._observer = node, observe(self._path)

    def _on_tick(self, seconds: float, written_bytes: int) -> None:
        """What is done about once a second while fio runs."""
        self._observer.tick()
        self._each_second(seconds, written_bytes)

    def _each_second(self, seconds: float, written_bytes: int) -> None:
        self._require_awake()
        if self._tick is not None:
            self._tick(seconds, written_bytes)

    def _require_awake(self) -> Moment:
        """Refuse what is measured on a host that was suspended since the last measurement; return the moment."""
        moment = self._clock()
        suspended = moment.suspended_seconds(self._moment)
        if suspended > _LONGEST_SUSPENSION_SECONDS:
            raise fio.AnswerRejected("host", f"the host was suspended for {suspended:.1f} s, and the drive with it")
        return moment

    def _cut(self, cut: Callable[[Totals], Iterator[Sample]], totals: Totals) -> Iterator[Sample]:
        """Give the sample that running totals end; raises fio.Refused where it does not go with those before."""
        try:
            for sample in cut(totals):
                yield replace(sample, vitals=self._observer.lap())
        except ValueError as error:
            raise fio.AnswerRejected("host", f"fio's samples are not believed: {error}") from error

    def _prepare_next(self, stimulus: Stimulus, *, sampled: bool = False) -> PreparedPoint:
        """Begin fio for a stimulus, to stand ready before its first I/O."""
        threads = sum(section.jobs for section in fio.sections(stimulus))
        files, seed = self._write_job(stimulus)
        try:
            command = fio.command(files.path, staged=True, sampled=sampled)
            program = StagedProgram(
                command,
                threads=threads,
                evidence=files.path,
                child_signals=self._child_signals,
                inherited=files.inherited,
                listen=sampled,
            )
        except BaseException:
            files.close()
            raise
        return PreparedPoint(stimulus=stimulus, files=files, seed=seed, program=program, sampled=sampled)

    def _release(self, point: PreparedPoint, before: Guard) -> None:
        """Let a point's fio do its I/O, at the end of an idle time where one was asked for.

        What is spent in waiting for fio, or idle as asked, is no pause of ours.
        """
        due_ns, self._idle_until_ns = self._idle_until_ns, 0
        self._wait_until(due_ns - _CHECKS_NS)
        self._require_awake()
        before(point.stimulus)
        self._observer.begin()
        began = max(due_ns, time.monotonic_ns())
        if isinstance(point.program, StagedProgram):
            point.program.release_at_ns = due_ns
        point.program.begin()
        if point.program.exited:  # it fell before its I/O: once more, as programs usually begin
            point.program.end()
            job, inherited = point.files.path, point.files.inherited
            rename(job.with_suffix(".process.json"), f"{job.stem}.fallen.process.json")  # it is not written over
            point.engine_restarted = True
            point.program = process.Program(
                fio.command(job, sampled=point.sampled),
                evidence=job,
                listen=point.sampled,
                child_signals=self._child_signals,
                inherited=inherited,
            )
            point.program.begin()
        if due_ns and self._pause.since_ns is not None:
            self._pause.not_ours_ns = due_ns - self._pause.since_ns
        self._pause.not_ours_ns += point.program.started_ns - began
        point.pause = replace(self._pause)
        self._last_begun = point.program

    def _pause_since_last_end(self) -> None:
        """Count the pause from the end of the program that did I/O last, also where that was ended with another's."""
        if self._last_begun is None:
            return
        ended_ns = self._last_begun.finished.ended_monotonic_ns
        if ended_ns > (self._pause.since_ns or 0):
            self._pause = IdleGap(since_ns=ended_ns)

    def _collect(self, point: PreparedPoint, vitals: TelemetrySample, *, allow_uncounted: bool) -> Measurement:
        """Wait for the end of a point's fio, which works no more, and return what it measured."""
        program, began = point.program, time.monotonic_ns()
        for _ in program.iter_stdout(self._timeout_seconds(point.stimulus)):
            pass
        waited_ns = time.monotonic_ns() - began
        program.end()
        self._pause = IdleGap(since_ns=program.finished.ended_monotonic_ns, not_ours_ns=waited_ns)
        return self._measurement(point, vitals, allow_uncounted=allow_uncounted)

    def _write_job(self, stimulus: Stimulus) -> tuple[fio.JobFiles, int]:
        """Write the job file of a stimulus; return it, and the seed in it."""
        self._count += 1
        size = "mixed" if stimulus.block_shares else f"{stimulus.largest_block_bytes}b"
        name = f"{self._count:05d}-{stimulus.access.lower()}-{size}-r{stimulus.read_percent}.fio"
        job, seed = self._evidence / name, seed_of(stimulus, self._seed, self._count)
        text = fio.job_file(stimulus, self._path, self._io_engine, seed, refill=self._refill)
        return fio.JobFiles(job, text, self._path, self._descriptor), seed

    def _measurement(
        self, point: PreparedPoint, vitals: TelemetrySample, *, allow_uncounted: bool = False
    ) -> Measurement:
        """Return what a point's fio measured, which has ended; raises fio.Refused when that is not believed."""
        moment, finished = self._require_awake(), point.program.finished
        raw = point.files.answer()
        point.files.close()
        answer = raw.decode("utf-8", "replace")
        checksum = hashlib.sha256(raw).hexdigest()
        try:
            read, write = _accepted(
                point.stimulus,
                finished,
                answer,
                self._stall_seconds,
                allow_uncounted=allow_uncounted,
                exited_ns=point.exited_ns,
            )
            target = finished.environment.get(fio.TARGET, "")
            fio.require_echo(point.files.text, answer, target, ignored_options(point.stimulus))
        except fio.AnswerRejected as refusal:
            refusal.attempt = RejectedAttempt(
                reason=refusal.reason,
                seconds=finished.seconds,
                evidence=point.files.path.stem,
                evidence_sha256=checksum,
            )
            raise
        if point.program.threads_missing:
            raise fio.AnswerRejected("host", "not all of fio's threads did their work")
        around_ns = finished.ended_monotonic_ns - finished.started_monotonic_ns
        around_ns -= max(read.runtime_ms, write.runtime_ms) * 1_000_000 + round(1e9 * point.stimulus.ramp_seconds)
        around_ns = max(0, around_ns)
        measurement = Measurement(
            stimulus=point.stimulus,
            seed=point.seed,
            read=read,
            write=write,
            timing=replace(
                _clocking(finished, point.pause, max(around_ns, self._around_ns)),
                clock_set_seconds=round(moment.set_seconds(self._moment), 3),
                engine_restarted=point.engine_restarted,
                thread_spread_ms=_thread_spread_ms(point, read.transferred_bytes + write.transferred_bytes),
            ),
            evidence=point.files.path.stem,
            evidence_sha256=checksum,
            engine_cpu_percent=fio.engine_cpu_percent(answer),
            sync=fio.sync_times(answer) if point.stimulus.options else None,
            vitals=vitals,
            uncounted_ios=fio.uncounted_ios(point.stimulus, answer) if allow_uncounted else 0,
            stream_bytes=fio.stream_bytes(point.stimulus, answer),
        )
        self._moment, self._around_ns = moment, around_ns
        return measurement


def side_by_side(engines: Sequence[FioEngine], stimuli: Sequence[Stimulus]) -> tuple[Measurement, ...]:
    """Run a stimulus on the target of each engine, all at the same time; raises fio.Refused for the first refused."""
    with ExitStack() as left:  # whatever ends this, no fio goes on
        points = []
        for engine, stimulus in zip(engines, stimuli, strict=True):
            engine._child_signals = engines[0]._child_signals  # there is one for all, as there is one SIGCHLD
            points.append((engine, left.enter_context(engine._prepare_next(stimulus))))
        for engine, point in points:
            engine._release(point, allow)
        for engine, point in points:
            point.program.wait_for_io_end(engine._timeout_seconds(point.stimulus), engine._on_tick)
        return tuple(engine._collect(point, engine._observer.whole(), allow_uncounted=True) for engine, point in points)


@contextmanager
def _compressed(path: Path) -> Iterator[gzip.GzipFile]:
    """Create a compressed file."""
    with create(path) as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as compressed:
        yield compressed


def _node(path: str) -> tuple[int, ...]:
    """Return what tells a target, and what the kernel has of it, from one that took its place."""
    try:
        status = Path(path).stat()
        kernels = block_directory(status.st_rdev).stat().st_ino if stat.S_ISBLK(status.st_mode) else 0
    except OSError:
        return ()
    return status.st_dev, status.st_ino, kernels


def _accepted(
    stimulus: Stimulus,
    finished: process.Finished,
    answer: str,
    stall_seconds: float = fio.STALL_SECONDS,
    *,
    allow_uncounted: bool = False,
    exited_ns: int = 0,
) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus; raises fio.Refused, with what became of fio, when not believed.

    A fio that was asked for running totals while a thread ended may count its time until ``exited_ns``.
    """
    if finished.stopped_seconds is not None:
        raise fio.AnswerRejected("host", f"fio was stopped from outside for about {finished.stopped_seconds:.2g} s")
    try:
        read, write = fio.accept(
            stimulus,
            finished.exit_code,
            finished.timed_out,
            answer,
            finished.stderr,
            stall_seconds=stall_seconds,
            allow_uncounted=allow_uncounted,
        )
    except fio.AnswerRejected as refusal:
        said = f"fio said: {finished.error_summary}"
        if finished.left_behind is not None:
            said = f"fio hangs in the kernel and was left behind (process {finished.left_behind})"
        reason, repeatable = f"{refusal.reason}; {said}", refusal.repeatable
        raise fio.AnswerRejected(refusal.blame, reason, refusal.number, repeatable=repeatable) from None
    runtime = max(read.runtime_ms, write.runtime_ms) / 1000
    there = finished.seconds + max(0, exited_ns - finished.ended_monotonic_ns) / 1e9
    if runtime > there + _ROUNDING_SECONDS:
        raise fio.AnswerRejected("host", f"fio tells of {runtime:g} s of I/O, and was there for {there:.3g} s")
    return read, write


def ignored_options(stimulus: Stimulus) -> frozenset[str]:
    """Return the options of a stimulus that fio may repeat in other words than they were written in."""
    return frozenset(dict(stimulus.options).keys() - _REPEATED_AS_WRITTEN)


def seed_of(stimulus: Stimulus, run_seed: int, number: int) -> int:
    """Return the seed of a run's stimulus: its own, or that of its name where each repeat goes to the same places."""
    return stimulus_seed(run_seed, stimulus.name if stimulus.same_places else number)


def stimulus_seed(run_seed: int, number: int | str) -> int:
    """Return a large seed for a number or name, the same whenever the run's seed is the same."""
    digest = hashlib.sha256(f"{run_seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 61


def _thread_spread_ms(point: PreparedPoint, moved_bytes: int) -> float | None:
    """Return how far apart a point's threads ended in ms; None where anything but time may have ended one of them."""
    stimulus, program = point.stimulus, point.program
    limit = math.inf if stimulus.limit_bytes is None else fio.thread_limit(stimulus, stimulus.limit_bytes)
    timed = stimulus.seconds is not None and moved_bytes < limit
    spread_ns = program.thread_spread_ns if timed and isinstance(program, StagedProgram) else None
    return None if spread_ns is None else spread_ns / 1e6


def _clocking(finished: process.Finished, pause: IdleGap, around_ns: int) -> Timing:
    """Return when a program ran, and how long the device was idle before.

    Of the time around the I/O of a program its end counts here, and the beginning of the next; which part is which is
    not known, so the longer of both, ``around_ns``, stands for it.  The end is long where the suite stood still and saw
    it late.
    """
    gap_ns = None if pause.since_ns is None else finished.started_monotonic_ns - pause.since_ns
    return Timing(
        started=finished.started,
        started_monotonic_ns=finished.started_monotonic_ns,
        ended_monotonic_ns=finished.ended_monotonic_ns,
        own_gap_us=None if gap_ns is None else (gap_ns - pause.not_ours_ns) / 1000,
        idle_gap_ms=None if gap_ns is None else (gap_ns + around_ns) / 1e6,
    )
