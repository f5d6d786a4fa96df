"""Determine how a run of TKperf deviates from the standard, from its file, its version and its command line.

The known faults are those in the source of TKperf's versions up to 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model.dut import Dut
from ..results.result import RunWarning
from ..spec import Deviation
from ..units import KIB, capacity
from .device import Command
from .document import File, Test

#: The last version whose faults are known.
_LAST_FAULTY = (2, 2)
#: The file does not state what is written between two samples, so this share of the final amount is enough.
_COMPLETE_SHARE = 0.95
#: Maximum number of samples of write saturation, one per minute.
MAX_MINUTES = 1440
_NOT_STATED = "not stated in the file"
_NOT_IN_FILE = "missing in the file"
_WIPC = "SEQ 128 KiB writes over the whole device, 2 x user capacity"


def tool_and_version(file: File) -> tuple[str, str]:
    """Return the tool that wrote a file, and its version; the version is empty if the file does not state it."""
    tool, _, version = file.version.partition(" ")
    return ("snia-pts", version) if tool == "snia-pts" else ("TKperf", file.version)


def _is_faulty(file: File) -> bool:
    """Return whether a TKperf version with known faults wrote the file; the oldest versions are not stated."""
    tool, version = tool_and_version(file)
    numbers = tuple(map(int, re.findall(r"\d{1,4}", version)[:2]))
    return tool == "TKperf" and numbers <= _LAST_FAULTY


def deviations(file: File, test: Test, dut: Dut, tkperf: Command, jobs: int | None) -> Iterator[Deviation]:
    """Yield every known deviation, and every requirement whose fulfilment the file cannot prove.

    ``jobs`` is the requested number of streams; None if it is unknown.
    """
    name, faulty = " ".join(filter(None, tool_and_version(file))), _is_faulty(file)
    clause = "the profile" if test.zones else "PTS-E 1.1 p. 30"
    yield Deviation(
        what="measured by another tool",
        standard="evidence for every step of the test",
        actual=f"{name}; its file contains only results",
        clause=clause,
    )
    if test.zones:
        yield from _zoned(test, faulty, jobs)
        return
    yield Deviation(
        what="purge",
        standard="the device is purged before the test",
        actual=f"{_NOT_STATED}{'; TKperf continues after a failed purge' * faulty}",
        clause="PTS-E 1.1 p. 30 (Purge); 2.0.2 section 3.2",
    )
    yield from _preconditioning(test, faulty, jobs)
    if dut.write_cache != "disabled":
        yield Deviation(
            what="write cache",
            standard="disabled",
            clause="1.1 chapter 3 (WCD)",
            actual="enabled" if dut.write_cache == "enabled" else _NOT_STATED,
        )
    if substitute := _substitute(dut, tkperf):
        yield Deviation(
            what="device under test", standard="a whole drive", actual=substitute, clause="PTS 2.0.2 section 2.1.7"
        )
    if faulty:
        yield from _measurement_faults(test, jobs)


def _substitute(dut: Dut, tkperf: Command) -> str:
    """Return what was tested in place of a drive; empty if the file does not indicate a substitute."""
    if dut.simulated:
        return f"SIMULATED: {dut.model}"
    return "a RAID" if tkperf.mode == "raid" else "a loop device" if tkperf.path.startswith("/dev/loop") else ""


def _preconditioning(test: Test, faulty: bool, jobs: int | None) -> Iterator[Deviation]:
    what, clause = "preconditioning", "PTS-E 1.1 p. 30 (WIPC)"
    if test.kind in ("iops", "lat"):
        actual = _NOT_STATED
        if faulty and jobs is not None and jobs > 1:
            actual = f"{jobs} streams over the same blocks: TKperf writes {2 * jobs} x user capacity with {jobs} jobs"
        yield Deviation(what=what, standard=_WIPC, actual=actual, clause=clause)
    elif test.kind == "tp":
        actual = "none: TKperf only purges before it" if faulty else _NOT_STATED
        standard = "SEQ writes of the block size, 2 x user capacity"
        yield Deviation(what=what, standard=standard, actual=actual, clause="PTS-E 1.1 throughput (WIPC)")


def _zoned(test: Test, faulty: bool, jobs: int | None) -> Iterator[Deviation]:
    """Yield the deviations of TKperf from the profiles of hard disks."""
    if faulty and test.kind == "tp" and (jobs is None or jobs > 1):
        yield Deviation(
            what="sequential streams",
            standard="sequential access to every block in order",
            actual=f"{jobs} jobs over the same blocks at the same time: a cache may answer all but the first",
            clause="the profile",
        )
    if faulty and test.kind == "iops":
        yield Deviation(
            what="random offsets",
            standard="random within the zone",
            clause="the profile",
            actual="repeated at every start of fio: reads and writes of a zone used the same blocks",
        )


def _measurement_faults(test: Test, jobs: int | None) -> Iterator[Deviation]:
    """Yield the deviations of TKperf during measurement."""
    if test.kind == "tp":
        yield Deviation(
            what="end of the rounds",
            standard="a separate test of each block size, until its writes are steady",
            actual="as many rounds of every block size as 1024 KiB needed",
            clause="PTS-E 1.1 throughput",
        )
        if jobs is None or jobs > 1:
            streams = f"{jobs} jobs" if jobs else "all jobs"
            yield Deviation(
                what="sequential streams",
                standard="sequential access to every block in order",
                actual=f"{streams} over the same blocks at the same time: a cache may answer all but the first",
                clause="PTS-E 1.1 throughput",
            )
        return
    if test.kind != "writesat" and 512 not in test.sizes:
        yield Deviation(
            what="end of the rounds",
            standard="steady state of RND 4 KiB 0/100",
            actual="TKperf judged RND 8 KiB 0/100: with sectors of 4096 bytes it uses the wrong column",
            clause="PTS-E 1.1 p. 30",
        )
    interval = "minute" if test.kind == "writesat" else "round"
    yield Deviation(
        what="random offsets",
        standard="random over the whole ActiveRange",
        actual=f"repeated at every start of fio: the same blocks in every {interval}",
        clause="PTS-E 1.1 p. 30",
    )
    if test.kind == "writesat":
        yield Deviation(
            what="continuous stimulus",
            standard="uninterrupted writes",
            clause="PTS-E 1.1 write saturation",
            actual="fio was restarted for every sample, with about 0.3 s without I/O before each",
        )
    if test.kind == "lat":
        yield Deviation(
            what="response times of R/W 65/35",
            standard="minimum, mean and maximum of all I/Os",
            actual="0.65 x that of reads + 0.35 x that of writes: the true maximum may be greater, the minimum less",
            clause="PTS-E 1.1 latency",
        )


def warnings(file: File, test: Test, dut: Dut, seconds: int) -> Iterator[RunWarning]:
    """Yield the limitations of a file's numbers; ``seconds`` is the duration of a point or a sample."""
    missing = {
        "iops": "number and response times of I/Os; shares of reads and writes in a mixed point",
        "lat": "number of I/Os, so no IOPS, throughput, percentiles or averages weighted by I/Os",
        "tp": "number and response times of I/Os; IOPS are calculated from throughput and block size",
        "writesat": "percentiles and times without I/O; amounts are calculated from IOPS and the duration of a sample",
    }[test.kind]
    yield RunWarning(what=_NOT_IN_FILE, detail=missing)
    if test.seconds is None:
        detail = f"{_NOT_STATED}; versions before 2.1 always use 60 s"
        yield RunWarning(what="point duration", detail=detail)
    written = sum(row[0][0] for row in test.rates) * seconds * 4 * KIB if test.kind == "writesat" else 0
    if written and len(test.rates) < MAX_MINUTES and written < _COMPLETE_SHARE * 4 * dut.capacity_bytes:
        detail = (
            f"the samples wrote {capacity(written)}, {dut.fills(written):.3g} x user capacity; the reason for the end "
            f"is {_NOT_STATED} (TKperf stops after 4 x user capacity or 1440 samples)"
        )
        yield RunWarning(what="end of the stimulus", detail=detail)
    if test.zones and not dut.capacity_bytes:
        detail = "capacity of the disk, so positions of zones are given only in percent"
        yield RunWarning(what=_NOT_IN_FILE, detail=detail)
    if not file.version:
        yield RunWarning(what="version", detail=f"{_NOT_STATED}; treated as an old version of TKperf")
