"""Implement the interface of an I/O engine with fio."""

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
from typing import TYPE_CHECKING

from ...errors import SniaPtsError
from ...files import create, rename
from ...model.attempt import RejectedAttempt
from ...model.measurement import IdleOutcome, Measurement, Sample, Timing
from ...model.steps import ContinuousStimulus, Stimulus
from ...units import counted
from .. import fio
from ..device.file_sets import FileSets
from ..device.identity import block_directory
from ..engine import Guard, allow
from ..evidence import last_number
from ..observation.clocks import Moment, read_moment
from ..observation.interval_files import IntervalFiles
from ..observation.power import PowerMeter
from ..observation.telemetry import Observer, observe
from ..process import program as process
from ..process.staged import StagedProgram
from .kernel_counters import has_holes, is_counted_by_process, require_counted, require_process_bytes
from .point import IdleGap, PointPipeline, PreparedPoint, overhead_ns
from .probe import describe_io_engine, fio_version
from .sampling import Sampler, Totals
from .seeds import seed_for

if TYPE_CHECKING:
    from ...model.telemetry import TelemetrySample

#: If the host was suspended for longer than this, the measurement is rejected.
_MAX_SUSPENSION_SECONDS = 0.1
#: The next fio starts this long before the end of an idle time, and its checks this long before.
_STAGING_NS, _CHECKS_NS = 1_500_000_000, 50_000_000


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
        version: str = "",
        refill: bool = False,
        fixed_buffers: bool = False,
        stall_seconds: float = fio.STALL_SECONDS,
        tick: process.Tick | None = None,
        clock: Callable[[], Moment] = read_moment,
        observer: Observer | None = None,
        meter: PowerMeter | None = None,
        descriptor: int | None = None,
        file_sets: FileSets | None = None,
    ) -> None:
        """Run on ``path``, write evidence to the folder ``evidence``, and derive each stimulus's seed from ``seed``.

        ``version`` is that of fio; if it is empty, fio is asked.
        ``fixed_buffers`` requires io_uring and a host that may lock the buffers (``probe.can_lock_buffers``).
        With a ``descriptor``, the target is the device or file open there, even if ``path`` has changed since.
        ``file_sets`` are required for stimuli on several files.

        Existing evidence stays; new evidence is numbered after it.  From now on ``clock`` is read before and after each
        stimulus, and about once a second, to detect a suspended host.  ``observer`` (by default of the target at
        ``path``, and of the power ``meter``) reads telemetry of drive and host only while fio runs.  A drive that
        stalls for longer than ``stall_seconds`` has failed.
        """
        self.io_engine = describe_io_engine(io_engine, refill=refill, fixed_buffers=fixed_buffers)
        self._io_engine, self._fixed_buffers = io_engine, fixed_buffers
        self._refill = refill
        self._stall_seconds = stall_seconds
        self.version = version or fio_version(evidence)
        self._path, self._descriptor, self._file_sets = path, descriptor, file_sets
        self._counted_by_process = is_counted_by_process(path)
        self._evidence = evidence
        self._seed = seed
        self._tick = tick
        self._count = last_number(evidence)
        self._gap = IdleGap()
        self._last_started: process.Program | None = None
        self._last_cached = False
        self._overhead_ns = self._idle_end_ns = 0
        self._child_signals = process.ChildSignalListener()
        self._clock = clock
        self._moment = clock()
        self._node = None if observer else _node(path)
        self._meter = meter
        self._observer = observe(path, meter=meter) if observer is None else observer

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Run ``stimuli``; see Engine.

        The next fio is prepared before the running one ends.  It is released as soon as all threads of the running fio
        report that their I/O has completed; the answer of that fio is collected while the next one does I/O.
        """
        self._reattach_observer()
        with ExitStack() as stack:  # However this ends, no fio keeps running.
            stack.callback(self._start_gap_at_last_end)
            pipeline = PointPipeline(map(self._prepare_next, stimuli), stack)
            if point := pipeline.take():
                self._release(point, before)
            while point:
                tick = pipeline.tick_for(point, self._on_tick)
                io_end_ns = point.program.wait_for_io_end(self._timeout_seconds(point.stimulus), tick)
                telemetry, following = self._observer.finish(), pipeline.take() if io_end_ns else None
                if following and io_end_ns:
                    self._gap = IdleGap(since_ns=io_end_ns)
                    try:
                        self._release(following, before)
                    except (SniaPtsError, fio.AnswerRejected, OSError) as error:
                        pipeline.deferred_error = error
                yield self._collect(point, telemetry, allow_uncounted=allow_uncounted)
                if pipeline.deferred_error:
                    break
                if not io_end_ns and (following := pipeline.take()):  # _collect has accepted the answer by now.
                    self._release(following, before)
                point = following
            if pipeline.deferred_error:
                raise pipeline.deferred_error

    def measure_continuous(self, step: ContinuousStimulus) -> Iterator[Sample | Measurement]:
        """Run a continuous stimulus; see Engine.  fio's output is saved, compressed, next to its final answer.

        Samples end at whole multiples of their time since the release of fio's threads, and at the end of the I/O.
        """
        if step.sample_seconds is None:
            yield from self.measure(step.stimuli)
            return
        self._reattach_observer()
        answers, running, sampler = fio.StatusStream(), fio.RunningTotals(step.stimulus), Sampler(step.samples)
        with ExitStack() as stack:
            stack.callback(self._start_gap_at_last_end)
            point = stack.enter_context(self._prepare_next(step.stimulus, sampled=True))
            samples_file = stack.enter_context(_compressed(point.files.path.with_suffix(".samples.json.gz")))
            self._release(point, allow)
            # The final answer is the last report.
            reports = process.ReportSchedule(seconds=step.sample_seconds, count=step.samples - 1)
            timeout_seconds = self._timeout_seconds(step.stimulus)
            for chunk in point.program.iter_stdout(timeout_seconds, self._on_tick, reports=reports):
                samples_file.write(chunk)
                for answer in answers.feed(chunk):
                    samples_file.flush(zlib.Z_SYNC_FLUSH)
                    set_seconds = self._clock().wall_clock_change_seconds(self._moment)
                    yield from self._with_telemetry(sampler.add, running.read(answer, set_seconds))
            point.exited_ns = time.monotonic_ns()
            point.program.end()
            point.files.write_answer(answers.last_answer)
            ended_ns = point.program.finished.ended_monotonic_ns
            self._gap = IdleGap(since_ns=ended_ns, excluded_ns=max(0, point.exited_ns - ended_ns))
            measurement = self._measurement(point, self._observer.finish(), allow_uncounted=True)
        final_answer = answers.last_answer.decode("utf-8", "replace")
        totals = running.read(final_answer, measurement.timing.clock_set_seconds, final=True)
        yield from self._with_telemetry(sampler.finish, totals)
        yield measurement

    def idle(self, seconds: float) -> IdleOutcome:
        """Do no I/O; see Engine.

        It returns shortly before the end of the idle time: then the next stimulus is prepared, and it starts exactly at
        the end.  The ``idle_gap_ms`` of that stimulus is the measured idle time.
        """
        started, started_ns = datetime.now().astimezone(), time.monotonic_ns()
        since_ns = started_ns if self._gap.since_ns is None else self._gap.since_ns
        self._idle_end_ns = since_ns + round(1e9 * seconds)
        self._wait_until(self._idle_end_ns - _STAGING_NS)
        idle_ns = time.monotonic_ns() - started_ns
        return IdleOutcome(started=started.isoformat(timespec="milliseconds"), seconds=idle_ns / 1e9)

    def count_idle_io(self) -> None:
        """Count I/O of other programs until the next stimulus; see Engine."""
        self._reattach_observer()
        self._last_cached = False
        self._observer.start_idle()

    def _wait_until(self, end_ns: int) -> None:
        """Wait until a time (monotonic ns), with the checks that are made about once a second."""
        started_ns = time.monotonic_ns()
        while (remaining_ns := end_ns - time.monotonic_ns()) > 0:
            time.sleep(min(1.0, remaining_ns / 1e9))
            self._check_and_report((time.monotonic_ns() - started_ns) / 1e9, 0)

    def _timeout_seconds(self, stimulus: Stimulus) -> float:
        return fio.timeout_seconds(stimulus, self._stall_seconds)

    def _reattach_observer(self) -> None:
        """Create a new observer if the device node was recreated since the last check (an array, or after a purge)."""
        if self._node is not None and (node := _node(self._path)) != self._node:
            self._node, self._observer = node, observe(self._path, meter=self._meter)

    def _on_tick(self, seconds: float, written_bytes: int) -> None:
        """Read telemetry and check the host, about once a second while fio runs."""
        self._observer.tick()
        self._check_and_report(seconds, written_bytes)

    def _check_and_report(self, seconds: float, written_bytes: int) -> None:
        self._require_awake()
        if self._tick is not None:
            self._tick(seconds, written_bytes)

    def _require_awake(self) -> Moment:
        """Return the clock readings; raises fio.AnswerRejected if the host was suspended since the last measurement."""
        moment = self._clock()
        suspended = moment.suspended_seconds(self._moment)
        if suspended > _MAX_SUSPENSION_SECONDS:
            raise fio.AnswerRejected("host", f"the host was suspended for {suspended:.1f} s, and the drive with it")
        return moment

    def _with_telemetry(self, take_sample: Callable[[Totals], Iterator[Sample]], totals: Totals) -> Iterator[Sample]:
        """Add telemetry to the sample up to ``totals``; raises fio.AnswerRejected if the totals are inconsistent."""
        try:
            for sample in take_sample(totals):
                yield replace(sample, telemetry=self._observer.lap())
        except ValueError as error:
            raise fio.AnswerRejected("host", f"fio's samples are inconsistent: {error}") from error

    def _prepare_next(self, stimulus: Stimulus, *, sampled: bool = False) -> PreparedPoint:
        """Start fio for a stimulus; it waits before its first I/O."""
        threads = fio.count_threads(stimulus)
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
        return PreparedPoint(
            stimulus=stimulus,
            files=files,
            seed=seed,
            program=program,
            sampled=sampled,
            had_holes=self._counted_by_process
            and any(has_holes(self._path, file) for file in self._file_set(stimulus) or (self._descriptor,)),
        )

    def _release(self, point: PreparedPoint, before: Guard) -> None:
        """Let a prepared fio do its I/O, at the end of a requested idle time.

        The idle time and the time spent waiting for fio are excluded from the suite's gap.
        """
        due_ns, self._idle_end_ns = self._idle_end_ns, 0
        self._wait_until(due_ns - _CHECKS_NS)
        self._require_awake()
        before(point.stimulus)
        point.intervals = IntervalFiles(point.files.path, point.stimulus.ramp_seconds)
        idle_block = self._observer.start(point.intervals, _expected_seconds(point.stimulus))
        # The page cache writes data of a cached stimulus later.
        point.idle_block = None if self._last_cached else idle_block
        self._last_cached = point.stimulus.cached
        released_ns = max(due_ns, time.monotonic_ns())
        if isinstance(point.program, StagedProgram):
            point.program.release_at_ns = due_ns
        point.program.start()
        if point.program.reap():  # It died before its I/O: start it again, without the start gate.
            point.program.end()
            if isinstance(point.program, StagedProgram) and not point.program.may_restart:
                threads = fio.count_threads(point.stimulus)
                reason = f"fio started {point.program.ready_threads} of {counted(threads, 'thread')}"
                raise fio.AnswerRejected("host", reason)
            job, inherited = point.files.path, point.files.inherited
            # The new process must not overwrite the evidence of the dead one.
            rename(job.with_suffix(".process.json"), f"{job.stem}.fallen.process.json")
            point.engine_restarted = True
            point.program = process.Program(
                fio.command(job, sampled=point.sampled),
                evidence=job,
                listen=point.sampled,
                child_signals=self._child_signals,
                inherited=inherited,
            )
            point.program.start()
        if due_ns and self._gap.since_ns is not None:
            self._gap.excluded_ns = due_ns - self._gap.since_ns
        self._gap.excluded_ns += point.program.started_ns - released_ns
        point.gap = replace(self._gap)
        self._last_started = point.program

    def _start_gap_at_last_end(self) -> None:
        """Start the gap at the end of the last program that did I/O, even if an error ended it along with another."""
        if self._last_started is None:
            return
        ended_ns = self._last_started.finished.ended_monotonic_ns
        if ended_ns > (self._gap.since_ns or 0):
            self._gap = IdleGap(since_ns=ended_ns)

    def _collect(self, point: PreparedPoint, telemetry: TelemetrySample, *, allow_uncounted: bool) -> Measurement:
        """Wait for the exit of a fio that has completed its I/O, and return its measurement."""
        program, wait_started_ns = point.program, time.monotonic_ns()
        for _ in program.iter_stdout(self._timeout_seconds(point.stimulus)):
            pass
        waited_ns = time.monotonic_ns() - wait_started_ns
        program.end()
        self._gap = IdleGap(since_ns=program.finished.ended_monotonic_ns, excluded_ns=waited_ns)
        return self._measurement(point, telemetry, allow_uncounted=allow_uncounted)

    def _write_job(self, stimulus: Stimulus) -> tuple[fio.JobFiles, int]:
        """Write the job file of a stimulus; return its files and its seed."""
        self._count += 1
        size = "mixed" if stimulus.block_shares else f"{stimulus.largest_block_bytes}b"
        name = f"{self._count:05d}-{stimulus.access.lower()}-{size}-r{stimulus.read_percent}.fio"
        job, seed = self._evidence / name, seed_for(stimulus, self._seed, self._count)
        text = fio.job_file(
            stimulus, self._path, self._io_engine, seed, refill=self._refill, fixed_buffers=self._fixed_buffers
        )
        return fio.JobFiles(job, text, self._path, self._descriptor, file_set=self._file_set(stimulus)), seed

    def _file_set(self, stimulus: Stimulus) -> tuple[int, ...]:
        """Return the descriptors of the files of a stimulus; none if that is the target."""
        count = stimulus.file_count
        if count == 1:
            return ()
        if self._file_sets is None:
            raise fio.AnswerRejected("host", f"there is no folder for the {count} files of {stimulus.label}")
        return self._file_sets.descriptors(count, stimulus.range_bytes // count)

    def _measurement(
        self, point: PreparedPoint, telemetry: TelemetrySample, *, allow_uncounted: bool = False
    ) -> Measurement:
        """Return the measurement of a fio that has exited; raises fio.AnswerRejected if its answer is invalid."""
        moment, finished = self._require_awake(), point.program.finished
        raw = point.files.answer()
        point.close_files()
        answer = raw.decode("utf-8", "replace")
        checksum = hashlib.sha256(raw).hexdigest()
        try:
            read, write = fio.accept_finished(
                point.stimulus,
                finished,
                answer,
                self._stall_seconds,
                allow_uncounted=allow_uncounted,
                exited_ns=point.exited_ns,
            )
            target = finished.environment.get(fio.TARGET, "")
            uncompared = fio.uncompared_options(point.stimulus)
            fio.require_origin(point.files.text, answer, self.version, target, uncompared)
        except fio.AnswerRejected as refusal:
            refusal.attempt = RejectedAttempt(
                reason=refusal.reason,
                seconds=finished.seconds,
                evidence=point.files.path.stem,
                evidence_sha256=checksum,
            )
            raise
        if point.program.threads_missing:
            raise fio.AnswerRejected("host", "not all of fio's threads completed their I/O")
        if telemetry.block is not None and self._observer.counts_every_byte:
            require_counted(point.stimulus, read, write, telemetry, self._path)
        if self._counted_by_process:
            require_process_bytes(point.stimulus, read, write, finished, self._path, had_holes=point.had_holes)
        program_overhead_ns = overhead_ns(point.stimulus, read, write, finished)
        measurement = Measurement(
            stimulus=point.stimulus,
            seed=point.seed,
            read=read,
            write=write,
            timing=replace(
                _timing(finished, point.gap, max(program_overhead_ns, self._overhead_ns)),
                idle_ios=None if (idle := point.idle_block) is None else idle.read_ios + idle.write_ios,
                idle_bytes=None if idle is None else idle.read_bytes + idle.write_bytes + idle.discarded_bytes,
                clock_set_seconds=round(moment.wall_clock_change_seconds(self._moment), 3),
                engine_restarted=point.engine_restarted,
                thread_spread_ms=_thread_spread_ms(point, read.transferred_bytes + write.transferred_bytes),
            ),
            evidence=point.files.path.stem,
            evidence_sha256=checksum,
            engine_cpu_percent=fio.engine_cpu_percent(answer),
            sync=fio.sync_times(answer) if point.stimulus.options else None,
            telemetry=telemetry,
            uncounted_ios=fio.uncounted_ios(point.stimulus, answer) if allow_uncounted else 0,
            stream_bytes=fio.stream_bytes(point.stimulus, answer),
            engine_messages=fio.unexpected_messages(point.stimulus, finished.stderr),
        )
        self._moment, self._overhead_ns = moment, program_overhead_ns
        return measurement


def side_by_side(engines: Sequence[FioEngine], stimuli: Sequence[Stimulus]) -> tuple[Measurement, ...]:
    """Run one stimulus on each engine's target, all at the same time; raises the first fio.AnswerRejected."""
    with ExitStack() as stack:  # However this ends, no fio keeps running.
        points = []
        for engine, stimulus in zip(engines, stimuli, strict=True):
            engine._child_signals = engines[0]._child_signals  # A process has only one SIGCHLD handler.
            points.append((engine, stack.enter_context(engine._prepare_next(stimulus))))
        for engine, point in points:
            engine._release(point, allow)
        for engine, point in points:
            point.program.wait_for_io_end(engine._timeout_seconds(point.stimulus), engine._on_tick)
        return tuple(
            engine._collect(point, engine._observer.finish(), allow_uncounted=True) for engine, point in points
        )


@contextmanager
def _compressed(path: Path) -> Iterator[gzip.GzipFile]:
    """Create a gzip file."""
    with create(path) as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as compressed:
        yield compressed


def _expected_seconds(stimulus: Stimulus) -> float:
    """Return how long a stimulus takes; infinite if that is not known."""
    return stimulus.ramp_seconds + (stimulus.seconds or 0) if stimulus.ends_by_time else math.inf


def _node(path: str) -> tuple[int, ...]:
    """Return numbers that identify a target's node and its sysfs folder; they change if either is recreated."""
    try:
        status = Path(path).stat()
        sysfs_inode = block_directory(status.st_rdev).stat().st_ino if stat.S_ISBLK(status.st_mode) else 0
    except OSError:
        return ()
    return status.st_dev, status.st_ino, sysfs_inode


def _thread_spread_ms(point: PreparedPoint, transferred_bytes: int) -> float | None:
    """Return the time in ms between the ends of a point's threads; None if an amount may have ended one of them."""
    stimulus, program = point.stimulus, point.program
    limit = math.inf if stimulus.limit_bytes is None else fio.thread_limit(stimulus, stimulus.limit_bytes)
    timed = stimulus.seconds is not None and transferred_bytes < limit
    spread_ns = program.thread_spread_ns if timed and isinstance(program, StagedProgram) else None
    return None if spread_ns is None else spread_ns / 1e6


def _timing(finished: process.Finished, gap: IdleGap, overhead_ns: int) -> Timing:
    """Return when a program ran, and how long the device was idle before it.

    A program's time without I/O is partly before and partly after its I/O; the parts are not known separately.  The
    idle gap contains the end of the previous program and the start of this one, so it adds ``overhead_ns``, the larger
    overhead of the two programs.  The end is longer if the suite itself was stalled and noticed it late.
    """
    gap_ns = None if gap.since_ns is None else finished.started_monotonic_ns - gap.since_ns
    return Timing(
        started=finished.started,
        started_monotonic_ns=finished.started_monotonic_ns,
        ended_monotonic_ns=finished.ended_monotonic_ns,
        suite_gap_us=None if gap_ns is None else (gap_ns - gap.excluded_ns) / 1000,
        idle_gap_ms=None if gap_ns is None else (gap_ns + overhead_ns) / 1e6,
    )
