"""Which pages a test's report has: a dict in the open, one function a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..result import TestResult
from .header import header
from .iops import iops
from .pages import Page, Report

#: The pages of every test's report, by the test's verb.
PAGES: Mapping[str, Callable[[TestResult], tuple[Page, ...]]] = {"iops": iops}


def build(result: TestResult) -> Report:
    """Return the report on ``result``, as a value."""
    spec = result.facts.spec
    return Report(
        title=f"{spec.title} Test Report: {result.facts.dut.model or result.facts.dut.name}",
        author=result.facts.operator,
        dated=result.finished,
        header=header(result),
        pages=PAGES[spec.test](result),
    )
