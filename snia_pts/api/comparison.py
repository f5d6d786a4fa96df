"""Compares several stored runs of one test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from ..errors import NotComparable, UsageError
from ..report.comparison import build_comparison
from ..report.comparison_summary import Entry
from ..report.writing import render, replace_files
from ..results.attributes import Value
from ..results.comparison import (
    ComparedFigure,
    ContextDifference,
    compare_figures,
    context_differences,
    possible_causes,
)
from .assessment import require_trusted
from .run import Run, RunOrPath, load
from .tables import Table

#: Each compared run has a letter.
_LETTERS = ascii_uppercase


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Several runs of one test; each has a letter, and is compared with the first.

    ``context`` are the differences of everything but the numbers: device, firmware, host, settings, deviations.
    ``figures`` are the key figures, each with its values and differences.
    """

    entries: tuple[Entry, ...]
    context: tuple[ContextDifference, ...]
    figures: tuple[ComparedFigure, ...]

    @property
    def possible_causes(self) -> tuple[str, ...]:
        """The names of what differs and can be the cause of differences of the numbers."""
        return tuple(difference.what for difference in possible_causes(self.context))

    def table(self) -> Table:
        """Return the figures as a table: a row for each figure of each run.

        ``difference_percent`` is that from the run A; ``low_percent`` and ``high_percent`` are its 95 % confidence
        interval, ``significant`` says whether it excludes 0; missing without an interval.
        """
        rows = [row for figure in self.figures for row in self._rows(figure)]
        columns = {name: tuple(row[name] for row in rows) for name in (rows[0] if rows else ())}
        return Table(name="comparison", title="Comparison with run A", columns=columns)

    def _rows(self, figure: ComparedFigure) -> Iterator[dict[str, Value]]:
        for entry, value, change in zip(self.entries, figure.figures, figure.differences, strict=True):
            yield {
                "metric": figure.metric,
                "at": figure.at,
                "unit": figure.unit,
                "run": entry.label,
                "value": value.value if value else None,
                "difference_percent": change.percent if change else None,
                "low_percent": change.low if change else None,
                "high_percent": change.high if change else None,
                "significant": change.significant if change else None,
            }

    def write_report(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """Write the report of the comparison, and return its files by format, without the figures.

        Raises ReportError if a file cannot be written, or already exists, and RunFolderError if root runs this and
        others may change the folder.
        """
        files, place = render(build_comparison(self.entries), stem="comparison"), Path(folder)
        replace_files(place, files, new=True)
        return {name.rpartition(".")[2]: place / name for name in files if name.startswith("comparison.")}


def compare(runs: Sequence[RunOrPath]) -> Comparison:
    """Return the comparison of 2 to 26 stored runs of one test with the first of them.

    Raises NotComparable if they differ in test, version of the standard or class, if only some are simulated, or if
    profiles have no common point; RecordError if a run cannot be read, is in progress, or differs from its evidence;
    and UsageError for too few or too many runs.
    """
    if not 2 <= len(runs) <= len(_LETTERS):
        raise UsageError(
            detail=f"compare takes 2 to {len(_LETTERS)} runs, not {len(runs)}.",
            hint="For example: snia-pts compare runs/A runs/B",
        )
    entries = tuple(_entry(letter, run) for letter, run in zip(_LETTERS, runs, strict=False))
    results = [entry.result for entry in entries]
    context = tuple(context_differences(results))
    if other := [difference for difference in context if difference.weight == "other"]:
        reason = "; ".join(f"{item.what}: {', '.join(dict.fromkeys(item.values))}" for item in other)
        raise NotComparable(reason=reason)
    return Comparison(entries=entries, context=context, figures=compare_figures(results))


def _entry(letter: str, run: RunOrPath) -> Entry:
    """Return a run to compare; raises RecordError."""
    path, loaded = (run.path, run) if isinstance(run, Run) else (Path(run), load(run))
    require_trusted(loaded)
    return Entry(label=letter, path=str(path), result=loaded.result)
