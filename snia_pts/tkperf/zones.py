"""TKperf's tests of hard disks: the profiles that measure a disk in zones, and the location of TKperf's zones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from ..model.dut import Dut
from ..model.steps import Stimulus
from ..profiles.procedure import Point, points
from ..profiles.reader import Changes, read_profile
from ..profiles.spec import ProfileSpec
from ..spec import Spec
from ..spec.reader import Specification
from .document import MAX_ZONES, ZONED_MIXES, ZONED_SIZES, Kind

#: The suite's test for every test of TKperf.
VERBS: dict[Kind, str] = {"iops": "iops", "lat": "latency", "tp": "throughput", "writesat": "wsat"}
#: The profile of each test of a hard disk.
PROFILES: dict[Kind, str] = {"iops": "hdd-iops", "tp": "hdd-throughput"}
#: The size of TKperf's zones is a multiple of this.
_ALIGNED_BYTES = 4096


def kind_of(spec: Spec) -> Kind | None:
    """Return TKperf's test of a specification; None if it has no such test."""
    tests = PROFILES if isinstance(spec, ProfileSpec) else VERBS
    return next((kind for kind, name in tests.items() if name == spec.name), None)


def zoned_profile(name: str, jobs: int, depth: int, seconds: int, zones: int) -> Specification:
    """Return the profile as TKperf ran it."""
    profile = read_profile(name, Changes(seconds=float(seconds)))
    spec = profile.spec
    if not isinstance(spec, ProfileSpec):
        raise TypeError(f"{name} is not a profile")
    workloads = tuple(
        replace(workload, thread_count=jobs, queue_depth=depth, zones=zones) for workload in spec.workload
    )
    return replace(profile, spec=replace(spec, workload=workloads))


def zone_points(spec: Spec, dut: Dut) -> tuple[Point, ...]:
    """Return the points of a zoned profile; if the disk's capacity is unknown, the points have no position in bytes."""
    if not isinstance(spec, ProfileSpec):
        raise TypeError(f"{spec.test} has no zones")
    return points(spec, dut)


def zone_keys(kind: Kind) -> Iterator[tuple[int, int, int]]:
    """Yield the R/W mix, the block size and the zone of every value in TKperf's test of a hard disk."""
    return itertools.product(ZONED_MIXES[kind], ZONED_SIZES[kind], range(1, MAX_ZONES + 1))


def tkperf_zone(point: Point, dut: Dut, zones: int) -> Stimulus:
    """Return a point's stimulus at the location of TKperf's zone.

    TKperf's zones have equal sizes, rounded down to a multiple of 4096 bytes, and start at the beginning of the disk.
    This suite's zones divide the whole disk and differ in size by less than a block.
    """
    zone_bytes = dut.capacity_bytes // zones // _ALIGNED_BYTES * _ALIGNED_BYTES
    if zone_bytes < point.stimulus.largest_block_bytes:
        return point.stimulus
    return replace(point.stimulus, range_offset_bytes=zone_bytes * (point.zone - 1), range_bytes=zone_bytes)
