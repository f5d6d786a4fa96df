"""All tracked variables must be steady in the same window of consecutive, complete rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.steady_state import determine
from snia_pts.analysis.window import (
    consecutive_rounds,
    interruption_marks,
    last_window,
    rounds_since_interruption,
    sampled_round,
    sampled_window,
)
from snia_pts.model.measurement import MeasuredRound, Sample, SampledRound
from snia_pts.spec import SampledSteadyStateRule
from tests.strategies import cells, measured_round, rule, sample, spec_of

#: Three tracked variables over eleven rounds: steady first at round 5, 7 and 5, but together only at 11.
APART = (
    (100, 100, 100, 100, 100, 100, 150, 150, 150, 150, 150),
    (25, 50, 100, 100, 100, 100, 100, 100, 100, 100, 100),
    (100,) * 11,
)


def rounds_of(*series: Sequence[int]) -> list[MeasuredRound]:
    """Return rounds in which the tracked variables have these values."""
    return [
        measured_round(number, dict(zip(cells(rule()), values, strict=True)))
        for number, values in enumerate(zip(*series, strict=True), start=1)
    ]


def test_variables_are_steady_in_the_same_window() -> None:
    """Variables that are steady in different windows only are not steady."""
    rounds = rounds_of(*APART)
    windows = [last_window(rounds[:last], rule()) for last in range(5, 12)]
    first_steady = [
        next(last for last in range(5, 12) if determine(series[last - 5 : last], rule()).steady) for series in APART
    ]

    assert first_steady == [5, 7, 5]
    assert [window.steady for window in windows if window] == [False] * 6 + [True]


def test_window_has_a_determination_for_each_variable() -> None:
    """The determinations are in the specification's order and carry the window's round numbers."""
    window = last_window(rounds_of(*APART), rule())

    assert window is not None
    assert window.numbers == (7, 8, 9, 10, 11)
    assert tuple(tracked for tracked, _ in window.determinations) == rule().tracked
    assert [state.average for _, state in window.determinations] == [150, 100, 100]
    assert {state.rounds for _, state in window.determinations} == {window.numbers}


@pytest.mark.parametrize("count", range(5))
def test_no_window_before_round_five(count: int) -> None:
    """Fewer than five rounds give no window."""
    assert last_window(rounds_of([1] * count, [1] * count, [1] * count), rule()) is None


def test_a_window_needs_consecutive_rounds() -> None:
    """Missing, duplicate or reversed rounds raise ValueError."""
    rounds = rounds_of(*APART)
    for broken in (rounds[:8] + rounds[9:], [rounds[0], *rounds[:4]], rounds[::-1]):
        with pytest.raises(ValueError, match="consecutive"):
            last_window(broken, rule())


def test_a_window_needs_complete_rounds() -> None:
    """An incomplete round raises ValueError if it is within the window, even with all tracked variables measured."""
    rounds = rounds_of(*APART)
    with pytest.raises(ValueError, match="complete"):
        last_window([*rounds[:-1], replace(rounds[-1], complete=False)], rule())
    assert last_window([replace(rounds[0], complete=False), *rounds[1:]], rule()) is not None


# -- samples that serve as rounds -------------------------------------------------------------------------------------


def settling(**changes: Any) -> SampledSteadyStateRule:
    """Return the steady-state rule of write saturation, with changes."""
    settling_rule = spec_of("wsat").settling
    assert isinstance(settling_rule, SampledSteadyStateRule)
    return replace(settling_rule, **changes)


def sampled_rounds(samples: Iterable[Sample], rule_of: SampledSteadyStateRule, before: int = 0) -> list[SampledRound]:
    """Return the rounds that the samples of one continuous stimulus give."""
    candidates = (sampled_round(before, candidate, rule_of, 1.0) for candidate in samples)
    return [sampled for sampled in candidates if sampled is not None]


@given(st.integers(0, 800))
def test_every_30th_minute_is_a_round(count: int) -> None:
    """Minutes 1, 31, 61, 91, 121, ... are rounds 1, 2, 3, 4, 5, ..., and no other minute is."""
    rounds = sampled_rounds(map(sample, range(1, count + 1)), settling())

    assert [sampled.minute for sampled in rounds] == list(range(1, count + 1, 30))
    assert [sampled.number for sampled in rounds] == list(range(1, len(rounds) + 1))
    assert [sampled.sample.number for sampled in rounds] == [sampled.minute for sampled in rounds]


@pytest.mark.long
@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 500))
def test_the_rule_gives_the_first_sample_and_the_stride(first: int, stride: int, count: int) -> None:
    """The rule's first sample and stride select the rounds; `samples` gives the fewest samples for N rounds."""
    rule_of = settling(first_sample=first, stride_samples=stride)
    numbered = map(sample, range(1, count + 1))

    assert [sampled.sample.number for sampled in sampled_rounds(numbered, rule_of)] == list(
        range(first, count + 1, stride)
    )
    for rounds in range(1, 6):
        enough = rule_of.samples(rounds)
        assert len(sampled_rounds(map(sample, range(1, enough + 1)), rule_of)) == rounds
        assert len(sampled_rounds(map(sample, range(1, enough)), rule_of)) == rounds - 1


def test_five_rounds_take_121_minutes() -> None:
    """Five rounds need 121 samples, 25 need 721."""
    assert (settling().samples(5), settling().samples(25)) == (121, 721)


@pytest.mark.parametrize(
    ("seconds", "is_round"),
    [
        (0.5, False),
        (30.0, False),
        (30.1, True),
        (60.0, True),
        (60.4, True),
        (89.9, True),
        (90.0, False),
        (300.0, False),
    ],
)
def test_a_sample_of_a_wrong_length_is_no_round(seconds: float, is_round: bool) -> None:
    """A sample counts as a round only if it is longer than half and shorter than 1.5 times the sample length."""
    assert bool(sampled_rounds([sample(31, seconds=seconds)], settling())) is is_round


def test_the_minute_follows_the_sample_length() -> None:
    """Sample 31 of 30 seconds ends at minute 15.5."""
    (sampled,) = sampled_rounds([sample(31, seconds=30.0, ended_seconds=930.0)], settling(sample_seconds=30.0))

    assert (sampled.number, sampled.minute) == (2, 15.5)


def test_a_sampled_round_has_the_sample_s_value() -> None:
    """A sampled round takes the value of a tracked variable from its sample alone."""
    (sampled,) = sampled_rounds([sample(1, write_ios=120, read_ios=60)], settling())
    (tracked,) = settling().tracked

    assert sampled.value(tracked) == 3
    assert sampled.complete


def test_the_end_time_of_a_sample_decides_its_round() -> None:
    """If a halt lost samples, the sample that ended at minute 61 counts as sample 61, whatever its number."""
    (sampled,) = sampled_rounds([sample(40, ended_seconds=61 * 60 - 3.0)], settling())

    assert (sampled.number, sampled.minute) == (3, 61)
    assert sampled_rounds([sample(61, ended_seconds=70 * 60)], settling()) == []
    (later,) = sampled_rounds([sample(30)], settling(), before=121)
    assert (later.number, later.minute) == (6, 151)


def test_a_missing_round_breaks_the_window() -> None:
    """After a missing round, a window needs five consecutive rounds again."""
    rounds = sampled_rounds((sample(31 + 30 * place, write_ios=1000) for place in range(9)), settling())
    with_gap = [sampled for sampled in rounds if sampled.number != 5]

    assert sampled_window(rounds, settling()) is not None
    assert sampled_window(with_gap, settling()) is not None
    assert sampled_window(with_gap[:-1], settling()) is None
    assert sampled_window([], settling()) is None


@given(st.sets(st.integers(1, 25)))
def test_a_window_of_samples_has_consecutive_rounds_only(present: set[int]) -> None:
    """Whichever rounds are missing, the window is the five rounds up to the last one, or there is no window."""
    rounds = sampled_rounds((sample(1 + 30 * (number - 1)) for number in sorted(present)), settling())
    last = max(present, default=0)
    whole = set(range(last - 4, last + 1)) <= present
    window = sampled_window(rounds, settling())

    assert (window.numbers if window else None) == (tuple(range(last - 4, last + 1)) if whole else None)
    numbers = [consecutive_round.number for consecutive_round in consecutive_rounds(rounds, settling())]
    assert numbers == list(range(last - len(numbers) + 1, last + 1))
    assert len(numbers) == 5 if whole else last - len(numbers) not in present


@pytest.mark.parametrize(
    ("fills", "steady", "note"),
    [
        (None, True, ""),
        (0.999, False, "within the limits after 0.99 fills of the ActiveRange, but at least 1 are required"),
        (1.0, True, "determined after 1.00 fills of the ActiveRange"),
        (1.999, True, "determined after 1.99 fills of the ActiveRange"),
        (2.0, True, ""),
    ],
)
def test_a_window_counts_after_the_minimum_of_fills(fills: float | None, steady: bool, note: str) -> None:
    """A window with exactly the minimum of fills counts; a note says so if a drive may still be fresh."""
    window = last_window(rounds_of(*APART), rule())
    assert window is not None

    of_samples = replace(window, fills=fills, minimum_fills=1.0)

    assert (of_samples.steady, of_samples.early_note) == (steady, note)
    assert window.minimum_fills == 0.0


def test_a_window_of_samples_has_the_fills_of_its_end() -> None:
    """The fills are those at the end of the last sample; the rule gives the minimum."""
    rounds = sampled_rounds((sample(1 + 30 * place) for place in range(5)), settling())
    filled = [replace(measured, fills=0.25 * measured.number) for measured in rounds]

    window = sampled_window(filled, settling())

    assert window is not None
    assert (window.fills, window.minimum_fills) == (1.25, settling().minimum_fills)


def test_a_window_that_is_not_steady_has_no_note() -> None:
    """Fills matter only if the values are steady."""
    window = last_window(rounds_of(*APART)[:10], rule())
    assert window is not None

    assert not replace(window, fills=3.0).steady
    assert replace(window, fills=0.5, minimum_fills=1.0).early_note == ""


def test_a_window_does_not_read_earlier_rounds() -> None:
    """Earlier rounds, here 1000 times None, are never accessed."""
    past: list[Any] = [None] * 1000
    rounds = rounds_of(*APART)[-5:]
    sampled = sampled_rounds((sample(1 + 30 * place) for place in range(5)), settling())

    assert last_window(rounds, rule()) == last_window([*past, *rounds], rule()) is not None
    assert sampled_window(sampled, settling()) == sampled_window([*past, *sampled], settling()) is not None


# -- interruptions ----------------------------------------------------------------------------------------------------


def counted(measured: MeasuredRound, counts: Sequence[int]) -> MeasuredRound:
    """Return the round with these numbers of interruptions before its points."""
    counted_points = zip(measured.measurements, counts, strict=True)
    return replace(
        measured,
        measurements=tuple(
            replace(point, timing=replace(point.timing, interruptions=count)) for point, count in counted_points
        ),
    )


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=1, max_size=12))
def test_a_window_lies_wholly_after_the_last_interruption(stops: list[tuple[int, int, int]]) -> None:
    """All points of a window come after the same, latest interruption, whichever point it preceded."""
    rounds, count = [], 0
    for measured, before in zip(rounds_of(*[(100,) * len(stops)] * 3), stops, strict=True):
        counts = []
        for stopped in before:
            count += stopped
            counts.append(count)
        rounds.append(counted(measured, counts))

    window = last_window(rounds, rule())

    rounds_after = [measured for measured in rounds if measured.interruptions == {count}]
    assert (window is not None) == (len(rounds_after) >= 5 and rounds[-1].interruptions == {count})
    if window is not None:
        assert window.numbers == tuple(measured.number for measured in rounds_after[-5:])


def test_an_interrupted_round_is_in_no_window() -> None:
    """No window includes the interrupted round; the round after it may be the first of a window."""
    uninterrupted = rounds_of(*[(100,) * 11] * 3)
    rounds = [
        *uninterrupted[:4],
        counted(uninterrupted[4], (0, 1, 1)),
        *(counted(measured, (1, 1, 1)) for measured in uninterrupted[5:]),
    ]
    windows = [last_window(rounds[:last], rule()) for last in range(1, 12)]
    assert [window.numbers if window else None for window in windows] == [
        *[None] * 9,
        (6, 7, 8, 9, 10),
        (7, 8, 9, 10, 11),
    ]


def test_samples_before_an_interruption_are_in_no_window() -> None:
    """A window of sampled rounds has rounds after the last interruption only."""
    rounds = [
        SampledRound(number=number, minute=float(number), fills=1.0, sample=sample(1, interruptions=number // 4))
        for number in range(1, 10)
    ]
    rule_of = settling()
    windows = [sampled_window(rounds[:last], rule_of) for last in range(1, 10)]
    assert windows == [None] * 9
    rounds = [replace(sampled, sample=sample(1, interruptions=1 if sampled.number > 2 else 0)) for sampled in rounds]
    assert [window.numbers if window else None for window in (sampled_window(rounds[:7], rule_of),)] == [
        (3, 4, 5, 6, 7)
    ]
    assert sampled_window(rounds[:6], rule_of) is None


def test_rounds_since_an_interruption_exclude_the_interrupted_round() -> None:
    """They start after the interrupted round; without an interruption they are all rounds."""
    uninterrupted = rounds_of(*[(100,) * 3] * 3)
    interrupted = counted(uninterrupted[1], (0, 1, 1))
    after = counted(uninterrupted[2], (1, 1, 1))
    assert not rounds_since_interruption([])
    assert not rounds_since_interruption([uninterrupted[0], interrupted])
    assert rounds_since_interruption([uninterrupted[0], interrupted, after]) == [after]
    assert rounds_since_interruption(uninterrupted) == uninterrupted


@pytest.mark.parametrize(
    ("counts", "values"),
    [
        ((), ()),
        (((0, 0, 0), (0, 0, 0)), ()),
        (((2, 2, 2), (2, 2, 2)), ()),
        (((0, 0, 0), (1, 1, 1), (1, 1, 1)), (1.5,)),
        (((0, 0, 1), (1, 1, 1)), (1.0,)),
        (((0, 0, 0), (0, 1, 1), (2, 2, 2)), (2.0, 2.5)),
        (((0, 0, 0), (), (0, 0, 0), (), (1, 1, 1)), (4.5,)),
    ],
)
def test_interruptions_are_marked_in_rounds_or_between_them(
    counts: Sequence[Sequence[int]], values: Sequence[float]
) -> None:
    """An interruption within a round is marked at that round; one between rounds half a round before the next."""
    rounds = rounds_of(*[(100,) * len(counts)] * 3)
    marked = [
        counted(measured, count) if count else replace(measured, measurements=(), complete=False)
        for measured, count in zip(rounds, counts, strict=True)
    ]
    assert interruption_marks(marked) == values
