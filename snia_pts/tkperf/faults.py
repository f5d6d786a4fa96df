"""What differs from the standard in a run of TKperf, as far as its file, or its version and command line, tell.

The versions are those whose source was looked at: all up to 2.2.
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
_KNOWN = (2, 2)
#: What is written between two samples is not told; so much of what ends it must be.
_WHOLE = 0.95
#: The samples of write saturation at most.
MAX_MINUTES = 1440
_WIPC = "SEQ 128 KiB writes over the whole device, 2 x user capacity"


def tool_of(file: File) -> tuple[str, str]:
    """Return which tool wrote a file, and its version; empty where it does not say."""
    tool, _, version = file.version.partition(" ")
    return ("snia-pts", version) if tool == "snia-pts" else ("TKperf", file.version)


def _faulty(file: File) -> bool:
    """Whether a file was made by a version whose faults are known; one without a version is older than all."""
    tool, version = tool_of(file)
    numbers = tuple(map(int, re.findall(r"\d{1,4}", version)[:2]))
    return tool == "TKperf" and numbers <= _KNOWN


def deviations(file: File, test: Test, dut: Dut, asked: Command, jobs: int | None) -> Iterator[Deviation]:
    """Give everything that is known to differ, or that nobody can show to be as the standard asks.

    ``jobs`` is how many streams the run was asked for; None where that is not told.
    """
    name, theirs = " ".join(filter(None, tool_of(file))), _faulty(file)
    clause = "the profile" if test.zones else "PTS-E 1.1 p. 30"
    yield Deviation(
        what="measured by another tool",
        standard="every step of the test is shown by its evidence",
        actual=f"{name}, whose file keeps its results alone",
        clause=clause,
    )
    if test.zones:
        yield from _zoned(test, theirs, jobs)
        return
    yield Deviation(
        what="purge",
        standard="the device is purged before the test",
        actual=f"the file does not tell{'; TKperf goes on after a purge that failed' * theirs}",
        clause="PTS-E 1.1 p. 30 (Purge); 2.0.2 section 3.2",
    )
    yield from _preconditioning(test, theirs, jobs)
    if dut.write_cache != "disabled":
        yield Deviation(
            what="write cache",
            standard="disabled",
            clause="1.1 chapter 3 (WCD)",
            actual="enabled" if dut.write_cache == "enabled" else "the file does not tell",
        )
    if instead := _instead(dut, asked):
        yield Deviation(
            what="device under test", standard="a whole drive", actual=instead, clause="PTS 2.0.2 section 2.1.7"
        )
    if theirs:
        yield from _course(test, jobs)


def _instead(dut: Dut, asked: Command) -> str:
    """Return what was tested in place of a drive; empty where nothing tells that it was none."""
    if dut.simulated:
        return f"SIMULATED: {dut.model}"
    return "a RAID" if asked.mode == "raid" else "a loop device" if asked.path.startswith("/dev/loop") else ""


def _preconditioning(test: Test, theirs: bool, jobs: int | None) -> Iterator[Deviation]:
    what, clause = "preconditioning", "PTS-E 1.1 p. 30 (WIPC)"
    if test.kind in ("iops", "lat"):
        actual = "the file does not tell"
        if theirs and jobs is not None and jobs > 1:
            actual = f"{jobs} streams over the same blocks: TKperf writes {2 * jobs} x user capacity with {jobs} jobs"
        yield Deviation(what=what, standard=_WIPC, actual=actual, clause=clause)
    elif test.kind == "tp":
        actual = "none: TKperf only purges before it" if theirs else "the file does not tell"
        standard = "SEQ writes of the block size, 2 x user capacity"
        yield Deviation(what=what, standard=standard, actual=actual, clause="PTS-E 1.1 throughput (WIPC)")


def _zoned(test: Test, theirs: bool, jobs: int | None) -> Iterator[Deviation]:
    """Give what TKperf does otherwise than the profiles of hard disks."""
    if theirs and test.kind == "tp" and (jobs is None or jobs > 1):
        yield Deviation(
            what="sequential streams",
            standard="sequential access, each block in its turn",
            actual=f"{jobs} jobs over the same blocks at the same time: a cache may answer all but the first",
            clause="the profile",
        )
    if theirs and test.kind == "iops":
        yield Deviation(
            what="random offsets",
            standard="random within the zone",
            clause="the profile",
            actual="each start of fio repeated them: reads after reads, and writes, of the same blocks of a zone",
        )


def _course(test: Test, jobs: int | None) -> Iterator[Deviation]:
    """Give what TKperf does otherwise while it measures."""
    if test.kind == "tp":
        yield Deviation(
            what="end of the rounds",
            standard="each block size is a test of its own, until its writes are steady",
            actual="as many rounds of every block size as 1024 KiB needed",
            clause="PTS-E 1.1 throughput",
        )
        if jobs is None or jobs > 1:
            streams = f"{jobs} jobs" if jobs else "all jobs"
            yield Deviation(
                what="sequential streams",
                standard="sequential access, each block in its turn",
                actual=f"{streams} over the same blocks at the same time: a cache may answer all but the first",
                clause="PTS-E 1.1 throughput",
            )
        return
    if test.kind != "writesat" and 512 not in test.sizes:
        yield Deviation(
            what="end of the rounds",
            standard="steady state of RND 4 KiB 0/100",
            actual="TKperf judged RND 8 KiB 0/100: on sectors of 4096 bytes it takes the wrong column",
            clause="PTS-E 1.1 p. 30",
        )
    turn = "minute" if test.kind == "writesat" else "round"
    yield Deviation(
        what="random offsets",
        standard="random over the whole ActiveRange",
        actual=f"each start of fio repeated them: the same blocks in every {turn}",
        clause="PTS-E 1.1 p. 30",
    )
    if test.kind == "writesat":
        yield Deviation(
            what="continuous stimulus",
            standard="writes without a break",
            clause="PTS-E 1.1 write saturation",
            actual="fio was started anew for every sample, about 0.3 s without I/O before each",
        )
    if test.kind == "lat":
        yield Deviation(
            what="response times of R/W 65/35",
            standard="of all I/Os: the least, the mean, the greatest",
            actual="0.65 of the reads' and 0.35 of the writes': the true maximum may be greater, the minimum less",
            clause="PTS-E 1.1 latency",
        )


def warnings(file: File, test: Test, dut: Dut, seconds: int) -> Iterator[RunWarning]:
    """Give what a reader must know of a file's numbers; ``seconds`` is the time of a point, or a sample."""
    untold = {
        "iops": "how many I/Os were done, and how long they took; what of a mixed point was read and written",
        "lat": "how many I/Os were done: IOPS, throughput, percentiles, and averages weighted by them",
        "tp": "how many I/Os were done, and how long they took: IOPS are made of throughput and block size",
        "writesat": "percentiles, and times without I/O; amounts are made of IOPS and the time of a sample",
    }[test.kind]
    yield RunWarning(what="not told by the file", detail=untold)
    if test.seconds is None:
        detail = "the file does not tell the time of a point; versions before 2.1 take 60 s, always"
        yield RunWarning(what="point duration", detail=detail)
    written = sum(row[0][0] for row in test.rates) * seconds * 4 * KIB if test.kind == "writesat" else 0
    if written and len(test.rates) < MAX_MINUTES and written < _WHOLE * 4 * dut.capacity_bytes:
        detail = (
            f"its samples make {capacity(written)}, {dut.fills(written):.3g} x user capacity: why it ended there is "
            "not told (TKperf stops after 4 x user capacity, or 1440 samples)"
        )
        yield RunWarning(what="end of the stimulus", detail=detail)
    if test.zones and not dut.capacity_bytes:
        detail = "how large the disk is, and so where its zones lie: their position is shown in percent alone"
        yield RunWarning(what="not told by the file", detail=detail)
    if not file.version:
        yield RunWarning(
            what="version", detail="the file does not tell its tool's version, and is taken for an old one"
        )
