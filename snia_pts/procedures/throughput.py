"""Throughput test (PTS 2.0.2 chapter 8).

Sequential I/O, a separate test for each block size, in rounds until steady state::

    for block size in 1024, 128 KiB:
        Purge
        WIPC: SEQ writes of that block size, 2 x user capacity
        for round in 1..25:
            for R/W mix in 100/0, 0/100:
                SEQ, 1 minute, from where the stream of that mix stopped
            stop when the writes are steady over the last 5 rounds
"""

from __future__ import annotations

from dataclasses import replace

from ..model.dut import Dut
from ..model.measurement import MeasuredRound
from ..model.steps import Stimulus
from ..spec import ThroughputSpec
from ..units import block_size
from .preconditioning import purge_and_precondition, require_preconditioning
from .protocol import Procedure
from .ranges import active_range_bytes, next_start_bytes, require_range, require_sectors
from .rounds import rounds_until_steady


def throughput(spec: ThroughputSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the throughput test of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run one of the block sizes.
    """
    for size_bytes in spec.rounds.block_sizes_bytes:
        require_preconditioning(spec, dut, size_bytes)
        require_sectors(dut, [size_bytes], "the test")
        require_range(dut, spec.setup.active_range_percent, size_bytes)
    for size_bytes in spec.rounds.block_sizes_bytes:
        part = block_size(size_bytes)
        first_round = streams(spec, dut, size_bytes)

        def continue_streams(
            previous: MeasuredRound | None, first_round: tuple[Stimulus, ...] = first_round
        ) -> tuple[Stimulus, ...]:
            if previous is None:
                return first_round
            return tuple(
                replace(stream, start_bytes=next_start_bytes(stream, measured))
                for stream, measured in zip(first_round, previous.measurements, strict=True)
            )

        yield from purge_and_precondition(spec, dut, size_bytes, part=part)
        yield from rounds_until_steady(continue_streams, spec.rounds.maximum, spec.steady_state, part=part)


def streams(spec: ThroughputSpec, dut: Dut, size_bytes: int) -> tuple[Stimulus, ...]:
    """Return the first round's stimuli of one block size, in the specification's order of R/W mixes."""
    return tuple(
        Stimulus(
            access="SEQ",
            read_percent=read_percent,
            block_size_bytes=size_bytes,
            thread_count=spec.setup.thread_count,
            queue_depth=spec.setup.queue_depth,
            range_offset_bytes=0,
            range_bytes=active_range_bytes(dut, spec.setup.active_range_percent, size_bytes),
            seconds=spec.rounds.point_seconds,
        )
        for read_percent in spec.rounds.read_percents
    )
