"""A plan's bounds for a simulated drive, compared with the time and bytes of its rehearsal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.preset import Faults, Preset, preset_names, read_preset, simulated_dut
from snia_pts.model.measurement import Measurement, Outcome, PurgeOutcome
from snia_pts.model.steps import Step
from snia_pts.procedures import drive, procedure
from snia_pts.procedures.estimator import Assumptions, Plan, plan
from tests.strategies import spec_of

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
#: Short tests: points of a second, the first half hour of each Access Group.
SHORTENED: dict[str, dict[str, Any]] = {
    "iops": {"rounds__point_seconds": 1, "rounds__maximum": 6},
    "throughput": {"rounds__point_seconds": 10},
    "wsat": {"settling__stride_samples": 5},
    "hir": {"settling__stride_samples": 2, "wait_states__cycles": 2, "wait_states__access_c_seconds": 60},
    "xsr": {"groups__sequence": tuple(replace(item, seconds=1800) for item in spec_of("xsr").groups.sequence)},
    "composite": {
        "settling__stride_samples": 2,
        "demand__thread_counts": (32, 1),
        "demand__queue_depths": (32, 1),
        "demand__pre_write_seconds": 60,
    },
}


def preset_of(name: str, test: str, **faults: Any) -> Preset:
    """Return a preset with the write cache that a test requires."""
    preset = read_preset(name)
    cached = replace(preset.drive, write_cache=spec_of(test).setup.write_cache)
    return replace(preset, drive=cached, faults=Faults(**faults))


def planned(preset: Preset, test: str) -> Plan:
    assumed = Assumptions(speed=preset.speed, overhead_seconds=0)
    return plan(spec_of(test, **SHORTENED[test]), simulated_dut("own", preset), assumed)


def rehearsed(preset: Preset, test: str, seed: int, folder: Path) -> tuple[float, int]:
    """Return the seconds of a rehearsal without its purges, and the bytes that it wrote."""
    laboratory = SimulatedLaboratory(preset, seed=seed, evidence=folder, started=BEGAN)
    outcomes: list[Outcome] = []

    def answered(step: Step) -> Iterator[Outcome]:
        for outcome in laboratory.perform(step):
            outcomes.append(outcome)
            yield outcome

    drive(procedure(spec_of(test, **SHORTENED[test]), simulated_dut("own", preset)), answered)
    purged = sum(item.seconds for item in outcomes if isinstance(item, PurgeOutcome))
    written = sum(entry.write.transferred_bytes for entry in outcomes if isinstance(entry, Measurement))
    return (laboratory.now() - BEGAN).total_seconds() - purged, written


def require_bounded(preset: Preset, test: str, seed: int, folder: Path) -> float:
    """Require a rehearsal within its plan; return the written share of the maximum."""
    planned_test, (seconds, written) = planned(preset, test), rehearsed(preset, test, seed, folder)
    rounding = 1e-6
    assert planned_test.shortest.seconds * (1 - rounding) <= seconds <= planned_test.longest.seconds * (1 + rounding)
    assert written <= planned_test.longest.written_bytes
    return written / planned_test.longest.written_bytes


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "seed", "share"),
    [
        ("iops", 1, 0.5),
        ("throughput", 1, 0.8),
        ("throughput", 2, 0.8),
        ("wsat", 1, 0.1),
        ("hir", 1, 0.05),
        ("xsr", 1, 0.5),
        ("composite", 1, 0.05),
    ],
)
def test_a_rehearsal_stays_within_its_plan(test: str, seed: int, share: float, tmp_path: Path) -> None:
    """It takes neither less nor more time than planned, writes no more, and for some test comes close to the bound."""
    assert require_bounded(preset_of("enterprise-nvme", test), test, seed, tmp_path) > share


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_bounds_its_rehearsal(name: str, tmp_path: Path) -> None:
    """From a hard disk to a drive that writes each block at once, preconditioning takes the planned time."""
    require_bounded(preset_of(name, "throughput"), "throughput", 3, tmp_path)


def test_faults_make_a_plan_longer(tmp_path: Path) -> None:
    """A drive that throttles and drifts takes no longer than its plan, which is longer than without faults."""
    ill = preset_of("enterprise-sata", "throughput", throttle_percent=40, throttle_after_bytes=1.0, drift_percent=30)
    require_bounded(ill, "throughput", 4, tmp_path)
    whole = planned(preset_of("enterprise-sata", "throughput"), "throughput")
    assert planned(ill, "throughput").longest.seconds > whole.longest.seconds
    assert planned(ill, "throughput").longest.written_bytes == whole.longest.written_bytes
