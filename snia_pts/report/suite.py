"""The summary of several tests on one drive: one line per test, on one page, in the formats of every report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..errors import ReportError
from ..model.annotations import SignOff
from ..results.limit_checks import Judgement, judgements, untested_judgements
from ..results.result import TestResult
from ..results.tracked_series import Convergence, convergence, shown_series
from ..results.warnings import warning_kinds
from ..spec import CrossStimulusSpec
from ..spec.reader import title_of
from ..units import capacity, duration
from .checksums import ID_DIGITS, summary_id
from .header import NOT_ACHIEVED, VIRTUAL, Rows, date, header, pattern, range_and_amount, simulated, stated_note
from .pages import Figure, Header, Page, Prose, Report
from .sections.summary import (
    OF_REPEATS,
    OF_ROUNDS,
    conditions,
    elapsed_seconds,
    limit_blocks,
    limits_source,
    lower_bound_prefix,
    no_drive,
    shortcomings,
    sign_off_table,
    signed_report,
    verdict,
    verdict_kind,
    window_spans,
)
from .suite_key_figures import explained_terms, key_figures
from .tables import UNKNOWN, Column, Link, Table, facts, thousands
from .writing import DEFAULT_FORMATS, OUTPUTS, render, replace_files

if TYPE_CHECKING:
    from .figures.figure import Styles
    from .pages import Block

NOT_RUN = "NOT RUN"
#: The formats of reports to which the summary has links; without them, it has links to RST.
_LINKED = ("html", "pdf", "xlsx")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestLine:
    """A test's line in the summary; for a test that was not run, only that.

    ``achieved``: the test ended as the standard requires.  ``steady``: it reached steady state.  ``reports`` are the
    paths of its reports, ``conditions`` the drive's temperature, whether the host limited it, and the warnings.
    ``windows`` are the measurement windows of the parts, if the verdict has none.  ``terms`` explain ``key_figures``.
    """

    test: str
    title: str
    verdict: str = NOT_RUN
    windows: str = ""
    deviations: tuple[str, ...] = ()
    achieved: bool = False
    steady: bool = False
    ending: str = NOT_RUN
    conformance: str = UNKNOWN
    key_figures: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    seconds: float | None = None
    started: str = ""
    finished: str = ""
    written_bytes: float = 0.0
    lower_bound_prefix: str = ""
    reports: tuple[str, ...] = ()
    requires_steady_state: bool = True
    conditions: Mapping[str, str] = field(default_factory=dict)
    convergence: Convergence | None = None
    styles: Styles = field(default_factory=dict)

    @property
    def report(self) -> str:
        """The path of the last of its reports."""
        return self.reports[-1] if self.reports else UNKNOWN

    @property
    def duration(self) -> str:
        return UNKNOWN if self.seconds is None else _hours(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All requested tests, and the verdicts on the limits.  ``standard``: they are tests of the standard.

    ``journals`` are the SHA-256 of the journals by their paths.
    """

    lines: tuple[TestLine, ...]
    header: Header
    simulated: bool
    no_drive: tuple[Prose, ...]
    standard: bool
    author: str
    dut: str
    capacity_bytes: int
    journals: Mapping[str, str]
    limits: tuple[Judgement, ...] = ()
    limits_source: str = ""
    stated_note: str = ""
    sign_off: SignOff | None = None

    def fills(self, written_bytes: float) -> float:
        """Return ``written_bytes`` as a multiple of the device's capacity; nan if the capacity is unknown."""
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
        """The outcome of all tests as a sentence."""
        finished = sum(line.ending == "finished" for line in self.lines)
        stopped = [f"{line.title} {line.ending}" for line in self.lines if line.ending not in ("finished", NOT_RUN)]
        unsteady = [line.title for line in self.lines if _state(line) == NOT_ACHIEVED]
        parts = [f"{finished} of {len(self.lines)} tests finished", *stopped]
        parts += [f"steady state {NOT_ACHIEVED}: {', '.join(unsteady)}"] if unsteady else []
        parts += [f"{NOT_RUN}: {', '.join(self.missing)}"] if self.missing else []
        return "; ".join(parts)


def overview(
    results: Iterable[tuple[str, TestResult | None]], reported: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Overview:
    """Return the overview of ``results``, by test; the result of a test that was not run is None.

    Results are read one at a time, because they can be large.  ``reported`` are the files of their reports, by test.
    Raises ReportError if no test was run.
    """
    lines: list[TestLine] = []
    judged: list[Judgement] = []
    journals: dict[str, str] = {}
    first: TestResult | None = None
    tests = set[str]()
    for test, result in results:
        first = first or (_header_data(result) if result else None)
        judged += judgements(result) if result else ()
        if result and result.journal_sha256:
            journals[f"{test}/journal.jsonl"] = result.journal_sha256
        lines.append(_line(test, result, reported.get(test, ())) if result else TestLine(test=test, title=""))
        tests |= {result.facts.spec.test} if result else set()
    if first is None:
        raise ReportError(reason="no test was run", hint="")
    judged += untested_judgements(first.facts.limits, tests)
    lines = [line if line.title else replace(line, title=_title(line.test, first)) for line in lines]
    dut = first.facts.dut
    return Overview(
        lines=tuple(lines),
        header=_header(first, lines, summary_id(journals)),
        simulated=dut.simulated,
        no_drive=tuple(no_drive([dut])),
        standard=first.facts.spec.is_standard,
        author=first.facts.about.operator,
        dut=dut.model or dut.name,
        capacity_bytes=dut.capacity_bytes,
        journals=journals,
        limits=tuple(judged),
        limits_source=limits_source(first),
        stated_note=stated_note(first),
        sign_off=first.facts.about.sign_off,
    )


def _header_data(result: TestResult) -> TestResult:
    """Return a result with only the data that the header needs; its id is that of the suite: ``e202``."""
    suite_id, _, test = result.facts.run_id.rpartition("/")
    facts_of_all = replace(result.facts, run_id=suite_id or test)
    return replace(result, facts=facts_of_all, loops=(), time_lines=(), gaps=(), sampling=None)


def _title(test: str, first: TestResult) -> str:
    """Return a test's title in the PTS version of ``first``; that of a profile is its name."""
    return title_of(test, first.facts.spec.pts) if first.facts.spec.is_standard else test


def _line(test: str, result: TestResult, reports: Sequence[str]) -> TestLine:
    from .sections.convergence import tracked_styles  # loads the libraries that draw

    shown = shown_series(result)
    small, figures = convergence(shown), tuple(key_figures(result))
    if small and result.sampling and shown[0].times is None:
        small = replace(small, name=f"{small.name} Test Loop")
    return TestLine(
        test=test,
        title=result.facts.spec.title,
        verdict=verdict(result),
        windows=window_spans(result),
        deviations=tuple(deviation.what for deviation in result.deviations),
        achieved=result.achieved,
        steady=result.steady_so_far,
        ending=result.ending,
        conformance="yes" if result.conformant else f"NO, {shortcomings(result)}",
        key_figures=figures,
        terms=tuple(explained_terms(result, figures)),
        seconds=elapsed_seconds(result),
        started=result.facts.started,
        finished=result.finished,
        written_bytes=result.written_bytes,
        lower_bound_prefix=lower_bound_prefix(result),
        reports=tuple(f"{test}/{report}" for report in reports),
        requires_steady_state=result.facts.spec.is_standard and not isinstance(result.facts.spec, CrossStimulusSpec),
        conditions=dict(conditions(result)) | {"Warnings": warning_kinds(result)},
        convergence=small,
        styles=tracked_styles(result, shown),
    )


def _header(first: TestResult, lines: Sequence[TestLine], identity: str) -> Header:
    """Return the header of the first test, changed so that it applies to all."""
    base = header(first, setup=_setup(first, lines), parameters=_parameters(lines))
    ((*names, _, revision, version, page, total),) = base.standard.rows
    ended = max((line.finished for line in lines), default="")
    ((*started, _, id_label, _),) = base.dates.rows
    subtitle = "All Tests of a File" if first.facts.imported else "All Tests, each with its own Purge"
    if not first.facts.spec.is_standard:
        subtitle = first.facts.spec.subtitle
    return replace(
        base,
        heads=replace(base.heads, rows=((*base.heads.rows[0][:-1], "Results"),)),
        test=replace(base.test, rows=((f"All Tests - Summary Page{simulated(first)}",),)),
        dates=replace(base.dates, rows=((*started, date(first, ended), id_label, identity or UNKNOWN),)),
        standard=replace(base.standard, rows=((*names, subtitle, revision, version, page, total),)),
    )


def _setup(first: TestResult, lines: Sequence[TestLine]) -> Rows:
    rows = (
        ("Data Pattern", pattern(first.facts.spec)),
        ("AR & Amount", range_and_amount(first)),
        ("Tests", str(len(lines))),
        ("Finished", str(sum(line.ending == "finished" for line in lines))),
        ("Notes", _conformance(lines) if first.facts.spec.is_standard else "not PTS tests"),
    )
    return (*rows, *[("", "")] * (10 - len(rows)))


def _conformance(lines: Sequence[TestLine]) -> str:
    """Return how many tests are not PTS conformant, or are if there is none; tests that were not run are neither."""
    count = sum(line.conformance.startswith("NO") for line in lines)
    conformant = sum(line.conformance == "yes" for line in lines)
    return f"{'NOT ' * bool(count)}PTS conformant: {count or conformant} of {len(lines)} tests"


def _parameters(lines: Sequence[TestLine]) -> Rows:
    rows = tuple((line.test.upper(), _state(line)) for line in lines)[:10]
    return (*rows, *[("", "")] * (10 - len(rows)))


def _state(line: TestLine) -> str:
    """Return the outcome of a test in a word or two."""
    if line.ending != "finished":
        return NOT_RUN if line.ending == NOT_RUN else f"INCOMPLETE ({line.ending})"
    if not line.requires_steady_state:
        return "complete"
    return "steady state" if line.steady else NOT_ACHIEVED


def build(summary: Overview) -> Report:
    """Return the summary as a report of one page, with links to the tests' reports."""
    return Report(
        title=f"Summary of All Tests: {summary.dut}",
        author=summary.author,
        dated=max((line.finished for line in summary.lines), default=""),
        header=summary.header,
        pages=(Page(title="Summary of All Tests", blocks=tuple(_blocks(summary)), flows=True),),
    )


def _blocks(summary: Overview) -> Iterator[Block]:
    yield from _statements(summary)
    measured = OF_ROUNDS if summary.standard else OF_REPEATS
    yield from limit_blocks(summary.limits, f"{measured} {summary.limits_source}", tests=True)
    virtual = VIRTUAL * summary.simulated
    columns = (
        Column(heading="Test", width=20),
        Column(heading="Verdict", width=34),
        Column(heading="PTS conformant", width=15),
        Column(heading=f"Duration{virtual}", width=11),
        Column(heading="Written", align="right", width=11),
        Column(heading="Drive fills", align="right", width=9),
    )
    lines = tuple(_row(summary, line) for line in summary.lines)
    yield Table(kind="texts", columns=columns, rows=lines, title="Tests")
    yield from _deviations(summary)
    yield from _key_figures(summary)
    yield from _figures(summary)
    yield from _conditions_and_reports(summary)
    written = sum(line.written_bytes for line in summary.lines)
    fills = thousands(summary.fills(written), 2)
    prefix = next((line.lower_bound_prefix for line in summary.lines if line.lower_bound_prefix), "")
    amount = f"{prefix}{capacity(written)}, {fills} x user capacity"
    seconds = [line.seconds for line in summary.lines if line.seconds is not None]
    rows = (
        ("Duration", f"{_hours(sum(seconds))}{virtual}" if seconds else UNKNOWN),
        ("Data written, all tests", amount if math.isfinite(written) else "not reported"),
        ("User capacity", _capacity(summary)),
        *([("Report id", _identity(summary.journals))] if summary.journals else []),
    )
    yield facts(rows, title="All tests together")
    if summary.sign_off:
        yield sign_off_table(summary.author, summary.sign_off)
        yield signed_report(summary_id(summary.journals), _statements(summary), summary.limits)


def _statements(summary: Overview) -> Iterator[Prose]:
    """Yield whether a drive was tested, the outcome of all tests, and whether they are PTS conformant."""
    yield from summary.no_drive
    good = summary.finished and all(line.achieved for line in summary.lines)
    steady = all(line.steady for line in summary.lines)
    yield Prose(text=summary.verdict, kind=verdict_kind(achieved=good, steady=steady))
    conformant = all(line.conformance == "yes" for line in summary.lines)
    if not summary.standard:
        yield Prose(text="Workload profiles, not PTS tests", kind="lead")
    elif conformant and not good:
        yield Prose(text="No deviation in any test, but steady state was not achieved in all", kind="bad")
    else:
        text = "PTS conformant: no deviation in any test" if conformant else _conformance(summary.lines)
        yield Prose(text=text, kind="good" if conformant else "bad")


def _key_figures(summary: Overview) -> Iterator[Block]:
    """Yield the table of key figures, one a row, with the name of the test in the first, and their explanations."""
    columns = (Column(heading="Test", width=26), Column(heading="Key figure", width=74))
    rows = tuple(
        ("" if number else line.title, figure)
        for line in summary.lines
        for number, figure in enumerate(line.key_figures)
    )
    if rows:
        yield Table(kind="texts", columns=columns, rows=rows, title="Key figures")
    notes = [*dict.fromkeys(term for line in summary.lines for term in line.terms), summary.stated_note]
    if text := " ".join(filter(None, notes)):
        yield Prose(text=text)


def _identity(journals: Mapping[str, str]) -> str:
    """Return the id of the summary, and how a reader can check it."""
    command = f"{shlex.join(['sha256sum', *journals])} | sha256sum"
    return (
        f"{summary_id(journals)}. To check it, run this command in the folder of the summary; the first {ID_DIGITS} "
        f"digits of its output are the report id: {command}"
    )


def _figures(summary: Overview) -> Iterator[Figure]:
    """Yield the figure of all tests with tracked variables."""
    from .figures.axes import is_wide  # loads the libraries that draw
    from .figures.dashboard import Tracked, draw_panels, panels_height

    shown = [
        Tracked(heading=line.convergence.name, lines=line.convergence, styles=line.styles)
        for line in summary.lines
        if line.convergence
    ]
    if shown:
        without = [line.title for line in summary.lines if not line.convergence and line.ending == "finished"]
        text = "Tracked variables over the rounds of each test, in percent of the average of the shaded window"
        text += f" (none in {' and '.join(without)})" if without else ""
        bounds = "; ".join(dict.fromkeys("dashed: {}, dotted: {}".format(*panel.lines.bounds) for panel in shown))
        unsteady = [panel.heading for panel in shown if not panel.lines.steady]
        last = f", or the last window where it is not steady ({' and '.join(unsteady)})" if unsteady else ""
        wide = [
            panel.heading
            for panel in shown
            if is_wide(
                [*panel.lines.bounds.values(), *(v for one in panel.lines.series.values() for v in one.values())]
            )
        ]
        log = f" Log scale: {', '.join(wide)}." if wide else ""
        shaded = f"Shaded: the measurement window{last}."
        yield Figure(
            name="convergence",
            caption=f"{text}. {bounds.capitalize()}, for orientation. {shaded} Each plot has its own "
            f"scale, which need not start at zero.{log}",
            alt=f"Small line plots: {text[0].lower()}{text[1:]}.",
            draw=partial(draw_panels, shown),
            height=panels_height(shown),
        )


def _conditions_and_reports(summary: Overview) -> Iterator[Table]:
    """Yield the table of what may have affected each test, and of the links to its reports."""
    shown = dict.fromkeys(name for line in summary.lines for name in line.conditions)
    present = {path.rpartition(".")[2] for line in summary.lines for path in line.reports}
    linked = [name for name in _LINKED if name in present] or sorted({"rst"} & present)
    columns = (
        Column(heading="Test", width=20),
        *(Column(heading=name, width=15) for name in shown),
        *(Column(heading=f"Report ({name.upper()})", width=20) for name in linked),
    )
    rows = tuple(
        (
            line.title,
            *(line.conditions.get(name, UNKNOWN) for name in shown),
            *(_report_in(line, name) or UNKNOWN for name in linked),
        )
        for line in summary.lines
    )
    title = f"{'Conditions, warnings' if len(shown) > 1 else 'Warnings'} and reports"
    yield Table(kind="texts", columns=columns, rows=rows, title=title)


def _report_in(line: TestLine, page_format: str) -> Link | None:
    """Return the link to a test's report in a format; None if it does not exist."""
    return next((Link(path) for path in line.reports if path.endswith(f".{page_format}")), None)


def _capacity(summary: Overview) -> str:
    size = summary.capacity_bytes
    return f"{capacity(size)} ({thousands(size, 0)} bytes)" if size else ""


def _deviations(summary: Overview) -> Iterator[Prose]:
    """Yield a sentence with the name of each deviation, and the tests that have it; none without deviations."""
    measured = [line for line in summary.lines if line.ending != NOT_RUN]
    tests: dict[str, list[str]] = {}
    for line in measured:
        for what in dict.fromkeys(line.deviations):
            tests.setdefault(what, []).append(line.title)
    if tests:
        texts = "; ".join(
            f"{what} ({'all tests' if len(found) == len(measured) > 1 else ', '.join(found)})"
            for what, found in tests.items()
        )
        yield Prose(text=f"Deviations: {texts}. Details are in the reports of the tests.")


def _hours(seconds: float) -> str:
    """Return a time in hours and minutes, also above 100 hours, so that it can be compared with others."""
    return duration(seconds) if seconds < 3600 else "{} h {:02} min".format(*divmod(round(seconds / 60), 60))


def _row(summary: Overview, line: TestLine) -> tuple[str, ...]:
    """Return the row of a test."""
    written, fills = UNKNOWN, UNKNOWN
    if line.ending != NOT_RUN:
        written = line.lower_bound_prefix + capacity(line.written_bytes)
        fills = thousands(summary.fills(line.written_bytes), 2)
    outcome = f"{line.verdict} ({line.windows})" if line.windows else line.verdict
    return line.title, outcome, line.conformance, line.duration, written, fills


def write(summary: Overview, folder: Path, formats: Sequence[str] = DEFAULT_FORMATS) -> dict[str, Path]:
    """Write the summary into ``folder`` (summary.pdf and so on); return the files by format.

    Data formats are ignored: only the tests' own reports have them.  Raises ReportError.
    """
    pages = tuple(name for name in formats if name in OUTPUTS)
    files: dict[str, bytes] = {}
    for name in pages:
        files |= render(build(summary), (name,), stem="summary")
    replace_files(folder, files)
    return {name: folder / f"summary.{name}" for name in pages}
