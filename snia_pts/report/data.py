"""A result as tables of data: what other programs calculate with.  Numbers stay numbers, each with its unit.

What a page shows is rounded and set for readers; this is everything, to the last bit, from the same stored result.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from ..analysis.window import Judged, Window
from ..model.description import AS_TOLD, NAMES
from ..model.description import told as people
from ..model.measurement import Measurement
from ..model.time_series import COLUMNS, VITALS
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
from ..results.result import Loop, TestResult
from ..spec import ProfileSpec, Tracked, loop_rule, settling_rule
from ..spec.reader import numbers
from ..text import printable
from .sections.steady_state import tracking

Value = str | int | float | bool | None

#: The units of what does not end with its unit.
_UNITS = {"iops": "IOPS", "mb_per_second": "MB/s"}
#: The columns that a table keeps where all their values are missing: programs read them by name.
RATES = ("iops", "mb_per_second")
_ENDINGS = {"_us": "us", "_ms": "ms", "_seconds": "s", "_bytes": "bytes", "_percent": "%", "_ios": "I/Os"}
#: What begins a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A table of data: the names of its columns (as in result.xml), and rows of just as many values.

    None is a value that was not measured, or that has no meaning there.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.fields) for row in self.rows):
            raise ValueError(f"table {self.name}: every row has {len(self.fields)} values")

    def column(self, field: str) -> int:
        """Return which column a field is, from 0; raises ValueError for one that is none."""
        return self.fields.index(field)


def unit(field: str) -> str:
    """Return the unit that a field's name tells of; empty where it has none."""
    return _UNITS.get(field) or next((told for ending, told in _ENDINGS.items() if field.endswith(ending)), "")


def tables(result: TestResult, *, most_samples: int | None = None) -> tuple[Data, ...]:
    """Return all of a result, in a fixed order; tables without rows are left out.

    A time line with more than ``most_samples`` samples gives every n-th sample to its table, whose title says so.
    """
    found = (
        _run(result),
        _specification(result),
        _of("features", f"Features of the device, {AS_TOLD}", map(asdict, result.facts.about.features)),
        _of("deviations", f"Deviations from {result.facts.spec.authority}", map(asdict, result.deviations)),
        _of("settings", "Settings that the standard leaves to the operator", map(asdict, result.facts.settings)),
        _of("warnings", "Warnings", map(asdict, result.warnings)),
        _of("limits", "Limits", (each.told for each in judgements(result))),
        _of("windows", "Steady state determination", _windows(result)),
        _of("rounds", "Tracked variables by round", _rounds(result)),
        _of("points", "Means over the measurement window", _points(result)),
        _of("points", "Means of all repeats", _repeated(result)),
        _of("prepared", "Host settings as they were read back", _prepared(result)),
        _of("measurements", "All measurements", _measurements(result)),
        *_time_lines(result, most_samples),
    )
    return tuple(_told_apart(each for each in found if each.rows))


def _told_apart(found: Iterable[Data]) -> Iterator[Data]:
    """Number the tables whose names are the same, as those of parts may be."""
    count: Counter[str] = Counter()
    for each in found:
        count[each.name] += 1
        yield each if count[each.name] == 1 else replace(each, name=f"{each.name}--{count[each.name]}")


def _of(name: str, title: str, rows: Iterator[Mapping[str, Value]]) -> Data:
    """Return rows that all have the same fields as a table; a column without any value is left out, a rate's is not."""
    listed = list(rows)
    fields = tuple(
        field
        for field in (listed[0] if listed else ())
        if field in RATES or any(row[field] is not None for row in listed)
    )
    return Data(name=name, title=title, fields=fields, rows=tuple(tuple(row[f] for f in fields) for row in listed))


def _run(result: TestResult) -> Data:
    facts = result.facts
    told: dict[str, Value] = {
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
    told |= {"vendor": facts.about.vendor, "nand_type": facts.about.nand_type, "hba": facts.about.hba}
    told |= {f"told.{name}": value for name in NAMES if (value := people(facts.about, name))}
    told |= {"told.capacity": facts.about.capacity} if facts.about.capacity else {}
    told |= {f"note.{place}": text for place, text in enumerate(facts.about.notes, start=1)}
    owners = [("dut", dut_attributes(facts.dut)), ("platform", asdict(facts.platform))]
    owners += [("imported", asdict(facts.imported))] if facts.imported else []
    for owner, values in owners:
        told |= {f"{owner}.{key}": value for key, value in _plain(values).items()}
    return Data(name="run", title="Run", fields=("key", "value"), rows=tuple(told.items()))


def _plain(values: Mapping[str, object]) -> dict[str, Value]:
    """Leave out what is no single value."""
    return {key: value for key, value in values.items() if value is None or isinstance(value, str | int | float)}


def _specification(result: TestResult) -> Data:
    rows = tuple(numbers(result.facts.spec))
    return Data(name="specification", title="Numbers of the specification", fields=("key", "value"), rows=rows)


# -- steady state -----------------------------------------------------------------------------------------------------


def judged(
    result: TestResult,
) -> Iterator[tuple[str, tuple[Judged, ...], tuple[tuple[Tracked, str], ...], Window | None]]:
    """Give each series that steady state was judged on: its name, rounds, tracked variables with labels, window."""
    found = [*((result.sampling,) if result.sampling else ()), *result.loops]
    for each in found:
        rule = loop_rule(result.facts.spec) if isinstance(each, Loop) else settling_rule(result.facts.spec)
        finite_or_none = tracking(result, each) if rule else None
        if rule and finite_or_none and finite_or_none.rounds and finite_or_none.stimuli:
            labels = tuple((tracked, finite_or_none.label(tracked)) for tracked in rule.tracked)
            yield finite_or_none.part or finite_or_none.name, finite_or_none.rounds, labels, each.window


def _windows(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for name, _, labels, window in judged(result):
        for tracked, determination in window.determinations if window else ():
            figures = asdict(determination)
            figures.pop("values")
            yield {
                "series": name,
                "variable": dict(labels)[tracked],
                "metric": tracked.metric,
                "last_round": determination.rounds[-1],
                **figures,
            }


def _rounds(result: TestResult) -> Iterator[Mapping[str, Value]]:
    for name, rounds, labels, window in judged(result):
        inside = set(window.numbers) if window else set()
        for each in rounds:
            for tracked, label in labels:
                yield {
                    "series": name,
                    "round": each.number,
                    "in_window": each.number in inside,
                    "variable": label,
                    "metric": tracked.metric,
                    "value": each.value(tracked),
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
                **_plain(stimulus_attributes(stimulus)),
                **figures,
                "host_limited": limited[stimulus],
            }


def _repeated(result: TestResult) -> Iterator[Mapping[str, Value]]:
    """The points of a profile; a column for each axis, empty where a workload does not go through it."""
    spec = result.facts.spec
    axes = [axis.key for axis in spec.axis] if isinstance(spec, ProfileSpec) else []
    for each in repeated_points(result):
        told = {key: value for key, value in _plain(stimulus_attributes(each.stimulus)).items() if key != "name"}
        yield {"point": each.name, **{f"axis.{key}": each.place.get(key) for key in axes}, **told, **each.figures}


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
    for line in result.lines_apart:
        for measurement in line.measurements:
            yield {
                "part": line.part,
                "phase": line.phase,
                "round": None,
                "in_window": None,
                **_measured(result, measurement),
            }
    for loop in result.loops:
        inside = [each.number for each in result.counted(loop)]
        for each in loop.rounds:
            for measurement in each.measurements:
                where: dict[str, Value] = {
                    "part": loop.part,
                    "phase": "round",
                    "round": each.number,
                    "in_window": each.number in inside,
                }
                yield {**where, **_measured(result, measurement)}


def _measured(result: TestResult, measurement: Measurement) -> dict[str, Value]:
    share, vitals = result.host_share(measurement), measurement.vitals
    return {
        "point": measurement.stimulus.label,
        **_plain(stimulus_attributes(measurement.stimulus)),
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
        "stolen_cpu_percent": vitals.stolen_percent if vitals else None,
        "celsius": vitals.celsius if vitals else None,
        "queue": vitals.block.queue if vitals and vitals.block else None,
        "evidence": measurement.evidence or None,
        "evidence_sha256": measurement.evidence_sha256 or None,
    }


def _time_lines(result: TestResult, most_samples: int | None) -> Iterator[Data]:
    for line in result.time_lines:
        words = " ".join(filter(None, (line.part, line.phase)))
        columns = {**{name: getattr(line, name) for name in (*COLUMNS, *VITALS)}, "iops": line.iops}
        columns["mb_per_second"] = line.mb_per_second
        stride = math.ceil(len(line) / most_samples) if most_samples and line else 1
        shown = f", 1 of every {stride} of {len(line)} samples" if stride > 1 else ""
        kept = [name for name, values in columns.items() if name in RATES or not all(map(math.isnan, values))]
        rows = tuple(tuple(map(_known, row)) for row in zip(*(columns[name][::stride] for name in kept), strict=True))
        name = f"samples-{re.sub('[^a-z0-9]+', '-', words.lower()).strip('-')}"
        yield Data(name=name, title=f"Samples: {words}{shown}", fields=tuple(kept), rows=rows)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


# -- forms ------------------------------------------------------------------------------------------------------------


def as_csv(data: Data) -> bytes:
    """Return a table as CSV (RFC 4180, UTF-8): a line of names, then the rows; what was not measured is empty.

    A text that a spreadsheet would take for a formula is led by an apostrophe, as spreadsheets mark text.
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
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return repr(value)


def as_json(found: tuple[Data, ...]) -> bytes:
    """Return tables as one JSON document; a number that is none is null."""
    told = {
        "format": 1,
        "tables": [
            {
                "name": data.name,
                "title": data.title,
                "fields": [{"name": field, "unit": unit(field)} for field in data.fields],
                "rows": [[_finite(value) for value in row] for row in data.rows],
            }
            for data in found
        ],
    }
    return (json.dumps(told, indent=None, allow_nan=False, separators=(",", ":")) + "\n").encode()


def _finite(value: Value) -> Value:
    if isinstance(value, str):
        return printable(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
