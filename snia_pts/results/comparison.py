"""Comparison of several runs of one test: differences of their contexts and of their numbers.

The uncertainty of a difference comes from the rounds of the measurement windows.  A difference in percent is a ratio of
two means, each with its own uncertainty: the relative variances are added (the delta method), and Welch's t (B. L.
Welch, Biometrika 34, 1947) takes the degrees of freedom from the small numbers of values.  A response time is itself a
ratio, the time of all I/Os by their count, so each round is weighted by its I/Os (the linear approximation of a ratio
estimator: W. G. Cochran, Sampling Techniques, 3rd edition, 1977, chapter 6).

An interval covers what a single run of each can show; only several drives show how drives of a kind differ.  Each
number is judged by itself, so by chance about one in twenty is beyond its interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..model.description import display_value
from ..spec import Deviation, Spec, WriteSaturationSpec
from ..spec.base import HOST
from ..spec.reader import spec_values
from ..units import counted, distinct_decimals, exact_capacity, percent_decimals, signed
from .key_figures import Better, KeyFigure, key_figures, loop_points
from .result import TestResult

#: Minimum number of rounds or repeats on both sides of an interval.
MIN_INTERVAL_ROUNDS = 3
#: The confidence of an interval, in percent.
CONFIDENCE_PERCENT = 95.0
#: The minimum number of runs for a spread.
SPREAD_RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDifference:
    """A property that differs between the runs, with the value of each run.

    ``weight`` is its consequence.  ``other``: the numbers answer different questions.  ``flagged``: a reader must know
    it. ``context``: a possible subject of the comparison, such as another drive, firmware or host.
    """

    what: str
    values: tuple[str, ...]
    weight: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of a value from the first run's, in percent of the latter, with its confidence interval.

    The interval is None if the values do not come from rounds, or from fewer than ``MIN_INTERVAL_ROUNDS``, or from a
    window that is not steady.  ``round_count`` is the number of rounds of the run that has fewer.
    """

    percent: float
    low: float | None = None
    high: float | None = None
    round_count: int = 0

    @property
    def significant(self) -> bool | None:
        """Whether the interval excludes 0; None without an interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0

    def interval_text(self, noun: str) -> str:
        """Return the interval in percent, or why there is none: ``2 repeats: no interval``.

        ``noun`` is the name of a round in this test.
        """
        if self.low is not None and self.high is not None:
            least = min(percent_decimals(self.low), percent_decimals(self.high))
            decimals = distinct_decimals(self.low, self.high, least=least)
            return f"{signed(self.low, decimals)} to {signed(self.high, decimals)}"
        few = 0 < self.round_count < MIN_INTERVAL_ROUNDS
        return f"{counted(self.round_count, noun)}: no interval" if few else "no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One key figure of all runs; None for a run without it.  Differences refer to the first run."""

    metric: str
    at: str
    unit: str
    better: Better | None
    figures: tuple[KeyFigure | None, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """The available values."""
        return tuple(figure.value for figure in self.figures if figure is not None)

    @property
    def differences(self) -> tuple[Difference | None, ...]:
        """The difference of each run from the first; None for the first, and if a value is missing."""
        first, *others = self.figures
        return (None, *(difference(first, other) if first and other else None for other in others))

    @property
    def spread_percent(self) -> float | None:
        """Maximum minus minimum, in percent of the median; None for fewer than three runs."""
        values, median = self.values, statistics.median(self.values) if self.values else 0.0
        return 100 * (max(values) - min(values)) / median if len(values) >= SPREAD_RUNS and median else None


def difference(first: KeyFigure, other: KeyFigure) -> Difference | None:
    """Return the difference of a figure from the first; None if the first is 0.

    The interval is centred on the difference, and its width comes from the scatter of the rounds of both.  There is no
    interval if a window was not steady, or if a figure has fewer than ``MIN_INTERVAL_ROUNDS`` rounds: the quantile of
    Student's t is 12.7 for two rounds, so that such an interval says nothing.
    """
    if not first.value:
        return None
    percent = 100 * (other.value - first.value) / first.value
    count = min(len(first.rounds), len(other.rounds))
    if count < MIN_INTERVAL_ROUNDS or first.unsteady or other.unsteady or not other.value:
        return Difference(percent=percent, round_count=count)
    margin = abs(100 * other.value / first.value) * welch(_relative_rounds(first), _relative_rounds(other))
    return Difference(percent=percent, low=percent - margin, high=percent + margin, round_count=count)


def missing_intervals(changes: Iterable[Difference | None], noun: str) -> str:
    """Return why differences have no interval, each reason once; empty if all have one."""
    missing = [change for change in changes if change is not None and change.significant is None]
    return "; ".join(dict.fromkeys(change.interval_text(noun) for change in missing))


def _relative_rounds(figure: KeyFigure) -> tuple[float, ...]:
    """Return each round relative to the figure: their mean is 1, and their variance is that of the value."""
    weights = figure.weights or (1.0,) * len(figure.rounds)
    mean_weight = math.fsum(weights) / len(weights)
    return tuple(
        1 + weight / mean_weight * (value / figure.value - 1)
        for weight, value in zip(weights, figure.rounds, strict=True)
    )


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Return half the width of the confidence interval for the difference of two means.

    The degrees of freedom are those of Welch and Satterthwaite.  Both sequences need at least two values.
    """
    from scipy.special import stdtrit

    variances = [statistics.variance(values) / len(values) for values in (one, other)]
    variance = math.fsum(variances)
    if not variance:
        return 0.0
    degrees_of_freedom = variance**2 / math.fsum(
        part**2 / (len(values) - 1) for part, values in zip(variances, (one, other), strict=True)
    )
    return float(stdtrit(degrees_of_freedom, 0.5 + CONFIDENCE_PERCENT / 200)) * math.sqrt(variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallDifference:
    """Summary of the differences of a run's figures of one metric from the first run's, in percent.

    ``significant`` counts the differences with an interval that excludes 0, ``judged`` those with an interval.
    """

    count: int
    median: float
    minimum: float
    maximum: float
    significant: int
    judged: int


def overall_difference(rows: Sequence[ComparedFigure], index: int) -> OverallDifference | None:
    """Summarize the differences of the run with ``index`` from the first; None if none can be compared."""
    differences = [change for row in rows if (change := row.differences[index]) is not None]
    if not differences:
        return None
    percents = [change.percent for change in differences]
    return OverallDifference(
        count=len(differences),
        median=statistics.median(percents),
        minimum=min(percents),
        maximum=max(percents),
        significant=sum(change.significant is True for change in differences),
        judged=sum(change.significant is not None for change in differences),
    )


def compare_figures(results: Sequence[TestResult]) -> tuple[ComparedFigure, ...]:
    """Return all key figures of ``results``, those of the points of a loop in the order of the reports' axes.

    The other figures follow in the order of the first result that has each, and so do the points of a profile.
    """
    figures_by_run = [
        {(figure.metric, figure.at, figure.unit): figure for figure in key_figures(result)} for result in results
    ]
    places = {at: place for result in results for at, place in _axis_places(result)}
    keys = sorted(
        dict.fromkeys(key for figures in figures_by_run for key in figures),
        key=lambda key: places.get(key[1], (math.inf,)),
    )
    return tuple(
        ComparedFigure(
            metric=metric,
            at=at,
            unit=unit,
            figures=tuple(figures.get((metric, at, unit)) for figures in figures_by_run),
            better=next(
                figures[metric, at, unit].better for figures in figures_by_run if (metric, at, unit) in figures
            ),
        )
        for metric, at, unit in keys
    )


def _axis_places(result: TestResult) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield each point of the loops with its R/W mix, block size, Thread Count and Queue Depth; none of a profile."""
    if result.facts.spec.rounds_are_repeats:
        return
    for loop in result.loops:
        for at, (first, *_) in loop_points(result, loop):
            stimulus = first.stimulus
            yield (
                at,
                (
                    stimulus.read_percent,
                    stimulus.largest_block_bytes,
                    stimulus.thread_count,
                    stimulus.queue_depth,
                ),
            )


# -- context differences ----------------------------------------------------------------------------------------------

_Read = Callable[[TestResult], str]
#: Runs that differ in one of these answer different questions.
_OTHER: tuple[tuple[str, _Read], ...] = (
    ("test", lambda result: result.facts.spec.title),
    ("version of the standard", lambda result: result.facts.spec.pts),
    ("class", lambda result: result.facts.test_class),
    ("what was tested", lambda result: "a simulated drive" if result.facts.dut.simulated else "a device"),
)
#: Properties that a reader must know, with the usual value, which is not reported if all runs have it.
_FLAGGED: tuple[tuple[str, _Read, str], ...] = (
    ("end of the run", lambda result: result.ending, "finished"),
    ("steady state", lambda result: "achieved" if result.steady_so_far else "NOT ACHIEVED", "achieved"),
    ("host-limited points", lambda result: _host_limited(result), "0"),
    ("what ended the stimulus", lambda result: _saturation_end(result), ""),
    ("interruptions", lambda result: str(len(result.interruptions)), "0"),
    ("kind of target", lambda result: result.facts.dut.kind, ""),
    ("measured by", lambda result: _tool(result), ""),
)
_CONTEXT: tuple[tuple[str, _Read], ...] = (
    ("model", lambda result: display_value(result.facts.dut, result.facts.about, "model")),
    ("serial number", lambda result: display_value(result.facts.dut, result.facts.about, "serial")),
    ("firmware", lambda result: display_value(result.facts.dut, result.facts.about, "firmware")),
    ("capacity", lambda result: _capacity(result.facts.dut.capacity_bytes)),
    ("bus", lambda result: result.facts.dut.bus),
    ("write cache", lambda result: result.facts.dut.write_cache),
    ("host", lambda result: result.facts.platform.hostname),
    ("CPU", lambda result: result.facts.platform.cpu),
    ("operating system", lambda result: result.facts.platform.operating_system),
    ("kernel", lambda result: result.facts.platform.kernel),
    ("suite", lambda result: result.facts.platform.suite_version),
    ("engine", lambda result: f"{result.facts.platform.engine} {result.facts.platform.engine_version}".strip()),
    ("I/O engine", lambda result: result.facts.platform.io_engine),
)
#: Consequences of other differences.
_OUTCOMES = ("end of the run", "steady state", "host-limited points", "what ended the stimulus", "interruptions")
#: Host settings that a run records only if they are a problem.
_RECORDED_IF_BAD = ("direct I/O",)
#: Momentary readings, which differ between any two runs.
_MOMENTARY = ("other load", "other I/O", "swap", "time in the queue")


def context_differences(results: Sequence[TestResult]) -> tuple[ContextDifference, ...]:
    """Return all differences between the contexts of ``results``, the most important first.

    A run that is not steady, not finished or interrupted is reported even if this applies to all runs.
    """
    context = (*_differing(results, _CONTEXT, "context"), *_host_settings(results))
    return (*_differing(results, _OTHER, "other"), *_point_mismatch(results), *_flagged(results), *context)


def possible_causes(differences: Sequence[ContextDifference]) -> tuple[ContextDifference, ...]:
    """Return the differences that may explain the numbers: all recorded ones except consequences of others."""
    return tuple(entry for entry in differences if len(set(entry.values)) > 1 and not _is_consequence(entry))


def _is_consequence(entry: ContextDifference) -> bool:
    """Return whether a difference cannot change the number of a point.

    Points with the same name have the same values on all axes, even if an axis is longer in one run.
    """
    longer_axis = entry.what.startswith("axis ") and any(", " in value for value in entry.values)
    return longer_axis or entry.what in (*_OUTCOMES, "repeats")


def points_compared(results: Sequence[TestResult]) -> int | None:
    """Return the number of points that all runs have; None if rounds are not repeats of named points."""
    if not all(result.facts.spec.rounds_are_repeats for result in results):
        return None
    return len(set.intersection(*({loop.part for loop in result.loops} for result in results)))


def _point_mismatch(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Yield a difference if runs of named points have no name in common: there is nothing to compare."""
    if points_compared(results) == 0:
        values = tuple(f"{len({loop.part for loop in result.loops})} with other names" for result in results)
        yield ContextDifference(what="points", values=values, weight="other")


def _host_settings(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Yield the host settings that differ; if the test varies a setting, its value is the list of its values."""
    settings_by_run = [
        {setting.name: setting.value for setting in result.facts.platform.settings if setting.name not in _MOMENTARY}
        | {name: ", ".join(values) for name, values in result.facts.spec.varied_settings.items()}
        for result in results
    ]
    for name in dict.fromkeys(name for settings in settings_by_run for name in settings):
        values = tuple(settings.get(name, _absent(name, settings)) for settings in settings_by_run)
        if len(set(values)) > 1:
            yield ContextDifference(what=name, values=values, weight="context")


def _absent(name: str, settings: Mapping[str, str]) -> str:
    """Return the value of a setting that is not among a run's ``settings``, which are empty if it recorded none."""
    return "none" if name in _RECORDED_IF_BAD and settings else "not recorded"


def _flagged(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    for what, read, usual in _FLAGGED:
        values = tuple(map(read, results))
        if set(values) != {usual} and (usual or len(set(values)) > 1):
            yield ContextDifference(what=what, values=values, weight="flagged")
    yield from _settings(results)
    yield from _deviations(results)


def _saturation_end(result: TestResult) -> str:
    """Return what ended a write saturation test; the figures of its stimulus depend on when it ended."""
    saturates = isinstance(result.facts.spec, WriteSaturationSpec) and result.conclusion
    return result.conclusion.reason if saturates and result.conclusion else ""


def _capacity(size_bytes: int) -> str:
    return exact_capacity(size_bytes) if size_bytes else "unknown"


def _tool(result: TestResult) -> str:
    return result.facts.imported.label if result.facts.imported else "snia-pts"


def _host_limited(result: TestResult) -> str:
    """Return the number of host-limited points of the windows; unknown for another tool."""
    if result.facts.imported is not None:
        return "unknown"
    verdicts = (limited for loop in result.loops for limited in result.host_limited_points(loop).values())
    return str(sum(map(bool, verdicts)))


def _differing(
    results: Sequence[TestResult], reads: Sequence[tuple[str, _Read]], weight: str
) -> Iterator[ContextDifference]:
    for what, read in reads:
        values = tuple(map(read, results))
        if len(set(values)) > 1:
            yield ContextDifference(what=what, values=values, weight=weight)


def _settings(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Yield the numbers of the specification that differ: TC, QD, ActiveRange, times."""
    numbers_by_run = [dict(_numbers(result)) for result in results]
    for key in dict.fromkeys(key for entries in numbers_by_run for key in entries):
        values = tuple(entries.get(key, "none") for entries in numbers_by_run)
        if len(set(values)) > 1:
            yield ContextDifference(what=key, values=values, weight="flagged")


def _numbers(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a specification.

    If it is not part of the standard, also its name and axes, but not its limits and host settings.
    """
    spec = result.facts.spec
    if spec.is_standard:
        yield from spec_values(spec)
        return
    yield spec.test, spec.name
    yield from (entry for entry in spec_values(spec) if entry[0].partition(".")[0] not in spec.uncompared)
    for key, values in spec.compared_axes.items():
        if not key.startswith(HOST):
            yield f"axis {key}", ", ".join(map(str, values))


#: The deviation of a target that is not a drive.
_DUT = "device under test"


def _deviations(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Yield the deviations and settings that differ.  Kind and model of the target are reported elsewhere."""
    settings_by_run = [
        _joined((setting.what, setting.actual) for setting in result.facts.settings) for result in results
    ]
    for what in dict.fromkeys(what for settings in settings_by_run for what in settings):
        values = tuple(settings.get(what, "default") for settings in settings_by_run)
        if len(set(values)) > 1:
            yield ContextDifference(what=f"setting: {what}", values=values, weight="flagged")
    deviations_by_run = [
        _joined(
            (deviation.what, deviation.actual)
            for deviation in result.deviations
            if deviation.what != _DUT and not _is_own_number(result.facts.spec, deviation)
        )
        for result in results
    ]
    for what in dict.fromkeys(what for deviations in deviations_by_run for what in deviations):
        values = tuple(deviations.get(what, "as in the standard") for deviations in deviations_by_run)
        if len(set(values)) > 1:
            yield ContextDifference(what=f"deviation: {what}", values=values, weight="flagged")


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return all values of each name as one text: a run may have several deviations of one kind."""
    values: dict[str, list[str]] = {}
    for what, actual in pairs:
        values.setdefault(what, []).append(actual)
    return {what: "; ".join(sorted(actuals)) for what, actuals in values.items()}


def _is_own_number(spec: Spec, deviation: Deviation) -> bool:
    """Return whether a deviation is a changed number of the specification, which ``_settings`` reports."""
    return deviation.clause == spec.clause
