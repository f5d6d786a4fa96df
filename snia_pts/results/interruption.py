"""Rules for resuming a stopped run: a result never claims more than was measured without a break.

The standard has no pause within a test (PTS 2.0.2 chapter 4): an idle drive recovers.  Rounds are judged in windows,
and a window that lies completely after the interruption is valid.  A continuous stimulus is judged as a whole: it
restarts from the purge, where the state of the drive can be established again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..analysis.operating_points import PointName
from ..model.steps import ContinuousStimulus, Purge, Round, Step
from ..spec import DemandSpec, Deviation, Spec, loop_rule, max_rounds
from ..units import capacity, counted, duration

#: How to resume: by the rule of this module, always from the last purge, or always with the interrupted step.
ResumePolicy = Literal["rule", "purge", "continue"]
#: The start of the change that says that the content of the target was changed by another program.
CONTENT_CHANGE = "content of the drive: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """An interruption: the run was stopped and resumed.

    ``stopped`` and ``resumed`` are wall clock times, ``reason`` is what stopped it.  ``next_step`` is the label of the
    first step after the resume.  The steps and outcomes from there to the stop were discarded (they stay in the
    journal); they wrote ``discarded_bytes``.  ``changes`` lists differences from the state before the stop.
    """

    stopped: str
    resumed: str
    idle_seconds: float
    reason: str
    policy: ResumePolicy
    next_step: str
    discarded_outcomes: int
    discarded_bytes: int
    changes: tuple[str, ...] = ()

    @property
    def deviation(self) -> Deviation:
        """The deviation: every interruption is a difference from the standard, however the run resumed."""
        discarded = ""
        if self.discarded_outcomes:
            outcomes = counted(self.discarded_outcomes, "outcome")
            discarded = f"; discarded: {outcomes} before it ({capacity(self.discarded_bytes)} written)"
        consequence = {
            "rule": "no measurement window includes it",
            "purge": "no measurement window includes it",
            "continue": "the operator chose to resume without a new purge",
        }[self.policy]
        actual = (
            f"stopped {_short(self.stopped)}, resumed {_short(self.resumed)}, {duration(self.idle_seconds)} without "
            f"I/O of the test ({self.reason}); it continued with {self.next_step}{discarded}; {consequence}"
        )
        if self.policy == "continue":
            actual += "".join(f"; {change}" for change in self.changes if change.startswith(CONTENT_CHANGE))
        return Deviation(
            what="interruption",
            standard="stimuli follow each other without a pause, on a drive that stays powered",
            actual=actual,
            clause="PTS chapter 4",
        )


def _short(time: str) -> str:
    """Return a time to the second."""
    return time[:19].replace("T", " ")


def resumable_step_count(
    spec: Spec, steps: Sequence[Step], next_step: Step | None, policy: ResumePolicy, *, started: bool
) -> int:
    """Return the number of steps that stay valid; the run resumes after them.

    ``steps`` are the completed steps.  ``next_step`` is the step that was interrupted, or that would have been next;
    None at the end of the test.  A round that has ``started`` (it has a point) stays valid, too, and resumes with its
    next point.  If a round has not started, the pre-write before it is repeated.
    """
    if spec.rounds_are_repeats and next_step is not None:
        return _resumable_repeats(steps, policy)
    if next_step is None or isinstance(next_step, Purge):
        return len(steps)
    count = len(steps) + (started and isinstance(next_step, Round))
    last = steps[-1]
    if isinstance(next_step, Round) and not started and isinstance(last, ContinuousStimulus) and _in_loop(last):
        count -= 1
    window_possible = _in_loop(next_step) and _may_be_steady(spec, steps, next_step, started=started)
    needs_window = _in_loop(next_step) and isinstance(spec, DemandSpec)  # The operating points come from the window.
    if (policy == "rule" and window_possible) or (policy == "continue" and (window_possible or not needs_window)):
        return count
    return max(index for index, step in enumerate(steps) if isinstance(step, Purge))


def _resumable_repeats(steps: Sequence[Step], policy: ResumePolicy) -> int:
    """Return the number of valid steps if rounds are repeats; an interrupted point repeats its own preparation.

    A set of files is gone after a stop, so that none of the steps is valid.
    """
    if any(stimulus.file_count > 1 for step in steps for stimulus in getattr(step, "stimuli", ())):
        return 0
    counts = [index + 1 for index, step in enumerate(steps) if isinstance(step, Round | ContinuousStimulus)]
    return 0 if policy == "purge" else max(counts, default=0)


def _in_loop(step: Step) -> bool:
    """Return whether a step belongs to the rounds of a test loop: a round, or the pre-write before it."""
    if isinstance(step, ContinuousStimulus):
        return step.phase == "pre-write" and step.part not in get_args(PointName)
    return isinstance(step, Round)


def _may_be_steady(spec: Spec, steps: Sequence[Step], next_step: Step, *, started: bool) -> bool:
    """Return whether the remaining rounds can hold a complete window."""
    rule, limit = loop_rule(spec), max_rounds(spec)
    if rule is None or limit is None:
        return False
    last = next((step for step in reversed(steps) if isinstance(step, Round | Purge)), None)
    completed = last.number if isinstance(last, Round) else 0
    interrupted = started and isinstance(next_step, Round)
    return limit - completed - interrupted >= rule.window_rounds
