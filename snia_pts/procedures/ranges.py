"""The range of the device that a stimulus uses, and checks that blocks and ranges fit the device."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import TargetUnfit
from ..model.dut import Dut
from ..model.measurement import Measurement
from ..model.steps import BlockShare, BlockSize, Stimulus, Zone
from ..spec import Pattern
from ..units import block_size, capacity


def active_range_bytes(dut: Dut, percent: int, align_bytes: int) -> int:
    """Return the length of an ActiveRange that starts at LBA 0 (PTS 2.0.2 section 3.4).

    100 % is the whole device.  A smaller share is rounded down to whole blocks of ``align_bytes``.
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

    Sizes of a mix that are not a multiple of the sector size are omitted, and the shares of the others are scaled to
    100 %.  Raises TargetUnfit if no size is a multiple of the sector size, or the ActiveRange is less than one block.
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
    """Return the block size, or the mix of block sizes, of a pattern that ``dut`` can run."""
    sizes = [size for size in pattern.block_sizes if size.size_bytes % dut.logical_sector_bytes == 0]
    if not sizes:
        require_sectors(dut, [size.size_bytes for size in pattern.block_sizes], f"the pattern {pattern.name}")
    if len(sizes) == 1:
        return sizes[0].size_bytes
    shares = _scale_to_100([size.percent for size in sizes])
    return tuple(
        BlockShare(size_bytes=size.size_bytes, percent=share) for size, share in zip(sizes, shares, strict=True)
    )


def _scale_to_100(shares: list[int]) -> list[int]:
    """Scale integer percentages so that they add up to 100; round up those with the largest remainders."""
    total = sum(shares)
    scaled = [100 * share // total for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda index: (-(100 * shares[index] % total), index))
    for index in by_remainder[: 100 - sum(scaled)]:
        scaled[index] += 1
    return scaled


def next_start_bytes(stimulus: Stimulus, previous: Measurement) -> int | tuple[int, ...]:
    """Return the offset in the range at which a sequential stream continues after ``previous`` (PTS 2.0.2 chapter 8).

    Each of several threads continues where it stopped in its own share.  A stream starts again at the start of its
    range or share if the remainder is too short for ``stimulus``: the engine would then repeat that remainder.  Random
    access returns 0.
    """
    if stimulus.access != "SEQ":
        return 0
    factor = (stimulus.seconds or 0) / (previous.stimulus.seconds or 1)
    block, streams = stimulus.largest_block_bytes, previous.stream_bytes
    if len(streams) == stimulus.thread_count:
        threads = zip(previous.stimulus.starts, streams, stimulus.share_bytes, strict=True)
        starts = tuple(_next_start(start, moved, share, block, factor) for start, moved, share in threads)
        return starts if any(starts) else 0
    start = previous.stimulus.start_bytes
    start = start if isinstance(start, int) else sum(start)
    moved = previous.read.transferred_bytes + previous.write.transferred_bytes
    return _next_start(start, moved, stimulus.range_bytes, block, factor)


def _next_start(start: int, moved: int, size: int, block: int, factor: float) -> int:
    """Return where a stream continues that moved so much from ``start``, and will move ``factor`` times as much."""
    end = start + moved // block * block
    return end if end + moved * factor <= size else 0


def require_sectors(dut: Dut, sizes_bytes: Iterable[int], user: str) -> None:
    """Raise TargetUnfit if a block size is not a multiple of the device's sectors; ``user`` needs these sizes."""
    for size_bytes in sizes_bytes:
        if dut.logical_sector_bytes and size_bytes % dut.logical_sector_bytes:
            sector = f"its logical sector size of {dut.logical_sector_bytes} bytes"
            reason = f"{block_size(size_bytes)} of {user} is not a multiple of {sector}"
            raise TargetUnfit(path=dut.path, reason=reason, hint="Change the block size, or choose another target.")


def require_range(dut: Dut, percent: int, largest_bytes: int) -> None:
    """Raise TargetUnfit if an ActiveRange is smaller than one block."""
    if active_range_bytes(dut, percent, largest_bytes) < largest_bytes:
        share = f"{percent} % of its {capacity(dut.capacity_bytes)}"
        raise TargetUnfit(path=dut.path, reason=f"{share} is less than one block of {block_size(largest_bytes)}")
