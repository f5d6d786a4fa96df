"""The verb ``compare``: compares several runs of one test."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase

from ...errors import NotComparable, RecordError, UsageError
from ...record.folder import RunFolder
from ...record.journal import WAIT
from ...record.replay import assess
from ...record.suite import SuiteFolder
from ...report.comparison import MAX_POINTS, Entry, build_comparison, cause, overall_lines
from ...report.sections.summary import verdict
from ...report.writing import render, replace_files
from ...results.comparison import (
    ComparedFigure,
    ContextDifference,
    Difference,
    compare_figures,
    context_differences,
    points_compared,
    possible_causes,
)
from ...runner.verification import require_evidence
from ...text import printable
from ...units import number
from ..text.formatting import json_text, table
from ..text.terminal import print_lines

#: The metrics of the summary, the most important first.
_METRICS = ("iops", "mb_per_second", "average_response_ms")
#: Each run has a letter.
_MAX_RUNS = len(ascii_uppercase)


def compare(arguments: argparse.Namespace) -> int:
    """Compare stored runs of one test with the first of them.

    Raises NotComparable for runs that must not be compared, RecordError for a folder that is not a run.
    """
    if not 2 <= len(arguments.runs) <= _MAX_RUNS:
        raise UsageError(
            detail=f"compare takes 2 to {_MAX_RUNS} runs, not {len(arguments.runs)}.",
            hint="For example: snia-pts compare runs/A runs/B",
        )
    entries = [_read_entry(label, path) for label, path in zip(ascii_uppercase, arguments.runs, strict=False)]
    context = context_differences([entry.result for entry in entries])
    _require_comparable(context)
    metrics = compare_figures([entry.result for entry in entries])
    files = _write_report(entries, arguments.out) if arguments.out else {}
    if arguments.json:
        print(json_text(_json(entries, context, metrics)))
        return 0
    print_lines(_lines(entries, context, metrics))
    print_lines(map(str, files.values()))
    return 0


def _read_entry(label: str, path: Path) -> Entry:
    if SuiteFolder.existing(path):
        raise RecordError(
            path=path,
            reason="it is a folder of several tests",
            hint=f"Name one of its runs, for example {path}/iops.",
        )
    folder = RunFolder.existing(path)
    result = assess(folder)
    if result.running:
        raise RecordError(path=path, reason="the run is still in progress", hint=WAIT)
    require_evidence(folder, result)
    return Entry(label=label, path=str(path), result=result)


def _require_comparable(context: Sequence[ContextDifference]) -> None:
    other = [difference for difference in context if difference.weight == "other"]
    if other:
        reason = "; ".join(f"{item.what}: {', '.join(dict.fromkeys(item.values))}" for item in other)
        raise NotComparable(reason=reason)


def _write_report(entries: Sequence[Entry], folder: Path) -> Mapping[str, Path]:
    files = render(build_comparison(entries), stem="comparison")
    replace_files(folder, files, new=True)
    return {name: folder / name for name in files if name.startswith("comparison.")}


def _lines(
    entries: Sequence[Entry], context: Sequence[ContextDifference], metrics: Sequence[ComparedFigure]
) -> Iterator[str]:
    yield f"{entries[0].result.facts.spec.title} test, {len(entries)} runs"
    for entry in entries:
        dut = entry.result.facts.dut
        drive = " ".join(filter(None, (dut.model, dut.serial))) or dut.name
        yield printable(f"  {entry.label}  {entry.path}: {drive}: {verdict(entry.result)}")
    for weight, heading in (("flagged", "Compare with care:"), ("context", "The runs differ in:")):
        listed = [difference for difference in context if difference.weight == weight]
        if listed:
            yield ""
            yield heading
        for difference in listed:
            labelled = zip(entries, difference.values, strict=True)
            values = "; ".join(f"{entry.label}: {value or '-'}" for entry, value in labelled)
            yield printable(f"  {difference.what}: {values}")
    yield ""
    yield printable(cause(entries, context))
    results = [entry.result for entry in entries]
    points = points_compared(results)
    if points is not None:
        yield from overall_lines([entry.label for entry in entries], metrics)
    if points is not None and points > MAX_POINTS:
        yield f"Each of the {points} points: --json; figures and matrices: --out DIR."
        return
    for metric in _METRICS:
        yield from _table(entries, [row for row in metrics if row.metric == metric])
    yield ""
    basis = "the rounds of both windows" if points is None else "the repeats of both runs"
    yield f"In brackets: the difference from A in percent; * if it is outside the 95 % interval that {basis} give."
    yield "Each number is judged by itself: of equal runs, about one number in twenty has an asterisk."


def _table(entries: Sequence[Entry], rows: Sequence[ComparedFigure]) -> Iterator[str]:
    if not rows:
        return
    lines = [(f"{rows[0].metric} at", *(entry.label for entry in entries)), *map(_cells, rows)]
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
    return "" if difference is None else f" ({difference.percent:+.1f}){'*' if difference.significant else ''}"


def _json(
    entries: Sequence[Entry], context: Sequence[ContextDifference], metrics: Sequence[ComparedFigure]
) -> dict[str, object]:
    """Return the comparison in the JSON form of docs/formats.rst."""
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
        "causes": [difference.what for difference in possible_causes(context)],
        "context": [{"what": item.what, "weight": item.weight, "values": item.values} for item in context],
        "figures": [
            {
                "metric": row.metric,
                "at": row.at,
                "unit": row.unit,
                "better": row.better,
                "values": [figure and figure.value for figure in row.figures],
                "rounds": [figure and figure.rounds for figure in row.figures],
                "differences": [diff and {**asdict(diff), "significant": diff.significant} for diff in row.differences],
                "spread_percent": row.spread_percent,
            }
            for row in metrics
        ],
    }
