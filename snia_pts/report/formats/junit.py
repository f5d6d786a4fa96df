"""The verdict as JUnit XML for CI systems: the end of the run, steady state, and each limit."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from ...results.limit_checks import judgements
from ...results.result import TestResult
from ...spec import loop_rule, settling_rule
from ...text import one_line
from ..sections.summary import elapsed_seconds, limit_text, shortcomings, value_text, verdict


def make(result: TestResult) -> bytes:
    """Return ``result`` as JUnit XML; PTS conformance is a property: as a test case, every run on a file would fail."""
    facts, cases = result.facts, list(_cases(result))
    failures = str(sum(bool(failure) for _, failure in cases))
    seconds = elapsed_seconds(result)
    suites = etree.Element("testsuites", tests=str(len(cases)), failures=failures)
    name = one_line(f"{facts.spec.title} {facts.dut.model or facts.dut.name}")
    suite = etree.SubElement(
        suites, "testsuite", name=name, timestamp=facts.started, tests=str(len(cases)), failures=failures
    )
    if seconds is not None:
        suite.set("time", f"{seconds:.3f}")
    properties = etree.SubElement(suite, "properties")
    for name, value in _properties(result):
        etree.SubElement(properties, "property", name=name, value=one_line(value))
    for name, failure in cases:
        case = etree.SubElement(suite, "testcase", name=one_line(name), classname=f"snia_pts.{facts.spec.test}")
        if failure:
            etree.SubElement(case, "failure", message=one_line(failure))
    return bytes(etree.tostring(suites, pretty_print=True, xml_declaration=True, encoding="UTF-8"))


def _properties(result: TestResult) -> Iterator[tuple[str, str]]:
    facts = result.facts
    yield "run", facts.run_id
    yield "standard", f"{facts.spec.revision} {facts.test_class}"
    yield "drive", f"{facts.dut.model} {facts.dut.serial} {facts.dut.firmware}"
    yield "PTS conformant", "yes" if result.conformant else f"no: {shortcomings(result)}"
    for deviation in result.deviations:
        yield f"deviation: {one_line(deviation.what)}", deviation.actual
    for setting in facts.settings:
        yield f"setting: {one_line(setting.what)}", setting.actual


def _cases(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield each test case with the reason of its failure, empty if it passed.

    A test that is complete without steady state has no test case on it: it neither passed nor failed.
    """
    finished = result.ending == "finished"
    yield "the run finishes", "" if finished else f"{result.ending}: {result.ending_detail}"
    evaluated = loop_rule(result.facts.spec) or settling_rule(result.facts.spec)
    if evaluated and (result.steady or not result.achieved):
        yield "steady state is achieved", "" if result.achieved else verdict(result)
    for judgement in judgements(result):
        limit, value = judgement.limit, judgement.value
        measured = "" if value is None else f", measured {value_text(limit, value)}"
        yield (
            f"{limit.name}: {limit_text(limit, value)}",
            "" if judgement.met else f"{judgement.shown_reason}{measured}",
        )
