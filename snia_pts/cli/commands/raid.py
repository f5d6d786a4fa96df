"""The verb ``raid-estimate``: what the disks of an array must do, or what the array carries; no device is touched."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from ...errors import UsageError
from ...model.raid import (
    LINKS,
    Array,
    DiskWork,
    Link,
    Throughput,
    Workload,
    disk_work,
    disks_iops,
    disks_mb_per_second,
    fabric_mb_per_second,
    front_end_iops,
    rounded,
)
from ...units import counted, number
from ..text.formatting import table

#: What a form of the sums is called: pre-reads never from the cache, or as often as other reads.
_FORMS = {False: "", True: ", pre-reads from the cache too"}
_Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    """All that can be told: the disks' work and the array's IOPS by whether pre-reads hit, and the throughputs."""

    array: Array
    workload: Workload | None
    iops: float | None
    disk_iops: float | None
    work: Mapping[bool, DiskWork]
    carried: Mapping[bool, float | None]
    throughput: Throughput
    stripes_mb_per_second: float | None
    links: int | None
    link: Link | None


def raid_estimate(arguments: argparse.Namespace) -> int:
    """Tell the IOPS of each disk, the IOPS that the array carries, and its throughput, as far as something is asked."""
    told = _estimate(arguments)
    if arguments.json:
        print(json.dumps(_json(told), indent=1, allow_nan=False))
        return 0
    for line in _lines(told):
        print(line)
    return 0


def _estimate(arguments: argparse.Namespace) -> _Estimate:
    array = Array(level=arguments.level, disks=arguments.disks)
    workload, links, link = _workload(arguments), *_fabric(arguments)
    forms = (False, True) if array.pre_reads and arguments.cache_hit_percent else (False,)
    both = {form: replace(workload, pre_reads_hit=form) for form in forms} if workload else {}
    iops, each, mb = arguments.iops, arguments.disk_iops, arguments.disk_mb_per_second
    if each is not None:
        disks_iops(array, each)  # refuses what is no number of IOPS
    return _Estimate(
        array=array,
        workload=workload,
        iops=iops,
        disk_iops=each,
        links=links,
        link=link,
        work={} if iops is None else {form: disk_work(array, asked, iops) for form, asked in both.items()},
        carried={} if each is None else {form: front_end_iops(array, asked, each) for form, asked in both.items()},
        throughput=Throughput(
            disks_mb_per_second=None if mb is None else disks_mb_per_second(array.disks, mb),
            fabric_mb_per_second=None if link is None or links is None else fabric_mb_per_second(links, link),
        ),
        stripes_mb_per_second=None if mb is None else disks_mb_per_second(array.data_disks, mb),
    )


def _workload(arguments: argparse.Namespace) -> Workload | None:
    asked = ("iops", "disk_iops", "disk_mb_per_second", "links", "link_gbit", "link")
    if all(getattr(arguments, name) is None for name in asked):
        detail = "Nothing is asked of the array."
        raise UsageError(detail=detail, hint="Give --iops, --disk-iops, --disk-mb-per-second, --link or --link-gbit.")
    if arguments.read_percent is not None:
        return Workload(read_percent=arguments.read_percent, cache_hit_percent=arguments.cache_hit_percent)
    if arguments.iops is not None or arguments.cache_hit_percent:
        detail = "Without the share of reads nothing tells what the disks do."
        raise UsageError(detail=detail, hint="Give it with --read-percent, for example --read-percent 60.")
    return None


def _fabric(arguments: argparse.Namespace) -> tuple[int | None, Link | None]:
    if arguments.link_gbit is None and arguments.link is None:
        if arguments.links is not None:
            detail = "--links goes with --link-gbit or --link."
            raise UsageError(detail=detail, hint="For example --links 4 --link-gbit 2, or --links 4 --link pcie-3.")
        return None, None
    link = LINKS[arguments.link] if arguments.link else Link(gbit_per_second=arguments.link_gbit)
    return 1 if arguments.links is None else arguments.links, link


# -- what is said -----------------------------------------------------------------------------------------------------


def _lines(told: _Estimate) -> Iterator[str]:
    array = told.array
    yield f"RAID {array.level} of {array.disks} disks; a small write is {_writing(array)}"
    if told.workload:
        hits = f", {told.workload.cache_hit_percent:g} % of them from the cache" * bool(told.workload.cache_hit_percent)
        yield f"{told.workload.read_percent:g} % reads{hits}"
    for found in filter(None, (_asked(told), _carried(told), _moved(told))):
        yield ""
        yield from table(*found)
    findings = tuple(_findings(told))
    yield from ("", *findings) if findings else ()
    yield ""
    yield "Supposed, not measured: the work is spread evenly, I/Os are small and random; rounded to the nearest whole."


def _writing(array: Array) -> str:
    parts = f": {array.pre_reads} pre-reads, {array.writes} writes" if array.pre_reads else ""
    return f"{counted(array.write_penalty, 'I/O')} of disks{parts}"


def _asked(told: _Estimate) -> _Table | None:
    if not told.work or told.iops is None:
        return None
    rows = [
        (f"IOPS{_FORMS[form]}", *map(_whole, (w.read_iops, w.pre_read_iops, w.write_iops, w.total_iops, w.disk_iops)))
        for form, w in told.work.items()
    ]
    return (f"{_whole(told.iops)} IOPS are, of the disks", "reads", "pre-reads", "writes", "all", "each disk"), rows


def _carried(told: _Estimate) -> _Table | None:
    if told.disk_iops is None:
        return None
    front = [
        (f"for the front end{_FORMS[form]}", "no limit" if iops is None else _whole(iops))
        for form, iops in told.carried.items()
    ]
    head = (f"Disks of {told.disk_iops:g} IOPS carry", "IOPS")
    return head, [("all together", _whole(disks_iops(told.array, told.disk_iops))), *front]


def _moved(told: _Estimate) -> _Table | None:
    rows: list[tuple[str, ...]] = []
    if told.throughput.disks_mb_per_second is not None and told.stripes_mb_per_second is not None:
        rows.append((f"{told.array.disks} disks", _whole(told.throughput.disks_mb_per_second)))
        if told.array.data_disks != told.array.disks:
            held = counted(told.array.data_disks, "disk")
            rows.append((f"whole stripes written, {held} of data", _whole(told.stripes_mb_per_second)))
    if told.link and told.throughput.fabric_mb_per_second is not None:
        rows.append((f"a link of {told.link.gbit_per_second:g} Gb/s", _whole(told.link.mb_per_second)))
        rows.append((f"fabric, {told.links} of them", _whole(told.throughput.fabric_mb_per_second)))
    return (("At most", "MB/s"), rows) if rows else None


def _findings(told: _Estimate) -> Iterator[str]:
    """What the figures mean for each other."""
    for form, work in told.work.items():
        if told.disk_iops is not None:
            share = 100 * work.disk_iops / told.disk_iops
            verdict = "more than it carries" if share > 100 else "within what it carries"
            yield f"Each disk is asked for {share:.1f} % of its IOPS{_FORMS[form]}: {verdict}."
    disks, fabric = told.throughput.disks_mb_per_second, told.throughput.fabric_mb_per_second
    if told.link and disks is not None and fabric is not None:
        what = {"disks": "The disks are the bottleneck", "fabric": "The fabric is the bottleneck"}
        filled = f"the disks fill {disks / told.link.mb_per_second:.2f} such links"
        yield f"{what.get(told.throughput.bottleneck, 'Disks and fabric are equal')}: {filled}."


def _whole(value: float) -> str:
    return number(rounded(value)) if value >= 1000 else str(rounded(value))


def _json(told: _Estimate) -> dict[str, object]:
    """As ``docs/formats.rst`` describes it."""
    array, throughput = told.array, told.throughput
    return {
        "format": 1,
        "level": array.level,
        "disks": array.disks,
        "data_disks": array.data_disks,
        "write_ios": {"pre_reads": array.pre_reads, "writes": array.writes},
        "iops": told.iops,
        "read_percent": told.workload and told.workload.read_percent,
        "cache_hit_percent": told.workload and told.workload.cache_hit_percent,
        "asked_of_disks": [
            {
                **asdict(work),
                "pre_reads_hit": form,
                "total_iops": work.total_iops,
                "disk_iops": work.disk_iops,
                "disk_iops_rounded": rounded(work.disk_iops),
            }
            for form, work in told.work.items()
        ],
        "carried": {
            "disk_iops": told.disk_iops,
            "disks_iops": None if told.disk_iops is None else disks_iops(array, told.disk_iops),
            "front_end": [{"pre_reads_hit": form, "iops": iops} for form, iops in told.carried.items()],
        },
        "mb_per_second": {
            "disks": throughput.disks_mb_per_second,
            "whole_stripes_written": told.stripes_mb_per_second,
            "link": told.link and told.link.mb_per_second,
            "links": told.links,
            "fabric": throughput.fabric_mb_per_second,
            "bottleneck": throughput.bottleneck or None,
        },
    }
