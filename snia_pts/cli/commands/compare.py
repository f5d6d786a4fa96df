"""The verb ``compare``: several runs of one test beside each other."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase

from ...errors import NotComparable, RecordError, ReportError, UsageError
from ...record.folder import RunFolder
from ...record.journal import WAIT
from ...record.replay import assess
from ...record.suite import SuiteFolder
from ...report.comparison import Entry, build_comparison, cause
from ...report.profile.comparing import MOST_POINTS, overall_lines, points_compared
from ...report.sections.summary import verdict
from ...results.comparison import Compared, ContextDifference, causes, compared, context_differences
from ...runner.verification import require_evidence
from ...text import printable
from ...units import number
from ..text.formatting import table

#: The metrics of the short answer, in the order of their weight.
_SHOWN = ("iops", "mb_per_second", "average_response_ms")
#: A comparison has a letter a run.
_MOST = len(ascii_uppercase)


def compare(arguments: argparse.Namespace) -> int:
    """Compare stored runs of one test; the first is what the others are held against.

    Raises NotComparable for runs that answer different questions, RecordError for a folder that is no run.
    """
    if not 2 <= len(arguments.runs) <= _MOST:
        raise UsageError(
            detail=f"compare takes 2 to {_MOST} runs, not {len(arguments.runs)}.",
            hint="For example: snia-pts compare runs/A runs/B",
        )
    entries = [_entry(label, place) for label, place in zip(ascii_uppercase, arguments.runs, strict=False)]
    found = context_differences([entry.result for entry in entries])
    _require_comparable(found)
    numbers = compared([entry.result for entry in entries])
    written = _written(entries, arguments.out) if arguments.out else {}
    if arguments.json:
        print(json.dumps(_json(entries, found, numbers), indent=1, allow_nan=False))
        return 0
    for line in _lines(entries, found, numbers):
        print(line)
    for path in written.values():
        print(path)
    return 0


def _entry(label: str, place: Path) -> Entry:
    if SuiteFolder.existing(place):
        raise RecordError(
            path=place,
            reason="it is a folder of several tests",
            hint=f"Name one of its runs, for example {place}/iops.",
        )
    folder = RunFolder.existing(place)
    result = assess(folder)
    if result.running:
        raise RecordError(path=place, reason="the run is still in progress", hint=WAIT)
    require_evidence(folder, result)
    return Entry(label=label, place=str(place), result=result)


def _require_comparable(found: Sequence[ContextDifference]) -> None:
    other = [each for each in found if each.weight == "other"]
    if other:
        told = "; ".join(f"{each.what}: {', '.join(dict.fromkeys(each.values))}" for each in other)
        raise NotComparable(reason=told)


def _written(entries: Sequence[Entry], folder: Path) -> Mapping[str, Path]:
    from ...report.writing import render, replace_files

    files = render(build_comparison(entries), stem="comparison")
    try:
        replace_files(folder, files)
    except ReportError as error:
        error.hint = "Name another place with --out."
        raise
    return {place: folder / place for place in files if place.startswith("comparison.")}


# -- what is said -----------------------------------------------------------------------------------------------------


def _lines(entries: Sequence[Entry], found: Sequence[ContextDifference], numbers: Sequence[Compared]) -> Iterator[str]:
    yield f"{entries[0].result.facts.spec.title} test, {len(entries)} runs"
    for entry in entries:
        dut = entry.result.facts.dut
        drive = " ".join(filter(None, (dut.model, dut.serial))) or dut.name
        yield printable(f"  {entry.label}  {entry.place}: {drive}: {verdict(entry.result)}")
    for weight, heading in (("flagged", "Compare with care:"), ("told", "The runs differ in:")):
        listed = [each for each in found if each.weight == weight]
        if listed:
            yield ""
            yield heading
        for each in listed:
            own = "; ".join(f"{e.label}: {value or '-'}" for e, value in zip(entries, each.values, strict=True))
            yield printable(f"  {each.what}: {own}")
    yield ""
    yield printable(cause(entries, found))
    results = [entry.result for entry in entries]
    points = points_compared(results)
    if points is not None:
        yield from overall_lines([entry.label for entry in entries], numbers)
    if points is not None and points > MOST_POINTS:
        yield f"Each of the {points} points: --json; figures and matrices: --out DIR."
        return
    for metric in _SHOWN:
        yield from _table(entries, [each for each in numbers if each.metric == metric])
    yield ""
    basis = "the rounds of both windows" if points is None else "the repeats of both runs"
    yield f"In brackets: percent from A; an asterisk: outside the 95 % interval that {basis} give."
    yield "Each number is judged by itself: without any difference, about one in twenty has an asterisk."


def _table(entries: Sequence[Entry], rows: Sequence[Compared]) -> Iterator[str]:
    if not rows:
        return
    lines = [(f"{rows[0].metric} at", *(entry.label for entry in entries)), *map(_cells, rows)]
    head, *others = zip(*map(_hung, zip(*lines, strict=True)), strict=True)
    yield ""
    yield from table(head, others)


def _hung(column: Sequence[str]) -> list[str]:
    """Let the asterisks of a column stand beside it, so that its numbers stay below each other."""
    starred = any(cell.endswith("*") for cell in column)
    return [cell + " " if starred and not cell.endswith("*") else cell for cell in column]


def _cells(each: Compared) -> tuple[str, ...]:
    values = (
        "-" if figure is None else number(figure.value) + _difference(each, place)
        for place, figure in enumerate(each.figures)
    )
    return (printable(each.at), *values)


def _difference(each: Compared, place: int) -> str:
    found = each.differences[place]
    return "" if found is None else f" ({found.percent:+.1f}){'*' if found.certain else ''}"


def _json(
    entries: Sequence[Entry], found: Sequence[ContextDifference], numbers: Sequence[Compared]
) -> dict[str, object]:
    """As ``docs/formats.rst`` describes it."""
    return {
        "format": 1,
        "test": entries[0].result.facts.spec.test,
        "runs": [
            {
                "label": entry.label,
                "path": entry.place,
                "run": entry.result.facts.run_id,
                "verdict": entry.result.verdict,
                "conformant": entry.result.conformant,
            }
            for entry in entries
        ],
        "causes": [each.what for each in causes(found)],
        "unlike": [{"what": each.what, "weight": each.weight, "values": each.values} for each in found],
        "figures": [
            {
                "metric": each.metric,
                "at": each.at,
                "unit": each.unit,
                "better": each.better,
                "values": [figure and figure.value for figure in each.figures],
                "rounds": [figure and figure.rounds for figure in each.figures],
                "differences": [diff and {**asdict(diff), "certain": diff.certain} for diff in each.differences],
                "spread_percent": each.spread_percent,
            }
            for each in numbers
        ],
    }
