"""Summarises a stored suite from the journals of its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..errors import RecordError
from ..record.replay import assess
from ..record.suite import SuiteFolder
from ..report import DEFAULT_FORMATS
from ..report.suite import Overview, overview
from ..results.result import TestResult


def build_summary(
    folder: SuiteFolder,
    change: Callable[[TestResult], TestResult] = lambda result: result,
    formats: Sequence[str] = DEFAULT_FORMATS,
) -> Overview:
    """Return the overview of a stored suite, from the journals of its tests.

    ``change`` is applied to each result; only reports in ``formats`` are linked.
    """
    reported = {
        test: [
            f"report.{name}"
            for name in ("rst", "xlsx", "html", "pdf")
            if name in formats and (folder.run_path(test) / f"report.{name}").is_file()
        ]
        for test in folder.tests
    }
    return overview(_results(folder, change), reported)


def _results(
    folder: SuiteFolder, change: Callable[[TestResult], TestResult]
) -> Iterator[tuple[str, TestResult | None]]:
    first: TestResult | None = None
    for test in folder.tests:
        run = folder.verified_run_folder(test)
        result = assess(run) if run else None
        first = first or result
        if run and first and result and result.facts.dut.summary != first.facts.dut.summary:
            reason = f"its drive is {result.facts.dut.summary}; that of the test before is {first.facts.dut.summary}"
            raise RecordError(path=run.path, reason=reason, hint="All tests of a suite must be of one drive.")
        yield test, change(result) if result else None
