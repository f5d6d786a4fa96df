"""Where on the device a stimulus runs, and what the device cannot hold."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import TargetUnfit
from ..model.dut import Dut
from ..model.measurement import Measurement
from ..model.steps import BlockShare, BlockSize, Stimulus, Zone
from ..spec import Pattern
from ..units import block_size, capacity


def active_range_bytes(dut: Dut, percent: int, align_bytes: int) -> int:
    """Return the length of an ActiveRange from LBA 0 on (PTS 2.0.2 section 3.4).

    100 % is the whole device; a share of it is rounded down to whole blocks of ``align_bytes``.
    """
    if percent == 100:
        return dut.capacity_bytes
    return dut.capacity_bytes * percent // 100 // align_bytes * align_bytes


def pattern_stimulus(
    pattern: Pattern,
    dut: Dut,
    active_range_percent: int,
    *,
    read_percent: int,
    thread_count: int,
    queue_depth: int,
    seconds: float,
) -> Stimulus:
    """Return the stimulus of an access pattern on ``dut``.

    Sizes of a mix that the sectors cannot hold are left out, and the shares of the others scaled to 100 %.  Raises
    TargetUnfit when the sectors hold none of the sizes, or the ActiveRange not one block.
    """
    sizes = pattern_sizes(pattern, dut)
    largest = sizes if isinstance(sizes, int) else max(share.size_bytes for share in sizes)
    require_range(dut, active_range_percent, largest)
    return Stimulus(
        access=pattern.access,
        read_percent=read_percent,
        block_size_bytes=sizes,
        thread_count=thread_count,
        queue_depth=queue_depth,
        range_offset_bytes=0,
        range_bytes=active_range_bytes(dut, active_range_percent, largest),
        skew=tuple(Zone(access_percent=z.access_percent, range_percent=z.range_percent) for z in pattern.skew),
        seconds=seconds,
    )


def pattern_sizes(pattern: Pattern, dut: Dut) -> BlockSize:
    """Return the block size, or the mix, that ``dut`` can run of a pattern."""
    held = [size for size in pattern.block_sizes if size.size_bytes % dut.logical_sector_bytes == 0]
    if not held:
        require_sectors(dut, [size.size_bytes for size in pattern.block_sizes], f"the pattern {pattern.name}")
    if len(held) == 1:
        return held[0].size_bytes
    shares = _to_a_hundred([size.percent for size in held])
    return tuple(
        BlockShare(size_bytes=size.size_bytes, percent=share) for size, share in zip(held, shares, strict=True)
    )


def _to_a_hundred(shares: list[int]) -> list[int]:
    """Scale whole percentages to 100, the largest remainders rounded up."""
    total = sum(shares)
    scaled = [100 * share // total for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda place: (-(100 * shares[place] % total), place))
    for place in by_rest[: 100 - sum(scaled)]:
        scaled[place] += 1
    return scaled


def continued(stimulus: Stimulus, before: Measurement) -> int | tuple[int, ...]:
    """Return where in the range a sequential stream goes on after ``before`` (PTS 2.0.2 chapter 8).

    Of several threads each goes on where it stopped in its own share.  A stream begins anew at the start of its range,
    or share, where the rest of that would not last for ``stimulus``: the engine would then go over that rest again and
    again.
    """
    if stimulus.access != "SEQ":
        return 0
    times = (stimulus.seconds or 0) / (before.stimulus.seconds or 1)
    block, streams = stimulus.largest_block_bytes, before.stream_bytes
    if len(streams) == stimulus.thread_count:
        places = zip(before.stimulus.starts, streams, stimulus.share_bytes, strict=True)
        starts = tuple(_following(start, moved, share, block, times) for start, moved, share in places)
        return starts if any(starts) else 0
    begun = before.stimulus.start_bytes
    start = begun if isinstance(begun, int) else sum(begun)
    moved = before.read.transferred_bytes + before.write.transferred_bytes
    return _following(start, moved, stimulus.range_bytes, block, times)


def _following(start: int, moved: int, size: int, block: int, times: float) -> int:
    """Return where a stream goes on that began at ``start`` and moved so much; it will move ``times`` as much."""
    place = start + moved // block * block
    return place if place + moved * times <= size else 0


def require_sectors(dut: Dut, sizes_bytes: Iterable[int], what: str) -> None:
    """Raise TargetUnfit when the device's sectors cannot hold a block that must run."""
    for size_bytes in sizes_bytes:
        if dut.logical_sector_bytes and size_bytes % dut.logical_sector_bytes:
            sector = f"its logical sectors of {dut.logical_sector_bytes} bytes"
            raise TargetUnfit(path=dut.path, reason=f"{sector} cannot hold the {block_size(size_bytes)} of {what}")


def require_range(dut: Dut, percent: int, largest_bytes: int) -> None:
    """Raise TargetUnfit when an ActiveRange cannot hold one block."""
    if active_range_bytes(dut, percent, largest_bytes) < largest_bytes:
        share = f"{percent} % of its {capacity(dut.capacity_bytes)}"
        raise TargetUnfit(path=dut.path, reason=f"{share} cannot hold one block of {block_size(largest_bytes)}")
