"""The registry of report modules: one for each test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..results.result import TestResult
from .header import Rows, header
from .pages import Page, Report
from .profile import pages as profile_pages
from .sections.telemetry import telemetry_pages
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


#: The module of each test, by its command, and of profiles.
TESTS: Mapping[str, TestPages] = {
    "iops": iops,
    "throughput": throughput,
    "latency": latency,
    "wsat": write_saturation,
    "hir": host_idle_recovery,
    "xsr": cross_stimulus_recovery,
    "composite": demand_intensity,
    "dirth": demand_intensity,
    "profile": profile_pages,
}


def build(result: TestResult) -> Report:
    """Return the report on ``result``, as a value."""
    spec = result.facts.spec
    test = TESTS[spec.test]
    *pages, provenance = test.pages(result)
    return Report(
        title=f"{spec.title} Test Report: {result.facts.dut.model or result.facts.dut.name}",
        author=result.facts.about.operator,
        dated=result.finished,
        header=header(result, setup=test.setup(result), parameters=test.parameters(result)),
        pages=(*pages, *telemetry_pages(result), provenance),
    )
