"""The key figures of each test in the summary of all tests, as phrases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.recomputation import demand, profiles, recoveries, saturation, sentences
from tests.recomputation.matrices import over_window
from tests.recomputation.printed import Text, text
from tests.recomputation.record import (
    achieved,
    column,
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

_UNITS = {"iops": "IOPS", "mb_per_second": "MB/s"}


def key_figures(run: Path) -> list[Text]:
    """Return the phrases of a test in their order."""
    test = facts(run)["test"]
    if test in ("dirth", "composite"):
        return list(_operating_points(run))
    if test == "profile":
        return profiles.phrases(run)
    if test == "xsr":
        return list(_recovered(run))
    unsteady, points = len(sentences.unsteady_points(run)), len(rows(run, "points"))
    counts = [text(f"{unsteady} of {points} points not steady")] if unsteady else []
    return [*_tracked(run), *counts, *_sampled(run), *_wait_states(run)]


def _operating_points(run: Path) -> Iterator[Text]:
    """Return each operating point with the IOPS for which it was chosen, if they are not its own."""
    stimulus = rows(run, "points")[0]["point"]
    for name, choice in demand.choices(run).items():
        point = choice.candidates[0]
        wanted = [choice.target] if choice.target != point.iops else []
        word = "best" if name == "Max IOPS" else "target"
        template = f"{stimulus}, {name} point {point.label}: {{}} IOPS{f' ({word} {{}})' * len(wanted)}, ART {{}} ms"
        yield text(template, point.iops, *wanted, point.figures["average_ms"])


def _tracked(run: Path) -> Iterator[Text]:
    """Return each tracked variable over its window, then the reads of the writes; response times are of all I/Os."""
    judged = [row for row in rows(run, "windows") if not is_sampled(run, row["series"])]
    for part in dict.fromkeys(row["series"] for row in judged):
        points = [one for one in rows(run, "points") if one["part"] in ("", part)]
        metrics = {row["variable"]: row["metric"] for row in judged if row["series"] == part}
        shown = [one for variable in metrics for one in points if one["point"] == variable]
        sizes = {one["block_size_bytes"]: metrics[one["point"]] for one in shown if one["read_percent"] == "0"}
        shown += [
            one
            for size in sizes
            for one in points
            if one["block_size_bytes"] == size and one["read_percent"] == "100" and one not in shown
        ]
        for one in shown:
            metric = metrics.get(one["point"]) or sizes[one["block_size_bytes"]]
            mean = over_window(run, one)
            if metric == "average_response_ms":
                yield text(f"{one['point']}: ART {{}} ms", mean["average_ms"])
            else:
                yield text(f"{one['point']}: {{}} {_UNITS[metric]}", mean[metric])


def _sampled(run: Path) -> Iterator[Text]:
    """Return the IOPS of the last window of samples, or those of the end of a write saturation that is not steady."""
    for name, variables in series(run).items():
        if not is_sampled(run, name):
            continue
        ((stimulus, rounds),) = variables.items()
        if facts(run)["test"] == "wsat" and not achieved(run, name):
            end = recoveries.at_end(samples(run, "", "stimulus"))
            seconds = float(column(end, "seconds").sum())
            template = f"{stimulus}, end of the stimulus: {{}} IOPS, last {{time}}, not steady"
            yield text(template, saturation.together(end)[0], seconds)
            for after in measurements(run, "histogram"):
                milliseconds = max(values(after, "read_runtime_ms", "write_runtime_ms"))
                iops = per_second(float(total([after], "ios")[0]), milliseconds / 1000)
                yield text(f"{after['point']}, histogram after it: {{}} IOPS", iops)
            continue
        last = [rounds[number] for number in sorted(rounds)[-window_rounds(run) :]]
        state = "steady state" if achieved(run, name) else "last window, NOT ACHIEVED"
        baseline = "Baseline, " * (facts(run)["test"] == "hir")
        yield text(f"{baseline}{stimulus}: {{}} IOPS, {state}", float(np.mean(last)))


def _wait_states(run: Path) -> Iterator[Text]:
    if facts(run)["test"] == "hir":
        for idle in parameters(run, "wait_states.idle_seconds"):
            part = f"Wait State {idle / parameter(run, 'wait_states.access_a_seconds'):g}"
            kept = samples(run, part, "access A")
            iops = per_second(float(total(kept, "ios").sum()), float(column(kept, "seconds").sum()))
            after = samples(run, part, "access C")
            found = recoveries.means(after, list(total(after, "ios")), parameter(run, "settling.sample_seconds"))
            base = recoveries.baseline(run)
            returned = recoveries.return_text(run, found, recoveries.return_time(found, 0.9 * base, 1.1 * base), base)
            template = f"{part}, {idle:g} s idle: A {{}} IOPS, C {{}} IOPS at its end, return to baseline "
            yield text(template + returned.template, iops, found[-1][2], *returned.figures)


def _recovered(run: Path) -> Iterator[Text]:
    base, returned = recoveries.recovery_of_last(run)
    first, last = recoveries.groups(run)[0], recoveries.groups(run)[-1]
    (stimulus,) = {measured["point"] for measured in measurements(run, "stimulus") if measured["part"] == first}
    before = f"{first} ({stimulus}), end: {{}} MB/s; {last}:"
    if math.isnan(returned["for_good"]):
        yield text(f"{before} not back at 90 % of it", base)
    else:
        span = recoveries.span_of_last(run, returned["for_good"])
        yield text(f"{before} back at 90 % of it after {span.template}", base, *span.figures)
