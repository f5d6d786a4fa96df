"""Lets the journal answer a procedure: what came of a run, and where a stopped one would go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .errors import RecordError, TargetUnfit
from .files import replace_file
from .folding import Folding
from .interruption import Way, standing
from .measurement import Idled, Measurement, Outcome, Purged, Sample
from .procedures import Conclusion, drive, procedure
from .procedures.settling import Settled
from .record.folder import RunFolder
from .record.journal import is_written
from .record.recorded import Recorded, is_answered, passing
from .record.resultxml import written
from .result import RunFacts, TestResult
from .spec import WriteSaturationSpec
from .steps import Step, place

#: What is written between the samples of another tool is not told; so much of what ends them must be.
_NEARLY = 0.95
#: Sees the outcomes of a step as they pass.
Through = Callable[[Step, Iterator[Outcome]], Iterator[Outcome]]


def assess(folder: RunFolder) -> TestResult:
    """Return the result of a stored run from its journal alone.

    The journal is replayed through the procedure: it must have asked for just these steps.  What was imported followed
    another tool's procedure, and is taken as it is.  Raises RecordError.
    """
    recorded = Recorded(folder.journal)
    folding = Folding(recorded.facts)
    replayed = _replay(folder, recorded, folding.passing)
    ended = recorded.ended
    running = ended is None and is_written(folder.journal)
    return folding.result(
        ending=ended.ending if ended else "unfinished",
        ending_detail=ended.detail if ended else "it still goes on" if running else _died(recorded),
        finished=ended.at if ended else "",
        conclusion=replayed.conclusion,
        running=running,
        interruptions=recorded.interruptions,
        health_after=ended.health if ended else None,
    )


def store(folder: RunFolder) -> TestResult:
    """Make result.xml from the journal, so that the first report and every later one come from the same source.

    Nothing is loaded for it: a library that does not load costs no result.
    """
    result = assess(folder)
    replace_file(folder.result, written(result))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Where a run stands, and where it would go on.

    ``coming`` is the step that was broken off, or comes next, and ``came`` how many of its outcomes there are; None
    when the procedure asks for no more.  ``kept`` of the steps would stand, and ``went_on`` names the one after them;
    ``lost`` outcomes would be set aside, of which --continue would keep ``spared``.  ``stopped`` is when its last one
    came, as far as the journal tells.  The whole lines of the journal are ``length`` bytes with that checksum; ``file``
    tells whether it was changed since.
    """

    facts: RunFacts
    way: Way
    coming: Step | None
    came: int
    kept: int
    went_on: str
    lost: int
    spared: int
    reason: str
    stopped: datetime
    interruptions: int
    finished: bool
    ended: bool
    torn: bool
    length: int
    checksum: int
    file: tuple[int, int]

    @property
    def where(self) -> str:
        """Name the place at which it stands."""
        return place(self.coming, self.came) if self.coming else "the end of the test"


def look(folder: RunFolder, way: Way) -> Outlook:
    """Return where a stored run stands, and where it would go on that way; raises RecordError."""
    file = file_state(folder)
    recorded = Recorded(folder.journal)
    replayed = _replay(folder, recorded, lambda _, outcomes: outcomes)
    spec, coming = recorded.facts.spec, replayed.coming
    kept = standing(spec, replayed.answered, coming, way, begun=replayed.came > 0)
    lost = sum(replayed.counts[kept:])
    where_it_is = standing(spec, replayed.answered, coming, "continue", begun=replayed.came > 0)
    following = coming if kept >= len(replayed.answered) else replayed.answered[kept]
    came = replayed.came if kept > len(replayed.answered) else 0
    ended = recorded.ended
    written = replayed.latest or datetime.fromtimestamp(file[1] / 1e9).astimezone()
    return Outlook(
        facts=recorded.facts, way=way, coming=coming, came=replayed.came, kept=kept,
        went_on=place(following, came) if following else "", lost=lost,
        spared=lost - sum(replayed.counts[where_it_is:]),
        reason=f"{ended.ending}: {ended.detail.rstrip('.')}" if ended else _died(recorded),
        stopped=moment(folder, ended.at) if ended and ended.at else written,
        interruptions=len(recorded.interruptions), finished=ended is not None and ended.ending == "finished",
        ended=ended is not None, torn=recorded.torn, length=recorded.length,
        checksum=recorded.checksum, file=file,
    )  # fmt: skip


def moment(folder: RunFolder, text: str, after_seconds: float = 0.0) -> datetime:
    """Return a moment that the journal tells, or one so much later; raises RecordError for what is none."""
    try:
        return datetime.fromisoformat(text).astimezone() + timedelta(seconds=after_seconds)
    except (ValueError, OverflowError):
        raise RecordError(path=folder.journal, reason=f"{text!r} is no date with a time") from None


def file_state(folder: RunFolder) -> tuple[int, int]:
    """Return the journal's size in bytes, and when it was last written, in ns."""
    status = folder.journal.stat()
    return status.st_size, status.st_mtime_ns


def require_same(folder: RunFolder, asked: Step, step: Step) -> None:
    """Raise RecordError when the journal's next step is another than the procedure's."""
    if asked != step:
        raise RecordError(
            path=folder.journal,
            reason=f"it records {asked.label}, where the procedure asks for {step.label} (another suite version?)",
        )


class _JournalEnds(Exception):
    """The replay reached the end of what was recorded."""


@dataclass(slots=True, kw_only=True)
class _Replayed:
    """The steps that were answered in full, with the numbers of their outcomes; what comes after them; the conclusion.

    ``counts`` has one more where the step that comes has begun, with ``came`` outcomes.  ``latest`` is when the last
    outcome came; None where it does not say.
    """

    answered: list[Step] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    coming: Step | None = None
    came: int = 0
    latest: datetime | None = None
    conclusion: Conclusion = None


def _replay(folder: RunFolder, recorded: Recorded, through: Through) -> _Replayed:
    """Let the journal answer the procedure, step by step."""
    if recorded.facts.imported is not None:
        return _taken(recorded, through)
    left, replayed = recorded.steps(), _Replayed()

    def answer(step: Step) -> Iterator[Outcome]:
        asked, outcomes = next(left, (None, iter(())))
        replayed.coming, replayed.came = step, 0
        if asked is None:
            raise _JournalEnds
        require_same(folder, asked, step)
        passed: list[Outcome] = []
        for outcome in through(asked, outcomes):
            passed = passing(passed, outcome)
            replayed.came += 1
            replayed.latest = _ended(folder, outcome)
            yield outcome
        replayed.counts.append(replayed.came)
        if not is_answered(asked, passed):
            raise _JournalEnds
        replayed.answered.append(step)
        replayed.coming = None

    complete = False
    with suppress(_JournalEnds):
        try:
            replayed.conclusion = drive(procedure(recorded.facts.spec, recorded.facts.dut), answer)
        except TargetUnfit as unfit:  # such a run never begins
            raise RecordError(path=folder.journal, reason=f"its device is none for its test: {unfit}") from None
        complete = True
    if next(left, None) is not None:
        raise RecordError(path=folder.journal, reason="it records steps after those the procedure asks for")
    if recorded.ended is not None and (recorded.ended.ending == "finished") > complete:
        raise RecordError(path=folder.journal, reason="it says that the run finished, but the procedure asks for more")
    return replayed


def _taken(recorded: Recorded, through: Through) -> _Replayed:
    """Take the steps of an imported run as they are; one that was not answered in full is what a crash left."""
    replayed, samples, written = _Replayed(), 0, 0
    for step, outcomes in recorded.steps():
        replayed.coming, passed = step, list[Outcome]()
        for outcome in through(step, outcomes):
            passed = passing(passed, outcome)
            replayed.came += 1
            if isinstance(outcome, Sample):
                samples, written = samples + 1, written + outcome.write_bytes
        replayed.counts.append(replayed.came)
        if not is_answered(step, passed):
            return replayed
        replayed.answered.append(step)
        replayed.coming, replayed.came = None, 0
    replayed.conclusion = _concluded(recorded.facts, samples, written)
    return replayed


def _concluded(facts: RunFacts, samples: int, written_bytes: int) -> Conclusion:
    """Return what ended an imported write saturation, where that can be told.

    TKperf knows two ends; where nobody tells the capacity, one before the time is the other.
    """
    spec, capacity_bytes = facts.spec, facts.dut.capacity_bytes
    if not isinstance(spec, WriteSaturationSpec):
        return None
    if samples >= round(spec.saturation.seconds / spec.settling.sample_seconds):
        return Settled(reason="time", window=None)
    theirs = facts.imported is not None and facts.imported.tool == "TKperf"
    enough = written_bytes >= _NEARLY * spec.saturation.capacities * capacity_bytes if capacity_bytes else theirs
    return Settled(reason="written", window=None) if enough else None


def _ended(folder: RunFolder, outcome: Outcome) -> datetime | None:
    """Return when an outcome came; None for a sample, which does not say."""
    match outcome:
        case Measurement() if outcome.clocking.started:
            return moment(folder, outcome.clocking.started, outcome.runtime_ms / 1000)
        case Purged() | Idled() if outcome.started:
            return moment(folder, outcome.started, outcome.seconds)
    return None


def _died(recorded: Recorded) -> str:
    torn = " while it wrote a line" if recorded.torn else ""
    return f"the journal has no end: the suite or the host died{torn}"
