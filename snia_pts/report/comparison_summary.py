"""The first page of a comparison: the runs, their names, and the differences of their contexts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ..model.description import Name, display_value
from ..results.comparison import (
    CONFIDENCE_PERCENT,
    MIN_INTERVAL_ROUNDS,
    SPREAD_RUNS,
    ComparedFigure,
    ContextDifference,
    compare_figures,
    context_differences,
    missing_intervals,
    overall_difference,
    points_compared,
    possible_causes,
)
from ..results.result import TestResult
from ..results.unsteady_points import unsteady_points
from ..text import printable
from ..units import counted, signed
from .checksums import report_id
from .header import date
from .pages import Block, Prose
from .sections.provenance import seed_text
from .sections.summary import no_drive, shortcomings, verdict, warning_rows
from .tables import UNKNOWN, Column, Table

#: The properties of a drive that name its run, the most telling first.
_NAMES: tuple[Name, ...] = ("model", "firmware", "serial")
#: The number of points that are listed for each run.
_LISTED = 6
#: What a comparison compares.
_COMPARED = (
    "Compared: drive, host, suite, settings, deviations. Not compared: seed, command line, and what follows from other "
    "properties, such as the size of the tested range."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A run to compare: its letter, its folder, and its result."""

    label: str
    path: str
    result: TestResult


def summary(entries: Sequence[Entry]) -> Iterator[Block]:
    """Yield the blocks of the first page."""
    differences = context_differences([entry.result for entry in entries])
    flagged = [difference for difference in differences if difference.weight == "flagged"]
    yield from no_drive(entry.result.facts.dut for entry in entries)
    if flagged:
        text = f"Compare with care: {counted(len(flagged), 'issue')} may affect the comparison"
        yield Prose(text=text, kind="bad")
    else:
        spec = entries[0].result.facts.spec
        rules = "specification, axes and repeats"
        if spec.is_standard:
            rules = "test, standard, class, parameters and deviations"
        yield Prose(text=f"Measured by the same rules: {rules}", kind="good")
    if not all(entry.result.conformant for entry in entries) and entries[0].result.facts.spec.is_standard:
        reasons = [shortcomings(entry.result) or "no deviation" for entry in entries]
        yield Prose(text=f"NOT PTS conformant: {'; '.join(values_with_labels(entries, reasons))}", kind="bad")
    yield from _overall(entries)
    yield _runs(entries)
    yield _warnings(entries)
    yield from _unsteady_points(entries)
    yield from _common_deviations(entries)
    yield _origins(entries)
    if flagged:
        yield _difference_table(entries, flagged, "Issues that may affect the comparison")
    if context := [difference for difference in differences if difference.weight == "context"]:
        yield _difference_table(entries, context, "Differences between the runs")
    yield Prose(text=cause(entries, differences))
    yield Prose(text=_explanation(entries))


def _overall(entries: Sequence[Entry]) -> Iterator[Prose]:
    """Yield the overall differences of runs of named points; none for other runs."""
    results = [entry.result for entry in entries]
    if points_compared(results) is not None:
        for line in overall_lines([entry.label for entry in entries], compare_figures(results), round_noun(entries)):
            yield Prose(text=line, kind="lead")


def round_noun(entries: Sequence[Entry]) -> str:
    """Return the name of a round in the test of the runs."""
    return "repeat" if entries[0].result.facts.spec.rounds_are_repeats else "round"


def overall_lines(labels: Sequence[str], numbers: Sequence[ComparedFigure], noun: str) -> Iterator[str]:
    """Yield a sentence for each further run: how its IOPS differ from the first run's over all points.

    ``noun`` is the name of a round.
    """
    rows = [row for row in numbers if row.metric == "iops"]
    for index, label in enumerate(labels[1:], start=1):
        change = overall_difference(rows, index)
        if change is not None:
            certainty = (
                f", {change.significant} of {change.judged} significant at {CONFIDENCE_PERCENT:g} %"
                if change.judged
                else f", {missing_intervals([row.differences[index] for row in rows], noun)}"
            )
            yield (
                f"{label} against {labels[0]}: median IOPS difference {signed(change.median)} % over "
                f"{counted(change.count, 'point')} ({signed(change.minimum)} to {signed(change.maximum)} %{certainty})"
            )


def cause(entries: Sequence[Entry], differences: Sequence[ContextDifference]) -> str:
    """Return a sentence on the possible causes of different results, among the properties that are compared."""
    same = _same_run(entries)
    text = f"{' and '.join(same)} are the same run. " if same else ""
    if len(same) == len(entries):
        return f"{text}There is no difference."
    return text + _cause(entries, possible_causes(differences))


def _cause(entries: Sequence[Entry], possible: Sequence[ContextDifference]) -> str:
    if not possible:
        return f"{_COMPARED} None differs: a difference may be noise, or come from factors not compared."
    if len(possible) == 1:
        values = "; ".join(values_with_labels(entries, possible[0].values))
        return f"The only difference in the compared properties: {possible[0].what} ({values})."
    return (
        f"{_COMPARED} {len(possible)} properties differ, listed above: these runs cannot show which of them affected "
        "the results."
    )


def _same_run(entries: Sequence[Entry]) -> list[str]:
    """Return the labels of the first entries that are the same run (one folder, or a copy); empty if there are none."""
    for index, entry in enumerate(entries):
        labels = [entry.label, *(other.label for other in entries[index + 1 :] if other.result == entry.result)]
        if len(labels) > 1:
            return labels
    return []


def _runs(entries: Sequence[Entry]) -> Table:
    spec = entries[0].result.facts.spec
    columns = (
        Column(heading="", width=4),
        Column(heading="Drive", width=20),
        Column(heading="Serial number", width=22),
        Column(heading="Started", width=13),
        Column(heading="Finished", width=13),
        Column(heading="Verdict", width=15),
        Column(heading="PTS conformant" if spec.is_standard else f"From {spec.authority}", width=13),
    )
    rows = tuple(
        (
            entry.label,
            _drive(entry, "model") or UNKNOWN,
            _drive(entry, "serial") or UNKNOWN,
            date(entry.result, entry.result.facts.started),
            date(entry.result, entry.result.finished),
            verdict(entry.result),
            _conformance(entry.result),
        )
        for entry in entries
    )
    return Table(kind="texts", columns=columns, rows=rows, title="Runs")


def _warnings(entries: Sequence[Entry]) -> Table:
    columns = (
        Column(heading="Run", width=6),
        Column(heading="Warning", width=24),
        Column(heading="Detail", width=70),
    )
    rows = tuple(
        (entry.label, *row) for entry in entries for row in (tuple(warning_rows(entry.result)) or (("none", ""),))
    )
    return Table(kind="texts", columns=columns, rows=rows, title="Warnings")


def _unsteady_points(entries: Sequence[Entry]) -> Iterator[Prose]:
    """Yield which points of a steady window are not steady themselves; none without any."""
    texts = []
    for entry in entries:
        for loop in entry.result.loops:
            if names := [point.label for point in unsteady_points(entry.result, loop)]:
                count = counted(len(entry.result.points(loop)), "point")
                more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
                texts.append(f"{entry.label}: {len(names)} of {count} ({', '.join(names[:_LISTED])}{more})")
    if texts:
        text = f"Not steady in a steady window: {'; '.join(texts)}. The report on the run marks them. "
        yield Prose(text=f"{text}The interval of such a point covers the scatter of its rounds, not their trend.")


def _origins(entries: Sequence[Entry]) -> Table:
    """Return where the numbers of each run come from: its folder, report id, seed and command line."""
    columns = (
        Column(heading="", width=4),
        Column(heading="Run", width=22),
        Column(heading="Report id", width=18),
        Column(heading="Seed", width=20),
        Column(heading="Command line", width=36),
    )
    rows = tuple(
        (
            entry.label,
            entry.path,
            report_id(entry.result) or UNKNOWN,
            seed_text(entry.result.facts) or UNKNOWN,
            shlex.join(entry.result.facts.command_line) or UNKNOWN,
        )
        for entry in entries
    )
    return Table(kind="texts", columns=columns, rows=rows, title="Provenance of the runs")


def _common_deviations(entries: Sequence[Entry]) -> Iterator[Table]:
    """Yield the table of the deviations that all runs have; those that only some have are among the issues."""
    found = [deviation for entry in entries for deviation in entry.result.deviations]
    shared = [
        what
        for what in dict.fromkeys(deviation.what for deviation in found)
        if all(any(deviation.what == what for deviation in entry.result.deviations) for entry in entries)
    ]
    if shared:
        authority = entries[0].result.facts.spec.authority
        values = [[_deviation_text(entry.result, what) for entry in entries] for what in shared]
        columns = (Column(heading="Deviation", width=30), Column(heading="Runs", width=70))
        rows = tuple(
            (what, texts[0] if len(set(texts)) == 1 else "; ".join(values_with_labels(entries, texts)))
            for what, texts in zip(shared, values, strict=True)
        )
        yield Table(kind="texts", columns=columns, rows=rows, title=f"Deviations of all runs from {authority}")


def _deviation_text(result: TestResult, what: str) -> str:
    return "; ".join(deviation.actual for deviation in result.deviations if deviation.what == what)


def _drive(entry: Entry, name: Name) -> str:
    return display_value(entry.result.facts.dut, entry.result.facts.about, name)


def run_names(entries: Sequence[Entry]) -> dict[str, str]:
    """Return a name for each run, by its letter: ``B: NEW-FIRMWARE, SIM2``.

    It has the first properties that tell the drives apart (model, firmware, serial number), and the name of the run
    folder, if drives are equal.
    """
    drives: list[tuple[str, ...]] = [()] * len(entries)
    for name in _NAMES:
        longer = [(*drive, _drive(entry, name)) for drive, entry in zip(drives, entries, strict=True)]
        drives = longer if len(set(longer)) > len(set(drives)) else drives
    if len(set(drives)) < len(entries):
        drives = [(*drive, PurePath(entry.path).name) for drive, entry in zip(drives, entries, strict=True)]
    return {
        entry.label: printable(f"{entry.label}: {', '.join(filter(None, drive))}")
        for entry, drive in zip(entries, drives, strict=True)
    }


def _conformance(result: TestResult) -> str:
    if not result.facts.spec.is_standard:
        return counted(len(result.deviations), "deviation")
    return "yes" if result.conformant else f"NO, {shortcomings(result)}"


def _difference_table(entries: Sequence[Entry], differences: Sequence[ContextDifference], title: str) -> Table:
    columns = (Column(heading="Property", width=30), Column(heading="Runs", width=70))
    rows = tuple(
        (difference.what, "; ".join(values_with_labels(entries, difference.values))) for difference in differences
    )
    return Table(kind="texts", columns=columns, rows=rows, title=title)


def values_with_labels(entries: Sequence[Entry], values: Sequence[str]) -> Iterator[str]:
    """Yield each value with the runs that have it: ``A, C: enabled``."""
    for value in dict.fromkeys(values):
        labels = (entry.label for entry, run_value in zip(entries, values, strict=True) if run_value == value)
        yield f"{', '.join(labels)}: {value or UNKNOWN}"


def _explanation(entries: Sequence[Entry]) -> str:
    window = "" if round_noun(entries) == "repeat" else ", in a steady measurement window"
    text = (
        f"Differences are relative to run {entries[0].label}, in percent of its value. The interval is the "
        f"{CONFIDENCE_PERCENT:g} % confidence interval of this difference, from {_basis(entries)} (Welch); an asterisk "
        f"marks intervals that exclude 0. An interval needs at least {MIN_INTERVAL_ROUNDS} {round_noun(entries)}s of "
        f"each run{window}. Percentiles, maximum response times and figures of continuous stimuli have none, because "
        "they are single values. Each value is tested separately: even without a real difference, about 1 in 20 is "
        "marked. The intervals apply to these runs, not to all drives of a model. A report id is the start of the "
        "SHA-256 of the run's journal.jsonl."
    )
    if len(entries) >= SPREAD_RUNS:
        text += " The spread is from the minimum to the maximum, in percent of the median."
    return text


def _basis(entries: Sequence[Entry]) -> str:
    return (
        "the repeats of both runs"
        if round_noun(entries) == "repeat"
        else "the rounds of both steady measurement windows"
    )
