"""Comparison of runs of one profile: figures on a common scale, and differences of points from the first run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...report.figures.figure import Grid
from ...report.figures.matrices import average_response_ms, matrix_tables
from ...report.pages import Block, Figure, Page
from . import figures as drawn
from .axes import surface_figure
from .points import (
    Family,
    PlacedPoint,
    ProfileResult,
    Series,
    along,
    axis_name,
    grid,
    group_by_workload,
    placed_points,
    side,
)
from .reductions import IOPS, MB_PER_SECOND, Measure
from .zones import over_position, zone_curves, zone_tables

#: Lets two figures fit on a page.
_ZONES_HEIGHT = 3.4
_RESPONSE = Measure(
    heading="Average response (ms)", of=average_response_ms, each=lambda measured: measured.average_response_us / 1000
)

#: Results by the letters of their runs.
Runs = Mapping[str, ProfileResult]


def profile_figures(runs: Runs) -> Iterator[Page]:
    """Yield the pages of figures: the families of the first run, with the points that all runs have."""
    found = {label: {spot.point.name: spot for spot in placed_points(result)} for label, result in runs.items()}
    common = set.intersection(*(set(entry) for entry in found.values()))
    first = next(iter(runs.values()))
    for number, family in enumerate(group_by_workload(first), start=1):
        own = {label: _of_run(family, its, common) for label, its in found.items()}
        if not next(iter(own.values())).spots:
            continue
        measure = MB_PER_SECOND if family.sequential else IOPS
        if family.zoned:
            yield from _zones(own, measure, number)
        elif len(family.sides) == 2:
            yield from _matrices(own, measure, number)
        elif family.sides:
            yield from _lines(own, number)
        else:
            yield from _bars(own, number)


def _of_run(family: Family, spots: Mapping[str, PlacedPoint], common: set[str]) -> Family:
    """Return a family with one run's measurements of its common points."""
    kept = tuple(spots[spot.point.name] for spot in family.spots if spot.point.name in common)
    return Family(workloads=family.workloads, axes=family.axes, zoned=family.zoned, spots=kept)


def _alike(own: Mapping[str, Family], over: Sequence[str]) -> Iterator[tuple[str, dict[str, Series]]]:
    """Yield each label with the series of all runs that have it."""
    by_run = {
        label: {one_series.label: one_series for one_series in family.series(over)} for label, family in own.items()
    }
    for name in next(iter(by_run.values())):
        yield name, {label: its[name] for label, its in by_run.items() if name in its}


def _lines(own: Mapping[str, Family], number: int) -> Iterator[Page]:
    family = next(iter(own.values()))
    (axis,) = family.sides
    across = side(axis, family.spots)
    every = [IOPS.span(spot.measured).greatest for item in own.values() for spot in item.spots]
    blocks: list[Block] = []
    for place, (name, series) in enumerate(_alike(own, [axis.key]), start=1):
        panels = {
            measure.heading: {
                label: {key: measure.span(spot.measured) for key, spot in along(its.spots, axis).items()}
                for label, its in series.items()
            }
            for measure in (IOPS, _RESPONSE)
        }
        what = f"IOPS and average response time over {axis_name(axis).lower()}, one line per run"
        blocks.append(
            Figure(
                name=f"profile-{number}-lines-{place}",
                caption=f"{name}: {what}; whiskers span the repeats. All series have the same IOPS scale.",
                alt=f"Stacked line plots: {what}.",
                draw=partial(drawn.lines, panels, across, legend="Run", scales=every),
            )
        )
    yield Page(title=f"Runs over {axis_name(axis)}{_of(family)}", blocks=tuple(blocks), flows=True)


def _of(family: Family) -> str:
    return f": {', '.join(family.workloads)}"


def _matrices(own: Mapping[str, Family], measure: Measure, number: int) -> Iterator[Page]:
    """Yield a page for each series: the surfaces of all runs on a common scale, and the differences in percent."""
    family = next(iter(own.values()))
    deep, across = family.sides
    keys = [deep.key, across.key]
    grids = {
        label: {series.label: grid(series.spots, across, deep, measure.of) for series in item.series(keys)}
        for label, item in own.items()
    }
    every = [values for its in grids.values() for values in its.values()]
    first = next(iter(grids))
    for place, (name, series) in enumerate(_alike(own, keys), start=1):
        blocks: list[Block] = [
            surface_figure(
                family,
                name,
                grids[label],
                measure,
                f"profile-{number}-matrix-{place}-{label}",
                every,
                before=f"Run {label}, ",
            )
            for label in series
            if min(len(side(axis, its).keys) for its in (series[label].spots,) for axis in (deep, across)) > 1
        ]
        for label in list(series)[1:]:
            changed = _percent(grids[first][name], grids[label][name])
            values = {(down, right): value for (right, down), value in changed.items()}
            title = f"{measure.heading}: run {label} against {first}, in percent"
            sides = side(deep, series[label].spots), side(across, series[label].spots)
            blocks += matrix_tables(values, *sides, title=title, digits=3, most=1)
        yield Page(title=f"Matrix by Run: {name}", blocks=tuple(blocks), flows=True)


def _percent(first: Grid, other: Grid) -> Grid:
    return {place: 100 * (other[place] - value) / value for place, value in first.items() if value and place in other}


def _zones(own: Mapping[str, Family], measure: Measure, number: int) -> Iterator[Page]:
    found = {label: zone_curves(family, measure) for label, family in own.items()}
    every = [value for its in found.values() for line in its.values() for _, _, value in line]
    blocks: list[Block] = []
    for place, name in enumerate(next(iter(found.values())), start=1):
        curves = {label: its[name] for label, its in found.items() if name in its}
        blocks.append(
            Figure(
                name=f"profile-{number}-zones-{place}",
                caption=f"{name}: {measure.heading} of each zone by position, one line per run, on a common scale.",
                alt=f"Line plot: {measure.heading} from zero against the position, one line per run.",
                draw=partial(
                    over_position, curves, heading=measure.heading, scales=every, legend="Run", high=_ZONES_HEIGHT
                ),
                height=_ZONES_HEIGHT,
            )
        )
    named = {f"{name}, run {label}": its[name] for name in next(iter(found.values())) for label, its in found.items()}
    family = next(iter(own.values()))
    yield Page(title=f"Runs by Zone{_of(family)}", blocks=(*zone_tables(named, measure), *blocks), flows=True)


def _bars(own: Mapping[str, Family], number: int) -> Iterator[Page]:
    """Yield the points as bars, with all runs of a point in adjacent rows."""
    rows = [
        (f"{one.point.name} - {label}", order, spot)
        for at, one in enumerate(next(iter(own.values())).spots)
        for order, (label, spot) in enumerate((label, family.spots[at]) for label, family in own.items())
    ]
    scale = {item.heading: [item.span(spot.measured).greatest for _, _, spot in rows] for item in (IOPS, MB_PER_SECOND)}
    colours = {name: order for name, order, _ in rows}
    stride = max(1, drawn.MOST_ROWS // len(own)) * len(own)
    blocks = []
    for place, at in enumerate(range(0, len(rows), stride), start=1):
        group = rows[at : at + stride]
        panels = {
            entry.heading: {name: entry.span(spot.measured) for name, _, spot in group}
            for entry in (IOPS, MB_PER_SECOND)
        }
        blocks.append(
            Figure(
                name=f"profile-{number}-bars-{place}",
                caption="IOPS and throughput of each point, one colour per run; whiskers span the repeats.",
                alt="Bars: IOPS and MB/s from zero, one row per point and run.",
                draw=partial(drawn.bars, panels, colours, scale),
                height=drawn.height(len(group)),
            )
        )
    yield Page(title=f"Points by Run{_of(next(iter(own.values())))}", blocks=tuple(blocks), flows=True)
