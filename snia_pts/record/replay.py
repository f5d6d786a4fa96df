"""Replays a journal through its procedure: the result of a run, and where a stopped run would resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..errors import RecordError, TargetUnfit
from ..files import replace_file
from ..model.measurement import IdleOutcome, Measurement, Outcome, PurgeOutcome, Sample
from ..model.steps import Purge, Step, place
from ..procedures import Conclusion, drive, procedure
from ..procedures.sampled_steady_state import SaturationEnd
from ..results.builder import ResultBuilder
from ..results.interruption import ResumePolicy, resumable_step_count
from ..results.result import RunFacts, TestResult
from ..spec import WriteSaturationSpec
from .evidence import unjournaled
from .folder import RunFolder
from .journal import is_written
from .journal_reader import JournalReader, append_outcome, is_complete
from .result_xml import chunks

#: Another tool does not report what it wrote between samples: this share of the limit counts as all of it.
_NEARLY = 0.95
#: Passes the outcomes of a step on.
Tee = Callable[[Step, Iterator[Outcome]], Iterator[Outcome]]


def assess(folder: RunFolder) -> TestResult:
    """Return the result of a stored run from its journal alone.

    The steps in the journal must be those of the procedure.  An imported run followed another tool's procedure; its
    steps are not compared.  Raises RecordError.
    """
    recorded = JournalReader(folder.journal)
    builder = ResultBuilder(recorded.facts)
    replayed = _replay(folder, recorded, builder.tee)
    end = recorded.end
    running = end is None and is_written(folder.journal)
    return builder.result(
        ending=end.ending if end else "unfinished",
        ending_detail=end.detail if end else "the run is still in progress" if running else _crash_reason(recorded),
        finished=end.at if end else "",
        conclusion=replayed.conclusion,
        running=running,
        interruptions=recorded.interruptions,
        health_after=end.health if end else None,
        evidence=recorded.evidence,
    )


def store(folder: RunFolder) -> TestResult:
    """Write result.xml from the journal, the source of every report, and return the result.

    No library is loaded for it, so that a missing one costs no result.
    """
    result = assess(folder)
    replace_file(folder.result, chunks(result))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """Where a run was stopped, and where it would resume.

    ``coming`` is the step that was interrupted, or is next, and ``came`` the number of its outcomes; None when the
    procedure has no more steps.  A resume would keep ``kept`` steps, start with the step that ``next_step`` names, and
    discard ``lost`` outcomes, of which --continue would keep ``spared``.  ``begins_again``: it would start with a purge
    and keep nothing, or discard outcomes.  ``stopped`` is the time of the last outcome, if the journal has it.  The
    complete lines of the journal are ``length`` bytes with that checksum; ``file`` is its size and time of change.
    ``evidence`` are the digests in the journal, ``leftovers`` the names of the files in evidence/ without a digest.
    """

    facts: RunFacts
    policy: ResumePolicy
    coming: Step | None
    came: int
    kept: int
    next_step: str
    lost: int
    spared: int
    begins_again: bool
    reason: str
    stopped: datetime
    interruptions: int
    finished: bool
    ended: bool
    torn: bool
    length: int
    checksum: int
    file: tuple[int, int]
    evidence: Mapping[str, str]
    leftovers: tuple[str, ...]

    @property
    def where(self) -> str:
        """The step and point at which the run was stopped."""
        return place(self.coming, self.came) if self.coming else "the end of the test"


def inspect_run(folder: RunFolder, policy: ResumePolicy) -> ResumePlan:
    """Return where a stored run was stopped, and where it would resume by a policy; raises RecordError."""
    file = file_state(folder)
    recorded = JournalReader(folder.journal)
    replayed = _replay(folder, recorded, lambda _, outcomes: outcomes)
    spec, coming = recorded.facts.spec, replayed.coming
    kept = resumable_step_count(spec, replayed.answered, coming, policy, begun=replayed.came > 0)
    lost = sum(replayed.counts[kept:])
    kept_by_continue = resumable_step_count(spec, replayed.answered, coming, "continue", begun=replayed.came > 0)
    following = coming if kept >= len(replayed.answered) else replayed.answered[kept]
    came = replayed.came if kept > len(replayed.answered) else 0
    end = recorded.end
    written = replayed.latest or datetime.fromtimestamp(file[1] / 1e9).astimezone()
    return ResumePlan(
        facts=recorded.facts,
        policy=policy,
        coming=coming,
        came=replayed.came,
        kept=kept,
        next_step=place(following, came) if following else "",
        lost=lost,
        spared=lost - sum(replayed.counts[kept_by_continue:]),
        begins_again=following is not None and (kept == 0 or (isinstance(following, Purge) and lost > 0)),
        reason=f"{end.ending}: {end.detail.rstrip('.')}" if end else _crash_reason(recorded),
        stopped=moment(folder, end.at) if end and end.at else written,
        interruptions=len(recorded.interruptions),
        finished=end is not None and end.ending == "finished",
        ended=end is not None,
        torn=recorded.torn,
        length=recorded.length,
        checksum=recorded.checksum,
        file=file,
        evidence=recorded.evidence,
        leftovers=unjournaled(folder, recorded.evidence),
    )


def moment(folder: RunFolder, text: str, after_seconds: float = 0.0) -> datetime:
    """Return a time from the journal plus ``after_seconds``; raises RecordError if it is invalid."""
    try:
        return datetime.fromisoformat(text).astimezone() + timedelta(seconds=after_seconds)
    except (ValueError, OverflowError):
        raise RecordError(path=folder.journal, reason=f"{text!r} is not a date and time") from None


def file_state(folder: RunFolder) -> tuple[int, int]:
    """Return the journal's size in bytes and its time of last change in ns."""
    status = folder.journal.stat()
    return status.st_size, status.st_mtime_ns


def require_same(folder: RunFolder, stored: Step, step: Step) -> None:
    """Raise RecordError if the journal's next step is not the procedure's."""
    if stored != step:
        raise RecordError(
            path=folder.journal,
            reason=f"expected step {step.label}, got {stored.label} (another suite version?)",
        )


class _JournalEnds(Exception):
    """The replay reached the end of the journal."""


@dataclass(slots=True, kw_only=True)
class _Replayed:
    """The complete steps, the number of outcomes of each, the step after them, and the procedure's conclusion.

    ``coming`` is the first incomplete step; if it has ``came`` outcomes, ``counts`` has an entry for it, too.
    ``latest`` is the time of the last outcome; None for one without a time.
    """

    answered: list[Step] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    coming: Step | None = None
    came: int = 0
    latest: datetime | None = None
    conclusion: Conclusion = None


def _replay(folder: RunFolder, recorded: JournalReader, tee: Tee) -> _Replayed:
    """Drive the procedure with the outcomes in the journal, step by step."""
    if recorded.facts.imported is not None:
        return _replay_imported(recorded, tee)
    steps, replayed = recorded.steps(), _Replayed()

    def answer(step: Step) -> Iterator[Outcome]:
        stored, outcomes = next(steps, (None, iter(())))
        replayed.coming, replayed.came = step, 0
        if stored is None:
            raise _JournalEnds
        require_same(folder, stored, step)
        passed: list[Outcome] = []
        for outcome in tee(stored, outcomes):
            passed = append_outcome(passed, outcome)
            replayed.came += 1
            replayed.latest = _ended(folder, outcome)
            yield outcome
        replayed.counts.append(replayed.came)
        if not is_complete(stored, passed):
            raise _JournalEnds
        replayed.answered.append(step)
        replayed.coming = None

    complete = False
    with suppress(_JournalEnds):
        try:
            replayed.conclusion = drive(procedure(recorded.facts.spec, recorded.facts.dut), answer)
        except TargetUnfit as unfit:  # such a run never begins
            raise RecordError(
                path=folder.journal, reason=f"the recorded device cannot run this test: {unfit}"
            ) from None
        complete = True
    if next(steps, None) is not None:
        raise RecordError(path=folder.journal, reason="it has more steps than the procedure")
    if recorded.end is not None and (recorded.end.ending == "finished") > complete:
        raise RecordError(path=folder.journal, reason="the run is finished, but steps of the procedure are missing")
    return replayed


def _replay_imported(recorded: JournalReader, tee: Tee) -> _Replayed:
    """Take the steps of an imported run as they are, up to the first incomplete one."""
    replayed, samples, written = _Replayed(), 0, 0
    for step, outcomes in recorded.steps():
        replayed.coming, passed = step, list[Outcome]()
        for outcome in tee(step, outcomes):
            passed = append_outcome(passed, outcome)
            replayed.came += 1
            if isinstance(outcome, Sample):
                samples, written = samples + 1, written + outcome.write_bytes
        replayed.counts.append(replayed.came)
        if not is_complete(step, passed):
            return replayed
        replayed.answered.append(step)
        replayed.coming, replayed.came = None, 0
    replayed.conclusion = _saturation_end(recorded.facts, samples, written)
    return replayed


def _saturation_end(facts: RunFacts, samples: int, written_bytes: int) -> Conclusion:
    """Return what ended an imported write saturation test; None if that is unknown.

    TKperf has two ends, the time and the amount; with an unknown capacity, an end before the time is the amount.
    """
    spec, capacity_bytes = facts.spec, facts.dut.capacity_bytes
    if not isinstance(spec, WriteSaturationSpec):
        return None
    if samples >= round(spec.saturation.seconds / spec.settling.sample_seconds):
        return SaturationEnd(reason="time", window=None)
    theirs = facts.imported is not None and facts.imported.tool == "TKperf"
    enough = written_bytes >= _NEARLY * spec.saturation.capacities * capacity_bytes if capacity_bytes else theirs
    return SaturationEnd(reason="written", window=None) if enough else None


def _ended(folder: RunFolder, outcome: Outcome) -> datetime | None:
    """Return when an outcome ended; None for a sample, which has no time."""
    match outcome:
        case Measurement() if outcome.timing.started:
            return moment(folder, outcome.timing.started, outcome.runtime_ms / 1000)
        case PurgeOutcome() | IdleOutcome() if outcome.started:
            return moment(folder, outcome.started, outcome.seconds)
    return None


def _crash_reason(recorded: JournalReader) -> str:
    torn = " while it wrote a line" if recorded.torn else ""
    return f"the journal has no end entry: the suite or the host died{torn}"
