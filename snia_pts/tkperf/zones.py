"""TKperf's tests of hard disks: the profiles that measure a disk in zones, and where TKperf's own zones lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from ..model.dut import Dut
from ..model.steps import Stimulus
from ..procedures import Point, points
from ..spec import ProfileSpec, Spec
from ..spec.profile_reader import Changes, read_profile
from ..spec.reader import Specification
from .document import MAX_ZONES, ZONED_MIXES, ZONED_SIZES, Kind

#: The profile of each test.
PROFILES: dict[Kind, str] = {"iops": "hdd-iops", "tp": "hdd-throughput"}
#: TKperf's zones are multiples of this.
_ALIGNED_BYTES = 4096


def zoned(name: str, jobs: int, depth: int, seconds: int, zones: int) -> Specification:
    """Return the profile as TKperf ran it."""
    found = read_profile(name, Changes(seconds=float(seconds)))
    spec = found.spec
    if not isinstance(spec, ProfileSpec):
        raise TypeError(f"{name} is no profile")
    workloads = tuple(replace(each, thread_count=jobs, queue_depth=depth, zones=zones) for each in spec.workload)
    return replace(found, spec=replace(spec, workload=workloads))


def zone_points(spec: Spec, dut: Dut) -> tuple[Point, ...]:
    """Return the points of such a profile; those of a disk that does not say how large it is lie nowhere in bytes."""
    if not isinstance(spec, ProfileSpec):
        raise TypeError(f"{spec.test} has no zones")
    return points(spec, dut)


def zone_places(kind: Kind) -> Iterator[tuple[int, int, int]]:
    """Give the R/W mix, the block size and the zone of every value that TKperf has of a hard disk."""
    return itertools.product(ZONED_MIXES[kind], ZONED_SIZES[kind], range(1, MAX_ZONES + 1))


def tkperf_zone(point: Point, dut: Dut, zones: int) -> Stimulus:
    """Return a point's stimulus where TKperf has its zones: as many multiples of 4096 bytes each, from the beginning.

    Ours divide all of the disk, and differ by less than a block.
    """
    each = dut.capacity_bytes // zones // _ALIGNED_BYTES * _ALIGNED_BYTES
    if each < point.stimulus.largest_block_bytes:
        return point.stimulus
    return replace(point.stimulus, range_offset_bytes=each * (point.zone - 1), range_bytes=each)
