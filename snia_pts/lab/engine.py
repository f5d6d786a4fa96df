"""The seam behind which I/O is done: real fio here, a simulated device elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ..errors import TargetUnfit, ToolMissing
from ..measurement import Clocking, Idled, Measurement, Sample, Transfers
from ..steps import Stimulus, Stretch
from . import fio, process
from .clocks import Moment, read_moment
from .sampling import Sampler, Totals
from .telemetry import Observer, observe

#: A host that was suspended for so long did something else than the test.
_LONGEST_SUSPENSION_SECONDS = 0.1
#: fio's runtime is in whole ms, and may be rounded.
_ROUNDING_SECONDS = 0.01
#: The fio I/O engines a run may choose, in order of preference.
IO_ENGINES: tuple[fio.IoEngine, ...] = ("io_uring", "libaio")


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

    def measure(self, stimuli: Sequence[Stimulus]) -> Iterator[Measurement]:
        """Run ``stimuli`` one after the other, without a pause, giving each measurement as it comes.

        All of them are known ahead, so that the next can be made ready while one runs.  Raises fio.Refused when an
        answer is not believed.
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
        self._ended_ns: int | None = None
        self._around_ns = self._idled_ns = 0
        self._clock = clock
        self._moment = clock()
        self._observer = observe(path) if observer is None else observer

    def measure(self, stimuli: Sequence[Stimulus]) -> Iterator[Measurement]:
        """Run ``stimuli``; see Engine."""
        ready: list[tuple[Path, int, process.Program]] = []
        self._make_ready(ready, stimuli[:1])
        try:
            for position, stimulus in enumerate(stimuli):
                self._require_awake()
                job, seed, program = ready.pop()
                with program:
                    self._observer.begin()  # fio starts meanwhile: no pause of the drive is longer for it
                    self._make_ready(ready, stimuli[position + 1 : position + 2])
                    for _ in program.said(fio.timeout_seconds(stimulus), self._at_work):
                        pass
                yield self._measurement(stimulus, seed, job, program.finished)
        finally:
            for _, _, left in ready:
                left.dismiss()

    def stretch(self, step: Stretch) -> Iterator[Sample | Measurement]:
        """Run a stretch; see Engine.  All that fio says meanwhile is kept, compressed, beside its final answer.

        The first sample is short by the time that fio needs to begin, the last one long by it.
        """
        if step.sample_seconds is None:
            yield from self.measure(step.stimuli)
            return
        self._require_awake()
        job, seed = self._write_job(step.stimulus)
        answers, sampler = fio.Answers(), Sampler(step.samples)
        command = fio.sampling_command(str(job), step.sample_seconds)
        with (
            gzip.open(job.with_suffix(".samples.json.gz"), "wb", compresslevel=1) as kept,
            process.Program(command, evidence=job, listen=True) as program,
        ):
            self._observer.begin()
            for said in program.said(fio.timeout_seconds(step.stimulus), self._at_work):
                kept.write(said)
                for answer in answers.more(said):
                    kept.flush(zlib.Z_SYNC_FLUSH)
                    yield from self._cut(sampler.cut, answer)
        job.with_suffix(".json").write_bytes(answers.last)
        whole = self._measurement(step.stimulus, seed, job, program.finished)
        yield from self._cut(sampler.last, answers.last.decode("utf-8", "replace"))
        yield whole

    def idle(self, seconds: float) -> Idled:
        """Leave the device alone; see Engine.

        Counted from the end of the fio before, and shorter by what the last one spent around its I/O: it stands for the
        time from the last I/O to fio's end before, and from fio's start to the first I/O after.
        """
        started, began = datetime.now().astimezone(), time.monotonic_ns()
        until = (began if self._ended_ns is None else self._ended_ns - self._around_ns) + round(1e9 * seconds)
        while (left := until - time.monotonic_ns()) > 0:
            time.sleep(min(1.0, left / 1e9))
            self._each_second((time.monotonic_ns() - began) / 1e9, 0)
        idled = time.monotonic_ns() - began
        self._idled_ns += idled
        return Idled(started=started.isoformat(timespec="milliseconds"), seconds=idled / 1e9)

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

    def _make_ready(self, ready: list[tuple[Path, int, process.Program]], coming: Sequence[Stimulus]) -> None:
        """Prepare fio for the ``coming`` stimuli; done while the one before runs."""
        for stimulus in coming:
            job, seed = self._write_job(stimulus)
            command = fio.command(str(job), str(job.with_suffix(".json")))
            ready.append((job, seed, process.Program(command, evidence=job)))

    def _write_job(self, stimulus: Stimulus) -> tuple[Path, int]:
        """Write the job file of a stimulus; return its path, and the seed in it."""
        self._count += 1
        size = "mixed" if stimulus.block_shares else f"{stimulus.largest_block_bytes}b"
        name = f"{self._count:05d}-{stimulus.access.lower()}-{size}-r{stimulus.read_percent}.fio"
        job, seed = self._evidence / name, stimulus_seed(self._seed, self._count)
        text = fio.job_file(stimulus, self._path, self._io_engine, seed, refill=self._refill)
        job.write_text(text, encoding="utf-8")
        return job, seed

    def _measurement(self, stimulus: Stimulus, seed: int, job: Path, finished: process.Finished) -> Measurement:
        vitals = self._observer.whole()
        moment = self._require_awake()
        output = job.with_suffix(".json")
        raw = output.read_bytes() if output.exists() else b""
        answer = raw.decode("utf-8", "replace")
        read, write = _accepted(stimulus, finished, answer)
        runtime_ms = max(read.runtime_ms, write.runtime_ms)
        measurement = Measurement(
            stimulus=stimulus,
            seed=seed,
            read=read,
            write=write,
            clocking=replace(
                _clocking(finished, runtime_ms, self._ended_ns, self._around_ns, self._idled_ns),
                clock_set_seconds=round(moment.set_seconds(self._moment), 3),
            ),
            evidence=job.stem,
            evidence_sha256=hashlib.sha256(raw).hexdigest(),
            engine_cpu_percent=fio.engine_cpu_percent(answer),
            vitals=vitals,
        )
        self._ended_ns, self._idled_ns, self._moment = finished.ended_monotonic_ns, 0, moment
        self._around_ns = finished.ended_monotonic_ns - finished.started_monotonic_ns - runtime_ms * 1_000_000
        return measurement


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


def last_number(evidence: Path) -> int:
    """Return the highest number that a file in the folder ``evidence`` begins with; 0 where there is none."""
    return max((int(path.name[:5]) for path in evidence.iterdir() if re.match(r"[0-9]{5}-", path.name)), default=0)


def looked_up(evidence: Path, name: str) -> Path:
    """Return the place of what is looked up before a run begins, or goes on: what was looked up before it stays."""
    return evidence / f"{last_number(evidence):05d}-{name}"


def stimulus_seed(run_seed: int, number: int) -> int:
    """Return the seed of a run's stimulus: large, its own, and the same whenever the run's seed is the same."""
    digest = hashlib.sha256(f"{run_seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 61


def fio_version(evidence: Path) -> str:
    """Return fio's version; raises ToolMissing where there is none, or one too old."""
    finished = process.run(["fio", "--version"], evidence=looked_up(evidence, "fio-version"), timeout_seconds=30)
    version = finished.stdout.strip()
    if fio.parse_version(version) < fio.OLDEST:
        needed = ".".join(map(str, fio.OLDEST))
        raise ToolMissing(
            program=f"fio {needed} or newer (found: {(version or finished.complaint)[:80]})", package="fio",
        )  # fmt: skip
    return version


def choose_io_engine(path: str, sector_bytes: int, evidence: Path, wanted: Sequence[fio.IoEngine]) -> fio.IoEngine:
    """Return the first of ``wanted`` that reads the target with direct I/O.  Reads only.

    Raises TargetUnfit, with fio's own words, when none does.
    """
    complaints = []
    for io_engine in wanted:
        probe = Stimulus(
            access="RND", read_percent=100, block_size_bytes=max(4096, sector_bytes), thread_count=1, queue_depth=1,
            range_offset_bytes=0, range_bytes=max(4096, sector_bytes), seconds=0.05,
        )  # fmt: skip
        job = looked_up(evidence, f"probe-{io_engine}.fio")
        job.write_text(fio.job_file(probe, path, io_engine, 1 << 61), encoding="utf-8")
        output = job.with_suffix(".json")
        finished = process.run(fio.command(str(job), str(output)), evidence=job, timeout_seconds=60)
        try:
            text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            fio.accept(probe, finished.exit_code, finished.timed_out, text)
        except fio.Refused as refusal:
            complaints.append(f"{io_engine}: {refusal.reason} ({finished.complaint})")
        else:
            return io_engine
    raise TargetUnfit(
        path=path,
        reason="fio cannot read it with direct I/O: " + "; ".join(complaints),
        hint="A file must lie on a file system with O_DIRECT (not tmpfs before Linux 6.6); try --engine libaio.",
    )


def _clocking(
    finished: process.Finished, runtime_ms: int, before_ns: int | None, around_before_ns: int, idled_ns: int
) -> Clocking:
    """``before_ns`` is when the program before ended, ``idled_ns`` how long idle was asked for since.

    Of the time around the I/O of a program its end counts here, and the beginning of the next; which part is which is
    not known, so the longer of both stands for it.  The end is long where the suite stood still and saw it late.
    """
    gap_ns = None if before_ns is None else finished.started_monotonic_ns - before_ns
    around_ns = finished.ended_monotonic_ns - finished.started_monotonic_ns - runtime_ms * 1_000_000
    return Clocking(
        started=finished.started,
        started_monotonic_ns=finished.started_monotonic_ns,
        ended_monotonic_ns=finished.ended_monotonic_ns,
        own_gap_us=None if gap_ns is None else (gap_ns - idled_ns) / 1000,
        idle_gap_ms=None if gap_ns is None else (gap_ns + max(around_ns, around_before_ns)) / 1e6,
    )
