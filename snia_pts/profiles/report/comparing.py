"""Comparison of runs of one profile: figures on a common scale, and differences of points from the first run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...report.figures.figure import Grid
from ...report.figures.matrices import average_response_ms, matrix_tables
from ...report.figures.style import overlay_styles
from ...report.pages import Block, Figure, Page
from . import figures
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

#: The results of the compared runs by the letter of each run (A, B, ...), the first run first.
Runs = Mapping[str, ProfileResult]


def profile_figures(runs: Runs) -> Iterator[Page]:
    """Yield pages of figures for each family of the first run; they show the points that all runs have."""
    spots_by_run = {label: {spot.point.name: spot for spot in placed_points(result)} for label, result in runs.items()}
    common = set.intersection(*(set(spots) for spots in spots_by_run.values()))
    first = next(iter(runs.values()))
    for number, family in enumerate(group_by_workload(first), start=1):
        families = {label: _family_of_run(family, spots, common) for label, spots in spots_by_run.items()}
        if not next(iter(families.values())).spots:
            continue
        measure = MB_PER_SECOND if family.sequential else IOPS
        if family.zoned:
            yield from _zones(families, measure, number)
        elif len(family.sides) == 2:
            yield from _matrices(families, measure, number)
        elif family.sides:
            yield from _lines(families, number)
        else:
            yield from _bars(families, number)


def _family_of_run(family: Family, spots: Mapping[str, PlacedPoint], common: set[str]) -> Family:
    """Return the common points of a family with the measurements of one run; ``spots`` are the points of this run."""
    common_spots = tuple(spots[spot.point.name] for spot in family.spots if spot.point.name in common)
    return Family(workloads=family.workloads, axes=family.axes, zoned=family.zoned, spots=common_spots)


def _series_by_name(families: Mapping[str, Family], over: Sequence[str]) -> Iterator[tuple[str, dict[str, Series]]]:
    """Yield the name of each series of the first run, and the series with this name by the letter of the run."""
    by_run = {label: {series.label: series for series in family.series(over)} for label, family in families.items()}
    for name in next(iter(by_run.values())):
        yield name, {label: by_name[name] for label, by_name in by_run.items() if name in by_name}


def _lines(families: Mapping[str, Family], number: int) -> Iterator[Page]:
    """Yield a page with a figure for each series: IOPS and response time over its axis, one line per run."""
    first = next(iter(families.values()))
    (axis,) = first.sides
    across = side(axis, first.spots)
    scale = [IOPS.span(spot.measured).greatest for family in families.values() for spot in family.spots]
    blocks: list[Block] = []
    for position, (name, series_by_run) in enumerate(_series_by_name(families, [axis.key]), start=1):
        panels = {
            measure.heading: {
                label: {key: measure.span(spot.measured) for key, spot in along(series.spots, axis).items()}
                for label, series in series_by_run.items()
            }
            for measure in (IOPS, _RESPONSE)
        }
        what = f"IOPS and average response time over {axis_name(axis).lower()}, one line per run"
        blocks.append(
            Figure(
                name=f"profile-{number}-lines-{position}",
                caption=f"{name}: {what}; whiskers span the repeats. All series have the same IOPS scale.",
                alt=f"Stacked line plots: {what}.",
                draw=partial(
                    figures.lines,
                    panels,
                    across,
                    legend="Run",
                    scales={IOPS.heading: scale},
                    styles=overlay_styles(list(series_by_run)),
                ),
            )
        )
    yield Page(title=f"Runs over {axis_name(axis)}{_title_suffix(first)}", blocks=tuple(blocks), flows=True)


def _title_suffix(family: Family) -> str:
    return f": {', '.join(family.workloads)}"


def _matrices(families: Mapping[str, Family], measure: Measure, number: int) -> Iterator[Page]:
    """Yield a page for each series: the surfaces of all runs on a common scale, and the differences in percent."""
    first_family = next(iter(families.values()))
    deep, across = first_family.sides
    keys = [deep.key, across.key]
    grids = {
        label: {series.label: grid(series.spots, across, deep, measure.of) for series in family.series(keys)}
        for label, family in families.items()
    }
    all_grids = [run_grid for by_name in grids.values() for run_grid in by_name.values()]
    first = next(iter(grids))
    for position, (name, series_by_run) in enumerate(_series_by_name(families, keys), start=1):
        blocks: list[Block] = [
            surface_figure(
                first_family,
                name,
                grids[label],
                measure,
                f"profile-{number}-matrix-{position}-{label}",
                all_grids,
                before=f"Run {label}, ",
                colours=[grids[run][name] for run in series_by_run],
            )
            for label, series in series_by_run.items()
            if min(len(side(axis, series.spots).keys) for axis in (deep, across)) > 1
        ]
        for label, series in list(series_by_run.items())[1:]:
            changes = _percent(grids[first][name], grids[label][name])
            values = {(down, right): value for (right, down), value in changes.items()}
            title = f"{measure.heading}: run {label} against {first}, in percent"
            sides = side(deep, series.spots), side(across, series.spots)
            blocks += matrix_tables(values, *sides, title=title, decimals=1)
        yield Page(title=f"Matrix by Run: {name}", blocks=tuple(blocks), flows=True)


def _percent(first: Grid, other: Grid) -> Grid:
    """Return the differences from the first grid in percent, for the points that both have and that are not 0 in it."""
    return {key: 100 * (other[key] - value) / value for key, value in first.items() if value and key in other}


def _zones(families: Mapping[str, Family], measure: Measure, number: int) -> Iterator[Page]:
    """Yield a page with the zones of all runs: their tables, and a figure for each series."""
    curves_by_run = {label: zone_curves(family, measure) for label, family in families.items()}
    scale = [value for curves in curves_by_run.values() for curve in curves.values() for _, _, value in curve]
    names = list(next(iter(curves_by_run.values())))
    blocks: list[Block] = []
    for position, name in enumerate(names, start=1):
        curves_of_name = {label: curves[name] for label, curves in curves_by_run.items() if name in curves}
        blocks.append(
            Figure(
                name=f"profile-{number}-zones-{position}",
                caption=f"{name}: {measure.heading} of each zone by position, one line per run, on a common scale.",
                alt=f"Line plot: {measure.heading} from zero against the position, one line per run.",
                draw=partial(
                    over_position,
                    curves_of_name,
                    heading=measure.heading,
                    scales=scale,
                    legend="Run",
                    high=_ZONES_HEIGHT,
                    styles=overlay_styles(list(curves_by_run)),
                ),
                height=_ZONES_HEIGHT,
            )
        )
    tables = zone_tables(
        {f"{name}, run {label}": curves[name] for name in names for label, curves in curves_by_run.items()}, measure
    )
    title = f"Runs by Zone{_title_suffix(next(iter(families.values())))}"
    yield Page(title=title, blocks=(*tables, *blocks), flows=True)


def _bars(families: Mapping[str, Family], number: int) -> Iterator[Page]:
    """Yield the points as bars, with all runs of a point in adjacent rows."""
    first = next(iter(families.values()))
    rows = [
        (f"{first_spot.point.name} - {label}", order, family.spots[index])
        for index, first_spot in enumerate(first.spots)
        for order, (label, family) in enumerate(families.items())
    ]
    scale = {item.heading: [item.span(spot.measured).greatest for _, _, spot in rows] for item in (IOPS, MB_PER_SECOND)}
    colours = {name: order for name, order, _ in rows}
    stride = max(1, figures.MOST_ROWS // len(families)) * len(families)
    blocks = []
    for position, start in enumerate(range(0, len(rows), stride), start=1):
        group = rows[start : start + stride]
        panels = {
            entry.heading: {name: entry.span(spot.measured) for name, _, spot in group}
            for entry in (IOPS, MB_PER_SECOND)
        }
        blocks.append(
            Figure(
                name=f"profile-{number}-bars-{position}",
                caption="IOPS and throughput of each point, one colour per run; whiskers span the repeats.",
                alt="Bars: IOPS and MB/s from zero, one row per point and run.",
                draw=partial(figures.bars, panels, colours, scale),
                height=figures.height(len(group)),
            )
        )
    yield Page(title=f"Points by Run{_title_suffix(first)}", blocks=tuple(blocks), flows=True)
