"""The tests of the standard, and workload profiles, one small file each, as generators that yield steps.

A procedure yields a Step and receives the outcomes of that step: one PurgeOutcome for a Purge, one Measurement for each
stimulus of a Round, Samples and then the total Measurement for a ContinuousStimulus, one IdleOutcome for an Idle, one
PrepareOutcome for a Prepare.  It uses no clock, file, process or randomness.  The component that answers determines the
kind of run: the laboratory (a run), the journal (a re-assessment), the estimator (a plan).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..model.dut import Dut
from ..spec import (
    CrossStimulusSpec,
    DemandSpec,
    HostIdleSpec,
    IopsSpec,
    LatencySpec,
    ProfileSpec,
    Spec,
    ThroughputSpec,
    WriteSaturationSpec,
)
from .cross_stimulus_recovery import cross_stimulus_recovery
from .demand_intensity import demand_intensity
from .host_idle_recovery import host_idle_recovery
from .iops import iops
from .latency import latency
from .points import NamedPoint
from .profile import points as profile_points
from .profile import profile
from .protocol import Answer, Procedure, drive
from .sampled_steady_state import SaturationEnd
from .throughput import throughput
from .write_saturation import write_saturation

__all__ = [
    "NAMED_POINTS",
    "PROCEDURES",
    "Answer",
    "Conclusion",
    "NamedPoint",
    "Procedure",
    "drive",
    "named_points",
    "procedure",
]

#: The return value of a procedure: why the stimulus of write saturation ended, or None for every other test.
Conclusion = SaturationEnd | None


#: The procedure of each type of specification.  Whatever runs beside the standard adds its own.
PROCEDURES: dict[type[Spec], Callable[[Any, Dut], Procedure[Conclusion]]] = {
    IopsSpec: iops,
    ThroughputSpec: throughput,
    LatencySpec: latency,
    WriteSaturationSpec: write_saturation,
    HostIdleSpec: host_idle_recovery,
    CrossStimulusSpec: cross_stimulus_recovery,
    DemandSpec: demand_intensity,
    ProfileSpec: profile,
}
#: The named points of each type of specification whose rounds are repeats.
NAMED_POINTS: dict[type[Spec], Callable[[Any, Dut], Sequence[NamedPoint]]] = {ProfileSpec: profile_points}


def procedure(spec: Spec, dut: Dut) -> Procedure[Conclusion]:
    """Return the procedure of a test.  The procedure may raise TargetUnfit before its first step."""
    return PROCEDURES[type(spec)](spec, dut)


def named_points(spec: Spec, dut: Dut) -> Sequence[NamedPoint]:
    """Return the points that have names before the run, in order of a repeat; empty if rounds are not repeats.

    Raises TargetUnfit if a point does not fit ``dut``.
    """
    points = NAMED_POINTS.get(type(spec))
    return points(spec, dut) if points else ()
