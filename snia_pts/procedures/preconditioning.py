"""Purge and workload independent preconditioning (WIPC): the start of the IOPS, throughput and latency tests."""

from __future__ import annotations

from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Purge, Stimulus
from ..spec import RoundsSpec
from .protocol import Procedure, run_continuous
from .ranges import active_range_bytes, require_range, require_sectors


def purge_and_precondition(spec: RoundsSpec, dut: Dut, block_size_bytes: int, *, part: str = "") -> Procedure[None]:
    """Purge (PTS 2.0.2 section 3.2), then WIPC: sequential writes of twice the user capacity (section 3.3)."""
    yield Purge(part=part)
    yield from run_continuous(ContinuousStimulus(part=part, phase="WIPC", stimulus=wipc(spec, dut, block_size_bytes)))


def wipc(spec: RoundsSpec, dut: Dut, block_size_bytes: int) -> Stimulus:
    """Return the stimulus of WIPC: writes of a multiple of the user capacity, in passes over the entire ActiveRange.

    2 x user capacity are 2.67 passes over an ActiveRange of 75 %.  The amount is rounded up to whole blocks.
    """
    demand, amount_bytes = spec.wipc_demand, spec.preconditioning.capacities * dut.capacity_bytes
    range_bytes = active_range_bytes(dut, spec.setup.active_range_percent, block_size_bytes)
    whole_passes, remainder_bytes = divmod(amount_bytes, range_bytes)
    limit_bytes = -(-amount_bytes // block_size_bytes) * block_size_bytes
    is_partial = remainder_bytes and limit_bytes < (whole_passes + 1) * range_bytes
    return Stimulus(
        access="SEQ",
        read_percent=0,
        block_size_bytes=block_size_bytes,
        thread_count=demand.thread_count,
        queue_depth=demand.queue_depth,
        range_offset_bytes=0,
        range_bytes=range_bytes,
        passes=whole_passes + 1 if remainder_bytes else whole_passes,
        limit_bytes=limit_bytes if is_partial else None,
    )


def require_preconditioning(spec: RoundsSpec, dut: Dut, block_size_bytes: int) -> None:
    """Raise TargetUnfit if ``dut`` cannot run the preconditioning."""
    require_sectors(dut, [block_size_bytes], "preconditioning")
    require_range(dut, spec.setup.active_range_percent, block_size_bytes)
