"""Latency test (PTS 2.0.2 chapter 9).

Random I/O with one outstanding I/O, in rounds until steady state::

    Purge
    WIPC: SEQ 128 KiB writes within the ActiveRange, 2 x user capacity
    for round in 1..25:
        for R/W mix in 100/0, 65/35, 0/100:
            for block size in 8, 4, 0.5 KiB:
                RND, 1 minute
        stop when the average response time of 4 KiB writes is steady over the last 5 rounds
    RND 4 KiB 0/100, 20 minutes: response time histogram (2.0.2)
"""

from __future__ import annotations

from ..model.dut import Dut
from ..spec import LatencySpec
from .histogram import require_histogram, response_histogram
from .preconditioning import purge_and_precondition, require_preconditioning
from .protocol import Procedure
from .rounds import matrix, require_matrix, rounds_until_steady


def latency(spec: LatencySpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the latency test of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run the preconditioning, a tracked variable, the largest
    block or the histogram.
    """
    require_preconditioning(spec, dut, spec.preconditioning.block_size_bytes)
    require_matrix(spec.rounds, spec.steady_state, spec.setup, dut)
    require_histogram(spec.histogram, dut, spec.setup.active_range_percent)
    points = matrix(spec.rounds, spec.setup, dut)
    yield from purge_and_precondition(spec, dut, spec.preconditioning.block_size_bytes)
    yield from rounds_until_steady(lambda _: points, spec.rounds.maximum, spec.steady_state)
    yield from response_histogram(spec.histogram, dut, spec.setup.active_range_percent)
