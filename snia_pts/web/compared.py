"""A comparison of runs, as the pages and the API show it."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.comparison import Comparison
from ..report.sections.summary import verdict
from ..results.comparison import ComparedFigure, Difference
from ..results.key_figures import KeyFigure
from ..text import printable
from .model import ComparedFigureView, ComparedRun, ComparedValue, ComparisonView, ContextView


def comparison_view(run_ids: Sequence[str], comparison: Comparison) -> ComparisonView:
    """Return the view of a comparison of the runs with these ids."""
    results = [entry.result for entry in comparison.entries]
    duts = [result.facts.dut for result in results]
    return ComparisonView(
        title=printable(results[0].facts.spec.title),
        runs=tuple(
            ComparedRun(
                letter=entry.label,
                run=run_id,
                drive=printable(" ".join(filter(None, (dut.model, dut.serial))) or dut.name),
                verdict=printable(verdict(entry.result)),
            )
            for entry, run_id, dut in zip(comparison.entries, run_ids, duts, strict=True)
        ),
        context=tuple(
            ContextView(
                what=printable(difference.what),
                values=tuple(map(printable, difference.values)),
                flagged=difference.weight == "flagged",
            )
            for difference in comparison.context
        ),
        figures=tuple(map(_figure, comparison.figures)),
    )


def _figure(figure: ComparedFigure) -> ComparedFigureView:
    return ComparedFigureView(
        metric=printable(figure.metric),
        at=printable(figure.at),
        unit=printable(figure.unit),
        values=tuple(map(_value, figure.figures, figure.differences)),
    )


def _value(figure: KeyFigure | None, change: Difference | None) -> ComparedValue:
    value = None if figure is None else figure.value
    if change is None:
        return ComparedValue(value=value)
    return ComparedValue(
        value=value, difference_percent=change.percent, low_percent=change.low, high_percent=change.high
    )
