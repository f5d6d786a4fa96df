"""The page on power: the rates per watt of each point, by source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...model.measurement import Measurement, mean
from ...results.attributes import power_figures, repeated_points, window_points
from ...results.result import TestResult
from ..pages import Block, Page, Prose
from ..tables import Column, Table, significant

_HOST = "RAPL, the energy counters of the host's CPU packages"
_NOTE = (
    "Rates and watts are means over the same time: the measurement window for a point of a loop, the whole time for a "
    "continuous stimulus (for write saturation from FOB to the end). The watts include idle power."
)

Figures = Mapping[str, float | None]


def sources(result: TestResult) -> list[str]:
    """Return the names of the power meters of a run; usually one, or none."""
    telemetry = (measurement.telemetry for measurement in result.measurements)
    return list(dict.fromkeys(sample.power.source for sample in telemetry if sample and sample.power))


def power_page(result: TestResult) -> Iterator[Page]:
    """Yield a page with a table for each source of power; none if no point has a power."""
    points = list(rates_and_watts(result))
    blocks: list[Block] = []
    meter = "simulated power of the drive" if result.facts.dut.simulated else "power meter"
    for title, source, unit in (
        (f"Per watt ({meter})", ", ".join(sources(result)), "watt"),
        ("Per watt (CPU packages)", _HOST, "host_watt"),
    ):
        powered = [(label, figures) for label, figures in points if figures[f"{unit}s"] is not None]
        if powered:
            if not result.facts.dut.simulated:
                blocks.append(Prose(text=f"Source: {source}."))
            blocks.append(_table(title, powered, unit))
    if blocks:
        yield Page(title="IOPS per Watt", blocks=(*blocks, Prose(text=_NOTE)), flows=True)


def rates_and_watts(result: TestResult) -> Iterator[tuple[str, Figures]]:
    """Yield the label and the figures of each point over its window, and of each continuous stimulus.

    The figures are rates, watts and rates per watt with the names of result.xml; None without a power.
    """
    for line in result.separate_lines:
        if line.measurements:
            phase = "whole stimulus" if line.phase == "stimulus" else line.phase
            where = ", ".join(filter(None, (phase, line.part)))
            yield f"{line.stimulus.label} {line.stimulus.demand.label} ({where})", _figures(line.measurements)
    if result.facts.spec.rounds_are_repeats:
        yield from ((point.name, point.figures) for point in repeated_points(result))
        return
    for loop in result.loops:
        for stimulus, figures in window_points(result, loop):
            yield f"{stimulus.label} {stimulus.demand.label}", figures


def _figures(measured: Sequence[Measurement]) -> Figures:
    """Return the figures of all engine starts of a continuous stimulus together: each counts by its time."""
    times_ms = [point.runtime_ms for point in measured]
    return {
        "iops": mean((point.iops for point in measured), times_ms),
        "mb_per_second": mean((point.mb_per_second for point in measured), times_ms),
        **power_figures(measured, times_ms),
    }


def _as_precise_as_watts(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _table(title: str, points: list[tuple[str, Figures]], unit: str) -> Table:
    columns = (
        Column(heading="Point", width=36),
        Column(heading="IOPS", align="right", width=13),
        Column(heading="MB/s", align="right", width=12),
        Column(heading="W", align="right", width=11),
        Column(heading="IOPS/W", align="right", width=14),
        Column(heading="MB/s/W", align="right", width=14),
    )
    cells = (
        *(significant([figures[name] for _, figures in points]) for name in ("iops", "mb_per_second")),
        significant([figures[f"{unit}s"] for _, figures in points]),
        *(
            significant([_as_precise_as_watts(figures[f"{name}_per_{unit}"]) for _, figures in points])
            for name in ("iops", "mb_per_second")
        ),
    )
    rows = tuple(zip((label for label, _ in points), *cells, strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title=title)
