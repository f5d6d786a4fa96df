"""IOPS test (PTS 2.0.2 chapter 7; PTS-E 1.1 p. 30).

Random I/O over the ActiveRange, a matrix of R/W mixes and block sizes, in rounds until steady state::

    Purge
    WIPC: SEQ 128 KiB writes, 2 x user capacity
    for round in 1..25:
        for R/W mix in 100/0, 95/5, 65/35, 50/50, 35/65, 5/95, 0/100:
            for block size in 1024, 128, 64, 32, 16, 8, 4, 0.5 KiB:
                RND, 1 minute
        stop when the tracked variables are steady over the last 5 rounds
"""

from __future__ import annotations

from ..dut import Dut
from ..errors import TargetUnfit
from ..spec import IopsSpec
from ..steps import Stimulus
from ..units import block_size, capacity
from ..window import Window
from .asking import Procedure
from .preconditioning import active_range_bytes, purge_and_precondition
from .rounds import rounds_until_steady


def iops(spec: IopsSpec, dut: Dut) -> Procedure[Window | None]:
    """Ask for the IOPS test of ``dut``; concludes with its last window.

    Raises TargetUnfit before the first step when ``dut`` cannot run what decides the test.
    """
    refuse_unfit(spec, dut)
    yield from purge_and_precondition(spec.preconditioning, dut)
    return (yield from rounds_until_steady(loop(spec, dut), spec.rounds, spec.steady_state))


def loop(spec: IopsSpec, dut: Dut) -> tuple[Stimulus, ...]:
    """Return one round's stimuli: R/W mixes outside, block sizes inside, both in the specification's order.

    Block sizes that the device's sectors cannot hold are left out (PTS 2.0.2 has none; the matrix shows n/a).
    """
    range_bytes = active_range_bytes(dut, spec.setup.active_range_percent, max(spec.rounds.block_sizes_bytes))
    return tuple(
        Stimulus(
            access="RND",
            read_percent=read_percent,
            block_size_bytes=block_size_bytes,
            thread_count=spec.setup.thread_count,
            queue_depth=spec.setup.queue_depth,
            range_offset_bytes=0,
            range_bytes=range_bytes,
            seconds=spec.rounds.point_seconds,
        )
        for read_percent in spec.rounds.read_percents
        for block_size_bytes in spec.rounds.block_sizes_bytes
        if block_size_bytes % dut.logical_sector_bytes == 0
    )


def refuse_unfit(spec: IopsSpec, dut: Dut) -> None:
    """Raise TargetUnfit when sectors cannot hold a block that must run, or a range cannot hold its largest block."""
    wipc, tracked = spec.preconditioning, spec.steady_state.tracked
    for size_bytes in (wipc.block_size_bytes, *(variable.block_size_bytes for variable in tracked)):
        if size_bytes % dut.logical_sector_bytes:
            needed = "preconditioning" if size_bytes == wipc.block_size_bytes else "a tracked variable"
            sector = f"its logical sectors of {dut.logical_sector_bytes} bytes"
            raise TargetUnfit(path=dut.path, reason=f"{sector} cannot hold the {block_size(size_bytes)} of {needed}")
    for percent, largest_bytes in (
        (wipc.active_range_percent, wipc.block_size_bytes),
        (spec.setup.active_range_percent, max(spec.rounds.block_sizes_bytes)),
    ):
        if active_range_bytes(dut, percent, largest_bytes) < largest_bytes:
            share = f"{percent} % of its {capacity(dut.capacity_bytes)}"
            raise TargetUnfit(path=dut.path, reason=f"{share} cannot hold one block of {block_size(largest_bytes)}")
