"""How many recorded steps stay valid when a stopped run resumes, and how the interruption is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.model.steps import ContinuousStimulus, Idle, Phase, Prepare, Purge, Round, Step
from snia_pts.profiles.reader import read_profile
from snia_pts.results.interruption import CONTENT_CHANGE, Interruption, ResumePolicy, resumable_step_count
from tests.strategies import spec_of, stimulus

#: A stimulus on a set of files.
FILES = replace(stimulus(0), options=(("nrfiles", "8"),))
POINTS = (stimulus(65), stimulus(0))
IOPS, SATURATION, DEMAND = spec_of("iops"), spec_of("wsat"), spec_of("composite")
PROFILE = read_profile("etcd-fsync").spec
PURGE, IDLE = Purge(), Idle(seconds=5)


def continuous(phase: Phase, part: str = "") -> ContinuousStimulus:
    """Return a continuous stimulus of a phase."""
    return ContinuousStimulus(phase=phase, part=part, stimulus=stimulus(0))


def rounds(last: int, first: int = 1) -> list[Step]:
    """Return the rounds numbered from `first` to `last`."""
    return [Round(number=number, stimuli=POINTS) for number in range(first, last + 1)]


PRECONDITIONED: list[Step] = [PURGE, continuous("WIPC")]
#: Two rounds of a test that pre-writes before each round.
PREWRITTEN: list[Step] = [
    *PRECONDITIONED,
    continuous("PC"),
    continuous("pre-write"),
    *rounds(1),
    continuous("pre-write"),
    *rounds(2, first=2),
]


def kept_steps(
    spec: Any, steps: Sequence[Step], coming: Step | None, policy: ResumePolicy, *, started: bool = False
) -> int:
    """Return how many of the steps stay valid."""
    return resumable_step_count(spec, steps, coming, policy, started=started)


@pytest.mark.parametrize("policy", ["rule", "purge", "continue"])
@pytest.mark.parametrize("coming", [None, PURGE])
def test_every_policy_keeps_all_steps_before_a_purge_and_at_the_end(coming: Step | None, policy: ResumePolicy) -> None:
    """If the next step is a purge, or no step remains, every resume policy keeps all steps."""
    assert kept_steps(IOPS, [*PRECONDITIONED, *rounds(3)], coming, policy) == 5


@pytest.mark.parametrize(
    ("policy", "started", "steps"),
    [
        ("rule", False, 5),
        ("rule", True, 6),
        ("continue", False, 5),
        ("continue", True, 6),
        ("purge", False, 0),
        ("purge", True, 0),
    ],
)
def test_resume_within_the_rounds_keeps_them_unless_the_policy_is_purge(
    policy: ResumePolicy, started: bool, steps: int
) -> None:
    """Complete rounds and a round in progress stay valid; the policy "purge" keeps no step."""
    assert kept_steps(IOPS, [*PRECONDITIONED, *rounds(3)], rounds(4)[3], policy, started=started) == steps


@pytest.mark.parametrize(("phase", "started"), [("WIPC", True), ("WIPC", False), ("histogram", True), ("PC", False)])
def test_an_interrupted_continuous_stimulus_restarts_at_the_purge(phase: Phase, started: bool) -> None:
    """A continuous stimulus restarts at the purge; the policy "continue" repeats it without a purge."""
    steps: list[Step] = [PURGE, *rounds(5)]
    assert kept_steps(IOPS, steps, continuous(phase), "rule", started=started) == 0
    assert kept_steps(IOPS, steps, continuous(phase), "continue", started=started) == 6


def test_a_restart_goes_back_to_the_last_purge_only() -> None:
    """Of several parts, only the interrupted one restarts."""
    steps = [*PRECONDITIONED, *rounds(5), PURGE, continuous("WIPC"), *rounds(1)]
    assert kept_steps(SATURATION, steps, continuous("stimulus"), "rule") == 7
    assert kept_steps(IOPS, steps, rounds(2)[1], "purge", started=True) == 7


@pytest.mark.parametrize(
    ("maximum", "done", "started", "resumes"),
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
def test_resume_needs_enough_rounds_left_for_a_window(maximum: int, done: int, started: bool, resumes: bool) -> None:
    """The rounds that are left, without the interrupted one, must suffice for a measurement window: five."""
    spec = spec_of("iops", rounds__maximum=maximum)
    coming = rounds(done + 1)[-1]
    assert kept_steps(spec, [*PRECONDITIONED, *rounds(done)], coming, "rule", started=started) == (
        2 + done + started if resumes else 0
    )
    assert kept_steps(spec, [*PRECONDITIONED, *rounds(done)], coming, "continue", started=started) == 2 + done + started


def test_rounds_are_counted_from_the_purge() -> None:
    """Rounds before the last purge do not count towards the maximum."""
    steps = [*PRECONDITIONED, *rounds(25), PURGE, continuous("WIPC")]
    assert kept_steps(IOPS, steps, rounds(1)[0], "rule") == len(steps)


def test_the_pre_write_of_an_unstarted_round_is_repeated() -> None:
    """A stop between a pre-write and its round repeats the pre-write; a round in progress keeps it."""
    coming = rounds(3)[2]
    assert kept_steps(DEMAND, PREWRITTEN, continuous("pre-write"), "rule") == len(PREWRITTEN)
    assert kept_steps(DEMAND, PREWRITTEN, continuous("pre-write"), "rule", started=True) == len(PREWRITTEN)
    assert kept_steps(DEMAND, [*PREWRITTEN, continuous("pre-write")], coming, "rule") == len(PREWRITTEN)
    assert (
        kept_steps(DEMAND, [*PREWRITTEN, continuous("pre-write")], coming, "rule", started=True) == len(PREWRITTEN) + 2
    )
    assert kept_steps(DEMAND, [*PRECONDITIONED, continuous("PC")], rounds(1)[0], "rule") == 3


def test_without_rounds_for_a_window_no_policy_resumes_the_demand_loop() -> None:
    """The operating points need a window: if too few rounds are left, not even "continue" resumes in the loop."""
    spec = replace(DEMAND, demand=replace(DEMAND.demand, maximum=6))
    assert kept_steps(spec, PREWRITTEN, rounds(3)[2], "continue", started=True) == 0
    assert kept_steps(spec, PREWRITTEN, continuous("PC"), "continue") == len(PREWRITTEN)
    assert kept_steps(DEMAND, PREWRITTEN, continuous("pre-write", "Max IOPS"), "rule") == 0
    assert kept_steps(DEMAND, PREWRITTEN, continuous("pre-write", "Max IOPS"), "continue") == len(PREWRITTEN)


def test_an_interrupted_idle_time_restarts_at_the_purge_or_is_repeated() -> None:
    """The policy "rule" restarts at the purge; "continue" keeps the steps before the idle time and repeats it."""
    spec = spec_of("hir")
    steps: list[Step] = [PURGE, continuous("PC"), continuous("access A")]
    assert kept_steps(spec, steps, IDLE, "rule", started=True) == 0
    assert kept_steps(spec, steps, IDLE, "continue", started=True) == 3


@pytest.mark.parametrize(
    ("policy", "discarded", "text", "absent"),
    [
        ("rule", 0, "no measurement window includes it", "discarded"),
        ("purge", 3, "; discarded: 3 outcomes before it (4 GB written)", "the operator chose"),
        ("continue", 0, "the operator chose to resume without a new purge", "no measurement window"),
    ],
)
def test_an_interruption_is_reported_as_a_deviation(
    policy: ResumePolicy, discarded: int, text: str, absent: str
) -> None:
    """The deviation gives the stop, the resume, the time between, the reason, the next step and what was discarded.

    If the test continues without a purge, it also says how other programs changed the content of the drive.
    """
    interruption = Interruption(
        stopped="2026-11-03T12:00:00.5+00:00",
        resumed="2026-11-03T13:30:00+00:00",
        idle_seconds=5400,
        reason="no power",
        policy=policy,
        next_step="Round 3",
        discarded_outcomes=discarded,
        discarded_bytes=4 * 10**9,
    )
    actual = interruption.deviation.actual
    assert "stopped 2026-11-03 12:00:00, resumed 2026-11-03 13:30:00, 1 h 30 min without I/O" in actual
    assert "(no power); it continued with Round 3" in actual
    assert text in actual
    assert absent not in actual

    written = f"{CONTENT_CHANGE}1 GB were written"
    with_changes = replace(interruption, changes=("firmware: 1 instead of 2", written)).deviation.actual
    assert with_changes == (f"{actual}; {written}" if policy == "continue" else actual)


@pytest.mark.parametrize(("policy", "count"), [("rule", 4), ("continue", 4), ("purge", 0)])
def test_a_point_of_a_profile_is_prepared_again(policy: ResumePolicy, count: int) -> None:
    """An unfinished point of a profile restarts at its preparation; complete points stay valid."""
    steps: list[Step] = [PURGE, continuous("WIPC"), Prepare(part="a"), Round(part="a", number=1, stimuli=POINTS[:1])]
    following: list[Step] = [Prepare(part="b"), Purge(part="b"), Round(part="b", number=1, stimuli=POINTS[:1])]
    for done, coming in enumerate(following):
        assert kept_steps(PROFILE, [*steps, *following[:done]], coming, policy, started=True) == count
    assert kept_steps(PROFILE, [*steps, *following], None, policy) == 7
    assert kept_steps(PROFILE, [PURGE], continuous("WIPC"), policy, started=True) == 0


@pytest.mark.parametrize("policy", ["rule", "purge", "continue"])
def test_a_set_of_files_is_gone_after_a_stop(policy: ResumePolicy) -> None:
    """Whatever was written to it is lost, so that every resume policy starts the profile again."""
    filled = ContinuousStimulus(phase="fill", part="8 files", stimulus=FILES)
    measured = Round(part="w", number=1, stimuli=(FILES,))
    assert kept_steps(PROFILE, [filled, measured], replace(measured, number=2), policy) == 0
    assert kept_steps(PROFILE, [filled, measured], None, policy) == 2
