"""The verb ``raid-estimate``: the load on the disks of an array, and its limits.  Touches no device."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from ..cli.text.formatting import json_text, table
from ..errors import UsageError
from ..model.raid import (
    DISKS,
    LINKS,
    Array,
    ArrayWorkload,
    DiskKind,
    DiskWork,
    LinkSpeed,
    Throughput,
    disk_work,
    disks_iops,
    disks_mb_per_second,
    fabric_mb_per_second,
    front_end_iops,
    round_half_up,
)
from ..units import counted, number

#: The suffix of a line: pre-reads never hit the cache (False), or as often as other reads (True).
_SUFFIXES = {False: "", True: " with cached pre-reads"}
_Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    """The load on the disks, the IOPS of the array, and throughputs; keys say whether pre-reads hit the cache."""

    array: Array
    workload: ArrayWorkload | None
    iops: float | None
    disk: DiskKind | None
    disk_iops: float | None
    work: Mapping[bool, DiskWork]
    array_iops: Mapping[bool, float | None]
    throughput: Throughput
    stripes_mb_per_second: float | None
    links: int | None
    link: LinkSpeed | None


def raid_estimate(arguments: argparse.Namespace) -> int:
    """Print the IOPS of each disk, the IOPS that the array can carry, and its throughput, as far as requested."""
    estimate = _make_estimate(arguments)
    if arguments.json:
        print(json_text(_json(estimate)))
        return 0
    for line in _lines(estimate):
        print(line)
    return 0


def _make_estimate(arguments: argparse.Namespace) -> _Estimate:
    array = Array(level=arguments.level, disks=arguments.disks)
    workload, links, link = _workload(arguments), *_fabric(arguments)
    choices = (False, True) if array.pre_reads and arguments.cache_hit_percent else (False,)
    workloads = {hits: replace(workload, pre_reads_hit=hits) for hits in choices} if workload else {}
    disk = DISKS[arguments.disk] if arguments.disk else None
    iops, disk_iops, mb = arguments.iops, arguments.disk_iops, arguments.disk_mb_per_second
    if disk:
        disk_iops = disk.iops if disk_iops is None else disk_iops
        mb = disk.mb_per_second if mb is None else mb
    if disk_iops is not None:
        disks_iops(array, disk_iops)  # raises UsageError for an impossible number
    return _Estimate(
        array=array,
        workload=workload,
        iops=iops,
        disk=disk,
        disk_iops=disk_iops,
        links=links,
        link=link,
        work={} if iops is None else {hits: disk_work(array, load, iops) for hits, load in workloads.items()},
        array_iops={}
        if disk_iops is None
        else {hits: front_end_iops(array, load, disk_iops) for hits, load in workloads.items()},
        throughput=Throughput(
            disks_mb_per_second=None if mb is None else disks_mb_per_second(array.disks, mb),
            fabric_mb_per_second=None if link is None or links is None else fabric_mb_per_second(links, link),
        ),
        stripes_mb_per_second=None if mb is None else disks_mb_per_second(array.data_disks, mb),
    )


def _workload(arguments: argparse.Namespace) -> ArrayWorkload | None:
    options = ("iops", "disk", "disk_iops", "disk_mb_per_second", "links", "link_gbit", "link")
    if all(getattr(arguments, name) is None for name in options):
        detail = "There is nothing to estimate."
        raise UsageError(
            detail=detail, hint="Give --iops, --disk, --disk-iops, --disk-mb-per-second, --link or --link-gbit."
        )
    if arguments.read_percent is not None:
        return ArrayWorkload(read_percent=arguments.read_percent, cache_hit_percent=arguments.cache_hit_percent)
    if arguments.iops is not None or arguments.cache_hit_percent:
        detail = "The estimate needs the percentage of reads."
        raise UsageError(detail=detail, hint="Give it with --read-percent, for example --read-percent 60.")
    return None


def _fabric(arguments: argparse.Namespace) -> tuple[int | None, LinkSpeed | None]:
    if arguments.link_gbit is None and arguments.link is None:
        if arguments.links is not None:
            detail = "--links goes with --link-gbit or --link."
            raise UsageError(detail=detail, hint="For example --links 4 --link-gbit 2, or --links 4 --link pcie-3.")
        return None, None
    link = LINKS[arguments.link] if arguments.link else LinkSpeed(gbit_per_second=arguments.link_gbit)
    return 1 if arguments.links is None else arguments.links, link


def _lines(estimate: _Estimate) -> Iterator[str]:
    array = estimate.array
    yield f"RAID {array.level} of {array.disks} disks; a small write is {_write_cost(array)}"
    if estimate.workload:
        hits = f", {estimate.workload.cache_hit_percent:g} % of them from the cache" * bool(
            estimate.workload.cache_hit_percent
        )
        yield f"{estimate.workload.read_percent:g} % reads{hits}"
    for section in filter(None, (_load_table(estimate), _limit_table(estimate), _throughput_table(estimate))):
        yield ""
        yield from table(*section)
    findings = tuple(_findings(estimate))
    yield from ("", *findings) if findings else ()
    if disk := estimate.disk:
        yield ""
        yield f"Kind of disk: {disk.iops:g} IOPS, {disk.mb_per_second:g} MB/s. {disk.source}."
    yield ""
    yield "Assumptions, not measurements: evenly spread load, small random I/Os. Values are rounded to integers."


def _write_cost(array: Array) -> str:
    parts = f": {array.pre_reads} pre-reads, {array.writes} writes" if array.pre_reads else ""
    return f"{counted(array.write_penalty, 'I/O')} on the disks{parts}"


def _load_table(estimate: _Estimate) -> _Table | None:
    if not estimate.work or estimate.iops is None:
        return None
    rows = [
        (
            f"IOPS{_SUFFIXES[hits]}",
            *map(_whole, (w.read_iops, w.pre_read_iops, w.write_iops, w.total_iops, w.disk_iops)),
        )
        for hits, w in estimate.work.items()
    ]
    return (
        f"Load of {_whole(estimate.iops)} IOPS on the disks",
        "reads",
        "pre-reads",
        "writes",
        "total",
        "per disk",
    ), rows


def _limit_table(estimate: _Estimate) -> _Table | None:
    if estimate.disk_iops is None:
        return None
    front = [
        (f"array{_SUFFIXES[hits]}", "no limit" if iops is None else _whole(iops))
        for hits, iops in estimate.array_iops.items()
    ]
    head = (f"Limit with disks of {estimate.disk_iops:g} IOPS", "IOPS")
    return head, [("all disks", _whole(disks_iops(estimate.array, estimate.disk_iops))), *front]


def _throughput_table(estimate: _Estimate) -> _Table | None:
    rows: list[tuple[str, ...]] = []
    if estimate.throughput.disks_mb_per_second is not None and estimate.stripes_mb_per_second is not None:
        rows.append((f"{estimate.array.disks} disks", _whole(estimate.throughput.disks_mb_per_second)))
        if estimate.array.data_disks != estimate.array.disks:
            data_disks = counted(estimate.array.data_disks, "disk")
            rows.append((f"full-stripe writes, {data_disks} of data", _whole(estimate.stripes_mb_per_second)))
    if estimate.link and estimate.throughput.fabric_mb_per_second is not None:
        rows.append((f"one link of {estimate.link.gbit_per_second:g} Gb/s", _whole(estimate.link.mb_per_second)))
        rows.append(
            (f"fabric, {counted(estimate.links or 0, 'link')}", _whole(estimate.throughput.fabric_mb_per_second))
        )
    return (("At most", "MB/s"), rows) if rows else None


def _findings(estimate: _Estimate) -> Iterator[str]:
    """Yield the conclusions from the figures."""
    for hits, work in estimate.work.items():
        if estimate.disk_iops is not None:
            share = 100 * work.disk_iops / estimate.disk_iops
            verdict = "overloaded" if share > 100 else "within its limit"
            yield f"Each disk needs {share:.1f} % of its IOPS{_SUFFIXES[hits]}: {verdict}."
    disks, fabric = estimate.throughput.disks_mb_per_second, estimate.throughput.fabric_mb_per_second
    if estimate.link and disks is not None and fabric is not None:
        verdicts = {"disks": "The disks are the bottleneck", "fabric": "The fabric is the bottleneck"}
        ratio = f"the disks fill {disks / estimate.link.mb_per_second:.2f} such links"
        yield f"{verdicts.get(estimate.throughput.bottleneck, 'Disks and fabric are equal')}: {ratio}."


def _whole(value: float) -> str:
    return number(round_half_up(value)) if value >= 1000 else str(round_half_up(value))


def _json(estimate: _Estimate) -> dict[str, object]:
    """Return the estimate in the JSON form of docs/formats.rst."""
    array, throughput = estimate.array, estimate.throughput
    return {
        "format": 1,
        "level": array.level,
        "disks": array.disks,
        "data_disks": array.data_disks,
        "write_ios": {"pre_reads": array.pre_reads, "writes": array.writes},
        "disk": estimate.disk and asdict(estimate.disk),
        "iops": estimate.iops,
        "read_percent": estimate.workload and estimate.workload.read_percent,
        "cache_hit_percent": estimate.workload and estimate.workload.cache_hit_percent,
        "disk_load": [
            {
                **asdict(work),
                "pre_reads_hit": hits,
                "total_iops": work.total_iops,
                "disk_iops": work.disk_iops,
                "disk_iops_rounded": round_half_up(work.disk_iops),
            }
            for hits, work in estimate.work.items()
        ],
        "limits": {
            "disk_iops": estimate.disk_iops,
            "disks_iops": None if estimate.disk_iops is None else disks_iops(array, estimate.disk_iops),
            "front_end": [{"pre_reads_hit": hits, "iops": iops} for hits, iops in estimate.array_iops.items()],
        },
        "mb_per_second": {
            "disks": throughput.disks_mb_per_second,
            "full_stripe_writes": estimate.stripes_mb_per_second,
            "link": estimate.link and estimate.link.mb_per_second,
            "links": estimate.links,
            "fabric": throughput.fabric_mb_per_second,
            "bottleneck": throughput.bottleneck or None,
        },
    }
