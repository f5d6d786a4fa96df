"""The verdict as JUnit XML, for programs that run tests: the end of the run, steady state, and each limit."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from ...results.limit_checks import judgements
from ...results.result import TestResult
from ...spec import ProfileSpec
from ...text import one_line
from ..sections.summary import elapsed_seconds, limit_text, shortcomings, value_text, verdict


def make(result: TestResult) -> bytes:
    """Return ``result`` as JUnit XML; whether it is PTS conformant is a property, as no run on a file is."""
    facts, cases = result.facts, list(_cases(result))
    failures = str(sum(bool(why) for _, why in cases))
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
    for name, why in cases:
        case = etree.SubElement(suite, "testcase", name=one_line(name), classname=f"snia_pts.{facts.spec.test}")
        if why:
            etree.SubElement(case, "failure", message=one_line(why))
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
    """Give each test case, and why it fails; nothing where it does not."""
    ended = result.ending == "finished"
    yield "the run finishes", "" if ended else f"{result.ending}: {result.ending_detail}"
    if not isinstance(result.facts.spec, ProfileSpec):  # of which no steady state is asked
        yield "steady state is achieved", "" if result.achieved else verdict(result)
    for each in judgements(result):
        measured = "" if each.value is None else f", measured {value_text(each.limit, each.value)}"
        yield f"{each.limit.name}: {limit_text(each.limit, each.value)}", "" if each.met else f"{each.reason}{measured}"
