"""The host's ceiling: the maximum rate of its engine on a target without latency.

A ceiling is measured once for each shape of a stimulus and stored with the facts of a run.  It is a cost: CPU time per
I/O.  Costs are additive, so a mix of reads and writes needs no measurement of its own, and other programs that used the
CPUs during the measurement change it little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..units import Amount, Quantity
from .steps import Access, BlockSize, Stimulus

#: The start of the names of calibration's files in evidence/.
EVIDENCE_PREFIX = "00000-ceiling-"
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The properties of a stimulus that determine its cost on the host, whatever the target.

    The cost of a write depends on its size, because its buffer has to be filled.  The drive fills the buffers of reads,
    so their size does not matter and is None.
    """

    side: Literal["read", "write"]
    access: Access
    block_size_bytes: BlockSize | None
    thread_count: Amount
    queue_depth: Amount

    def __post_init__(self) -> None:
        if (self.block_size_bytes is None) != (self.side == "read"):
            raise ValueError("expected a block size for writes, and none for reads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The engine's result for one shape on a null target.

    ``engine_cpu_percent`` is the mean CPU usage of its threads, in percent of one CPU.
    """

    shape: Shape
    iops: Quantity
    engine_cpu_percent: Quantity

    def __post_init__(self) -> None:
        if not (self.iops > 0 and self.engine_cpu_percent > 0):
            raise ValueError("a ceiling needs I/Os and CPU time")

    @property
    def cost_us(self) -> float:
        """CPU time of the engine per I/O, in microseconds."""
        return self.shape.thread_count * self.engine_cpu_percent / 100 / self.iops * _MICROSECONDS

    def max_iops(self, cpus: int) -> float:
        """Return the IOPS of the shape on a host with this many CPUs, if only the engine's threads used them."""
        return min(self.shape.thread_count, cpus) / self.cost_us * _MICROSECONDS


def shapes(stimulus: Stimulus) -> Iterator[tuple[Shape, float]]:
    """Yield the shapes of a stimulus, each with its share of the I/Os."""
    for side, percent in (("read", stimulus.read_percent), ("write", 100 - stimulus.read_percent)):
        if percent:
            yield _shape(stimulus, "read" if side == "read" else "write"), percent / 100


def _shape(stimulus: Stimulus, side: Literal["read", "write"]) -> Shape:
    return Shape(
        side=side,
        access=stimulus.access,
        block_size_bytes=stimulus.block_size_bytes if side == "write" else None,
        thread_count=stimulus.thread_count,
        queue_depth=stimulus.queue_depth,
    )


def all_shapes(stimuli: Iterable[Stimulus]) -> tuple[Shape, ...]:
    """Return the distinct shapes of ``stimuli``, in order, omitting stimuli with engine options of their own."""
    return tuple(dict.fromkeys(shape for stimulus in stimuli if not stimulus.options for shape, _ in shapes(stimulus)))


def max_iops(stimulus: Stimulus, ceilings: Sequence[Ceiling], cpus: int) -> float | None:
    """Return the IOPS of a stimulus on a null target, from the costs of its reads and writes.

    None if one of its shapes was not calibrated, if the number of CPUs is unknown (0), or if the stimulus has engine
    options of its own: another engine has other costs.
    """
    costs = {ceiling.shape: ceiling.cost_us for ceiling in ceilings}
    parts = [(costs.get(shape), share) for shape, share in shapes(stimulus)]
    if not cpus or stimulus.options or any(cost is None for cost, _ in parts):
        return None
    cost_us = sum(cost * share for cost, share in parts if cost is not None)
    return min(stimulus.thread_count, cpus) / cost_us * _MICROSECONDS
