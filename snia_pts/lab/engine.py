"""The seam behind which I/O is done: real fio here, a simulated device elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import SniaPtsError
from ..measurement import Clocking, Idled, Measurement, Sample, Transfers
from ..steps import Stimulus, Stretch
from . import fio, process
from .clocks import Moment, read_moment
from .device import block_directory
from .evidence import last_number
from .held import HeldProgram
from .point import Pause, Point, Upcoming
from .probe import fio_version
from .sampling import Sampler, Totals
from .telemetry import Observer, observe

if TYPE_CHECKING:
    from ..vitals import Vitals

#: A host that was suspended for so long did something else than the test.
_LONGEST_SUSPENSION_SECONDS = 0.1
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

    def measure(self, stimuli: Sequence[Stimulus], before: Guard = allow) -> Iterator[Measurement]:
        """Run ``stimuli`` one after the other, without a pause, giving each measurement as it comes.

        All of them are known ahead, so that the next can be made ready while one runs; it may run already when a
        measurement is given.  ``before`` is asked right before each, and raises what forbids it.  Raises fio.Refused
        when an answer is not believed.
        """
        ...

    def stretch(self, step: Stretch) -> Iterator[Sample | Measurement]:
        """Run a stretch's stimulus without a break, giving each sample while it runs, and at last the whole.

        There are ``step.samples`` samples, each about ``step.sample_seconds`` long; fewer where a limit ended it, or
        where all I/O stood still over more than one.  Raises fio.Refused when an answer is not believed.
        """
        ...

    def idle(self, seconds: float) -> Idled:
        """Do no I/O on the target, so that it is left alone for ``seconds`` from its last I/O to the next one's."""
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
        tick: process.Tick | None = None,
        clock: Callable[[], Moment] = read_moment,
        observer: Observer | None = None,
    ) -> None:
        """Run on ``path``, keep evidence in the folder ``evidence``, derive every stimulus's seed from ``seed``.

        Evidence that is there already stays: what comes is numbered after it.  That the host is not suspended is looked
        at by ``clock``, from now on: before and after each stimulus, and about once a second.  ``observer`` watches
        drive and host while fio runs, and is left alone while it does not; by default one of the target at ``path``.
        """
        self.io_engine = f"{io_engine}, random buffers {'refilled' if refill else 'scrambled'}"
        self._io_engine = io_engine
        self._refill = refill
        self.version = fio_version(evidence).removeprefix("fio-")
        self._path = path
        self._evidence = evidence
        self._seed = seed
        self._tick = tick
        self._count = last_number(evidence)
        self._pause = Pause()
        self._around_ns = self._lead_ns = 0
        self._ears = process.Ears()
        self._clock = clock
        self._moment = clock()
        self._node = None if observer else _node(path)
        self._observer = observe(path) if observer is None else observer

    def measure(self, stimuli: Sequence[Stimulus], before: Guard = allow) -> Iterator[Measurement]:
        """Run ``stimuli``; see Engine.

        The next fio stands ready before one's end, and is let go as soon as that one's threads say that all their I/O
        has come back.  What that one says of itself is awaited while the next one works.
        """
        self._find_again()
        began = time.monotonic_ns()
        with ExitStack() as left:  # whatever ends this, no fio goes on
            upcoming = Upcoming(map(self._made_ready, stimuli), left)
            if point := upcoming.take():
                self._let_go(point, before)
                self._lead_ns = point.program.began_ns - began
            while point:
                at_work = upcoming.during(point, self._at_work)
                done_ns = point.program.work(fio.timeout_seconds(point.stimulus), at_work)
                vitals, following = self._observer.whole(), upcoming.take() if done_ns else None
                if following and done_ns:
                    self._pause = Pause(since_ns=done_ns)
                    try:
                        self._let_go(following, before)
                    except (SniaPtsError, fio.Refused, OSError) as error:
                        upcoming.trouble = error
                yield self._collected(point, vitals)
                if upcoming.trouble:
                    break
                if not done_ns and (following := upcoming.take()):  # a point that is not believed has none after it
                    self._let_go(following, before)
                point = following
            if upcoming.trouble:
                raise upcoming.trouble

    def stretch(self, step: Stretch) -> Iterator[Sample | Measurement]:
        """Run a stretch; see Engine.  All that fio says meanwhile is kept, compressed, beside its final answer.

        The first sample is short by the time that fio needs to begin, the last one long by it.
        """
        if step.sample_seconds is None:
            yield from self.measure(step.stimuli)
            return
        self._find_again()
        self._require_awake()
        job, seed = self._write_job(step.stimulus)
        answers, sampler = fio.Answers(), Sampler(step.samples)
        program = process.Program(fio.sampling_command(str(job), step.sample_seconds), evidence=job, listen=True)
        point = Point(stimulus=step.stimulus, job=job, seed=seed, program=program, pause=self._pause)
        with gzip.open(job.with_suffix(".samples.json.gz"), "wb", compresslevel=1) as kept, program:
            self._observer.begin()
            for said in program.said(fio.timeout_seconds(step.stimulus), self._at_work):
                kept.write(said)
                for answer in answers.more(said):
                    kept.flush(zlib.Z_SYNC_FLUSH)
                    yield from self._cut(sampler.cut, answer)
        job.with_suffix(".json").write_bytes(answers.last)
        self._pause = Pause(since_ns=program.finished.ended_monotonic_ns)
        whole = self._measurement(point, self._observer.whole())
        self._lead_ns = self._around_ns
        yield from self._cut(sampler.last, answers.last.decode("utf-8", "replace"))
        yield whole

    def idle(self, seconds: float) -> Idled:
        """Leave the device alone; see Engine.

        Counted from where the pause began, and shorter by what the last fio needed that was begun in a pause.
        """
        started, began = datetime.now().astimezone(), time.monotonic_ns()
        since = self._pause.since_ns
        until = (began if since is None else since - self._lead_ns) + round(1e9 * seconds)
        while (left := until - time.monotonic_ns()) > 0:
            time.sleep(min(1.0, left / 1e9))
            self._each_second((time.monotonic_ns() - began) / 1e9, 0)
        idled = time.monotonic_ns() - began
        self._pause.not_ours_ns += idled
        return Idled(started=started.isoformat(timespec="milliseconds"), seconds=idled / 1e9)

    def _find_again(self) -> None:
        """Watch the target anew where it went away, and came back, since it was looked at: an array, or in a purge."""
        if self._node is not None and (node := _node(self._path)) != self._node:
            self._node, self._observer = node, observe(self._path)

    def _at_work(self, seconds: float, written_bytes: int) -> None:
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
            raise fio.Refused("host", f"the host was suspended for {suspended:.1f} s, and the drive with it")
        return moment

    def _cut(self, cut: Callable[[Totals], Iterator[Sample]], answer: str) -> Iterator[Sample]:
        """Give the sample that an answer ends; raises fio.Refused where it does not go with those before."""
        try:
            for sample in cut(fio.totals(answer)):
                yield replace(sample, vitals=self._observer.lap())
        except ValueError as error:
            raise fio.Refused("host", f"fio's samples are not believed: {error}") from error

    def _made_ready(self, stimulus: Stimulus) -> Point:
        """Begin fio for a stimulus, to stand ready before its first I/O."""
        job, seed = self._write_job(stimulus)
        threads = sum(section.jobs for section in fio.sections(stimulus))
        command = fio.command(job, held=True)
        program = HeldProgram(command, threads=threads, evidence=job, ears=self._ears)
        return Point(stimulus=stimulus, job=job, seed=seed, program=program)

    def _let_go(self, point: Point, before: Guard) -> None:
        """Let a point's fio do its I/O.  What is spent in waiting for fio is no pause of ours."""
        self._require_awake()
        before(point.stimulus)
        self._observer.begin()
        began = time.monotonic_ns()
        point.program.begin()
        if point.program.gone:  # it fell before its I/O: once more, as programs usually begin
            point.program.end()
            kept = point.job.with_suffix(".process.json")
            kept.rename(point.job.with_suffix(".fallen.process.json"))  # what it said is not written over
            point.begun_again = True
            point.program = process.Program(fio.command(point.job), evidence=point.job, ears=self._ears)
            point.program.begin()
        self._pause.not_ours_ns += point.program.began_ns - began
        point.pause = replace(self._pause)

    def _collected(self, point: Point, vitals: Vitals) -> Measurement:
        """Wait for the end of a point's fio, which works no more, and return what it measured."""
        program, began = point.program, time.monotonic_ns()
        for _ in program.said(fio.timeout_seconds(point.stimulus)):
            pass
        waited_ns = time.monotonic_ns() - began
        program.end()
        self._pause = Pause(since_ns=program.finished.ended_monotonic_ns, not_ours_ns=waited_ns)
        return self._measurement(point, vitals)

    def _write_job(self, stimulus: Stimulus) -> tuple[Path, int]:
        """Write the job file of a stimulus; return its path, and the seed in it."""
        self._count += 1
        size = "mixed" if stimulus.block_shares else f"{stimulus.largest_block_bytes}b"
        name = f"{self._count:05d}-{stimulus.access.lower()}-{size}-r{stimulus.read_percent}.fio"
        job, seed = self._evidence / name, stimulus_seed(self._seed, self._count)
        text = fio.job_file(stimulus, self._path, self._io_engine, seed, refill=self._refill)
        job.write_text(text, encoding="utf-8")
        return job, seed

    def _measurement(self, point: Point, vitals: Vitals) -> Measurement:
        """Return what a point's fio measured, which has ended; raises fio.Refused when that is not believed."""
        moment, finished = self._require_awake(), point.program.finished
        output = point.job.with_suffix(".json")
        raw = output.read_bytes() if output.exists() else b""
        answer = raw.decode("utf-8", "replace")
        read, write = _accepted(point.stimulus, finished, answer)
        if point.program.fell_short:
            raise fio.Refused("host", "not all of fio's threads did their work")
        around_ns = finished.ended_monotonic_ns - finished.started_monotonic_ns
        around_ns -= max(read.runtime_ms, write.runtime_ms) * 1_000_000 + round(1e9 * point.stimulus.ramp_seconds)
        measurement = Measurement(
            stimulus=point.stimulus,
            seed=point.seed,
            read=read,
            write=write,
            clocking=replace(
                _clocking(finished, point.pause, max(around_ns, self._around_ns)),
                clock_set_seconds=round(moment.set_seconds(self._moment), 3),
                begun_again=point.begun_again,
            ),
            evidence=point.job.stem,
            evidence_sha256=hashlib.sha256(raw).hexdigest(),
            engine_cpu_percent=fio.engine_cpu_percent(answer),
            sync=fio.sync_times(answer) if point.stimulus.options else None,
            vitals=vitals,
        )
        self._moment, self._around_ns = moment, around_ns
        return measurement


def side_by_side(engines: Sequence[FioEngine], stimuli: Sequence[Stimulus]) -> tuple[Measurement, ...]:
    """Run a stimulus on the target of each engine, all at the same time; raises fio.Refused for the first refused."""
    with ExitStack() as left:  # whatever ends this, no fio goes on
        points = []
        for engine, stimulus in zip(engines, stimuli, strict=True):
            engine._ears = engines[0]._ears  # there is one for all, as there is one SIGCHLD
            points.append((engine, left.enter_context(engine._made_ready(stimulus))))
        for engine, point in points:
            engine._let_go(point, allow)
        for engine, point in points:
            point.program.work(fio.timeout_seconds(point.stimulus), engine._at_work)
        return tuple(engine._collected(point, engine._observer.whole()) for engine, point in points)


def _node(path: str) -> tuple[int, ...]:
    """Return what tells a target, and what the kernel has of it, from one that took its place."""
    try:
        status = Path(path).stat()
        kernels = block_directory(status.st_rdev).stat().st_ino if stat.S_ISBLK(status.st_mode) else 0
    except OSError:
        return ()
    return status.st_dev, status.st_ino, kernels


def _accepted(stimulus: Stimulus, finished: process.Finished, answer: str) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus; raises fio.Refused, with what became of fio, when not believed."""
    if finished.stopped_seconds is not None:
        raise fio.Refused("host", f"fio was stopped from outside for about {finished.stopped_seconds:.2g} s")
    try:
        read, write = fio.accept(stimulus, finished.exit_code, finished.timed_out, answer)
    except fio.Refused as refusal:
        said = f"fio said: {finished.complaint}"
        if finished.left_behind is not None:
            said = f"fio hangs in the kernel and was left behind (process {finished.left_behind})"
        raise fio.Refused(refusal.blame, f"{refusal.reason}; {said}", refusal.number) from None
    runtime = max(read.runtime_ms, write.runtime_ms) / 1000
    if runtime > finished.seconds + _ROUNDING_SECONDS:
        raise fio.Refused("host", f"fio tells of {runtime:g} s of I/O, and was there for {finished.seconds:.3g} s")
    return read, write


def stimulus_seed(run_seed: int, number: int) -> int:
    """Return the seed of a run's stimulus: large, its own, and the same whenever the run's seed is the same."""
    digest = hashlib.sha256(f"{run_seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 61


def _clocking(finished: process.Finished, pause: Pause, around_ns: int) -> Clocking:
    """Return when a program ran, and how long the device was idle before.

    Of the time around the I/O of a program its end counts here, and the beginning of the next; which part is which is
    not known, so the longer of both, ``around_ns``, stands for it.  The end is long where the suite stood still and saw
    it late.
    """
    gap_ns = None if pause.since_ns is None else finished.started_monotonic_ns - pause.since_ns
    return Clocking(
        started=finished.started,
        started_monotonic_ns=finished.started_monotonic_ns,
        ended_monotonic_ns=finished.ended_monotonic_ns,
        own_gap_us=None if gap_ns is None else (gap_ns - pause.not_ours_ns) / 1000,
        idle_gap_ms=None if gap_ns is None else (gap_ns + around_ns) / 1e6,
    )
