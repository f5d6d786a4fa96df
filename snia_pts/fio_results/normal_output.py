"""Convert the normal output of fio 2 and 3 to a document like fio's JSON, with the values that the text contains.

The text has exact counts of I/Os and the runtime; response times and percentiles are rounded, and only a few options
are stated.  The R/W mix is calculated from the counts.  The time is not used, because it has no time zone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ImportRejected
from ..units import KIB
from .document import Document

_RESULT = re.compile(
    r"^(?P<name>[^\n]{1,200}): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\): err=\s*(?P<error>\d{1,9})"
    r"[^\n]*?: pid=(?P<pid>\d{1,19}):",
    re.MULTILINE,
)
_HEADER = re.compile(
    r"^(?P<name>[^\n]{1,200}): \(g=(?P<group>\d{1,9})\): rw=(?P<rw>\w{1,30}), "
    r"bs=(?:\(R\) (?P<read>[^ ]{1,60}), \(W\) (?P<write>[^ ]{1,60}), \(T\) [^ ]{1,60}"
    r"|(?P<read_2>[^ /,]{1,60})/(?P<write_2>[^ /,]{1,60})(?:/[^ /,]{1,60})?), "
    r"ioengine=(?P<engine>[^,\n]{1,100}), iodepth=(?P<depth>\d{1,9})$",
    re.MULTILINE,
)
_VERSION = re.compile(r"^fio-(\d[^\s]{0,60})$", re.MULTILINE)
_AMOUNT = r"(?P<amount>[\d.]+)(?P<unit>[KMGTP]?i?B)"
_RUNTIME = r"(?P<ms>\d{{1,15}})msec"
#: The reads or the writes of a job; the second form is that of fio 2, whose units are binary, too.
_SIDES = (
    rf"^ {{{{2,3}}}}{{side}}\s*: IOPS=[^,]*, BW=[^(]*\([^)]*\)\({_AMOUNT}/{_RUNTIME}\)",
    rf"^ {{{{2,3}}}}{{side}}\s*: io={_AMOUNT}, bw=[^,]*, iops=\s*\d{{{{1,15}}}}\s*, runt=\s*{_RUNTIME}",
)
_NEXT_SIDE = re.compile(r"^ {2,3}(?:read|write|trim|lat|cpu)\s*[:(]", re.MULTILINE)
_TIMES = (
    r"^ +{name} \((?P<unit>[num]sec)\): min=\s*(?P<min>[\d.]+[kmg]?) ?, max=\s*(?P<max>[\d.]+[kmg]?) ?, "
    r"avg=\s*(?P<mean>[\d.]+[kmg]?) ?, stdev="
)
_PERCENTILES = re.compile(
    r"^ +(?P<name>clat|lat) percentiles \((?P<unit>[num]sec)\):\n(?P<rows>(?: +\|[^\n]*\n)+)", re.MULTILINE
)
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,6})th=\[\s*(\d{1,15})\]")
_ISSUED = re.compile(
    r"issued(?: rwts?: total=(\d{1,18}),(\d{1,18}),(\d{1,18})| *: total=r=(\d{1,18})/w=(\d{1,18})/d=(\d{1,18}))"
)
_CPU = re.compile(r"^  cpu\s*: usr=([\d.]{1,12})%, sys=([\d.]{1,12})%", re.MULTILINE)
_ALONE = re.compile(r"IO depths\s*: 1=([\d.]{1,12})%")
_DISK = re.compile(r"^ +(\w[\w-]{0,60}): ios=\d", re.MULTILINE)
_NANOSECONDS = {"nsec": 1, "usec": 1000, "msec": 1_000_000}
_MULTIPLES = {"k": 1000, "m": 10**6, "g": 10**9}
_BINARY = {"": 1, "K": KIB, "M": KIB**2, "G": KIB**3, "T": KIB**4, "P": KIB**5}
#: A printed amount has three digits.
_AMOUNT_SHARE = 0.01
_HINT = "Import fio's JSON (--output-format=json+), which states more."


def has_normal_output(content: bytes) -> bool:
    """Return whether a file has fio's normal output."""
    return b": (groupid=" in content and _RESULT.search(content.decode("utf-8", "replace")) is not None


def read_normal_output(text: str, name: str) -> Document:
    """Return the result in a text as a document; messages call its file ``name``.

    Raises ImportRejected if the text is of an old version, of several runs, or lacks a value.
    """
    versions = _VERSION.findall(text)
    if not versions or not versions[0].startswith(("2.", "3.")):
        origin = f"of fio {versions[0]}" if versions else "without a version"
        raise ImportRejected(path=name, reason=f"unsupported normal output {origin}, expected fio 2 or 3", hint=_HINT)
    if len(versions) > 1:
        raise ImportRejected(path=name, reason=f"it has the output of {len(versions)} runs of fio", hint=_SPLIT)
    headers = [_header(match.groupdict()) for match in _HEADER.finditer(text)]
    try:
        jobs = [_job(heading, block, headers, name) for heading, block in _results(text)]
    except (ValueError, ArithmeticError) as error:
        if isinstance(error, ImportRejected):
            raise
        raise ImportRejected(path=name, reason=f"invalid values ({error})", hint=_HINT) from None
    disks = [{"name": disk} for disk in _DISK.findall(text.partition("\nDisk stats")[2])]
    members = {"fio version": f"fio-{versions[0]}", "disk_util": disks, "jobs": jobs}
    return Document(members=members, jobs=tuple(jobs), text=text, complete=False)


def _header(groups: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the groups of a job's header with the names that they have for fio 3."""
    new = {name: value for name, value in groups.items() if value is not None}
    return {name.removesuffix("_2"): value for name, value in new.items()}


_SPLIT = "Write the output of each run to a file of its own."


def _results(text: str) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield the heading and the text of each result; if a process printed running totals, only the last ones."""
    matches = list(_RESULT.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    last = {(match["name"], match["pid"]): number for number, match in enumerate(matches)}
    for number in sorted(last.values()):
        yield matches[number].groupdict(), text[matches[number].end() : ends[number]].partition("\nRun status")[0]


def _job(heading: Mapping[str, str], block: str, headers: Sequence[Mapping[str, str]], name: str) -> dict[str, Any]:
    """Return a job as in fio's JSON, from the heading and the text of its result and the headers of all jobs."""
    label, group = heading["name"], heading["group"]
    group_headers = [header for header in headers if header["group"] == group]
    job_headers = [header for header in group_headers if header["name"] == label]
    relevant_headers = group_headers if heading["jobs"] != "1" else job_headers
    settings = {tuple(sorted({**header, "name": ""}.items())) for header in relevant_headers}
    if len(settings) != 1:
        reason = f"job {label}: its options are missing" if not settings else f"job {label} is a sum of several jobs"
        raise ImportRejected(path=name, reason=reason, hint=_HINT)
    issued, header = _ISSUED.search(block), job_headers[0] if job_headers else group_headers[0]
    if not issued:
        raise ImportRejected(path=name, reason=f"job {label}: the text is incomplete", hint=_HINT)
    reads, writes, trims = (int(count) for count in issued.groups() if count is not None)
    cpu, alone = _CPU.search(block), _ALONE.search(block)
    options = _options(header, heading["jobs"], reads, writes)
    return {
        "jobname": label,
        "groupid": int(group),
        "error": int(heading["error"]),
        "job options": options,
        "read": _side(block, "read", reads, header["read"]),
        "write": _side(block, "write", writes, header["write"]),
        "trim": {"total_ios": trims},
        **({"usr_cpu": float(cpu[1]), "sys_cpu": float(cpu[2])} if cpu else {}),
        **({"iodepth_level": {"1": float(alone[1])}} if alone else {}),
    }


def _options(header: Mapping[str, str], jobs: str, reads: int, writes: int) -> dict[str, str]:
    sizes = [header[side].split("-") for side in ("read", "write")]
    options = {"rw": header["rw"], "ioengine": header["engine"], "iodepth": header["depth"], "numjobs": jobs}
    if header["rw"] in ("rw", "randrw") and reads + writes:
        options["rwmixread"] = str(round(100 * reads / (reads + writes)))
    sizes_bytes = [[_amount(size) for size in side] for side in sizes]
    if all(len(set(side)) == 1 for side in sizes_bytes):
        return {**options, "bs": ",".join(str(side[0]) for side in sizes_bytes)}
    return {**options, "bsrange": ",".join("-".join(map(str, side)) for side in sizes_bytes)}


def _amount(text: str) -> int:
    """Return the bytes of a printed amount, such as ``64.0KiB``; raises ValueError for any other text."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([KMGTP]?)i?B?", text)
    if not match:
        raise ValueError(f"invalid size {text}")
    return round(float(match[1]) * _BINARY[match[2]])


def _side(block: str, side: str, ios: int, sizes: str) -> dict[str, Any]:
    """Return the reads, or the writes, of a job as in fio's JSON."""
    patterns = (pattern.format(side=side) for pattern in _SIDES)
    match = next(filter(None, (re.search(pattern, block, re.MULTILINE) for pattern in patterns)), None)
    if not match or not ios:
        return {"total_ios": 0, "io_bytes": 0, "runtime": 0, "lat_ns": {"N": 0}}
    following = _NEXT_SIDE.search(block, match.end())
    text = block[match.end() : following.start() if following else len(block)]
    printed = _amount(match["amount"] + match["unit"])
    smallest, _, largest = sizes.partition("-")
    exact = ios * _amount(largest) if smallest == largest else printed
    # fio prints 21.998 MiB as 21.0MiB.
    carry = 0 if match["amount"].partition(".")[2].strip("0") else _amount(f"1{match['unit']}")
    times = {name: _times(text, name, ios) for name in ("lat", "clat")}
    for table in _PERCENTILES.finditer(text):
        factor = _NANOSECONDS[table["unit"]]
        values = {percent: factor * int(value) for percent, value in _PERCENTILE.findall(table["rows"])}
        times[table["name"]]["percentile"] = values
    return {
        "total_ios": ios,
        "io_bytes": exact if abs(exact - printed) <= max(_AMOUNT_SHARE * printed, carry) else printed,
        "runtime": int(match["ms"]),
        **{f"{name}_ns": values for name, values in times.items()},
    }


def _times(text: str, name: str, ios: int) -> dict[str, Any]:
    """Return response times in ns; a rounded minimum or maximum is corrected to the mean, which has more digits."""
    match = re.search(_TIMES.format(name=name), text, re.MULTILINE)
    if not match:
        return {"N": 0}
    factor = _NANOSECONDS[match["unit"]]
    least, most, mean = (factor * _parse_number(match[key]) for key in ("min", "max", "mean"))
    return {"N": ios, "min": math.floor(min(least, mean)), "max": math.ceil(max(most, mean)), "mean": mean}


def _parse_number(text: str) -> float:
    return float(text[:-1]) * _MULTIPLES[text[-1]] if text[-1] in _MULTIPLES else float(text)
