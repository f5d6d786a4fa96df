"""A test's matrix, read from the rounds of its windows.

IOPS and throughput are means of the rounds' values, as the standard reports them; response times come from the counts
and bins of all rounds, never from averages of averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model.measurement import (
    FIVE_NINES,
    METRICS,
    MeasuredRound,
    Measurement,
    Metric,
    average_response_us,
    mean,
    percentile_response_us,
)
from ...model.steps import Stimulus, mix
from ...results.result import Loop, TestResult
from ...results.unsteady_points import unsteady_points
from ...spec import DemandLoop, Rounds
from ...units import KIB, block_size, counted, number
from ..tables import NOT_APPLICABLE, Column, Kind, Table, thousands
from .figure import Grid, Side

#: The most columns in a table; also the most rows that leave room for three tables on a page.
MAX_TABLE_COLUMNS = 8

#: Precede the numbers of a point that the host limited, and of one that is not steady in a steady window.
HOST_LIMITED, UNSTEADY = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
_MEANINGS = {HOST_LIMITED: "limited by the host; the drive may be faster", UNSTEADY: "not steady in the window"}

#: Returns the place of a stimulus in a matrix: the keys of its two sides.
Place = Callable[[Stimulus], tuple[int, int]]
#: The marks that precede the numbers of a matrix, by place.
Marks = Mapping[tuple[int, int], str]
NO_MARKS: Marks = {}
#: Reduces all rounds' measurements of one place to one value.
Reduction = Callable[[Sequence[Measurement]], float]

WEIGHTED = "Average response time (ms), weighted by I/O count"
WEIGHTED_ART = "ART, weighted by I/O (ms)"
#: Why a cell of a matrix of this percentile has no number.
FIVE_NINES_MISSING = f"A percentile is n/a if the window has too few I/Os ({FIVE_NINES:g} % needs 100 000)."
#: Lines on a log scale lie on each other if their values differ by less than this share everywhere.
_LINE_WIDTH = 0.03
MAXIMUM_RESPONSE = Metric(
    label="Maximum response time", unit="ms", read=lambda measured: measured.maximum_response_us / 1000
)


def bin_width(result: TestResult) -> str:
    """Return the sentence on bins: an engine has 64 for each power of two nanoseconds, the model also for maxima."""
    maxima = " and maxima" * result.facts.dut.simulated
    return f"Percentiles{maxima} are midpoints of bins that are 0.8 % to 1.6 % wide."


def heading(result: TestResult, title: str) -> str:
    """Return a table's title; imported results have no I/O counts to weight by."""
    return title.replace("weighted by I/O count", "mean of the rounds' averages") if result.facts.imported else title


def art_heading(result: TestResult) -> str:
    """Return the heading of a column of average response times over several measurements or samples."""
    return "ART (ms)" if result.facts.imported else WEIGHTED_ART


def size_and_mix(stimulus: Stimulus) -> tuple[int, int]:
    """Return a stimulus' place by block size (bytes) and R/W mix (read share in percent)."""
    return stimulus.cell.block_size_bytes, stimulus.read_percent


def threads_and_depth(stimulus: Stimulus) -> tuple[int, int]:
    """Return a stimulus' place by Thread Count and Queue Depth."""
    return stimulus.thread_count, stimulus.queue_depth


def thread_counts(demand: DemandLoop) -> Side:
    """Return the Thread Counts, ascending."""
    keys = tuple(sorted(demand.thread_counts))
    return Side(title="Thread Count", keys=keys, labels=tuple(map(str, keys)), prefix="TC ")


def queue_depths(demand: DemandLoop) -> Side:
    """Return the Queue Depths, ascending."""
    keys = tuple(sorted(demand.queue_depths))
    return Side(title="Queue Depth", keys=keys, labels=tuple(map(str, keys)), prefix="QD ", log=True)


def sizes(rounds: Rounds) -> Side:
    """Return the block sizes in bytes, ascending."""
    keys = tuple(sorted(rounds.block_sizes_bytes))
    labels = tuple(f"{size / KIB:g}" for size in keys)
    return Side(title="Block size (KiB)", keys=keys, labels=labels, log=True)


def mixes(rounds: Rounds) -> Side:
    """Return the R/W mixes by their read shares in percent, ascending: 0/100 first."""
    keys = tuple(sorted(rounds.read_percents))
    return Side(title="R/W mix (%)", keys=keys, labels=tuple(map(mix, keys)), prefix="R/W ")


def writes(rounds: Rounds) -> tuple[int, dict[tuple[int, int], str]]:
    """Return the R/W mix with the most writes, and the names of its points by place, in the order of block sizes."""
    share = min(rounds.read_percents)
    return share, {(size, share): block_size(size) for size in sorted(rounds.block_sizes_bytes)}


def measured_sizes(side: Side, values: Grid) -> tuple[Side, str]:
    """Return the sizes that have values, and a sentence about the others; empty if all have values."""
    measured = [
        (key, label) for key, label in zip(side.keys, side.labels, strict=True) if any(key == at for at, _ in values)
    ]
    missing = [block_size(key) for key in side.keys if key not in dict(measured)]
    note = f"n/a: smaller than the device's sectors: {', '.join(missing)}." if missing else ""
    return Side(
        title=side.title, keys=tuple(k for k, _ in measured), labels=tuple(t for _, t in measured), log=True
    ), note


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of stimuli: its title, its value and the label of its value."""

    title: str
    value: Callable[[Stimulus], int]
    label: Callable[[Stimulus], str]


_SIZE = Parameter(
    title="Block size (KiB)",
    value=lambda stimulus: stimulus.largest_block_bytes,
    label=lambda stimulus: f"{stimulus.largest_block_bytes / KIB:g}",
)
_MIX = Parameter(
    title="R/W mix (%)",
    value=lambda stimulus: stimulus.read_percent,
    label=lambda stimulus: mix(stimulus.read_percent),
)
_THREADS = Parameter(
    title="Thread count",
    value=lambda stimulus: stimulus.thread_count,
    label=lambda stimulus: str(stimulus.thread_count),
)
_DEPTH = Parameter(
    title="Queue depth",
    value=lambda stimulus: stimulus.queue_depth,
    label=lambda stimulus: str(stimulus.queue_depth),
)


def varying_parameters(stimuli: Collection[Stimulus]) -> tuple[Parameter, Parameter] | None:
    """Return the two parameters that vary: size and mix, or threads and queue depth; None unless there are two."""
    for pair in ((_SIZE, _MIX), (_THREADS, _DEPTH)):
        if all(len(set(map(parameter.value, stimuli))) > 1 for parameter in pair):
            return pair
    return None


def over(rounds: Iterable[MeasuredRound], at: tuple[int, int], place: Place = size_and_mix) -> tuple[Measurement, ...]:
    """Return the measurements of one place of a matrix in ``rounds``."""
    return tuple(
        measurement for measured in rounds for measurement in measured.measurements if place(measurement.stimulus) == at
    )


def reduced(loops: Iterable[Loop], reduce: Reduction, place: Place = size_and_mix) -> Grid:
    """Return ``reduce`` of every place's measurements in the loops' last windows; empty without a window."""
    grouped: dict[tuple[int, int], list[Measurement]] = {}
    for loop in loops:
        for measured in loop.window_rounds:
            for measurement in measured.measurements:
                grouped.setdefault(place(measurement.stimulus), []).append(measurement)
    return {at: reduce(measurements) for at, measurements in grouped.items()}


def marks(result: TestResult, loops: Iterable[Loop], place: Place = size_and_mix) -> Marks:
    """Return the marks of the points of the loops' last windows."""
    return {place(point): mark for loop in loops for point, mark in marks_of_points(result, loop).items()}


def marks_of_points(result: TestResult, loop: Loop) -> Mapping[Stimulus, str]:
    """Return the marks of the points of a loop's last window, by the keys of ``TestResult.points``."""
    unsteady = unsteady_points(result, loop)
    return {
        point: mark
        for point, limited in result.host_limited_points(loop).items()
        if (mark := HOST_LIMITED * bool(limited) + UNSTEADY * (point in unsteady))
    }


def marked(mark: str, text: str) -> str:
    """Return a text after its mark, which may be empty."""
    return f"{mark} {text}" if mark else text


def mixed_times(stimuli: Iterable[Stimulus]) -> str:
    """Return the sentence on response times of mixed points; empty if none of ``stimuli`` is mixed."""
    mixed = any(0 < stimulus.read_percent < 100 for stimulus in stimuli)
    return "Response times of a mixed point are those of reads and writes together." if mixed else ""


def foot(marks: Collection[str]) -> str:
    """Return the footnotes for the marks in a page's tables; empty if nothing is marked."""
    shown = (mark for mark in _MEANINGS if any(mark in one for one in marks))
    return " ".join(f"{mark} {_MEANINGS[mark][0].upper()}{_MEANINGS[mark][1:]}." for mark in shown)


def shown_marks(marks: Marks, *, points: int = 0) -> str:
    """Return the caption note for the marks in a figure, with counts of all ``points``; empty if nothing is marked."""
    counts, of = {mark: sum(mark in one for one in marks.values()) for mark in _MEANINGS}, counted(points, "point")
    return "".join(
        f" {mark}: {f'{count} of {of}, ' if points else ''}{_MEANINGS[mark]}."
        for mark, count in counts.items()
        if count
    )


def covered_lines(values: Grid, across: Side, lines: Side) -> str:
    """Return the caption note on lines of a log plot that a later line covers; empty if there are none.

    ``values`` are by the keys of ``across`` and ``lines``; each line covers those before it.
    """
    covered: dict[str, list[str]] = {}
    for place, (key, label) in enumerate(zip(lines.keys, lines.labels, strict=True)):
        for above, label_above in list(zip(lines.keys, lines.labels, strict=True))[:place:-1]:
            pairs = [(values.get((at, key), math.nan), values.get((at, above), math.nan)) for at in across.keys]
            if all(math.isclose(*pair, rel_tol=_LINE_WIDTH) for pair in pairs):
                covered.setdefault(label_above, []).append(label)
                break
    texts = [
        f"{' and '.join(below)} {'lies' if len(below) == 1 else 'lie'} under {on_top}"
        for on_top, below in covered.items()
    ]
    return f" {'; '.join(texts)}: less than {100 * _LINE_WIDTH:g} % apart." if texts else ""


def iops(measurements: Sequence[Measurement]) -> float:
    """Return the mean IOPS of ``measurements``; nan if there are none."""
    return mean(map(METRICS["iops"].read, measurements))


def mb_per_second(measurements: Sequence[Measurement]) -> float:
    """Return the mean throughput of ``measurements`` in decimal MB/s; nan if there are none."""
    return mean(map(METRICS["mb_per_second"].read, measurements))


def average_response_ms(measurements: Sequence[Measurement]) -> float:
    """Return the ART of all ``measurements`` together in ms, weighted by I/O count; nan if there are none."""
    return average_response_us(measurements) / 1000


def maximum_response_ms(measurements: Sequence[Measurement]) -> float:
    """Return the greatest response time of all ``measurements`` in ms; nan without any I/O."""
    return max(
        (MAXIMUM_RESPONSE.read(measurement) for measurement in measurements if measurement.timed), default=math.nan
    )


def mean_of_maxima_ms(measurements: Sequence[Measurement]) -> float:
    """Return the mean of the ``measurements``' greatest response times in ms; nan without any I/O."""
    return mean(MAXIMUM_RESPONSE.read(measurement) for measurement in measurements if measurement.timed)


def percentile_response_ms(measurements: Sequence[Measurement], percent: float) -> float:
    """Return a percentile of the response times of all ``measurements`` in ms; nan if there are too few I/Os."""
    response_us = percentile_response_us(measurements, percent)
    return math.nan if response_us is None else response_us / 1000


def matrix_tables(
    values: Grid,
    down: Side,
    across: Side,
    *,
    title: str,
    decimals: int | None = None,
    marks: Marks = NO_MARKS,
    kind: Kind = "numbers",
    digits: Grid | None = None,
) -> tuple[Table, ...]:
    """Return a matrix as the standard prints it, with ``down`` as rows; ``n/a`` for places without measurements.

    Numbers have ``decimals`` places; if that is None, four significant digits, or fewer by ``digits``.  ``marks`` are
    by row and column.  Columns beyond ``MAX_TABLE_COLUMNS`` go into further tables.
    """
    columns = list(zip(across.keys, across.labels, strict=True))
    groups = [columns[at : at + MAX_TABLE_COLUMNS] for at in range(0, len(columns), MAX_TABLE_COLUMNS)]
    cells = (_cells(values, marks, down, group, decimals, digits or {}) for group in groups)
    return tuple(
        _matrix_table(texts, down, across.prefix, group, title, kind)
        for texts, group in zip(cells, groups, strict=True)
    )


def fits_a_page(down: Side, across: Side) -> bool:
    """Return whether a matrix is no larger than the standard's."""
    return len(down.keys) <= MAX_TABLE_COLUMNS and len(across.keys) <= MAX_TABLE_COLUMNS


def _cells(
    values: Grid, marks: Marks, down: Side, group: Sequence[tuple[int, str]], decimals: int | None, digits: Grid
) -> Iterator[str]:
    """Yield the cells of a table, row by row; a mark precedes the number, so that digits stay aligned."""
    places = [(row, column) for row in down.keys for column, _ in group]
    numbers = [values.get(place, math.nan) for place in places]
    most = [min(4, int(digits.get(place, 4))) for place in places]
    texts = (
        [number(value, digits=own) for value, own in zip(numbers, most, strict=True)]
        if decimals is None
        else [thousands(value, decimals) for value in numbers]
    )
    for place, text in zip(places, texts, strict=True):
        yield text if text == NOT_APPLICABLE else marked(marks.get(place, ""), text)


def _matrix_table(
    text: Iterator[str], down: Side, prefix: str, group: Sequence[tuple[int, str]], title: str, kind: Kind
) -> Table:
    rows = tuple((label, *(next(text) for _ in group)) for label in down.labels)
    columns = (
        Column(heading=down.title, align="right", width=16),
        *(Column(heading=f"{prefix}{label}", align="right", width=12) for _, label in group),
    )
    return Table(kind=kind, columns=columns, rows=rows, title=title)
