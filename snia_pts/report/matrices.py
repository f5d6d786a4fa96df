"""A test's matrix of R/W mix and block size, read from the rounds of a window.

IOPS and throughput are means of the rounds' values, as the standard reports them; response times come from the counts
and bins of all rounds, never from averages of averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..measurement import MeasuredRound, Measurement, mean, percentile_response_us
from ..result import TestResult
from ..spec import IopsSpec
from ..steps import Cell, mix
from ..units import KIB
from .tables import Column, Table, aligned

#: So many R/W mixes stand abreast in a table, and so many block sizes below each other leave room for three tables.
ABREAST = 8


def sizes(spec: IopsSpec) -> list[int]:
    """Return the matrix' block sizes in bytes, ascending."""
    return sorted(spec.rounds.block_sizes_bytes)


def mixes(spec: IopsSpec) -> list[int]:
    """Return the matrix' read shares in percent, ascending: 0/100 first."""
    return sorted(spec.rounds.read_percents)


def over(rounds: Sequence[MeasuredRound], cell: Cell) -> tuple[Measurement, ...]:
    """Return what was measured at ``cell`` in ``rounds``."""
    return tuple(measured.by_cell[cell] for measured in rounds if cell in measured.by_cell)


def average_response_ms(measurements: Sequence[Measurement]) -> float:
    """Return the ART of all ``measurements`` together in ms, weighted by I/O count; nan of none."""
    parts = [part for measurement in measurements for part in (measurement.read, measurement.write)]
    ios = sum(part.ios for part in parts)
    return math.fsum(part.ios * part.response_mean_ns for part in parts) / ios / 1e6 if ios else math.nan


def maximum_response_ms(measurements: Sequence[Measurement]) -> float:
    """Return the MRT of all ``measurements`` in ms; nan when no I/O was done."""
    return max((each.maximum_response_us / 1000 for each in measurements if each.ios), default=math.nan)


def percentile_response_ms(measurements: Sequence[Measurement], percent: float) -> float:
    """Return a percentile of the response times of all ``measurements`` in ms; nan when there are too few I/Os."""
    found = percentile_response_us(measurements, percent)
    return math.nan if found is None else found / 1000


def throughput_mb_per_second(measurements: Sequence[Measurement]) -> float:
    """Return the mean throughput of ``measurements`` in decimal MB/s, averaged as their IOPS are."""
    return mean(measurement.mb_per_second for measurement in measurements)


def reduced(result: TestResult, reduce: Callable[[Sequence[Measurement]], float]) -> dict[Cell, float]:
    """Return ``reduce`` of every cell's measurements in the last window; empty while there is none."""
    window = result.window
    return {cell: reduce(over(window.rounds, cell)) for cell in result.matrix} if window else {}


def matrix_tables(spec: IopsSpec, values: Mapping[Cell, float], *, title: str, digits: int = 3) -> tuple[Table, ...]:
    """Return a matrix as the standard prints it: block sizes down, R/W mixes across; ``n/a`` where none was run.

    More mixes than stand abreast go into further tables.
    """
    shares = mixes(spec)
    groups = [shares[at : at + ABREAST] for at in range(0, len(shares), ABREAST)]
    return tuple(_matrix_table(spec, values, group, title, digits) for group in groups)


def fits_a_page(spec: IopsSpec) -> bool:
    """Tell whether a matrix is no larger than the standard's."""
    return len(sizes(spec)) <= ABREAST and len(mixes(spec)) <= ABREAST


def _matrix_table(
    spec: IopsSpec, values: Mapping[Cell, float], shares: Sequence[int], title: str, digits: int
) -> Table:
    lines = [[values.get(Cell(read_percent=share, block_size_bytes=size)) for share in shares] for size in sizes(spec)]
    text = iter(aligned([value for line in lines for value in line], digits=digits))
    rows = tuple((f"{size / KIB:g}", *(next(text) for _ in shares)) for size in sizes(spec))
    columns = (
        Column(heading="Block size (KiB)", align="right", width=16),
        *(Column(heading=f"R/W {mix(share)}", align="right", width=12) for share in shares),
    )
    return Table(kind="numbers", columns=columns, rows=rows, title=title)
