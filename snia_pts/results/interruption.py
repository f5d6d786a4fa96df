"""Where a stopped run may go on, so that no result claims more than was measured in one piece.

The standard knows no pause within a test (PTS 2.0.2 chapter 4): a drive that is left alone recovers.  Rounds are judged
in windows, and a window that lies wholly after the interruption is as good as any.  A continuous stimulus is judged as
a whole: it begins again where the state of the drive can be established anew, at the purge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..analysis.operating_points import PointName
from ..model.steps import ContinuousStimulus, Purge, Round, Step
from ..spec import DemandSpec, Deviation, ProfileSpec, Spec, loop_rule, most_rounds
from ..units import capacity, counted, duration

#: How to go on: as the rule has it; from the last purge in any case; or with the step that was interrupted, always.
ResumePolicy = Literal["rule", "purge", "continue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A run was stopped and resumed.

    ``stopped`` and ``resumed`` are wall clock times, ``reason`` is what stopped it.  ``next_step`` names the first step
    after the resume.  The steps and outcomes from there to the stop were discarded (they stay in the journal); they
    wrote ``lost_bytes``.  ``changes`` lists harmless differences to the state before the stop.
    """

    stopped: str
    resumed: str
    idle_seconds: float
    reason: str
    policy: ResumePolicy
    next_step: str
    lost_outcomes: int
    lost_bytes: int
    changes: tuple[str, ...] = ()

    @property
    def deviation(self) -> Deviation:
        """An interruption is a difference from the standard, whatever was done about it."""
        lost = ""
        if self.lost_outcomes:
            outcomes = counted(self.lost_outcomes, "outcome")
            lost = f"; set aside: {outcomes} before it ({capacity(self.lost_bytes)} written)"
        consequence = {
            "rule": "no measurement window reaches across it",
            "purge": "no measurement window reaches across it",
            "continue": "the operator wanted it to go on without a new purge",
        }[self.policy]
        actual = (
            f"stopped {_short(self.stopped)}, resumed {_short(self.resumed)}, {duration(self.idle_seconds)} without "
            f"I/O of the test ({self.reason}); it went on with {self.next_step}{lost}; {consequence}"
        )
        return Deviation(
            what="interruption",
            standard="stimuli follow each other without a pause, on a drive that stays powered",
            actual=actual,
            clause="PTS chapter 4",
        )


def _short(moment: str) -> str:
    """Return a moment for people: to the second."""
    return moment[:19].replace("T", " ")


def resumable_step_count(
    spec: Spec, asked: Sequence[Step], coming: Step | None, policy: ResumePolicy, *, begun: bool
) -> int:
    """Return how many of the steps that were asked for still stand; the run goes on after them.

    ``asked`` are those that were answered in full.  ``coming`` is the step that was broken off, or would have come
    next; None at the end of the test.  A round that has ``begun`` (with a point) stands as well, and goes on with its
    next one; what is written before a round that has not is written once more.
    """
    answered = len(asked)
    if isinstance(spec, ProfileSpec) and coming is not None:
        return _profile_standing(asked, policy)
    if coming is None or isinstance(coming, Purge):
        return answered
    here = answered + (begun and isinstance(coming, Round))
    if isinstance(coming, Round) and not begun and isinstance(asked[-1], ContinuousStimulus) and _in_loop(asked[-1]):
        here -= 1
    hopeful = _in_loop(coming) and _may_be_steady(spec, asked, coming, begun=begun)
    needs_window = _in_loop(coming) and isinstance(spec, DemandSpec)  # its operating points are taken from one
    if (policy == "rule" and hopeful) or (policy == "continue" and (hopeful or not needs_window)):
        return here
    return max(place for place, step in enumerate(asked) if isinstance(step, Purge))


def _profile_standing(asked: Sequence[Step], policy: ResumePolicy) -> int:
    """Each point of a profile has its own preparation, which is done again with the point that was broken off."""
    whole = [place + 1 for place, step in enumerate(asked) if isinstance(step, Round | ContinuousStimulus)]
    return 0 if policy == "purge" else max(whole, default=0)


def _in_loop(step: Step) -> bool:
    """Tell whether a step is of the rounds of a test loop: one of them, or what is written before it."""
    if isinstance(step, ContinuousStimulus):
        return step.phase == "pre-write" and step.part not in get_args(PointName)
    return isinstance(step, Round)


def _may_be_steady(spec: Spec, asked: Sequence[Step], coming: Step, *, begun: bool) -> bool:
    """Tell whether a whole window has room in the rounds that are left."""
    rule, most = loop_rule(spec), most_rounds(spec)
    if rule is None or most is None:
        return False
    last = next((step for step in reversed(asked) if isinstance(step, Round | Purge)), None)
    done = last.number if isinstance(last, Round) else 0
    broken = begun and isinstance(coming, Round)
    return most - done - broken >= rule.window_rounds
