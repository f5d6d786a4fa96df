"""The queue of a drive in the block layer: what becomes of an I/O between fio and the drive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....units import counted as plural
from ....units import whole_number
from ...device.identity import attribute
from ..settable import chosen
from .finding import DesiredSetting, Finding, finding, unknown_finding

#: The largest I/O of the standard, in KiB.
_LARGEST_KIB = 1024
_UNTOLD = "the kernel does not tell"
_DIRECT = "it concerns I/O through the page cache alone, and fio's goes past that"


def queue(block: Path) -> Iterator[Finding]:
    """Tell of the queue of the drive whose sysfs folder is ``block``."""
    yield scheduler(block)
    yield _merging(block)
    yield _largest(block)
    yield _requests(block)
    yield _completion(block)
    for name, file in (("read-ahead", "read_ahead_kb"), ("writeback throttling", "wbt_lat_usec")):
        value, unit = attribute(block / "queue" / file), "KiB" if file.endswith("kb") else "us"
        yield finding(name, f"{value} {unit}", "good", _DIRECT) if value else unknown_finding(name, _UNTOLD)


def scheduler(block: Path) -> Finding:
    """Tell of the scheduler of the disk whose sysfs folder is ``block``."""
    now, place = chosen(attribute(block / "queue/scheduler")), block.name
    if not now:
        return unknown_finding("scheduler", _UNTOLD)
    reason = "a scheduler sorts, delays and locks; a drive with a queue of its own is faster without, up to fivefold"
    if now == "none":
        return finding("scheduler", now, "good", "I/Os go to the drive as fio asks for them", recommended="none")
    # Whoever changes the scheduler changes the number of requests with it.
    wanted = (DesiredSetting(kind="requests", place=place), DesiredSetting(kind="scheduler", place=place, value="none"))
    return finding("scheduler", now, "affects results", reason, recommended="none", wanted=wanted)


def _merging(block: Path) -> Finding:
    value = attribute(block / "queue/nomerges")
    words = {"0": "on", "1": "simple merges alone", "2": "off"}.get(value)
    if words is None:
        return unknown_finding("merging", _UNTOLD)
    if value == "2":
        return finding(
            "merging", words, "good", "the drive gets I/Os of the size that was asked for", recommended="off"
        )
    reason = "neighbouring I/Os may be made one: the drive then gets fewer and larger ones than the test asks for"
    wanted = [DesiredSetting(kind="merging", place=block.name, value="2")]
    return finding("merging", words, "noted", reason, recommended="off", wanted=wanted)


def _largest(block: Path) -> Finding:
    now = whole_number(attribute(block / "queue/max_sectors_kb"))
    most = whole_number(attribute(block / "queue/max_hw_sectors_kb"))
    if now is None or most is None:
        return unknown_finding("largest I/O", _UNTOLD)
    if now >= _LARGEST_KIB:
        return finding(
            "largest I/O", f"{now} KiB", "good", "1024 KiB reach the drive in one piece", recommended="1024 KiB"
        )
    reason = "larger I/Os reach the drive in pieces"
    if now >= most:
        return finding(
            "largest I/O", f"{now} KiB", "noted", f"{reason}: it takes no larger ones", recommended="1024 KiB"
        )
    better = min(most, _LARGEST_KIB)
    wanted = [DesiredSetting(kind="largest I/O", place=block.name, value=str(better))]
    return finding("largest I/O", f"{now} KiB", "affects results", reason, recommended=f"{better} KiB", wanted=wanted)


def _requests(block: Path) -> Finding:
    requests = whole_number(attribute(block / "queue/nr_requests"))
    if requests is None:
        return unknown_finding("requests", _UNTOLD)
    if requests < 2:
        reason = "the block layer lets only one I/O at a time through"
        return finding("requests", str(requests), "affects results", reason, recommended="32 or more")
    return finding(
        "requests", str(requests), "good", "so many I/Os a queue may be on their way; the others wait in the host"
    )


def _completion(block: Path) -> Finding:
    value = attribute(block / "queue/rq_affinity")
    words = {"0": "any CPU", "1": "a CPU near the one that asked", "2": "the CPU that asked"}.get(value)
    if words is None:
        return unknown_finding("completion", _UNTOLD)
    if value == "0":
        reason = "the CPU that the drive interrupts does the work of all that asked"
        return finding("completion", words, "noted", reason, recommended="a CPU near the one that asked")
    return finding("completion", words, "good", "the work is done where the data is wanted")


def other_io(before: tuple[int, int] | None, after: tuple[int, int] | None) -> Finding:
    """Whether anybody else does I/O on the drive, by ``ios`` before and after a moment without I/O of the suite."""
    if before is None or after is None:
        return unknown_finding("other I/O", _UNTOLD)
    done, waiting = after[0] - before[0], after[1]
    if done > 0 or waiting:
        value = f"{plural(max(done, 0), 'I/O')} in a moment, {waiting} on their way"
        return finding("other I/O", value, "affects results", "somebody else uses the drive", recommended="none")
    return finding("other I/O", "none", "good", "nobody else uses the drive", recommended="none")


def ios(block: Path) -> tuple[int, int] | None:
    """Return how many I/Os a drive has done so far, and how many are on their way; None where it is untold."""
    found = [whole_number(text) for text in attribute(block / "stat").split()]
    known = [number for number in found if number is not None]
    return (known[0] + known[4], known[8]) if len(known) == len(found) > 8 else None
