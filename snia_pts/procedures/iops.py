"""IOPS test (PTS 2.0.2 chapter 7; PTS-E 1.1 p. 30).

Random I/O over the ActiveRange, a matrix of R/W mixes and block sizes, in rounds until steady state::

    Purge
    WIPC: SEQ 128 KiB writes within the ActiveRange, 2 x user capacity
    for round in 1..25:
        for R/W mix in 100/0, 95/5, 65/35, 50/50, 35/65, 5/95, 0/100:
            for block size in 1024, 128, 64, 32, 16, 8, 4, 0.5 KiB:
                RND, 1 minute
        stop when the tracked variables are steady over the last 5 rounds
"""

from __future__ import annotations

from ..model.dut import Dut
from ..spec import IopsSpec
from .preconditioning import purge_and_precondition, require_preconditioning
from .protocol import Procedure
from .rounds import matrix, require_matrix, rounds_until_steady


def iops(spec: IopsSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the IOPS test of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run the preconditioning, a tracked variable or the
    largest block.
    """
    require_preconditioning(spec, dut, spec.preconditioning.block_size_bytes)
    require_matrix(spec.rounds, spec.steady_state, spec.setup, dut)
    points = matrix(spec.rounds, spec.setup, dut)
    yield from purge_and_precondition(spec, dut, spec.preconditioning.block_size_bytes)
    yield from rounds_until_steady(lambda _: points, spec.rounds.maximum, spec.steady_state)
