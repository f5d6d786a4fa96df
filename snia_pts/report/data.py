"""A result as tables of data for other programs: numbers with units, not rounded.

The pages of a report show rounded values; these tables have all values of the stored result with full precision.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from ..model.description import NAMES, STATED, operator_value
from ..model.measurement import Measurement
from ..model.time_series import COLUMNS, TELEMETRY_COLUMNS
from ..results.limit_checks import judgements
from ..results.points import (
    dut_attributes,
    finite_or_none,
    percentiles,
    repeated_points,
    stimulus_attributes,
    transfers,
    whole_bytes_or_none,
    window_points,
)
from ..results.result import TestResult
from ..results.tracked_series import evaluated_series
from ..results.warnings import run_warnings
from ..spec.reader import numbers
from ..text import json_values, printable

Value = str | int | float | bool | None

#: The units of fields whose names do not end with the unit.
_UNITS = {"iops": "IOPS", "mb_per_second": "MB/s"}
#: The columns that a table has even if all their values are missing: programs read them by name.
RATES = ("iops", "mb_per_second")
_ENDINGS = {"_us": "us", "_ms": "ms", "_seconds": "s", "_bytes": "bytes", "_percent": "%", "_ios": "I/Os"}
#: The characters that start a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
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


def tables(result: TestResult, *, max_samples: int | None = None) -> tuple[Data, ...]:
    """Return all tables of a result in a fixed order, without empty tables.

    A time line with more than ``max_samples`` samples is reduced to every n-th sample; the table's title says so.
    """
    all_tables = (
        _run(result),
        _specification(result),
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


def _unique_names(unnumbered: Iterable[Data]) -> Iterator[Data]:
    """Number the tables with equal names; those of different parts may be equal."""
    count: Counter[str] = Counter()
    for table in unnumbered:
        count[table.name] += 1
        yield table if count[table.name] == 1 else replace(table, name=f"{table.name}--{count[table.name]}")


def _table(name: str, title: str, rows: Iterator[Mapping[str, Value]]) -> Data:
    """Return a table of rows with equal fields, without the columns that have no value, unless they are ``RATES``."""
    all_rows = list(rows)
    fields = tuple(
        field
        for field in (all_rows[0] if all_rows else ())
        if field in RATES or any(row[field] is not None for row in all_rows)
    )
    return Data(name=name, title=title, fields=fields, rows=tuple(tuple(row[f] for f in fields) for row in all_rows))


def _run(result: TestResult) -> Data:
    facts = result.facts
    values: dict[str, Value] = {
        "run": facts.run_id,
        "test": facts.spec.test,
        "title": facts.spec.title,
        "pts": facts.spec.pts,
        "class": facts.test_class,
        "started": facts.started,
        "finished": result.finished,
        "ending": result.ending,
        "detail": result.ending_detail,
        "verdict": result.verdict,
        "conformant": result.conformant,
        "operator": facts.about.operator,
        "seed": None if facts.seed is None else str(facts.seed),
        "written_bytes": whole_bytes_or_none(result.written_bytes),
        "read_bytes": whole_bytes_or_none(result.read_bytes),
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
    return Data(name="run", title="Run", fields=("key", "value"), rows=tuple(values.items()))


def _scalars(values: Mapping[str, object]) -> dict[str, Value]:
    """Return the entries with a single value, without lists and other compound values."""
    return {key: value for key, value in values.items() if value is None or isinstance(value, str | int | float)}


def _specification(result: TestResult) -> Data:
    rows = tuple(numbers(result.facts.spec))
    return Data(name="specification", title="Parameters of the specification", fields=("key", "value"), rows=rows)


# -- steady state -----------------------------------------------------------------------------------------------------


def _windows(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for series in evaluated_series(result):
        for tracked, determination in series.window.determinations if series.window else ():
            figures = asdict(determination)
            figures.pop("values")
            yield {
                "series": series.part or series.name,
                "variable": series.label(tracked),
                "metric": tracked.metric,
                "last_round": determination.rounds[-1],
                **figures,
            }


def _rounds(result: TestResult) -> Iterator[Mapping[str, Value]]:
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


def _points(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for loop in result.loops:
        window, limited = loop.window.numbers if loop.window else (0,), result.host_limited_points(loop)
        for stimulus, figures in window_points(loop):
            yield {
                "part": loop.part,
                "first_round": window[0],
                "last_round": window[-1],
                "steady": loop.steady,
                "point": stimulus.label,
                **_scalars(stimulus_attributes(stimulus)),
                **figures,
                "host_limited": limited[stimulus],
            }


def _repeated(result: TestResult) -> Iterator[Mapping[str, Value]]:
    """Yield the repeated points, with a column for each axis, empty if a point does not use the axis."""
    for point in repeated_points(result):
        attributes = _scalars(stimulus_attributes(point.stimulus))
        attributes.pop("name", None)
        axis_values = {f"axis.{key}": point.axis_values.get(key) for key in result.facts.spec.axes}
        yield {"point": point.name, **axis_values, **attributes, **point.figures}


def _prepared(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for part, prepared in result.prepared:
        before = dict(prepared.before)
        for name, value in prepared.settings:
            yield {
                "point": part,
                "started": prepared.started,
                "setting": name,
                "value": value,
                "before": before.get(name),
            }


def _measurements(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for line in result.separate_lines:
        for measurement in line.measurements:
            yield {
                "part": line.part,
                "phase": line.phase,
                "round": None,
                "in_window": None,
                **_measured(result, measurement),
            }
    for loop in result.loops:
        window_numbers = [measured_round.number for measured_round in result.evaluated_rounds(loop)]
        for measured_round in loop.rounds:
            for measurement in measured_round.measurements:
                position: dict[str, Value] = {
                    "part": loop.part,
                    "phase": "round",
                    "round": measured_round.number,
                    "in_window": measured_round.number in window_numbers,
                }
                yield {**position, **_measured(result, measurement)}


def _measured(result: TestResult, measurement: Measurement) -> dict[str, Value]:
    share, telemetry = result.host_share(measurement), measurement.telemetry
    return {
        "point": measurement.stimulus.label,
        **_scalars(stimulus_attributes(measurement.stimulus)),
        **transfers(measurement),
        "iops": finite_or_none(measurement.iops),
        "mb_per_second": finite_or_none(measurement.mb_per_second),
        "average_response_us": finite_or_none(measurement.average_response_us) if measurement.timed else None,
        "maximum_response_us": finite_or_none(measurement.maximum_response_us) if measurement.timed else None,
        **percentiles([measurement]),
        "started": measurement.timing.started,
        "idle_gap_ms": measurement.timing.idle_gap_ms,
        "thread_spread_ms": measurement.timing.thread_spread_ms,
        "interruptions": measurement.timing.interruptions,
        "host_cpu_percent": measurement.host_cpu_percent,
        "engine_cpu_percent": measurement.engine_cpu_percent,
        "host_limited": share.limited if share else None,
        "stolen_cpu_percent": telemetry.stolen_percent if telemetry else None,
        "celsius": telemetry.celsius if telemetry else None,
        "queue": telemetry.block.queue if telemetry and telemetry.block else None,
        "evidence": measurement.evidence or None,
        "evidence_sha256": measurement.evidence_sha256 or None,
    }


def _time_lines(result: TestResult, max_samples: int | None) -> Iterator[Data]:
    for line in result.time_lines:
        label = " ".join(filter(None, (line.part, line.phase)))
        columns = {**{name: getattr(line, name) for name in (*COLUMNS, *TELEMETRY_COLUMNS)}, "iops": line.iops}
        columns["mb_per_second"] = line.mb_per_second
        stride = math.ceil(len(line) / max_samples) if max_samples and line else 1
        reduction = f", 1 of every {stride} of {len(line)} samples" if stride > 1 else ""
        fields = [name for name, values in columns.items() if name in RATES or not all(map(math.isnan, values))]
        samples = zip(*(columns[name][::stride] for name in fields), strict=True)
        rows = tuple(tuple(map(_none_for_nan, sample)) for sample in samples)
        name = f"samples-{re.sub('[^a-z0-9]+', '-', label.lower()).strip('-')}"
        yield Data(name=name, title=f"Samples: {label}{reduction}", fields=tuple(fields), rows=rows)


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


# -- forms ------------------------------------------------------------------------------------------------------------


def as_csv(data: Data) -> bytes:
    """Return a table as CSV (RFC 4180, UTF-8): a header line, then the rows; missing values are empty.

    A text that a spreadsheet would read as a formula gets a leading apostrophe, the spreadsheets' mark for text.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(data.fields)
    writer.writerows([_cell(value) for value in row] for row in data.rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        shown = printable(value)
        is_formula = unicodedata.normalize("NFKC", shown).lstrip().startswith(_FORMULA)  # also in fullwidth characters
        return f"'{shown}" if is_formula else shown
    return repr(value)


def as_json(all_tables: tuple[Data, ...]) -> bytes:
    """Return tables as one JSON document; nan and infinity are null."""
    document = {
        "format": 1,
        "tables": [
            {
                "name": data.name,
                "title": data.title,
                "fields": [{"name": field, "unit": unit(field)} for field in data.fields],
                "rows": json_values(data.rows),
            }
            for data in all_tables
        ],
    }
    return (json.dumps(document, indent=None, allow_nan=False, separators=(",", ":")) + "\n").encode()
