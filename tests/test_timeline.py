"""A time line: the samples of all continuous stimuli of a phase in sequence, as columns."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import FIVE_NINES, Measurement, Sample, percentile_response_us
from snia_pts.model.steps import ContinuousStimulus
from snia_pts.model.time_series import TimeLine
from snia_pts.units import KIB
from tests.procedure_runs import ScriptedDrive, noisy
from tests.strategies import CLOCKING, measurement, sample, stimulus, transfers


def line() -> TimeLine:
    return TimeLine(phase="PC", part="", stimulus=stimulus())


def taken(
    stretches: list[ContinuousStimulus], drive: ScriptedDrive
) -> tuple[TimeLine, list[Sample], list[Measurement]]:
    """Return the time line of some continuous stimuli, with the samples and totals from which it was made."""
    built, samples, wholes = line(), [], []
    for step in stretches:
        *cut, whole = drive(step)
        assert isinstance(whole, Measurement)
        here = [part for part in cut if isinstance(part, Sample)]
        built.add(here, whole)
        samples += here
        wholes.append(whole)
    return built, samples, wholes


@st.composite
def sampled_stimuli(draw: st.DrawFn) -> list[ContinuousStimulus]:
    """Draw continuous stimuli of one to some minutes, with samples, mixed or not, some ended by a limit."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        changes = {"seconds": draw(st.integers(60, 400)), "read_percent": draw(st.sampled_from([0, 40, 65, 100]))}
        limit = draw(st.none() | st.integers(1, 4 * 10**5))
        request = stimulus(**changes, limit_bytes=limit and limit * 4 * KIB)
        found.append(ContinuousStimulus(phase="PC", stimulus=request, sample_seconds=60))
    return found


@given(sampled_stimuli(), st.integers(0, 10**6))
def test_columns_add_up_to_the_measurements(stretches: list[ContinuousStimulus], seed: int) -> None:
    """For any stimuli, the sums of the columns are the measurements' counts, and rows are the samples in order."""
    built, samples, wholes = taken(stretches, ScriptedDrive(noisy(seed, 0.9)))

    assert len(built) == len(samples)
    assert list(built.write_ios) == [item.write_ios for item in samples]
    assert sum(built.read_ios) == sum(whole_value.read.ios for whole_value in wholes)
    assert sum(built.write_ios) == sum(entry.write.ios for entry in wholes)
    assert sum(built.read_bytes) == sum(total.read.transferred_bytes for total in wholes)
    assert built.written_bytes == sum(total.write.transferred_bytes for total in wholes)
    assert built.measurements == wholes
    assert (built.engine_starts, built.complete) == (len(stretches), True)


@given(sampled_stimuli(), st.integers(0, 10**6))
def test_rates_are_those_of_the_sample(stretches: list[ContinuousStimulus], seed: int) -> None:
    """IOPS and MB/s of a row are those of its sample."""
    built, samples, _ = taken(stretches, ScriptedDrive(noisy(seed, 0.9)))

    assert built.iops == pytest.approx([item.iops for item in samples], nan_ok=True)
    assert built.mb_per_second == pytest.approx([entry.mb_per_second for entry in samples], nan_ok=True)


@pytest.mark.long
@given(sampled_stimuli(), st.integers(0, 10**6), st.lists(st.floats(0, 900), min_size=5, max_size=5))
def test_time_between_continuous_stimuli_counts(
    stretches: list[ContinuousStimulus], seed: int, pauses: list[float]
) -> None:
    """A sample's end is on the clock of the first stimulus's I/O: the time between stimuli is included."""
    built, drive, began, expected, now = line(), ScriptedDrive(noisy(seed, 0.9)), None, [], 1000.0
    for step, pause in zip(stretches, pauses, strict=False):
        *cut, whole = drive(step)
        assert isinstance(whole, Measurement)
        samples = [part for part in cut if isinstance(part, Sample)]
        now += pause
        began = now if began is None else began
        expected += [now - began + item.ended_seconds for item in samples]
        now += whole.runtime_ms / 1000
        built.add(samples, replace(whole, timing=replace(whole.timing, ended_monotonic_ns=round(1e9 * now))))

    assert list(built.ended_seconds) == pytest.approx(expected, abs=1e-5)
    assert all(one <= other + 1e-5 for one, other in pairwise(built.ended_seconds))


@given(st.lists(st.integers(0, 10**5), min_size=1, max_size=5))
def test_a_stimulus_without_samples_is_a_row(ios: list[int]) -> None:
    """Its row has its total counts, time and response times."""
    built = line()
    wholes = [measurement(write=transfers(io, runtime_ms=5000, response_max_ns=7000)) for io in ios]
    for whole in wholes:
        built.add((), whole)

    assert list(built.write_ios) == ios
    assert list(built.seconds) == [5.0] * len(ios)
    assert built.written_bytes == sum(ios) * 4 * KIB
    assert list(built.maximum_response_us) == [7.0] * len(ios)
    assert built.engine_starts == len(ios)


def test_a_row_of_a_total_has_its_percentiles() -> None:
    """They come from its histogram; nan if it has too few I/Os."""
    built = line()
    bins = Histogram.from_bins(((1000, 9990), (50_000, 10)))
    whole = measurement(write=transfers(10_000, histogram=bins, response_max_ns=60_000))
    built.add((), whole)

    assert built.three_nines_us[0] == percentile_response_us([whole], 99.9) == 1.0
    assert built.four_nines_us[0] == 50.0
    assert math.isnan(built.five_nines_us[0])
    assert percentile_response_us([whole], FIVE_NINES) is None


def test_a_stopped_stimulus_follows_the_one_before() -> None:
    """Without its total it has no clock: its samples follow the earlier ones, and the line is not complete."""
    built = line()
    built.add([sample(1), sample(2)], measurement(write=transfers(2000, runtime_ms=120_000)))
    built.add([sample(1), sample(2)], None)

    assert list(built.ended_seconds) == [60, 120, 180, 240]
    assert not built.complete
    assert len(built.measurements) == 1
    assert built.engine_starts == 2


def test_a_stimulus_without_outcomes() -> None:
    """It has no row, and the line is not complete."""
    built = line()
    built.add((), None)

    assert (len(built), built.complete, built.written_bytes, built.iops) == (0, False, 0, [])


def test_missing_percentiles_are_nan() -> None:
    """A sample with too few I/Os for a percentile has nan there, and its own value elsewhere."""
    built = line()
    built.add([sample(three_nines_us=5.0)], None)

    assert built.three_nines_us[0] == 5.0
    assert math.isnan(built.four_nines_us[0])


def test_histogram_is_merged() -> None:
    """One histogram has the response times of all stimuli."""
    built = line()
    for edge, count in ((10, 5), (20, 7), (10, 1)):
        built.add((), measurement(write=transfers(count, histogram=Histogram.from_bins(((edge, count),)))))

    assert built.histogram.bins == ((10, 6), (20, 7))


def test_an_interruption_takes_no_time_on_the_line() -> None:
    """After a restart of the host its clock starts again: the line continues at its end, and then by that clock."""
    built, second = line(), 1_000_000_000

    def whole(began: int, interruptions: int) -> Measurement:
        clocking = replace(
            CLOCKING,
            started_monotonic_ns=began * second,
            ended_monotonic_ns=(began + 1) * second,
            interruptions=interruptions,
        )
        return replace(measurement(write=transfers(10, runtime_ms=1000)), timing=clocking)

    for began, interruptions in ((500, 0), (502, 0), (3, 1), (6, 1)):
        built.add((), whole(began, interruptions))

    assert list(built.ended_seconds) == [1, 3, 4, 7]


@pytest.mark.long
def test_every_sample_is_a_row() -> None:
    """In a day of one-second samples, first, last, lowest and highest value are those of single samples."""
    built = line()
    for second in range(1, 86_401):
        built.add_sample(sample(second, 1000 + second % 977, seconds=1.0, ended_seconds=float(second)))
    built.end(None)

    assert len(built) == 86_400
    assert (built.iops[0], built.iops[-1]) == (1001, 1000 + 86_400 % 977)
    assert (min(built.iops), max(built.iops)) == (1000, 1976)
