"""Complete tests of the standard on a simulated drive, and the effects of its faults."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snia_pts.errors import DeviceFailed, PurgeFailed
from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.preset import Faults, Preset, preset_names, read_preset, simulated_dut
from snia_pts.model.measurement import IdleOutcome, Measurement, PurgeOutcome, Sample
from snia_pts.model.steps import ContinuousStimulus, Idle, Purge, Stimulus
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.result import TestResult
from snia_pts.runner.session import run
from snia_pts.spec import SPEC_TYPES
from snia_pts.spec.reader import read_specification
from tests import samples

STARTED = datetime.datetime(2026, 11, 3, 12, tzinfo=datetime.UTC)
TESTS = tuple(SPEC_TYPES)
#: Fewer points, with those that the rules of steady state track.
FEW_POINTS: dict[str, Sequence[tuple[str, Any]]] = {
    "iops": [("rounds.read_percents", [100, 65, 0]), ("rounds.block_sizes_kib", [1024, 64, 4])],
    "dirth": [("demand.thread_counts", [32, 1]), ("demand.queue_depths", [32, 1])],
}


def laboratory(tmp_path: Path, preset: Preset, seed: int = 1) -> SimulatedLaboratory:
    evidence = tmp_path / "evidence"
    evidence.mkdir(parents=True, exist_ok=True)
    return SimulatedLaboratory(preset, seed=seed, evidence=evidence, started=STARTED)


def perform(
    tmp_path: Path, test: str, preset: Preset, overrides: Sequence[tuple[str, Any]] = ()
) -> tuple[TestResult, RunFolder]:
    """Run a complete test; return its result and its run folder."""
    folder = RunFolder.create(tmp_path / test)
    specification = read_specification(test, "2.0.2", "enterprise", overrides=overrides)
    facts = samples.run_facts(specification.spec, device=simulated_dut("x", preset), found=specification.deviations)
    simulated = SimulatedLaboratory(preset, seed=1, evidence=folder.evidence, started=STARTED)
    return run(facts, simulated.perform, folder, lambda _: None, durable=False), folder


def faulty(**faults: object) -> Preset:
    return dataclasses.replace(read_preset("enterprise-nvme"), faults=Faults(**faults))  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("test", ["iops", "wsat", "dirth"])
def test_a_drifting_drive_is_not_steady(test: str, tmp_path: Path) -> None:
    """If the speed drifts by more than the rule allows, the test finishes and reports that it is not steady."""
    result, _ = perform(tmp_path, test, faulty(drift_percent=70), FEW_POINTS.get(test, ()))
    assert result.ending == "finished"
    assert not result.steady
    assert "NOT ACHIEVED" in result.verdict
    for loop in result.loops:
        assert loop.window is not None


@pytest.mark.long_but_first
@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("test", TESTS)
def test_a_failing_drive_ends_the_test(test: str, hangs: bool, tmp_path: Path) -> None:
    """An I/O error or a hang is a device failure; the run keeps what was measured before and is incomplete."""
    after = 7.75e12
    preset = faulty(**{"hang_after_bytes" if hangs else "error_after_bytes": after})
    with pytest.raises(DeviceFailed):
        perform(tmp_path, test, preset)
    result = assess(RunFolder.existing(tmp_path / test))
    assert result.ending == "device failed"
    assert result.verdict == "INCOMPLETE (device failed)"
    assert 0 < result.written_bytes + result.read_bytes <= after


@pytest.mark.parametrize("test", TESTS)
def test_a_purge_that_keeps_data_ends_the_test(test: str, tmp_path: Path) -> None:
    """If the purge reports success but keeps the data, the test fails before the first measurement."""
    with pytest.raises(PurgeFailed):
        perform(tmp_path, test, faulty(purge_keeps_data=True))
    result = assess(RunFolder.existing(tmp_path / test))
    assert not list(result.measurements)


@pytest.mark.long
def test_throttling_is_visible_in_the_time_line(tmp_path: Path) -> None:
    """A drive that throttles by 50 % during write saturation has half its IOPS from then on."""
    result, _ = perform(tmp_path, "wsat", faulty(throttle_percent=50, throttle_after_bytes=2e12))
    unthrottled, _ = perform(tmp_path / "plain", "wsat", read_preset("enterprise-nvme"))
    throttled, line = result.time_line("stimulus"), unthrottled.time_line("stimulus")
    assert throttled is not None
    assert line is not None
    minute = next(index for index, written in enumerate(accumulate(throttled.write_bytes)) if written > 2.3e12)
    assert throttled.iops[minute] == pytest.approx(0.5 * line.iops[0], rel=0.15)


@pytest.mark.long
def test_the_same_seed_gives_the_same_journal(tmp_path: Path) -> None:
    """The journals of two runs with one seed are identical except for the end entry."""
    preset = read_preset("client-qlc")
    first, second = (perform(tmp_path / str(number), "latency", preset)[1] for number in range(2))
    lines = [folder.journal.read_bytes().splitlines()[:-1] for folder in (first, second)]
    assert lines[0] == lines[1]


def test_each_kind_of_step_gives_its_outcomes(tmp_path: Path) -> None:
    """A purge and an idle time give one outcome each; a stimulus gives its samples and a measurement, their sum."""
    preset = read_preset("enterprise-sata")
    simulated = laboratory(tmp_path, preset)
    stimulus = Stimulus(
        access="RND",
        read_percent=65,
        block_size_bytes=8192,
        thread_count=4,
        queue_depth=32,
        range_offset_bytes=0,
        range_bytes=preset.drive.capacity_bytes,
        seconds=330.0,
    )
    (purged,) = simulated.perform(Purge())
    *outcomes, whole = simulated.perform(ContinuousStimulus(phase="stimulus", stimulus=stimulus, sample_seconds=60.0))
    cut = [outcome for outcome in outcomes if isinstance(outcome, Sample)]
    (idled,) = simulated.perform(Idle(seconds=25.0))
    (after,) = simulated.perform(
        ContinuousStimulus(phase="access A", stimulus=dataclasses.replace(stimulus, seconds=5.0))
    )
    assert isinstance(purged, PurgeOutcome)
    assert isinstance(idled, IdleOutcome)
    assert isinstance(whole, Measurement)
    assert isinstance(after, Measurement)
    assert len(cut) == len(outcomes)
    assert [sample.number for sample in cut] == [1, 2, 3, 4, 5, 6]
    assert cut[-1].seconds == pytest.approx(30.0)
    assert sum(sample.ios for sample in cut) == whole.ios
    assert sum(sample.write_bytes for sample in cut) == whole.write.transferred_bytes
    assert whole.histogram.count == whole.ios
    assert after.timing.idle_gap_ms == pytest.approx(25_000.0)


def test_a_limit_ends_a_continuous_stimulus(tmp_path: Path) -> None:
    """A stimulus with a byte limit ends with the block that reaches it; its last sample is shorter."""
    preset = read_preset("enterprise-nvme")
    simulated = laboratory(tmp_path, preset)
    limit = 10**11 // 4096 * 4096
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=4,
        queue_depth=32,
        range_offset_bytes=0,
        range_bytes=preset.drive.capacity_bytes,
        seconds=3600.0,
        limit_bytes=limit,
    )
    *cut, whole = simulated.perform(ContinuousStimulus(phase="stimulus", stimulus=stimulus, sample_seconds=10.0))
    assert isinstance(whole, Measurement)
    assert 0 <= whole.write.transferred_bytes - limit <= 4096
    assert len(cut) < 360
    assert isinstance(cut[-1], Sample)
    assert cut[-1].seconds < 10


def test_preconditioning_writes_every_byte(tmp_path: Path) -> None:
    """Two passes write exactly twice the capacity, also if that is no multiple of the block size."""
    preset = read_preset("enterprise-sata")
    simulated = laboratory(tmp_path, preset)
    capacity = preset.drive.capacity_bytes
    assert capacity % (128 * 1024)
    stimulus = Stimulus(
        access="SEQ",
        read_percent=0,
        block_size_bytes=128 * 1024,
        thread_count=1,
        queue_depth=32,
        range_offset_bytes=0,
        range_bytes=capacity,
        passes=2,
    )
    (whole,) = simulated.perform(ContinuousStimulus(phase="WIPC", stimulus=stimulus))
    assert isinstance(whole, Measurement)
    assert whole.write.transferred_bytes == 2 * capacity
    assert simulated.now() > STARTED + datetime.timedelta(seconds=2 * capacity / 600e6)


def faults() -> st.SearchStrategy[Faults]:
    """Draw no fault, or one."""
    bytes_moved = st.floats(1e9, 2e13)
    return st.one_of(
        st.just(Faults()),
        st.builds(Faults, drift_percent=st.floats(1, 90)),
        st.builds(Faults, throttle_percent=st.floats(1, 99), throttle_after_bytes=bytes_moved),
        st.builds(Faults, error_after_bytes=bytes_moved),
        st.builds(Faults, hang_after_bytes=bytes_moved),
        st.builds(Faults, purge_keeps_data=st.just(True)),
    )


@pytest.mark.long
@settings(deadline=None, max_examples=8)
@given(
    test=st.sampled_from(["iops", "throughput", "latency", "wsat", "xsr"]),
    name=st.sampled_from(preset_names()),
    drawn_faults=faults(),
    seed=st.integers(0, 2**32),
    pts=st.sampled_from(["2.0.2", "1.1"]),
)
def test_the_journal_gives_the_same_result_with_any_fault(
    tmp_path_factory: pytest.TempPathFactory, test: str, name: str, drawn_faults: Faults, seed: int, pts: str
) -> None:
    """With any drive, seed and fault a test finishes or fails with that fault; its journal gives the same result."""
    preset = dataclasses.replace(read_preset(name), faults=drawn_faults)
    folder = RunFolder.create(tmp_path_factory.mktemp("run") / "run")
    specification = read_specification(test, pts, "enterprise", overrides=FEW_POINTS.get(test, ()))
    facts = samples.run_facts(specification.spec, device=simulated_dut(name, preset), found=specification.deviations)
    simulated = SimulatedLaboratory(preset, seed=seed, evidence=folder.evidence, started=STARTED)
    ending = "finished"
    try:
        result = run(facts, simulated.perform, folder, lambda _: None, now=simulated.now, durable=False)
        assert repr(assess(folder)) == repr(result)  # nan is not equal to itself
    except (DeviceFailed, PurgeFailed):
        ending = "device failed"
        assert drawn_faults.error_after_bytes or drawn_faults.hang_after_bytes or drawn_faults.purge_keeps_data
    assessment = assess(folder)
    assert assessment.ending == ending
    if assessment.steady and assessment.ending == "finished":
        assert assessment.verdict.startswith(("STEADY STATE", "COMPLETE"))
    limit = drawn_faults.error_after_bytes or drawn_faults.hang_after_bytes
    assert not limit or assessment.written_bytes + assessment.read_bytes <= limit
