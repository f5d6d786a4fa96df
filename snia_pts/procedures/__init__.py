"""The tests of the standard, one small file each, as generators that yield steps.

A procedure yields a Step and receives the outcomes of that step: one PurgeOutcome for a Purge, one Measurement for each
stimulus of a Round, Samples and then the total Measurement for a ContinuousStimulus, one IdleOutcome for an Idle, one
PrepareOutcome for a Prepare.  It uses no clock, file, process or randomness.  The component that answers determines the
kind of run: the laboratory (a run), the journal (a re-assessment), the estimator (a plan).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from .. import registries
from ..model.dut import Dut
from ..spec import (
    CrossStimulusSpec,
    DemandSpec,
    HostIdleSpec,
    IopsSpec,
    LatencySpec,
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
from .protocol import Answer, Procedure, drive
from .sampled_steady_state import SaturationEnd
from .throughput import throughput
from .write_saturation import write_saturation

__all__ = [
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


#: The procedure of each type of specification of the standard.
PROCEDURES: dict[type[Spec], Callable[[Any, Dut], Procedure[Conclusion]]] = {
    IopsSpec: iops,
    ThroughputSpec: throughput,
    LatencySpec: latency,
    WriteSaturationSpec: write_saturation,
    HostIdleSpec: host_idle_recovery,
    CrossStimulusSpec: cross_stimulus_recovery,
    DemandSpec: demand_intensity,
}


def procedure(spec: Spec, dut: Dut) -> Procedure[Conclusion]:
    """Return the procedure of a test.  The procedure may raise TargetUnfit before its first step."""
    steps = PROCEDURES.get(type(spec)) or registries.load(registries.PROCEDURES, spec.test)
    return cast("Procedure[Conclusion]", steps(spec, dut))


def named_points(spec: Spec, dut: Dut) -> Sequence[NamedPoint]:
    """Return the points that have names before the run, in order of a repeat; empty if rounds are not repeats.

    Raises TargetUnfit if a point does not fit ``dut``.
    """
    if not spec.rounds_are_repeats:
        return ()
    return cast("Sequence[NamedPoint]", registries.load(registries.NAMED_POINTS, spec.test)(spec, dut))
