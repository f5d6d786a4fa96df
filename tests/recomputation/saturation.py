"""The tables of write saturation, and the consistency of the end of its stimulus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from tests.recomputation.printed import Expected, PrintedTable, in_decimal_unit, labelled, text
from tests.recomputation.record import (
    Array,
    Row,
    achieved,
    answers,
    column,
    facts,
    is_imported,
    measurements,
    parameter,
    per_second,
    rate,
    response_times,
    sampled_rows,
    samples,
    series,
    total,
    values,
    window_rounds,
)
from tests.recomputation.recoveries import at_end, without_shortened


def together(kept: Sequence[Row]) -> list[float]:
    """Return IOPS, MB/s, ART, no percentile, and MRT in ms of samples together; one sample has a percentile."""
    ios, seconds = total(kept, "ios"), float(column(kept, "seconds").sum())
    average = float(np.dot(ios, column(kept, "average_response_us")) / ios.sum())
    nines = values(kept[0], "five_nines_us")[0] / 1000 if len(kept) == 1 else math.nan
    rates = [per_second(float(total(kept, what).sum()), seconds) for what in ("ios", "bytes")]
    maximum = float(column(kept, "maximum_response_us").max())
    return [rates[0], rates[1] / 1e6, average / 1000, nines, maximum / 1000]


def _window(run: Path) -> list[Expected] | None:
    """Return the figures of the measurement window, whose rates are means of its samples; None if it is not steady."""
    ((name, variables),) = series(run).items()
    if not achieved(run, name):
        return None
    (rounds,) = variables.values()
    kept = [sampled_rows(run)[number] for number in sorted(rounds)[-window_rounds(run) :]]
    minutes = [together([row]) for row in kept]
    _, _, average, _, maximum = together(kept)
    return [
        float(np.mean([one[0] for one in minutes])),
        float(np.mean([one[1] for one in minutes])),
        average,
        np.nan,
        maximum,
    ]


def key_figures(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the figures of the first and the last sample, of the window, of the end, and of the histogram."""
    kept, window = samples(run, "", "stimulus"), _window(run)
    end = at_end(kept)
    last = together(end)
    last[3] = math.nan
    return [
        ["First sample (FOB)", *together(kept[:1])],
        *([["Measurement window", *window]] if window else []),
        ["Last full sample", *together(without_shortened(kept, kept)[-1:])],
        [text("End: last {time}, all I/Os", float(column(end, "seconds").sum())), *last],
        *(_histogram(run, after) for after in measurements(run, "histogram")),
    ]


def _histogram(run: Path, after: Row) -> list[Expected]:
    parts = answers(run, [after])
    times = response_times(parts)
    shown = (times[f"{name}_response_us"] / 1000 for name in ("average", "five_nines", "maximum"))
    return [
        f"Histogram after it, {after['point']}",
        rate(parts, "total_ios"),
        rate(parts, "io_bytes") / 1e6,
        *shown,
    ]


def stimulus(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the facts of the stimulus: its time, what it wrote, how often the engine started."""
    kept, measured = samples(run, "", "stimulus"), measurements(run, "stimulus")
    written = float(column(kept if is_imported(run) else measured, "write_bytes").sum())
    capacity = float(facts(run)["dut.capacity_bytes"])
    starts = text("{}", float(len(measured)))
    if len(measured) > 1 and not is_imported(run):
        longest = float(column(measured[1:], "idle_gap_ms").max())
        starts = text("{}; longest idle gap between them: at most {} ms", float(len(measured)), longest)
    amount, unit = in_decimal_unit(written)
    expected: dict[str, Expected] = {
        "Stimulus": None,
        "Alignment": None,
        "Ended by": _ended_by(run, written / capacity),
        "Time": text("{time}", float(kept[-1]["ended_seconds"])),
        "Written by the stimulus": text(f"{{}} {unit} (TGBW), {{}} drive fills", amount, written / capacity),
    }
    if facts(run)["dut.kind"] != "simulated":
        expected["fio starts"] = starts
    return labelled(table, expected)


def _ended_by(run: Path, fills: float) -> Expected:
    """Return the limit that the stimulus reached."""
    if is_imported(run):
        return "end not stated in its file"
    if _window(run):
        return "steady state"
    capacities = parameter(run, "saturation.capacities")
    if fills >= capacities * (1 - 1e-9):
        return text("{} x user capacity written", capacities)
    return text("{time} elapsed", parameter(run, "saturation.seconds"))


def data(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return single samples with what had been written by their end, evenly over the stimulus, and the last one."""
    kept = samples(run, "", "stimulus")
    capacity = float(facts(run)["dut.capacity_bytes"])
    written = np.cumsum(column(kept, "write_bytes"))
    minutes = column(kept, "ended_seconds") / 60
    whole = without_shortened(kept, kept)
    places = shown_places(kept.index(whole[-1]) + 1, len(table.body))
    return [
        [float(minutes[at]), *together([kept[at]]), float(written[at]) / 1e9, float(written[at]) / capacity]
        for at in places
    ]


def shown_places(count: int, shown: int) -> list[int]:
    """Return which of ``count`` samples a table of ``shown`` rows has: every n-th from the first, and the last."""
    for step in range(1, count + 1):
        places = sorted({*range(0, count, step), count - 1})
        if len(places) == shown:
            return places
    raise AssertionError(f"{shown} rows of {count} samples are not every n-th")


# -- consistency ------------------------------------------------------------------------------------------------------


def consistency(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the spread of the samples at the end of the stimulus, without shortened ones."""
    kept = samples(run, "", "stimulus")
    usual = float(np.median(column(kept, "seconds")))
    whole = at_end(kept)
    iops = total(whole, "ios") / column(whole, "seconds")
    mean, deviation = float(iops.mean()), float(iops.std(ddof=1))
    length = float(whole[-1]["ended_seconds"]) - (float(whole[0]["ended_seconds"]) - float(whole[0]["seconds"]))
    omitted = len(kept) - kept.index(whole[0]) - len(whole)
    left_out = f"; {omitted} shortened sample{'s' * (omitted != 1)} omitted" if omitted else ""
    even = 100 * float(np.mean(np.abs(iops - mean) <= 0.1 * mean))
    worst = float(np.sort(iops)[math.ceil(len(iops) / 100) - 1])
    expected: dict[str, Expected] = {
        "Samples": text(f"{{}} x {{time}}, the last {{time}}{left_out}", float(len(iops)), usual, length),
        "Mean": text("{} IOPS", mean),
        "Standard deviation": text("{} IOPS, {} % of the mean", deviation, 100 * deviation / mean),
        "Worst, best sample": text("{} IOPS, {} IOPS", float(iops.min()), float(iops.max())),
        "Worst 1 % of the samples": text("{} IOPS or less", worst) if len(iops) >= 100 else None,
        "Within 10 % of the mean": text("{} % of the samples", even),
        "Consistency (mean / standard deviation)": _ratio(iops),
    }
    return labelled(table, expected)


def _ratio(iops: Array) -> Expected:
    """Return mean by deviation; if the samples have a trend, the rule that says so instead."""
    rise, p_percent = trend(iops)
    line = f"the least squares line of the IOPS {'rises' if rise > 0 else 'falls'} by {{}} % of the mean"
    if abs(rise) > 10:
        return text(f"n/a: {line}, more than 10 %", abs(rise))
    if p_percent < 1:
        test = "the IOPS have a trend: the Mann-Kendall test gives p = {} %, less than 1 %"
        return text(f"n/a: {test}; {line} (allowed: 10 %)", p_percent, abs(rise))
    return text("{}", float(iops.mean() / iops.std(ddof=1)))


def trend(iops: Array) -> tuple[float, float]:
    """Return by how many percent of their mean values rise, and the p-value of the order of their parts in percent."""
    slope = float(np.polyfit(np.arange(len(iops), dtype=float), iops, 1)[0])
    rise = 100 * slope * (len(iops) - 1) / float(iops.mean())
    return rise, 100 * p_value([float(part.mean()) for part in parts_of(iops, 10)])


def parts_of(iops: Array, count: int) -> list[Array]:
    edges = [len(iops) * part // count for part in range(count + 1)]
    return [iops[first:last] for first, last in pairwise(edges)]


def p_value(numbers: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Kendall test: how many orders have at least as much trend."""
    count = len(numbers)
    pairs = count * (count - 1) // 2
    inversions = sum(numbers[i] > numbers[j] for i, j in product(range(count), repeat=2) if i < j)
    orders = np.array([1.0])  # orders of n values by their number of inversions
    for length in range(2, count + 1):
        orders = np.convolve(orders, np.ones(length))
    fewest = min(inversions, pairs - inversions)
    return min(1.0, 2 * float(orders[: fewest + 1].sum() / orders.sum()))
