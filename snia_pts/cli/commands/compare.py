"""The verb ``compare``: compares several runs of one test."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ...api.comparison import Comparison
from ...api.comparison import compare as compare_runs
from ...report.comparison import MAX_POINTS
from ...report.comparison_summary import Entry, cause, overall_lines, round_noun
from ...report.sections.summary import statements, warning_rows
from ...results.comparison import CONFIDENCE_PERCENT, ComparedFigure, Difference, missing_intervals, points_compared
from ...results.lot import lot_figures, lot_model
from ...results.main_figures import main_figures
from ...results.tables import heading, label
from ...text import printable
from ...units import number, signed
from ..text.formatting import json_text, table
from ..text.lines import print_lines

#: The metrics of the summary, the most important first.
_METRICS = ("iops", "mb_per_second", "average_response_ms")


def compare(arguments: argparse.Namespace) -> int:
    """Compare stored runs of one test with the first of them.

    Raises NotComparable for runs that must not be compared, RecordError for a folder that is not a run.
    """
    comparison = compare_runs(arguments.runs)
    files = comparison.write_report(arguments.out) if arguments.out else {}
    if arguments.json:
        print(json_text(_json(comparison)))
        return 0
    print_lines(_lines(comparison))
    print_lines(map(str, files.values()))
    return 0


def _lines(comparison: Comparison) -> Iterator[str]:
    entries, context, metrics = comparison.entries, comparison.context, comparison.figures
    yield f"{entries[0].result.facts.spec.title} test, {len(entries)} runs"
    for entry in entries:
        dut = entry.result.facts.dut
        yield printable(f"  {entry.label}  {entry.path}: {' '.join(filter(None, (dut.model, dut.serial))) or dut.name}")
        yield from (f"     {statement.text}" for statement in statements(entry.result))
        yield from (f"     Warning: {what}: {detail}" for what, detail in warning_rows(entry.result))
    for weight, title in (("flagged", "Compare with care:"), ("context", "The runs differ in:")):
        listed = [difference for difference in context if difference.weight == weight]
        if listed:
            yield ""
            yield title
        for difference in listed:
            labelled = zip(entries, difference.values, strict=True)
            values = "; ".join(f"{entry.label}: {value or '-'}" for entry, value in labelled)
            yield printable(f"  {difference.what}: {values}")
    yield ""
    yield printable(cause(entries, context))
    results = [entry.result for entry in entries]
    points = points_compared(results)
    if points is not None:
        yield from overall_lines([entry.label for entry in entries], metrics, round_noun(entries))
    yield from _lot_lines(comparison)
    if points is not None and points > MAX_POINTS:
        yield f"Each of the {points} points: --json; figures and matrices: --out DIR."
        return
    for metric in _METRICS:
        yield from _table(entries, [row for row in metrics if row.metric == metric])
    yield ""
    yield from _explanation([row for row in metrics if row.metric in _METRICS], round_noun(entries))


def _lot_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the main figures of a lot: mean, deviation and outliers of its units; nothing if the runs are no lot."""
    entries = comparison.entries
    results = [entry.result for entry in entries]
    model, test = lot_model(results), results[0].facts.spec.test
    shown = [lot for lot in main_figures(test, lot_figures(comparison.figures)) if lot.median]
    if not model or not shown:
        return
    yield ""
    yield printable(f"{len(entries)} units of {model}:")
    head = ("figure", "mean", "deviation", "minimum", "maximum", "outliers")
    yield from table(
        head,
        [
            (
                printable(f"{label(lot.metric)}, {lot.at}"),
                number(lot.mean),
                f"{100 * lot.deviation / lot.mean:.2f} %",
                number(min(lot.known)),
                number(max(lot.known)),
                "n/a" if lot.outliers is None else ", ".join(entries[unit].label for unit in lot.outliers) or "none",
            )
            for lot in shown
        ],
    )


def _explanation(rows: Sequence[ComparedFigure], noun: str) -> Iterator[str]:
    """Yield the meaning of the brackets; of the asterisk only if a difference has an interval."""
    changes = [change for row in rows for change in row.differences]
    if all(change is None or change.significant is None for change in changes):
        reasons = missing_intervals(changes, noun)
        yield f"In brackets: the difference from A in percent{f' ({reasons})' if reasons else ''}."
        return
    basis = "the repeats of both runs" if noun == "repeat" else "the rounds of both measurement windows"
    interval = f"its {CONFIDENCE_PERCENT:g} % confidence interval, from {basis},"
    yield f"In brackets: the difference from A in percent; * if {interval} excludes 0."
    yield "Each value is tested separately: even without a real difference, about 1 in 20 has an asterisk."


def _table(entries: Sequence[Entry], rows: Sequence[ComparedFigure]) -> Iterator[str]:
    if not rows:
        return
    lines = [(heading(rows[0].metric), *(entry.label for entry in entries)), *map(_cells, rows)]
    head, *others = zip(*map(_align_asterisks, zip(*lines, strict=True)), strict=True)
    yield ""
    yield from table(head, others)


def _align_asterisks(column: Sequence[str]) -> list[str]:
    """Pad the cells of a column so that its numbers stay aligned beside the asterisks."""
    has_asterisk = any(cell.endswith("*") for cell in column)
    return [cell + " " if has_asterisk and not cell.endswith("*") else cell for cell in column]


def _cells(row: ComparedFigure) -> tuple[str, ...]:
    values = (
        "-" if figure is None else number(figure.value) + _difference_text(difference)
        for figure, difference in zip(row.figures, row.differences, strict=True)
    )
    return (printable(row.at), *values)


def _difference_text(difference: Difference | None) -> str:
    return "" if difference is None else f" ({signed(difference.percent)}){'*' if difference.significant else ''}"


def _difference_json(change: Difference, noun: str) -> dict[str, object]:
    return {
        "percent": change.percent,
        "low": change.low,
        "high": change.high,
        "significant": change.significant,
        "interval": change.interval_text(noun),
    }


def _json(comparison: Comparison) -> dict[str, object]:
    """Return the comparison in the JSON form of docs/formats.rst."""
    entries, context, metrics = comparison.entries, comparison.context, comparison.figures
    is_lot = lot_model([entry.result for entry in entries]) is not None
    return {
        "format": 1,
        "test": entries[0].result.facts.spec.test,
        "runs": [
            {
                "label": entry.label,
                "path": entry.path,
                "run": entry.result.facts.run_id,
                "verdict": entry.result.verdict,
                "conformant": entry.result.conformant,
            }
            for entry in entries
        ],
        "causes": list(comparison.possible_causes),
        "context": [{"what": item.what, "weight": item.weight, "values": item.values} for item in context],
        "figures": [
            {
                "metric": row.metric,
                "at": row.at,
                "unit": row.unit,
                "better": row.better,
                "values": [figure and figure.value for figure in row.figures],
                "rounds": [figure and figure.rounds for figure in row.figures],
                "differences": [change and _difference_json(change, round_noun(entries)) for change in row.differences],
                "spread_percent": row.spread_percent,
            }
            for row in metrics
        ],
        "lot": [
            {
                "metric": lot.metric,
                "at": lot.at,
                "units": len(lot.known),
                "mean": lot.mean,
                "deviation": lot.deviation,
                "minimum": min(lot.known),
                "maximum": max(lot.known),
                "outliers": None if lot.outliers is None else [entries[unit].label for unit in lot.outliers],
            }
            for lot in (lot_figures(metrics) if is_lot else ())
        ],
    }
