"""The key figures of a test as phrases, for the summary of all tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis import recovery
from ..analysis.operating_points import demand_means, exceeds_art_limit, operating_points
from ..model.measurement import METRICS, average_response_us, mean, rate_per_second
from ..results.result import Loop, TestResult, has_spec
from ..results.tracked_series import untracked_reads
from ..results.unsteady_points import unsteady_points
from ..spec import CrossStimulusSpec, DemandSpec, HostIdleSpec, WriteSaturationSpec
from ..spec.reader import definitions
from ..units import counted, duration, number
from .header import NOT_ACHIEVED
from .tables import time_span


def explained_terms(result: TestResult, figures: Sequence[str]) -> Iterator[str]:
    """Yield sentences on the terms in the key ``figures`` of a test, and on the rules that are of this suite."""
    from .sections.consistency import end_definition  # loads the libraries that draw

    spec, rule = result.facts.spec, definitions().recovery
    text = "; ".join(figures)
    if "ART " in text:
        yield "ART: average response time of all I/Os of the measurement window."
    if "Max IOPS point" in text and isinstance(spec, DemandSpec):
        tolerance = f"{spec.operating_points.tolerance_percent:g} %"
        yield (
            f"Max IOPS point: the lowest Total OIO with IOPS within {tolerance} of the best; best: the highest IOPS "
            f"with an ART below {spec.operating_points.maximum_art_ms:g} ms. Mid IOPS point: the lowest Total OIO with "
            f"IOPS near the target, the middle between the best and the Min IOPS. The tolerance of {tolerance} is of "
            "this suite, not of the standard."
        )
    if ", end" in text:
        yield end_definition()
    if "Wait State" in text and isinstance(spec, HostIdleSpec):
        seconds = duration(spec.settling.sample_seconds)
        yield (
            "A: Access A, writes between idle times; its IOPS are those of the time of writing. C: Access C, writes "
            f"after them, without idle time; its end is the last {seconds}. Return to baseline: the first {seconds} of "
            f"Access C from which on the mean of every {seconds} is within {rule.tolerance_percent:g} % of the "
            "baseline; this definition is of this suite."
        )
    if outcome := recovery.recovery(result.lines("stimulus")) if isinstance(spec, CrossStimulusSpec) else None:
        groups = [line.part for line in result.lines("stimulus")]
        between = groups[groups.index(outcome.reference) + 1 : groups.index(outcome.group)]
        yield (
            f"AG: access group. {outcome.group} repeats the stimulus of {outcome.reference} after "
            f"{' and '.join(between)}; the threshold of {100 - rule.tolerance_percent:g} % is of this suite, not of "
            "the standard."
        )


def key_figures(result: TestResult) -> Iterator[str]:
    """Yield the key figures of a test, a phrase for each, as far as they were measured."""
    from .registry import further_pages  # loads the libraries that draw, which no run may load before its last test

    spec = result.facts.spec
    if further := further_pages(spec.test):
        yield from further.key_figures(result)
    elif isinstance(spec, DemandSpec):
        yield from _operating_points(result, spec)
    else:
        yield from _figures_of_windows(result)


def _operating_points(result: TestResult, spec: DemandSpec) -> Iterator[str]:
    """Yield the operating points of a loop, with the best or target IOPS for which they were chosen."""
    loop = result.loop()
    rounds = loop.window_rounds if loop else ()
    points = operating_points(demand_means(rounds), spec.operating_points)
    limit = spec.operating_points.maximum_art_ms
    exceeding = f" (no point has an ART below {limit:g} ms)" if exceeds_art_limit(points, limit) else ""
    for point in points:
        wanted = f" ({'best' if point.name == 'Max IOPS' else 'target'} {number(point.target_iops)})"
        yield (
            f"{rounds[0].measurements[0].stimulus.label}, {point.name} point{exceeding} {point.demand.label}: "
            f"{number(point.iops)} IOPS{wanted * (point.iops != point.target_iops)}, ART {number(point.art_ms)} ms"
        )


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
        stimulus = next(line.stimulus.label for line in result.lines(result.sampling.phase))
        name = f"{'Baseline, ' * isinstance(spec, HostIdleSpec)}{stimulus}"
        yield f"{name}: {number(state.average)} {METRICS[tracked.metric].unit}, {steady}"
    if has_spec(result, HostIdleSpec):
        yield from _wait_states(result)


def _wait_states(result: TestResult[HostIdleSpec]) -> Iterator[str]:
    """Yield the IOPS of each wait state in Access A and at the end of Access C, and its return to the baseline."""
    from .tests.host_idle_recovery import baseline, return_time, states  # loads the libraries that draw

    base, sample_seconds = baseline(result.sampling), result.facts.spec.settling.sample_seconds
    for state in states(result):
        writes = rate_per_second(sum(state.a.write_ios), sum(state.a.seconds))
        text = f"{state.name}, {state.idle_seconds:g} s idle: A {number(writes)} IOPS"
        if state.c is not None:
            *_, end = recovery.iops_means(state.c, sample_seconds)
            returned = return_time(state, base, sample_seconds)
            text += f", C {number(end.value)} IOPS at its end, return to baseline {returned}"
        yield text


def _at_end(result: TestResult) -> Iterator[str]:
    """Yield the final rates of a write saturation without steady state; its window may be from the fresh drive."""
    line, after = result.time_line("stimulus"), result.time_line("histogram")
    rows = recovery.end_rows(line) if line is not None else []
    if line is not None and (seconds := sum(line.seconds[row] for row in rows)):
        ios = sum(line.read_ios[row] + line.write_ios[row] for row in rows)
        rate = number(rate_per_second(ios, seconds))
        yield f"{line.stimulus.label}, end of the stimulus: {rate} IOPS, last {duration(seconds)}, not steady"
    if after is not None and (ios := sum(after.read_ios) + sum(after.write_ios)):
        rate = number(rate_per_second(ios, sum(after.seconds)))
        yield f"{after.stimulus.label}, histogram after it: {rate} IOPS"


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
        yield f"{outcome.reference} ({label}), end: {number(outcome.baseline)} MB/s; {outcome.group}: {text}"
