"""Purge and workload independent preconditioning, as the first tests of the standard begin."""

from __future__ import annotations

from ..dut import Dut
from ..spec import SizedPreconditioning
from ..steps import Purge, Stimulus, Stretch
from .asking import Procedure, stretch
from .ranges import active_range_bytes, require_range, require_sectors


def purge_and_precondition(
    spec: SizedPreconditioning, dut: Dut, block_size_bytes: int, *, part: str = ""
) -> Procedure[None]:
    """Purge (PTS 2.0.2 section 3.2), then WIPC: sequential writes of twice the user capacity (section 3.3)."""
    yield Purge(part=part)
    yield from stretch(
        Stretch(
            part=part,
            phase="WIPC",
            stimulus=Stimulus(
                access="SEQ",
                read_percent=0,
                block_size_bytes=block_size_bytes,
                thread_count=spec.thread_count,
                queue_depth=spec.queue_depth,
                range_offset_bytes=0,
                range_bytes=active_range_bytes(dut, spec.active_range_percent, block_size_bytes),
                passes=spec.capacities,
            ),
        )
    )


def require_preconditioning(spec: SizedPreconditioning, dut: Dut, block_size_bytes: int) -> None:
    """Raise TargetUnfit when ``dut`` cannot run the preconditioning."""
    require_sectors(dut, [block_size_bytes], "preconditioning")
    require_range(dut, spec.active_range_percent, block_size_bytes)
