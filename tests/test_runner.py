"""The runner: journals each answer before the next question, and keeps what was measured whatever stops it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from snia_pts.errors import DeviceFailed, HostFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError
from snia_pts.measurement import Outcome
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import read_journal
from snia_pts.record.resultxml import differences, parse
from snia_pts.result import RunFacts
from snia_pts.runner import Event, OutcomeCame, assess, run
from snia_pts.specfile import read_specification
from snia_pts.steps import Step
from tests import samples

SPECIFICATION = read_specification(
    "iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 6), ("rounds.read_percents", [100, 65, 0])]
)
FACTS = samples.run_facts(SPECIFICATION.spec, found=SPECIFICATION.deviations)
ANSWERED = samples.answers(SPECIFICATION.spec, FACTS.dut, rounds=5)
OUTCOMES = sum(len(outcomes) for _, outcomes in ANSWERED)


def answering(fail: Callable[[int], BaseException | None] = lambda _: None) -> Callable[[Step], Iterator[Outcome]]:
    """Return a laboratory that gives the recorded outcomes, and raises what ``fail`` says for the n-th."""
    told = dict(ANSWERED)
    count = 0

    def perform(step: Step) -> Iterator[Outcome]:
        nonlocal count
        for outcome in told[step]:
            if error := fail(count):
                raise error
            count += 1
            yield outcome

    return perform


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A new run folder."""
    return RunFolder.create(tmp_path / "run")


def test_a_run_leaves_journal_and_result(folder: RunFolder) -> None:
    """A finished run's journal and result.xml hold the same result, which assess gives again."""
    events: list[Event] = []

    result = run(FACTS, answering(), folder, events.append)

    assert result.verdict == "STEADY STATE"
    assert assess(folder) == result
    assert differences(folder.result, result) == ()
    assert sum(isinstance(event, OutcomeCame) for event in events) == OUTCOMES


def test_each_outcome_is_journaled_before_the_next_is_asked(folder: RunFolder) -> None:
    """When a stimulus begins, all outcomes before it are in the journal."""
    seen: list[int] = []

    def look(count: int) -> None:
        journal = read_journal(folder.journal)
        seen.append(sum(len(outcomes) for _, outcomes in journal.answered) - count)

    run(FACTS, answering(look), folder, lambda event: None)

    assert seen == [0] * OUTCOMES


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
def test_whatever_stops_a_run_what_was_measured_is_kept(
    stop: int, error: BaseException, raised: type[SniaPtsError], ending: str, folder: RunFolder
) -> None:
    """Stopped before any outcome, a run keeps all outcomes before it, says how it ended, and leaves a valid result."""
    with pytest.raises(raised):
        run(FACTS, answering(lambda count: error if count == stop else None), folder, lambda event: None)

    result = assess(folder)
    kept = sum(len(outcomes) for _, outcomes in read_journal(folder.journal).answered)
    assert kept == stop
    assert result.ending == ending
    assert result.verdict.startswith("INCOMPLETE")
    assert not result.conformant
    assert parse(folder.result.read_bytes(), "result.xml") is not None


def test_a_killed_run_is_unfinished(folder: RunFolder) -> None:
    """A journal that just stops, as after a power failure, gives the rounds that were whole, and no verdict."""
    run(FACTS, answering(), folder, lambda event: None)
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:60]) + lines[60][:100])

    result = assess(folder)

    assert result.ending == "unfinished"
    assert "no end" in result.ending_detail
    assert [measured.complete for measured in result.rounds] == [True, True, False]


def test_all_outcomes_without_an_end_is_unfinished(folder: RunFolder) -> None:
    """Even when every outcome came, a journal without its end makes no finished run."""
    run(FACTS, answering(), folder, lambda event: None)
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-1]))

    assert assess(folder).ending == "unfinished"


def test_an_unexpected_error_is_journaled_too(folder: RunFolder) -> None:
    """A mistake of the suite itself leaves a readable, unfinished run, and is not hidden."""
    with pytest.raises(ZeroDivisionError):
        run(FACTS, answering(lambda count: ZeroDivisionError() if count == 30 else None), folder, lambda event: None)

    assert assess(folder).ending == "unfinished"


def test_a_journal_of_another_procedure_is_refused(tmp_path: Path) -> None:
    """A journal whose steps are not those that its specification asks for is no result."""
    other = read_specification("iops", "2.0.2", "enterprise", overrides=[("rounds.read_percents", [100, 65, 5, 0])])
    facts: RunFacts = samples.run_facts(other.spec)
    folder = RunFolder.create(tmp_path / "run")
    from snia_pts.record.journal import Asked, Begun, Came, Journal

    with Journal(folder.journal) as journal:
        journal.append(Begun(facts=facts))
        for step, outcomes in ANSWERED:
            journal.append(Asked(step=step))
            for outcome in outcomes:
                journal.append(Came(outcome=outcome))

    with pytest.raises(RecordError, match="Round 1"):
        assess(folder)
