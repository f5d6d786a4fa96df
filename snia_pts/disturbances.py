"""What disturbed a test from outside, as far as the kernel's counters tell: others at the drive, heat, a bad link."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .measurement import Measurement
from .units import MB, capacity, counted
from .vitals import Vitals

#: The block layer's bytes beyond the engine's: so large a share of these, and so much, is more than the kernel's own
#: looks at a drive that was just closed.
_FOREIGN_SHARE, _FOREIGN_BYTES = 0.02, 8 * MB


def disturbances(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give what is worth a warning, a name and a sentence each."""
    foreign = [(point, beyond) for point in points if (beyond := foreign_bytes(point)) > 0]
    if foreign:
        point, most = max(foreign, key=lambda each: each[1])
        detail = (
            f"in {len(foreign)} of {counted(len(points), 'point')} the block layer saw more I/O on the drive than the "
            f"test did; {capacity(most)} more at the most, in {point.stimulus.label} ({point.evidence})"
        )
        yield "others used the drive", detail
    yield from _counted(points, "CPU throttling", "the CPU was slowed down for its heat", lambda each: each.throttlings)
    yield from _counted(points, "PCIe errors", "the drive's PCIe link reported errors", lambda each: each.link_errors)


def foreign_bytes(point: Measurement) -> int:
    """Return the bytes that others moved on the drive meanwhile; 0 where it is not clear that anybody did.

    I/Os in flight at the end of a point may be counted by the block layer alone.
    """
    block = point.vitals.block if point.vitals else None
    if block is None:
        return 0
    ours = point.read.transferred_bytes + point.write.transferred_bytes
    in_flight = point.stimulus.total_oio * point.stimulus.largest_block_bytes
    beyond = block.read_bytes + block.write_bytes - ours - in_flight
    return beyond if beyond > max(_FOREIGN_BYTES, _FOREIGN_SHARE * ours) else 0


def _counted(
    points: Sequence[Measurement], what: str, sentence: str, count: Callable[[Vitals], int | None]
) -> Iterator[tuple[str, str]]:
    counts = [found for point in points if point.vitals and (found := count(point.vitals))]
    if counts:
        yield what, f"{sentence}: {counted(sum(counts), 'time')}, in {len(counts)} of {counted(len(points), 'point')}"
