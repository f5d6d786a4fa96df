"""Where a stopped run may go on, for every place at which it can stop, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.model.steps import ContinuousStimulus, Idle, Phase, Prepare, Purge, Round, Step
from snia_pts.profiles.reader import read_profile
from snia_pts.results.interruption import Interruption, ResumePolicy, resumable_step_count
from tests.strategies import spec_of, stimulus

POINTS = (stimulus(65), stimulus(0))
IOPS, SATURATION, DEMAND = spec_of("iops"), spec_of("wsat"), spec_of("composite")
PROFILE = read_profile("etcd-fsync").spec
PURGE, IDLE = Purge(), Idle(seconds=5)


def stretch(phase: Phase, part: str = "") -> ContinuousStimulus:
    """Return a stretch of a phase."""
    return ContinuousStimulus(phase=phase, part=part, stimulus=stimulus(0))


def rounds(last: int, first: int = 1) -> list[Step]:
    """Return rounds by their numbers."""
    return [Round(number=number, stimuli=POINTS) for number in range(first, last + 1)]


FILLED: list[Step] = [PURGE, stretch("WIPC")]
#: Two rounds of a test that writes before each.
WRITTEN: list[Step] = [
    *FILLED,
    stretch("PC"),
    stretch("pre-write"),
    *rounds(1),
    stretch("pre-write"),
    *rounds(2, first=2),
]


def kept(spec: Any, steps: Sequence[Step], coming: Step | None, policy: ResumePolicy, *, begun: bool = False) -> int:
    """Return how many steps stand."""
    return resumable_step_count(spec, steps, coming, policy, started=begun)


@pytest.mark.parametrize("policy", ["rule", "purge", "continue"])
@pytest.mark.parametrize("coming", [None, PURGE])
def test_what_is_purged_next_or_is_over_loses_nothing(coming: Step | None, policy: ResumePolicy) -> None:
    """At its end, and before a purge, all that was done stands, whichever way."""
    assert kept(IOPS, [*FILLED, *rounds(3)], coming, policy) == 5


@pytest.mark.parametrize(
    ("policy", "begun", "steps"),
    [
        ("rule", False, 5),
        ("rule", True, 6),
        ("continue", False, 5),
        ("continue", True, 6),
        ("purge", False, 0),
        ("purge", True, 0),
    ],
)
def test_rounds_go_on(policy: ResumePolicy, begun: bool, steps: int) -> None:
    """Rounds that are done stand, and so does one that has begun; from the purge is from the purge."""
    assert kept(IOPS, [*FILLED, *rounds(3)], rounds(4)[3], policy, begun=begun) == steps


@pytest.mark.parametrize(("phase", "begun"), [("WIPC", True), ("WIPC", False), ("histogram", True), ("PC", False)])
def test_one_piece_is_one_piece(phase: Phase, begun: bool) -> None:
    """A continuous stimulus begins again at the purge; the operator may repeat it without one."""
    steps: list[Step] = [PURGE, *rounds(5)]
    assert kept(IOPS, steps, stretch(phase), "rule", begun=begun) == 0
    assert kept(IOPS, steps, stretch(phase), "continue", begun=begun) == 6


def test_it_begins_again_at_the_last_purge() -> None:
    """Of several parts only the one that was interrupted begins again."""
    asked = [*FILLED, *rounds(5), PURGE, stretch("WIPC"), *rounds(1)]
    assert kept(SATURATION, asked, stretch("stimulus"), "rule") == 7
    assert kept(IOPS, asked, rounds(2)[1], "purge", begun=True) == 7


@pytest.mark.parametrize(
    ("maximum", "done", "begun", "goes_on"),
    [
        (25, 20, False, True),
        (25, 20, True, False),
        (25, 21, False, False),
        (25, 19, True, True),
        (5, 0, False, True),
        (5, 0, True, False),
        (6, 0, True, True),
    ],
)
def test_a_whole_window_must_have_room(maximum: int, done: int, begun: bool, goes_on: bool) -> None:
    """The rounds that are left, without the one that was broken off, must be as many as a window has: five."""
    spec = spec_of("iops", rounds__maximum=maximum)
    coming = rounds(done + 1)[-1]
    assert kept(spec, [*FILLED, *rounds(done)], coming, "rule", begun=begun) == (2 + done + begun if goes_on else 0)
    assert kept(spec, [*FILLED, *rounds(done)], coming, "continue", begun=begun) == 2 + done + begun


def test_rounds_are_counted_from_the_purge() -> None:
    """The rounds of the part before leave as much room as there was."""
    asked = [*FILLED, *rounds(25), PURGE, stretch("WIPC")]
    assert kept(IOPS, asked, rounds(1)[0], "rule") == len(asked)


def test_what_is_written_before_a_round_is_of_the_round() -> None:
    """Written and then stopped, it is written once more; not where the round has begun, nor for a test without."""
    coming = rounds(3)[2]
    assert kept(DEMAND, WRITTEN, stretch("pre-write"), "rule") == len(WRITTEN)
    assert kept(DEMAND, WRITTEN, stretch("pre-write"), "rule", begun=True) == len(WRITTEN)
    assert kept(DEMAND, [*WRITTEN, stretch("pre-write")], coming, "rule") == len(WRITTEN)
    assert kept(DEMAND, [*WRITTEN, stretch("pre-write")], coming, "rule", begun=True) == len(WRITTEN) + 2
    assert kept(DEMAND, [*FILLED, stretch("PC")], rounds(1)[0], "rule") == 3


def test_operating_points_come_of_a_window() -> None:
    """Without room for a window there would be none: not even --continue goes on within the loop."""
    spec = replace(DEMAND, demand=replace(DEMAND.demand, maximum=6))
    assert kept(spec, WRITTEN, rounds(3)[2], "continue", begun=True) == 0
    assert kept(spec, WRITTEN, stretch("PC"), "continue") == len(WRITTEN)
    assert kept(DEMAND, WRITTEN, stretch("pre-write", "Max IOPS"), "rule") == 0
    assert kept(DEMAND, WRITTEN, stretch("pre-write", "Max IOPS"), "continue") == len(WRITTEN)


def test_an_idle_time_is_repeated_or_begins_again() -> None:
    """An idle time that was interrupted is none of the asked length."""
    spec = spec_of("hir")
    steps: list[Step] = [PURGE, stretch("PC"), stretch("access A")]
    assert kept(spec, steps, IDLE, "rule", begun=True) == 0
    assert kept(spec, steps, IDLE, "continue", begun=True) == 3


@pytest.mark.parametrize(
    ("policy", "lost", "text", "never"),
    [
        ("rule", 0, "no measurement window includes it", "discarded"),
        ("purge", 3, "; discarded: 3 outcomes before it (4 GB written)", "the operator chose"),
        ("continue", 0, "the operator chose to resume without a new purge", "no measurement window"),
    ],
)
def test_an_interruption_is_a_deviation_with_its_times(policy: ResumePolicy, lost: int, text: str, never: str) -> None:
    """It says when it stopped and went on, for how long, why, with what, and what became of what was lost."""
    stopped = Interruption(
        stopped="2026-11-03T12:00:00.5+00:00",
        resumed="2026-11-03T13:30:00+00:00",
        idle_seconds=5400,
        reason="no power",
        policy=policy,
        next_step="Round 3",
        discarded_outcomes=lost,
        discarded_bytes=4 * 10**9,
    )
    told = stopped.deviation.actual
    assert "stopped 2026-11-03 12:00:00, resumed 2026-11-03 13:30:00, 1 h 30 min without I/O" in told
    assert "(no power); it continued with Round 3" in told
    assert text in told
    assert never not in told


@pytest.mark.parametrize(("policy", "stand"), [("rule", 4), ("continue", 4), ("purge", 0)])
def test_a_point_of_a_profile_is_prepared_again(policy: ResumePolicy, stand: int) -> None:
    """What was prepared for a point that did not end is not what it would be now; whole points stand."""
    steps: list[Step] = [PURGE, stretch("WIPC"), Prepare(part="a"), Round(part="a", number=1, stimuli=POINTS[:1])]
    following: list[Step] = [Prepare(part="b"), Purge(part="b"), Round(part="b", number=1, stimuli=POINTS[:1])]
    for done, coming in enumerate(following):
        assert kept(PROFILE, [*steps, *following[:done]], coming, policy, begun=True) == stand
    assert kept(PROFILE, [*steps, *following], None, policy) == 7
    assert kept(PROFILE, [PURGE], stretch("WIPC"), policy, begun=True) == 0
