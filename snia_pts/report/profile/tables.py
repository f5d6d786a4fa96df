"""The tables of a profile's report: points, repeats, matrices, synchronizing calls, what settings make of points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model.measurement import mean
from ...results.comparison import CONFIDENCE_PERCENT, difference
from ...results.key_figures import KeyFigure
from ...results.result import TestResult
from ...spec import Axis, Scalar
from ..figures.matrices import average_response_ms, iops, matrix_tables
from ..tables import NOT_APPLICABLE, Column, Table, aligned, extremes, thousands
from .points import Family, PlacedPoint, Reduction, axis_name, grid, profile_spec, side, spoken_at
from .reductions import FIGURES, SIDES, SYNCS, side_response_ms, spread

_NAME_WIDTH = 34
#: So many repeats have a column each.
_MOST_REPEATS = 6
#: A table of what a setting makes of each point has so many rows at most; of more, the middle is told.
_MOST_EFFECTS = 40


def points_table(found: Sequence[PlacedPoint], title: str) -> Table:
    """Return the table of points: a row each, with the spread of the repeats where there are several."""
    several = any(len(spot.measured) > 1 for spot in found)
    columns = (*FIGURES[:1], *((("Spread (%)", spread),) if several else ()), *FIGURES[1:])
    return _table(found, columns, title)


def sides_table(found: Sequence[PlacedPoint]) -> Iterator[Table]:
    """Give the table of mixed points, reads and writes apart."""
    mixed = [spot for spot in found if 0 < spot.point.workload.read_percent < 100]
    if mixed:
        times: tuple[tuple[str, Reduction], ...] = (
            ("Read avg. (ms)", lambda measured: side_response_ms(measured, "read")),
            ("Write avg. (ms)", lambda measured: side_response_ms(measured, "write")),
        )
        yield _table(mixed, (*SIDES, *times), "Reads and writes of mixed points")


def sync_table(found: Sequence[PlacedPoint]) -> Table:
    """Return the table of synchronizing calls."""
    return _table(found, SYNCS, "Time of fsync and fdatasync, all repeats together")


def _table(found: Sequence[PlacedPoint], told: Sequence[tuple[str, Reduction]], title: str) -> Table:
    """Return a table with a row for each point and a column for each figure."""
    cells = [aligned([figure(spot.measured) for spot in found]) for _, figure in told]
    rows = tuple((spot.point.name, *row) for spot, *row in zip(found, *cells, strict=True))
    width = (100 - _NAME_WIDTH) // len(told)
    columns = (
        Column(heading="Point", width=_NAME_WIDTH),
        *(Column(heading=heading, align="right", width=width) for heading, _ in told),
    )
    return Table(kind="numbers", columns=columns, rows=rows, title=title)


def repeats_table(found: Sequence[PlacedPoint]) -> Iterator[Table]:
    """Give the table of what each repeat came to, where there are several."""
    most = max((len(spot.measured) for spot in found), default=0)
    if most < 2:
        return
    each = [[measured.iops for measured in spot.measured] for spot in found]
    if most <= _MOST_REPEATS:
        heads = [f"Repeat {number}" for number in range(1, most + 1)]
        shown = [values + [math.nan] * (most - len(values)) for values in each]
    else:
        heads = ["Least", "Median", "Greatest"]
        shown = [list(extremes(values)) for values in each]
    heads += ["Mean", "Std. deviation"]
    apart = [spread(spot.measured) for spot in found]
    shown = [
        [*row, mean(values), statistics.stdev(values) if math.isfinite(lies_apart) else math.nan]
        for row, values, lies_apart in zip(shown, each, apart, strict=True)
    ]
    texts, spreads = aligned([value for row in shown for value in row]), aligned(apart, digits=2)
    wide = len(heads)
    rows = tuple(
        (spot.point.name, *texts[wide * number : wide * number + wide], spreads[number])
        for number, spot in enumerate(found)
    )
    width = (100 - _NAME_WIDTH) // (wide + 1)
    columns = (
        Column(heading="Point", width=_NAME_WIDTH),
        *(Column(heading=heading, align="right", width=width) for heading in (*heads, "Spread (%)")),
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="IOPS of each repeat")


def matrices_of(found: Sequence[PlacedPoint], down: Axis, across: Axis, first: str) -> Iterator[Table]:
    """Give the tables of a series over two axes: a matrix for each figure, that with the heading ``first`` before."""
    several = any(len(spot.measured) > 1 for spot in found)
    told = [*FIGURES[:3], *([("Spread of IOPS (%)", spread)] if several else [])]
    told.sort(key=lambda each: each[0] != first)
    for heading, figure in told:
        values = grid(found, down, across, figure)
        if any(map(math.isfinite, values.values())):
            right = side(across, found)
            title = f"{heading} (to the right: {right.title[:1].lower()}{right.title[1:]})"
            yield from matrix_tables(values, side(down, found), right, title=title)


def extremes_table(found: Sequence[PlacedPoint]) -> Table:
    """Return the table of each workload's range: for profiles of many points."""
    columns = (
        Column(heading="Workload", width=30),
        *(
            Column(heading=heading, align="right", width=width)
            for heading, width in (
                ("Points", 8),
                ("IOPS, least", 12),
                ("IOPS, most", 12),
                ("MB/s, least", 12),
                ("MB/s, most", 12),
                ("Average (ms), least", 14),
            )
        ),
    )
    grouped: dict[str, list[PlacedPoint]] = {}
    for spot in found:
        grouped.setdefault(spot.point.workload.name, []).append(spot)
    (_, rate), (_, moved), (_, average) = FIGURES[:3]
    told = [
        (*extremes(map(rate, its))[::2], *extremes(map(moved, its))[::2], extremes(map(average, its))[0])
        for its in ([spot.measured for spot in group] for group in grouped.values())
    ]
    cells = list(zip(*(aligned(column) for column in zip(*told, strict=True)), strict=True))
    rows = tuple((name, str(len(group)), *row) for (name, group), row in zip(grouped.items(), cells, strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Workloads, over all their points")


# -- what a setting makes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one value of a choice makes of a point, all else being equal: against the choice's first value."""

    at: str
    value: str
    base: PlacedPoint
    other: PlacedPoint

    @property
    def factor(self) -> float:
        """The IOPS with it by the IOPS with the first value."""
        before = iops(self.base.measured)
        return iops(self.other.measured) / before if before else math.nan

    def cells(self) -> tuple[str, str, str]:
        """Return factor, difference and its interval, as texts."""
        found = difference(_figure(self.base), _figure(self.other))
        if found is None or not math.isfinite(found.percent):
            return (NOT_APPLICABLE,) * 3
        sure = f"{found.low:+.1f} .. {found.high:+.1f}" if found.low is not None and found.high is not None else ""
        percent = f"{'* ' if found.significant else ''}{found.percent:+.1f}"
        return thousands(self.factor, 3), percent, sure or NOT_APPLICABLE


def _figure(spot: PlacedPoint) -> KeyFigure:
    rounds = tuple(each.iops for each in spot.measured)
    return KeyFigure(metric="iops", at=spot.point.name, unit="IOPS", value=mean(rounds), better="more", rounds=rounds)


def effects(family: Family, axis: Axis) -> Iterator[Effect]:
    """Give what each further value of an axis makes of each point of a family, all other axes being equal."""
    grouped: dict[tuple[object, ...], dict[Scalar, PlacedPoint]] = {}
    others = [each.key for each in family.axes if each.key != axis.key]
    for spot in family.spots:
        place = spot.point.axis_values
        key = (spot.point.workload.name, spot.point.zone, *(place[each] for each in others))
        grouped.setdefault(key, {})[place[axis.key]] = spot
    for (name, zone, *values), found in grouped.items():
        words = [spoken_at(key, value) for key, value in zip(others, values, strict=True)]  # type: ignore[arg-type]
        at = ", ".join([str(name), *words, *([f"zone {zone}"] if zone else [])])
        base, *rest = axis.values
        if base in found:
            for value in rest:
                if value in found:
                    yield Effect(at=at, value=spoken_at(axis.key, value), base=found[base], other=found[value])


def effect_tables(family: Family, axis: Axis) -> Iterator[Table]:
    """Give the tables of what an axis makes: of each point, or where these are many, of all together."""
    found = list(effects(family, axis))
    if not found:
        return
    base = spoken_at(axis.key, axis.values[0])
    if len(found) <= _MOST_EFFECTS:
        yield _each_effect(found, f"{axis_name(axis)}: each point, against {base}")
    grouped: dict[str, list[float]] = {}
    for each in found:
        grouped.setdefault(each.value, []).append(each.factor)
    if len(found) > len(grouped):
        columns = (
            Column(heading="Value", width=34),
            Column(heading="Points", align="right", width=10),
            *(
                Column(heading=heading, align="right", width=14)
                for heading in ("Median factor", "Least", "Greatest", "Points with more IOPS")
            ),
        )
        rows = tuple(
            (
                value,
                str(len(factors)),
                *(thousands(extremes(factors)[place], 3) for place in (1, 0, 2)),
                str(sum(factor > 1 for factor in factors)),
            )
            for value, factors in grouped.items()
        )
        yield Table(kind="numbers", columns=columns, rows=rows, title=f"{axis_name(axis)}: IOPS by those of {base}")


def _each_effect(found: Sequence[Effect], title: str) -> Table:
    columns = (
        Column(heading="Point", width=24),
        Column(heading="With", width=20),
        *(
            Column(heading=heading, align="right", width=width)
            for heading, width in (
                ("IOPS before", 10),
                ("IOPS with it", 10),
                ("Factor", 9),
                ("Diff. (%)", 10),
                ("Interval (%)", 15),
                ("Avg. before (ms)", 10),
                ("Avg. with it (ms)", 10),
            )
        ),
    )
    rates = aligned([iops(spot.measured) for each in found for spot in (each.base, each.other)])
    times = aligned([average_response_ms(spot.measured) for each in found for spot in (each.base, each.other)])
    rows = tuple(
        (each.at, each.value, *rates[2 * number : 2 * number + 2], *each.cells(), *times[2 * number : 2 * number + 2])
        for number, each in enumerate(found)
    )
    return Table(kind="numbers", columns=columns, rows=rows, title=title)


EXPLAINED = (
    "Factor: IOPS with the value by IOPS with the axis' first value, all else being equal. The interval is the "
    f"{CONFIDENCE_PERCENT:g} % confidence interval of the difference of two means, from the repeats (Welch), in "
    "percent; an asterisk: it leaves 0 out. Each point is judged by itself."
)


# -- the host ---------------------------------------------------------------------------------------------------------


def host_table(result: TestResult) -> Iterator[Table]:
    """Give the table of the host's settings that the profile went through: as asked, as read back, as found before."""
    asked = {point: dict(settings) for point, settings in _asked(result).items()}
    found: dict[tuple[str, str, str], list[str]] = {}
    first: dict[str, str] = {}
    for part, prepared in result.prepared:
        for name, before in prepared.before:
            first.setdefault(name, before)
        for name, value in prepared.settings:
            found.setdefault((name, asked.get(part, {}).get(name, value), value), []).append(part)
    if not found:
        return
    columns = (
        Column(heading="Setting", width=16),
        Column(heading="Asked", width=16),
        Column(heading="Read back", width=18),
        Column(heading="Found before the first point", width=20),
        Column(heading="Times set", align="right", width=10),
        Column(heading="Points", align="right", width=10),
    )
    rows = tuple(
        (name, wanted, value, first.get(name, ""), str(len(parts)), str(len(set(parts))))
        for (name, wanted, value), parts in found.items()
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="The host, as it was read back before each point")


def _asked(result: TestResult) -> Mapping[str, tuple[tuple[str, str], ...]]:
    from ...procedures.profile import points

    return {point.name: point.settings for point in points(profile_spec(result), result.facts.dut)}
