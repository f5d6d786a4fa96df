"""A stored run as a value: its verdict, its figures, and the tables and series of its measurements."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..analysis.steady_state import SteadyState
from ..analysis.window import Window
from ..errors import RecordError, UsageError
from ..files import read_regular
from ..lab.fio.answer import parse_answer
from ..lab.fio.job import AnswerRejected
from ..model.dut import Dut
from ..model.histogram import merge
from ..model.measurement import average_response_us
from ..model.steps import Phase
from ..model.test_platform import TestPlatform
from ..record.archive import is_archive, opened
from ..record.folder import RunFolder
from ..record.replay import assess
from ..record.suite import SuiteFolder, child_folders, is_run
from ..results.key_figures import KeyFigure, key_figures, measurements_by_name
from ..results.limit_checks import Judgement, judgements
from ..results.result import Ending, RunWarning, TestResult
from ..results.tables import DataTable, all_tables, sample_columns, samples_name, unique_names
from ..results.tracked_series import evaluated_series
from ..results.warnings import run_warnings
from ..spec import DemandSpec, Deviation, Spec, TestClass
from .arithmetic import ResponseTimes
from .tables import Matrix, Table, matrix_of, one_of

#: Larger than any answer of fio, which has at most a few thousand bins.
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_RESTORE = "Restore the run folder from a backup. snia-pts assess lists all differences."


@dataclass(frozen=True, slots=True, kw_only=True)
class Determination:
    """The steady state of a tracked variable in the last window of a series (a loop of rounds, or samples)."""

    series: str
    variable: str
    metric: str
    state: SteadyState


@dataclass(frozen=True, kw_only=True)
class Run:
    """A stored run of one test: the folder ``path``, and the ``result`` that its journal gives, as far as it got.

    ``result`` has every value of the run; the properties are those that are most often used.  The run that ``read_fio``
    returns is not ``stored``: it has no folder, and ``path`` is the file or folder that was read.
    """

    path: Path
    result: TestResult = field(repr=False)
    stored: bool = field(default=True, repr=False)

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.test} on {self.device.summary}: {self.verdict})"

    def _repr_html_(self) -> str:
        """Return the first page of the report, as a notebook shows it."""
        from .notebook import first_page

        return first_page(self.result)

    # -- the run ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The name that the run had when it started."""
        return self.result.facts.run_id

    @property
    def test(self) -> str:
        """The test: ``iops``, ``throughput``, ``latency``, ``wsat``, ``hir``, ``xsr``, ``composite``, ``dirth``, ..."""
        return self.result.facts.spec.test

    @property
    def test_class(self) -> TestClass:
        """The class of the standard: ``enterprise`` or ``client``."""
        return self.result.facts.test_class

    @property
    def started(self) -> str:
        """When the run started, in ISO 8601."""
        return self.result.facts.started

    @property
    def finished(self) -> str:
        """When the run ended, in ISO 8601; empty if it was killed, or is still in progress."""
        return self.result.finished

    @property
    def ending(self) -> Ending:
        """How the run ended: ``finished``, ``interrupted``, ``device failed``, ``host failed`` or ``unfinished``."""
        return self.result.ending

    @property
    def verdict(self) -> str:
        """The verdict in the standard's words: ``STEADY STATE``."""
        return self.result.verdict

    @property
    def steady(self) -> bool | None:
        """Whether the test finished with all that it requires to be steady; None if it requires no steady state.

        Profiles, imports of fio and cross stimulus recovery require none.
        """
        return self.result.steady

    @property
    def conformant(self) -> bool:
        """Whether it is a test of the standard that finished without a deviation."""
        return self.result.conformant

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """All differences from the standard."""
        return self.result.deviations

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        """Facts that a reader must know but that are not deviations from the standard."""
        return run_warnings(self.result)

    @property
    def device(self) -> Dut:
        """The device under test."""
        return self.result.facts.dut

    @property
    def host(self) -> TestPlatform:
        """The host, its settings, and the version of the engine."""
        return self.result.facts.platform

    @property
    def spec(self) -> Spec:
        """The specification of the test: every number that the test followed."""
        return self.result.facts.spec

    @property
    def limits(self) -> tuple[Judgement, ...]:
        """The judgement of each limit of the run."""
        return judgements(self.result)

    # -- steady state -------------------------------------------------------------------------------------------------

    @property
    def windows(self) -> dict[str, Window]:
        """The last window of each series that has one: the Measurement Window if it is steady.

        A series is a loop of rounds, such as ``128 KiB`` in the throughput test, or the samples that count as rounds.
        """
        series = evaluated_series(self.result)
        return {item.part or item.name: item.window for item in series if item.window is not None}

    @property
    def window(self) -> Window | None:
        """The last window of the test loop, or of the samples of a test without one; None if there is none.

        Raises UsageError for a test with several loops; ``windows`` has those of all.
        """
        loops = [loop for loop in self.result.loops if loop.window is not None]
        if len(loops) > 1:
            detail = f"The test {self.test} has {len(loops)} loops, each with a window."
            raise UsageError(detail=detail, hint="windows has all of them, by part.")
        judged = loops[0] if loops else self.result.sampling
        return judged.window if judged else None

    @property
    def determinations(self) -> tuple[Determination, ...]:
        """The determination of each tracked variable in the last window of each series."""
        return tuple(
            Determination(
                series=item.part or item.name, variable=item.label(tracked), metric=tracked.metric, state=state
            )
            for item in evaluated_series(self.result)
            if item.window is not None
            for tracked, state in item.window.determinations
        )

    # -- figures ------------------------------------------------------------------------------------------------------

    @cached_property
    def figures(self) -> tuple[KeyFigure, ...]:
        """The key figures: the numbers that comparisons and limits use, with units, at steady state or not."""
        return key_figures(self.result)

    def figure(self, metric: str, at: str) -> KeyFigure:
        """Return a key figure: ``run.figure("iops", at="RND 4 KiB 0/100").value``.

        Raises UsageError if the run has no such number.
        """
        by_name = {figure.name: figure for figure in self.figures}
        return by_name[one_of(f"{metric} at {at}", tuple(by_name), "figure")]

    def histogram(self, at: str) -> ResponseTimes:
        """Return the response times of a point over the window, or of a phase; names are those of ``figures``.

        ``run.histogram("RND 4 KiB 0/100").percentile_us(99.9)``.  Raises UsageError if there is no such point.
        """
        by_name = measurements_by_name(self.result)
        measured = by_name[one_of(at, tuple(by_name), "point or phase")]
        timed = [measurement for measurement in measured if measurement.timed]
        return ResponseTimes(
            histogram=merge(side.histogram for point in timed for side in (point.read, point.write)),
            average_us=average_response_us(timed) if timed else None,
            maximum_us=max((point.maximum_response_us for point in timed), default=None),
        )

    # -- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def _samples(self) -> dict[str, Table]:
        """The samples of each time line, by its part and phase."""
        lines = {" ".join(filter(None, (line.part, line.phase))): line for line in self.result.time_lines}
        return {
            label: Table(name=samples_name(line), title=f"Samples: {label}", columns=sample_columns(line))
            for label, line in lines.items()
        }

    @cached_property
    def _tables(self) -> dict[str, Table]:
        tables = (*map(_table, all_tables(self.result)), *self._samples.values())
        return dict(zip(unique_names(table.name for table in tables), tables, strict=True))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables that have rows."""
        return tuple(name for name, table in self._tables.items() if len(table))

    def table(self, name: str) -> Table:
        """Return a table by its name in ``tables``; it is empty if this run has no rows for it.

        ``points`` are the figures of each point over the window, ``measurements`` those of every stimulus, ``rounds``
        the tracked variables by round, ``windows`` the determinations.  docs/formats.rst explains the columns.  Raises
        UsageError if there is no such table.
        """
        return self._tables[one_of(name, tuple(self._tables), "table")]

    def series(self, phase: Phase, part: str = "") -> Table:
        """Return the samples of a continuous stimulus over time, one row per sample, by its phase and part.

        ``ended_seconds`` is the end of a sample since the start of the I/O.  Phases are ``WIPC``, ``fill``, ``PC``,
        ``stimulus``, ``pre-write``, ``histogram``, ``access A`` and ``access C``.  Raises UsageError if the run has
        no such samples.
        """
        return self._samples[one_of(f"{part} {phase}".strip(), tuple(self._samples), "series of samples")]

    # -- matrices -----------------------------------------------------------------------------------------------------

    @property
    def _axes(self) -> tuple[str, ...]:
        """The columns that identify a point of a round."""
        if self.spec.rounds_are_repeats:
            return ("point",)
        is_demand = isinstance(self.spec, DemandSpec)
        return ("thread_count", "queue_depth") if is_demand else ("block_size_bytes", "read_percent")

    def matrix(self, metric: str) -> Matrix:
        """Return a metric of every round and point, with an axis for each: rounds x block sizes x R/W mixes.

        Demand intensity tests have Thread Counts x Queue Depths instead, profiles the names of their points.
        ``metric`` is a column of the table ``measurements``.  Raises UsageError if there is no such metric, or if the
        test has no rounds.
        """
        axes = {axis: "part" if axis == "point" else axis for axis in ("round", *self._axes)}
        return self._matrix(metric, self.table("measurements"), axes)

    def window_matrix(self, metric: str) -> Matrix:
        """Return a metric of every point over the window: block sizes x R/W mixes, without an axis for rounds.

        IOPS and throughput are means of the rounds; response times are those of all I/Os of the window together.
        ``metric`` is a column of the table ``points``.  Raises UsageError if there is no such metric, or no window.
        """
        return self._matrix(metric, self.table("points"), {axis: axis for axis in self._axes})

    def _matrix(self, metric: str, table: Table, axes: Mapping[str, str]) -> Matrix:
        """Return the matrix of a column of a table; ``axes`` are the columns of its labels, by axis."""
        if not len(table):
            raise UsageError(detail=f"This run has no {table.title.lower()}.", hint="Its series have its samples.")
        values = table.columns[one_of(metric, table.numeric, f"column of numbers in the table {table.name}")]
        keys = zip(*(table.columns[column] for column in axes.values()), strict=True)
        cells = {key: value for key, value in zip(keys, values, strict=True) if None not in key}
        if not cells:
            raise UsageError(detail="This run has no rounds.", hint="Its series have its samples.")
        return matrix_of(metric, tuple(axes), cells)

    # -- evidence -----------------------------------------------------------------------------------------------------

    def evidence(self, name: str) -> dict[str, Any]:
        """Return fio's answer for a measurement; ``name`` is its value in the column ``evidence``.

        Raises UsageError if there is no such measurement or if the run is not stored, and RecordError if the file is
        missing, or differs from the checksum in the journal.
        """
        if not self.stored:
            raise UsageError(detail="This run has no folder with evidence.", hint=f"Read {self.path}.")
        digests = {item.evidence: item.evidence_sha256 for item in self.result.measurements}
        digest = digests[one_of(name, tuple(digests), "evidence of a measurement")]
        with opened(self.path) as folder:
            path = folder.evidence / f"{name}.json"
            try:
                content = read_regular(path, _MAX_ANSWER_BYTES)
            except OSError as error:
                raise RecordError(path=path, reason=error.strerror or str(error), hint=_RESTORE) from None
        if sha256(content).hexdigest() != digest:
            raise RecordError(path=path, reason="its SHA-256 differs from the one in the journal", hint=_RESTORE)
        try:
            return deepcopy(parse_answer(content.decode("utf-8", "replace")))  # the parser caches its answer
        except AnswerRejected as rejected:
            raise RecordError(path=path, reason=str(rejected), hint=_RESTORE) from None


#: A run, or the path of its folder.
RunOrPath = Run | str | os.PathLike[str]


def _table(data: DataTable) -> Table:
    columns = zip(*data.rows, strict=True) if data.rows else ((),) * len(data.fields)
    return Table(name=data.name, title=data.title, columns=dict(zip(data.fields, columns, strict=True)))


def load(path: str | os.PathLike[str]) -> Run:
    """Return the stored run in the folder or archive ``path``, calculated from its journal; reads no other file.

    Raises RecordError if there is no run, if it cannot be read, or if the folder has several tests (``load_many``).
    """
    place = Path(path)
    if SuiteFolder.existing(place):
        hint = f"Name one of its runs, for example {place}/iops."
        raise RecordError(path=place, reason="it is a folder of several tests", hint=hint)
    with opened(place) as folder:
        run = read_run(RunFolder.existing(folder.path))
    return replace(run, path=place.resolve())


def load_many(folder: str | os.PathLike[str]) -> tuple[Run, ...]:
    """Return the stored runs in ``folder``, by name: its runs, and those of each folder of several tests in it.

    If ``folder`` is itself a run or a folder of several tests, these are its runs.  Raises RecordError if there is no
    run, or if one cannot be read.
    """
    return tuple(map(load, run_paths(Path(folder))))


def read_run(folder: RunFolder) -> Run:
    """Return the run in a run folder; raises RecordError."""
    return Run(path=folder.path, result=assess(folder))


def run_paths(path: Path) -> tuple[Path, ...]:
    """Return the path of the run at ``path``, or those of the runs in the folder there; archives are runs, too.

    Raises RecordError if there is no run.
    """
    if suite := SuiteFolder.existing(path):
        return tuple(folder.path for folder in suite.runs())
    if is_archive(path):
        return (path,)
    if is_run(path) or not path.is_dir():
        return (RunFolder.existing(path).path,)
    children = (child for child in child_folders(path) if is_run(child) or is_archive(child))
    paths = tuple(run for child in children for run in run_paths(child))
    if not paths:
        raise RecordError(path=path, reason="it contains no run", hint="Name the folder of a run or of runs.")
    return paths
