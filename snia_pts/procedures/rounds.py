"""The test loop that most tests of the standard share: rounds until steady state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..analysis.window import Window, window_ending
from ..model.dut import Dut
from ..model.measurement import MeasuredRound, Measurement, Outcome
from ..model.steps import ContinuousStimulus, Round, Stimulus
from ..spec import DemandSetup, Rounds, SteadyStateRule
from .asking import Procedure, stretch
from .ranges import active_range_bytes, require_range, require_sectors

#: Gives a round's stimuli, from the round before (None for the first).
Points = Callable[[MeasuredRound | None], tuple[Stimulus, ...]]


def rounds_until_steady(
    points: Points,
    maximum: int,
    rule: SteadyStateRule,
    *,
    part: str = "",
    before: Callable[[int], ContinuousStimulus] | None = None,
) -> Procedure[tuple[tuple[MeasuredRound, ...], Window | None]]:
    """Run rounds of ``points`` until all tracked variables are steady in one window, or the maximum is reached.

    ``before`` gives what runs before each round.  Concludes with the last rounds and their window: the Measurement
    Window when it is steady, and what the standard reports as NOT ACHIEVED when it is not (PTS 2.0.2 chapter 7, p. 26).
    """
    measured: list[MeasuredRound] = []
    window = None
    for number in range(1, maximum + 1):
        if before is not None:
            yield from stretch(before(number))
        stimuli = points(measured[-1] if measured else None)
        outcomes = yield Round(part=part, number=number, stimuli=stimuli)
        measured.append(measured_round(number, stimuli, outcomes))
        measured = measured[-rule.window_rounds :]
        window = window_ending(measured, rule)
        if window is not None and window.steady:
            break
    return tuple(measured), window


def measured_round(number: int, stimuli: Sequence[Stimulus], outcomes: Iterable[Outcome]) -> MeasuredRound:
    """Return the round that ``outcomes`` make; raises ValueError when they answer other stimuli than asked."""
    measurements = tuple(outcome for outcome in outcomes if isinstance(outcome, Measurement))
    if tuple(measurement.stimulus for measurement in measurements) != tuple(stimuli):
        raise ValueError(f"round {number} was answered with other stimuli than it asked for")
    return MeasuredRound(number=number, measurements=measurements, complete=True)


def matrix(rounds: Rounds, setup: DemandSetup, dut: Dut) -> tuple[Stimulus, ...]:
    """Return the random points of a round: R/W mixes outside, block sizes inside, both in the specification's order.

    Block sizes that the device's sectors cannot hold are left out (PTS 2.0.2 has none; the matrix shows n/a).
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
    """Raise TargetUnfit when ``dut`` cannot run what decides the test."""
    tracked = [variable.block_size_bytes for variable in rule.tracked if variable.block_size_bytes is not None]
    require_sectors(dut, tracked, "a tracked variable")
    require_range(dut, setup.active_range_percent, max(rounds.block_sizes_bytes))
