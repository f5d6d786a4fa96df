"""A result is built from the steps and outcomes of a complete or a stopped run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.disturbances import longest_io_sentence
from snia_pts.model.attempt import RejectedAttempt
from snia_pts.model.measurement import Measurement, Outcome, PurgeOutcome, Sample
from snia_pts.model.steps import ContinuousStimulus, Step, Stimulus
from snia_pts.procedures.sampled_steady_state import SaturationEnd
from snia_pts.report.sections.summary import warning_rows
from snia_pts.results.builder import ResultBuilder, fold
from snia_pts.results.result import Ending, Gap, RunWarning, TestResult
from snia_pts.results.warnings import run_warnings
from snia_pts.spec import Deviation, TestClass
from tests import samples
from tests.procedure_runs import (
    Behaviour,
    ProcedureRun,
    ScriptedDrive,
    brief,
    constant,
    noisy,
    run_procedure,
    unsteady,
    whole_runs,
)
from tests.strategies import EVERY, PURGED, dut, measurement, spec_of, stimulus

SHORTENED = Deviation(what="rounds.point_seconds", standard="60", actual="1", clause="x")
UNPROVEN = Deviation(what="purge", standard="purged", actual="not proven", clause="x")
ENDLESS = 10**18
ENDINGS: tuple[Ending, ...] = ("interrupted", "device failed", "host failed", "unfinished")
which = pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)


@cache
def iops_course(iops: Behaviour = constant) -> ProcedureRun:
    return run_procedure(spec_of("iops"), iops=iops)


def iops_result(**changes: Any) -> TestResult:
    """Return the result of a steady IOPS run, with other facts."""
    return iops_course().result(**changes)


# -- whole runs ------------------------------------------------------------------------------------------------------


def unsteady_parts(test: str, pts: str, test_class: TestClass) -> tuple[str, ...]:
    """Return the parts of a test that are not steady on a drive that never is."""
    sizes = ("1024 KiB",) if (pts, test_class) == ("1.1", "client") else ("1024 KiB", "128 KiB")
    return {
        "iops": ("test loop",),
        "latency": ("test loop",),
        "throughput": sizes,
        "hir": ("preconditioning",),
        "dirth": ("test loop", "preconditioning"),
        "composite": ("test loop", "preconditioning"),
    }.get(test, ())


@which
def test_steady_run(test: str, pts: str, test_class: TestClass) -> None:
    """A constant drive is steady at the first window of each part."""
    result = run_procedure(brief(spec_of(test, pts, test_class)), dut(capacity_bytes=ENDLESS)).result()
    verdict = "COMPLETE (this test does not require steady state)" if test == "xsr" else "STEADY STATE"

    early = "fills of the ActiveRange" if result.sampling else ""
    assert result.verdict.startswith(verdict)
    assert early in result.verdict
    assert early or result.verdict == verdict
    assert (result.unsteady, result.steady_so_far) == ((), True)
    assert result.steady is (None if test == "xsr" else True)
    assert result.achieved
    assert all(loop.window is not None and loop.window.numbers == (1, 2, 3, 4, 5) for loop in result.loops)
    assert (result.sampling is not None) == (test in ("wsat", "hir", "dirth", "composite"))


@which
def test_a_run_that_is_never_steady(test: str, pts: str, test_class: TestClass) -> None:
    """A finished run without steady state has all 25 rounds, the last five as window, and names unsteady parts."""
    result = run_procedure(brief(spec_of(test, pts, test_class)), dut(capacity_bytes=ENDLESS), unsteady).result()
    parts = unsteady_parts(test, pts, test_class)
    where = f" ({', '.join(parts)})" if parts != ("test loop",) else ""
    hours = "6 h 00 min" if pts == "2.0.2" else "24 h 00 min"
    verdict = {
        "xsr": "COMPLETE (this test does not require steady state)",
        "wsat": f"COMPLETE: {hours} elapsed, steady state NOT ACHIEVED",
    }.get(test, f"STEADY STATE NOT ACHIEVED{where}")

    assert (result.verdict, result.unsteady) == (verdict, parts)
    assert result.steady is (None if test == "xsr" else False)
    assert result.achieved == (test in ("xsr", "wsat"))
    for loop in result.loops:
        assert [measured.number for measured in loop.rounds] == list(range(1, 26))
        assert [measured.number for measured in loop.window_rounds] == [21, 22, 23, 24, 25]


@which
@pytest.mark.parametrize("iops", [constant, unsteady])
def test_conformance_does_not_depend_on_steady_state(
    test: str, pts: str, test_class: TestClass, iops: Behaviour
) -> None:
    """A finished run without deviations is conformant, steady or not."""
    assert run_procedure(brief(spec_of(test, pts, test_class)), iops=iops).result().conformant


def test_parts_of_a_complete_run() -> None:
    """A finished run has its purge, its preconditioning, its rounds and its window."""
    result = iops_result()
    loop, wipc = result.loop(), result.time_line("WIPC")

    assert [purged.label for _, purged in result.purges] == ["supposed (proven on 4 blocks)"]
    assert wipc is not None
    assert wipc.stimulus.access == "SEQ"
    assert loop is not None
    assert [measured.number for measured in loop.complete] == [1, 2, 3, 4, 5]
    assert result.sampling is None
    assert result.loop("128 KiB") is None
    assert result.time_line("histogram") is None


def test_window_is_the_procedure_s() -> None:
    """The result built from the outcomes has the window at which the procedure stopped."""
    for device in (dut(capacity_bytes=ENDLESS), dut(capacity_bytes=10**10)):
        for iops in (constant, unsteady, noisy(1, 0.15)):
            run = run_procedure(spec_of("wsat"), device, iops)
            sampling = run.result().sampling
            assert isinstance(run.conclusion, SaturationEnd)
            assert (sampling.window if sampling else None) == run.conclusion.window


@pytest.mark.parametrize("altered", ["steady_state.data_excursion_percent", "settling.stride_samples"])
def test_steady_by_other_rules_is_marked(altered: str) -> None:
    """If the rule's numbers are not the standard's, the verdict says so, steady or not."""
    other = Deviation(what=altered, standard="20", actual="50", clause="x")

    assert iops_result(deviations=(other,)).verdict == "STEADY STATE BY ALTERED RULES"
    assert iops_course(unsteady).result(deviations=(other,)).verdict == "STEADY STATE NOT ACHIEVED BY ALTERED RULES"
    assert iops_result(deviations=(SHORTENED,)).verdict == "STEADY STATE"


# -- runs that did not finish ----------------------------------------------------------------------------------------


def written_bytes(steps: Sequence[tuple[Step, Sequence[Outcome]]]) -> int:
    """Return the bytes written, from the totals, and from the samples of a stimulus without a total."""
    total = 0
    for _, outcomes in steps:
        wholes = [outcome for outcome in outcomes if isinstance(outcome, Measurement)]
        cut = [item for item in outcomes if isinstance(item, Sample)]
        total += sum(whole_value.write.transferred_bytes for whole_value in wholes) or sum(
            part.write_bytes for part in cut
        )
    return total


behaviours = st.builds(noisy, st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.12])) | st.just(unsteady)


@pytest.mark.long
@whole_runs
@given(st.sampled_from(EVERY), behaviours, st.floats(0, 1), st.sampled_from(ENDINGS), st.sampled_from([10**9, ENDLESS]))
def test_any_beginning_of_a_run_is_a_result(
    entry: tuple[str, str, TestClass], iops: Behaviour, share: float, ending: Ending, capacity_bytes: int
) -> None:
    """A run stopped after any number of outcomes has a result, which is INCOMPLETE and has the written bytes."""
    run = run_procedure(brief(spec_of(*entry)), dut(capacity_bytes=capacity_bytes), iops)
    outcomes = round(share * sum(len(item) for _, item in run.performed))
    result = run.result(ending, outcomes)

    assert result.verdict == f"INCOMPLETE ({ending})"
    assert not result.conformant
    assert not result.achieved
    assert result.written_bytes == written_bytes(list(beginning(run, outcomes)))
    assert result.read_bytes >= 0
    assert result.steady is (None if entry[0] == "xsr" else False)
    assert set(result.unsteady) <= {"test loop", "preconditioning", "1024 KiB", "128 KiB"}
    assert len(list(result.measurements)) <= len(run.measurements)
    assert {warning.what for warning in run_warnings(result)} <= {"stall"}


def beginning(run: ProcedureRun, outcomes: int) -> Iterator[tuple[Step, Sequence[Outcome]]]:
    """Yield the first outcomes of a run, with their steps."""
    for step, item in run.performed:
        yield step, item[:outcomes]
        outcomes = max(0, outcomes - len(item))


@pytest.mark.long
@whole_runs
@given(st.sampled_from(EVERY), behaviours)
def test_written_bytes_of_a_complete_run(entry: tuple[str, str, TestClass], iops: Behaviour) -> None:
    """All writes since the first purge count once: preconditioning, loops, continuous stimuli and histograms."""
    run = run_procedure(brief(spec_of(*entry)), iops=iops)
    result = run.result()

    assert result.written_bytes == sum(item.write.transferred_bytes for item in run.measurements)
    assert result.read_bytes == sum(item.read.transferred_bytes for item in run.measurements)
    assert sorted(id(item) for item in result.measurements) == sorted(id(item) for item in run.measurements)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_that_did_not_finish(ending: Ending) -> None:
    """A run that ended early gives the reason, keeps its window, and is neither steady nor conformant."""
    result = iops_course().result(ending)

    assert result.verdict == f"INCOMPLETE ({ending})"
    assert result.steady is False
    assert result.steady_so_far
    assert not result.conformant


@pytest.mark.parametrize("done", [1, 30, 55])
def test_a_partial_round_is_kept_but_not_evaluated(done: int) -> None:
    """The measurements of a partial round are kept, marked as incomplete, and belong to no window."""
    result = iops_course(unsteady).result("interrupted", outcomes=2 + 6 * 56 + done)
    loop = result.loop()

    assert loop is not None
    assert [measured.complete for measured in loop.rounds] == [True] * 6 + [False]
    assert len(loop.rounds[-1].measurements) == done
    assert loop.window is not None
    assert loop.window.numbers == (2, 3, 4, 5, 6)


@pytest.mark.parametrize("rounds", range(5))
def test_a_run_without_a_window(rounds: int) -> None:
    """A run that stopped before its fifth round has no window and is not steady."""
    result = iops_course().result("interrupted", outcomes=2 + rounds * 56)
    loop = result.loop()

    assert len(loop.rounds if loop else ()) == rounds
    assert loop is None or (loop.window is None and loop.window_rounds == ())
    assert result.unsteady == ("test loop",)


@pytest.mark.parametrize("test", ["throughput", "dirth"])
def test_every_part_must_be_steady(test: str) -> None:
    """A run that is steady in one part and was stopped before another is not steady."""
    run = run_procedure(brief(spec_of(test)))
    first = next(place for place, (step, _) in enumerate(run.performed) if step.kind == "round" and step.number == 5)
    outcomes = sum(len(item) for _, item in run.performed[: first + (test == "throughput")])

    assert run.result("interrupted", outcomes).unsteady == ("128 KiB" if test == "throughput" else "test loop",)
    assert not run.result("interrupted", outcomes).steady


def test_a_step_without_an_outcome() -> None:
    """A purge or preconditioning without an outcome is not in the result."""
    (purge, _), (wipc, _) = iops_course().performed[:2]
    facts = samples.run_facts(spec_of("iops"))
    result = fold(facts, [(purge, ()), (wipc, ())], ending="interrupted", ending_detail="", finished="")
    line = result.time_line("WIPC")

    assert result.purges == ()
    assert line is not None
    assert (len(line), line.complete) == (0, False)
    assert result.written_bytes == 0


# -- samples that stand for rounds -----------------------------------------------------------------------------------


@pytest.mark.long
@given(
    st.sampled_from([("wsat", "stimulus"), ("hir", "PC"), ("dirth", "PC")]),
    st.lists(st.integers(1, 200), min_size=1, max_size=6),
)
def test_samples_used_as_rounds_are_counted_over_all_continuous_stimuli(
    which_phase: tuple[str, Any], lengths: list[int]
) -> None:
    """However a stimulus is divided, its minutes 1, 31, 61, ... are the rounds, and no others."""
    test, phase = which_phase
    folding, drive = ResultBuilder(samples.run_facts(spec_of(test))), ScriptedDrive(lambda step, item, number: number)
    for minutes in lengths:
        step = ContinuousStimulus(phase=phase, stimulus=stimulus(seconds=60.0 * minutes), sample_seconds=60)
        folding.add(step, drive(step))
    sampling = folding.result(ending="unfinished", ending_detail="", finished="").sampling

    assert sampling is not None
    assert [entry.minute for entry in sampling.rounds] == list(range(1, sum(lengths) + 1, 30))
    assert [item.sample.iops for item in sampling.rounds] == [item.minute for item in sampling.rounds]
    assert (sampling.window is None) == (len(sampling.rounds) < 5)


def test_a_long_stimulus_has_all_its_samples_and_rounds() -> None:
    """5000 minutes are 5000 samples, of which 167 are used as rounds."""
    folding, drive = ResultBuilder(samples.run_facts(spec_of("wsat"))), ScriptedDrive(lambda step, item, number: number)
    step = ContinuousStimulus(phase="stimulus", stimulus=stimulus(seconds=5000 * 60.0), sample_seconds=60)
    folding.add(step, drive(step))
    result = folding.result(ending="unfinished", ending_detail="", finished="")
    line, sampling = result.time_line("stimulus"), result.sampling

    assert line is not None
    assert sampling is not None
    assert len(line) == 5000
    assert [entry.sample.iops for entry in sampling.rounds] == list(range(1, 5001, 30))


def test_other_phases_have_no_rounds() -> None:
    """Samples of pre-writes, of the return to baseline, and of histograms are not used as rounds."""
    for test in ("hir", "dirth", "wsat"):
        run = run_procedure(brief(spec_of(test)), dut(capacity_bytes=ENDLESS))
        sampling = run.result().sampling
        assert sampling is not None
        assert (sampling.phase, len(sampling.rounds)) == ("stimulus" if test == "wsat" else "PC", 5)


def test_a_stopped_continuous_stimulus_keeps_its_samples() -> None:
    """Its samples are in the time line, and those used as rounds are evaluated."""
    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=ENDLESS))
    result = run.result("interrupted", outcomes=1 + 70)
    line = result.time_line("stimulus")

    assert line is not None
    assert (len(line), line.complete) == (70, False)
    assert result.sampling is not None
    assert [item.minute for item in result.sampling.rounds] == [1, 31, 61]
    assert result.written_bytes == 70 * 60 * 1000 * 4096


# -- deviations ------------------------------------------------------------------------------------------------------


def test_every_deviation_prevents_conformance() -> None:
    """Deviations known at the start and those of a purge are all in the result, once, in that order."""
    unproven = PurgeOutcome(
        method="none", samples=0, survivors=0, started="", seconds=0, evidence="", deviations=(UNPROVEN,)
    )
    run = run_procedure(spec_of("throughput"))
    texts_by_subject = tuple(
        (step, (unproven,) if step.kind == "purge" else outcomes) for step, outcomes in run.performed
    )
    with_purges = replace(run, performed=texts_by_subject)

    assert not iops_result(deviations=(SHORTENED,)).conformant
    assert not with_purges.result().conformant
    assert with_purges.result(deviations=(SHORTENED,)).deviations == (SHORTENED, UNPROVEN)
    assert unproven.label == "not purged"
    assert replace(PURGED, samples=0).label == "supposed (not proven)"


# -- warnings --------------------------------------------------------------------------------------------------------


def test_warnings_do_not_prevent_conformance() -> None:
    """A warning is in the result, which is still conformant."""
    warning = RunWarning(what="idle gap", detail="300 ms")
    result = iops_result(warnings=(warning,))

    assert run_warnings(result)[0] == warning
    assert result.conformant


def texts_by_subject(result: TestResult) -> dict[str, str]:
    """Return the texts of a result's warnings by subject."""
    return {warning.what: warning.detail for warning in run_warnings(result)}


def with_first_point(run: ProcedureRun, **changes: Any) -> TestResult:
    """Return the result of a run with changes of its first measurement."""
    step, (first, *others) = run.performed[2]
    return replace(
        run,
        performed=(
            *run.performed[:2],
            (step, (replace(first, **changes), *others)),
            *run.performed[3:],
        ),
    ).result()


def test_disturbances_have_warnings() -> None:
    """A long pause, a point that took too long, and one with another mix have warnings; an undisturbed run has none."""
    run = iops_course()
    point = run.measurements[1]
    late_clock = replace(point.timing, idle_gap_ms=12_006.0, suite_gap_us=1.0)

    assert run_warnings(iops_result()) == ()
    assert run_warnings(with_first_point(run, write=replace(point.read, ios=1))) == ()
    assert "for up to 12 s" in texts_by_subject(with_first_point(run, timing=late_clock))["pause"]
    assert (
        "1.50 times"
        in texts_by_subject(with_first_point(run, read=replace(point.read, runtime_ms=90_000)))["point duration"]
    )
    assert (
        "1 min 30 s instead of 1 min 00 s"
        in texts_by_subject(with_first_point(run, read=replace(point.read, runtime_ms=90_000)))["point duration"]
    )
    stalled = texts_by_subject(with_first_point(run, read=replace(point.read, response_max_ns=5_000_000_000)))
    assert f"up to 5 s, in {point.stimulus.label}" in stalled["stall"]
    assert RunWarning(what="stall", detail="").title == "long I/Os"
    assert point.stimulus.label in texts_by_subject(with_first_point(run, write=point.read))["R/W mix"]
    rejected = RejectedAttempt(reason="count lost", seconds=60.1, evidence="00007-x", evidence_sha256="0" * 64)
    again = texts_by_subject(with_first_point(run, rejected=(rejected,)))["remeasured"]
    assert all(words in again for words in ("00007-x", "count lost", "1 min 00 s"))
    assert "last 4 I/Os" in texts_by_subject(with_first_point(run, uncounted_ios=4))["uncounted I/Os"]


def test_the_longest_io_is_named_beside_stalls() -> None:
    """An I/O of a slow point is longer than the longest stall, but less than 30 times the average of its point."""
    point = next(found for found in iops_result().measurements if found.read.ios and found.write.ios)
    stalled = replace(point, read=replace(point.read, response_max_ns=5_000_000_000))
    means = {side: replace(getattr(point, side), response_mean_ns=1e9) for side in ("read", "write")}
    slow = replace(point, **means, evidence="00009-slow")
    slow = replace(slow, write=replace(slow.write, response_max_ns=9_000_000_000))
    expected = (
        f"The longest I/O of the run, 9 s in {point.stimulus.label} {point.stimulus.demand.label} (00009-slow), is not "
        "counted: it took at most 30 times the average there."
    )
    assert longest_io_sentence([stalled, slow]) == longest_io_sentence([slow, stalled]) == expected
    assert longest_io_sentence([point, stalled]) == longest_io_sentence([slow]) == ""
    loop = iops_result().loops[0]
    first, *others = loop.rounds
    rounds = (replace(first, measurements=(stalled, slow, *first.measurements[2:])), *others)
    warned = dict(warning_rows(replace(iops_result(), loops=(replace(loop, rounds=rounds),))))
    limits = re.escape("These limits are of this suite and change no result.")
    assert re.fullmatch(rf"in 1 of .* up to 5 s, in .*\. {limits} {re.escape(expected)}", warned["long I/Os"])


def test_a_requested_pause_has_no_warning() -> None:
    """The idle times of host idle recovery are kept as gaps with their request, and have no warning."""
    run = run_procedure(brief(spec_of("hir")), dut(capacity_bytes=10**9))
    waited: list[tuple[Step, tuple[Outcome, ...]]] = []
    for (before, _), (step, outcomes) in zip(run.performed, run.performed[1:], strict=False):
        whole = outcomes[-1]
        if isinstance(whole, Measurement):
            idle_ms = 1000 * before.seconds + 60 if before.kind == "idle" else 60
            clock = replace(whole.timing, idle_gap_ms=idle_ms, suite_gap_us=900.0)
            waited.append((step, (*outcomes[:-1], replace(whole, timing=clock))))
        else:
            waited.append((step, outcomes))
    result = replace(run, performed=(run.performed[0], *waited)).result()
    gaps = [gap for gap in result.gaps if gap.requested_seconds is not None]

    assert [gap.requested_seconds for gap in gaps] == [item for item in (5, 10, 15, 25, 50) for _ in range(2)]
    assert gaps[0] == Gap(part="Wait State 1", requested_seconds=5, idle_ms=5060, suite_us=900)
    assert "pause" not in texts_by_subject(result)


def test_the_gap_after_a_purge_is_not_kept() -> None:
    """The time between a purge and the first stimulus belongs to the purge, and is no pause."""
    clock = replace(measurement().timing, idle_gap_ms=60_000.0, suite_gap_us=1.0)
    (purge, purged), (step, outcomes), *rest = run_procedure(spec_of("wsat")).performed
    whole = outcomes[-1]
    assert isinstance(whole, Measurement)
    changed = (purge, purged), (step, (*outcomes[:-1], replace(whole, timing=clock))), *rest
    result = replace(run_procedure(spec_of("wsat")), performed=changed).result()

    assert result.gaps == ()


@pytest.mark.parametrize("test", ["wsat", "hir", "dirth", "composite"])
@pytest.mark.parametrize(("fills", "words"), [(0.5, "0.50 fills"), (1.001, "1.00 fills"), (1.999, "1.99"), (2.01, "")])
def test_the_verdict_says_how_little_was_written(test: str, fills: float, words: str) -> None:
    """If the steady state was found before the ActiveRange was written twice, the verdict says so."""
    spec = brief(spec_of(test))
    block = run_procedure(spec).continuous_stimuli()[0].stimulus.largest_block_bytes
    result = run_procedure(spec, dut(capacity_bytes=int(121 * 60 * 1000 * block / fills))).result()

    assert result.steady
    assert ("fills of the ActiveRange" in result.verdict) == bool(words)
    assert words in result.verdict


@pytest.mark.parametrize(
    ("share", "words"), [(1.0, "0.5 x"), (0.9, "0.4500 of 0.5 x"), (0.999_99, "0.4999 of 0.5 x"), (1.1, "0.5 x")]
)
def test_the_amount_at_the_end_is_not_more_than_was_written(share: float, words: str) -> None:
    """A mix writes slightly less than its amount: the text says so, however little is missing."""
    run = run_procedure(
        spec_of("wsat", saturation__capacities=0.5, saturation__until_steady=False), dut(capacity_bytes=2**30)
    )
    result = replace(run, device=dut(capacity_bytes=round(2**30 / share))).result()

    assert result.verdict.startswith(f"COMPLETE: {words} user capacity written")


@pytest.mark.parametrize(("fills", "minutes"), [(1.001, 121), (0.999, 151), (0.51, 241)])
def test_steady_state_waits_until_the_range_was_written(fills: float, minutes: int) -> None:
    """A constant drive is not steady before it has written the ActiveRange once: the next sample decides again."""
    capacity_bytes = int(121 * 60 * 1000 * 4096 / fills)
    run = run_procedure(spec_of("wsat", settling__minimum_fills=1.0), dut(capacity_bytes=capacity_bytes))
    (line,) = run.result().lines("stimulus")

    assert (len(line), run.result().steady) == (minutes, True)


def test_25_samples_end_it_if_the_range_was_not_written() -> None:
    """A constant drive that cannot be written once in 25 samples ends them without steady state."""
    device = dut(capacity_bytes=ENDLESS)
    result = run_procedure(brief(spec_of("hir", settling__minimum_fills=1.0)), device).result()

    assert result.sampling is not None
    assert len(result.sampling.rounds) == 25
    assert result.sampling.window is not None
    assert result.sampling.window.all_steady
    assert not result.steady
    assert result.verdict.startswith("STEADY STATE NOT ACHIEVED (preconditioning)")
    assert "at least 1 are required" in result.verdict


def test_latency_depends_on_its_tracked_variables_only() -> None:
    """The result finds a variable by its key: a neighbour that varies does not make it unsteady."""

    def response_us(step: Step, request: Stimulus, number: int) -> float:
        return 10 * number**3 if request.label == "RND 8 KiB 0/100" else 100

    assert run_procedure(spec_of("latency"), response_us=response_us).result().verdict == "STEADY STATE"
