"""The test loop of most tests of the standard: rounds until steady state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..analysis.window import Window, last_window
from ..model.dut import Dut
from ..model.measurement import MeasuredRound, Measurement, Outcome
from ..model.steps import ContinuousStimulus, Round, Stimulus
from ..spec import DemandSetup, Rounds, SteadyStateRule
from .protocol import Procedure, run_continuous
from .ranges import active_range_bytes, require_range, require_sectors

#: Returns the stimuli of a round, given the previous round (None for the first).
Points = Callable[[MeasuredRound | None], tuple[Stimulus, ...]]


def rounds_until_steady(
    points: Points,
    maximum: int,
    rule: SteadyStateRule,
    *,
    part: str = "",
    pre_round: Callable[[int], ContinuousStimulus] | None = None,
) -> Procedure[tuple[tuple[MeasuredRound, ...], Window | None]]:
    """Run rounds of ``points`` until all tracked variables are steady in one window, or the maximum is reached.

    ``pre_round`` returns the continuous stimulus to run before a round, given the round's number.  Return the last
    rounds and their window: the Measurement Window if it is steady, and otherwise the window that the standard reports
    as NOT ACHIEVED (PTS 2.0.2 chapter 7, p. 26).
    """
    rounds: list[MeasuredRound] = []
    window = None
    for number in range(1, maximum + 1):
        if pre_round is not None:
            yield from run_continuous(pre_round(number))
        stimuli = points(rounds[-1] if rounds else None)
        outcomes = yield Round(part=part, number=number, stimuli=stimuli)
        rounds.append(measured_round(number, stimuli, outcomes))
        rounds = rounds[-rule.window_rounds :]
        window = last_window(rounds, rule)
        if window is not None and window.steady:
            break
    return tuple(rounds), window


def measured_round(number: int, stimuli: Sequence[Stimulus], outcomes: Iterable[Outcome]) -> MeasuredRound:
    """Return ``outcomes`` as a round; raises ValueError if they are not those of ``stimuli``."""
    measurements = tuple(outcome for outcome in outcomes if isinstance(outcome, Measurement))
    if tuple(measurement.stimulus for measurement in measurements) != tuple(stimuli):
        raise ValueError(f"round {number}: the answers are for other stimuli")
    return MeasuredRound(number=number, measurements=measurements, complete=True)


def matrix(rounds: Rounds, setup: DemandSetup, dut: Dut) -> tuple[Stimulus, ...]:
    """Return the random points of a round: R/W mixes (outer loop) and block sizes (inner loop), in specified order.

    Block sizes that are not a multiple of the device's sectors are omitted, and the matrix shows n/a for them.  PTS
    2.0.2 has no rule for them.
    """
    range_bytes = active_range_bytes(dut, setup.active_range_percent, max(rounds.block_sizes_bytes))
    return tuple(
        Stimulus(
            access="RND",
            read_percent=read_percent,
            block_size_bytes=block_size_bytes,
            thread_count=setup.thread_count,
            queue_depth=setup.queue_depth,
            range_offset_bytes=0,
            range_bytes=range_bytes,
            seconds=rounds.point_seconds,
        )
        for read_percent in rounds.read_percents
        for block_size_bytes in rounds.block_sizes_bytes
        if block_size_bytes % dut.logical_sector_bytes == 0
    )


def require_matrix(rounds: Rounds, rule: SteadyStateRule, setup: DemandSetup, dut: Dut) -> None:
    """Raise TargetUnfit if ``dut`` cannot run a tracked variable or the largest block."""
    tracked = [variable.block_size_bytes for variable in rule.tracked if variable.block_size_bytes is not None]
    require_sectors(dut, tracked, "a tracked variable")
    require_range(dut, setup.active_range_percent, max(rounds.block_sizes_bytes))
