"""The tests of the standard, and workload profiles, one small file each, as generators that ask for steps.

A procedure yields the Step it wants and receives the outcomes of that step: one Purged for a Purge, one Measurement for
each stimulus of a Round, Samples and the Measurement of the whole for a Stretch, one Idled for an Idle, one Prepared
for a Prepare.  It holds no clock, file, process or randomness.  Whoever answers decides what the run is: the laboratory
(a run), the journal (a re-assessment), the estimator (a plan).
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
from .asking import Answer, Procedure, drive
from .cross_stimulus_recovery import cross_stimulus_recovery
from .demand_intensity import demand_intensity
from .host_idle_recovery import host_idle_recovery
from .iops import iops
from .latency import latency
from .profile import Point, points, profile
from .sampled_steady_state import SaturationEnd
from .throughput import throughput
from .write_saturation import write_saturation

__all__ = ["Answer", "Conclusion", "Point", "Procedure", "drive", "points", "procedure"]

#: What a procedure concludes with: why the stimulus of write saturation ended; nothing elsewhere.
Conclusion = SaturationEnd | None


def procedure(spec: Spec, dut: Dut) -> Procedure[Conclusion]:
    """Return the procedure of a test.  It may raise TargetUnfit before its first step."""
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
