"""The seam behind which I/O is done: real fio here, a simulated device elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from ..errors import TargetUnfit, ToolMissing
from ..measurement import Clocking, Idled, Measurement, Sample
from ..steps import Stimulus, Stretch
from . import fio, process
from .sampling import Sampler, Totals

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
    ) -> None:
        """Run on ``path``, keep evidence in the folder ``evidence``, derive every stimulus's seed from ``seed``."""
        self.io_engine = f"{io_engine}, random buffers {'refilled' if refill else 'scrambled'}"
        self._io_engine = io_engine
        self._refill = refill
        self.version = fio_version(evidence).removeprefix("fio-")
        self._path = path
        self._evidence = evidence
        self._seed = seed
        self._tick = tick
        self._count = 0
        self._ended_ns: int | None = None
        self._around_ns = self._idled_ns = 0

    def measure(self, stimuli: Sequence[Stimulus]) -> Iterator[Measurement]:
        """Run ``stimuli``; see Engine."""
        ready: list[tuple[Path, int]] = []
        self._make_ready(ready, stimuli[:1])
        for position, stimulus in enumerate(stimuli):
            job, seed = ready.pop()
            finished = process.run(
                fio.command(str(job), str(job.with_suffix(".json"))),
                evidence=job,
                timeout_seconds=fio.timeout_seconds(stimulus),
                started=partial(self._make_ready, ready, stimuli[position + 1 : position + 2]),
                tick=self._tick,
            )
            yield self._measurement(stimulus, seed, job, finished)

    def stretch(self, step: Stretch) -> Iterator[Sample | Measurement]:
        """Run a stretch; see Engine.  All that fio says meanwhile is kept, compressed, beside its final answer.

        The first sample is short by the time that fio needs to begin, the last one long by it.
        """
        if step.sample_seconds is None:
            yield from self.measure(step.stimuli)
            return
        ready: list[tuple[Path, int]] = []
        self._make_ready(ready, step.stimuli)
        ((job, seed),) = ready
        answers, sampler = fio.Answers(), Sampler(step.samples)
        command = fio.sampling_command(str(job), step.sample_seconds)
        with (
            gzip.open(job.with_suffix(".samples.json.gz"), "wb", compresslevel=1) as kept,
            process.running(command, evidence=job, listen=True) as program,
        ):
            for said in program.said(fio.timeout_seconds(step.stimulus), self._tick):
                kept.write(said)
                for answer in answers.more(said):
                    kept.flush(zlib.Z_SYNC_FLUSH)
                    yield from _cut(sampler.cut, answer)
        job.with_suffix(".json").write_bytes(answers.last)
        whole = self._measurement(step.stimulus, seed, job, program.finished)
        yield from _cut(sampler.last, answers.last.decode("utf-8", "replace"))
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
            if self._tick is not None:
                self._tick((time.monotonic_ns() - began) / 1e9, 0)
        idled = time.monotonic_ns() - began
        self._idled_ns += idled
        return Idled(started=started.isoformat(timespec="milliseconds"), seconds=idled / 1e9)

    def _make_ready(self, ready: list[tuple[Path, int]], coming: Sequence[Stimulus]) -> None:
        """Write the job files of the ``coming`` stimuli; done while the one before runs."""
        for stimulus in coming:
            self._count += 1
            size = "mixed" if stimulus.block_shares else f"{stimulus.largest_block_bytes}b"
            name = f"{self._count:05d}-{stimulus.access.lower()}-{size}-r{stimulus.read_percent}.fio"
            job, seed = self._evidence / name, stimulus_seed(self._seed, self._count)
            text = fio.job_file(stimulus, self._path, self._io_engine, seed, refill=self._refill)
            job.write_text(text, encoding="utf-8")
            ready.append((job, seed))

    def _measurement(self, stimulus: Stimulus, seed: int, job: Path, finished: process.Finished) -> Measurement:
        output = job.with_suffix(".json")
        raw = output.read_bytes() if output.exists() else b""
        try:
            read, write = fio.accept(stimulus, finished.exit_code, finished.timed_out, raw.decode("utf-8", "replace"))
        except fio.Refused as refusal:
            raise fio.Refused(refusal.blame, f"{refusal.reason}; fio said: {finished.complaint}") from None
        runtime_ms = max(read.runtime_ms, write.runtime_ms)
        measurement = Measurement(
            stimulus=stimulus,
            seed=seed,
            read=read,
            write=write,
            clocking=_clocking(finished, runtime_ms, self._ended_ns, self._idled_ns),
            evidence=job.stem,
            evidence_sha256=hashlib.sha256(raw).hexdigest(),
            host_cpu_percent=finished.host_cpu_percent,
        )
        self._ended_ns, self._idled_ns = finished.ended_monotonic_ns, 0
        self._around_ns = finished.ended_monotonic_ns - finished.started_monotonic_ns - runtime_ms * 1_000_000
        return measurement


def _cut(cut: Callable[[Totals], Iterator[Sample]], answer: str) -> Iterator[Sample]:
    """Give the sample that an answer ends; raises fio.Refused where it does not go with those before."""
    try:
        yield from cut(fio.totals(answer))
    except ValueError as error:
        raise fio.Refused("host", f"fio's samples are not believed: {error}") from error


def stimulus_seed(run_seed: int, number: int) -> int:
    """Return the seed of a run's stimulus: large, its own, and the same whenever the run's seed is the same."""
    digest = hashlib.sha256(f"{run_seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 61


def fio_version(evidence: Path) -> str:
    """Return fio's version; raises ToolMissing where there is none, or one too old."""
    finished = process.run(["fio", "--version"], evidence=evidence / "00000-fio-version", timeout_seconds=30)
    version = finished.stdout.strip()
    if fio.parse_version(version) < fio.OLDEST:
        needed = ".".join(map(str, fio.OLDEST))
        raise ToolMissing(
            program=f"fio {needed} or newer (found: {version or finished.complaint})", package="fio",
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
        job = evidence / f"00000-probe-{io_engine}.fio"
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


def _clocking(finished: process.Finished, runtime_ms: int, before_ns: int | None, idled_ns: int) -> Clocking:
    """``before_ns`` is when the program before ended, ``idled_ns`` how long idle was asked for since."""
    gap_ns = None if before_ns is None else finished.started_monotonic_ns - before_ns
    return Clocking(
        started=finished.started,
        started_monotonic_ns=finished.started_monotonic_ns,
        ended_monotonic_ns=finished.ended_monotonic_ns,
        own_gap_us=None if gap_ns is None else (gap_ns - idled_ns) / 1000,
        idle_gap_ms=None if gap_ns is None else gap_ns / 1e6 + 1000 * finished.seconds - runtime_ms,
    )
