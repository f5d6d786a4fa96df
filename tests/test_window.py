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
    """Variables that were each steady once, in different windows, are not steady."""
    rounds = rounds_of(*APART)
    windows = [last_window(rounds[:last], rule()) for last in range(5, 12)]
    alone = [
        next(last for last in range(5, 12) if determine(series[last - 5 : last], rule()).steady) for series in APART
    ]

    assert alone == [5, 7, 5]
    assert [window.steady for window in windows if window] == [False] * 6 + [True]


def test_window_has_a_determination_for_each_variable() -> None:
    """The determinations stand in the specification's order, over the window's true round numbers."""
    window = last_window(rounds_of(*APART), rule())

    assert window is not None
    assert window.numbers == (7, 8, 9, 10, 11)
    assert tuple(tracked for tracked, _ in window.determinations) == rule().tracked
    assert [state.average for _, state in window.determinations] == [150, 100, 100]
    assert {state.rounds for _, state in window.determinations} == {window.numbers}


@pytest.mark.parametrize("count", range(5))
def test_no_window_before_round_five(count: int) -> None:
    """Fewer than five rounds make no window."""
    assert last_window(rounds_of([1] * count, [1] * count, [1] * count), rule()) is None


def test_window_is_of_consecutive_rounds() -> None:
    """A window over a missing, doubled or reversed round is refused."""
    rounds = rounds_of(*APART)
    for broken in (rounds[:8] + rounds[9:], [rounds[0], *rounds[:4]], rounds[::-1]):
        with pytest.raises(ValueError, match="consecutive"):
            last_window(broken, rule())


def test_window_is_of_complete_rounds() -> None:
    """A round that was cut off is in no window, even if all tracked variables were measured."""
    rounds = rounds_of(*APART)
    with pytest.raises(ValueError, match="complete"):
        last_window([*rounds[:-1], replace(rounds[-1], complete=False)], rule())
    assert last_window([replace(rounds[0], complete=False), *rounds[1:]], rule()) is not None


# -- samples that stand for rounds -----------------------------------------------------------------------------------


def settling(**changes: Any) -> SampledSteadyStateRule:
    """Return the rule of write saturation, with changes."""
    found = spec_of("wsat").settling
    assert isinstance(found, SampledSteadyStateRule)
    return replace(found, **changes)


def judged(samples: Iterable[Sample], rule_of: SampledSteadyStateRule, before: int = 0) -> list[SampledRound]:
    """Return the rounds that samples of one stretch stand for."""
    return [found for item in samples if (found := sampled_round(before, item, rule_of, 1.0)) is not None]


@given(st.integers(0, 800))
def test_minutes_that_stand_for_rounds(count: int) -> None:
    """Minutes 1, 31, 61, 91, 121, ... are rounds 1, 2, 3, 4, 5, ..., and no other minute is."""
    found = judged(map(sample, range(1, count + 1)), settling())

    assert [entry.minute for entry in found] == list(range(1, count + 1, 30))
    assert [item.number for item in found] == list(range(1, len(found) + 1))
    assert [each.sample.number for each in found] == [each.minute for each in found]


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 500))
def test_phase_and_stride_are_the_rule_s(first: int, stride: int, count: int) -> None:
    """Other phases and strides count otherwise, and so many samples as the rule says make so many rounds."""
    rule_of = settling(first_sample=first, stride_samples=stride)
    numbered = map(sample, range(1, count + 1))

    assert [item.sample.number for item in judged(numbered, rule_of)] == list(range(first, count + 1, stride))
    for rounds in range(1, 6):
        enough = rule_of.samples(rounds)
        assert len(judged(map(sample, range(1, enough + 1)), rule_of)) == rounds
        assert len(judged(map(sample, range(1, enough)), rule_of)) == rounds - 1


def test_five_rounds_take_121_minutes() -> None:
    """Five rounds are there after minute 121, 25 after 721."""
    assert (settling().samples(5), settling().samples(25)) == (121, 721)


@pytest.mark.parametrize(
    ("seconds", "stands"),
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
def test_a_sample_cut_short_stands_for_none(seconds: float, stands: bool) -> None:
    """Half a sample or less, or half as long again, is no round; one that was cut a little early or late is one."""
    assert bool(judged([sample(31, seconds=seconds)], settling())) is stands


def test_samples_of_another_length() -> None:
    """Of samples of 30 seconds the 31st ends after 15.5 minutes."""
    (found,) = judged([sample(31, seconds=30.0, ended_seconds=930.0)], settling(sample_seconds=30.0))

    assert (found.number, found.minute) == (2, 15.5)


def test_a_sampled_round_has_the_sample_s_value() -> None:
    """A tracked variable of a round that a sample stands for is read from that sample alone."""
    (found,) = judged([sample(1, write_ios=120, read_ios=60)], settling())
    (tracked,) = settling().tracked

    assert found.value(tracked) == 3
    assert found.complete


def test_time_tells_which_sample_stands_for_a_round() -> None:
    """Where a halt swallowed samples, the sample that ended at minute 61 is the 61st, whatever its place."""
    (found,) = judged([sample(40, ended_seconds=61 * 60 - 3.0)], settling())

    assert (found.number, found.minute) == (3, 61)
    assert judged([sample(61, ended_seconds=70 * 60)], settling()) == []
    (later,) = judged([sample(30)], settling(), before=121)
    assert (later.number, later.minute) == (6, 151)


def test_a_missing_round_breaks_the_window() -> None:
    """A window is made of consecutive samples: after a hole it begins anew."""
    rounds = judged((sample(31 + 30 * place, write_ios=1000) for place in range(9)), settling())
    holed = [item for item in rounds if item.number != 5]

    assert sampled_window(rounds, settling()) is not None
    assert sampled_window(holed, settling()) is not None
    assert sampled_window(holed[:-1], settling()) is None
    assert sampled_window([], settling()) is None


@given(st.sets(st.integers(1, 25)))
def test_a_window_of_samples_holds_consecutive_rounds_only(stand: set[int]) -> None:
    """Whichever samples stand for none: a window is the five rounds up to the last, or there is none."""
    rounds = judged((sample(1 + 30 * (number - 1)) for number in sorted(stand)), settling())
    last = max(stand, default=0)
    whole = set(range(last - 4, last + 1)) <= stand
    window = sampled_window(rounds, settling())

    assert (window.numbers if window else None) == (tuple(range(last - 4, last + 1)) if whole else None)
    taken = [consecutive_round.number for consecutive_round in consecutive_rounds(rounds, settling())]
    assert taken == list(range(last - len(taken) + 1, last + 1))
    assert len(taken) == 5 if whole else last - len(taken) not in stand


def test_a_window_looks_at_its_own_rounds_alone() -> None:
    """However many rounds came before, they cost nothing: none of them is looked at."""
    past: list[Any] = [None] * 1000
    rounds = rounds_of(*APART)[-5:]
    sampled = judged((sample(1 + 30 * place) for place in range(5)), settling())

    assert last_window(rounds, rule()) == last_window([*past, *rounds], rule()) is not None
    assert sampled_window(sampled, settling()) == sampled_window([*past, *sampled], settling()) is not None


# -- interrupted ------------------------------------------------------------------------------------------------------


def counted(measured: MeasuredRound, counts: Sequence[int]) -> MeasuredRound:
    """Return a round before whose points the run was interrupted so often each."""
    found = zip(measured.measurements, counts, strict=True)
    return replace(
        measured,
        measurements=tuple(replace(item, timing=replace(item.timing, interruptions=count)) for item, count in found),
    )


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=1, max_size=12))
def test_a_window_lies_wholly_after_the_last_interruption(stops: list[tuple[int, int, int]]) -> None:
    """Whenever the run was stopped, before whatever point: a window's points all have the same number behind them."""
    rounds, count = [], 0
    for measured, before in zip(rounds_of(*[(100,) * len(stops)] * 3), stops, strict=True):
        counts = []
        for stopped in before:
            count += stopped
            counts.append(count)
        rounds.append(counted(measured, counts))

    window = last_window(rounds, rule())

    since = [measured for measured in rounds if measured.interruptions == {count}]
    assert (window is not None) == (len(since) >= 5 and rounds[-1].interruptions == {count})
    if window is not None:
        assert window.numbers == tuple(measured.number for measured in since[-5:])


def test_a_round_that_was_broken_off_is_in_no_window() -> None:
    """Neither alone nor with what comes after it; the round after it may be the first of a window."""
    plain = rounds_of(*[(100,) * 11] * 3)
    rounds = [*plain[:4], counted(plain[4], (0, 1, 1)), *(counted(item, (1, 1, 1)) for item in plain[5:])]
    windows = [last_window(rounds[:last], rule()) for last in range(1, 12)]
    assert [window.numbers if window else None for window in windows] == [
        *[None] * 9,
        (6, 7, 8, 9, 10),
        (7, 8, 9, 10, 11),
    ]


def test_samples_before_an_interruption_are_in_no_window() -> None:
    """What is judged on samples follows the same rule."""
    rounds = [
        SampledRound(number=number, minute=float(number), fills=1.0, sample=sample(1, interruptions=number // 4))
        for number in range(1, 10)
    ]
    rule_of = settling()
    windows = [sampled_window(rounds[:last], rule_of) for last in range(1, 10)]
    assert windows == [None] * 9
    rounds = [replace(item, sample=sample(1, interruptions=1 if item.number > 2 else 0)) for item in rounds]
    assert [window.numbers if window else None for window in (sampled_window(rounds[:7], rule_of),)] == [
        (3, 4, 5, 6, 7)
    ]
    assert sampled_window(rounds[:6], rule_of) is None


def test_rounds_that_were_broken_off_are_no_beginning() -> None:
    """What holds an interruption is followed by rounds that count, and counts for none itself."""
    plain = rounds_of(*[(100,) * 3] * 3)
    broken = counted(plain[1], (0, 1, 1))
    after = counted(plain[2], (1, 1, 1))
    assert not rounds_since_interruption([])
    assert not rounds_since_interruption([plain[0], broken])
    assert rounds_since_interruption([plain[0], broken, after]) == [after]
    assert rounds_since_interruption(plain) == plain


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
def test_breaks_lie_in_rounds_or_between_them(counts: Sequence[Sequence[int]], values: Sequence[float]) -> None:
    """An interruption lies in the round before one of whose points it was, or half a round before the next."""
    rounds = rounds_of(*[(100,) * len(counts)] * 3)
    marked = [
        counted(item, count) if count else replace(item, measurements=(), complete=False)
        for item, count in zip(rounds, counts, strict=True)
    ]
    assert interruption_marks(marked) == values
