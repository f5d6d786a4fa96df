"""The block layer's queue of a drive, through which every I/O goes from fio to the drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ....units import counted as plural
from ....units import whole_number
from ...device.identity import attribute
from ..settings_list import selected_value
from .finding import NOT_REPORTED, DesiredSetting, Finding, finding, unknown_finding

#: The largest I/O of the standard, in KiB.
_MAX_IO_KIB = 1024
_BUFFERED_ONLY = "it affects only buffered I/O, and fio's is direct"
#: How the kernel treats the drive: finding, file, the texts of its values, and the reason why they matter.
_KERNEL_FLAGS: tuple[tuple[str, str, Mapping[str, str], str], ...] = (
    (
        "cache flushes",
        "write_cache",
        {"write back": "sent to the drive", "write through": "not sent to the drive"},
        "the kernel sends flushes, as for fsync, only if it treats the drive's write cache as volatile",
    ),
    (
        "media",
        "rotational",
        {"0": "solid state", "1": "rotational"},
        "schedulers, RAID and file systems treat the two in different ways",
    ),
)


def queue(block: Path) -> Iterator[Finding]:
    """Inspect the queue of the drive with the sysfs folder ``block``."""
    yield scheduler(block)
    yield _merging(block)
    yield _max_io_size(block)
    yield _requests(block)
    yield _completion(block)
    yield _statistics(block)
    for name, file, values, reason in _KERNEL_FLAGS:
        flag = values.get(attribute(block / "queue" / file))
        yield finding(name, flag, "good", reason) if flag else unknown_finding(name, NOT_REPORTED)
    for name, file in (("read-ahead", "read_ahead_kb"), ("writeback throttling", "wbt_lat_usec")):
        value, unit = attribute(block / "queue" / file), "KiB" if file.endswith("kb") else "us"
        yield finding(name, f"{value} {unit}", "good", _BUFFERED_ONLY) if value else unknown_finding(name, NOT_REPORTED)


def scheduler(block: Path) -> Finding:
    """Inspect the scheduler of the disk with the sysfs folder ``block``."""
    current, place = selected_value(attribute(block / "queue/scheduler")), block.name
    if not current:
        return unknown_finding("scheduler", NOT_REPORTED)
    reason = "a scheduler sorts, delays and locks; a drive has its own queue"
    if current == "none":
        return finding("scheduler", current, "good", "I/Os reach the drive as fio submits them", recommended="none")
    # Changing the scheduler also changes the number of requests.
    desired = (
        DesiredSetting(kind="requests", place=place),
        DesiredSetting(kind="scheduler", place=place, value="none"),
    )
    return finding("scheduler", current, "affects results", reason, recommended="none", desired=desired)


def _merging(block: Path) -> Finding:
    value = attribute(block / "queue/nomerges")
    text = {"0": "on", "1": "simple merges only", "2": "off"}.get(value)
    if text is None:
        return unknown_finding("merging", NOT_REPORTED)
    if value == "2":
        return finding("merging", text, "good", "the drive gets I/Os of the requested size", recommended="off")
    reason = "adjacent I/Os may be merged: the drive then gets fewer and larger ones than the test requests"
    desired = [DesiredSetting(kind="merging", place=block.name, value="2")]
    return finding("merging", text, "noted", reason, recommended="off", desired=desired)


def _max_io_size(block: Path) -> Finding:
    current = whole_number(attribute(block / "queue/max_sectors_kb"))
    supported = whole_number(attribute(block / "queue/max_hw_sectors_kb"))
    if current is None or supported is None:
        return unknown_finding("largest I/O", NOT_REPORTED)
    if current >= _MAX_IO_KIB:
        return finding(
            "largest I/O", f"{current} KiB", "good", "I/Os of 1024 KiB reach the drive unsplit", recommended="1024 KiB"
        )
    reason = "larger I/Os are split"
    if current >= supported:
        return finding(
            "largest I/O", f"{current} KiB", "noted", f"{reason}: it is the drive's maximum", recommended="1024 KiB"
        )
    better = min(supported, _MAX_IO_KIB)
    desired = [DesiredSetting(kind="largest I/O", place=block.name, value=str(better))]
    return finding(
        "largest I/O", f"{current} KiB", "affects results", reason, recommended=f"{better} KiB", desired=desired
    )


def _requests(block: Path) -> Finding:
    requests = whole_number(attribute(block / "queue/nr_requests"))
    if requests is None:
        return unknown_finding("requests", NOT_REPORTED)
    if requests < 2:
        reason = "the block layer passes only one I/O at a time to the drive"
        return finding("requests", str(requests), "affects results", reason, recommended="32 or more")
    return finding(
        "requests", str(requests), "good", "the maximum of outstanding I/Os per queue; further I/Os wait in the host"
    )


def _completion(block: Path) -> Finding:
    value = attribute(block / "queue/rq_affinity")
    text = {"0": "any CPU", "1": "a CPU near the submitting one", "2": "the submitting CPU"}.get(value)
    if text is None:
        return unknown_finding("completion", NOT_REPORTED)
    if value == "0":
        reason = "the CPU that the drive interrupts completes the I/Os of all CPUs"
        return finding("completion", text, "noted", reason, recommended="a CPU near the submitting one")
    return finding("completion", text, "good", "I/Os are completed close to the CPU that submitted them")


def _statistics(block: Path) -> Finding:
    text = {"0": "off", "1": "on"}.get(attribute(block / "queue/iostats"))
    if text is None:
        return unknown_finding("statistics", NOT_REPORTED)
    if text == "on":
        return finding("statistics", text, "good", "fio's counts are compared with the kernel's", recommended="on")
    reason = "without the kernel's counts the run has no telemetry from the drive, and fio's counts cannot be verified"
    return finding("statistics", text, "affects results", reason, recommended="on")


def other_io(before: tuple[int, int] | None, after: tuple[int, int] | None) -> Finding:
    """Return the finding whether other processes use the drive.

    ``before`` and ``after`` are the results of ``ios`` at the start and at the end of a time without I/O of the suite.
    """
    if before is None or after is None:
        return unknown_finding("other I/O", NOT_REPORTED)
    completed, outstanding = after[0] - before[0], after[1]
    if completed > 0 or outstanding:
        value = f"{plural(max(completed, 0), 'I/O')} completed, {outstanding} outstanding"
        return finding("other I/O", value, "affects results", "another process uses the drive", recommended="none")
    return finding("other I/O", "none", "good", "no other process uses the drive", recommended="none")


def ios(block: Path) -> tuple[int, int] | None:
    """Return how many I/Os a drive has completed, and how many are outstanding; None if they are not counted."""
    if attribute(block / "queue/iostats") == "0":
        return None
    fields = [whole_number(text) for text in attribute(block / "stat").split()]
    counts = [number for number in fields if number is not None]
    return (counts[0] + counts[4], counts[8]) if len(counts) == len(fields) > 8 else None
