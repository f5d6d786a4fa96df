"""Pages of a profile's report over quantity axes: lines over one axis, surfaces over two, response time over IOPS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...report.figures import columns_3d
from ...report.figures.figure import Grid, PointMatrix
from ...report.figures.matrices import average_response_ms, percentile_response_ms
from ...report.figures.surface_3d import has_surface, surface
from ...report.pages import Block, Figure, Page
from ...report.tables import Table
from ..spec import Axis
from .figures import Step, lines, response_over_iops
from .points import (
    DEMANDS,
    Family,
    PlacedPoint,
    ProfileResult,
    Series,
    along,
    axis_name,
    few_ios_note,
    grid,
    group_by_workload,
    key_of,
    page_cache_note,
    part,
    side,
)
from .reductions import IOPS, MB_PER_SECOND, Measure, two_nines_ms
from .tables import footnote, matrices_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: The number of series with distinct colours and markers in one figure.
_MAX_SERIES = 8
#: Leaves room for the matrices below a surface on the same page.
_SURFACE_HEIGHT = 3.05


def axis_pages(
    family: Family, measure: Measure, same_measure: Sequence[Family], *, prefix: str, slug: str
) -> Iterator[Page]:
    """Yield the pages of a family over its quantity axes; ``measure`` is its main quantity.

    ``same_measure`` are all families with this main quantity: their surfaces share one scale.
    """
    if len(family.sides) == 2:
        with_surfaces = (other for other in same_measure if len(other.sides) == 2)
        grids = [values for other in with_surfaces for values in surfaces(other, measure).values()]
        yield from _surfaces(family, measure, grids, prefix, slug)
    else:
        yield from _lines(family, prefix, slug)
    yield from _responses(family, prefix, slug)


def _split(series: Sequence[Series]) -> list[Sequence[Series]]:
    """Return the series in equal groups that fit into one figure each; if there are several, reads are first."""
    size = math.ceil(len(series) / math.ceil(len(series) / _MAX_SERIES))
    if size < len(series):
        series = sorted(series, key=_reads, reverse=True)
    return [series[start : start + size] for start in range(0, len(series), size)]


def _lines(family: Family, prefix: str, slug: str) -> Iterator[Page]:
    (axis,) = family.sides
    series = family.series([axis.key])
    rated = [one for one in series if any(math.isfinite(IOPS.of(spot.measured)) for spot in one.spots)]
    cached = page_cache_note(family.spots)
    across, groups = side(axis, family.spots), _split(rated or series)
    name = axis_name(axis)
    has_repeats = any(len(spot.measured) > 1 for spot in family.spots)
    whiskers = "; whiskers span the repeats from minimum to maximum" if has_repeats else ""
    measures = (IOPS, MB_PER_SECOND)
    spans = {item.heading: [item.span(spot.measured) for spot in family.spots] for item in measures}
    scales = {heading: [end for span in ends for end in (span.least, span.greatest)] for heading, ends in spans.items()}
    for number, group in enumerate(groups, start=1):
        panels = {
            measure.heading: {
                series.label: {key: measure.span(spot.measured) for key, spot in along(series.spots, axis).items()}
                for series in group
            }
            for measure in measures
        }
        later = [_reads(other[0]) for other in groups[1:]]  # a series without a rate belongs to the page of its mix
        without = _without_rate(
            [
                one
                for one in series
                if one in group or (one not in rated and sum(reads >= _reads(one) for reads in later) == number - 1)
            ]
        )
        few = few_ios_note([spot for one in group for spot in one.spots])
        figure = Figure(
            name=f"lines-{slug}-{number}",
            caption=f"IOPS and throughput over {name.lower()}, one line per series{whiskers}.{without}"
            f"{few and f' {few}'}{cached}",
            alt=f"Stacked line plots: IOPS and MB/s against {name.lower()}.",
            draw=partial(lines, panels, across, legend="Series", scales=scales),
        )
        mixes = f" - {_mixes(group)}" if len(groups) > 1 else ""
        title = f"{prefix}IOPS and Throughput over {_title(name)}{mixes}{part(number, groups)}"
        yield Page(title=title, blocks=(figure,))


def _reads(series: Series) -> int:
    """Return the percentage of reads of a series' workload."""
    return series.spots[0].point.workload.read_percent


def _mixes(group: Sequence[Series]) -> str:
    """Return what a group of series does: ``Reads``, ``Mixes and Writes``."""
    names = {100: "Reads", 0: "Writes"}
    return " and ".join(dict.fromkeys(names.get(_reads(series), "Mixes") for series in group))


def _without_rate(series: Sequence[Series]) -> str:
    """Return a caption's sentence on the series of which points have no rate; empty if there are none."""
    missing = {one.label: sum(not math.isfinite(IOPS.of(spot.measured)) for spot in one.spots) for one in series}
    texts = [f"{one.label} ({missing[one.label]} of {len(one.spots)} points)" for one in series if missing[one.label]]
    return f" Without a rate (n/a): {', '.join(texts)}." if texts else ""


def _title(name: str) -> str:
    return name if name.startswith("option ") else name.title()


def surfaces(family: Family, measure: Measure) -> Mapping[str, Grid]:
    """Return the matrices of a family over its two axes, by series; the last axis is horizontal."""
    deep, across = family.sides
    return {
        series.label: grid(series.spots, across, deep, measure.of) for series in family.series([deep.key, across.key])
    }


def surface_figure(
    family: Family,
    label: str,
    grids: Mapping[str, Grid],
    measure: Measure,
    name: str,
    all_grids: Sequence[Grid],
    *,
    before: str = "",
    colours: Sequence[Grid] = (),
) -> Figure:
    """Return a 3D figure of the matrix ``label`` among the ``grids`` of a family.

    Its scale is that of ``all_grids``, and its colours are those of ``colours``; its caption starts with ``before``.
    """
    deep, across = family.sides
    sides = side(across, family.spots), side(deep, family.spots)
    complete = all(has_surface(values, *sides) for values in grids.values())
    scales: dict[str, Sequence[Grid]] = {"alike": all_grids, **({"colours": colours} if complete else {})}
    draw: Callable[..., Drawing] = surface if complete else columns_3d.columns
    what = f"{measure.heading} over {axis_name(across).lower()} and {axis_name(deep).lower()}"
    return Figure(
        name=name,
        caption=f"{before}{label}: {what}. The scale is the same in all such figures of this report"
        f"{f'; the colours span the values of {label}' * complete}.",
        alt=f"{'Surface' if complete else 'Columns'} in three dimensions: {what}, linear scale from zero.",
        draw=partial(draw, grids[label], *sides, heading=measure.heading, height=_SURFACE_HEIGHT, **scales),
        height=_SURFACE_HEIGHT,
    )


def _surfaces(family: Family, measure: Measure, all_grids: Sequence[Grid], prefix: str, slug: str) -> Iterator[Page]:
    """Yield a page for each series: its surface on the common scale, and its matrices below."""
    deep, across = family.sides
    grids = surfaces(family, measure)
    for number, series in enumerate(family.series([deep.key, across.key]), start=1):
        blocks: tuple[Block, ...] = tuple(matrices_of(series.spots, deep, across, _column(measure)))
        if min(len(side(axis, series.spots).keys) for axis in (deep, across)) > 1:
            figure = surface_figure(family, series.label, grids, measure, f"matrix-{slug}-{number}", all_grids)
            blocks = (figure, *blocks)
        blocks = (*blocks, *footnote(series.spots))
        axis_names = f"{_title(axis_name(deep))} x {_title(axis_name(across))}"
        title = series.label if len(grids) > 1 or prefix else axis_names
        yield Page(title=f"Matrix: {title}", blocks=blocks, flows=True)


def _column(measure: Measure) -> str:
    return "IOPS" if measure is IOPS else "MB/s"


def first_matrices(family: Family, measure: Measure) -> Iterator[Table]:
    """Yield the matrix of each series of a family in its main quantity."""
    deep, across = family.sides
    for series in family.series([deep.key, across.key]):
        table, *_ = matrices_of(series.spots, deep, across, _column(measure))
        yield replace(table, title=f"{series.label}: {table.title}")


def point_matrices(result: ProfileResult) -> Iterator[PointMatrix]:
    """Yield the matrix of each series of points over two quantity axes."""
    for family in group_by_workload(result):
        if len(family.sides) < 2:
            continue
        down, across = family.sides
        for series in family.series([down.key, across.key]):
            yield PointMatrix(
                title=series.label,
                metric="mb_per_second" if family.sequential else "iops",
                across=side(across, series.spots),
                down=side(down, series.spots),
                points={_keys(spot, across, down): spot.point.name for spot in series.spots},
            )


def _keys(spot: PlacedPoint, across: Axis, down: Axis) -> tuple[int, int]:
    values = spot.point.axis_values
    return key_of(across, values[across.key]), key_of(down, values[down.key])


def _responses(family: Family, prefix: str, slug: str) -> Iterator[Page]:
    """Yield response time over IOPS for increasing outstanding I/Os, if an axis varies these."""
    axis = next((item for key in DEMANDS for item in family.axes if item.key == key), None)
    if axis is None:
        return
    groups = _split(family.series([axis.key]))
    for number, group in enumerate(groups, start=1):
        curves = {series.label: steps(series, axis.key, family) for series in group}
        if not any(math.isfinite(step.average_ms) for curve in curves.values() for step in curve):
            return
        figure = Figure(
            name=f"response-{slug}-{number}",
            caption=f"Average, 99 % and 99.9 % response time over IOPS; labels give the {axis_name(axis).lower()}, "
            "where there is room. Where a curve turns up, more outstanding I/Os do not increase IOPS"
            f"{_falling_iops(group, axis)}.",
            alt="Line plot: average, 99 % and 99.9 % response time in ms against IOPS, one colour per series.",
            draw=partial(response_over_iops, curves, legend="Series"),
        )
        yield Page(title=f"{prefix}Response Time over IOPS{part(number, groups)}", blocks=(figure,))


def _falling_iops(group: Sequence[Series], axis: Axis) -> str:
    """Return a caption note on why IOPS fall along a curve: the host, the drive's state, or undetermined."""
    curves = [list(along(series.spots, axis).values()) for series in group]
    pairs = [pair for curve in curves for pair in itertools.pairwise(curve)]
    causes = {spot.host_limited for before, spot in pairs if IOPS.of(spot.measured) < IOPS.of(before.measured)}
    host = "the host limited the IOPS"
    state = "the drive's state had changed since the previous point (the points are not measured until steady state)"
    if not causes:
        return ""
    if len(causes) > 1 or None in causes:
        return f"; where IOPS fall, {host} or {state}"
    return f"; where IOPS fall, {host if True in causes else state}"


def steps(series: Series, key: str, family: Family) -> list[Step]:
    """Return the steps of a series' curve of response time over IOPS."""
    axis = next(item for item in family.axes if item.key == key)
    return [
        Step(
            demand=f"{DEMANDS[key]}{at}",
            iops=IOPS.of(spot.measured),
            average_ms=average_response_ms(spot.measured),
            two_nines_ms=two_nines_ms(spot.measured),
            three_nines_ms=percentile_response_ms(spot.measured, 99.9),
        )
        for at, spot in along(series.spots, axis).items()
    ]
