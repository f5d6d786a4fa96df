"""The summary of several tests on one drive: a line a test, on one page, in the forms of every report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..analysis import recovery
from ..analysis.operating_points import demand_means, operating_points
from ..errors import ReportError
from ..model.measurement import METRICS, average_response_us, rate_per_second
from ..results.limit_checks import Judgement, judgements, untested
from ..results.result import Loop, TestResult
from ..spec import CrossStimulusSpec, DemandSpec, WriteSaturationSpec
from ..spec.reader import read_specification, versions
from ..units import GB, capacity, duration, number
from .header import NOT_ACHIEVED, Rows, header, pattern, range_and_amount, simulated, when
from .pages import Header, Page, Prose, Report
from .sections.summary import SIMULATED, elapsed_seconds, limit_blocks, lower_bound_prefix, shortcomings, verdict
from .tables import NOT_APPLICABLE, UNKNOWN, Column, Link, Table, facts, thousands
from .writing import OUTPUTS, USUAL

if TYPE_CHECKING:
    from .pages import Block

NOT_RUN = "NOT RUN"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestLine:
    """What the summary says of a test; of one that was not run, that alone.

    ``achieved`` tells whether it came to the end that the standard wants, ``steady`` whether to steady state.
    """

    test: str
    title: str
    verdict: str = NOT_RUN
    achieved: bool = False
    steady: bool = False
    ending: str = NOT_RUN
    conformance: str = UNKNOWN
    key_figures: tuple[str, ...] = ()
    seconds: float | None = None
    started: str = ""
    finished: str = ""
    written_bytes: float = 0.0
    least: str = ""
    report: str = UNKNOWN
    asks_steady_state: bool = True

    @property
    def duration(self) -> str:
        return UNKNOWN if self.seconds is None else duration(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All tests that were asked for, and the limits on them, with what became of each."""

    lines: tuple[TestLine, ...]
    header: Header
    simulated: bool
    author: str
    dut: str
    capacity_bytes: int
    limits: tuple[Judgement, ...] = ()

    def fills(self, written_bytes: float) -> float:
        """Return how often so many bytes fill the device; nan where it is not known how large that is."""
        return written_bytes / self.capacity_bytes if self.capacity_bytes else math.nan

    @property
    def missing(self) -> tuple[str, ...]:
        """The titles of the tests that were not run."""
        return tuple(line.title for line in self.lines if line.ending == NOT_RUN)

    @property
    def finished(self) -> bool:
        return all(line.ending == "finished" for line in self.lines)

    @property
    def verdict(self) -> str:
        """What became of all, in a sentence."""
        done = sum(line.ending == "finished" for line in self.lines)
        stopped = [f"{line.title} {line.ending}" for line in self.lines if line.ending not in ("finished", NOT_RUN)]
        told = f"{done} of {len(self.lines)} tests finished"
        unsteady = [line.title for line in self.lines if line.ending == "finished" and not line.achieved]
        parts = [told, *stopped]
        parts += [f"not steady: {', '.join(unsteady)}"] if unsteady else []
        parts += [f"{NOT_RUN}: {', '.join(self.missing)}"] if self.missing else []
        return "; ".join(parts)


def overview(
    results: Iterable[tuple[str, TestResult | None]], reported: Mapping[str, str] = MappingProxyType({})
) -> Overview:
    """Return what a summary says of ``results``, by the tests' verbs; None for a test that was not run.

    Results are taken one at a time, as they can be large.  ``reported`` are the files of their
    reports, by test, where there are such.
    Raises ReportError when no test was run.
    """
    lines: list[TestLine] = []
    judged: list[Judgement] = []
    first: TestResult | None = None
    for test, result in results:
        first = first or (_small(result) if result else None)
        judged += judgements(result) if result else ()
        lines.append(_line(test, result, reported.get(test)) if result else TestLine(test=test, title=""))
    if first is None:
        raise ReportError(reason="none of the tests was run", hint="")
    judged += untested(first.facts.limits, [line.test for line in lines if line.title])
    lines = [line if line.title else replace(line, title=_title(line.test, first)) for line in lines]
    dut = first.facts.dut
    return Overview(
        lines=tuple(lines),
        header=_header(first, lines),
        simulated=dut.simulated,
        author=first.facts.about.operator,
        dut=dut.model or dut.name,
        capacity_bytes=dut.capacity_bytes,
        limits=tuple(judged),
    )


def _small(result: TestResult) -> TestResult:
    """Return what the header needs of a result."""
    return replace(result, loops=(), time_lines=(), gaps=(), sampling=None)


def _title(test: str, first: TestResult) -> str:
    """Return the title that a test has where that of ``first`` comes from; in the newest version if that knows none."""
    pts = first.facts.spec.pts
    known = versions(test)
    return read_specification(test, pts if pts in known else known[0], first.facts.test_class).spec.title


def _line(test: str, result: TestResult, report: str | None) -> TestLine:
    return TestLine(
        test=test,
        title=result.facts.spec.title,
        verdict=verdict(result),
        achieved=result.achieved,
        steady=result.steady,
        ending=result.ending,
        conformance="yes" if result.conformant else f"NO, {shortcomings(result)}",
        key_figures=tuple(key_figures(result)),
        seconds=elapsed_seconds(result),
        started=result.facts.started,
        finished=result.finished,
        written_bytes=result.written_bytes,
        least=lower_bound_prefix(result),
        report=f"{test}/{report}" if report else UNKNOWN,
        asks_steady_state=not isinstance(result.facts.spec, CrossStimulusSpec),
    )


def key_figures(result: TestResult) -> Iterator[str]:
    """Give what a test is most asked for, a phrase each; nothing where it was not measured."""
    spec = result.facts.spec
    if isinstance(spec, DemandSpec):
        loop = result.loop()
        means = demand_means(loop.window_rounds) if loop else ()
        for point in operating_points(means, spec.operating_points):
            yield f"{point.name}: {number(point.iops)} at {point.demand.label}, ART {number(point.art_ms)} ms"
        return
    for loop in result.loops:
        yield from _tracked(loop)
    if isinstance(spec, CrossStimulusSpec):
        yield from _recovered(result)
    elif isinstance(spec, WriteSaturationSpec) and not result.steady:
        yield from _at_end(result)
    elif result.sampling and result.sampling.window:
        (tracked, state), *_ = result.sampling.window.determinations
        steady = "steady state" if result.sampling.steady else f"last window, {NOT_ACHIEVED}"
        yield f"{number(state.average)} {METRICS[tracked.metric].unit}, {steady}"
    for line in result.lines("access A"):
        seconds = sum(line.seconds)
        if seconds:
            yield f"{line.part}: {number(rate_per_second(sum(line.write_ios), 1000 * seconds))} IOPS"


def _at_end(result: TestResult) -> Iterator[str]:
    """Give what a write saturation without steady state came to; its window may hold the fresh drive."""
    line, after = result.time_line("stimulus"), result.time_line("histogram")
    rows = recovery.end_rows(line) if line is not None else range(0)
    if line is not None and (seconds := sum(line.seconds[row] for row in rows)):
        ios = sum(line.read_ios[row] + line.write_ios[row] for row in rows)
        rate = number(rate_per_second(ios, 1000 * seconds))
        yield f"{rate} IOPS, last {duration(seconds)} of the stimulus, not steady"
    if after is not None and (ios := sum(after.read_ios) + sum(after.write_ios)):
        rate = number(rate_per_second(ios, 1000 * sum(after.seconds)))
        yield f"{rate} IOPS, histogram after it ({after.stimulus.label})"


def _tracked(loop: Loop) -> Iterator[str]:
    """Give what the tracked variables came to over the window; a response time is that of all its I/Os."""
    for tracked, state in loop.window.determinations if loop.window else ():
        points, metric = [measured.point(tracked) for measured in loop.window_rounds], METRICS[tracked.metric]
        response = tracked.metric == "average_response_ms"
        value = average_response_us(points) / 1000 if response else state.average
        yield f"{points[-1].stimulus.label}: {'ART ' * response}{number(value)} {metric.unit}"


def _recovered(result: TestResult) -> Iterator[str]:
    found = recovery.recovery(result.lines("stimulus"))
    if found is not None:
        back = "not recovered" if found.time.seconds is None else f"recovered after {duration(found.time.seconds)}"
        yield f"{found.reference}: {number(found.baseline)} MB/s; {found.group}: {back}"


def _header(first: TestResult, lines: Sequence[TestLine]) -> Header:
    """Return the header of the first test, told for all."""
    made = header(first, setup=_setup(first, lines), parameters=_parameters(lines))
    ((*names, _, revision, version, page, total),) = made.standard.rows
    ended = max((line.finished for line in lines), default="")
    started = (*made.dates.rows[0][:3], when(ended))
    what = "All Tests of a File" if first.facts.imported else "All Tests, each with its own Purge"
    return replace(
        made,
        test=replace(made.test, rows=((f"All Tests - Summary Page{simulated(first)}",),)),
        dates=replace(made.dates, rows=(started,)),
        standard=replace(made.standard, rows=((*names, what, revision, version, page, total),)),
    )


def _setup(first: TestResult, lines: Sequence[TestLine]) -> Rows:
    rows = (
        ("Data Pattern", pattern(first.facts.spec)),
        ("AR & Amount", range_and_amount(first)),
        ("Tests", str(len(lines))),
        ("Finished", str(sum(line.ending == "finished" for line in lines))),
        ("Notes", "see each test's report"),
    )
    return (*rows, *[("", "")] * (10 - len(rows)))


def _parameters(lines: Sequence[TestLine]) -> Rows:
    rows = tuple((line.test.upper(), _state(line)) for line in lines)[:10]
    return (*rows, *[("", "")] * (10 - len(rows)))


def _state(line: TestLine) -> str:
    """What became of a test, in a word or two."""
    if line.ending != "finished":
        return NOT_RUN if line.ending == NOT_RUN else f"INCOMPLETE ({line.ending})"
    if not line.asks_steady_state:
        return "complete"
    return "achieved" if line.steady else NOT_ACHIEVED


def build(told: Overview) -> Report:
    """Return the summary as a report of one page."""
    return Report(
        title=f"Summary of All Tests: {told.dut}",
        author=told.author,
        dated=max((line.finished for line in told.lines), default=""),
        header=told.header,
        pages=(Page(title="Summary of All Tests", blocks=tuple(_blocks(told)), flows=True),),
    )


def _blocks(told: Overview) -> Iterator[Block]:
    if told.simulated:
        yield SIMULATED
    good = told.finished and all(line.achieved for line in told.lines)
    yield Prose(text=told.verdict, kind="good" if good else "bad")
    conformant = all(line.conformance == "yes" for line in told.lines)
    if conformant and not good:
        yield Prose(text="No deviation in any test, but steady state was not achieved in all", kind="bad")
    else:
        text = "PTS conformant: no deviation in any test" if conformant else "NOT PTS conformant: see each test"
        yield Prose(text=text, kind="good" if conformant else "bad")
    yield from limit_blocks(told.limits, tests=True)
    columns = (
        Column(heading="Test", width=12),
        Column(heading="Verdict", width=14),
        Column(heading="Key figures", width=22),
        Column(heading="PTS conformant", width=11),
        Column(heading="Duration", width=10),
        Column(heading="Written (GB)", align="right", width=9),
        Column(heading="Drive fills", align="right", width=6),
        Column(heading="Report", width=18),
    )
    yield Table(kind="texts", columns=columns, rows=tuple(_row(told, line) for line in told.lines), title="Tests")
    written = sum(line.written_bytes for line in told.lines)
    fills = thousands(told.fills(written), 2)
    least = next((line.least for line in told.lines if line.least), "")
    amount = f"{least}{number(written / GB)} GB, {fills} x user capacity"
    known = [line.seconds for line in told.lines if line.seconds is not None]
    rows = (
        ("Duration", duration(sum(known)) if known else UNKNOWN),
        ("Data written, all tests", amount if math.isfinite(written) else "not told"),
        ("User capacity", _capacity(told)),
    )
    yield facts(rows, title="All tests together")


def _capacity(told: Overview) -> str:
    known = told.capacity_bytes
    return f"{capacity(known)} ({thousands(known, 0)} bytes)" if known else ""


def _row(told: Overview, line: TestLine) -> tuple[str, ...]:
    written, fills = UNKNOWN, UNKNOWN
    if line.ending != NOT_RUN:
        written = line.least + number(line.written_bytes / GB)
        fills = thousands(told.fills(line.written_bytes), 2)
    figures = "; ".join(line.key_figures) or NOT_APPLICABLE
    report = UNKNOWN if line.report == UNKNOWN else Link(line.report)
    return line.title, line.verdict, figures, line.conformance, line.duration, written, fills, report


def write(told: Overview, folder: Path, formats: Sequence[str] = USUAL) -> dict[str, Path]:
    """Write the summary into ``folder``, as summary.pdf and the like; return what was written by format.

    Those of ``formats`` that hold no pages are left to the reports.  Raises ReportError.
    """
    from .writing import render, replace_files

    pages = tuple(name for name in formats if name in OUTPUTS)
    files = render(build(told), pages, stem="summary") if pages else {}
    replace_files(folder, files)
    return {name: folder / f"summary.{name}" for name in pages}
