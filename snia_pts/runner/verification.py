"""Compares the numbers in a journal with the evidence from which they were read, by reading it again.

A digest proves that a file is unchanged; only this check proves that a number is the one in the file.  Each answer
repeats the seed of its point, which is derived from the seed of the run and the number of the evidence.  So an answer
belongs to one point of one run, and a missing point leaves a gap in the numbers.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import shlex
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from .. import __version__, registries
from ..errors import RecordError, TargetUnfit
from ..files import open_regular, read_regular
from ..lab import fio
from ..lab.device.fio_name import set_names
from ..lab.evidence import number_of
from ..lab.fio.kernel_counters import counts_device_io, require_process_bytes
from ..lab.fio.point import overhead_ns
from ..lab.fio.probe import IO_ENGINES, describe_io_engine
from ..lab.fio.sampling import Sampler
from ..lab.fio.seeds import seed_for, stimulus_seed
from ..lab.process.program import Finished
from ..lab.purge import METHODS, NONE, NOT_PROVEN, is_command_of
from ..lab.simulated.evidence import read_transfers
from ..model.measurement import Measurement, Outcome, PurgeOutcome, Sample, Transfers
from ..model.steps import ContinuousStimulus, Step, progress_label
from ..record.evidence import EvidenceCheck, check_files
from ..record.folder import RunFolder
from ..record.journal_reader import JournalReader
from ..record.replay import field_differences
from ..results.imported import Imported
from ..results.result import RunFacts, TestResult
from ..results.target_deviations import target_deviations
from ..spec import Deviation
from ..spec.reader import spec_deviations
from .plugins import plugin_deviations

#: Maximum number of differences in a message.
_MAX_LISTED = 5
#: Larger than any answer of fio, which has at most a few thousand bins.
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
#: Evidence of a stimulus, not of a purge or of the preparation.
_STIMULUS_EVIDENCE = re.compile(r"[0-9]{5,9}-(rnd|seq)")
#: Tolerance of times.
_TOLERANCE_MS = 1000
#: Added to a time that has no upper limit; longer than any stimulus.
_UNLIMITED_NS = 1 << 62
#: Fields of a measurement's timing that are copied from process.json.
_RECORDED_TIMES = ("started", "started_monotonic_ns", "ended_monotonic_ns")
#: Titles of the purge methods that are deviations.
_NON_STANDARD = {NONE, *(method.title for method in METHODS.values() if not method.standard)}
#: Maximum number of unmeasured points with evidence at the end of a run: the current and the next one.
_MAX_UNMEASURED_POINTS = 2


def check_evidence(folder: RunFolder, result: TestResult) -> EvidenceCheck:
    """Compare evidence/ with the journal of ``result``: all files, then all numbers.

    Numbers are compared only if no file differs, because an altered file proves nothing.  Raises RecordError.
    """
    check = check_files(folder, result)
    if check.differences:
        return check
    files = (*result.evidence, *check.unjournaled)
    return replace(check, differences=tuple(_differences(folder, result, files)))


def require_evidence(folder: RunFolder, result: TestResult) -> None:
    """Raise RecordError if evidence and journal differ."""
    differences = check_evidence(folder, result).differences
    if differences:
        more = f"; and {len(differences) - _MAX_LISTED} more" if len(differences) > _MAX_LISTED else ""
        raise RecordError(
            path=folder.path,
            reason=f"its evidence differs from its journal: {'; '.join(differences[:_MAX_LISTED])}{more}",
            hint="Restore the run folder from a backup. snia-pts assess lists all differences; nothing was written.",
        )


def _differences(folder: RunFolder, result: TestResult, files: Collection[str]) -> Iterator[str]:
    recorded = JournalReader(folder.journal)
    if recorded.facts.imported is not None:
        yield from _imported_differences(folder, recorded, recorded.facts.imported)
        return
    yield from _missing_deviations(recorded.facts)
    yield from _short_duration(result)
    verification = _Verification(folder.evidence, result)
    if files:
        yield from _report_unreadable("fio", verification.check_version())
    for step, outcomes in recorded.steps():
        yield from _report_unreadable(step.label, verification.check_step(step, outcomes))
    yield from verification.find_gaps(recorded, files)


def _report_unreadable(label: str, differences: Iterator[str]) -> Iterator[str]:
    """Yield ``differences``, and a message if the evidence cannot be read."""
    try:
        yield from differences
    except (
        fio.AnswerRejected,
        TargetUnfit,
        LookupError,
        TypeError,
        ValueError,
        OSError,
        EOFError,
        zlib.error,
    ) as error:
        yield f"{label}: cannot read its evidence again: {error}"


def _missing_deviations(facts: RunFacts) -> Iterator[str]:
    """Yield a message for each deviation of the specification or target that ``facts`` omit or list otherwise."""
    same_version = _is_of_this_version(facts)  # another version may word its deviations differently
    deviations = (*spec_deviations(facts.spec, facts.test_class), *target_deviations(facts.dut, facts.spec))
    if facts.options:
        deviations += plugin_deviations(facts.options.purge, facts.plugins)
    for deviation in deviations:
        listed = [entry for entry in facts.deviations if entry.what == deviation.what]
        if any(_without_order(entry) == _without_order(deviation) for entry in listed) or (listed and not same_version):
            continue
        expected = f"{deviation.what}: {deviation.actual}; the standard: {deviation.standard}"
        got = "; ".join(f"{entry.actual}; the standard: {entry.standard}" for entry in listed)
        yield f"the journal does not list this deviation: {expected}{f' (got {got})' if got else ''}"


def _is_of_this_version(facts: RunFacts) -> bool:
    """Return whether this version of the suite made the run; others may write job files and texts differently."""
    return facts.platform.suite_version == __version__


def _without_order(deviation: Deviation) -> tuple[str, ...]:
    """Return a deviation with the words of each value sorted.

    So the order of keys in an option's table does not affect the comparison.
    """
    words = (sorted(re.findall(r"[^\s,()]+", value)) for value in (deviation.standard, deviation.actual))
    return (deviation.what, *map(" ".join, words), deviation.clause)


class _Verification:
    """Compares the steps of a run that this suite measured, in their order."""

    def __init__(self, evidence: Path, result: TestResult) -> None:
        self._evidence, self._simulated = evidence, result.facts.dut.simulated
        self._facts, self._interruptions = result.facts, result.interruptions
        self._run_seed = result.facts.seed or 0
        self._ended_early = result.ending != "finished"
        self._evidence_numbers, self._digests = set[int](), set[str]()
        self._last_evidence_number = self._rejected = 0
        self._previous: Measurement | None = None
        #: Measurements of continuous stimuli.  Their samples are in evidence/NAME.samples.json.gz, where NAME is the
        #: measurement's evidence name.
        self._measurements = {(line.phase, line.part): iter(line.measurements) for line in result.time_lines}

    def check_version(self) -> Iterator[str]:
        """Yield a message if the journal's version of fio differs from the version that fio printed at the start."""
        if not self._simulated:
            version = str(self._process_record("00000-fio-version")["stdout"]).strip().removeprefix("fio-")
            if version != self._facts.platform.engine_version:
                yield f"the journal says fio {self._facts.platform.engine_version}, its evidence fio {version}"

    def check_step(self, step: Step, outcomes: Iterator[Outcome]) -> Iterator[str]:
        """Yield a message for each outcome whose numbers differ from its evidence.

        Raises an error that ``_report_unreadable`` handles if the evidence cannot be read.
        """
        measurement = (
            next(self._measurements[step.phase, step.part], None) if isinstance(step, ContinuousStimulus) else None
        )
        samples = self._samples(step, measurement) if isinstance(step, ContinuousStimulus) and measurement else iter(())
        for position, outcome in enumerate(outcomes):
            label = progress_label(step, position)
            if isinstance(outcome, Measurement):
                if next(samples, None) is not None:
                    yield f"{label}: the evidence has more samples than the journal"
                yield from self._check_names(label, outcome)
                yield from self._check_numbers(label, outcome)
            elif isinstance(outcome, Sample) and measurement and not self._simulated:
                journaled = replace(outcome, interruptions=0, telemetry=None)
                yield from _outcome_differences(label, journaled, next(samples, None))
            elif isinstance(outcome, PurgeOutcome):
                yield from self._check_purge(label, outcome)

    def _check_purge(self, label: str, purge: PurgeOutcome) -> Iterator[str]:
        """Yield a message for each contradiction in a purge, and for each command that is not of the purge method.

        Each member of an array has a program.  If a deviation records that the purge failed, its programs may be
        missing.
        """
        array = self._facts.dut.array
        titles = purge.method.partition(", each of ")[0].split(" / ") if array else [purge.method]
        deviations = [deviation.actual for deviation in purge.deviations if deviation.what == "purge"]
        if not deviations and not _NON_STANDARD.isdisjoint(titles):
            yield f"{label}: the journal does not list this deviation: purge: {purge.method}"
        failed = any(NOT_PROVEN in deviation for deviation in deviations)
        incomplete = failed or NONE in titles
        unproven = purge.survivors > 0 or not (purge.samples or incomplete)
        # An array has no samples if one of its members has none.
        impossible = purge.survivors > purge.samples and not (array and not purge.samples)
        if impossible or (unproven and not failed):
            yield (
                f"{label}: the proof of the purge contradicts itself: {purge.survivors} of {purge.samples} blocks "
                f"survived, and {'a' if failed else 'no'} deviation says {NOT_PROVEN}"
            )
        if self._simulated or purge.method == NONE or self._purge_plugin_is_missing:
            return
        members = range(1, len(array.members) + 1) if array else ()
        for name in [f"{purge.evidence}-member{number}" for number in members] or [purge.evidence]:
            if not incomplete or (self._evidence / f"{name}.process.json").exists():
                argv = self._process_record(name)["argv"]
                if not any(is_command_of(title, argv) for title in titles):
                    yield f"{label}: expected a command of {purge.method}, got {' '.join(argv)} (evidence/{name})"

    @property
    def _purge_plugin_is_missing(self) -> bool:
        """Whether a plugin that is not loaded provides the purge method, so that its command cannot be checked."""
        purge = self._facts.options.purge if self._facts.options else ""
        part, plugins = f"purge method {purge}", self._facts.plugins
        return purge not in registries.PURGE_METHODS and any(part in plugin.parts for plugin in plugins)

    def _process_record(self, name: str) -> Mapping[str, Any]:
        """Return the content of a program's process.json."""
        record = json.loads(read_regular(self._evidence / f"{name}.process.json", _MAX_ANSWER_BYTES))
        return dict(record)

    def _samples(self, step: ContinuousStimulus, measurement: Measurement) -> Iterator[Sample]:
        """Read the samples of a continuous stimulus again; see FioEngine.

        Running totals are not compared with the wall clock again, because changes of the clock are not stored.
        """
        if self._simulated or not step.samples:
            return
        answers, sampler = fio.StatusStream(), Sampler(step.samples)
        with (
            open_regular(self._evidence / f"{measurement.evidence}.samples.json.gz") as file,
            gzip.GzipFile(fileobj=file) as stream,
        ):
            while chunk := stream.read(_CHUNK_BYTES):
                for answer in answers.feed(chunk):
                    yield from sampler.add(fio.read_totals(answer)[0])
        yield from sampler.finish(fio.read_totals(answers.last_answer.decode("utf-8", "replace"))[0])

    def find_gaps(self, recorded: JournalReader, files: Collection[str]) -> Iterator[str]:
        """Yield a message if evidence numbers have no measurement.

        Call this after all steps are checked.  ``files`` are the names in evidence/.

        Evidence numbers have no gaps, with these exceptions: each interruption and each rejected attempt may leave
        unmeasured points; the preparation of a resume and the purges of a simulated drive use numbers, too.
        """
        for measurement in recorded.discarded:
            self._count(measurement)
        interruptions = len(recorded.interruptions) + self._ended_early
        numbers = self._evidence_numbers.copy()
        if self._simulated or interruptions:
            numbers |= {number_of(name) or 0 for name in files if not _STIMULUS_EVIDENCE.match(name)}
        last = max((number_of(name) or 0 for name in files), default=0)
        without = sorted(set(range(1, max(last, self._last_evidence_number) + 1)) - numbers)
        if len(without) > _MAX_UNMEASURED_POINTS * interruptions + self._rejected:
            more = ", ..." if len(without) > _MAX_LISTED else ""
            numbers_text = ", ".join(map(str, without[:_MAX_LISTED]))
            yield f"the journal has no measurement for evidence number {numbers_text}{more}"

    def _count(self, measurement: Measurement) -> None:
        self._evidence_numbers |= {number_of(name) or 0 for name in _evidence_names(measurement)}
        self._rejected += len(measurement.rejected)

    def _check_names(self, label: str, measurement: Measurement) -> Iterator[str]:
        """Yield a message if evidence numbers do not rise, or if fio's answer is the same as for an earlier point."""
        self._count(measurement)
        for name in _evidence_names(measurement):
            number = number_of(name)
            if number is None or number <= self._last_evidence_number:
                last = self._last_evidence_number
                yield f"{label}: evidence/{name} does not follow the previous evidence number {last}"
            else:
                self._last_evidence_number = number
        if measurement.evidence_sha256 in self._digests and not self._simulated:
            yield f"{label}: evidence/{measurement.evidence}.json is identical to the answer of another point"
        self._digests.add(measurement.evidence_sha256)

    def _check_numbers(self, label: str, measurement: Measurement) -> Iterator[str]:
        previous, self._previous = self._previous, None  # unknown if the evidence cannot be read
        path = self._evidence / f"{measurement.evidence}.json"
        answer = read_regular(path, _MAX_ANSWER_BYTES).decode("utf-8", "replace")
        stimulus, number = measurement.stimulus, number_of(measurement.evidence) or 0
        if self._simulated:
            read, write = read_transfers(answer)
            reread = replace(measurement, read=read, write=write, seed=stimulus_seed(self._run_seed, number))
        else:
            job = read_regular(path.with_suffix(".fio"), _MAX_ANSWER_BYTES).decode("utf-8", "replace")
            same = _is_of_this_version(self._facts)
            if not same and f"\nrandseed={measurement.seed}\n" not in job:
                raise ValueError(f"evidence/{measurement.evidence}.fio does not have the seed of this point")
            for difference in fio.job_differences(self._job_file(measurement), job, only_common=not same):
                yield f"{label}: evidence/{measurement.evidence}.fio is the job of another stimulus: {difference}"
            record = self._process_record(measurement.evidence)
            yield from self._check_target(label, measurement, record)
            if same:
                yield from self._check_command(label, measurement, record)
            version = self._fact("engine version", self._facts.platform.engine_version, measurement)
            fio.require_origin(job, answer, version, uncompared=fio.uncompared_options(stimulus) | {"filename"})
            read, write = self._accept(measurement, record, answer)
            reread = replace(
                measurement,
                read=read,
                write=write,
                seed=seed_for(stimulus, self._run_seed, number),
                engine_cpu_percent=fio.engine_cpu_percent(answer),
                sync=fio.sync_times(answer) if stimulus.options else None,
                uncounted_ios=fio.uncounted_ios(stimulus, answer),
                stream_bytes=fio.stream_bytes(stimulus, answer),
                engine_messages=fio.unexpected_messages(stimulus, str(record["stderr"])),
                timing=replace(measurement.timing, **{name: record[name] for name in _RECORDED_TIMES}),
            )
            yield from _gap_difference(label, previous, measurement)
            self._previous = measurement
        yield from _outcome_differences(f"{label}, {stimulus.label} (evidence/{path.name})", measurement, reread)

    def _accept(self, measurement: Measurement, record: Mapping[str, Any], answer: str) -> tuple[Transfers, Transfers]:
        """Return the reads and writes in an answer; raises fio.AnswerRejected if the ``record`` of fio contradicts it.

        When fio reports samples, it may count its runtime until its process exits.  The record has no exit time, so the
        runtime has no upper limit here.
        """
        finished = Finished(**{field.name: record[field.name] for field in fields(Finished) if field.name in record})
        exited_ns = finished.ended_monotonic_ns + _UNLIMITED_NS * self._is_sampled(measurement)
        read, write = fio.accept_finished(
            measurement.stimulus, finished, answer, math.inf, allow_uncounted=True, exited_ns=exited_ns
        )
        if self._facts.dut.kind != "file" and counts_device_io(self._facts.platform.kernel):
            require_process_bytes(measurement.stimulus, read, write, finished, self._path(measurement))
        return read, write

    def _job_file(self, measurement: Measurement) -> str:
        """Return the job file that follows from the journal's entry of a measurement.

        Raises ValueError or fio.AnswerRejected.
        """
        described = self._fact("io engine", self._facts.platform.io_engine, measurement)
        for io_engine, refill, fixed_buffers in product(IO_ENGINES, (False, True), (False, True)):
            if describe_io_engine(io_engine, refill=refill, fixed_buffers=fixed_buffers) == described:
                return fio.job_file(
                    measurement.stimulus,
                    self._path(measurement),
                    io_engine,
                    measurement.seed,
                    refill=refill,
                    fixed_buffers=fixed_buffers,
                )
        raise ValueError(f"the journal's I/O engine is unknown: {described}")

    def _check_target(self, label: str, measurement: Measurement, record: Mapping[str, Any]) -> Iterator[str]:
        """Yield a message if fio's target was not the expected one."""
        names = set_names(self._path(measurement), measurement.stimulus.file_count)
        expected = names[0] if len(names) == 1 else ":".join(f"{{{name}}}" for name in names)
        name = record["environment"][fio.TARGET]
        members = name.split(":") if len(names) > 1 else [name]
        if (target := ":".join(record["descriptors"].get(member, member) for member in members)) != expected:
            yield f"{label}: evidence/{measurement.evidence}.process.json: expected target {expected}, got {target}"

    def _check_command(self, label: str, measurement: Measurement, record: Mapping[str, Any]) -> Iterator[str]:
        """Yield a message if fio's command differs from the expected one.

        The folder of the job file is ignored, because the run folder may have been moved.
        """
        actual, name = tuple(map(str, record["argv"])), f"{measurement.evidence}.fio"
        staged, sampled = not measurement.timing.engine_restarted, self._is_sampled(measurement)
        expected = fio.command(Path(actual[-1]).with_name(name), staged=staged, sampled=sampled)
        if actual != expected:
            commands = f"expected {shlex.join(expected)}, got {shlex.join(actual)}"
            yield f"{label}: evidence/{measurement.evidence}.process.json: {commands}"

    def _is_sampled(self, measurement: Measurement) -> bool:
        return (self._evidence / f"{measurement.evidence}.samples.json.gz").exists()

    def _path(self, measurement: Measurement) -> str:
        """Return the target's path at the time of a measurement.

        A resume may change the path of a drive; the path of an array never changes.
        """
        return self._fact("path of the drive", self._facts.dut.path, measurement)

    def _fact(self, name: str, initial: str, measurement: Measurement) -> str:
        """Return the value that a fact had when a measurement was made.

        If it differed from ``initial``, the last interruption before the measurement lists the change.
        """
        for interruption in self._interruptions[: measurement.timing.interruptions][-1:]:
            for change in interruption.changes:
                if change.startswith(f"{name}: "):
                    return change.removeprefix(f"{name}: ").removesuffix(f", was {initial}")
        return initial


def _overhead_ns(measurement: Measurement) -> int:
    return overhead_ns(measurement.stimulus, measurement.read, measurement.write, measurement.timing)


def _gap_difference(label: str, previous: Measurement | None, measurement: Measurement) -> Iterator[str]:
    """Yield a message if the idle gap differs from the times of this and the previous program.

    The gap is not checked after a rejected attempt or an interruption, because the previous program is then another one
    or unknown.
    """
    timing = measurement.timing
    if previous is None or measurement.rejected or previous.timing.interruptions != timing.interruptions:
        return
    between_ns = timing.started_monotonic_ns - previous.timing.ended_monotonic_ns
    longest_ns = between_ns + 2 * _overhead_ns(previous) + _overhead_ns(measurement)
    gap_ms = timing.idle_gap_ms
    if gap_ms is None or not between_ns / 1e6 - _TOLERANCE_MS <= gap_ms <= longest_ns / 1e6 + _TOLERANCE_MS:
        got = "none" if gap_ms is None else f"{gap_ms:.0f} ms"
        yield f"{label}: idle gap: expected {between_ns / 1e6:.0f} to {longest_ns / 1e6:.0f} ms, got {got}"


def _short_duration(result: TestResult) -> Iterator[str]:
    """Yield a message if a run is shorter than the sum of its measurements.

    A run with interruptions is not checked, because the clock may have been set during an interruption.
    """
    if result.interruptions:
        return
    try:
        run = datetime.fromisoformat(result.finished) - datetime.fromisoformat(result.facts.started)
    except (TypeError, ValueError):  # unknown
        return
    measured_seconds = sum(measurement.runtime_ms for measurement in result.measurements) / 1000
    # Someone may set the clock during a run; each measurement records this.
    set_seconds = sum(abs(measurement.timing.clock_set_seconds) for measurement in result.measurements)
    if run.total_seconds() + set_seconds + _TOLERANCE_MS / 1000 < measured_seconds:
        yield f"the run lasts {run.total_seconds():.0f} s, its measurements {measured_seconds:.0f} s"


def _evidence_names(measurement: Measurement) -> tuple[str, ...]:
    """Return the evidence names of all attempts, rejected ones first."""
    return (*(attempt.evidence for attempt in measurement.rejected), measurement.evidence)


def _imported_differences(folder: RunFolder, recorded: JournalReader, imported: Imported) -> Iterator[str]:
    """Read the files of another tool again, and yield a message for each difference from the journal.

    Messages contain the first file's name in evidence/.
    """
    name = f"evidence/{imported.file}"
    if imported.importer not in registries.IMPORTERS:
        yield f"{name}: there is no importer {imported.importer!r} to read it again"
        return
    steps = registries.load(registries.IMPORTERS, imported.importer).steps_of(folder.evidence, recorded.facts)
    for journaled, reread in zip_longest(recorded.steps(), steps):
        if journaled is None or reread is None or journaled[0] != reread[0]:
            yield f"{name}: the steps differ from those in the journal"
            return
        step = journaled[0]
        for position, outcomes in enumerate(zip_longest(journaled[1], reread[1])):
            yield from _outcome_differences(f"{progress_label(step, position)} ({name})", *outcomes)


def _outcome_differences(label: str, journaled: object, reread: object) -> Iterator[str]:
    """Yield a message if an outcome differs from the outcome that was ``reread`` from the evidence."""
    if journaled != reread:
        numbers = (
            f"{name} is {journal_value} in the journal, {evidence_value} in the evidence"
            for name, journal_value, evidence_value in field_differences(journaled, reread)
        )
        yield f"{label}: {', '.join(numbers)}"
