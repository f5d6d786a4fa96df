"""Replays a journal through its procedure: gives the result of a run, and where a stopped run would resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from itertools import islice

from ..errors import RecordError, TargetUnfit
from ..files import replace_file
from ..model.content_state import ContentState
from ..model.measurement import IdleOutcome, Measurement, Outcome, PurgeOutcome, Sample
from ..model.steps import Purge, Step, progress_label
from ..procedures import Conclusion, drive, procedure
from ..procedures.sampled_steady_state import SaturationEnd
from ..results.builder import ResultBuilder
from ..results.interruption import ResumePolicy, resumable_step_count
from ..results.result import RunFacts, TestResult
from ..spec import WriteSaturationSpec
from .evidence import unjournaled
from .folder import RunFolder
from .journal_reader import JournalReader, append_outcome, end_detail, is_complete
from .result_xml import chunks

#: An imported run has reached its amount at this share of it: the other tool does not report writes between samples.
_AMOUNT_TOLERANCE = 0.95
#: Maximum number of differences in a message.
_MAX_LISTED = 3
#: Longer texts, such as histograms, are not printed.
_MAX_VALUE_LENGTH = 40
#: Passes the outcomes of a step on.
Tee = Callable[[Step, Iterator[Outcome]], Iterator[Outcome]]


def assess(folder: RunFolder) -> TestResult:
    """Return the result of a stored run from its journal alone.

    The steps in the journal must be those of the procedure, except in an imported run, which followed another tool's
    procedure.  Raises RecordError.
    """
    journal = JournalReader(folder.journal)
    builder = ResultBuilder(journal.facts)
    replayed = _replay(folder, journal, builder.tee)
    end = journal.end
    running = end is None and folder.is_running
    return builder.result(
        ending=end.ending if end else "unfinished",
        ending_detail="the run is still in progress" if running else end_detail(end, journal.torn_bytes),
        finished=end.at if end else "",
        conclusion=replayed.conclusion,
        running=running,
        interruptions=journal.interruptions,
        health_after=end.health if end else None,
        end_warnings=journal.warnings,
        evidence=journal.evidence,
        journal_sha256=journal.sha256,
    )


def store(folder: RunFolder) -> TestResult:
    """Write result.xml, the source of every report, from the journal and return the result.

    Uses only the standard library, so that the result is stored even if a library cannot be loaded.
    """
    result = assess(folder)
    replace_file(folder.result, chunks(result))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """Where a run was stopped, and where it would resume.

    ``current_step`` is the step that was interrupted, or is next; None when the procedure has no more steps.
    ``outcome_count`` is the number of its outcomes.  A resume would keep ``kept_steps`` steps, start with the step that
    ``next_step`` names, and discard ``discarded_outcomes`` outcomes, of which --continue would keep
    ``recoverable_outcomes``.  ``restarts_test``: it would start with a purge, and keep no step or discard outcomes.
    ``stopped`` is the time of the end entry, else of the last outcome, else of the journal's last change.  The complete
    lines of the journal are ``length`` bytes with that checksum; ``journal_state`` is its size and time of last change.
    ``evidence`` are the digests in the journal, ``unjournaled_files`` the files in evidence/ without a digest.
    ``last_content`` is the state of the target's content after the last outcome, unless a purge may have changed it
    since; ``end_content`` is that at the end entry.  ``content_change`` says how other programs changed it since.
    """

    facts: RunFacts
    policy: ResumePolicy
    current_step: Step | None
    outcome_count: int
    kept_steps: int
    next_step: str
    discarded_outcomes: int
    recoverable_outcomes: int
    restarts_test: bool
    reason: str
    stopped: datetime
    interruptions: int
    finished: bool
    has_end_entry: bool
    length: int
    checksum: int
    journal_state: tuple[int, int]
    evidence: Mapping[str, str]
    unjournaled_files: tuple[str, ...]
    last_content: ContentState | None = None
    end_content: ContentState | None = None
    content_change: str = ""

    @property
    def position(self) -> str:
        """The step and point at which the run was stopped."""
        return progress_label(self.current_step, self.outcome_count) if self.current_step else "the end of the test"


def inspect_run(folder: RunFolder, policy: ResumePolicy) -> ResumePlan:
    """Return where a stored run was stopped, and where it would resume by a policy; raises RecordError."""
    state = read_journal_state(folder)
    journal = JournalReader(folder.journal)
    replayed = _replay(folder, journal, lambda _, outcomes: outcomes)
    spec, current_step = journal.facts.spec, replayed.current_step

    def count_kept(policy: ResumePolicy) -> int:
        if journal.facts.imported is not None:  # cannot be resumed, and has no purge
            return len(replayed.complete_steps)
        return resumable_step_count(
            spec, replayed.complete_steps, current_step, policy, started=replayed.outcome_count > 0
        )

    kept_steps, kept_by_continue = count_kept(policy), count_kept("continue")
    discarded_outcomes = sum(replayed.counts[kept_steps:])
    next_step = current_step if kept_steps >= len(replayed.complete_steps) else replayed.complete_steps[kept_steps]
    outcome_count = replayed.outcome_count if kept_steps > len(replayed.complete_steps) else 0
    end = journal.end
    last_change = replayed.last_outcome_time or datetime.fromtimestamp(state[1] / 1e9).astimezone()
    return ResumePlan(
        facts=journal.facts,
        policy=policy,
        current_step=current_step,
        outcome_count=replayed.outcome_count,
        kept_steps=kept_steps,
        next_step=progress_label(next_step, outcome_count) if next_step else "",
        discarded_outcomes=discarded_outcomes,
        recoverable_outcomes=discarded_outcomes - sum(replayed.counts[kept_by_continue:]),
        restarts_test=next_step is not None
        and (kept_steps == 0 or (isinstance(next_step, Purge) and discarded_outcomes > 0)),
        reason=(f"{end.ending}: " if end else "") + end_detail(end, journal.torn_bytes).rstrip("."),
        stopped=parse_time(folder, end.at) if end and end.at else last_change,
        interruptions=len(journal.interruptions),
        finished=end is not None and end.ending == "finished",
        has_end_entry=end is not None,
        length=journal.length,
        checksum=journal.checksum,
        journal_state=state,
        evidence=journal.evidence,
        unjournaled_files=unjournaled(folder, journal.evidence),
        last_content=None if isinstance(current_step, Purge) else journal.last_content,
        end_content=end.content if end else None,
    )


def is_readable(folder: RunFolder) -> bool:
    """Return whether the journal of a stored run is intact, so that the run can be resumed or reported."""
    try:
        inspect_run(folder, "rule")
    except (RecordError, OSError):
        return False
    return True


def parse_time(folder: RunFolder, text: str, after_seconds: float = 0.0) -> datetime:
    """Return a time from the journal plus ``after_seconds``; raises RecordError if it is invalid."""
    try:
        return datetime.fromisoformat(text).astimezone() + timedelta(seconds=after_seconds)
    except (ValueError, OverflowError):
        raise RecordError(path=folder.journal, reason=f"{text!r} is not a date and time") from None


def read_journal_state(folder: RunFolder) -> tuple[int, int]:
    """Return the journal's size in bytes and its time of last change in ns."""
    status = folder.journal.stat()
    return status.st_size, status.st_mtime_ns


def require_same(folder: RunFolder, stored: Step, step: Step) -> None:
    """Raise RecordError if the journal's next step is not the procedure's."""
    if stored != step:
        difference = f"expected step {step.label}, got {stored.label}"
        if step.label == stored.label:
            found = islice(field_differences(step, stored), _MAX_LISTED)
            difference = f"step {step.label}: {'; '.join(f'expected {name} {a}, got {b}' for name, a, b in found)}"
        raise RecordError(path=folder.journal, reason=f"{difference} (another suite version?)")


def field_differences(first: object, second: object, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the name of each field that differs, with both values."""
    if is_dataclass(first) and type(first) is type(second):
        for item in fields(first):
            first_value, second_value = getattr(first, item.name), getattr(second, item.name)
            yield from field_differences(first_value, second_value, f"{name}.{item.name}".removeprefix("."))
    elif isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        for number, (first_value, second_value) in enumerate(zip(first, second, strict=True), start=1):
            yield from field_differences(first_value, second_value, f"{name} {number}")
    elif first != second:
        yield name or "it", _printable_value(first), _printable_value(second)


def _printable_value(value: object) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else "a different text"


class _JournalEnds(Exception):
    """The replay reached the end of the journal."""


@dataclass(slots=True, kw_only=True)
class _Replayed:
    """The complete steps, the number of outcomes of each, the step after them, and the procedure's conclusion.

    ``current_step`` is the first incomplete step; if the journal has it, ``counts`` has an entry for it, too.
    ``last_outcome_time`` is the end of the last outcome; None if that has no time.
    """

    complete_steps: list[Step] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    current_step: Step | None = None
    outcome_count: int = 0
    last_outcome_time: datetime | None = None
    conclusion: Conclusion = None


def _replay(folder: RunFolder, journal: JournalReader, tee: Tee) -> _Replayed:
    """Drive the procedure with the outcomes in the journal, step by step."""
    if journal.facts.imported is not None:
        return _replay_imported(journal, tee)
    steps, replayed = journal.steps(), _Replayed()

    def answer(step: Step) -> Iterator[Outcome]:
        stored, outcomes = next(steps, (None, iter(())))
        replayed.current_step, replayed.outcome_count = step, 0
        if stored is None:
            raise _JournalEnds
        require_same(folder, stored, step)
        outcomes_so_far: list[Outcome] = []
        for outcome in tee(stored, outcomes):
            outcomes_so_far = append_outcome(outcomes_so_far, outcome)
            replayed.outcome_count += 1
            replayed.last_outcome_time = _end_time(folder, outcome)
            yield outcome
        replayed.counts.append(replayed.outcome_count)
        if not is_complete(stored, outcomes_so_far):
            raise _JournalEnds
        replayed.complete_steps.append(step)
        replayed.current_step = None

    complete = False
    with suppress(_JournalEnds):
        try:
            replayed.conclusion = drive(procedure(journal.facts.spec, journal.facts.dut), answer)
        except TargetUnfit as unfit:  # such a run never starts
            raise RecordError(
                path=folder.journal, reason=f"the recorded device cannot run this test: {unfit}"
            ) from None
        complete = True
    if next(steps, None) is not None:
        raise RecordError(path=folder.journal, reason="it has more steps than the procedure")
    if journal.end is not None and (journal.end.ending == "finished") > complete:
        raise RecordError(path=folder.journal, reason="the run is finished, but steps of the procedure are missing")
    return replayed


def _replay_imported(journal: JournalReader, tee: Tee) -> _Replayed:
    """Accept the steps of an imported run without comparison, up to the first incomplete one."""
    replayed, samples, written = _Replayed(), 0, 0
    for step, outcomes in journal.steps():
        replayed.current_step, outcomes_so_far = step, list[Outcome]()
        for outcome in tee(step, outcomes):
            outcomes_so_far = append_outcome(outcomes_so_far, outcome)
            replayed.outcome_count += 1
            if isinstance(outcome, Sample):
                samples, written = samples + 1, written + outcome.write_bytes
        replayed.counts.append(replayed.outcome_count)
        if not is_complete(step, outcomes_so_far):
            return replayed
        replayed.complete_steps.append(step)
        replayed.current_step, replayed.outcome_count = None, 0
    replayed.conclusion = _saturation_end(journal.facts, samples, written)
    return replayed


def _saturation_end(facts: RunFacts, samples: int, written_bytes: int) -> Conclusion:
    """Return what ended an imported write saturation test; None if that is unknown.

    If the capacity is unknown, but the tool stops only at its limits, a test that ended before its time limit ended at
    the limit of its amount.
    """
    spec, capacity_bytes = facts.spec, facts.dut.capacity_bytes
    if not isinstance(spec, WriteSaturationSpec):
        return None
    if samples >= round(spec.saturation.seconds / spec.settling.sample_seconds):
        return SaturationEnd(reason="time", window=None)
    has_reached_amount = (
        written_bytes >= _AMOUNT_TOLERANCE * spec.saturation.capacities * capacity_bytes
        if capacity_bytes
        else facts.imported is not None and facts.imported.stops_at_limit
    )
    return SaturationEnd(reason="written", window=None) if has_reached_amount else None


def _end_time(folder: RunFolder, outcome: Outcome) -> datetime | None:
    """Return when an outcome ended; None for outcomes without a time, such as samples."""
    match outcome:
        case Measurement() if outcome.timing.started:
            return parse_time(folder, outcome.timing.started, outcome.runtime_ms / 1000)
        case PurgeOutcome() | IdleOutcome() if outcome.started:
            return parse_time(folder, outcome.started, outcome.seconds)
    return None
