"""The response time histogram that follows a test loop (PTS 2.0.2 sections 9.2 and 10.2.4)."""

from __future__ import annotations

from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Stimulus
from ..spec import ResponseHistogram
from .protocol import Procedure, run_continuous
from .ranges import active_range_bytes, require_range, require_sectors


def response_histogram(spec: ResponseHistogram | None, dut: Dut, active_range_percent: int) -> Procedure[None]:
    """Request one continuous stimulus for the histogram; do nothing if the specification has no histogram."""
    if spec is None:
        return
    stimulus = Stimulus(
        access="RND",
        read_percent=spec.read_percent,
        block_size_bytes=spec.block_size_bytes,
        thread_count=spec.thread_count,
        queue_depth=spec.queue_depth,
        range_offset_bytes=0,
        range_bytes=active_range_bytes(dut, active_range_percent, spec.block_size_bytes),
        seconds=spec.seconds,
    )
    yield from run_continuous(ContinuousStimulus(phase="histogram", stimulus=stimulus))


def require_histogram(spec: ResponseHistogram | None, dut: Dut, active_range_percent: int) -> None:
    """Raise TargetUnfit if ``dut`` cannot run the histogram's stimulus."""
    if spec is not None:
        require_sectors(dut, [spec.block_size_bytes], "the histogram")
        require_range(dut, active_range_percent, spec.block_size_bytes)
