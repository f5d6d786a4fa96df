"""Write saturation test (PTS 2.0.2 chapter 10).

Continuous writes to a purged device, without preconditioning::

    Purge
    RND 4 KiB 0/100, or another pattern the standard allows, continuously, in samples of 1 minute
        until 4 x user capacity is written, or 6 hours (1.1: 24 hours) have passed,
        or samples 1, 31, 61, 91, 121, ... are steady over the last 5 of them (unless the operator disables this)
    RND 4 KiB 0/100, 20 minutes: response time histogram (2.0.2, section 10.2.4)
"""

from __future__ import annotations

from ..model.dut import Dut
from ..model.steps import Purge
from ..spec import WriteSaturationSpec
from .histogram import require_histogram, response_histogram
from .protocol import Procedure
from .ranges import pattern_stimulus
from .sampled_steady_state import SaturationEnd, run_until_steady


def write_saturation(spec: WriteSaturationSpec, dut: Dut) -> Procedure[SaturationEnd]:
    """Yield the steps of the write saturation test of ``dut``; return what ended its stimulus.

    Raises TargetUnfit before the first step if ``dut`` cannot run the stimulus or the histogram.
    """
    setup = spec.setup
    stimulus = pattern_stimulus(
        spec.pattern,
        dut,
        setup.active_range_percent,
        read_percent=spec.pattern.read_percent,
        thread_count=setup.thread_count,
        queue_depth=setup.queue_depth,
        seconds=spec.settling.sample_seconds,
    )
    require_histogram(spec.histogram, dut, setup.active_range_percent)
    yield Purge()
    end = yield from run_until_steady(
        stimulus,
        spec.settling,
        phase="stimulus",
        max_samples=max(1, int(round(spec.saturation.seconds / spec.settling.sample_seconds, 6))),
        max_written_bytes=round(spec.saturation.capacities * dut.capacity_bytes),
        until_steady=spec.saturation.until_steady,
    )
    yield from response_histogram(spec.histogram, dut, setup.active_range_percent)
    return end
