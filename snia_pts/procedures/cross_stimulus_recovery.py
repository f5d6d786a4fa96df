"""Cross stimulus recovery test (PTS 2.0.2 chapter 12).

Sustained large sequential writes, then small random writes, then large sequential writes, without pauses::

    Purge
    AG 1: SEQ 1024 KiB 0/100, 8 hours
    AG 2: RND 8 KiB 0/100, 6 hours
    AG 3: SEQ 1024 KiB 0/100, 8 hours
    each continuously, in samples of 1 minute
"""

from __future__ import annotations

from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Purge, Stimulus
from ..spec import CrossStimulusSpec
from .protocol import Procedure, run_continuous
from .ranges import active_range_bytes, require_range, require_sectors


def cross_stimulus_recovery(spec: CrossStimulusSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the cross stimulus recovery test of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run one of the stimuli.
    """
    range_percent = spec.setup.active_range_percent
    for group in spec.groups.sequence:
        require_sectors(dut, [group.block_size_bytes], group.name)
        require_range(dut, range_percent, group.block_size_bytes)
    yield Purge()
    for group in spec.groups.sequence:
        stimulus = Stimulus(
            access=group.access,
            read_percent=group.read_percent,
            block_size_bytes=group.block_size_bytes,
            thread_count=group.thread_count,
            queue_depth=group.queue_depth,
            range_offset_bytes=0,
            range_bytes=active_range_bytes(dut, range_percent, group.block_size_bytes),
            seconds=group.seconds,
        )
        sample_seconds = spec.groups.sample_seconds
        yield from run_continuous(
            ContinuousStimulus(part=group.name, phase="stimulus", stimulus=stimulus, sample_seconds=sample_seconds)
        )
