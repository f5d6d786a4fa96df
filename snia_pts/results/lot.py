"""Unit-to-unit differences of a lot: runs of one test on different drives of one model."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis import outliers
from ..model.description import display_value
from .comparison import SPREAD_RUNS, ComparedFigure
from .result import TestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class LotFigure:
    """One key figure of a lot: the value of each unit, None for a unit without a steady value."""

    metric: str
    at: str
    unit: str
    values: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The values, of at least three units."""
        return tuple(value for value in self.values if value is not None)

    @property
    def mean(self) -> float:
        """The mean of the units."""
        return statistics.fmean(self.known)

    @property
    def median(self) -> float:
        """The median of the units."""
        return statistics.median(self.known)

    @property
    def deviation(self) -> float:
        """The standard deviation of the units: that of a sample, n - 1."""
        return statistics.stdev(self.known)

    @property
    def outliers(self) -> tuple[int, ...] | None:
        """The indexes of the units far from the median; None for fewer than five units."""
        found = outliers.outliers(self.known)
        units = [index for index, value in enumerate(self.values) if value is not None]
        return None if found is None else tuple(units[place] for place in found)


def lot_model(results: Sequence[TestResult]) -> str | None:
    """Return the model of the drives if the runs are those of a lot; else None.

    A lot has at least three drives of one model with different serial numbers, each with one run.
    """
    models = [display_value(result.facts.dut, result.facts.about, "model") for result in results]
    serials = [display_value(result.facts.dut, result.facts.about, "serial") for result in results]
    is_lot = len(results) >= SPREAD_RUNS and len(set(models)) == 1 and len(set(serials)) == len(results)
    return models[0] if is_lot and models[0] and all(serials) else None


def lot_figures(rows: Sequence[ComparedFigure]) -> tuple[LotFigure, ...]:
    """Return the key figures that at least three units have, at steady state if they require it."""
    figures = (
        LotFigure(
            metric=row.metric,
            at=row.at,
            unit=row.unit,
            values=tuple(None if figure is None or figure.unsteady else figure.value for figure in row.figures),
        )
        for row in rows
    )
    return tuple(figure for figure in figures if len(figure.known) >= SPREAD_RUNS)
