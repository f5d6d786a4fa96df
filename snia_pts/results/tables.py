"""A result as data for other programs: its tables, and their rows with the names that they have in all output formats.

The pages of a report show rounded values; these have full precision.  A tree (``result.xml``) nests the same rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..analysis.steady_state import SteadyState
from ..model.description import NAMES, STATED, operator_value
from ..model.dut import Dut
from ..model.measurement import (
    NINES,
    Measurement,
    PrepareOutcome,
    average_response_us,
    mean,
    percentiles_response_us,
    sync_percentile_us,
)
from ..model.steps import BlockSize, Stimulus
from ..model.time_series import COLUMNS, TELEMETRY_COLUMNS
from ..procedures import named_points
from ..spec import MetricName, Scalar
from ..spec.reader import numbers
from .limit_checks import judgements
from .result import Loop, TestResult
from .tracked_series import evaluated_series
from .warnings import run_warnings

Value = str | int | float | bool | None
#: Values by name.
Row = Mapping[str, Value]

#: The units of fields whose names do not end with the unit.
_UNITS = {"iops": "IOPS", "mb_per_second": "MB/s"}
#: The column of each tracked metric, and the number by which its values are divided.
METRIC_COLUMNS: Mapping[MetricName, tuple[str, int]] = {
    "iops": ("iops", 1),
    "mb_per_second": ("mb_per_second", 1),
    "average_response_ms": ("average_response_us", 1000),
}
#: The columns that a table has even if all their values are missing: programs read them by name.
RATES = ("iops", "mb_per_second")
_ENDINGS = {"_us": "us", "_ms": "ms", "_seconds": "s", "_bytes": "bytes", "_percent": "%", "_ios": "I/Os"}
_SYNC = {"median_sync_us": 50.0, "two_nines_sync_us": 99.0, "three_nines_sync_us": 99.9}
_NINES = ("three_nines_response_us", "four_nines_response_us", "five_nines_response_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """A table of data: the names of its columns (as in result.xml), and rows with a value for each column.

    None is a value that was not measured, or that does not apply.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.fields) for row in self.rows):
            raise ValueError(f"table {self.name}: every row has {len(self.fields)} values")

    def column(self, field: str) -> int:
        """Return the index of a field's column; raises ValueError if there is no such field."""
        return self.fields.index(field)


def unit(field: str) -> str:
    """Return the unit of a field, from its name; empty if it has none."""
    return _UNITS.get(field) or next((name for ending, name in _ENDINGS.items() if field.endswith(ending)), "")


def data_tables(result: TestResult, *, max_samples: int | None = None) -> tuple[DataTable, ...]:
    """Return all tables of a result in a fixed order, without empty tables.

    A time line with more than ``max_samples`` samples is reduced to every n-th sample; the table's title says so.
    """
    all_tables = (
        _run(result),
        DataTable(
            name="specification",
            title="Parameters of the specification",
            fields=("key", "value"),
            rows=tuple(numbers(result.facts.spec)),
        ),
        _table("features", f"Device features, {STATED}", map(asdict, result.facts.about.features)),
        _table("deviations", f"Deviations from {result.facts.spec.authority}", map(asdict, result.deviations)),
        _table("settings", "Operator settings", map(asdict, result.facts.settings)),
        _table("warnings", "Warnings", map(asdict, run_warnings(result))),
        _table("limits", "Limits", (judgement.attributes for judgement in judgements(result))),
        _table("windows", "Steady state determination", _windows(result)),
        _table("rounds", "Tracked variables by round", _rounds(result)),
        _table("points", "Means over the measurement window", _points(result)),
        _table("points", "Means of all repeats", _repeated(result)),
        _table("prepared", "Host settings as they were read back", _prepared(result)),
        _table("measurements", "All measurements", _measurements(result)),
        *_time_lines(result, max_samples),
    )
    return tuple(_unique_names(table for table in all_tables if table.rows))


def _unique_names(unnumbered: Iterable[DataTable]) -> Iterator[DataTable]:
    """Number the tables with equal names; those of different parts may be equal."""
    count: Counter[str] = Counter()
    for table in unnumbered:
        count[table.name] += 1
        yield table if count[table.name] == 1 else replace(table, name=f"{table.name}--{count[table.name]}")


def _table(name: str, title: str, rows: Iterator[Row]) -> DataTable:
    """Return a table of rows with equal fields, without the columns that have no value, unless they are ``RATES``."""
    all_rows = list(rows)
    fields = tuple(
        field
        for field in (all_rows[0] if all_rows else ())
        if field in RATES or any(row[field] is not None for row in all_rows)
    )
    values = tuple(tuple(row[field] for field in fields) for row in all_rows)
    return DataTable(name=name, title=title, fields=fields, rows=values)


def _run(result: TestResult) -> DataTable:
    facts = result.facts
    values: dict[str, Value] = {
        "run": facts.run_id,
        **specification_attributes(result),
        **run_attributes(result),
        "command_line": " ".join(facts.command_line),
    }
    values |= {"vendor": facts.about.vendor, "nand_type": facts.about.nand_type, "hba": facts.about.hba}
    values |= {f"stated.{name}": value for name in NAMES if (value := operator_value(facts.about, name))}
    values |= {"stated.capacity": facts.about.capacity} if facts.about.capacity else {}
    values |= {f"note.{number}": text for number, text in enumerate(facts.about.notes, start=1)}
    owners = [("dut", dut_attributes(facts.dut)), ("platform", asdict(facts.platform))]
    owners += [("imported", asdict(facts.imported))] if facts.imported else []
    for owner, attributes in owners:
        values |= {f"{owner}.{key}": value for key, value in _scalars(attributes).items()}
    return DataTable(name="run", title="Run", fields=("key", "value"), rows=tuple(values.items()))


def _scalars(values: Mapping[str, object]) -> dict[str, Value]:
    """Return the entries with a single value, without lists and other compound values."""
    return {key: value for key, value in values.items() if value is None or isinstance(value, str | int | float)}


# -- steady state -----------------------------------------------------------------------------------------------------


def _windows(result: TestResult) -> Iterator[Row]:
    for series in evaluated_series(result):
        for tracked, determination in series.window.determinations if series.window else ():
            yield {
                "series": series.part or series.name,
                "variable": series.label(tracked),
                "metric": tracked.metric,
                "last_round": determination.rounds[-1],
                **determination_figures(determination),
            }


def _rounds(result: TestResult) -> Iterator[Row]:
    for series in evaluated_series(result):
        window_numbers = set(series.window.numbers) if series.window else set()
        for judged_round in series.rounds:
            for tracked in series.rule.tracked:
                yield {
                    "series": series.part or series.name,
                    "round": judged_round.number,
                    "in_window": judged_round.number in window_numbers,
                    "variable": series.label(tracked),
                    "metric": tracked.metric,
                    "value": judged_round.value(tracked),
                }


# -- measurements -----------------------------------------------------------------------------------------------------


def _points(result: TestResult) -> Iterator[Row]:
    for loop in result.loops:
        window = loop.window.numbers if loop.window else (0,)
        for stimulus, figures in window_points(result, loop):
            yield {
                "part": loop.part,
                "first_round": window[0],
                "last_round": window[-1],
                "steady": loop.steady,
                "point": stimulus.label,
                **stimulus_attributes(stimulus),
                **figures,
            }


def _repeated(result: TestResult) -> Iterator[Row]:
    """Yield the repeated points, with a column for each axis, empty if a point does not use the axis."""
    for point in repeated_points(result):
        attributes = stimulus_attributes(point.stimulus)
        attributes.pop("name", None)
        axis_values = {f"axis.{key}": point.axis_values.get(key) for key in result.facts.spec.axes}
        yield {"point": point.name, **axis_values, **attributes, **point.figures}


def _prepared(result: TestResult) -> Iterator[Row]:
    for part, prepared in result.prepared:
        for setting in host_settings(prepared):
            yield {"part": part, "started": prepared.started, **setting}


def _measurements(result: TestResult) -> Iterator[Row]:
    for position, measurement in placed_measurements(result):
        telemetry = measurement.telemetry
        yield {
            **position,
            "point": measurement.stimulus.label,
            **measurement_figures(result, measurement),
            "stolen_percent": telemetry.stolen_percent if telemetry else None,
            "celsius": telemetry.celsius if telemetry else None,
            "queue": telemetry.block.queue if telemetry and telemetry.block else None,
        }


def placed_measurements(result: TestResult) -> Iterator[tuple[Row, Measurement]]:
    """Yield every measurement with its part, phase and round, in the order of the table ``measurements``."""
    for line in result.separate_lines:
        for measurement in line.measurements:
            yield {"part": line.part, "phase": line.phase, "round": None, "in_window": None}, measurement
    for loop in result.loops:
        numbers = {measured.number for measured in result.evaluated_rounds(loop)}
        for measured in loop.rounds:
            position: Row = {"round": measured.number, "in_window": measured.number in numbers}
            for measurement in measured.measurements:
                yield {"part": loop.part, "phase": "round", **position}, measurement


def _time_lines(result: TestResult, max_samples: int | None) -> Iterator[DataTable]:
    for line in result.time_lines:
        label = " ".join(filter(None, (line.part, line.phase)))
        columns = {**{name: getattr(line, name) for name in (*COLUMNS, *TELEMETRY_COLUMNS)}, "iops": line.iops}
        columns["mb_per_second"] = line.mb_per_second
        stride = math.ceil(len(line) / max_samples) if max_samples and line else 1
        reduction = f", 1 of every {stride} of {len(line)} samples" if stride > 1 else ""
        fields = [name for name, values in columns.items() if name in RATES or not all(map(math.isnan, values))]
        samples = zip(*(columns[name][::stride] for name in fields), strict=True)
        rows = tuple(tuple(map(finite_or_none, sample)) for sample in samples)
        name = f"samples-{re.sub('[^a-z0-9]+', '-', label.lower()).strip('-')}"
        yield DataTable(name=name, title=f"Samples: {label}{reduction}", fields=tuple(fields), rows=rows)


# -- rows -------------------------------------------------------------------------------------------------------------


def run_attributes(result: TestResult) -> dict[str, Value]:
    """Return a run with the names of result.xml, without its ID."""
    return {
        "started": result.facts.started,
        "finished": result.finished,
        "ending": result.ending,
        "detail": result.ending_detail,
        "verdict": result.verdict,
        "conformant": result.conformant,
        "seed": None if result.facts.seed is None else str(result.facts.seed),
        "operator": result.facts.about.operator,
        "written_bytes": whole_bytes_or_none(result.written_bytes),
        "read_bytes": whole_bytes_or_none(result.read_bytes),
    }


def specification_attributes(result: TestResult) -> dict[str, Value]:
    """Return the names and the version of a test's specification with the names of result.xml."""
    spec = result.facts.spec
    return {
        "test": spec.test,
        "pts": spec.pts,
        "class": result.facts.test_class,
        "revision": spec.revision,
        "title": spec.title,
        "publication": spec.publication,
    }


def stimulus_attributes(stimulus: Stimulus) -> dict[str, Value]:
    """Return a stimulus with the names of result.xml; None for default values.

    A size mix is a list of ``bytes:percent``, a skew a list of ``percent of accesses:percent of range``.
    """
    skew = " ".join(f"{zone.access_percent}:{zone.range_percent}" for zone in stimulus.skew)
    return {
        "access": stimulus.access,
        "read_percent": stimulus.read_percent,
        **sizes(stimulus.block_size_bytes),
        "thread_count": stimulus.thread_count,
        "queue_depth": stimulus.queue_depth,
        "range_offset_bytes": stimulus.range_offset_bytes,
        "range_bytes": stimulus.range_bytes or None,
        "skew": skew or None,
        "start_bytes": _starts(stimulus),
        "seconds": stimulus.seconds,
        "passes": stimulus.passes,
        "limit_bytes": stimulus.limit_bytes,
        "ramp_seconds": stimulus.ramp_seconds or None,
        "skip_bytes": stimulus.skip_bytes or None,
        "options": " ".join(f"{key}={value}" for key, value in stimulus.options) or None,
        "name": stimulus.name or None,
    }


def _starts(stimulus: Stimulus) -> int | str | None:
    """Return the start offsets of sequential streams, as a list for several threads; None if all start at 0."""
    start = stimulus.start_bytes
    return " ".join(map(str, start)) if isinstance(start, tuple) else start or None


def sizes(size: BlockSize | None) -> dict[str, Value]:
    """Return a block size, or the shares of a mix, with their names; None if there is no size."""
    if size is None or isinstance(size, int):
        return {"block_size_bytes": size, "block_mix": None}
    shares = " ".join(f"{share.size_bytes}:{share.percent}" for share in size)
    return {"block_size_bytes": None, "block_mix": shares}


def window_points(result: TestResult, loop: Loop) -> Iterator[tuple[Stimulus, Mapping[str, float | None]]]:
    """Yield every point of a loop with its figures over the window, with the names of result.xml."""
    keyed = [measured.keyed_by(_without_start) for measured in loop.window_rounds]
    for stimulus in keyed[0] if keyed else ():
        measured = [points[stimulus] for points in keyed]
        yield stimulus, {**_means(measured), "host_limited": result.host_limited(measured)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedPoint:
    """A named point: name, stimulus, axis values, and figures with their names."""

    name: str
    stimulus: Stimulus
    axis_values: Mapping[str, Scalar]
    figures: Mapping[str, int | float | None]


def repeated_points(result: TestResult) -> Iterator[RepeatedPoint]:
    """Yield every named point of a run, with its figures over all complete repeats; none if rounds are not repeats."""
    if not result.facts.spec.rounds_are_repeats:
        return
    axis_values = {point.name: point.axis_values for point in named_points(result.facts.spec, result.facts.dut)}
    for loop in result.loops:
        measured = [point for turn in result.evaluated_rounds(loop) for point in turn.measurements]
        if measured:
            figures = {
                "repeats": len(measured),
                **_means(measured),
                **_repeat_figures(measured),
                "host_limited": result.host_limited(measured),
            }
            yield RepeatedPoint(
                name=loop.part,
                stimulus=measured[0].stimulus,
                axis_values=axis_values.get(loop.part, {}),
                figures=figures,
            )


def _repeat_figures(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return more figures of a repeated point: spread of the repeats, reads and writes, synchronizing calls."""
    rates, mixed = [point.iops for point in measured], measured[0].has_both_sides
    median, two_nines = percentiles_response_us(measured, (50.0, 99.0))
    rates = [rate for rate in rates if math.isfinite(rate)] or [math.nan]
    sync_times = [point.sync for point in measured if point.sync is not None]
    calls = sum(sync.calls for sync in sync_times)
    return {
        "minimum_iops": finite_or_none(min(rates)),
        "maximum_iops": finite_or_none(max(rates)),
        "spread_percent": spread_percent(measured),
        "read_iops": finite_or_none(mean(point.read.iops for point in measured)) if mixed else None,
        "write_iops": finite_or_none(mean(point.write.iops for point in measured)) if mixed else None,
        "median_response_us": median,
        "two_nines_response_us": two_nines,
        "sync_calls": calls or None,
        "average_sync_us": math.fsum(sync.calls * sync.mean_ns for sync in sync_times) / calls / 1000
        if calls
        else None,
        **{name: sync_percentile_us(measured, percent) if calls else None for name, percent in _SYNC.items()},
        "maximum_sync_us": max(sync.max_ns for sync in sync_times) / 1000 if calls else None,
    }


def spread_percent(measured: Sequence[Measurement]) -> float | None:
    """Return the difference of maximum and minimum IOPS of ``measured`` in percent of their mean.

    None for a single measurement, for one too short for a rate, and for a difference below the resolution of the
    engine's clock: 1 ms of the shortest measurement.
    """
    rates = [point.iops for point in measured]
    average = mean(rates)
    if len(rates) < 2 or not average > 0:
        return None
    spread, shortest_ms = 100 * (max(rates) - min(rates)) / average, min(point.runtime_ms for point in measured)
    return spread if any(point.reported is not None for point in measured) or spread * shortest_ms >= 100 else None


def _without_start(stimulus: Stimulus) -> Stimulus:
    """Return the stimulus without its start: a sequential stream starts at another offset in each round."""
    return replace(stimulus, start_bytes=0)


def _means(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the figures of a point over a window; response times are those of all its I/Os together."""
    maxima = [point.maximum_response_us for point in measured]
    cpu_loads = [point.host_cpu_percent for point in measured if point.host_cpu_percent is not None]
    return {
        "iops": finite_or_none(mean(point.iops for point in measured)),
        "mb_per_second": finite_or_none(mean(point.mb_per_second for point in measured)),
        "average_response_us": finite_or_none(average_response_us(measured)),
        "maximum_response_us": finite_or_none(max(maxima)),
        "mean_maximum_response_us": finite_or_none(mean(maxima)),
        **percentiles(measured),
        "host_cpu_percent": mean(cpu_loads) if len(cpu_loads) == len(measured) else None,
    }


def finite_or_none(value: float) -> float | None:
    """Return the number, or None for nan and infinity."""
    return value if math.isfinite(value) else None


def dut_attributes(dut: Dut) -> Mapping[str, object]:
    """Return a device with the names of result.xml; sizes that it does not report are None."""
    values = asdict(dut)
    del values["array"]  # The array has elements of its own.
    return {name: value or None if name.endswith("_bytes") else value for name, value in values.items()}


def whole_bytes_or_none(value: float) -> int | None:
    """Return an amount in whole bytes; None if it was not counted."""
    return int(value) if math.isfinite(value) else None


def measurement_figures(result: TestResult, measurement: Measurement) -> dict[str, Value]:
    """Return a stimulus and its results with the names of result.xml; None for values that were not measured.

    The seed is a text, because it exceeds the integers that a JSON number or a cell of a workbook can have.
    """
    share, timing, timed = result.host_share(measurement), measurement.timing, measurement.timed
    return {
        **stimulus_attributes(measurement.stimulus),
        "seed": str(measurement.seed) if measurement.reported is None else None,
        "iops": finite_or_none(measurement.iops),
        "mb_per_second": finite_or_none(measurement.mb_per_second),
        "average_response_us": finite_or_none(measurement.average_response_us) if timed else None,
        "maximum_response_us": finite_or_none(measurement.maximum_response_us) if timed else None,
        **percentiles([measurement]),
        **_transfers(measurement),
        "started": timing.started,
        "suite_gap_us": timing.suite_gap_us,
        "idle_gap_ms": timing.idle_gap_ms,
        "idle_ios": timing.idle_ios,
        "idle_bytes": timing.idle_bytes,
        "thread_spread_ms": timing.thread_spread_ms,
        "host_cpu_percent": measurement.host_cpu_percent,
        "engine_cpu_percent": measurement.engine_cpu_percent,
        "host_limited": share.limited if share else None,
        "evidence": measurement.evidence or None,
        "evidence_sha256": measurement.evidence_sha256 or None,
        "interruptions": timing.interruptions,
    }


def _transfers(measurement: Measurement) -> Mapping[str, int | None]:
    """Return counts and times of reads and writes; None if they were not counted."""
    sides = (("read", measurement.read), ("write", measurement.write))
    values = {
        f"{name}_{what}": value
        for name, side in sides
        for what, value in (("ios", side.ios), ("bytes", side.transferred_bytes), ("runtime_ms", side.runtime_ms))
    }
    return values if measurement.reported is None else dict.fromkeys(values)


def percentiles(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the confidence levels in us, with the names of result.xml; None if there are too few I/Os.

    They come from merged bins.  No value exceeds the maximum response time, which is known exactly.
    """
    return dict(zip(_NINES, percentiles_response_us(measured, NINES), strict=True))


def determination_figures(determination: SteadyState) -> dict[str, Value]:
    """Return the determination of a tracked variable with the names of result.xml, without the values of its rounds."""
    return {name: value for name, value in asdict(determination).items() if name != "values"}


def host_settings(prepared: PrepareOutcome) -> Iterator[dict[str, Value]]:
    """Yield the host settings of a point of a profile, as found and as read back, with the names of result.xml."""
    before = dict(prepared.before)
    for name, value in prepared.settings:
        yield {"name": name, "value": value, "before": before.get(name, "")}
