"""Several runs of one test beside each other: what is not the same about them, and how their numbers differ.

The uncertainty of a difference comes from the rounds of the measurement windows.  A difference in percent is a ratio of
two means, each with an uncertainty of its own: the relative variances of both add up (the delta method), and Welch's t
(B. L. Welch, Biometrika 34, 1947) takes the degrees of freedom from their few values.  A response time is itself a
ratio, the time of all I/Os by their count, and each round counts by its I/Os (the linear approximation of a ratio
estimator: W. G. Cochran, Sampling Techniques, 3rd edition, 1977, chapter 6).

An interval shows what one run of each can show; only several drives show how drives of a kind differ.  Each number is
judged by itself, so that of many about one in twenty is beyond its interval by chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..model.description import said
from ..spec import Deviation, ProfileSpec, WriteSaturationSpec
from ..spec.reader import numbers
from ..units import exact_capacity
from .key_figures import Better, KeyFigure, key_figures
from .result import TestResult

#: The confidence of an interval, in percent.
CONFIDENCE_PERCENT = 95.0
#: From so many runs on there is a spread.
SPREAD_RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDifference:
    """Something that is not the same for all runs: what, and each run's own.

    ``weight`` tells what that means: with ``other`` the numbers are no answer to one question, with ``flagged`` a
    reader must know of it, and ``told`` is what the comparison may be about: another drive, firmware or host.
    """

    what: str
    values: tuple[str, ...]
    weight: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much a value differs from the first run's, in percent of that, and the ends of its confidence interval.

    The interval is None where the values are not of rounds.
    """

    percent: float
    low: float | None = None
    high: float | None = None

    @property
    def certain(self) -> bool | None:
        """Whether the interval leaves 0 out; None where there is none."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One key figure of all runs; None where a run has none.  Differences are those from the first run."""

    metric: str
    at: str
    unit: str
    better: Better | None
    figures: tuple[KeyFigure | None, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """The values that are there."""
        return tuple(figure.value for figure in self.figures if figure is not None)

    @property
    def differences(self) -> tuple[Difference | None, ...]:
        """Every run's difference from the first; None for the first, and where either has no value."""
        first, *others = self.figures
        return (None, *(difference(first, other) if first and other else None for other in others))

    @property
    def spread_percent(self) -> float | None:
        """From the least to the greatest value, in percent of their median; None of fewer than three runs."""
        values, middle = self.values, statistics.median(self.values) if self.values else 0.0
        return 100 * (max(values) - min(values)) / middle if len(values) >= SPREAD_RUNS and middle else None


def difference(first: KeyFigure, other: KeyFigure) -> Difference | None:
    """Return how a figure differs from the first; None where the first is 0.

    The interval lies around the difference, as wide as the scatter of the rounds of both makes it; there is none where
    a window was not steady.
    """
    if not first.value:
        return None
    percent = 100 * (other.value - first.value) / first.value
    if min(len(first.rounds), len(other.rounds)) < 2 or not (first.steady and other.steady and other.value):
        return Difference(percent=percent)
    reach = abs(100 * other.value / first.value) * welch(_shares(first), _shares(other))
    return Difference(percent=percent, low=percent - reach, high=percent + reach)


def _shares(figure: KeyFigure) -> tuple[float, ...]:
    """Return each round as a share of the figure's value, so that their mean is 1 and their variance is the value's."""
    weights = figure.weights or (1.0,) * len(figure.rounds)
    usual = math.fsum(weights) / len(weights)
    return tuple(
        1 + weight / usual * (each / figure.value - 1) for weight, each in zip(weights, figure.rounds, strict=True)
    )


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Return half the width of the confidence interval for the difference of two means.

    The degrees of freedom are Welch and Satterthwaite's.  Both need two values at least.
    """
    from scipy.special import stdtrit

    parts = [statistics.variance(values) / len(values) for values in (one, other)]
    together = math.fsum(parts)
    if not together:
        return 0.0
    freedom = together**2 / math.fsum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    return float(stdtrit(freedom, 0.5 + CONFIDENCE_PERCENT / 200)) * math.sqrt(together)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """How a run's figures of one metric differ from the first run's, all together, in percent.

    ``certain`` counts those whose interval leaves 0 out, ``judged`` those that have one.
    """

    count: int
    median: float
    least: float
    greatest: float
    certain: int
    judged: int


def overall(rows: Sequence[Compared], place: int) -> Overall | None:
    """Return how the figures of the run at ``place`` differ from the first's; None where none can be compared."""
    found = [each for row in rows if (each := row.differences[place]) is not None]
    if not found:
        return None
    percents = [each.percent for each in found]
    return Overall(
        count=len(found),
        median=statistics.median(percents),
        least=min(percents),
        greatest=max(percents),
        certain=sum(each.certain is True for each in found),
        judged=sum(each.certain is not None for each in found),
    )


def compared(results: Sequence[TestResult]) -> tuple[Compared, ...]:
    """Return every key figure that any of ``results`` has, in the order of the first that has it."""
    found = [{(each.metric, each.at, each.unit): each for each in key_figures(result)} for result in results]
    keys = list(dict.fromkeys(key for figures in found for key in figures))
    return tuple(
        Compared(
            metric=metric,
            at=at,
            unit=unit,
            figures=tuple(figures.get((metric, at, unit)) for figures in found),
            better=next(figures[metric, at, unit].better for figures in found if (metric, at, unit) in figures),
        )
        for metric, at, unit in keys
    )


# -- what is not the same ---------------------------------------------------------------------------------------------

_Read = Callable[[TestResult], str]
#: Runs that differ in one of these answer different questions.
_OTHER: tuple[tuple[str, _Read], ...] = (
    ("test", lambda result: result.facts.spec.title),
    ("version of the standard", lambda result: result.facts.spec.pts),
    ("class", lambda result: result.facts.test_class),
    ("what was tested", lambda result: "a simulated drive" if result.facts.dut.simulated else "a device"),
)
#: What a reader must know, and what needs no word where all runs have it.
_FLAGGED: tuple[tuple[str, _Read, str], ...] = (
    ("end of the run", lambda result: result.ending, "finished"),
    ("steady state", lambda result: "achieved" if result.steady else "NOT ACHIEVED", "achieved"),
    ("host-limited points", lambda result: _host_limited(result), "0"),
    ("what ended the stimulus", lambda result: _ended(result), ""),
    ("interruptions", lambda result: str(len(result.interruptions)), "0"),
    ("kind of target", lambda result: result.facts.dut.kind, ""),
    ("measured by", lambda result: _tool(result), "snia-pts"),
)
_TOLD: tuple[tuple[str, _Read], ...] = (
    ("model", lambda result: said(result.facts.dut, result.facts.about, "model")),
    ("serial number", lambda result: said(result.facts.dut, result.facts.about, "serial")),
    ("firmware", lambda result: said(result.facts.dut, result.facts.about, "firmware")),
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
#: What comes of a difference, rather than making one.
_OUTCOMES = ("end of the run", "steady state", "host-limited points", "what ended the stimulus", "interruptions")
#: Readings of a moment: no two runs have the same.
_MOMENTARY = ("other load", "other I/O", "swap")


def context_differences(results: Sequence[TestResult]) -> tuple[ContextDifference, ...]:
    """Return everything that is not the same for all of ``results``, what weighs most first.

    A run without steady state, or one that did not finish or was interrupted, is told even where all are so.
    """
    told = (*_unlike(results, _TOLD, "told"), *_host_settings(results))
    return (*_unlike(results, _OTHER, "other"), *_apart(results), *_flagged(results), *told)


def causes(found: Sequence[ContextDifference]) -> tuple[ContextDifference, ...]:
    """Return what may have made the numbers differ: all recorded differences but those that come of others."""
    return tuple(each for each in found if len(set(each.values)) > 1 and not _made_by_others(each))


def _made_by_others(each: ContextDifference) -> bool:
    """Tell whether a difference makes no point's number another: points of one name lie at one place on longer axes."""
    longer_axis = each.what.startswith("axis ") and any(", " in value for value in each.values)
    return longer_axis or each.what in (*_OUTCOMES, "repeats", "profile")


def _apart(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Tell runs of profiles that have no point of the same name: there is nothing to compare."""
    if all(isinstance(result.facts.spec, ProfileSpec) for result in results):
        names = [{loop.part for loop in result.loops} for result in results]
        if not set.intersection(*names):
            values = tuple(f"{len(each)} of other names" for each in names)
            yield ContextDifference(what="points", values=values, weight="other")


def _host_settings(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Every setting of the host that differs; one that a profile goes through is as that has it."""
    found = [
        {each.name: each.value for each in result.facts.platform.settings if each.name not in _MOMENTARY}
        | dict(_staged(result))
        for result in results
    ]
    for name in dict.fromkeys(name for each in found for name in each):
        values = tuple(each.get(name, "not recorded") for each in found)
        if len(set(values)) > 1:
            yield ContextDifference(what=name, values=values, weight="told")


def _staged(result: TestResult) -> Iterator[tuple[str, str]]:
    for axis in result.facts.spec.axis if isinstance(result.facts.spec, ProfileSpec) else ():
        if axis.setting:
            yield axis.setting, ", ".join(map(str, axis.values))


def _flagged(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    for what, read, usual in _FLAGGED:
        values = tuple(map(read, results))
        if set(values) != {usual} and (usual or len(set(values)) > 1):
            yield ContextDifference(what=what, values=values, weight="flagged")
    yield from _settings(results)
    yield from _deviations(results)


def _ended(result: TestResult) -> str:
    """What ended write saturation, where it is not the same for all: the values of its stimulus are of that time."""
    saturates = isinstance(result.facts.spec, WriteSaturationSpec) and result.conclusion
    return result.conclusion.reason if saturates and result.conclusion else ""


def _capacity(size_bytes: int) -> str:
    return exact_capacity(size_bytes) if size_bytes else "unknown"


def _tool(result: TestResult) -> str:
    return result.facts.imported.label if result.facts.imported else "snia-pts"


def _host_limited(result: TestResult) -> str:
    """How many points of the windows the host set, not the drive; of another tool nobody knows."""
    if result.facts.imported is not None:
        return "unknown"
    found = (limited for loop in result.loops for limited in result.host_limited_points(loop).values())
    return str(sum(map(bool, found)))


def _unlike(
    results: Sequence[TestResult], reads: Sequence[tuple[str, _Read]], weight: str
) -> Iterator[ContextDifference]:
    for what, read in reads:
        values = tuple(map(read, results))
        if len(set(values)) > 1:
            yield ContextDifference(what=what, values=values, weight=weight)


def _settings(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Every number of the specification that differs: TC, QD, ActiveRange, times."""
    found = [dict(_numbers(result)) for result in results]
    for key in dict.fromkeys(key for each in found for key in each):
        values = tuple(each.get(key, "none") for each in found)
        if len(set(values)) > 1:
            yield ContextDifference(what=key, values=values, weight="flagged")


def _numbers(result: TestResult) -> Iterator[tuple[str, str]]:
    """The numbers of a specification; of a profile its name and axes too, but for those of the host, and no limits."""
    spec = result.facts.spec
    if not isinstance(spec, ProfileSpec):
        yield from numbers(spec)
        return
    yield "profile", spec.name
    yield from (each for each in numbers(spec) if each[0].partition(".")[0] not in ("axis", "limit"))
    yield from ((f"axis {axis.key}", ", ".join(map(str, axis.values))) for axis in spec.axis if not axis.setting)


#: The deviation of whatever is no drive.
_DUT = "device under test"


def _deviations(results: Sequence[TestResult]) -> Iterator[ContextDifference]:
    """Every deviation or setting that is not the same in all runs; what was tested is told by its kind and model."""
    settings = [{each.what: each.actual for each in result.facts.settings} for result in results]
    for what in dict.fromkeys(what for each in settings for what in each):
        values = tuple(each.get(what, "as is usual") for each in settings)
        if len(set(values)) > 1:
            yield ContextDifference(what=f"setting: {what}", values=values, weight="flagged")
    found = [
        {each.what: each.actual for each in result.deviations if each.what != _DUT and not _told_by_numbers(each)}
        for result in results
    ]
    for what in dict.fromkeys(what for each in found for what in each):
        values = tuple(each.get(what, "as the standard asks") for each in found)
        if len(set(values)) > 1:
            yield ContextDifference(what=f"deviation: {what}", values=values, weight="flagged")


def _told_by_numbers(deviation: Deviation) -> bool:
    """Tell whether it is a profile's number that is otherwise than in its file: told as that number."""
    return deviation.clause.startswith("profile ")
