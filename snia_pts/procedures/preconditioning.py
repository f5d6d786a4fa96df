"""Purge and workload independent preconditioning, as most tests of the standard begin."""

from __future__ import annotations

from ..dut import Dut
from ..spec import Preconditioning
from ..steps import Precondition, Purge, Stimulus
from .asking import Procedure


def active_range_bytes(dut: Dut, percent: int, align_bytes: int) -> int:
    """Return the length of an ActiveRange from LBA 0 on (PTS 2.0.2 section 3.4).

    100 % is the whole device; a share of it is rounded down to whole blocks of ``align_bytes``.
    """
    if percent == 100:
        return dut.capacity_bytes
    return dut.capacity_bytes * percent // 100 // align_bytes * align_bytes


def purge_and_precondition(spec: Preconditioning, dut: Dut) -> Procedure[None]:
    """Purge (PTS 2.0.2 section 3.2), then WIPC: sequential writes of twice the user capacity (section 3.3)."""
    yield Purge()
    yield Precondition(
        stimulus=Stimulus(
            access="SEQ",
            read_percent=0,
            block_size_bytes=spec.block_size_bytes,
            thread_count=spec.thread_count,
            queue_depth=spec.queue_depth,
            range_offset_bytes=0,
            range_bytes=active_range_bytes(dut, spec.active_range_percent, spec.block_size_bytes),
            passes=spec.capacities,
        )
    )
