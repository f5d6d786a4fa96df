"""A result as tables of data for other programs: CSV, JSON and workbooks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..model.description import NAMES, STATED, operator_value
from ..model.measurement import METRICS, Measurement
from ..model.telemetry import IOSTAT_COLUMNS
from ..model.time_series import COLUMNS, TELEMETRY_COLUMNS, TimeLine
from ..spec.reader import spec_values
from .attributes import (
    Row,
    Value,
    determination_figures,
    dut_attributes,
    finite_or_none,
    host_settings,
    measurement_figures,
    repeated_points,
    run_attributes,
    specification_attributes,
    stimulus_attributes,
    tail_attributes,
    tails,
    window_points,
)
from .limit_checks import judgements
from .result import TestResult
from .tracked_series import evaluated_series
from .unsteady_points import steady_points
from .warnings import run_warnings

#: The units of fields whose names do not end with the unit.
_UNITS = {
    "iops": "IOPS",
    "mb_per_second": "MB/s",
    "ios": "I/Os",
    "seconds": "s",
    "watts": "W",
    "host_watts": "W",
    "iops_per_watt": "IOPS/W",
    "mb_per_second_per_watt": "MB/s/W",
    "iops_per_host_watt": "IOPS/W",
    "mb_per_second_per_host_watt": "MB/s/W",
    "celsius": "\N{DEGREE SIGN}C",
    **dict.fromkeys(("r/s", "w/s", "rrqm/s", "wrqm/s"), "1/s"),
    **dict.fromkeys(("rkB/s", "wkB/s"), "KiB/s"),
    **dict.fromkeys(("r_await", "w_await"), "ms"),
    "%util": "%",
}
#: The columns that a table has even if all their values are missing: programs read them by name.
RATES = ("iops", "mb_per_second")
#: The headings of fields that do not follow from their names, and of parts of the names of others.
_HEADINGS: Mapping[str, str] = {
    **{name: metric.label for name, metric in METRICS.items()},
    "finish_seconds": "Time for one pass",
    "written_gb": "Data written",
    "read_iops": "Read IOPS of mixed points",
    "write_iops": "Write IOPS of mixed points",
    "sync_99_percent_ms": "Sync calls, 99 %",
    "at": "Point or phase",
    "what": "Subject",
    "standard": "Required",
    "actual": "This run",
    "celsius": "Temperature",
    "seconds": "Duration",
    "ended_seconds": "End of the sample",
    "ended_minutes": "End of the sample",
    "watts": "Power",
    "host_watts": "Power of the CPU packages",
    "iops_per_watt": "IOPS per watt",
    "mb_per_second_per_watt": "Throughput per watt",
    "iops_per_host_watt": "IOPS per watt of the CPU packages",
    "mb_per_second_per_host_watt": "Throughput per watt of the CPU packages",
}
#: The names of metrics in figures, where space is short; other response times have their percentiles.
_SHORT_LABELS = {"iops": "IOPS", "mb_per_second": "MB/s", "average_response_ms": "ART"}
_HEADING_PARTS = {
    "two_nines": "99 %",
    "three_nines": "99.9 %",
    "four_nines": "99.99 %",
    "five_nines": "99.999 %",
    "response": "response time",
    "percent": "%",
    "iops": "IOPS",
    "ios": "I/Os",
    "sha256": "SHA-256",
    "dut": "device",
    "pts": "PTS",
    "cpu": "CPU",
    "cpus": "CPUs",
    "hba": "HBA",
    "nand": "NAND",
}
_ENDINGS = {
    "_us": "us",
    "_ms": "ms",
    "_seconds": "s",
    "_minutes": "min",
    "_bytes": "bytes",
    "_kib": "KiB",
    "_gb": "GB",
    "_percent": "%",
    "_ios": "I/Os",
}
#: The percentiles and maxima of response times in their order, and the names of their columns.
_TIMES = ("median", "two_nines", "three_nines", "four_nines", "five_nines", "maximum", "mean_maximum")
_TIME = re.compile(rf"({'|'.join(_TIMES)})(?:_response)?_us")


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


def label(field: str) -> str:
    """Return the name of a field or of a metric of key figures for readers: ``99.9 % response time``."""
    if field in _HEADINGS or field in IOSTAT_COLUMNS:  # the names of iostat are known
        return _HEADINGS.get(field, field)
    ending = next((ending for ending in _ENDINGS if field.endswith(ending) and ending != "_ios"), "")
    text = re.sub(r"\.(?=[a-z])", ": ", field.removesuffix(ending))
    text = re.sub(r"^response_(.*_percent)$", r"\1_response", text)
    for part, shown in _HEADING_PARTS.items():
        text = re.sub(rf"(?<![a-z0-9]){part}(?![a-z0-9])", shown, text)
    text = text.replace("_", " ")
    return text[:1].upper() + text[1:]


def short_label(metric: str) -> str:
    """Return the name of a metric of key figures where space is short: ``ART``, ``99.9 %``."""
    return _SHORT_LABELS.get(metric) or label(metric).removesuffix(" response time")


def heading(field: str) -> str:
    """Return a heading of a field for readers, with its unit: ``Average response time (µs)``."""
    has_no_unit = field in IOSTAT_COLUMNS or field.endswith(("iops", "ios"))
    symbol = "" if has_no_unit else unit(field).replace("us", "\N{MICRO SIGN}s")
    return f"{label(field)} ({symbol})" if symbol else label(field)


def data_tables(result: TestResult, *, max_samples: int | None = None) -> tuple[DataTable, ...]:
    """Return all tables of a result in a fixed order, without empty tables, and without columns that have no value.

    A time line with more than ``max_samples`` samples is reduced to every n-th sample; the table's title says so.
    """
    tables = [table for table in (*all_tables(result), *_sample_tables(result, max_samples)) if table.rows]
    names = unique_names(table.name for table in tables)
    return tuple(replace(_without_empty_columns(table), name=name) for table, name in zip(tables, names, strict=True))


def all_tables(result: TestResult) -> Iterator[DataTable]:
    """Yield all tables except those of samples, also empty ones; each has the same columns for all runs of a test."""
    yield _run(result)
    yield DataTable(
        name="specification",
        title="Parameters of the specification",
        fields=("key", "value"),
        rows=tuple(spec_values(result.facts.spec)),
    )
    yield _table("features", f"Device features, {STATED}", map(asdict, result.facts.about.features))
    yield _table("deviations", f"Deviations from {result.facts.spec.authority}", map(asdict, result.deviations))
    yield _table("settings", "Operator settings", map(asdict, result.facts.settings))
    yield _table("warnings", "Warnings", map(asdict, run_warnings(result)))
    yield _table("limits", "Limits", (judgement.attributes for judgement in judgements(result)))
    yield _table("windows", "Steady state determination", _windows(result))
    yield _table("rounds", "Tracked variables by round", _rounds(result))
    if result.facts.spec.rounds_are_repeats:
        yield _table("points", "Means of all repeats", _repeated(result))
    else:
        yield _table("points", "Means over the measurement window", _points(result))
    yield _table("percentiles", "Response time percentiles of reads and of writes", map(tail_attributes, tails(result)))
    yield _table("prepared", "Host settings as they were read back", _prepared(result))
    yield _table("measurements", "All measurements", _measurements(result))
    yield _table("iostat", "The block layer during all measurements, with ramps; await in ms", _iostat(result))


def unique_names(names: Iterable[str]) -> Iterator[str]:
    """Number the names that are equal; those of the samples of different parts may be equal."""
    count: Counter[str] = Counter()
    for name in names:
        count[name] += 1
        yield name if count[name] == 1 else f"{name}--{count[name]}"


def _table(name: str, title: str, rows: Iterator[Row]) -> DataTable:
    """Return a table of rows with equal fields."""
    all_rows = list(rows)
    fields = _ordered(all_rows[0]) if all_rows else ()
    return DataTable(
        name=name, title=title, fields=fields, rows=tuple(tuple(row[field] for field in fields) for row in all_rows)
    )


def _ordered(fields: Iterable[str]) -> tuple[str, ...]:
    """Put the percentiles and maxima of response times in ascending order, as in all other tables of the report."""
    names = tuple(fields)
    ranks = {name: _TIMES.index(match[1]) for name in names if (match := _TIME.fullmatch(name))}
    times = sorted(ranks, key=ranks.__getitem__)
    first = names.index(next(iter(ranks))) if ranks else 0
    return (*names[:first], *times, *(name for name in names[first:] if name not in ranks))


def _without_empty_columns(table: DataTable) -> DataTable:
    """Return a table without the columns that have no value, unless they are ``RATES``."""
    kept = [
        place
        for place, field in enumerate(table.fields)
        if field in RATES or any(row[place] is not None for row in table.rows)
    ]
    if len(kept) == len(table.fields):
        return table
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return replace(table, fields=tuple(table.fields[place] for place in kept), rows=rows)


def _run(result: TestResult) -> DataTable:
    facts = result.facts
    values: dict[str, Value] = {
        "run": facts.run_id,
        "journal_sha256": result.journal_sha256,
        **specification_attributes(result),
        **run_attributes(result),
        "command_line": " ".join(facts.command_line),
    }
    values |= {"vendor": facts.about.vendor, "nand_type": facts.about.nand_type, "hba": facts.about.hba}
    values |= {f"stated.{name}": value for name in NAMES if (value := operator_value(facts.about, name))}
    values |= {"stated.capacity": facts.about.capacity} if facts.about.capacity else {}
    values |= asdict(facts.about.sign_off) if facts.about.sign_off else {}
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
        window, steady = loop.window.numbers if loop.window else (0,), steady_points(result, loop)
        for stimulus, figures in window_points(result, loop):
            yield {
                "part": loop.part,
                "first_round": window[0],
                "last_round": window[-1],
                "steady": steady.get(stimulus),
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
            "power_source": telemetry.power.source if telemetry and telemetry.power else None,
        }


def _iostat(result: TestResult) -> Iterator[Row]:
    for position, measurement in placed_measurements(result):
        telemetry = measurement.telemetry
        if telemetry is None or (block := telemetry.block or telemetry.underlying) is None:
            continue
        yield {
            **position,
            "point": measurement.stimulus.label,
            "device": block.device,
            "seconds": telemetry.seconds,
            **{column: finite_or_none(value) for column, value in block.iostat(telemetry.seconds).items()},
            "evidence": measurement.evidence,
        }


def placed_measurements(result: TestResult) -> Iterator[tuple[Row, Measurement]]:
    """Yield every measurement with its part, phase and round, in the order of their starts.

    It is the order of the table ``measurements``.
    """
    timings = ((placed, placed[1].timing) for placed in _placed(result))
    ordered = sorted(timings, key=lambda item: (item[1].interruptions, item[1].started_monotonic_ns))
    yield from (placed for placed, _ in ordered)


def _placed(result: TestResult) -> Iterator[tuple[Row, Measurement]]:
    for line in result.separate_lines:
        for measurement in line.measurements:
            yield {"part": line.part, "phase": line.phase, "round": None, "in_window": None}, measurement
    for loop in result.loops:
        numbers = {measured.number for measured in result.evaluated_rounds(loop)}
        for measured in loop.rounds:
            position: Row = {"round": measured.number, "in_window": measured.number in numbers}
            for measurement in measured.measurements:
                yield {"part": loop.part, "phase": "round", **position}, measurement


def _sample_tables(result: TestResult, max_samples: int | None) -> Iterator[DataTable]:
    for line in result.time_lines:
        label = " ".join(filter(None, (line.part, line.phase)))
        stride = math.ceil(len(line) / max_samples) if max_samples and line else 1
        reduction = f", 1 of every {stride} of {len(line)} samples" if stride > 1 else ""
        columns = sample_columns(line)
        fields = tuple(name for name in _ordered(columns) if name in RATES or not all(map(math.isnan, columns[name])))
        samples = zip(*(columns[name][::stride] for name in fields), strict=True)
        rows = tuple(tuple(map(finite_or_none, sample)) for sample in samples)
        yield DataTable(name=samples_name(line), title=f"Samples: {label}{reduction}", fields=fields, rows=rows)


def samples_name(line: TimeLine) -> str:
    """Return the name of the table of a time line: ``samples-stimulus``."""
    return f"samples-{re.sub('[^a-z0-9]+', '-', f'{line.part} {line.phase}'.lower()).strip('-')}"


def sample_columns(line: TimeLine) -> dict[str, Sequence[float]]:
    """Return the columns of a time line by name, with nan for missing values."""
    columns = {name: getattr(line, name) for name in (*COLUMNS, *TELEMETRY_COLUMNS)}
    return {**columns, "iops": line.iops, "mb_per_second": line.mb_per_second}
