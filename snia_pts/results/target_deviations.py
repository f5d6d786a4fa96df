"""Compares a target with the device that the standard tests."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.dut import Dut
from ..spec import DemandSpec, Deviation, IopsSpec, LatencySpec, PatternSpec, Spec, WriteSaturationSpec
from ..units import block_size

#: The clause of the standard about the write cache.
WRITE_CACHE_CLAUSE = "PTS chapter 3, Caching"


def target_deviations(dut: Dut, spec: Spec) -> tuple[Deviation, ...]:
    """Return the deviations of a target from the device that the standard tests.

    That is a raw solid state drive with the requested write cache setting, whose sectors fit every block size.  There
    are none for a specification that is not part of the standard.
    """
    if not spec.is_standard:
        return ()
    setup, deviations = spec.setup, []
    if dut.kind != "drive":
        deviations.append(
            Deviation(
                what="device under test",
                standard="a solid state drive, raw",
                actual=_actual_device(dut),
                clause="PTS chapter 1",
            )
        )
    if dut.write_cache != setup.write_cache and (dut.write_cache, setup.write_cache) != ("none", "disabled"):
        deviations.append(
            Deviation(
                what="write cache",
                standard=setup.write_cache,
                actual=f"{dut.write_cache} ({dut.write_cache_source})",
                clause=WRITE_CACHE_CLAUSE,
            )
        )
    if dut.rotational:
        deviations.append(Deviation(what="media", standard="solid state", actual="rotational", clause="PTS chapter 1"))
    return (*deviations, *_omitted_sizes(dut, spec))


def _actual_device(dut: Dut) -> str:
    """Return what is tested instead of a drive."""
    if dut.simulated:
        return f"SIMULATED: {dut.model}"
    return "a file through a file system" if dut.kind == "file" else dut.model


def _stream_deviations(spec: PatternSpec) -> Iterator[Deviation]:
    """Yield how a sequential pattern deviates from one continuous stream: each start of fio starts a new stream."""
    if spec.pattern.access != "SEQ":
        return
    if isinstance(spec, WriteSaturationSpec) and spec.saturation.until_steady and 0 < spec.pattern.read_percent < 100:
        yield Deviation(
            what="stop at steady state",
            standard="the stimulus ends when steady state is reached, if not before",
            actual="it continues to its amount or time: a mixed sequential stream cannot be divided into parts",
            clause="PTS chapter 10, test loop",
        )
    if isinstance(spec, DemandSpec):
        yield Deviation(
            what="sequential stream",
            standard="one stream over the ActiveRange",
            actual="each point and pre-write starts at the beginning of the ActiveRange",
            clause="PTS chapters 13 and 14",
        )


def _omitted_sizes(dut: Dut, spec: Spec) -> Iterator[Deviation]:
    """Yield the block sizes that the test omits because they are not multiples of the device's sector size."""
    reason = f"omitted: not a multiple of the {dut.logical_sector_bytes}-byte sectors"
    match spec:
        case IopsSpec() | LatencySpec():
            sizes = [size for size in spec.rounds.block_sizes_bytes if size % dut.logical_sector_bytes]
            chapter = 7 if isinstance(spec, IopsSpec) else 9
            if sizes:
                yield Deviation(
                    what="block sizes",
                    standard=", ".join(map(block_size, sizes)),
                    actual=reason,
                    clause=f"PTS chapter {chapter}, block sizes",
                )
        case PatternSpec():
            yield from _stream_deviations(spec)
            shares = [size for size in spec.pattern.block_sizes if size.size_bytes % dut.logical_sector_bytes]
            if shares:
                yield Deviation(
                    what="block sizes",
                    standard=", ".join(f"{block_size(size.size_bytes)} {size.percent} %" for size in shares),
                    actual=f"{reason}; the shares of the others were scaled to 100 %",
                    clause=f"PTS, access pattern {spec.pattern.name}",
                )
