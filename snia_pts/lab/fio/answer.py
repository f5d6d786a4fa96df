"""When fio's answer is believed: what it must say, and what of it is a measurement."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ...histogram import Histogram
from ...measurement import NOTHING, SyncTimes, Transfers
from ...steps import Stimulus, mix
from ...units import MOST
from ..sampling import Side, Totals
from .job import Refused, thread_limit, timeout_seconds

_HOST_ERRORS = {
    errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENOSPC, errno.EINVAL, errno.ENOENT, errno.EDEADLK,
    errno.EAGAIN,
}  # fmt: skip
#: The kernel itself takes a command for lost that is not answered by then.
_LONGEST_COMMAND_SECONDS = 30
#: What a busy host or a shared disk may take once; it is in the runtime, and so in the numbers.
_HICCUP_SECONDS = 2.0
#: A thread's time ends by its start, and is counted from its first I/O, in whole milliseconds.
_COUNTED_LATE_SECONDS = 0.005
#: Where the JSON begins: lines of text precede it, and a path in them may hold a brace.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
#: So many I/Os of one kind expected, and none done: that is no chance.
_NO_CHANCE = 50
_END = b"\n}\n"
_CPU = re.compile(r'"(?:usr|sys)_cpu"\s*:\s*(\d{1,9}(?:\.\d{1,9})?)')


def accept(stimulus: Stimulus, exit_code: int, timed_out: bool, output: str) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus, if everything in fio's answer says that it ran as asked.

    Raises Refused otherwise: exit code 0 alone proves nothing.
    """
    if timed_out:
        raise Refused("device", f"no answer within {timeout_seconds(stimulus):.0f} s")
    document = _document(output, exit_code)
    try:
        job = document["jobs"][0]
        _no_error(job, exit_code, output)
        if len(document["jobs"]) != 1:
            raise Refused("host", f"fio answered with {len(document['jobs'])} groups instead of one")
        stray = stimulus.total_oio if stimulus.ramp_seconds else 0
        read, write = _transfers(job["read"], stray), _transfers(job["write"], stray)
        _amounts(stimulus, read, write)
        _runtime(stimulus, read, write)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused("host", f"fio's output is not understood ({error!r})") from error
    return read, write


def engine_cpu_percent(output: str) -> float | None:
    """Return what each of fio's threads used of a CPU in one answer, in the mean; None where it does not say."""
    user_and_system = [float(percent) for percent in _CPU.findall(output)]
    return min(100.0, sum(user_and_system)) if len(user_and_system) == 2 else None


def sync_times(output: str) -> SyncTimes | None:
    """Return the times of fsync and fdatasync that an answer tells; None where there were none.

    Raises Refused when it is not understood.
    """
    try:
        told = _document(output, 0)["jobs"][0].get("sync", {}).get("lat_ns", {})
        calls, bins = int(told.get("N", 0)), told.get("bins", {})
        if not calls:
            return None
        _measurable(calls, told["mean"], told["max"])
        if sum(bins.values()) != calls:
            raise Refused("host", f"fio counts {calls} synchronizing calls, but not as many times")
        return SyncTimes(
            calls=calls, mean_ns=float(told["mean"]), max_ns=int(told["max"]),
            histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
        )  # fmt: skip
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused("host", f"fio's synchronizing calls are not understood ({error!r})") from error


class Answers:
    """Takes fio's output piece by piece, gives it answer by answer: a document each, with the text that precedes it.

    ``last`` is the answer given last, or what came after it.  No more than one answer is held.
    """

    def __init__(self) -> None:
        self._last = self._rest = b""

    @property
    def last(self) -> bytes:
        return self._rest or self._last

    def more(self, said: bytes) -> Iterator[str]:
        """Give the answers that are whole with what fio ``said`` now."""
        self._rest += said
        while (end := self._rest.find(_END)) >= 0:
            self._last, self._rest = self._rest[: end + len(_END)], self._rest[end + len(_END) :]
            yield self._last.decode("utf-8", "replace")


def totals(answer: str) -> Totals:
    """Return the running totals that an answer tells, the counters of one moment that may differ by a few I/Os.

    Raises Refused when it is not understood.
    """
    try:
        job = _document(answer, 0)["jobs"][0]
        return Totals(read=_side(job["read"]), write=_side(job["write"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused("host", f"fio's running totals are not understood ({error!r})") from error


def blame(error_number: int) -> Literal["device", "host"]:
    """Return whom an error number speaks of; where it may be either, the device."""
    return "host" if error_number in _HOST_ERRORS else "device"


def _document(output: str, exit_code: int) -> dict[str, Any]:
    """Read fio's JSON, which text lines may precede."""
    begin = _BEGIN.search(output)
    try:
        document = json.loads(output[begin.start() :]) if begin else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refused("host", f"fio {_ended(exit_code)} and left no result")
    return document


def _ended(exit_code: int) -> str:
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _no_error(job: Mapping[str, Any], exit_code: int, output: str) -> None:
    error = int(job["error"]) or int(job.get("total_err", 0) and job.get("first_error", 5))
    if error:
        raise Refused(blame(error), f"fio reports error {error}, {os.strerror(error)}", error)
    if "terminating on signal" in _BEGIN.split(output, maxsplit=1)[0]:
        raise Refused("host", "fio was stopped from outside")
    if exit_code != 0:
        raise Refused("host", f"fio {_ended(exit_code)}")


def _side(side: Mapping[str, Any]) -> Side:
    """Read running totals; I/Os are counted when they end, as their response times are."""
    response = side["lat_ns"]
    _measurable(response["N"], side["io_bytes"], side["runtime"], response["mean"], response["max"])
    return Side(
        ios=int(response["N"]),
        transferred_bytes=int(side["io_bytes"]),
        runtime_ms=int(side["runtime"]),
        timed_ios=int(response["N"]),
        response_ns=float(response["mean"]) * int(response["N"]),
        response_max_ns=int(response["max"]),
        bins={int(edge): int(count) for edge, count in response.get("bins", {}).items()},
    )


def _transfers(side: Mapping[str, Any], stray: int) -> Transfers:
    """Read what came of reads or writes; ``stray`` I/Os may have begun before what counts, and ended in it."""
    if not side["total_ios"]:
        return NOTHING
    response = side["lat_ns"]
    bins = response["bins"]
    if abs(sum(bins.values()) - side["total_ios"]) > stray:
        raise Refused("host", f"fio counts {side['total_ios']} I/Os, but not as many response times")
    transfers = Transfers(
        ios=int(side["total_ios"]),
        transferred_bytes=int(side["io_bytes"]),
        runtime_ms=int(side["runtime"]),
        response_min_ns=int(response["min"]),
        response_mean_ns=float(response["mean"]),
        response_max_ns=int(response["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )
    _measurable(
        transfers.ios, transfers.transferred_bytes, transfers.runtime_ms,
        transfers.response_min_ns, transfers.response_mean_ns, transfers.response_max_ns,
    )  # fmt: skip
    return transfers


def _measurable(*numbers: float) -> None:
    if not all(0 <= number <= MOST for number in numbers):
        raise ValueError("an amount below zero, or beyond all that can be measured")


def _amounts(stimulus: Stimulus, read: Transfers, write: Transfers) -> None:
    """Bytes and I/O counts must be there, agree with each other, and with what was asked."""
    ios, total = read.ios + write.ios, read.transferred_bytes + write.transferred_bytes
    if not ios or not total:
        raise Refused("host", "fio did no I/O at all (does something else use the target?)")
    for side, percent in ((read, stimulus.read_percent), (write, 100 - stimulus.read_percent)):
        if (side.ios and not percent) or (not side.ios and ios * percent > 100 * _NO_CHANCE):
            raise Refused("host", f"fio did not keep to the R/W mix {mix(stimulus.read_percent)}")
    if stimulus.amount_bytes is not None:
        if total != stimulus.amount_bytes:
            raise Refused("device", f"{total} bytes were transferred instead of {stimulus.amount_bytes}")
        return
    largest = stimulus.largest_block_bytes
    smallest = min((share.size_bytes for share in stimulus.block_shares), default=largest)
    stray = stimulus.total_oio if stimulus.ramp_seconds else 0
    if not (ios - stray) * smallest <= total <= (ios + stray) * largest:
        raise Refused("device", f"{ios} I/Os and {total} bytes do not fit together")
    limit = stimulus.limit_bytes
    if limit is not None and total > stimulus.thread_count * (thread_limit(stimulus, limit) + largest):
        raise Refused("host", f"{total} bytes were transferred, beyond the limit of {limit}")


def _runtime(stimulus: Stimulus, read: Transfers, write: Transfers) -> None:
    """The runtime measured must be the one asked, but for the time that the outstanding I/Os need to come back.

    It may be shorter where a limit was reached.
    """
    if stimulus.seconds is None:
        return
    runtime, iops = max(read.runtime_ms, write.runtime_ms) / 1000, read.iops + write.iops
    drain = min(2 * stimulus.total_oio / iops if iops else math.inf, _LONGEST_COMMAND_SECONDS)
    total, limit = read.transferred_bytes + write.transferred_bytes, stimulus.limit_bytes
    if runtime < 0.99 * stimulus.seconds - _COUNTED_LATE_SECONDS and (limit is None or total < limit):
        short = "" if limit is None else f", and transferred {total} of {limit} bytes"
        raise Refused("host", f"the stimulus ran {runtime:g} s instead of {stimulus.seconds:g} s{short}")
    if runtime > 1.05 * stimulus.seconds + drain + _HICCUP_SECONDS:
        raise Refused("device", f"the device stalled: {runtime:g} s for a stimulus of {stimulus.seconds:g} s")
