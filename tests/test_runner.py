"""The runner: it journals each outcome before it starts the next stimulus, so that a stopped run keeps its outcomes."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import run_reported
from snia_pts.errors import DeviceFailed, HostFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError
from snia_pts.model.health import Health
from snia_pts.model.measurement import Outcome
from snia_pts.model.steps import Step
from snia_pts.record.document import parse
from snia_pts.record.entries import OutcomeEntry, StartEntry, StepEntry
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import Journal
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.replay import assess, inspect_run, store
from snia_pts.record.result_xml import differences, result_xml
from snia_pts.results.result import RunFacts, TestResult
from snia_pts.runner.events import Event, OutcomeRecorded, RoundEvaluated, StepStarted
from snia_pts.runner.session import resume, run
from snia_pts.runner.signals import stopped_by_signals
from snia_pts.spec.reader import read_specification
from tests import samples
from tests.procedure_runs import answered

SPECIFICATION = read_specification(
    "iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 6), ("rounds.read_percents", [100, 65, 0])]
)
FACTS = samples.run_facts(SPECIFICATION.spec, found=SPECIFICATION.deviations)
ANSWERS = samples.answers(SPECIFICATION.spec, FACTS.dut, rounds=5)[0]
OUTCOMES = sum(len(outcomes) for _, outcomes in ANSWERS)
#: Overrides for short tests that have every kind of step.
SHORT: Mapping[str, Sequence[tuple[str, Any]]] = {
    "hir": [("settling.stride_samples", 1), ("wait_states.cycles", 2), ("wait_states.access_c_seconds", 20)],
    "wsat": [("settling.stride_samples", 2), ("saturation.seconds", 1200)],
    "dirth": [
        ("settling.stride_samples", 1),
        ("demand.thread_counts", [32, 1]),
        ("demand.queue_depths", [32, 1]),
        ("operating_points.pre_write_seconds", 120),
    ],
}


def perform_from(
    fail: Callable[[int], BaseException | None] = lambda _: None,
    answers: Sequence[tuple[Step, tuple[Outcome, ...]]] = ANSWERS,
) -> Callable[[Step], Iterator[Outcome]]:
    """Return a function that yields the prepared outcomes; ``fail(n)`` may return an error to raise before the n-th."""
    remaining = iter(answers)
    count = 0

    def perform(step: Step) -> Iterator[Outcome]:
        nonlocal count
        expected_step, outcomes = next(remaining)
        assert expected_step == step
        for outcome in outcomes:
            if error := fail(count):
                raise error
            count += 1
            yield outcome

    return perform


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A new run folder."""
    return RunFolder.create(tmp_path / "run")


def test_a_finished_run_has_a_journal_and_a_result(folder: RunFolder) -> None:
    """A finished run's journal and result.xml contain its result, and assess returns the same result."""
    events: list[Event] = []

    result = run(FACTS, perform_from(), folder, events.append)

    assert result.verdict == "STEADY STATE"
    assert assess(folder) == result
    assert differences(folder.result, result_xml(result)) == ()
    assert sum(isinstance(event, OutcomeRecorded) for event in events) == OUTCOMES


@pytest.mark.parametrize("test", SHORT)
def test_every_kind_of_step_is_restored_from_the_journal(test: str, folder: RunFolder) -> None:
    """The journal restores continuous stimuli, idle times, rounds and the reason why a saturation ended."""
    specification = read_specification(test, "2.0.2", "enterprise", overrides=SHORT[test])
    facts = samples.run_facts(specification.spec, found=specification.deviations)
    answers, conclusion = samples.answers(specification.spec, facts.dut)
    events: list[Event] = []

    result = run(facts, perform_from(answers=answers), folder, events.append)

    assert [event.step for event in events if isinstance(event, StepStarted)] == [step for step, _ in answers]
    assert result.conclusion == conclusion
    assert assess(folder) == result
    assert differences(folder.result, result_xml(result)) == ()


@pytest.mark.parametrize("test", ["throughput", *SHORT])
def test_each_round_is_evaluated_with_an_event(test: str, folder: RunFolder) -> None:
    """An event has each round of every part and each sample used as a round; the last window is the result's."""
    specification = read_specification(test, "2.0.2", "enterprise", overrides=SHORT.get(test, ()))
    facts = samples.run_facts(specification.spec)
    answers, _ = samples.answers(specification.spec, facts.dut)
    events: list[Event] = []

    result = run(facts, perform_from(answers=answers), folder, events.append)

    evaluated = [event for event in events if isinstance(event, RoundEvaluated)]
    expected = [
        *(replace(r, row=None) for r in (result.sampling.rounds if result.sampling else ())),
        *(r for loop in result.loops for r in loop.rounds),
    ]
    assert [event.evaluated_round for event in evaluated] == expected
    last = {(event.step.kind, event.step.part): event.window for event in evaluated}
    windows = [result.sampling.window] if result.sampling else []
    assert [*last.values()] == [*windows, *(loop.window for loop in result.loops)]


@pytest.mark.parametrize("test", SHORT)
def test_a_stopped_continuous_stimulus_keeps_its_samples(test: str, folder: RunFolder) -> None:
    """A run stopped in a continuous stimulus keeps the samples measured before; its time line is not complete."""
    specification = read_specification(test, "2.0.2", "enterprise", overrides=SHORT[test])
    facts = samples.run_facts(specification.spec)
    answers, _ = samples.answers(specification.spec, facts.dut)

    with pytest.raises(Interrupted, match="RND"):
        run(
            facts,
            perform_from(lambda count: KeyboardInterrupt() if count == 4 else None, answers),
            folder,
            lambda event: None,
        )

    (line,) = assess(folder).time_lines
    assert len(line) == 3
    assert not line.complete
    assert line.measurements == []


@pytest.mark.long
def test_each_outcome_is_journaled_before_the_next_stimulus(folder: RunFolder) -> None:
    """When a stimulus starts, the journal has all outcomes before it."""
    missing: list[int] = []

    def count_missing(count: int) -> None:
        missing.append(sum(len(outcomes) for _, outcomes in answered(JournalReader(folder.journal))) - count)

    run(FACTS, perform_from(count_missing), folder, lambda event: None)

    assert missing == [0] * OUTCOMES


@pytest.mark.long_but_first
@pytest.mark.parametrize("stop", [0, 1, 2, 3, 25, 26, 60, OUTCOMES - 1])
@pytest.mark.parametrize(
    ("error", "raised", "ending"),
    [
        (KeyboardInterrupt(), Interrupted, "interrupted"),
        (DeviceFailed(step="x", what="y", reason="z"), DeviceFailed, "device failed"),
        (PurgeFailed(path="x", method="y", reason="z"), PurgeFailed, "device failed"),
        (HostFailed(step="x", what="y", reason="z"), HostFailed, "host failed"),
    ],
)
def test_a_stopped_run_keeps_all_earlier_outcomes(
    stop: int, error: BaseException, raised: type[SniaPtsError], ending: str, folder: RunFolder
) -> None:
    """A run stopped before any outcome keeps all earlier ones, records how it ended, and writes a valid result."""
    with pytest.raises(raised):
        run(FACTS, perform_from(lambda count: error if count == stop else None), folder, lambda event: None)

    result = assess(folder)
    kept = sum(len(outcomes) for _, outcomes in answered(JournalReader(folder.journal)))
    assert kept == stop
    assert result.ending == ending
    assert result.verdict.startswith("INCOMPLETE")
    assert not result.conformant
    assert parse(folder.result.read_bytes(), "result.xml") is not None


HEALTH = Health(read_at="now", figures=(), unread=("it is silent",), evidence=())


def test_the_health_is_read_after_the_last_step(folder: RunFolder) -> None:
    """The drive's health is read once, after all outcomes are in the journal; it is part of the result."""
    outcomes_before: list[int] = []

    def read_health() -> Health:
        outcomes_before.append(sum(len(outcomes) for _, outcomes in answered(JournalReader(folder.journal))))
        return HEALTH

    result = run(FACTS, perform_from(), folder, lambda event: None, read_health=read_health)

    assert outcomes_before == [OUTCOMES]
    assert result.health_after == assess(folder).health_after == HEALTH
    assert differences(folder.result, result_xml(result)) == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeviceFailed(step="x", what="y", reason="z")])
def test_a_stopped_run_reads_the_health_and_a_killed_run_has_none(error: BaseException, folder: RunFolder) -> None:
    """After a stop or failure the journal has the drive's health; a journal without an end entry has none."""
    with pytest.raises(SniaPtsError):
        run(
            FACTS,
            perform_from(lambda count: error if count == 3 else None),
            folder,
            lambda event: None,
            read_health=lambda: HEALTH,
        )
    assert assess(folder).health_after == HEALTH

    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-1]))
    assert assess(folder).health_after is None


def test_a_killed_run_is_unfinished(folder: RunFolder) -> None:
    """A truncated journal, as after a power failure, gives an unfinished run: two complete rounds and a partial one."""
    run(FACTS, perform_from(), folder, lambda event: None)
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:60]) + lines[60][:100])

    result = assess(folder)

    assert result.ending == "unfinished"
    assert "no end" in result.ending_detail
    (loop,) = result.loops
    assert [measured.complete for measured in loop.rounds] == [True, True, False]


def test_a_journal_without_an_end_entry_is_unfinished(folder: RunFolder) -> None:
    """A run without an end entry is unfinished, even if the journal has every outcome."""
    run(FACTS, perform_from(), folder, lambda event: None)
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-1]))

    assert assess(folder).ending == "unfinished"


def test_an_unexpected_error_leaves_an_unfinished_run(folder: RunFolder) -> None:
    """An unexpected exception is passed on; the run folder stays readable, and its run is unfinished."""
    with pytest.raises(ZeroDivisionError):
        run(FACTS, perform_from(lambda count: ZeroDivisionError() if count == 30 else None), folder, lambda event: None)

    assert assess(folder).ending == "unfinished"


def test_a_journal_of_another_procedure_is_refused(tmp_path: Path) -> None:
    """A journal whose steps differ from those of its specification is refused."""
    other = read_specification("iops", "2.0.2", "enterprise", overrides=[("rounds.read_percents", [100, 65, 5, 0])])
    facts: RunFacts = samples.run_facts(other.spec)
    folder = RunFolder.create(tmp_path / "run")
    with Journal(folder.journal) as journal:
        journal.append(StartEntry(facts=facts))
        for step, outcomes in ANSWERS:
            journal.append(StepEntry(step=step))
            for outcome in outcomes:
                journal.append(OutcomeEntry(outcome=outcome))

    with pytest.raises(RecordError, match="Round 1"):
        assess(folder)


def test_a_signal_during_the_first_entry_is_recorded(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal takes effect when the start entry is complete; the run ends as interrupted."""
    _interrupt_first_entry(monkeypatch)
    with pytest.raises(Interrupted):
        run(FACTS, perform_from(), folder, lambda event: None)

    result = assess(folder)
    assert (result.ending, result.ending_detail) == (
        "interrupted",
        "Stopped by the operator in step start (/dev/sdb).",
    )
    assert differences(folder.result, result_xml(result)) == ()


def test_a_signal_during_the_first_entry_of_a_resume_is_recorded(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal takes effect when the resume entry is complete; the resumed run ends as interrupted."""
    with pytest.raises(Interrupted):
        run(FACTS, perform_from(lambda count: KeyboardInterrupt() if count == 30 else None), folder, lambda event: None)
    plan = inspect_run(folder, "continue")
    _interrupt_first_entry(monkeypatch)
    with pytest.raises(Interrupted):
        resume(plan, _RecallOnly(), folder, lambda event: None, command_line=())

    result = assess(folder)
    assert (result.ending, len(result.interruptions)) == ("interrupted", 1)


class _RecallOnly:
    """A laboratory that returns the outcomes before an interruption, and performs no steps."""

    def perform(self, step: Step) -> Iterator[Outcome]:
        raise AssertionError(step)

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        del step
        return iter(outcomes)


def _interrupt_first_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this thread SIGINT while the journal writes the next entry, which blocks the signal."""
    write = Journal._write

    def interrupted(journal: Journal, kind: str, text: bytes) -> None:
        monkeypatch.setattr(Journal, "_write", write)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        write(journal, kind, text)

    monkeypatch.setattr(Journal, "_write", interrupted)


def test_a_second_ctrl_c_while_the_end_is_recorded_keeps_the_first_reason(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is recorded, and the error names the step in which the run was stopped."""

    def store_interrupted(stored: RunFolder) -> TestResult:
        signal.raise_signal(signal.SIGINT)
        return store(stored)

    monkeypatch.setattr("snia_pts.runner.session.store", store_interrupted)
    with pytest.raises(Interrupted) as stopped:
        run(FACTS, perform_from(lambda count: KeyboardInterrupt() if count == 30 else None), folder, lambda event: None)

    assert stopped.value.step == "Round 2"
    assert stopped.value.hint == Interrupted.hint
    assert assess(folder).ending == "interrupted"
    assert folder.result.exists()


def test_a_second_ctrl_c_after_the_end_prints_the_first_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """The first Ctrl-C stopped a test; the second one interrupts what restores the host after it."""
    first = Interrupted(cause="Stopped by the operator", step="Round 2", what="/dev/x")

    def stopped_twice(_afterwards: object) -> int:
        try:
            raise first
        finally:
            signal.raise_signal(signal.SIGINT)

    assert run_reported(stopped_twice) == Interrupted.exit_code
    assert capsys.readouterr().err == f"snia-pts: {first}\n  {first.hint}\n"


def test_only_the_first_signal_stops_a_run() -> None:
    """Another SIGTERM or SIGHUP must not interrupt the end of the run."""
    with stopped_by_signals():
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
