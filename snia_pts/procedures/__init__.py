"""The tests of the standard, and workload profiles, one small file each, as generators that yield steps.

A procedure yields a Step and receives the outcomes of that step: one PurgeOutcome for a Purge, one Measurement for each
stimulus of a Round, Samples and then the total Measurement for a ContinuousStimulus, one IdleOutcome for an Idle, one
PrepareOutcome for a Prepare.  It uses no clock, file, process or randomness.  The component that answers determines the
kind of run: the laboratory (a run), the journal (a re-assessment), the estimator (a plan).
"""

from __future__ import annotations

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
from .profile import Point, points, profile
from .protocol import Answer, Procedure, drive
from .sampled_steady_state import SaturationEnd
from .throughput import throughput
from .write_saturation import write_saturation

__all__ = ["Answer", "Conclusion", "Point", "Procedure", "drive", "points", "procedure"]

#: The return value of a procedure: why the stimulus of write saturation ended, or None for every other test.
Conclusion = SaturationEnd | None


def procedure(spec: Spec, dut: Dut) -> Procedure[Conclusion]:
    """Return the procedure of a test.  The procedure may raise TargetUnfit before its first step."""
    match spec:
        case IopsSpec():
            return iops(spec, dut)
        case ThroughputSpec():
            return throughput(spec, dut)
        case LatencySpec():
            return latency(spec, dut)
        case WriteSaturationSpec():
            return write_saturation(spec, dut)
        case HostIdleSpec():
            return host_idle_recovery(spec, dut)
        case CrossStimulusSpec():
            return cross_stimulus_recovery(spec, dut)
        case DemandSpec():
            return demand_intensity(spec, dut)
        case ProfileSpec():
            return profile(spec, dut)
    raise TypeError(f"{spec.test} has no procedure")
