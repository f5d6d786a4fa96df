"""The key figures of a run, which limits, comparisons and other programs get, by their metric and their place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from tests.recomputation import demand
from tests.recomputation.matrices import over_window
from tests.recomputation.record import (
    Row,
    achieved,
    answers,
    column,
    facts,
    is_imported,
    is_profile,
    is_sampled,
    measurements,
    percentile_ms,
    performed,
    rate,
    response_times,
    rows,
    samples,
    series,
    synchronizing_calls,
    window_of,
    window_rounds,
)
from tests.recomputation.recoveries import at_end
from tests.recomputation.saturation import together

_NINES = {"99.9": "three_nines", "99.99": "four_nines", "99.999": "five_nines"}


@dataclass(frozen=True)
class Figure:
    """A value; if it comes from rounds, those, with the I/Os of each if it is a mean of all I/Os."""

    value: float
    rounds: Sequence[float] = ()
    ios: Sequence[float] = ()
    steady: bool = True


#: Figures by metric and place.
Figures = dict[tuple[str, str], Figure]


def key_figures(run: Path) -> Figures:
    """Return the figures of points, operating points, windows of samples, and continuous stimuli."""
    found: Figures = {}
    for part in (_points(run), _operating_points(run), _windows(run), _stimuli(run), _written(run)):
        for place, figure in part:
            found.setdefault(place, figure)
    return {place: figure for place, figure in found.items() if math.isfinite(figure.value)}


def unsteady(run: Path) -> list[str]:
    """Return the series that did not end with steady state."""
    return [name for name in series(run) if not achieved(run, name)]


def _loop_is_steady(run: Path, part: str) -> bool:
    """Return whether the window of a loop is steady, and the preconditioning before it, if there is one."""
    parts = [name for name in series(run) if is_sampled(run, name) or part in ("", name) or len(series(run)) == 1]
    return not set(parts) & set(unsteady(run))


# -- points -----------------------------------------------------------------------------------------------------------


def _points(run: Path) -> Iterator[tuple[tuple[str, str], Figure]]:
    for row in rows(run, "points"):
        window = window_of(run, row)
        steady = is_profile(run) or _loop_is_steady(run, row.get("part", ""))
        for metric, figure in _of_point(run, row, window, steady):
            yield (metric, _place(run, row)), figure
        if is_profile(run) and not is_imported(run):
            for metric, value in _of_workload(run, window):
                yield (metric, row["point"]), value


def _place(run: Path, row: Row) -> str:
    """Return the name of a point: with its demand if that varies, and with its part if that is not in its name."""
    name = row["point"]
    if facts(run)["test"] in ("dirth", "composite"):
        name += f" T{row['thread_count']}Q{row['queue_depth']}"
    part = row.get("part", "")
    return name if part in name else f"{part}, {name}"


def _of_point(run: Path, row: Row, window: Sequence[Row], steady: bool) -> Iterator[tuple[str, Figure]]:
    figures = over_window(run, row)
    if is_imported(run):
        names = {"iops": "iops", "mb_per_second": "mb_per_second", "average_response_ms": "average_ms"}
        for metric, name in (names | {"maximum_response_ms": "maximum_ms"}).items():
            yield metric, Figure(figures[name], steady=steady)
        return
    rounds = [answers(run, [measured]) for measured in window]
    times = [response_times(parts) for parts in rounds]
    rates = [rate(parts, "total_ios") for parts in rounds]
    yield "iops", Figure(figures["iops"], rates, steady=steady)
    moved = [rate(parts, "io_bytes") / 1e6 for parts in rounds]
    yield "mb_per_second", Figure(figures["mb_per_second"], moved, steady=steady)
    art = [one["average_response_us"] / 1000 for one in times]
    ios = [float(sum(part["total_ios"] for part in parts)) for parts in rounds]
    yield "average_response_ms", Figure(figures["average_ms"], art, ios, steady=steady)
    whole = response_times([part for parts in rounds for part in parts])
    for percent, name in _NINES.items():
        yield f"response_{percent}_percent_ms", Figure(whole[f"{name}_response_us"] / 1000, steady=steady)
    yield "maximum_response_ms", Figure(figures["maximum_ms"], steady=steady)


def _of_workload(run: Path, window: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    """Return the figures that only points of a profile have: reads and writes, median and 99 %, calls of fsync."""
    rounds = [answers(run, [measured]) for measured in window]
    if seconds := finish_seconds(window):
        yield "finish_seconds", Figure(float(np.mean(seconds)), seconds)
    if 0 < float(window[0]["read_percent"]) < 100:
        for side, name in enumerate(("read", "write")):
            rates = [rate(parts[side : side + 1], "total_ios") for parts in rounds]
            yield f"{name}_iops", Figure(float(np.mean(rates)), rates)
    parts = [part for one in rounds for part in one]
    for percent, one_in in (("50", 2), ("99", 100)):
        yield f"response_{percent}_percent_ms", Figure(percentile_ms(parts, one_in))
    if calls := synchronizing_calls(run, window):
        times = response_times(calls)
        yield "average_sync_ms", Figure(times["average_response_us"] / 1000)
        for percent, one_in in (("50", 2), ("99", 100), ("99.9", 1000)):
            yield f"sync_{percent}_percent_ms", Figure(percentile_ms(calls, one_in))
        yield "maximum_sync_ms", Figure(times["maximum_response_us"] / 1000)


def finish_seconds(window: Sequence[Row]) -> list[float]:
    """Return the seconds of one pass in each repeat, nan for a repeat of less than 100 ms; empty if a time ended it."""
    passes = [float(row["passes"]) for row in window if row.get("passes")]
    times = np.fmax(column(window, "read_runtime_ms"), column(window, "write_runtime_ms"))
    if not passes:
        return []
    return [float(time) / 1000 / count if time >= 100 else math.nan for time, count in zip(times, passes, strict=True)]


def _operating_points(run: Path) -> Iterator[tuple[tuple[str, str], Figure]]:
    if facts(run)["test"] not in ("dirth", "composite"):
        return
    steady = _loop_is_steady(run, "")
    for name, choice in demand.choices(run).items():
        point = choice.candidates[0]
        yield ("iops", f"{name} point"), Figure(point.iops, steady=steady)
        yield ("average_response_ms", f"{name} point"), Figure(point.figures["average_ms"], steady=steady)


# -- samples ----------------------------------------------------------------------------------------------------------


def _windows(run: Path) -> Iterator[tuple[tuple[str, str], Figure]]:
    """Return the mean of each window of samples; that of write saturation only if it is steady."""
    for name, variables in series(run).items():
        if is_sampled(run, name) and (achieved(run, name) or facts(run)["test"] != "wsat"):
            (rounds,) = variables.values()
            last = [rounds[number] for number in sorted(rounds)[-window_rounds(run) :]]
            phase = "stimulus" if facts(run)["test"] == "wsat" else "PC"
            place = ("iops", f"{phase}, measurement window")
            yield place, Figure(float(np.mean(last)), last, steady=achieved(run, name))


def _stimuli(run: Path) -> Iterator[tuple[tuple[str, str], Figure]]:
    """Return the figures of each continuous stimulus: all I/Os by all time; of write saturation also of its end."""
    names = {(row["phase"], row["part"]): None for row in rows(run, "measurements")}
    steady = not unsteady(run)
    for phase, part in names:
        if phase not in ("stimulus", "access A", "access C", "histogram"):
            continue
        kept = samples(run, part, phase) or [_as_sample(row) for row in measurements(run, phase, part)]
        place = f"{part}, {phase}" if part else phase
        stretches = {place: kept}
        if facts(run)["test"] == "wsat" and phase == "stimulus":
            stretches = {"end of the stimulus": at_end(kept), "whole stimulus, from FOB on": kept}
        for at, stretch in stretches.items():
            iops, moved, average, _, greatest = together(stretch)
            metrics = ("iops", "mb_per_second", "average_response_ms", "maximum_response_ms")
            for metric, value in zip(metrics, (iops, moved, average, greatest), strict=True):
                yield (metric, at), Figure(value, steady=steady)
        if phase == "histogram":
            times = response_times(answers(run, measurements(run, phase, part)))
            for percent, name in _NINES.items():
                value = times[f"{name}_response_us"] / 1000
                yield (f"response_{percent}_percent_ms", place), Figure(value, steady=steady)


def _as_sample(row: Row) -> Row:
    """Return a measurement as the only sample of its stimulus."""
    milliseconds = column([row], "read_runtime_ms")[0], column([row], "write_runtime_ms")[0]
    return {**row, "seconds": str(np.nanmax(milliseconds) / 1000), "ended_seconds": str(np.nanmax(milliseconds) / 1000)}


def _written(run: Path) -> Iterator[tuple[tuple[str, str], Figure]]:
    kept = samples(run, "", "stimulus") if is_imported(run) else performed(run)
    written = float(column(kept, "write_bytes").sum()) / 1e9 if kept else math.nan
    yield ("written_gb", "the whole test"), Figure(written)


# -- differences ------------------------------------------------------------------------------------------------------


def difference(first: Figure, other: Figure) -> tuple[float, float, float]:
    """Return the difference of a figure from the first one, and its 95 % confidence interval, in percent.

    The interval is nan for figures of fewer than three rounds, and for those that are not steady.
    """
    percent = 100 * (other.value / first.value - 1)
    if min(len(first.rounds), len(other.rounds)) < 3 or not (first.steady and other.steady):
        return percent, math.nan, math.nan
    test = stats.ttest_ind(_relative(other), _relative(first), equal_var=False)
    interval = test.confidence_interval(0.95)
    half = 0.0 if math.isnan(interval.high) else float(interval.high - interval.low) / 2
    margin = 100 * other.value / first.value * half
    return percent, percent - margin, percent + margin


def _relative(figure: Figure) -> np.ndarray:
    """Return what each round adds to the figure, of which the mean is 1: rounds with more I/Os count more."""
    share = np.array(figure.ios) / np.mean(figure.ios) if len(figure.ios) else np.ones(len(figure.rounds))
    relative: np.ndarray = 1 + share * (np.array(figure.rounds) / figure.value - 1)
    return relative
