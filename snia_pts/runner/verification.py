"""Compares the numbers in a journal with the evidence that they were read from, by reading it again.

A digest shows that a file is the one that was journaled; only this shows that a number is the one in the file.  Each
answer repeats the seed of its point, which follows from the seed of the run and the number of the evidence.  So an
answer belongs to one point of one run, and a point that is missing leaves a gap in the numbers.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import zip_longest
from pathlib import Path

from ..errors import RecordError
from ..files import open_regular, read_regular
from ..lab import fio
from ..lab.evidence import number_of
from ..lab.fio.engine import ignored_options, seed_of, stimulus_seed
from ..lab.fio.sampling import Sampler
from ..lab.laboratory import target_deviations
from ..lab.simulated.evidence import read_transfers
from ..model.measurement import Measurement, Outcome, Sample
from ..model.steps import ContinuousStimulus, Step, place
from ..record.evidence import EvidenceCheck, check_files
from ..record.folder import RunFolder
from ..record.journal_reader import JournalReader
from ..results.imported import Imported
from ..results.result import RunFacts, TestResult
from ..spec.reader import spec_deviations

#: So many differences stand in one sentence.
_NAMED = 5
#: More than an answer of fio's, which has a few thousand bins at most.
_LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
#: Texts longer than that, as those of histograms, are not printed.
_LONGEST_VALUE = 40
#: The evidence of a stimulus, rather than of a purge or of what was looked up before.
_OF_STIMULUS = re.compile(r"[0-9]{5,9}-(rnd|seq)")
#: The end of a run leaves the evidence of at most two points that were not measured: one at work, and the next one.
_UNFINISHED_POINTS = 2


def check_evidence(folder: RunFolder, result: TestResult) -> EvidenceCheck:
    """Compare evidence/ with the journal that ``result`` was made from: all files, then all numbers.

    Numbers are compared where no file differs: a file that was altered says nothing about them.  Raises RecordError.
    """
    found = check_files(folder, result)
    if found.differences:
        return found
    files = (*result.evidence, *found.unjournaled)
    return replace(found, differences=tuple(_differences(folder, result, files)))


def require_evidence(folder: RunFolder, result: TestResult) -> None:
    """Raise RecordError unless all evidence is as the journal says."""
    found = check_evidence(folder, result).differences
    if found:
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise RecordError(
            path=folder.path,
            reason=f"its evidence differs from its journal: {'; '.join(found[:_NAMED])}{more}",
            hint="Restore the run folder from a backup. snia-pts assess lists all differences; nothing was written.",
        )


def _differences(folder: RunFolder, result: TestResult, files: Collection[str]) -> Iterator[str]:
    recorded = JournalReader(folder.journal)
    if recorded.facts.imported is not None:
        yield from _imported_differences(folder, recorded, recorded.facts.imported)
        return
    yield from _missing_deviations(recorded.facts)
    verification = _Verification(folder.evidence, result)
    for step, outcomes in recorded.steps():
        try:
            yield from verification.of(step, outcomes)
        except (fio.AnswerRejected, ValueError, OSError, EOFError, zlib.error) as error:
            yield f"{step.label}: its evidence cannot be read again: {error}"
    yield from verification.missing(recorded, files)


def _missing_deviations(facts: RunFacts) -> Iterator[str]:
    """Give a sentence for each deviation of the specification, or of the target, that the facts do not list."""
    listed = {deviation.what for deviation in facts.deviations}
    for deviation in (*spec_deviations(facts.spec, facts.test_class), *target_deviations(facts.dut, facts.spec)):
        if deviation.what not in listed:
            yield f"the journal does not list this deviation: {deviation.what}, {deviation.actual}"


class _Verification:
    """Compares the steps of a run that this suite measured, in their order."""

    def __init__(self, evidence: Path, result: TestResult) -> None:
        self._evidence, self._simulated = evidence, result.facts.dut.simulated
        self._run_seed = result.facts.seed or 0
        self._ended_early = result.ending != "finished"
        self._numbers, self._digests = set[int](), set[str]()
        self._last = self._rejected = 0
        #: The measurements of continuous stimuli: their samples, which come before, are in a file of their name.
        self._wholes = {(line.phase, line.part): iter(line.measurements) for line in result.time_lines}

    def of(self, step: Step, outcomes: Iterator[Outcome]) -> Iterator[str]:
        """Give a sentence for each outcome that has other numbers than its evidence.

        Raises fio.Refused, ValueError, OSError, EOFError or zlib.error where the evidence cannot be read.
        """
        whole = next(self._wholes[step.phase, step.part], None) if isinstance(step, ContinuousStimulus) else None
        samples = self._samples(step, whole) if isinstance(step, ContinuousStimulus) and whole else iter(())
        for came, outcome in enumerate(outcomes):
            label = place(step, came)
            if isinstance(outcome, Measurement):
                if next(samples, None) is not None:
                    yield f"{label}: there are more samples in the evidence than in the journal"
                yield from self._named(label, outcome)
                yield from self._measured(label, outcome)
            elif isinstance(outcome, Sample) and whole and not self._simulated:
                journaled = replace(outcome, interruptions=0, vitals=None)
                yield from _unlike(label, journaled, next(samples, None))

    def _samples(self, step: ContinuousStimulus, whole: Measurement) -> Iterator[Sample]:
        """Read the samples of a stretch again; see FioEngine.stretch.

        Whether running totals fit the wall clock was decided while it ran: when the clock was set is not kept.
        """
        if self._simulated or not step.samples:
            return
        answers, sampler = fio.StatusStream(), Sampler(step.samples)
        with (
            open_regular(self._evidence / f"{whole.evidence}.samples.json.gz") as file,
            gzip.GzipFile(fileobj=file) as said,
        ):
            while piece := said.read(_CHUNK_BYTES):
                for answer in answers.more(piece):
                    yield from sampler.cut(fio.read_totals(answer)[0])
        yield from sampler.last(fio.read_totals(answers.last.decode("utf-8", "replace"))[0])

    def missing(self, recorded: JournalReader, files: Collection[str]) -> Iterator[str]:
        """Give a sentence where evidence has no measurement, after all steps; ``files`` are the names in evidence/.

        Numbers of evidence have no gaps.  Each interruption and each rejected attempt may leave points that were not
        measured; what is looked up before a run goes on may take a number, and so do the purges of a simulated drive.
        """
        for measurement in recorded.discarded:
            self._count(measurement)
        interruptions = len(recorded.interruptions) + self._ended_early
        found = self._numbers.copy()
        if self._simulated or interruptions:
            found |= {number_of(name) or 0 for name in files if not _OF_STIMULUS.match(name)}
        last = max((number_of(name) or 0 for name in files), default=0)
        without = sorted(set(range(1, max(last, self._last) + 1)) - found)
        if len(without) > _UNFINISHED_POINTS * interruptions + self._rejected:
            more = ", ..." if len(without) > _NAMED else ""
            yield f"the journal has no measurement for evidence number {', '.join(map(str, without[:_NAMED]))}{more}"

    def _count(self, measurement: Measurement) -> None:
        self._numbers |= {number_of(name) or 0 for name in _names(measurement)}
        self._rejected += len(measurement.rejected)

    def _named(self, label: str, measurement: Measurement) -> Iterator[str]:
        """Require names of evidence whose numbers rise, and of fio another answer each time."""
        self._count(measurement)
        for name in _names(measurement):
            number = number_of(name)
            if number is None or number <= self._last:
                yield f"{label}: evidence/{name} does not follow the evidence before, number {self._last}"
            else:
                self._last = number
        if measurement.evidence_sha256 in self._digests and not self._simulated:
            yield f"{label}: evidence/{measurement.evidence}.json is the answer of another point, too"
        self._digests.add(measurement.evidence_sha256)

    def _measured(self, label: str, measurement: Measurement) -> Iterator[str]:
        path = self._evidence / f"{measurement.evidence}.json"
        answer = read_regular(path, _LARGEST_ANSWER_BYTES).decode("utf-8", "replace")
        stimulus, number = measurement.stimulus, number_of(measurement.evidence) or 0
        if self._simulated:
            read, write = read_transfers(answer)
            again = replace(measurement, read=read, write=write, seed=stimulus_seed(self._run_seed, number))
        else:
            self._require_own(measurement, answer)
            read, write = fio.accept(stimulus, 0, False, answer, stall_seconds=math.inf, allow_uncounted=True)
            again = replace(
                measurement,
                read=read,
                write=write,
                seed=seed_of(stimulus, self._run_seed, number),
                engine_cpu_percent=fio.engine_cpu_percent(answer),
                sync=fio.sync_times(answer) if stimulus.options else None,
                uncounted_ios=fio.uncounted_ios(stimulus, answer),
                stream_bytes=fio.stream_bytes(stimulus, answer),
            )
        yield from _unlike(f"{label}, {stimulus.label} (evidence/{path.name})", measurement, again)

    def _require_own(self, measurement: Measurement, answer: str) -> None:
        """Raise fio.Refused or ValueError unless an answer repeats its job file, and that has the point's seed."""
        path = self._evidence / f"{measurement.evidence}.fio"
        job = read_regular(path, _LARGEST_ANSWER_BYTES).decode("utf-8", "replace")
        if f"\nrandseed={measurement.seed}\n" not in job:
            raise ValueError(f"evidence/{path.name} has another seed than this point")
        fio.require_echo(job, answer, ignored=ignored_options(measurement.stimulus) | {"filename"})


def _names(measurement: Measurement) -> tuple[str, ...]:
    """Return the names of the evidence of all attempts, the rejected ones first."""
    return (*(attempt.evidence for attempt in measurement.rejected), measurement.evidence)


def _imported_differences(folder: RunFolder, recorded: JournalReader, imported: Imported) -> Iterator[str]:
    """Read the file of another tool again and compare its steps and outcomes with the journal.

    Messages name the file by its name in evidence/.  A run on a drive needs no XML parser, so it is imported here.
    """
    from ..tkperf.document import LARGEST_BYTES, read
    from ..tkperf.reader import runs

    name = f"evidence/{imported.file}"
    document = read(read_regular(folder.evidence / imported.file, LARGEST_BYTES), name)
    found = runs(document, imported, recorded.facts.command_line, name)
    course = next((run.course for run in found if run.facts.spec == recorded.facts.spec), ())
    for journaled, again in zip_longest(recorded.steps(), course):
        if journaled is None or again is None or journaled[0] != again[0]:
            yield f"{name}: the journal has other steps than this file"
            return
        step = journaled[0]
        for came, outcomes in enumerate(zip_longest(journaled[1], again[1])):
            yield from _unlike(f"{place(step, came)} ({name})", *outcomes)


def _unlike(label: str, journaled: object, found: object) -> Iterator[str]:
    """Give a sentence where an outcome is another than the one ``found`` in the evidence."""
    if journaled != found:
        numbers = (
            f"{name} is {one} in the journal, {other} in the evidence" for name, one, other in _pairs(journaled, found)
        )
        yield f"{label}: {', '.join(numbers)}"


def _pairs(journaled: object, found: object, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Give the names of all fields that differ, with both values."""
    if is_dataclass(journaled) and type(journaled) is type(found):
        for field in fields(journaled):
            one, other = getattr(journaled, field.name), getattr(found, field.name)
            yield from _pairs(one, other, f"{name}.{field.name}".removeprefix("."))
    elif journaled != found:
        yield name or "it", _shown(journaled), _shown(found)


def _shown(value: object) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= _LONGEST_VALUE else "another text"
