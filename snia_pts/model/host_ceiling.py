"""What the host alone can do: how many I/Os its engine does on a target that costs nothing.

A ceiling is measured once for each shape of a stimulus, and kept with the facts of a run.  It is a cost: CPU time for
each I/O.  Costs add up, so that a mix of reads and writes needs no run of its own, and other programs that had their
share of the CPUs meanwhile change it little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..units import Amount, Quantity
from .steps import Access, BlockSize, Stimulus

_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a stimulus costs the host, whatever the target.

    Writes fill buffers, by their size; reads are filled by the drive, so that their size costs nothing and is None.
    """

    side: Literal["read", "write"]
    access: Access
    block_size_bytes: BlockSize | None
    thread_count: Amount
    queue_depth: Amount

    def __post_init__(self) -> None:
        if (self.block_size_bytes is None) != (self.side == "read"):
            raise ValueError("writes have a block size, reads of all sizes cost the same")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What the engine did of one shape on a null target.

    ``engine_cpu_percent`` is what each of its threads used of a CPU, in the mean.
    """

    shape: Shape
    iops: Quantity
    engine_cpu_percent: Quantity

    def __post_init__(self) -> None:
        if not (self.iops > 0 and self.engine_cpu_percent > 0):
            raise ValueError("a ceiling without I/O, or without CPU time, tells nothing")

    @property
    def cost_us(self) -> float:
        """CPU time of the engine for each I/O, in microseconds."""
        return self.shape.thread_count * self.engine_cpu_percent / 100 / self.iops * _MICROSECONDS

    def most_iops(self, cpus: int) -> float:
        """Return the IOPS of the shape on a host of so many CPUs, were the engine's threads alone on them."""
        return min(self.shape.thread_count, cpus) / self.cost_us * _MICROSECONDS


def shapes(stimulus: Stimulus) -> Iterator[tuple[Shape, float]]:
    """Give the shapes that a stimulus is made of, each with its share of the I/Os."""
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
    """Return every shape of ``stimuli`` once, in the order they come; none of one with options of its own."""
    return tuple(dict.fromkeys(shape for each in stimuli if not each.options for shape, _ in shapes(each)))


def most_iops(stimulus: Stimulus, ceilings: Sequence[Ceiling], cpus: int) -> float | None:
    """Return the IOPS of a stimulus on a null target, from the costs of its reads and its writes.

    None where one of its shapes was not calibrated, the number of CPUs is not known (0), or it has options of its own:
    another engine has other costs.
    """
    known = {each.shape: each.cost_us for each in ceilings}
    parts = [(known.get(shape), share) for shape, share in shapes(stimulus)]
    if not cpus or stimulus.options or any(cost is None for cost, _ in parts):
        return None
    cost_us = sum(cost * share for cost, share in parts if cost is not None)
    return min(stimulus.thread_count, cpus) / cost_us * _MICROSECONDS
