"""The values of a run in progress that its agent reports, so that the pages of the lab show them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..lab.observation.telemetry import is_hot, warning_celsius
from ..record.folder import RunFolder
from ..record.replay import read_journal_state
from ..record.suite import SuiteFolder
from ..results.result import RunFacts, RunWarning
from ..runner.live import LiveRun, LiveState, TimeSeries
from ..spec import Deviation
from ..text import printable

#: The values are read this often at most.
_PAUSE_SECONDS = 5.0
#: Of each tracked variable only the last rounds are reported.
_MAX_ROUNDS = 100
#: The maximum number of values of a time series.
_MAX_POINTS = 240
#: The database refuses 64 KiB, with spaces that this JSON does not have.
_MAX_BYTES = 40 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValues:
    """The values of a run in progress; those of a suite are of its test in progress.

    ``title`` is the test's name in words.  ``started`` and ``updated`` are the times of its start and of the last entry
    of its journal, in ISO 8601; ``virtual``: those of the test are those of a simulated drive.  ``warning_celsius`` is
    the temperature at which the drive warns (NVMe WCTEMP); None if it is unknown.  ``deviations`` and ``warnings`` are
    those that were known at the start.
    """

    title: str
    started: str
    updated: str
    virtual: bool
    warning_celsius: float | None
    state: LiveState
    deviations: tuple[Deviation, ...] = ()
    warnings: tuple[RunWarning, ...] = ()

    @property
    def heat(self) -> str:
        """The temperature of a hot drive and its warning temperature in words; empty if the drive is not hot."""
        celsius, warning = self.state.celsius, self.warning_celsius
        if celsius is None or warning is None or not is_hot(celsius, warning):
            return ""
        return f"It has {celsius:.0f} °C; it warns at {warning:.0f} °C."


_ADAPTER: TypeAdapter[LiveValues] = TypeAdapter(LiveValues)
_SERIES: TypeAdapter[tuple[TimeSeries, ...]] = TypeAdapter(tuple[TimeSeries, ...])


def live_values_json(values: LiveValues) -> str:
    """Return the JSON document of live values, without the tracked variables if it would be too large with them."""
    document = _ADAPTER.dump_json(values)
    if len(document) > _MAX_BYTES:
        document = _ADAPTER.dump_json(replace(values, state=replace(values.state, variables=())))
    return document.decode()


def parse_live_values(document: object) -> LiveValues | None:
    """Return the live values in a document of the database; None if it has none, or invalid ones.

    Characters that cannot be printed are replaced.
    """
    try:
        return None if document is None else _ADAPTER.validate_json(json.dumps(_printable(document)))
    except ValidationError:
        return None


def series_json(series: tuple[TimeSeries, ...]) -> str:
    """Return the JSON document of values over time."""
    return _SERIES.dump_json(series).decode()


def parse_series(document: object) -> tuple[TimeSeries, ...]:
    """Return the values over time in a document of the database; none if it has none, or invalid ones."""
    try:
        return () if document is None else _SERIES.validate_json(json.dumps(_printable(document)))
    except ValidationError:
        return ()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return {name: _printable(item) for name, item in value.items()} if isinstance(value, dict) else value


class LiveReader:
    """Reads the live values of a run, or suite, that another process performs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: RunFolder | None = None
        self._run: LiveRun | None = None
        self._next_seconds = 0.0

    def read(self) -> tuple[LiveValues, tuple[TimeSeries, ...]] | None:
        """Return the values, and those over time, if there are new ones; raises RecordError and OSError."""
        if time.monotonic() < self._next_seconds:
            return None
        suite = SuiteFolder.existing(self._path)
        tests = map(suite.verified_run_folder, suite.tests) if suite else [RunFolder(path=self._path)]
        folder = next(reversed([run for run in tests if run and run.has_started]), None)
        if folder is None:
            return None
        if self._run is None or folder != self._folder:
            self._folder, self._run = folder, LiveRun(folder)
        if not self._run.read() or self._run.facts is None or (state := self._run.state) is None:
            return None
        self._next_seconds = time.monotonic() + _PAUSE_SECONDS
        series = tuple(one.thinned(_MAX_POINTS) for one in self._run.series)
        return _live_values(folder, self._run.facts, state), series


def _live_values(folder: RunFolder, facts: RunFacts, state: LiveState) -> LiveValues:
    variables = (
        replace(one, rounds=one.rounds[-_MAX_ROUNDS:], values=one.values[-_MAX_ROUNDS:]) for one in state.variables
    )
    _, modified_ns = read_journal_state(folder)
    return LiveValues(
        title=facts.spec.title,
        started=facts.started,
        updated=datetime.fromtimestamp(modified_ns / 1e9).astimezone().isoformat(timespec="milliseconds"),
        virtual=facts.dut.simulated,
        warning_celsius=warning_celsius(facts.dut.path) if facts.dut.is_device else None,
        state=replace(state, variables=tuple(variables)),
        deviations=facts.deviations,
        warnings=facts.warnings,
    )
