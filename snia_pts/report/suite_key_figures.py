"""The key figures of a test as phrases, for the summary of all tests."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis import recovery
from ..analysis.operating_points import demand_means, operating_points
from ..model.measurement import METRICS, average_response_us, mean, rate_per_second
from ..results.result import Loop, TestResult, has_spec
from ..results.tracked_series import untracked_reads
from ..results.unsteady_points import unsteady_points
from ..spec import CrossStimulusSpec, DemandSpec, HostIdleSpec, WriteSaturationSpec
from ..spec.reader import definitions
from ..units import counted, duration, number
from .header import NOT_ACHIEVED
from .tables import time_span

#: Terms in key figures, with their explanations.
_TERMS = (
    ("ART ", "ART: average response time of all I/Os of the measurement window."),
    (
        "Access A",
        "Access A: writes between idle times; its IOPS are those of the time of writing. Access C: writes after them, "
        "without idle time.",
    ),
    (
        "AG ",
        "AG: access group; the last one repeats the stimulus of the first, after another one. The share that it must "
        "reach is of this suite, not of the standard.",
    ),
)


def explained_terms(figures: str) -> str:
    """Return sentences on the terms in these key figures; empty if they have none."""
    return " ".join(text for term, text in _TERMS if term in figures)


def key_figures(result: TestResult) -> Iterator[str]:
    """Yield the key figures of a test, a phrase for each, as far as they were measured."""
    from .registry import further_pages  # loads the libraries that draw, which no run may load before its last test

    spec = result.facts.spec
    if further := further_pages(spec.test):
        yield from further.key_figures(result)
    elif isinstance(spec, DemandSpec):
        loop = result.loop()
        means = demand_means(loop.window_rounds) if loop else ()
        for point in operating_points(means, spec.operating_points):
            yield f"{point.name}: {number(point.iops)} at {point.demand.label}, ART {number(point.art_ms)} ms"
    else:
        yield from _figures_of_windows(result)


def _figures_of_windows(result: TestResult) -> Iterator[str]:
    """Yield the key figures of a test with tracked variables, recovery or a sampled stimulus."""
    spec = result.facts.spec
    for loop in result.loops:
        yield from _tracked(loop)
    if unsteady := sum(len(unsteady_points(result, loop)) for loop in result.loops if result.steady_so_far):
        points = counted(sum(len(result.points(loop)) for loop in result.loops), "point")
        yield f"{unsteady} of {points} not steady"
    if has_spec(result, CrossStimulusSpec):
        yield from _recovered(result)
    elif isinstance(spec, WriteSaturationSpec) and not result.steady_so_far:
        yield from _at_end(result)
    elif result.sampling and result.sampling.window:
        (tracked, state), *_ = result.sampling.window.determinations
        steady = "steady state" if result.sampling.steady else f"last window, {NOT_ACHIEVED}"
        yield f"{number(state.average)} {METRICS[tracked.metric].unit}, {steady}"
    if has_spec(result, HostIdleSpec):
        yield from _wait_states(result)


def _wait_states(result: TestResult[HostIdleSpec]) -> Iterator[str]:
    """Yield the IOPS of each wait state in Access A, and at the end of Access C."""
    for line in result.lines("access A"):
        seconds, after = sum(line.seconds), result.time_line("access C", line.part)
        if seconds:
            text = f"{line.part}: {number(rate_per_second(sum(line.write_ios), seconds))} IOPS in Access A"
            means = list(recovery.iops_means(after, result.facts.spec.settling.sample_seconds)) if after else []
            yield text + (f", {number(means[-1].value)} at the end of Access C" if means else "")


def _at_end(result: TestResult) -> Iterator[str]:
    """Yield the final rates of a write saturation without steady state; its window may be from the fresh drive."""
    line, after = result.time_line("stimulus"), result.time_line("histogram")
    rows = recovery.end_rows(line) if line is not None else []
    if line is not None and (seconds := sum(line.seconds[row] for row in rows)):
        ios = sum(line.read_ios[row] + line.write_ios[row] for row in rows)
        rate = number(rate_per_second(ios, seconds))
        yield f"{rate} IOPS, last {duration(seconds)} of the stimulus, not steady"
    if after is not None and (ios := sum(after.read_ios) + sum(after.write_ios)):
        rate = number(rate_per_second(ios, sum(after.seconds)))
        yield f"{rate} IOPS, histogram after it ({after.stimulus.label})"


def _tracked(loop: Loop) -> Iterator[str]:
    """Yield the tracked variables and the reads beside them over the window; a response time is that of all I/Os."""
    variables = [variable for variable, _ in loop.window.determinations] if loop.window else []
    for variable in (*variables, *untracked_reads(loop)):
        points, metric = [measured.point(variable) for measured in loop.window_rounds], METRICS[variable.metric]
        response = variable.metric == "average_response_ms"
        value = average_response_us(points) / 1000 if response else mean(map(metric.read, points))
        yield f"{points[-1].stimulus.label}: {'ART ' * response}{number(value)} {metric.unit}"


def _recovered(result: TestResult[CrossStimulusSpec]) -> Iterator[str]:
    """Yield the throughput of the group before the other stimulus, and when the last group reached its share of it."""
    groups = result.lines("stimulus")
    outcome = recovery.recovery(groups)
    if outcome is not None:
        (label,) = {line.stimulus.label for line in groups if line.part == outcome.reference}
        share = f"{100 - definitions().recovery.tolerance_percent:g} % of it"
        text, sample = f"not back at {share}", outcome.time.recovered
        if sample is not None:
            span = time_span(sample.begin, sample.end, result.facts.spec.groups.sample_seconds)
            text = f"back at {share} after {span}"
        yield f"{outcome.reference} ({label}): {number(outcome.baseline)} MB/s; {outcome.group}: {text}"
