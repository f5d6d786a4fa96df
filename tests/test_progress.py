"""Progress: a rewritten line on a terminal, plain whole lines anywhere else."""

import io
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.text.progress import Progress, choose_mode
from snia_pts.errors import Interrupted
from snia_pts.model.attempt import RejectedAttempt
from snia_pts.model.dut import AssumedSpeed
from snia_pts.model.measurement import Measurement, Outcome
from snia_pts.model.steps import Round, Step
from snia_pts.procedures.estimator import Assumptions, plan
from snia_pts.record.folder import RunFolder
from snia_pts.runner.events import Event, OutcomeRecorded, RunResumed, StepStarted
from snia_pts.runner.session import run
from snia_pts.spec import Spec
from snia_pts.spec.reader import read_specification
from snia_pts.units import duration
from tests import profiles, samples

Overrides = Sequence[tuple[str, Any]]
NINE_ROUNDS: Overrides = [("rounds.maximum", 9)]
#: A Friday: the day on which the tests begin.
NOON = datetime(2026, 1, 30, 12)


class Screen(io.StringIO):
    """A stream whose isatty() is true."""

    def isatty(self) -> bool:
        return True


def new_progress(spec: Spec, mode: str, stream: io.StringIO, now: list[float]) -> Progress:
    """Return the progress of a test that began at noon, and whose clock shows ``now``."""
    planned = plan(spec, samples.dut(), Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25))
    return Progress(spec, planned, mode, stream, clock=lambda: now[0], now=lambda: NOON + timedelta(seconds=now[0]))


def run_output(
    folder: RunFolder,
    mode: str,
    test: str = "iops",
    overrides: Overrides = NINE_ROUNDS,
    *,
    seconds: float = 60.0,
    **options: Any,
) -> str:
    """Return the progress output of a complete run whose outcomes take ``seconds`` each."""
    spec = read_specification(test, "2.0.2", "enterprise", overrides=overrides).spec
    return spec_output(spec, folder, mode, seconds, **options)


def spec_output(spec: Spec, folder: RunFolder, mode: str, seconds: float, **options: Any) -> str:
    """Return the progress output of a complete run of a specification."""
    facts = samples.run_facts(spec)
    answers, _ = samples.answers(spec, facts.dut, **options)
    now, stream, remaining = [0.0], io.StringIO(), iter(answers)
    progress = new_progress(spec, mode, stream, now)

    def perform(step: Step) -> Any:
        expected_step, outcomes = next(remaining)
        assert expected_step == step
        for outcome in outcomes:
            progress.tick(seconds / 2, 10**9)
            now[0] += seconds
            yield outcome

    progress.begin()
    run(facts, perform, folder, progress.on_event)
    progress.close()
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A new run folder, whose journal does not wait for the disk."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    return RunFolder.create(tmp_path / "run")


def test_a_log_is_plain_lines(folder: RunFolder) -> None:
    """Without a terminal there is no carriage return or escape, and every round is a line with its excursions."""
    text = run_output(folder, "log", rounds=6)

    assert "\r" not in text
    assert "\x1b" not in text
    assert text.endswith("\n")
    lines = text.splitlines()
    rounds = [line.partition("] ")[2] for line in lines if "of at most" in line]
    assert [line.partition(":")[0] for line in rounds] == [f"round {number} of at most 9" for number in range(1, 7)]
    assert "IOPS 4 KiB 0/100" in rounds[0]
    assert "steady: IOPS 4 KiB 0/100 data" in lines[-1]


def test_the_plan_is_printed_first(folder: RunFolder) -> None:
    """The first line has the planned shortest and longest duration of the test."""
    assert (
        "planned: 5 h 44 min to 9 h 28 min besides the purge, at 500 MB/s" in run_output(folder, "log").splitlines()[0]
    )


@pytest.mark.parametrize(("seconds", "stamp"), [(5.1e-05, "0 s"), (0.0777, "0.1 s"), (59.97, "1 min 00 s")])
def test_a_line_begins_with_the_elapsed_time_in_tenths_of_a_second(seconds: float, stamp: str) -> None:
    """A line right after the start has no time in scientific notation."""
    stream, now = io.StringIO(), [0.0]
    progress = new_progress(read_specification("iops", "2.0.2", "enterprise").spec, "log", stream, now)
    now[0] = seconds
    progress.say("text")
    assert stream.getvalue() == f"[{stamp}] text\n"


def test_a_log_has_a_heartbeat(folder: RunFolder) -> None:
    """Within a round, a line comes every five minutes and no more often."""
    beats = [line for line in run_output(folder, "log", rounds=6).splitlines() if "point" in line]

    assert 6 * 56 // 5 - 12 <= len(beats) <= 6 * 56 // 5
    assert "left" in beats[0]
    assert "RND" in beats[0]


def test_a_long_line_continues_after_a_word_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its continuation is further to the right; in a log it is one line."""
    monkeypatch.setenv("COLUMNS", "40")
    spec = read_specification("iops", "2.0.2", "enterprise").spec
    text = "round 1 of at most 25: not steady; IOPS 4 KiB 0/100"
    screen, log = Screen(), io.StringIO()
    new_progress(spec, "line", screen, [0.0]).say(text)
    new_progress(spec, "log", log, [0.0]).say(text)

    assert screen.getvalue().rpartition("\r")[2] == "[0 s] round 1 of at most 25: not steady;\n  IOPS 4 KiB 0/100\n"
    assert log.getvalue() == f"[0 s] {text}\n"


def test_a_terminal_line_is_rewritten_in_its_width(folder: RunFolder) -> None:
    """On a terminal one line is rewritten: it is never wider than the terminal, and the end leaves it clean."""
    text = run_output(folder, "line", rounds=6)

    rewritten = [line.rpartition("\r")[0] for line in text.split("\n")]
    assert all(len(part) <= 79 for line in rewritten for part in line.split("\r"))
    assert re.search(r"ends 16:\d\d to 20:\d\d: round 1/9 point 2/56 RND 128 KiB 100/0(;| \(last| *\r)", text)
    assert text.endswith("\r" + " " * 79 + "\r")


@pytest.mark.parametrize("mode", ["log", "line"])
def test_a_point_that_is_measured_again_is_a_line(mode: str) -> None:
    """The line has the step, the stimulus, and why the result of the first attempt was rejected."""
    spec = read_specification("iops", "2.0.2", "enterprise").spec
    steps = samples.answers(spec, samples.dut())[0]
    step, measured = next((step, next(iter(outcomes))) for step, outcomes in steps if isinstance(step, Round))
    assert isinstance(measured, Measurement)
    attempt = RejectedAttempt(reason="fio lost count", seconds=60.0, evidence="00007-x", evidence_sha256="")
    stream = io.StringIO()
    progress = new_progress(spec, mode, stream, [0.0])

    progress.on_event(StepStarted(step=step))
    progress.on_event(OutcomeRecorded(step=step, position=0, outcome=replace(measured, rejected=(attempt,))))
    progress.on_event(OutcomeRecorded(step=step, position=1, outcome=measured))

    assert stream.getvalue().count("was measured again") == 1
    assert f"{step.label}: {measured.stimulus.label} was measured again: fio lost count\n" in stream.getvalue()


def test_the_time_left_is_never_cut_on_a_narrow_terminal(folder: RunFolder) -> None:
    """Without a time of day, as of a simulated drive, the last result and the end of the point's name give way."""
    spec = read_specification("iops", "2.0.2", "enterprise").spec
    answers, now, stream = samples.answers(spec, samples.dut())[0], [0.0], io.StringIO()
    planned = plan(spec, samples.dut(), Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25))
    progress = Progress(spec, planned, "line", stream, clock=lambda: now[0], simulated=True)
    for step, outcomes in answers[2:4]:
        progress.on_event(StepStarted(step=step))
        for position, outcome in enumerate(outcomes):
            now[0] += 0.013
            progress.on_event(OutcomeRecorded(step=step, position=position, outcome=outcome))
    shown = [line.rstrip() for line in stream.getvalue().split("\r") if "point" in line][1:]
    complete = re.compile(r"/56 \S+ [0-9.]+ KiB \d+/\d+( \(last [^)]+ IOPS\))?; \d+ s( to \d+ s)? left( \||$)")
    assert len(shown) > 100
    assert [line for line in shown if not complete.search(line)] == []


def test_mode_none_prints_nothing(folder: RunFolder) -> None:
    """Mode none is silent."""
    assert run_output(folder, "none") == ""


def test_the_remaining_time_covers_the_remaining_rounds(folder: RunFolder) -> None:
    """With 60 s per point, 4 to 8 rounds of 56 min are left after the first round; the last round has no time left."""
    lines = [line for line in run_output(folder, "log", rounds=6).splitlines() if "of at most" in line]

    assert "3 h 44 min to 7 h 28 min left" in lines[0]
    assert "left" not in lines[-1]


def test_the_percentage_and_the_end_are_those_of_the_plan(folder: RunFolder) -> None:
    """They begin with the planned durations, and at the end of the run no time is left."""
    lines = run_output(folder, "log", rounds=6).splitlines()

    rounds = [line for line in lines if "of at most" in line]
    assert "; 21 % of the longest test, ends 16:42 to 20:26" in rounds[0]
    assert "of the longest test" not in rounds[-1], "the last round ends the test"


@pytest.mark.long
def test_the_minimum_remaining_time_includes_the_certain_round(folder: RunFolder) -> None:
    """After five rounds that are not steady, at least one more follows: the minimum is the time of a whole round."""
    text = run_output(folder, "log", steady=False)

    (line,) = [line for line in text.splitlines() if "round 5 of" in line]
    assert "56 min 00 s to 3 h 44 min left" in line


def test_parts_are_distinguished(folder: RunFolder) -> None:
    """Rounds and their time are counted separately for each part."""
    lines = run_output(folder, "log", "throughput", [("rounds.maximum", 6)]).splitlines()

    for part in ("1024 KiB", "128 KiB"):
        (first,) = [line for line in lines if f"] {part}: round 1 of at most 6: Throughput 0/100" in line]
        assert "MB/s; 8 min 00 s to 10 min 00 s left" in first
        assert any(f"] {part}: round 5 of at most 6: steady" in line for line in lines)


def test_samples_used_as_rounds_are_evaluated(folder: RunFolder) -> None:
    """A continuous stimulus prints a line for each sample used as a round: every half hour."""
    lines = run_output(folder, "log", "wsat", [("settling.stride_samples", 10)], steady=False).splitlines()

    rounds = [line for line in lines if "stimulus: round" in line]
    assert [line.partition("round ")[2].partition(":")[0] for line in rounds] == [str(n) for n in range(1, 37)]
    assert "not steady: IOPS data" in rounds[4]


@pytest.mark.long
def test_a_continuous_stimulus_prints_its_samples(folder: RunFolder) -> None:
    """On a terminal the line has the current sample, the IOPS of the last one, and the end of the test."""
    text = run_output(folder, "line", "xsr", [])

    assert "\r0 %, ends Sat 10:01: AG 1: stimulus SEQ 1024 KiB 0/100 sample 1/480  " in text
    assert "AG 3: stimulus SEQ 1024 KiB 0/100 sample 480/480; 0 s left" in text


def test_points_of_many_zones_have_no_lines_of_their_own(folder: RunFolder) -> None:
    """The 1152 points of a hard disk's zones are heartbeats in a log; the 36 of a curve are a line each."""
    zones = profiles.shipped("hdd-iops", axes=(("read_percent", (0,)), ("block_size", ("4K",))))
    lines = spec_output(zones, folder, "log", 60.0).splitlines()
    assert not any("IOPS" in line for line in lines)
    assert any("zone 30: step 30/128; 1 h 38 min left" in line for line in lines)
    assert len(lines) < 40


@pytest.mark.long
def test_thousands_of_steps_are_few_lines(folder: RunFolder) -> None:
    """A host idle recovery test prints fewer than 40 lines for a Wait State; heartbeats count its writes."""
    idle = [("wait_states.idle_seconds", [5, 10]), ("settling.stride_samples", 1)]
    lines = run_output(folder, "log", "hir", idle, seconds=5.0).splitlines()

    assert sum("Wait State 1" in line for line in lines) < 40
    assert any("Wait State 2: access A RND 4 KiB 0/100, 360 times ..." in line for line in lines)
    beats = [line for line in lines if "/360" in line]
    assert beats
    assert any("access C" in line and "IOPS" in line for line in lines)


def test_each_point_of_a_profile_is_a_line(folder: RunFolder) -> None:
    """Each line has the point, its time and its result."""
    text = spec_output(profiles.shipped("queue-depth", repeats=2), folder, "log", 60.0)
    points = [line.partition("] ")[2] for line in text.splitlines() if "random read, Q8" in line]

    assert [line.partition(":")[0] for line in points] == ["random read, Q8, time 1", "random read, Q8, time 2"]
    assert all(" IOPS, " in line and " MB/s, ART " in line for line in points)


def test_a_profile_prints_the_time_left(folder: RunFolder) -> None:
    """On a terminal the line has the current point, its step number, the number of steps, and the time left."""
    spec = profiles.shipped("queue-depth", repeats=1)
    assumptions = Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25)
    steps = plan(spec, samples.dut(), assumptions).shortest.steps
    text = spec_output(spec, folder, "line", steps[-1].seconds)
    shown = [line.strip() for line in text.split("\r") if "step" in line]

    assert f"step {len(steps)}/{len(steps)}; {duration(steps[-1].seconds)} left" in shown[-3]
    assert shown[-1].endswith("; 0 s left")


def test_times_of_a_profile_with_a_data_amount_are_lower_bounds(folder: RunFolder) -> None:
    """If a point ends after an amount of data, its duration is unknown: planned and remaining times are minimums."""
    spec, speed = profiles.shipped("etcd-fsync"), AssumedSpeed(read=9000, write=4000, minimum_write=500, source="")
    planned, stream = plan(spec, samples.dut(), Assumptions(speed=speed, overhead_seconds=0.25)), io.StringIO()
    Progress(spec, planned, "log", stream).begin()

    assert (
        "planned: 0.256 s to 0.296 s or more besides the purge, at 500 to 4\N{NARROW NO-BREAK SPACE}000 MB/s"
        in stream.getvalue()
    )
    shown = [line for line in spec_output(spec, folder, "line", 0.1).split("\r") if "step 2/2" in line]
    assert "; at least " in shown[0]


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth"])
def test_progress_of_every_test_is_printed(test: str, folder: RunFolder) -> None:
    """Every phase of every test is printed, in single lines."""
    overrides = [("wait_states.cycles", 3)] if test == "hir" else []
    lines = run_output(folder, "log", test, overrides).splitlines()

    assert all(line.startswith("[") for line in lines)
    assert any("Purge: " in line and "proven on 64 blocks" in line for line in lines)
    assert any("IOPS" in line or "MB/s" in line for line in lines[2:])


def test_a_stopped_stimulus_is_printed_up_to_its_last_sample(folder: RunFolder) -> None:
    """If a run stops in a continuous stimulus, the progress has its last sample."""
    spec = read_specification("wsat", "2.0.2", "enterprise").spec
    facts, now, stream = samples.run_facts(spec), [0.0], Screen()
    progress = new_progress(spec, "line", stream, now)
    answers = iter(samples.answers(spec, facts.dut)[0])

    def perform(_step: Step) -> Any:
        for number, outcome in enumerate(next(answers)[1]):
            if number == 50:
                raise KeyboardInterrupt
            yield outcome

    with pytest.raises(Interrupted):
        run(facts, perform, folder, progress.on_event)

    assert "sample 51/121" in stream.getvalue()


@pytest.mark.parametrize(("term", "mode"), [("xterm", "line"), ("dumb", "log"), ("", "log"), ("unknown", "log")])
def test_a_terminal_that_cannot_rewrite_gets_lines(term: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dumb or unknown terminal gets plain lines."""
    monkeypatch.setenv("TERM", term)

    assert choose_mode("auto", Screen()) == mode


def test_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe or file gets plain lines regardless of TERM; a requested mode is used."""
    monkeypatch.setenv("TERM", "xterm")

    assert choose_mode("auto", io.StringIO()) == "log"
    assert choose_mode("line", io.StringIO()) == "line"


def test_a_closed_output_does_not_stop_the_run(folder: RunFolder) -> None:
    """If the output is closed, progress stops printing and the run continues."""

    class ClosedPipe(io.StringIO):
        def write(self, _text: str, /) -> int:
            raise BrokenPipeError

    spec = read_specification("iops", "2.0.2", "enterprise", overrides=NINE_ROUNDS).spec
    facts, events, outcomes = samples.run_facts(spec), list[Event](), list[Outcome]()
    progress = new_progress(spec, "log", ClosedPipe(), [0.0])
    answers = iter(samples.answers(spec, facts.dut)[0])

    def emit(event: Event) -> None:
        events.append(event)
        progress.on_event(event)

    def perform(_step: Step) -> Any:
        for outcome in next(answers)[1]:
            outcomes.append(outcome)
            yield outcome

    run(facts, perform, folder, emit)
    progress.close()

    assert len(events) > len(outcomes) > 5 * 56


@pytest.mark.parametrize("simulated", [True, False])
def test_the_planned_time_of_a_simulated_drive_is_virtual(simulated: bool) -> None:
    """The planned time is marked as virtual for a simulated drive, and only for one."""
    spec, stream = read_specification("iops", "2.0.2", "enterprise").spec, io.StringIO()
    planned = plan(spec, samples.dut(), Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25))
    Progress(spec, planned, "log", stream, simulated=simulated).begin()
    assert ("of virtual time" in stream.getvalue()) == simulated


def test_a_resumed_run_prints_only_new_steps() -> None:
    """Replayed steps are not printed again; the time left is that of a complete window."""
    spec = read_specification("iops", "2.0.2", "enterprise", overrides=NINE_ROUNDS).spec
    answers, _ = samples.answers(spec, samples.dut(), rounds=9)
    now, stream = [0.0], io.StringIO()
    planned = plan(spec, samples.dut(), Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25))
    progress = Progress(spec, planned, "log", stream, clock=lambda: now[0], resumed=True)
    selected = [(step, outcome) for step, outcomes in answers for outcome in outcomes]
    rounds = [index for index, (step, _) in enumerate(selected) if isinstance(step, Round)]
    stopped = rounds[0] + len(answers[2][1]) + 3  # in the second round

    progress.begin()
    previous = None
    for index, (step, outcome) in enumerate(selected[: stopped + len(answers[2][1])]):
        if step is not previous:
            progress.on_event(StepStarted(step=step))
            previous = step
        if index == stopped:
            assert stream.getvalue() == ""
            progress.on_event(RunResumed())
        now[0] += 60.0 if index >= stopped else 0.0
        progress.on_event(OutcomeRecorded(step=step, position=0, outcome=outcome))
    progress.tick(1.0, 0)
    now[0] += 301
    progress.tick(301.0, 0)

    *_, output = stream.getvalue().splitlines()
    assert "round 3/9" in output
    points = len(answers[2][1])
    assert f"{duration((7 * points - (points + 3 + points)) * (60 * points + 301) / points)} to " in output
