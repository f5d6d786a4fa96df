"""The first page of every report: the verdict, what differs from the standard, and the figures most asked for."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ..measurement import FIVE_NINES, Measurement
from ..result import TestResult
from ..spec import Tracked
from ..steps import Cell, mix
from ..units import GB, block_size, capacity, duration
from . import matrices
from .header import steady_rounds
from .pages import Block, Page, Prose
from .tables import UNKNOWN, Column, Table, aligned, facts, thousands


def summary(result: TestResult, *, left_out: str) -> Page:
    """Return the summary; ``left_out`` tells which pages there are no data for."""
    return Page(title="Summary", blocks=tuple(_blocks(result, left_out)), flows=True)


def _blocks(result: TestResult, left_out: str) -> Iterator[Block]:
    yield Prose(text=verdict(result), kind="good" if result.steady and result.ending == "finished" else "bad")
    yield Prose(text=_conformance(result), kind="good" if result.conformant else "bad")
    if result.ending != "finished":
        detail = (result.ending_detail or "no more is known").rstrip(".")
        yield Prose(text=f"The run did not finish ({result.ending}): {detail}.", kind="lead")
    if left_out:
        yield Prose(text=left_out, kind="lead")
    if result.deviations:
        yield deviations_table(result)
    if result.warnings:
        columns = (Column(heading="Warning", width=30), Column(heading="Detail", width=70))
        rows = tuple((warning.what, warning.detail) for warning in result.warnings)
        yield Table(kind="texts", columns=columns, rows=rows, title="Warnings")
    if result.window is not None:
        yield key_figures(result)
    yield _course(result)


def verdict(result: TestResult) -> str:
    """Return the verdict with its rounds: ``STEADY STATE in rounds 5 - 9``."""
    if result.ending != "finished":
        return result.verdict
    if result.window is None:
        return result.verdict
    first, last = result.window.numbers[0], result.window.numbers[-1]
    rounds = f"rounds {first} - {last}"
    return f"{result.verdict} in {rounds}" if result.steady else f"{result.verdict} (last window: {rounds})"


def _conformance(result: TestResult) -> str:
    count = len(result.deviations)
    if result.conformant:
        return f"PTS conformant: no deviation from {result.facts.spec.revision}"
    reasons = [f"{count} deviation{'s' * (count != 1)}"] if count else []
    reasons += ["the run did not finish"] if result.ending != "finished" else []
    return f"NOT PTS conformant: {', '.join(reasons)}"


def deviations_table(result: TestResult) -> Table:
    """Return every difference from the standard with its clause."""
    columns = (
        Column(heading="Deviation", width=28),
        Column(heading="The standard asks", width=26),
        Column(heading="What was done", width=27),
        Column(heading="Clause", width=19),
    )
    rows = tuple((each.what, each.standard, each.actual, each.clause) for each in result.deviations)
    return Table(kind="texts", columns=columns, rows=rows, title="Deviations from the standard")


def key_figures(result: TestResult) -> Table:
    """Return the tracked variables with their response times over the window."""
    window = result.window
    determinations = window.determinations if window else ()
    measured = [_at(result, tracked) for tracked, _ in determinations]
    figures = (
        aligned([determination.average for _, determination in determinations]),
        aligned([matrices.average_response_ms(each) for each in measured]),
        aligned([matrices.percentile_response_ms(each, FIVE_NINES) for each in measured]),
        aligned([matrices.maximum_response_ms(each) for each in measured]),
    )
    names = [f"RND {block_size(tracked.block_size_bytes)} {mix(tracked.read_percent)}" for tracked, _ in determinations]
    steady = ["yes" if determination.steady else "NO" for _, determination in determinations]
    columns = (
        Column(heading="Tracked variable", width=28),
        Column(heading="IOPS", align="right", width=14),
        Column(heading="ART (ms)", align="right", width=14),
        Column(heading=f"{FIVE_NINES:g} % (ms)", align="right", width=16),
        Column(heading="MRT (ms)", align="right", width=14),
        Column(heading="Steady", align="center", width=14),
    )
    rows = tuple(zip(names, *figures, steady, strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title=f"Key figures, rounds {steady_rounds(result)}")


def _at(result: TestResult, tracked: Tracked) -> tuple[Measurement, ...]:
    cell = Cell(read_percent=tracked.read_percent, block_size_bytes=tracked.block_size_bytes)
    return matrices.over(result.window.rounds, cell) if result.window else ()


def _course(result: TestResult) -> Table:
    complete = sum(measured.complete for measured in result.rounds)
    partly = len(result.rounds) - complete
    written, read = moved_bytes(result)
    fills = thousands(written / result.facts.dut.capacity_bytes, 2)
    least = "" if result.ending == "finished" else "at least "  # what was stopped wrote too, and was not counted
    rows = (
        ("Standard", f"{result.facts.spec.revision} ({result.facts.spec.publication})"),
        ("Measurement window (rounds)", steady_rounds(result)),
        ("Rounds run", f"{complete} complete{f', {partly} not complete' if partly else ''} "
                       f"(at most {result.facts.spec.rounds.maximum})"),
        ("Duration", elapsed(result)),
        ("Data written (TGBW)", f"{least}{thousands(written / GB, 1)} GB, {fills} x user capacity"),
        ("Data read", f"{least}{thousands(read / GB, 1)} GB"),
        ("User capacity", f"{capacity(result.facts.dut.capacity_bytes)} "
                          f"({thousands(result.facts.dut.capacity_bytes, 0)} bytes)"),
    )  # fmt: skip
    return facts(rows, title="The run")


def elapsed(result: TestResult) -> str:
    """Return the time from the run's start to its end."""
    try:
        first, last = (datetime.datetime.fromisoformat(text) for text in (result.facts.started, result.finished))
        return duration(max(0.0, (last - first).total_seconds()))
    except (ValueError, TypeError):
        return UNKNOWN


def moved_bytes(result: TestResult) -> tuple[int, int]:
    """Return the bytes written and read since the purge, preconditioning and incomplete rounds included."""
    measurements = [each for measured in result.rounds for each in measured.measurements]
    if result.preconditioned is not None:
        measurements.append(result.preconditioned)
    written = sum(each.write.transferred_bytes for each in measurements)
    return written, sum(each.read.transferred_bytes for each in measurements)
