"""The report modules: one for each test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from .. import registries
from ..results.result import TestResult
from .figures.figure import PointMatrix
from .header import Rows, header
from .pages import Page, Report
from .sections.telemetry import telemetry_pages
from .tables import Table
from .tests import (
    cross_stimulus_recovery,
    demand_intensity,
    host_idle_recovery,
    iops,
    latency,
    throughput,
    write_saturation,
)


class TestPages(Protocol):
    """A test's report module: its pages, and its two blocks of the header."""

    def pages(self, result: TestResult[Any], /) -> tuple[Page, ...]:
        """Return all pages that have data, the summary first, the provenance last."""
        ...

    def setup(self, result: TestResult[Any], /) -> Rows:
        """Return the ten Setup Parameters."""
        ...

    def parameters(self, result: TestResult[Any], /) -> Rows:
        """Return the ten Test Parameters."""
        ...


class FurtherTestPages(TestPages, Protocol):
    """The report module of a test beside the standard, whose figures the core does not know."""

    def overview(self, result: TestResult[Any], /) -> Iterator[Table]:
        """Yield the tables that summarise a run on a terminal, after the facts of its first page."""
        ...

    def key_figures(self, result: TestResult[Any], /) -> Iterator[str]:
        """Yield the key figures of a run, as phrases, for the summary of several tests."""
        ...

    def plots(self, result: TestResult[Any], /) -> Iterator[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
        """Yield the title, traces and layout of each figure of the interactive page, for plotly."""
        ...

    def point_matrices(self, result: TestResult[Any], /) -> Iterator[PointMatrix]:
        """Yield the matrices of the workbook."""
        ...

    def comparison(self, results: Mapping[str, TestResult[Any]], /) -> Iterator[Page]:
        """Yield the pages of figures that compare runs, which are given by their letters."""
        ...


#: The module of each test of the standard, by its command.
TESTS: Mapping[str, TestPages] = {
    "iops": iops,
    "throughput": throughput,
    "latency": latency,
    "wsat": write_saturation,
    "hir": host_idle_recovery,
    "xsr": cross_stimulus_recovery,
    "composite": demand_intensity,
    "dirth": demand_intensity,
}


def pages_of(test: str) -> TestPages:
    """Return the report module of a test."""
    return TESTS.get(test) or cast("TestPages", registries.load(registries.REPORTS, test))


def further_pages(test: str) -> FurtherTestPages | None:
    """Return the report module of a test beside the standard; None for a test of the standard."""
    if test not in registries.REPORTS:
        return None
    return cast("FurtherTestPages", registries.load(registries.REPORTS, test))


def build(result: TestResult) -> Report:
    """Return the report on ``result``, as a value."""
    spec = result.facts.spec
    test = pages_of(spec.test)
    *pages, provenance = test.pages(result)
    return Report(
        title=f"{spec.title} Test Report: {result.facts.dut.model or result.facts.dut.name}",
        author=result.facts.about.operator,
        dated=result.finished,
        header=header(result, setup=test.setup(result), parameters=test.parameters(result)),
        pages=(*pages, *telemetry_pages(result), provenance),
        joined=not spec.is_standard,
    )
