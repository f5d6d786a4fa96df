"""A time line: the samples of all stretches of a phase, one after the other, as columns."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import FIVE_NINES, Measurement, Sample, percentile_response_us
from snia_pts.model.steps import ContinuousStimulus
from snia_pts.model.time_series import TimeLine
from snia_pts.units import KIB
from tests.courses import ScriptedDrive, noisy
from tests.strategies import CLOCKING, measurement, sample, stimulus, transfers


def line() -> TimeLine:
    return TimeLine(phase="PC", part="", stimulus=stimulus())


def taken(
    stretches: list[ContinuousStimulus], drive: ScriptedDrive
) -> tuple[TimeLine, list[Sample], list[Measurement]]:
    """Return the time line of some stretches that a drive answers, with the samples and wholes it was made of."""
    made, samples, wholes = line(), [], []
    for step in stretches:
        *cut, whole = drive(step)
        assert isinstance(whole, Measurement)
        here = [part for part in cut if isinstance(part, Sample)]
        made.add(here, whole)
        samples += here
        wholes.append(whole)
    return made, samples, wholes


@st.composite
def cut_stretches(draw: st.DrawFn) -> list[ContinuousStimulus]:
    """Draw stretches of one minute to some, cut into samples, mixed or not, some ended by a limit."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        changes = {"seconds": draw(st.integers(60, 400)), "read_percent": draw(st.sampled_from([0, 40, 65, 100]))}
        limit = draw(st.none() | st.integers(1, 4 * 10**5))
        request = stimulus(**changes, limit_bytes=limit and limit * 4 * KIB)
        found.append(ContinuousStimulus(phase="PC", stimulus=request, sample_seconds=60))
    return found


@given(cut_stretches(), st.integers(0, 10**6))
def test_columns_add_up_to_the_measurements(stretches: list[ContinuousStimulus], seed: int) -> None:
    """Whatever the stretches, the columns' sums are the measurements' counts, and rows are the samples in order."""
    made, samples, wholes = taken(stretches, ScriptedDrive(noisy(seed, 0.9)))

    assert len(made) == len(samples)
    assert list(made.write_ios) == [item.write_ios for item in samples]
    assert sum(made.read_ios) == sum(whole_value.read.ios for whole_value in wholes)
    assert sum(made.write_ios) == sum(entry.write.ios for entry in wholes)
    assert sum(made.read_bytes) == sum(each.read.transferred_bytes for each in wholes)
    assert made.written_bytes == sum(each.write.transferred_bytes for each in wholes)
    assert list(made.written_by_sample()) == list(accumulate(made.write_bytes))
    assert made.measurements == wholes
    assert (made.engine_starts, made.complete) == (len(stretches), True)


@given(cut_stretches(), st.integers(0, 10**6))
def test_rates_are_the_samples_own(stretches: list[ContinuousStimulus], seed: int) -> None:
    """IOPS and MB/s of a row are those of its sample."""
    made, samples, _ = taken(stretches, ScriptedDrive(noisy(seed, 0.9)))

    assert made.iops == pytest.approx([item.iops for item in samples], nan_ok=True)
    assert made.mb_per_second == pytest.approx([entry.mb_per_second for entry in samples], nan_ok=True)


@given(cut_stretches(), st.integers(0, 10**6), st.lists(st.floats(0, 900), min_size=5, max_size=5))
def test_time_between_stretches_counts(stretches: list[ContinuousStimulus], seed: int, pauses: list[float]) -> None:
    """A sample ends when it did on the clock of the first stretch's I/O: what lay between stretches is not left out."""
    made, drive, began, expected, now = line(), ScriptedDrive(noisy(seed, 0.9)), None, [], 1000.0
    for step, pause in zip(stretches, pauses, strict=False):
        *cut, whole = drive(step)
        assert isinstance(whole, Measurement)
        samples = [part for part in cut if isinstance(part, Sample)]
        now += pause
        began = now if began is None else began
        expected += [now - began + item.ended_seconds for item in samples]
        now += whole.runtime_ms / 1000
        made.add(samples, replace(whole, timing=replace(whole.timing, ended_monotonic_ns=round(1e9 * now))))

    assert list(made.ended_seconds) == pytest.approx(expected, abs=1e-5)
    assert all(one <= other + 1e-5 for one, other in pairwise(made.ended_seconds))


@given(st.lists(st.integers(0, 10**5), min_size=1, max_size=5))
def test_a_stretch_that_is_not_cut_is_a_row(ios: list[int]) -> None:
    """Stretches without samples are a row each, with their whole counts, time and response times."""
    made = line()
    wholes = [measurement(write=transfers(io, runtime_ms=5000, response_max_ns=7000)) for io in ios]
    for whole in wholes:
        made.add((), whole)

    assert list(made.write_ios) == ios
    assert list(made.seconds) == [5.0] * len(ios)
    assert made.written_bytes == sum(ios) * 4 * KIB
    assert list(made.maximum_response_us) == [7.0] * len(ios)
    assert made.engine_starts == len(ios)


def test_a_row_of_a_whole_has_its_percentiles() -> None:
    """The percentiles of a stretch that is not cut come from its histogram; nan where it has too few I/Os."""
    made = line()
    bins = Histogram.from_bins(((1000, 9990), (50_000, 10)))
    whole = measurement(write=transfers(10_000, histogram=bins, response_max_ns=60_000))
    made.add((), whole)

    assert made.three_nines_us[0] == percentile_response_us([whole], 99.9) == 1.0
    assert made.four_nines_us[0] == 50.0
    assert math.isnan(made.five_nines_us[0])
    assert percentile_response_us([whole], FIVE_NINES) is None


def test_a_stopped_stretch_follows_the_one_before() -> None:
    """Without its whole a stretch has no clock: its samples follow what was there, and the line is not complete."""
    made = line()
    made.add([sample(1), sample(2)], measurement(write=transfers(2000, runtime_ms=120_000)))
    made.add([sample(1), sample(2)], None)

    assert list(made.ended_seconds) == [60, 120, 180, 240]
    assert not made.complete
    assert len(made.measurements) == 1
    assert made.engine_starts == 2


def test_a_stretch_without_anything() -> None:
    """A stretch that was asked for and never answered is no row, and the line is not complete."""
    made = line()
    made.add((), None)

    assert (len(made), made.complete, made.written_bytes, made.iops) == (0, False, 0, [])


def test_missing_percentiles_are_nan() -> None:
    """A sample with too few I/Os for a percentile has nan there, and its own value elsewhere."""
    made = line()
    made.add([sample(three_nines_us=5.0)], None)

    assert made.three_nines_us[0] == 5.0
    assert math.isnan(made.four_nines_us[0])


def test_histogram_is_merged() -> None:
    """The response times of all stretches are in one histogram."""
    made = line()
    for edge, count in ((10, 5), (20, 7), (10, 1)):
        made.add((), measurement(write=transfers(count, histogram=Histogram.from_bins(((edge, count),)))))

    assert made.histogram.bins == ((10, 6), (20, 7))


def test_an_interruption_takes_no_time_on_the_line() -> None:
    """After a restart of the host its clock begins anew: the line goes on where it was, and then by that clock."""
    made, second = line(), 1_000_000_000

    def whole(began: int, interruptions: int) -> Measurement:
        clocking = replace(
            CLOCKING,
            started_monotonic_ns=began * second,
            ended_monotonic_ns=(began + 1) * second,
            interruptions=interruptions,
        )
        return replace(measurement(write=transfers(10, runtime_ms=1000)), timing=clocking)

    for began, interruptions in ((500, 0), (502, 0), (3, 1), (6, 1)):
        made.add((), whole(began, interruptions))

    assert list(made.ended_seconds) == [1, 3, 4, 7]


def test_every_sample_is_a_row() -> None:
    """Of a day of seconds the first, the last, the least and the greatest are those of single samples."""
    made = line()
    for second in range(1, 86_401):
        made.add_sample(sample(second, 1000 + second % 977, seconds=1.0, ended_seconds=float(second)))
    made.end(None)

    assert len(made) == 86_400
    assert (made.iops[0], made.iops[-1]) == (1001, 1000 + 86_400 % 977)
    assert (min(made.iops), max(made.iops)) == (1000, 1976)
