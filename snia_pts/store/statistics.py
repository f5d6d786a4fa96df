"""What many runs say together: the trend of a metric over groups of runs, and its spread over the units of a model."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from ..analysis.outliers import outliers
from ..api.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The values of a metric in a group of runs; ``deviation`` is the sample standard deviation, None for one value.

    ``change_percent`` is the difference of its median from that of the first group, ``specifications`` the number of
    different specifications of the test.
    """

    name: str
    runs: int
    median: float
    mean: float
    deviation: float | None
    minimum: float
    maximum: float
    change_percent: float | None
    specifications: int


def groups_of(values: Table) -> tuple[Group, ...]:
    """Return the groups of a trend, from the table ``trend_values``."""
    columns: Mapping[str, Sequence[Any]] = values.columns
    names = map(str, columns["group"])
    return trend(zip(names, columns["value"], columns["spec_sha256"], strict=True))


def trend(values: Iterable[tuple[str, float, str]]) -> tuple[Group, ...]:
    """Return a group for each name, in the order in which they appear first.

    ``values`` are name, value, and the digest of the test's specification.
    """
    groups: dict[str, list[tuple[float, str]]] = {}
    for name, value, spec in values:
        groups.setdefault(name, []).append((value, spec))
    first_median = statistics.median(value for value, _ in next(iter(groups.values()))) if groups else 0.0
    return tuple(_group(name, members, first_median) for name, members in groups.items())


def _group(name: str, members: Sequence[tuple[float, str]], first_median: float) -> Group:
    values = [value for value, _ in members]
    median = statistics.median(values)
    return Group(
        name=name,
        runs=len(values),
        median=median,
        mean=statistics.fmean(values),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        minimum=min(values),
        maximum=max(values),
        change_percent=100 * (median - first_median) / first_median if first_median else None,
        specifications=len({spec for _, spec in members}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The spread of a metric over the units of a model: each unit counts with the mean of its runs, in ``means``.

    ``outliers`` are the units that are far from the others; empty below five units.
    """

    means: Mapping[str, float]
    mean: float
    deviation: float | None
    minimum: float
    maximum: float
    specifications: int
    outliers: tuple[str, ...]

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.means)

    @property
    def deviation_percent(self) -> float | None:
        """The standard deviation in percent of the mean; None for one unit, or a mean of 0."""
        return None if self.deviation is None or not self.mean else 100 * self.deviation / abs(self.mean)


def spreads_of(values: Table) -> Iterator[tuple[tuple[Any, ...], Spread]]:
    """Yield test, metric, point and unit, and then the spread of this metric, from the table ``spread_values``."""
    for key, rows in groupby(zip(*values.columns.values(), strict=True), key=itemgetter(slice(4))):
        yield key, spread(row[4:] for row in rows)


def spread(values: Iterable[tuple[str, str, float, int]]) -> Spread:
    """Return the spread over units.

    ``values``, one or more, are serial number, digest of the specification, mean, and number of runs.
    """
    parts: dict[str, list[tuple[float, int]]] = {}
    specs = set()
    for unit, spec, mean, runs in values:
        parts.setdefault(unit, []).append((mean, runs))
        specs.add(spec)
    means = {unit: statistics.fmean(*zip(*numbers, strict=True)) for unit, numbers in parts.items()}
    mean = statistics.fmean(means.values())
    return Spread(
        means=means,
        mean=mean,
        deviation=statistics.stdev(means.values(), mean) if len(means) > 1 else None,
        minimum=min(means.values()),
        maximum=max(means.values()),
        specifications=len(specs),
        outliers=tuple(list(means)[index] for index in outliers(list(means.values())) or ()),
    )
