"""Response time percentiles of all points as matrices, reads and writes apart, each with its count of I/Os.

A percentile needs 1 / (1 - q) I/Os (``model/histogram.py``); below that it is n/a.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...results.attributes import PERCENTS, Tail, tails
from ...results.result import Loop, TestResult, has_spec
from ...spec import DemandSpec, IopsSpec, LatencySpec
from ..figures import matrices
from ..figures.figure import Grid, Side
from ..pages import Block, Page, Prose
from ..tables import thousands
from .host_share import verdicts_note
from .steady_state import spans

#: The rule for a percentile, in the words of the reports.
TOO_FEW_IOS = (
    f"n/a: fewer I/Os than {', '.join(f'{thousands(100 / (100 - q), 0)} for {q:g} %' for q in PERCENTS.values())}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailMatrix:
    """The reads, or the writes, of all points: the row of each in the table of percentiles, and its tail."""

    title: str
    down: Side
    across: Side
    points: Mapping[tuple[int, int], tuple[int, Tail]]

    @property
    def ios(self) -> Grid:
        """The counts of I/Os."""
        return {place: tail.ios for place, (_, tail) in self.points.items()}

    def times_ms(self, column: str) -> Grid:
        """Return a percentile in ms by its column; nan if there are too few I/Os."""
        times = {place: tail.percentiles_us[column] for place, (_, tail) in self.points.items()}
        return {place: math.nan if time_us is None else time_us / 1000 for place, time_us in times.items()}


def tail_matrices(result: TestResult) -> Iterator[TailMatrix]:
    """Yield the matrices of a test whose points differ along two sides, reads first; none without a window."""
    layout = _layout(result)
    if layout is None:
        return
    down, across, place = layout
    points = [(row, tail) for row, tail in enumerate(tails(result)) if tail.phase == "round"]
    for direction in ("read", "write"):
        placed = {place(tail.stimulus): (row, tail) for row, tail in points if tail.direction == direction}
        if placed:  # 0/100 has no reads
            yield TailMatrix(
                title=f"{direction.capitalize()}s",
                down=down.only({key for key, _ in placed}),
                across=across.only({key for _, key in placed}),
                points=placed,
            )


def _layout(result: TestResult) -> tuple[Side, Side, matrices.Place] | None:
    """Return the sides of a test's matrix and the place of a stimulus in it; None if the test has no matrix."""
    if has_spec(result, DemandSpec):
        demand = result.facts.spec.demand
        return matrices.thread_counts(demand), matrices.queue_depths(demand), matrices.threads_and_depth
    if has_spec(result, IopsSpec) or has_spec(result, LatencySpec):
        rounds = result.facts.spec.rounds
        return matrices.sizes(rounds), matrices.mixes(rounds), matrices.size_and_mix
    return None


def too_few_ios(times_ms: Iterable[float], percent: float) -> str:
    """Return the end of the title of a table of a percentile: why a value is n/a; empty if none is."""
    is_missing = any(map(math.isnan, times_ms))
    return f", n/a: fewer than {thousands(100 / (100 - percent), 0)} I/Os" if is_missing else ""


def percentile_pages(result: TestResult, loop: Loop | None) -> Iterator[Page]:
    """Yield the page of all matrices of percentiles; none without a window or without counts of I/Os."""
    found = list(tail_matrices(result))
    if loop is None or not found:
        return
    verdicts, of_points = result.host_limited_points(loop), matrices.marks_of_points(result, loop)
    blocks: list[Block] = []
    for matrix in _beside(found):
        down, across = matrix.down, matrix.across
        marks = {place: of_points.get(tail.stimulus, "") for place, (_, tail) in matrix.points.items()}
        blocks += matrices.matrix_tables(
            matrix.ios, down, across, title=f"{matrix.title}: I/Os", decimals=0, kind="matrix"
        )
        for column, percent in PERCENTS.items():
            times_ms = matrix.times_ms(column)
            name = f"{matrix.title}: {percent:g} % response time"
            if all(map(math.isnan, times_ms.values())):
                least = thousands(100 / (100 - percent), 0)
                blocks.append(Prose(text=f"{name}: n/a, every point has fewer than {least} I/Os."))
                continue
            title = f"{name} (ms){too_few_ios(times_ms.values(), percent)}"
            blocks += matrices.matrix_tables(times_ms, down, across, title=title, marks=marks, kind="matrix")
    source = f"All I/Os of {spans([loop])}, from their merged bins, reads and writes apart."
    has_one_demand = len({stimulus.demand for stimulus in verdicts}) == 1
    points = sorted(verdicts, key=lambda stimulus: stimulus.demand)
    named = {point.label if has_one_demand else point.demand.label: verdicts[point] for point in points}
    note = verdicts_note(result, named, marked=True)
    notes = (source, matrices.bin_width(result), matrices.foot(of_points.values()), note)
    blocks.insert(0, Prose(text=" ".join(filter(None, notes))))
    yield Page(title="Response Time Percentiles - Tabular Data", blocks=tuple(blocks), flows=True, brief=True)


def _beside(found: Sequence[TailMatrix]) -> Sequence[TailMatrix]:
    """Return reads and writes as one matrix if it fits into one table, with their names in the headings."""
    downs = {matrix.down for matrix in found}
    columns = [(matrix, key) for matrix in found for key in matrix.across.keys]
    if len(columns) > matrices.MAX_TABLE_COLUMNS or len(downs) > 1 or len(found) < 2:
        return found
    (down,) = downs
    labels = tuple(
        f"{matrix.title} {matrix.across.prefix}{label}" for matrix in found for label in matrix.across.labels
    )
    points = {
        (row, place): matrix.points[row, key]
        for place, (matrix, key) in enumerate(columns)
        for row in down.keys
        if (row, key) in matrix.points
    }
    across = Side(title=found[0].across.title, keys=tuple(range(len(columns))), labels=labels)
    return [
        TailMatrix(
            title=" and ".join(matrix.title for matrix in found).capitalize(), down=down, across=across, points=points
        )
    ]
