"""The tables of a profile's report: points, repeats, matrices, synchronizing calls, effects of settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model.measurement import Measurement, mean
from ...model.steps import Stimulus
from ...report.figures.matrices import HOST_LIMITED, average_response_ms, foot, iops, marked, matrix_tables
from ...report.pages import Prose
from ...report.sections.provenance import io_engine
from ...report.tables import (
    NOT_APPLICABLE,
    Column,
    Table,
    aligned,
    extremes,
    facts,
    number_columns,
    significant,
    thousands,
)
from ...results.comparison import CONFIDENCE_PERCENT, difference
from ...results.key_figures import KeyFigure
from ...spec import Scalar
from ..procedure import points
from ..spec import Axis
from .points import Family, PlacedPoint, ProfileResult, Reduction, axis_name, few_ios_note, grid, side, value_label
from .reductions import FIGURES, FINISH, PASSES, SIDES, SYNCS, clock_digits, rate_texts, side_response_ms, spread

_NAME_WIDTH = 34
#: The ends of the headings of rates.
_RATES = ("IOPS", "MB/s")
#: With four decimals, a shorter time has less than three digits.
_SHORTEST_IN_MS = 0.01
#: The most repeats with a column each.
_MAX_REPEATS = 6
#: The most rows in a table of a setting's effect on each point; beyond that, only the medians are shown.
_MAX_EFFECTS = 40
#: The most values of an option that are listed.
_MAX_ALTERNATIVES = 4


def points_table(placed: Sequence[PlacedPoint], title: str) -> Table:
    """Return the table of points, one per row.

    It has the spread of the repeats if there are several, the time of a pass if a point ends after one, and the number
    of passes if one was too short.
    """
    has_passes = any(spot.point.stimulus.passes for spot in placed)
    columns = (
        *((FINISH,) if has_passes else ()),
        *((PASSES,) if has_repeated_passes(placed) else ()),
        *FIGURES[:1],
        *((("Spread (%)", spread),) if has_repeats(placed) else ()),
        *FIGURES[1:],
    )
    return _table(placed, columns, title)


def has_repeats(placed: Iterable[PlacedPoint]) -> bool:
    """Return whether a point has several repeats."""
    return any(len(spot.measured) > 1 for spot in placed)


def has_repeated_passes(placed: Iterable[PlacedPoint]) -> bool:
    """Return whether a point has several passes over its range in a repeat."""
    return any((item.stimulus.passes or 0) > 1 for spot in placed for item in spot.measured)


def sides_table(placed: Sequence[PlacedPoint]) -> Iterator[Table]:
    """Yield the table of mixed points, with reads and writes in separate columns."""
    mixed = [spot for spot in placed if spot.measured[0].has_both_sides]
    if mixed:
        times: tuple[tuple[str, Reduction], ...] = (
            ("Read avg. response (ms)", lambda measured: side_response_ms(measured, "read")),
            ("Write avg. response (ms)", lambda measured: side_response_ms(measured, "write")),
        )
        yield _table(mixed, (*SIDES, *times), "Reads and writes of mixed points")


def sync_table(placed: Sequence[PlacedPoint]) -> Table:
    """Return the table of synchronizing calls."""
    return _table(placed, SYNCS, "Time of fsync and fdatasync, all repeats combined")


def _table(placed: Sequence[PlacedPoint], figures: Sequence[tuple[str, Reduction]], title: str) -> Table:
    """Return a table with a row for each point and a column for each figure."""
    values = dict(_scaled({heading: [figure(spot.measured) for spot in placed] for heading, figure in figures}))
    digits = [clock_digits(spot.measured) for spot in placed]
    cells = [_texts(heading, numbers, digits) for heading, numbers in values.items()]
    rows = tuple((_marked_name(spot), *row) for spot, *row in zip(placed, *cells, strict=True))
    width = (100 - _NAME_WIDTH) // len(figures)
    columns = (
        Column(heading="Point", width=_NAME_WIDTH),
        *(Column(heading=heading, align="right", width=width) for heading in values),
    )
    return Table(kind="numbers", columns=columns, rows=rows, title=title)


def _texts(heading: str, numbers: Sequence[float], digits: Sequence[int]) -> tuple[str, ...]:
    """Return the cells of a column; rates have at most the ``digits`` that the clock supports."""
    if heading.endswith(_RATES):
        return rate_texts(numbers, digits)
    if heading == PASSES[0]:
        return aligned(numbers, most=0)
    if heading.startswith(FINISH[0].partition(" (")[0]):
        return aligned(numbers, digits=5 if heading.endswith("(s)") else 3)
    return significant(numbers) if heading.endswith("s)") else aligned(numbers)


def _scaled(columns: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield columns with their headings, those of ms with a unit in which their numbers have enough digits.

    All are in us if one would have less than three significant digits; the time of a pass is in s from 1 s on.
    """
    shortest = {
        heading: min((value for value in values if math.isfinite(value) and value > 0), default=math.inf)
        for heading, values in columns.items()
        if "(ms)" in heading
    }
    for heading, values in columns.items():
        if heading == FINISH[0] and 1000 <= shortest[heading] < math.inf:
            yield heading.replace("(ms)", "(s)"), [value / 1000 for value in values]
        elif heading in shortest and min(shortest.values()) < _SHORTEST_IN_MS:
            yield heading.replace("(ms)", "(\N{MICRO SIGN}s)"), [1000 * value for value in values]
        else:
            yield heading, values


def _marked_name(spot: PlacedPoint) -> str:
    return marked(_mark(spot), spot.point.name)


def _mark(spot: PlacedPoint) -> str:
    return HOST_LIMITED if spot.host_limited else ""


def footnote(placed: Sequence[PlacedPoint]) -> Iterator[Prose]:
    """Yield the footnotes of tables with host-limited points, and with points that repeat a pass of few I/Os."""
    for text in (foot(list(map(_mark, placed))), few_ios_note(placed)):
        if text:
            yield Prose(text=text)


def repeats_table(placed: Sequence[PlacedPoint]) -> Iterator[Table]:
    """Yield the table of each repeat's IOPS, if there are several repeats."""
    repeats = max((len(spot.measured) for spot in placed), default=0)
    if repeats < 2:
        return
    iops_of_points = [[measured.iops for measured in spot.measured] for spot in placed]
    if repeats <= _MAX_REPEATS:
        headings = [f"Repeat {number}" for number in range(1, repeats + 1)]
        shown = [values + [math.nan] * (repeats - len(values)) for values in iops_of_points]
    else:
        headings = ["Minimum", "Median", "Maximum"]
        shown = [list(extremes(values)) for values in iops_of_points]
    headings += ["Mean", "Std. deviation"]
    spreads = [spread(spot.measured) for spot in placed]
    shown = [
        [*row, mean(values), statistics.stdev(values) if math.isfinite(percent) else math.nan]
        for row, values, percent in zip(shown, iops_of_points, spreads, strict=True)
    ]
    count, digits = len(headings), [clock_digits(spot.measured) for spot in placed]
    texts = rate_texts([value for row in shown for value in row], [most for most in digits for _ in range(count)])
    spread_texts = aligned(spreads, digits=2)
    rows = tuple(
        (_marked_name(spot), *texts[count * number : count * number + count], spread_texts[number])
        for number, spot in enumerate(placed)
    )
    width = (100 - _NAME_WIDTH) // (count + 1)
    columns = (
        Column(heading="Point", width=_NAME_WIDTH),
        *(Column(heading=heading, align="right", width=width) for heading in (*headings, "Spread (%)")),
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="IOPS of each repeat")


def matrices_of(placed: Sequence[PlacedPoint], down: Axis, across: Axis, first: str) -> Iterator[Table]:
    """Yield a matrix of a series over two axes for each figure; the figure with the heading ``first`` comes first."""
    has_repeats = any(len(spot.measured) > 1 for spot in placed)
    figures = [*FIGURES[:3], *([("Spread of IOPS (%)", spread)] if has_repeats else [])]
    figures.sort(key=lambda figure: figure[0] != first)
    limited = grid([spot for spot in placed if spot.host_limited], down, across, iops)
    marks = dict.fromkeys(limited, HOST_LIMITED)
    for heading, figure in figures:
        values = grid(placed, down, across, figure)
        if any(map(math.isfinite, values.values())):
            right = side(across, placed)
            title = f"{heading} (columns: {right.title[:1].lower()}{right.title[1:]})"
            digits = grid(placed, down, across, clock_digits) if heading in _RATES else {}
            yield from matrix_tables(values, side(down, placed), right, title=title, marks=marks, digits=digits)


def extremes_table(placed: Sequence[PlacedPoint]) -> Table:
    """Return the table of each workload's range: for profiles of many points."""
    grouped: dict[str, list[PlacedPoint]] = {}
    for spot in placed:
        grouped.setdefault(spot.point.workload.name, []).append(spot)
    (_, rate), (_, throughput), (_, average) = FIGURES[:3]
    ranges = [
        [end for figure in (rate, throughput, average) for end in extremes(map(figure, points))[::2]]
        for points in ([spot.measured for spot in group] for group in grouped.values())
    ]
    headings = tuple(f"{name}, {end}" for name in ("IOPS", "MB/s", "Average response (ms)") for end in ("min.", "max."))
    scaled = dict(_scaled(dict(zip(headings, zip(*ranges, strict=True), strict=True))))
    digits = [clock_digits(measured for spot in group for measured in spot.measured) for group in grouped.values()]
    *rates, shortest, longest = scaled.values()
    averages = map(significant, (shortest, longest))
    cells = list(zip(*(rate_texts(values, digits) for values in rates), *averages, strict=True))
    columns = (Column(heading="Workload", width=22), *number_columns({"Points": 18, **dict.fromkeys(scaled, 10)}))
    counts = (_rated_count([spot.measured for spot in group]) for group in grouped.values())
    rows = tuple((name, count, *row) for name, count, row in zip(grouped, counts, cells, strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Workloads: minimum and maximum of all points")


def _rated_count(measured: Sequence[Sequence[Measurement]]) -> str:
    """Return the number of points, and how many of them have a rate: ``5``, ``5 (1 with a rate)``."""
    rated = sum(math.isfinite(iops(repeats)) for repeats in measured)
    return str(len(measured)) if rated == len(measured) else f"{len(measured)} ({rated} with a rate)"


def options_table(result: ProfileResult, placed: Sequence[PlacedPoint]) -> Iterator[Table]:
    """Yield the table of each workload's I/O engine and options of fio, if a workload has any.

    Workloads with the same ones share a row.
    """
    if not any(spot.measured[0].stimulus.options for spot in placed):
        return
    stimuli: dict[str, list[Stimulus]] = {}
    for spot in placed:
        stimuli.setdefault(spot.point.workload.name, []).append(spot.measured[0].stimulus)
    names_by_text: dict[str, list[str]] = {}
    for name, workload_stimuli in stimuli.items():
        engines = dict.fromkeys(io_engine(stimulus, result.facts.platform.io_engine) for stimulus in workload_stimuli)
        values: dict[str, dict[str, None]] = {}
        for key, value in (option for stimulus in workload_stimuli for option in stimulus.options):
            values.setdefault(key, {})[value] = None
        options = " ".join(f"{key}={_alternatives(list(distinct))}" for key, distinct in values.items())
        text = f"{_alternatives(list(engines))}; options: {options or 'none'}"
        names_by_text.setdefault(text, []).append(name)
    rows = ((", ".join(names), text) for text, names in names_by_text.items())
    yield facts(rows, title="I/O engine and options of fio")


def _alternatives(values: Sequence[str]) -> str:
    """Return values joined by ``or``; of many, the first and the last one."""
    if len(values) > _MAX_ALTERNATIVES:
        return f"{values[0]} ... {values[-1]} ({len(values)} values)"
    return " or ".join(values)


# -- effects of settings ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one value of an axis on a point, compared with the axis' first value, all else equal."""

    at: str
    value: str
    base: PlacedPoint
    other: PlacedPoint

    @property
    def factor(self) -> float:
        """Return the IOPS with the value divided by the IOPS with the first value."""
        before = iops(self.base.measured)
        return iops(self.other.measured) / before if before else math.nan

    def cells(self) -> tuple[str, str, str]:
        """Return factor, difference and its interval, as texts."""
        change = difference(_figure(self.base), _figure(self.other))
        if change is None or not math.isfinite(change.percent):
            return (NOT_APPLICABLE,) * 3
        percent = f"{'* ' if change.significant else ''}{change.percent:+.1f}"
        return thousands(self.factor, 3), percent, change.interval_text("repeat")


def _figure(spot: PlacedPoint) -> KeyFigure:
    rounds = tuple(measurement.iops for measurement in spot.measured)
    return KeyFigure(metric="iops", at=spot.point.name, unit="IOPS", value=mean(rounds), better="more", rounds=rounds)


def effects(family: Family, axis: Axis) -> Iterator[Effect]:
    """Yield the effect of each further value of an axis on each point of a family, all other axes being equal."""
    grouped: dict[tuple[object, ...], dict[Scalar, PlacedPoint]] = {}
    others = [item.key for item in family.axes if item.key != axis.key]
    for spot in family.spots:
        axis_values = spot.point.axis_values
        key = (spot.point.workload.name, spot.point.zone, *(axis_values[other] for other in others))
        grouped.setdefault(key, {})[axis_values[axis.key]] = spot
    for (name, zone, *values), by_value in grouped.items():
        words = [value_label(key, value) for key, value in zip(others, values, strict=True)]  # type: ignore[arg-type]
        at = ", ".join([str(name), *words, *([f"zone {zone}"] if zone else [])])
        base, *rest = axis.values
        if base in by_value:
            for value in rest:
                if value in by_value:
                    yield Effect(at=at, value=value_label(axis.key, value), base=by_value[base], other=by_value[value])


def effect_tables(family: Family, axis: Axis) -> Iterator[Table]:
    """Yield the tables of an axis' effect: on each point, or if these are many, on all together."""
    entries = list(effects(family, axis))
    if not entries:
        return
    base = value_label(axis.key, axis.values[0])
    if len(entries) <= _MAX_EFFECTS:
        yield _each_effect(entries, f"{axis_name(axis)}: each point, compared with {base}")
    grouped: dict[str, list[float]] = {}
    for entry in entries:
        grouped.setdefault(entry.value, []).append(entry.factor)
    if len(entries) > len(grouped):
        columns = (
            Column(heading="Value", width=34),
            Column(heading="Points", align="right", width=10),
            *(
                Column(heading=heading, align="right", width=14)
                for heading in ("Median factor", "Minimum", "Maximum", "Points with more IOPS")
            ),
        )
        rows = tuple(
            (
                value,
                str(len(factors)),
                *(thousands(extremes(factors)[index], 3) for index in (1, 0, 2)),
                str(sum(factor > 1 for factor in factors)),
            )
            for value, factors in grouped.items()
        )
        yield Table(kind="numbers", columns=columns, rows=rows, title=f"{axis_name(axis)}: IOPS relative to {base}")


def _each_effect(entries: Sequence[Effect], title: str) -> Table:
    columns = (
        Column(heading="Point", width=24),
        Column(heading="With", width=20),
        *number_columns(
            {
                "IOPS before": 10,
                "IOPS after": 10,
                "Factor": 9,
                "Diff. (%)": 10,
                "Interval (%)": 15,
                "Avg. response before (ms)": 10,
                "Avg. response after (ms)": 10,
            }
        ),
    )
    compared = [spot.measured for entry in entries for spot in (entry.base, entry.other)]
    rates = rate_texts(list(map(iops, compared)), list(map(clock_digits, compared)))
    times = aligned(list(map(average_response_ms, compared)))
    rows = tuple(
        (entry.at, entry.value, *rates[start : start + 2], *entry.cells(), *times[start : start + 2])
        for start, entry in zip(range(0, 2 * len(entries), 2), entries, strict=True)
    )
    return Table(kind="numbers", columns=columns, rows=rows, title=title)


EXPLAINED = (
    "Factor: IOPS with the value divided by IOPS with the axis' first value, all else being equal. The interval is the "
    f"{CONFIDENCE_PERCENT:g} % confidence interval of the difference of two means, from the repeats (Welch), in "
    "percent; an asterisk marks intervals that exclude 0. With fewer than three repeats there is no "
    "interval. Each point is evaluated separately."
)


# -- the host ---------------------------------------------------------------------------------------------------------


def host_table(result: ProfileResult) -> Iterator[Table]:
    """Yield the table of the host settings that the profile varied: requested, read back, and original values."""
    requested = {point: dict(settings) for point, settings in _requested_settings(result).items()}
    parts_by_setting: dict[tuple[str, str, str], list[str]] = {}
    original: dict[str, str] = {}
    for part, prepared in result.prepared:
        for name, before in prepared.before:
            original.setdefault(name, before)
        for name, value in prepared.settings:
            parts_by_setting.setdefault((name, requested.get(part, {}).get(name, value), value), []).append(part)
    if not parts_by_setting:
        return
    columns = (
        Column(heading="Setting", width=16),
        Column(heading="Requested", width=16),
        Column(heading="Read back", width=18),
        Column(heading="Before the first point", width=20),
        Column(heading="Times set", align="right", width=10),
        Column(heading="Points", align="right", width=10),
    )
    rows = tuple(
        (name, setpoint, value, original.get(name, ""), str(len(parts)), str(len(set(parts))))
        for (name, setpoint, value), parts in parts_by_setting.items()
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="Host settings, read back before each point")


def _requested_settings(result: ProfileResult) -> Mapping[str, tuple[tuple[str, str], ...]]:
    return {point.name: point.settings for point in points(result.facts.spec, result.facts.dut)}
