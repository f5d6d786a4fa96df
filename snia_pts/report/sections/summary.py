"""The first page of every report: the verdict, the deviations from the standard, and the key figures."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...analysis.disturbances import longest_io_sentence
from ...analysis.window import Window
from ...model.annotations import SignOff
from ...model.dut import Dut
from ...results.limit_checks import Judgement, judgements, limit_digits
from ...results.result import Loop, Sampling, TestResult
from ...results.tables import label
from ...results.tracked_series import sample_times, span
from ...results.warnings import run_warnings
from ...spec import (
    Deviation,
    OperatorSetting,
    SampledSteadyStateRule,
    Spec,
    TestClass,
    default_of,
    loop_rule,
    max_rounds,
    settling_rule,
)
from ...spec.limits import Limit
from ...spec.reader import format_range, format_value, operator_range
from ...units import capacity, counted, distinct_decimals, duration, number
from ..checksums import report_id
from ..header import VIRTUAL, stated_note, user_capacity, window_rounds
from ..pages import Block, Page, Prose, ProseKind
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, decimals_for, facts, thousands
from .host_share import verdict_counts
from .logo import logo
from .provenance import given_options
from .rounds_written import rounds_written

#: The heading of the margins of limits.
MARGIN = "Margin with tolerance (%)"
#: A sentence on the measured values of points that have limits.
_OF_POINTS = "Measured at points: IOPS and MB/s are means of {}; response times are those of all its I/Os."
#: The sentence if the rounds are not known.
OF_ROUNDS = _OF_POINTS.format("the rounds of the measurement window")
OF_REPEATS = "Measured at points: IOPS and MB/s are means of all repeats; response times are those of all I/Os."


def summary(result: TestResult, *, omitted: str = "", figures: Iterable[Block] = ()) -> Page:
    """Return the summary: ``figures`` are the test's own key figures, ``omitted`` names the figures without data."""
    return Page(title="Summary", blocks=tuple(_blocks(result, omitted, figures)), flows=True, summary=True)


def _blocks(result: TestResult, omitted: str, figures: Iterable[Block]) -> Iterator[Block]:
    if image := logo(result.facts.about):
        yield image
    yield from statements(result)
    yield from limit_blocks(judgements(result), f"{_measured(result)} {limits_source(result)}")
    if result.ending != "finished":
        detail = (result.ending_detail or "reason unknown").rstrip(".")
        yield Prose(text=f"The run did not finish ({result.ending}): {detail}.", kind="lead")
    if omitted:
        yield Prose(text=omitted, kind="lead")
    if result.deviations:
        yield deviations_table(result)
    if result.facts.settings:
        run = result.facts
        yield differences_table(run.spec, run.test_class, run.settings, "Setting", "Operator settings")
    if warnings := tuple(warning_rows(result)):
        columns = (Column(heading="Warning", width=30), Column(heading="Detail", width=70))
        yield Table(kind="texts", columns=columns, rows=warnings, title="Warnings")
    if result.facts.about.notes:
        notes = tuple((note,) for note in result.facts.about.notes)
        yield Table(kind="texts", columns=(Column(width=100),), rows=notes, title="Operator's notes", headed=False)
    if note := stated_note(result):
        yield Prose(text=note)
    yield from figures
    yield _run_facts(result)
    if sign_off := result.facts.about.sign_off:
        yield sign_off_table(result.facts.about.operator, sign_off)
        yield signed_report(report_id(result), statements(result), judgements(result))


def warning_rows(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the title and the detail of each warning.

    That of stalls also has a sentence on its limits, and one on the longest I/O of the run, for which readers take the
    longest stall.
    """
    for warning in run_warnings(result):
        detail = warning.detail
        if warning.what == "stall":
            longest = longest_io_sentence(list(result.measurements))
            detail += f". These limits are of this suite and change no result. {longest}".rstrip()
        yield warning.title, detail


def statements(result: TestResult) -> Iterator[Prose]:
    """Yield whether a drive was tested, the verdict with its windows, and whether the run is PTS conformant."""
    yield from no_drive([result.facts.dut])
    if result.facts.imported is not None:
        files = "files" if result.facts.imported.more_files else "file"
        text = f"IMPORTED: measured by {result.facts.imported.label}; this report evaluates the numbers in its {files}."
        yield Prose(text=text, kind="lead")
    yield Prose(text=verdict(result), kind=verdict_kind(achieved=result.achieved, steady=result.steady_so_far))
    yield from _page_cache(result)
    if windows := window_spans(result):
        yield Prose(text=windows, kind="lead")
    yield _conformance(result)


def _page_cache(result: TestResult) -> Iterator[Prose]:
    """Yield a statement if points used the page cache of the host, as only those of a profile can."""
    cached = {point.stimulus.label: point.stimulus.cached for loop in result.loops for point in loop.measurements}
    if count := sum(cached.values()):
        some = "" if count == len(cached) else f"{count} of {counted(len(cached), 'point')} "
        yield Prose(text=f"{some}THROUGH THE PAGE CACHE: not figures of a drive", kind="bad")


def no_drive(duts: Iterable[Dut]) -> Iterator[Prose]:
    """Yield a statement on each kind of device under test that is not a drive."""
    for text in dict.fromkeys(_no_drive(dut) for dut in duts):
        if text:
            yield Prose(text=text, kind="bad")


def _no_drive(dut: Dut) -> str:
    """Return what was tested instead of a drive; empty for a drive, and for a device built on drives."""
    if dut.simulated:
        return "SIMULATED: no drive was tested. All numbers come from a model."
    is_memory = dut.model.startswith(("virtual device ram", "virtual device zram"))
    noun = "RAM DISK" if is_memory else {"file": "FILE", "loop device": "LOOP DEVICE"}.get(dut.kind)
    return f"A {noun} WAS TESTED, NOT A DRIVE" if noun else ""


def sign_off_table(operator: str, sign_off: SignOff) -> Table:
    """Return the block for signatures."""
    headings = {"": 16, "Name": 34, "Date": 18, "Signature": 32}
    roles = (("Tested by", operator), ("Approved by", sign_off.approved_by), ("Auditor", sign_off.auditor))
    columns = tuple(Column(heading=heading, width=width) for heading, width in headings.items())
    rows = tuple((role, name, "", "") for role, name in roles)
    return Table(kind="sign-off", columns=columns, rows=rows, title="Sign-off")


def signed_report(identity: str, stated: Iterable[Prose], limits: Sequence[Judgement]) -> Prose:
    """Return what is signed: the report with this id, the statements at its top, and the verdict on its limits."""
    verdicts = (*stated, limits_verdict(limits)) if limits else stated
    texts = ". ".join(statement.text.rstrip(".") for statement in verdicts)
    return Prose(text=f"Signed: the report{f' {identity}' * bool(identity)}. {texts}.")


def limit_blocks(limits: Sequence[Judgement], note: str, *, tests: bool = False) -> Iterator[Block]:
    """Yield the verdict on all limits, and the table of them; with a column for the test if ``tests``.

    ``note`` has sentences on the measured values and on the source of the limits.
    """
    if not limits:
        return
    yield limits_verdict(limits)
    columns = (
        *((Column(heading="Test", width=9),) if tests else ()),
        Column(heading="Limit on", width=18),
        Column(heading="Limit", width=16),
        Column(heading="With tolerance", width=17),
        Column(heading="Measured", align="right", width=14),
        Column(heading=MARGIN, align="right", width=12),
        Column(heading="Verdict", width=23),
    )
    rows = tuple(
        (
            *((judgement.limit.test,) if tests else ()),
            f"{label(judgement.limit.metric)} at {judgement.limit.at}",
            *_bounds_texts(judgement.limit, judgement.value),
            NOT_APPLICABLE if judgement.value is None else value_text(judgement.limit, judgement.value),
            margin_text(judgement),
            "met" if judgement.met else f"NOT MET: {judgement.shown_reason}",
        )
        for judgement in limits
    )
    yield Table(kind="texts", columns=columns, rows=rows, title="Limits")
    margin = "the distance to the nearest limit with tolerance, in percent of that limit; negative outside of it"
    yield Prose(text=f"{note} Margin: {margin}.".lstrip())


def _measured(result: TestResult) -> str:
    """Return the sentence on the measured values of points; empty for a test without points."""
    if result.facts.spec.rounds_are_repeats:
        return OF_REPEATS
    if not loop_rule(result.facts.spec):
        return ""
    spans = {_span(loop) for loop in result.loops if loop.steady}
    return _OF_POINTS.format(f"{spans.pop()}, the measurement window") if len(spans) == 1 else OF_ROUNDS


def limits_source(result: TestResult) -> str:
    """Return a sentence on where the limits of a result come from."""
    run = result.facts
    if result.limits_source:
        return f"Limits: {result.limits_source}, given for this report."
    names = ["the profile"] if run.spec.own_limits else []
    names += [Path(path).name for _, path in given_options(run.command_line, "--limits")]
    return f"Limits: {' and '.join(names)}{', ' * bool(names)}as stored in the journal of the run."


def limits_verdict(limits: Sequence[Judgement]) -> Prose:
    """Return the verdict on all limits."""
    missed = sum(not judgement.met for judgement in limits)
    if missed:
        return Prose(text=f"Limits: {missed} of {len(limits)} NOT MET", kind="bad")
    return Prose(text=f"Limits: all {len(limits)} met", kind="good")


def margin_text(judgement: Judgement) -> str:
    """Return the margin of a measured value within its limit, in percent; ``n/a`` if it has none."""
    margin = judgement.margin_percent
    return NOT_APPLICABLE if margin is None else f"{margin:+.{distinct_decimals(abs(margin), 0.0, least=1)}f}"


def limit_text(limit: Limit, value: float | None = None) -> str:
    """Return the bounds of a limit: ``at least 50 000 IOPS (47 500 with 5 % tolerance)``.

    They have enough digits to differ from each other and from the measured ``value``.
    """
    digits, tolerance = limit_digits(limit, value), f"{limit.tolerance_percent:g} % tolerance"
    bounds = (("at least", limit.minimum, limit.lower_bound), ("at most", limit.maximum, limit.upper_bound))
    return " and ".join(
        f"{words} {number(bound, digits=digits)} {limit.unit}"
        + (f" ({number(effective, digits=digits)} with {tolerance})" if limit.tolerance_percent else "")
        for words, bound, effective in bounds
        if bound is not None
    )


def _bounds_texts(limit: Limit, value: float | None) -> tuple[str, str]:
    """Return the bounds, and those with the tolerance: ``at least 50 000 IOPS`` and ``at least 47 500 (5 %)``."""
    digits = limit_digits(limit, value)
    both = (("at least", limit.minimum, limit.lower_bound), ("at most", limit.maximum, limit.upper_bound))
    bounds = [(words, bound, effective) for words, bound, effective in both if bound is not None]
    plain = " and ".join(f"{words} {number(bound, digits=digits)} {limit.unit}" for words, bound, _ in bounds)
    tolerant = " and ".join(f"{words} {number(effective, digits=digits)}" for words, _, effective in bounds)
    return plain, f"{tolerant} ({limit.tolerance_percent:g} %)" if limit.tolerance_percent else "no tolerance"


def value_text(limit: Limit, value: float) -> str:
    """Return a measured value with enough digits to differ from the bounds of its limit."""
    return f"{number(value, digits=limit_digits(limit, value))} {limit.unit}"


def verdict(result: TestResult) -> str:
    """Return the verdict, with its rounds if there is one window: ``STEADY STATE in rounds 5 - 9``."""
    evaluated = list(_evaluated(result))
    achieved_otherwise = result.achieved and not result.steady_so_far
    if result.ending != "finished" or achieved_otherwise or len(evaluated) != 1 or evaluated[0][1].window is None:
        return result.verdict
    name, part = evaluated[0]
    if not result.steady_so_far:
        return f"{result.verdict} (last window: {_span(part)})"
    return f"{result.verdict} in {'preconditioning ' * (name == 'Preconditioning')}{_span(part)}"


def window_spans(result: TestResult) -> str:
    """Return the windows of a test that has several, with their parts; empty if the verdict has the only one."""
    evaluated = list(_evaluated(result))
    if len(evaluated) < 2:
        return ""
    return "; ".join(f"{name}: {_span(part)}{_not_achieved_mark(part.window)}" for name, part in evaluated)


def verdict_kind(*, achieved: bool, steady: bool) -> ProseKind:
    """Return the style of a verdict: neutral for a complete test that does not require the steady state it missed."""
    if not achieved:
        return "bad"
    return "good" if steady else "neutral"


def _evaluated(result: TestResult) -> Iterator[tuple[str, Loop | Sampling]]:
    """Yield each loop or sampling whose steady state was evaluated, with its name, in the order they ran."""
    if result.sampling is not None:
        yield "Preconditioning" if result.sampling.phase == "PC" else "Stimulus", result.sampling
    for loop in result.loops if loop_rule(result.facts.spec) else ():
        yield loop.part or "Test loop", loop


def _span(part: Loop | Sampling) -> str:
    return f"rounds {span(part.window.numbers, sample_times(part))}" if part.window else "no window"


def _not_achieved_mark(window: Window | None) -> str:
    return "" if window is not None and window.steady else ", NOT ACHIEVED"


def _conformance(result: TestResult) -> Prose:
    revision = result.facts.spec.revision
    if not result.facts.spec.is_standard:
        count, authority = len(result.deviations), result.facts.spec.authority
        text = f"{counted(count, 'deviation') if count else 'No deviation'} from {authority}"
        return Prose(text=text, kind="bad" if result.deviations else "good")
    if not result.conformant:
        return Prose(text=f"NOT PTS conformant: {shortcomings(result)}", kind="bad")
    if not result.achieved:
        return Prose(text=f"No deviation from {revision}, but steady state was not achieved", kind="bad")
    return Prose(text=f"PTS conformant: no deviation from {revision}", kind="good")


def shortcomings(result: TestResult) -> str:
    """Return why a run is not PTS conformant; empty if it is."""
    count = len(result.deviations)
    reasons = [] if result.facts.spec.is_standard else ["not a PTS test"]
    reasons += [f"{count} deviation{'s' * (count != 1)}"] if count else []
    reasons += ["the run did not finish"] if result.ending != "finished" else []
    return ", ".join(reasons)


def deviations_table(result: TestResult) -> Table:
    """Return the table of deviations from the standard, or from another specification, with their clauses."""
    spec, authority = result.facts.spec, result.facts.spec.authority
    title = f"Deviations from {authority}"
    return differences_table(spec, result.facts.test_class, result.deviations, "Deviation", title, authority)


def differences_table(
    spec: Spec,
    test_class: TestClass,
    differences: Sequence[Deviation | OperatorSetting],
    heading: str,
    title: str,
    authority: str = "the standard",
) -> Table:
    """Return the table of a specification's ``differences`` from an authority: required and actual values, clause."""
    columns = (
        Column(heading=heading, width=28),
        Column(heading=f"Required by {authority}", width=26),
        Column(heading="This run", width=27),
        Column(heading="Clause", width=19),
    )
    required = (
        _required(spec, test_class, item)
        if default_of(item, authority) == authority
        else f"{default_of(item)}: {item.standard}"
        for item in differences
    )
    rows = tuple((item.what, text, item.actual, item.clause) for item, text in zip(differences, required, strict=True))
    return Table(kind="texts", columns=columns, rows=rows, title=title)


def _required(spec: Spec, test_class: TestClass, item: Deviation | OperatorSetting) -> str:
    """Return the required value or range, without the most rounds, which are the suite's and not the standard's."""
    bounds = operator_range(spec, test_class, item.what)
    if bounds is None:
        return item.standard
    if item.what.endswith(".maximum"):
        return f"{format_value(bounds[0], item.what)}, or more until steady state"
    return format_range(bounds, item.what)


def _run_facts(result: TestResult) -> Table:
    spec, dut, seconds = result.facts.spec, result.facts.dut, elapsed_seconds(result)
    fills = dut.fills(result.written_bytes)
    fills_text = thousands(fills, decimals_for([fills], digits=4, most=2))
    idle = sum(interruption.idle_seconds for interruption in result.interruptions)
    stops = counted(len(result.interruptions), "interruption")
    rows = (
        (spec.authority.removeprefix("the ").capitalize(), f"{spec.revision} ({spec.publication})"),
        *_windows(result),
        ("Duration", UNKNOWN if seconds is None else f"{duration(seconds)}{VIRTUAL * dut.simulated}"),
        *((("Interrupted", f"{stops}, {duration(idle)} of the duration"),) if result.interruptions else ()),
        (
            "Data written, whole run",
            _amount(result, result.written_bytes, f", {fills_text} x user capacity{_discarded(result)}"),
        ),
        *_written_in_rounds(result),
        ("Data read", _amount(result, result.read_bytes)),
        *_repeated(result),
        ("User capacity", user_capacity(dut, exact=True)),
        *conditions(result),
    )
    return facts(rows, title="The run", label_width=32)


def conditions(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the range of the drive's temperatures and power, and how many points the host limited.

    A simulated run has only those that its model has; an imported run has none.
    """
    if result.facts.imported:
        return
    points = [point.telemetry for point in result.measurements if point.telemetry]
    celsius = [*(point.celsius for point in points), *(value for line in result.time_lines for value in line.celsius)]
    watts = [*(point.watts for point in points), *(value for line in result.time_lines for value in line.watts)]
    real = not result.facts.dut.simulated
    if (temperatures := _range(celsius, 0)) or real:
        unit = " \N{DEGREE SIGN}C" if temperatures else ""
        yield "Drive temperature during measurements", f"{temperatures or 'not reported'}{unit}"
    if power := _range(watts, 1):
        yield "Power during measurements", f"{power} W"
    if real:
        yield "Host or drive?", verdict_counts(result)


def _range(values: Iterable[float | None], decimals: int) -> str:
    """Return the lowest and the highest known value; empty if none is known."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return f"{min(known):.{decimals}f} to {max(known):.{decimals}f}" if known else ""


def _repeated(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the number of measurements that were repeated with more passes, if there are any."""
    if count := sum(len(loop.too_short) for loop in result.loops):
        yield "Repeated with more passes", f"{counted(count, 'measurement')}, too short before; data included above"


def _discarded(result: TestResult) -> str:
    discarded_bytes = sum(interruption.discarded_bytes for interruption in result.interruptions)
    return f"; plus {capacity(discarded_bytes)} in discarded measurements" if discarded_bytes else ""


def _written_in_rounds(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield what the rounds of each loop wrote up to the end of its window."""
    for loop in result.loops:
        rounds, amount = rounds_written(result, loop)
        if amount:
            yield f"Data written, {rounds}{f', {loop.part}' * (len(result.loops) > 1)}", amount


def _amount(result: TestResult, amount_bytes: float, suffix: str = "") -> str:
    if not math.isfinite(amount_bytes):
        return "not reported"
    return f"{lower_bound_prefix(result)}{capacity(amount_bytes)}{suffix}"


def _windows(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the rows on windows and rounds: two for each loop or sampling whose steady state was evaluated."""
    evaluated = list(_evaluated(result))
    for name, part in evaluated:
        suffix = f", {name}" if len(evaluated) > 1 else ""
        yield f"{'Window' if suffix else 'Measurement window'} (rounds){suffix}", window_rounds(result, part)
        if isinstance(part, Loop):
            incomplete = len(part.rounds) - len(part.complete)
            rounds = f"{len(part.complete)} complete{f', {incomplete} incomplete' if incomplete else ''}"
            yield f"Rounds run{suffix}", f"{rounds} (at most {max_rounds(result.facts.spec)})"
        else:
            rule = settling_rule(result.facts.spec)
            yield f"Rounds evaluated{suffix}", f"{len(part.rounds)}{_spacing(rule) if rule else ''}"
    if not evaluated and (loop_rule(result.facts.spec) or settling_rule(result.facts.spec)):
        yield "Measurement window (rounds)", window_rounds(result, None)


def _spacing(rule: SampledSteadyStateRule) -> str:
    """Return which samples of a continuous stimulus are its rounds."""
    sample, stride = rule.sample_seconds, rule.stride_samples * rule.sample_seconds
    return f" (one sample of {duration(sample)} every {duration(stride)})"


def lower_bound_prefix(result: TestResult) -> str:
    """Return ``at least`` for a run that was interrupted or stopped: it wrote more, which was not counted."""
    return "at least " if result.interruptions or result.ending != "finished" else ""


def elapsed_seconds(result: TestResult) -> float | None:
    """Return the time from the run's start to its end; None if unknown."""
    try:
        first, last = (datetime.datetime.fromisoformat(text) for text in (result.facts.started, result.finished))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError):
        return None
