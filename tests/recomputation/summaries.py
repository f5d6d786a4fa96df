"""The key figures of each test in the summary of all tests, as phrases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.recomputation import demand, profiles, recoveries, saturation
from tests.recomputation.matrices import over_window
from tests.recomputation.printed import Text, text
from tests.recomputation.record import (
    achieved,
    column,
    determination,
    facts,
    is_sampled,
    measurements,
    parameter,
    parameters,
    per_second,
    rows,
    samples,
    series,
    total,
    values,
    window_rounds,
)

_UNITS = {"iops": "IOPS", "mb_per_second": "MB/s", "average_response_ms": "ms"}


def key_figures(run: Path) -> list[Text]:
    """Return the phrases of a test in their order."""
    test = facts(run)["test"]
    if test in ("dirth", "composite"):
        return [
            text(f"{name}: {{}} at {point.label}, ART {{}} ms", point.iops, point.figures["average_ms"])
            for name, choice in demand.choices(run).items()
            for point in choice.candidates[:1]
        ]
    if test == "profile":
        return profiles.phrases(run)
    if test == "xsr":
        return list(_recovered(run))
    return [*_tracked(run), *_sampled(run), *_wait_states(run)]


def _tracked(run: Path) -> Iterator[Text]:
    """Return the mean of each tracked variable over its window; a response time is the mean of all I/Os."""
    for row in rows(run, "windows"):
        if is_sampled(run, row["series"]):
            continue
        (point,) = (
            one for one in rows(run, "points") if one["point"] == row["variable"] and one["part"] in ("", row["series"])
        )
        if row["metric"] == "average_response_ms":
            yield text(f"{row['variable']}: ART {{}} ms", over_window(run, point)["average_ms"])
        else:
            rounds = series(run)[row["series"]][row["variable"]]
            average = determination(rounds, max(rounds), window_rounds(run))["average"]
            yield text(f"{row['variable']}: {{}} {_UNITS[row['metric']]}", average)


def _sampled(run: Path) -> Iterator[Text]:
    """Return the IOPS of the last window of samples, or those of the end of a write saturation that is not steady."""
    for name, variables in series(run).items():
        if not is_sampled(run, name):
            continue
        if facts(run)["test"] == "wsat" and not achieved(run, name):
            end = recoveries.at_end(samples(run, "", "stimulus"))
            seconds = float(column(end, "seconds").sum())
            yield text("{} IOPS, last {time} of the stimulus, not steady", saturation.together(end)[0], seconds)
            for after in measurements(run, "histogram"):
                milliseconds = max(values(after, "read_runtime_ms", "write_runtime_ms"))
                iops = per_second(float(total([after], "ios")[0]), milliseconds / 1000)
                yield text(f"{{}} IOPS, histogram after it ({after['point']})", iops)
            continue
        (rounds,) = variables.values()
        last = [rounds[number] for number in sorted(rounds)[-window_rounds(run) :]]
        state = "steady state" if achieved(run, name) else "last window, NOT ACHIEVED"
        yield text(f"{{}} IOPS, {state}", float(np.mean(last)))


def _wait_states(run: Path) -> Iterator[Text]:
    if facts(run)["test"] == "hir":
        for idle in parameters(run, "wait_states.idle_seconds"):
            part = f"Wait State {idle / parameter(run, 'wait_states.access_a_seconds'):g}"
            kept = samples(run, part, "access A")
            iops = per_second(float(total(kept, "ios").sum()), float(column(kept, "seconds").sum()))
            yield text(f"{part}: {{}} IOPS without idle time", iops)


def _recovered(run: Path) -> Iterator[Text]:
    base, returned = recoveries.recovery_of_last(run)
    first, last = recoveries.groups(run)[0], recoveries.groups(run)[-1]
    if math.isnan(returned["for_good"]):
        yield text(f"{first}: {{}} MB/s; {last}: not recovered", base)
    else:
        yield text(f"{first}: {{}} MB/s; {last}: recovered after {{time}}", base, returned["for_good"])
