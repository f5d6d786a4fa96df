"""The tables of host idle recovery and cross stimulus recovery."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.recomputation.printed import Expected, PrintedTable, Text, text
from tests.recomputation.record import (
    Array,
    Row,
    answers,
    column,
    facts,
    measurements,
    parameter,
    parameters,
    per_second,
    response_times,
    samples,
    series,
    total,
    window_rounds,
)

#: Of a measurement, values must stay recovered for the last quarter, or 5 minutes.
_DWELL_SECONDS, _DWELL_SHARE = 300.0, 0.25
#: The end of a stimulus is its last quarter, or its last hour.
_END_SECONDS, _END_SHARE = 3600.0, 0.25
#: Values within 10 % of the baseline have recovered.
_TOLERANCE = 0.1

#: The beginning, the end and the value of a mean.
Mean = tuple[float, float, float]


def means(kept: Sequence[Row], amounts: Sequence[float], mean_seconds: float) -> list[Mean]:
    """Return mean rates over consecutive samples that take nearest to ``mean_seconds`` together."""
    seconds, ends = column(kept, "seconds"), column(kept, "ended_seconds")
    found: list[Mean] = []
    first = 0
    for last in range(len(kept)):
        taken = float(seconds[first : last + 1].sum())
        at_end = last == len(kept) - 1 and (taken >= mean_seconds / 2 or not found)
        if taken + seconds[last] / 2 >= mean_seconds or at_end:
            value = per_second(float(np.sum(amounts[first : last + 1])), taken)
            found.append((float(ends[first] - seconds[first]), float(ends[last]), value))
            first = last + 1
    return found


def return_time(found: Sequence[Mean], low: float, high: float) -> dict[str, float]:
    """Return when means first and finally enter a band, and for how long they stay in it; nan for never."""
    inside = [low <= value <= high for _, _, value in found]
    outside = [place for place, met in enumerate(inside) if not met]
    stays = outside[-1] + 1 if outside else 0
    end = found[-1][1]
    entered = max(0.0, found[stays][0]) if stays < len(found) else math.nan
    dwell = min(_DWELL_SECONDS, _DWELL_SHARE * end)
    in_band = 0.0 if math.isnan(entered) else end - entered
    return {
        "first": max(0.0, found[inside.index(True)][0]) if any(inside) else math.nan,
        "for_good": entered if in_band >= dwell * (1 - 1e-9) else math.nan,
        "for_good_end": found[stays][1] if in_band >= dwell * (1 - 1e-9) else math.nan,
        "measured": end,
        "in_band": in_band,
        "dwell": dwell,
    }


# -- host idle recovery -----------------------------------------------------------------------------------------------


def baseline(run: Path) -> float:
    """Return the mean IOPS of the last window of the preconditioning."""
    ((_, rounds),) = next(iter(series(run).values())).items()
    return float(np.mean(list(rounds.values())[-window_rounds(run) :]))


def idle_seconds(run: Path, part: str) -> Array:
    """Return the times without I/O of a wait state: before every write but the first of Access A."""
    measured = [*measurements(run, "access A", part)[1:], measurements(run, "access C", part)[0]]
    return column(measured, "idle_gap_ms") / 1000


def wait_states(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return idle times, IOPS and the return to the baseline of every wait state."""
    base, access_a_seconds = baseline(run), parameter(run, "wait_states.access_a_seconds")
    cells: list[list[Expected]] = []
    for requested in parameters(run, "wait_states.idle_seconds"):
        part = f"Wait State {requested / access_a_seconds:g}"
        a, c, idle = samples(run, part, "access A"), samples(run, part, "access C"), idle_seconds(run, part)
        writing = column(a, "seconds")
        iops = per_second(float(total(a, "ios").sum()), float(writing.sum()))
        after = means(c, list(total(c, "ios")), parameter(run, "settling.sample_seconds"))
        single = means(c, list(total(c, "ios")), parameter(run, "wait_states.access_c_sample_seconds"))
        band = (1 - _TOLERANCE) * base, (1 + _TOLERANCE) * base
        returned, first = return_time(after, *band), return_time(single, *band)["first"]
        length = parameter(run, "wait_states.access_c_sample_seconds")
        ends = [text("{} ({} - {})", *(float(reduce(idle)) for reduce in (np.median, np.min, np.max)))]
        cells.append(
            [
                part,
                requested,
                *([] if facts(run)["dut.kind"] == "simulated" else ends),
                100 * float(writing.mean() / (writing.mean() + idle.mean())),
                iops,
                100 * iops / base,
                after[0][2],
                after[-1][2],
                100 * after[-1][2] / base,
                "none" if math.isnan(first) else _interval(single, first, length),
                return_text(run, after, returned, base),
            ]
        )
    return cells


def response_times_of_states(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return ART, 99.999 % and MRT of Access A and of Access C, from the bins of the engine's answers.

    The first write of Access A is left out: there is no idle time before it.
    """
    cells: list[list[Expected]] = []
    for requested in parameters(run, "wait_states.idle_seconds"):
        part = f"Wait State {requested / parameter(run, 'wait_states.access_a_seconds'):g}"
        measured = measurements(run, "access A", part)[1:], measurements(run, "access C", part)
        times = [response_times(answers(run, rows)) for rows in measured]
        names = ("average_response_us", "five_nines_response_us", "maximum_response_us")
        cells.append([part, *(one[name] / 1000 for one in times for name in names)])
    return cells


def _interval(found: Sequence[Mean], begin: float, length: float) -> Text:
    """Return the begin and the end of the mean that begins at a time, in minutes if means are over whole minutes."""
    ((first, last, _),) = (one for one in found if max(0.0, one[0]) == begin)
    if length % 60 == 0:
        return text("{} - {} min", max(0.0, first) / 60, last / 60)
    return text("{} - {} s", max(0.0, first), last)


def return_text(run: Path, found: Sequence[Mean], returned: dict[str, float], base: float) -> Text:
    """Return when the means are at the baseline for good, or where they are at the end."""
    if returned["for_good"] >= 0:
        return _interval(found, returned["for_good"], parameter(run, "settling.sample_seconds"))
    if returned["in_band"] > 0:
        return text("only for the last {time}", returned["in_band"])
    return text("none: below it at the end" if found[-1][2] < base else "none: above it at the end")


# -- cross stimulus recovery ------------------------------------------------------------------------------------------


def groups(run: Path) -> list[str]:
    """Return the names of the access groups in their order."""
    return [row["part"] for row in measurements(run, "stimulus")]


def at_end(kept: Sequence[Row]) -> list[Row]:
    """Return the samples of the end of a stimulus: the fewest that are long enough, without shortened ones."""
    required = min(_END_SECONDS, _END_SHARE * float(kept[-1]["ended_seconds"])) * (1 - 1e-9)
    lengths = np.cumsum(column(kept, "seconds")[::-1])
    return without_shortened(kept, kept[-1 - int(np.searchsorted(lengths, required)) :])


def without_shortened(kept: Sequence[Row], some: Sequence[Row]) -> list[Row]:
    """Return some of the samples without those less than half as long as is usual."""
    usual = float(np.median(column(kept, "seconds")))
    return [row for row in some if float(row["seconds"]) >= usual / 2]


def _throughput(kept: Sequence[Row]) -> float:
    return per_second(float(total(kept, "bytes").sum()), float(column(kept, "seconds").sum())) / 1e6


def access_groups(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return throughput and response times of every access group."""
    cells: list[list[Expected]] = []
    for measured in measurements(run, "stimulus"):
        kept = samples(run, measured["part"], "stimulus")
        average, ios = column(kept, "average_response_us"), total(kept, "ios")
        demand = f"T{measured['thread_count']}Q{measured['queue_depth']}"
        cells.append(
            [
                f"{measured['part']}: {measured['point']}, {demand}",
                _throughput(at_end(kept)),
                _throughput(kept),
                float(np.nanmin(column(kept, "mb_per_second"))),
                float(np.dot(ios, average) / ios.sum()) / 1000,
                float(np.nanmax(average)) / 1000,
                float(np.nanmax(column(kept, "maximum_response_us"))) / 1000,
            ]
        )
    return cells


def span_of_last(run: Path, begin: float) -> Text:
    """Return the beginning and the end of the last group's sample that begins at a time."""
    return _interval(_means_of_last(run), begin, parameter(run, "groups.sample_seconds"))


def recovery_of_last(run: Path) -> tuple[float, dict[str, float]]:
    """Return the throughput at the end of the first group, and when the last one, an equal stimulus, is back at it."""
    base = _throughput(at_end(samples(run, groups(run)[0], "stimulus")))
    return base, return_time(_means_of_last(run), (1 - _TOLERANCE) * base, math.inf)


def _means_of_last(run: Path) -> list[Mean]:
    kept = samples(run, groups(run)[-1], "stimulus")
    return means(kept, list(total(kept, "bytes") / 1e6), float(np.median(column(kept, "seconds"))))


def recovery(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the recovery of the last group, compared with the end of the first one, which has the same stimulus."""
    first, last = groups(run)[0], groups(run)[-1]
    base, returned = recovery_of_last(run)
    measured = f"within {{time}} of {last}"
    reached: Expected = text(f"never {measured}", returned["measured"])
    if returned["first"] >= 0:
        reached = span_of_last(run, returned["first"])
    if returned["for_good"] >= 0:
        time = span_of_last(run, returned["for_good"])
    else:
        late = returned["in_band"]
        suffix = ", above the threshold only for the last {time}" if late else ""
        time = text(f"NOT RECOVERED {measured}{suffix}", returned["measured"], *([late] if late else []))
    lowest = float(np.nanmin([value for _, _, value in _means_of_last(run)]))
    return [
        ["Recovery time", time],
        *([] if returned["first"] == returned["for_good"] else [["First recovered sample", reached]]),
        ["Lowest sample", text("{} % of the baseline", 100 * lowest / base)],
        ["Baseline", text(f"{{}} MB/s ({first}, at its end)", base)],
        ["Recovery threshold", text("{} MB/s ({} % of the baseline)", (1 - _TOLERANCE) * base, 100 * (1 - _TOLERANCE))],
        ["Required duration of recovery", text(f"to the end of {last}, at least {{time}}", returned["dwell"])],
    ]


def stalled_samples(run: Path) -> Expected:
    """Return how many samples of each group had an I/O of more than 2 s, from the first of them to the last."""
    texts, figures = [], []
    for part in groups(run):
        kept = samples(run, part, "stimulus")
        slow = [row for row in kept if float(row["maximum_response_us"]) > 2e6]
        if slow:
            begin = max(0.0, float(slow[0]["ended_seconds"]) - float(slow[0]["seconds"]))
            texts.append(f"{{}} of {{}} of {part} (between {{time}} and {{time}} after its start)")
            figures += [float(len(slow)), float(len(kept)), begin, float(slow[-1]["ended_seconds"])]
    return text(f"Samples in which an I/O took more than 2 s: {', '.join(texts) or 'none'}.", *figures)
