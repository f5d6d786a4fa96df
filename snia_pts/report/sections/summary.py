"""The first page of every report: the verdict, what differs from the standard, and the figures most asked for."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence

from ...analysis.window import Window
from ...results.limit_checks import Judgement, judgements
from ...results.result import Loop, Sampling, TestResult
from ...results.warnings import run_warnings
from ...spec import Deviation, OperatorSetting, ProfileSpec, default_of, loop_rule, max_rounds, settling_rule
from ...spec.limits import Limit
from ...units import GB, counted, distinct_digits, duration, number
from ..header import minutes_of, user_capacity, window_rounds
from ..pages import Block, Page, Prose
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands
from .logo import logo

SIMULATED = Prose(text="SIMULATED: no drive was tested. These are the numbers of a model.", kind="bad")


def summary(result: TestResult, *, left_out: str = "", figures: Iterable[Block] = ()) -> Page:
    """Return the summary: ``figures`` are the test's own key figures, ``left_out`` tells what there are no data for."""
    return Page(title="Summary", blocks=tuple(_blocks(result, left_out, figures)), flows=True)


def _blocks(result: TestResult, left_out: str, figures: Iterable[Block]) -> Iterator[Block]:
    if drawn := logo(result.facts.about):
        yield drawn
    if result.facts.dut.simulated:
        yield SIMULATED
    if result.facts.imported is not None:
        text = f"IMPORTED: measured by {result.facts.imported.label}; what is judged here are the numbers of its file."
        yield Prose(text=text, kind="lead")
    yield Prose(text=verdict(result), kind="good" if result.achieved else "bad")
    found = list(_judged(result))
    if len(found) > 1:
        yield Prose(text="; ".join(f"{name}: {_span(each)}{_mark(each.window)}" for name, each in found), kind="lead")
    yield _conformance(result)
    yield from limits_told(judgements(result))
    if result.ending != "finished":
        detail = (result.ending_detail or "no more is known").rstrip(".")
        yield Prose(text=f"The run did not finish ({result.ending}): {detail}.", kind="lead")
    if left_out:
        yield Prose(text=left_out, kind="lead")
    if result.deviations:
        yield deviations_table(result)
    if result.facts.settings:
        yield differences_table(result.facts.settings, "Setting", "Settings that the operator may choose")
    if run_warnings(result):
        columns = (Column(heading="Warning", width=30), Column(heading="Detail", width=70))
        rows = tuple((warning.what, warning.detail) for warning in run_warnings(result))
        yield Table(kind="texts", columns=columns, rows=rows, title="Warnings")
    if result.facts.about.notes:
        notes = tuple((note,) for note in result.facts.about.notes)
        yield Table(kind="texts", columns=(Column(width=100),), rows=notes, title="Notes of the operator", headed=False)
    yield from figures
    yield _course(result)


def limits_told(found: Sequence[Judgement], *, tests: bool = False) -> Iterator[Block]:
    """Give the limits that were asked for, and what became of each; with their ``tests`` where there are several."""
    if not found:
        return
    met = sum(each.met for each in found)
    good = met == len(found)
    yield Prose(
        text=f"Limits: all {met} met" if good else f"Limits: {len(found) - met} of {len(found)} NOT MET",
        kind="good" if good else "bad",
    )
    columns = (
        *((Column(heading="Test", width=12),) if tests else ()),
        Column(heading="Limit on", width=34),
        Column(heading="Asked", width=26),
        Column(heading="Measured", align="right", width=14),
        Column(heading="Verdict", width=26),
    )
    rows = tuple(
        (
            *((each.limit.test,) if tests else ()),
            each.limit.name,
            limit_text(each.limit, each.value),
            NOT_APPLICABLE if each.value is None else value_text(each.limit, each.value),
            "met" if each.met else f"NOT MET: {each.reason}",
        )
        for each in found
    )
    yield Table(kind="texts", columns=columns, rows=rows, title="Limits")


def limit_text(limit: Limit, value: float | None = None) -> str:
    """Return the bounds of a limit: ``at least 50 000 IOPS (47 500 with 5 % tolerance)``.

    They have as many digits as tell them apart from each other and from the measured ``value``.
    """
    digits, tolerance = _digits(limit, value), f"{limit.tolerance_percent:g} % tolerance"
    bounds = (("at least", limit.minimum, limit.lower_bound), ("at most", limit.maximum, limit.upper_bound))
    return " and ".join(
        f"{words} {number(bound, digits=digits)} {limit.unit}"
        + (f" ({number(effective, digits=digits)} with {tolerance})" if limit.tolerance_percent else "")
        for words, bound, effective in bounds
        if bound is not None
    )


def value_text(limit: Limit, value: float) -> str:
    """Return a measured value with as many digits as tell it apart from the bounds of its limit."""
    return f"{number(value, digits=_digits(limit, value))} {limit.unit}"


def _digits(limit: Limit, value: float | None) -> int:
    numbers = (limit.minimum, limit.lower_bound, limit.maximum, limit.upper_bound, value)
    return distinct_digits(each for each in numbers if each is not None)


def verdict(result: TestResult) -> str:
    """Return the verdict, with its rounds where there is one window: ``STEADY STATE in rounds 5 - 9``."""
    found = list(_judged(result))
    ended_otherwise = result.achieved and not result.steady
    if result.ending != "finished" or ended_otherwise or len(found) != 1 or found[0][1].window is None:
        return result.verdict
    name, judged = found[0]
    if not result.steady:
        return f"{result.verdict} (last window: {_span(judged)})"
    return f"{result.verdict} in {'preconditioning ' * (name == 'Preconditioning')}{_span(judged)}"


def _judged(result: TestResult) -> Iterator[tuple[str, Loop | Sampling]]:
    """Give everything whose steady state was judged, by its name, in the order it ran."""
    if result.sampling is not None:
        yield "Preconditioning" if result.sampling.phase == "PC" else "Stimulus", result.sampling
    for loop in result.loops if loop_rule(result.facts.spec) else ():
        yield loop.part or "Test loop", loop


def _span(judged: Loop | Sampling) -> str:
    window, minutes = judged.window, minutes_of(judged)
    if window is None:
        return "no window"
    first, last = window.numbers[0], window.numbers[-1]
    return f"rounds {first} - {last}" + (f" (minutes {minutes[first]:.4g} - {minutes[last]:.4g})" if minutes else "")


def _mark(window: Window | None) -> str:
    return "" if window is not None and window.steady else ", NOT ACHIEVED"


def _conformance(result: TestResult) -> Prose:
    revision = result.facts.spec.revision
    if isinstance(result.facts.spec, ProfileSpec):
        told = f"Otherwise than the profile: {counted(len(result.deviations), 'deviation')}"
        text = told if result.deviations else "As the profile has it: no deviation"
        return Prose(text=text, kind="bad" if result.deviations else "good")
    if not result.conformant:
        return Prose(text=f"NOT PTS conformant: {shortcomings(result)}", kind="bad")
    if not result.achieved:
        return Prose(text=f"No deviation from {revision}, but steady state was not achieved", kind="bad")
    return Prose(text=f"PTS conformant: no deviation from {revision}", kind="good")


def shortcomings(result: TestResult) -> str:
    """Tell why a run is not PTS conformant; empty where it is."""
    count = len(result.deviations)
    reasons = ["no test of the standard"] if isinstance(result.facts.spec, ProfileSpec) else []
    reasons += [f"{count} deviation{'s' * (count != 1)}"] if count else []
    reasons += ["the run did not finish"] if result.ending != "finished" else []
    return ", ".join(reasons)


def deviations_table(result: TestResult) -> Table:
    """Return every difference from the standard, or from a profile, with its clause."""
    authority = result.facts.spec.authority
    return differences_table(result.deviations, "Deviation", f"Deviations from {authority}", authority)


def differences_table(
    found: Sequence[Deviation | OperatorSetting], heading: str, title: str, authority: str = "the standard"
) -> Table:
    """Return what differs from an authority, with its clause."""
    columns = (
        Column(heading=heading, width=28),
        Column(heading=f"{authority[:1].upper()}{authority[1:]} asks", width=26),
        Column(heading="What was done", width=27),
        Column(heading="Clause", width=19),
    )
    asked = (
        each.standard if default_of(each, authority) == authority else f"{default_of(each)}: {each.standard}"
        for each in found
    )
    rows = tuple((each.what, words, each.actual, each.clause) for each, words in zip(found, asked, strict=True))
    return Table(kind="texts", columns=columns, rows=rows, title=title)


def _course(result: TestResult) -> Table:
    spec, dut, seconds = result.facts.spec, result.facts.dut, elapsed_seconds(result)
    fills = thousands(dut.fills(result.written_bytes), 2)
    idle = sum(interruption.idle_seconds for interruption in result.interruptions)
    stops = counted(len(result.interruptions), "interruption")
    rows = (
        ("Profile" if isinstance(spec, ProfileSpec) else "Standard", f"{spec.revision} ({spec.publication})"),
        *_windows(result),
        ("Duration", UNKNOWN if seconds is None else f"{duration(seconds)}{' (virtual)' * dut.simulated}"),
        *((("Interrupted", f"{stops}, {duration(idle)} of the duration"),) if result.interruptions else ()),
        (
            "Data written, whole run",
            _amount(result, result.written_bytes, f", {fills} x user capacity{_set_aside(result)}"),
        ),
        ("Data read", _amount(result, result.read_bytes)),
        ("User capacity", user_capacity(dut, exact=True)),
    )
    return facts(rows, title="The run", label_width=32)


def _set_aside(result: TestResult) -> str:
    lost = sum(interruption.discarded_bytes for interruption in result.interruptions)
    return f"; besides {number(lost / GB)} GB that were set aside" if lost else ""


def _amount(result: TestResult, amount_bytes: float, behind: str = "") -> str:
    if not math.isfinite(amount_bytes):
        return "not told"
    return f"{least(result)}{number(amount_bytes / GB)} GB{behind}"


def _windows(result: TestResult) -> Iterator[tuple[str, str]]:
    """Give the rows about windows and rounds: a pair for everything whose steady state is judged."""
    found = list(_judged(result))
    for name, judged in found:
        behind = f", {name}" if len(found) > 1 else ""
        yield (
            f"{'Window' if behind else 'Measurement window'} (rounds){behind}",
            window_rounds(result, judged.window, minutes_of(judged)),
        )
        if isinstance(judged, Loop):
            partly = len(judged.rounds) - len(judged.complete)
            ran = f"{len(judged.complete)} complete{f', {partly} not complete' if partly else ''}"
            yield f"Rounds run{behind}", f"{ran} (at most {max_rounds(result.facts.spec)})"
        else:
            yield f"Samples judged{behind}", str(len(judged.rounds))
    if not found and (loop_rule(result.facts.spec) or settling_rule(result.facts.spec)):
        yield "Measurement window (rounds)", window_rounds(result, None)


def least(result: TestResult) -> str:
    """Return what stands before the bytes of a run that was stopped: it wrote more, which was not counted."""
    return "at least " if result.interruptions or result.ending != "finished" else ""


def elapsed_seconds(result: TestResult) -> float | None:
    """Return the time from the run's start to its end; None where that is not known."""
    try:
        first, last = (datetime.datetime.fromisoformat(text) for text in (result.facts.started, result.finished))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError):
        return None
