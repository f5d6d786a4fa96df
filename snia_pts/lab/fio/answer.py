"""When fio's answer is believed: what it must say, and what of it is a measurement."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from ...model.histogram import Histogram, SyncTimes, merged
from ...model.measurement import NO_TRANSFERS, Transfers
from ...model.steps import Stimulus, mix
from ...units import MAX_QUANTITY, counted, exact_capacity
from .agreement import (
    require_bytes,
    require_outstanding,
    require_rates,
    require_response_times,
    require_running_mean,
)
from .job import STALL_SECONDS, AnswerRejected, sections, thread_limit, timeout_seconds
from .sampling import Side, Totals

_HOST_ERRORS = {
    errno.ENOMEM,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.ETXTBSY,
    errno.EINVAL,
    errno.ENOENT,
    errno.EDEADLK,
    errno.EAGAIN,
}
#: A thread's time ends by its start, and is counted from its first I/O, in whole milliseconds.
_COUNTED_LATE_SECONDS = 0.005
#: Where the JSON begins: lines of text precede it, and a path in them may hold a brace.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
#: So many I/Os of one kind expected, and none done: that is no chance.
_NO_CHANCE = 50
_FAILED_IO = re.compile(r"^fio: io_u error.*$", re.MULTILINE)
_END = b"\n}\n"
_CPU = re.compile(r'"(?:usr|sys)_cpu"\s*:\s*(\d{1,9}(?:\.\d{1,9})?)')


def accept(
    stimulus: Stimulus,
    exit_code: int,
    timed_out: bool,
    output: str,
    errors: str = "",
    *,
    stall_seconds: float = STALL_SECONDS,
    allow_uncounted: bool = False,
) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus, if everything in fio's answer says that it ran as asked.

    ``errors`` is what fio said on its standard error.  A device that stood still for longer than ``stall_seconds`` has
    failed.  Raises Refused otherwise: exit code 0 alone proves nothing.

    Rarely fio loses count of what one thread had outstanding at its end: that is refused as repeatable.  With
    ``allow_uncounted`` all that was counted is taken (see ``uncounted_ios``).
    """
    if timed_out:
        raise AnswerRejected("device", f"no answer within {timeout_seconds(stimulus, stall_seconds):.0f} s")
    document = _document(output, exit_code)
    try:
        jobs = _jobs(document)
        for job in jobs:
            _no_error(job, exit_code, output, errors)
        _require_groups(stimulus, document)
        uncounted = sum(_uncounted(stimulus, job) for job in jobs)
        if uncounted and not allow_uncounted:
            reason = f"fio began {counted(uncounted, 'I/O')} more than it has response times of"
            raise AnswerRejected("host", reason, repeatable=True)
        read, write = (
            together([_transfers(stimulus, job[side], f"{side}s", _uncounted(stimulus, job)) for job in jobs])
            for side in ("read", "write")
        )
        uncounted_bytes = uncounted * stimulus.largest_block_bytes
        _amounts(stimulus, read, write, uncounted_bytes, cut_short=any(map(_cut_short, jobs)))
        _runtime(stimulus, read, write, stall_seconds, uncounted_bytes)
        require_outstanding(stimulus, (read, write))
        for what, side in (("read", read), ("write", write)):
            require_bytes(stimulus, side)
            for job in jobs:
                require_rates(job[what], f"{what}s")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"fio's output is not understood ({error!r})") from error
    return read, write


def engine_cpu_percent(output: str) -> float | None:
    """Return what each of fio's threads used of a CPU in one answer, in the mean; None where it does not say."""
    user_and_system = [float(percent) for percent in _CPU.findall(output)]
    jobs, unpaired = divmod(len(user_and_system), 2)
    return min(100.0, sum(user_and_system) / jobs) if jobs and not unpaired else None


def sync_times(output: str) -> SyncTimes | None:
    """Return the times of fsync and fdatasync that an answer tells; None where there were none.

    Raises Refused when it is not understood.
    """
    try:
        found = [times for job in _document(output, 0)["jobs"] if (times := _sync_times(job)) is not None]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"fio's synchronizing calls are not understood ({error!r})") from error
    calls = sum(each.calls for each in found)
    return (
        found[0]
        if len(found) == 1
        else None
        if not found
        else SyncTimes(
            calls=calls,
            mean_ns=math.fsum(each.calls * each.mean_ns for each in found) / calls,
            max_ns=max(each.max_ns for each in found),
            histogram=merged(each.histogram for each in found),
        )
    )


def _sync_times(job: Mapping[str, Any]) -> SyncTimes | None:
    """Return the times of the synchronizing calls of one job; None where there were none."""
    told = job.get("sync", {}).get("lat_ns", {})
    calls, bins = int(told.get("N", 0)), told.get("bins", {})
    if not calls:
        return None
    _measurable(calls, told["mean"], told["max"])
    require_response_times(told, calls, "synchronizing calls")
    return SyncTimes(
        calls=calls,
        mean_ns=float(told["mean"]),
        max_ns=int(told["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )


class StatusStream:
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


def read_totals(answer: str) -> tuple[Totals, float | None]:
    """Return the running totals of an answer, and when it was printed (Unix ms; None where it does not say).

    Raises Refused when it is not understood, or reports an error.
    """
    try:
        document = _document(answer, 0)
        jobs, printed_ms = _jobs(document), document.get("timestamp_ms")
        for job in jobs:
            _no_error(job, 0, answer, "")
        read, write = (Side.together([_side(job[side]) for job in jobs]) for side in ("read", "write"))
        totals = Totals(read=read, write=write)
        if printed_ms is not None:
            _measurable(printed_ms)
        return totals, printed_ms
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"fio's running totals are not understood ({error!r})") from error


def blame(error_number: int) -> Literal["device", "host"]:
    """Return whom an error number speaks of; where it may be either, the device."""
    return "host" if error_number in _HOST_ERRORS else "device"


@lru_cache(maxsize=1)  # one answer is asked for its transfers, its synchronizing calls and what fio lost count of
def _document(output: str, exit_code: int) -> dict[str, Any]:
    """Read fio's JSON, which text lines may precede."""
    begin = _BEGIN.search(output)
    try:
        document = json.loads(output[begin.start() :]) if begin else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise AnswerRejected("host", f"fio {_ended(exit_code)} and left no result")
    return document


def _jobs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the jobs, or groups of jobs, of an answer; raises IndexError where there is none."""
    jobs: list[Mapping[str, Any]] = document["jobs"]
    return [jobs[0], *jobs[1:]]


def _ended(exit_code: int) -> str:
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _no_error(job: Mapping[str, Any], exit_code: int, output: str, errors: str) -> None:
    """Raise Refused where the answer, or a line of text before it or among ``errors``, tells of a failure."""
    error = int(job["error"]) or int(job.get("total_err", 0) and job.get("first_error", 5))
    if error:
        raise AnswerRejected(blame(error), f"fio reports error {error}, {os.strerror(error)}", error)
    text = _BEGIN.split(output, maxsplit=1)[0] + errors
    if "terminating on signal" in text:
        raise AnswerRejected("host", "fio was stopped from outside")
    if failed := _FAILED_IO.search(text):
        raise AnswerRejected("device", f"fio reports a failed I/O, and error 0: {failed[0]}")
    if exit_code != 0:
        raise AnswerRejected("host", f"fio {_ended(exit_code)}")


def _side(side: Mapping[str, Any]) -> Side:
    """Read running totals; I/Os are counted when they end, as their response times are."""
    response = side["lat_ns"]
    _measurable(response["N"], side["io_bytes"], side["runtime"], response["mean"], response["max"])
    require_running_mean(response)
    return Side(
        ios=int(response["N"]),
        transferred_bytes=int(side["io_bytes"]),
        runtime_ms=int(side["runtime"]),
        timed_ios=int(response["N"]),
        response_ns=float(response["mean"]) * int(response["N"]),
        response_max_ns=int(response["max"]),
        bins={int(edge): int(count) for edge, count in response.get("bins", {}).items()},
    )


def uncounted_ios(stimulus: Stimulus, output: str) -> int:
    """Return how many I/Os of an answer that is believed fio lost count of at its end."""
    return sum(_uncounted(stimulus, job) for job in _document(output, 0)["jobs"])


def stream_bytes(stimulus: Stimulus, output: str) -> tuple[int, ...]:
    """Return what each sequential thread transferred, of an answer that is believed; empty where fio summed them up."""
    jobs = _document(output, 0)["jobs"][: stimulus.streams]
    if len(jobs) < 2:
        return ()
    return tuple(
        sum(_counts(stimulus, job[side], _uncounted(stimulus, job))[1] for side in ("read", "write")) for job in jobs
    )


def _require_groups(stimulus: Stimulus, document: Mapping[str, Any]) -> None:
    """Raise Refused unless each of several sequential threads answers by itself, and all others together.

    Older versions of the suite had the sum of sequential threads, too; fio repeats that it was asked for it.
    """
    groups, grouped = len(document["jobs"]), (document.get("global options") or {}).get("group_reporting") == "1"
    expected = 1 if stimulus.streams < 2 or grouped else sum(1 for _ in sections(stimulus))
    if groups != expected:
        raise AnswerRejected("host", f"fio answered with {counted(groups, 'group')} instead of {expected}")


def _uncounted(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    """Return how many more I/Os fio began than it has response times of; 0 for more than one thread has outstanding."""
    if stimulus.ramp_seconds:
        return 0
    lost = [int(job[side]["total_ios"]) - int(job[side]["lat_ns"].get("N", 0)) for side in ("read", "write")]
    return sum(lost) if min(lost) >= 0 and sum(lost) <= stimulus.queue_depth else 0


def _transfers(stimulus: Stimulus, side: Mapping[str, Any], what: str, uncounted: int) -> Transfers:
    """Read what came of reads or writes, and require that it agrees with itself."""
    response = side["lat_ns"]
    if not (side["total_ios"] or side["io_bytes"] or response.get("N")):
        return NO_TRANSFERS
    bins = response["bins"]
    ios, transferred_bytes = _counts(stimulus, side, uncounted)
    transfers = Transfers(
        ios=ios,
        transferred_bytes=transferred_bytes,
        runtime_ms=int(side["runtime"]),
        response_min_ns=int(response["min"]),
        response_mean_ns=float(response["mean"]),
        response_max_ns=int(response["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )
    _measurable(
        transfers.ios,
        transfers.transferred_bytes,
        transfers.runtime_ms,
        transfers.response_min_ns,
        transfers.response_mean_ns,
        transfers.response_max_ns,
    )
    require_response_times(response, ios, what)
    return transfers


def _counts(stimulus: Stimulus, side: Mapping[str, Any], uncounted: int) -> tuple[int, int]:
    """Return the I/Os and bytes of reads or writes, but for the ``uncounted``, whose bytes fio may have or not.

    After a ramp both are the I/Os that ended in the measured time, each of which has a response time.  fio's own
    ``total_ios`` leaves out those that were outstanding at the ramp's end, and ``io_bytes`` may hold one more a thread.
    """
    ios, transferred_bytes = int(side["total_ios"]), int(side["io_bytes"])
    ended, block = int(side["lat_ns"]["N"]), stimulus.largest_block_bytes
    if uncounted:
        return ended, transferred_bytes if stimulus.block_shares else min(transferred_bytes, ended * block)
    if not stimulus.ramp_seconds:
        return ios, transferred_bytes
    if abs(ended - ios) > stimulus.total_oio or abs(transferred_bytes - ended * block) > stimulus.total_oio * block:
        raise AnswerRejected("host", f"fio counts {ios} I/Os, {transferred_bytes} bytes, and {ended} response times")
    return ended, ended * block


def together(parts: Sequence[Transfers]) -> Transfers:
    """Return the transfers of several jobs that ran at the same time."""
    done = [part for part in parts if part != NO_TRANSFERS]
    if len(done) < 2:
        return done[0] if done else NO_TRANSFERS
    ios = sum(part.ios for part in done)
    return Transfers(
        ios=ios,
        transferred_bytes=sum(part.transferred_bytes for part in done),
        runtime_ms=max(part.runtime_ms for part in done),
        response_min_ns=min(part.response_min_ns for part in done),
        response_mean_ns=math.fsum(part.ios * part.response_mean_ns for part in done) / ios,
        response_max_ns=max(part.response_max_ns for part in done),
        histogram=merged(part.histogram for part in done),
    )


def _measurable(*numbers: float) -> None:
    if not all(0 <= number <= MAX_QUANTITY for number in numbers):
        raise ValueError("an amount below zero, or beyond all that can be measured")


def _cut_short(job: Mapping[str, Any]) -> bool:
    """Return whether the device transferred less than it was asked to in some I/O, by fio's count."""
    return any(job[side].get(count, 0) for side in ("read", "write") for count in ("short_ios", "drop_ios"))


def _amounts(stimulus: Stimulus, read: Transfers, write: Transfers, uncounted_bytes: int, *, cut_short: bool) -> None:
    """Bytes and I/O counts must be there, and be what was asked.

    An amount that is not reached, without any error, is fio's failure, unless I/Os were ``cut_short``.
    """
    ios, total = read.ios + write.ios, read.transferred_bytes + write.transferred_bytes
    if not ios or not total:
        raise AnswerRejected("host", "fio did no I/O at all (does something else use the target?)")
    for side, percent in ((read, stimulus.read_percent), (write, 100 - stimulus.read_percent)):
        if (side.ios and not percent) or (not side.ios and ios * percent > 100 * _NO_CHANCE):
            raise AnswerRejected("host", f"fio did not keep to the R/W mix {mix(stimulus.read_percent)}")
    if stimulus.amount_bytes is not None:
        if not stimulus.amount_bytes - uncounted_bytes <= total <= stimulus.amount_bytes:
            instead = exact_capacity(stimulus.amount_bytes)
            reason = f"{exact_capacity(total)} were transferred instead of {instead}"
            if cut_short:
                raise AnswerRejected("device", reason)
            raise AnswerRejected("host", f"fio ended without an error, but {reason}")
        return
    limit, largest = stimulus.limit_bytes, stimulus.largest_block_bytes
    if limit is not None and total > stimulus.thread_count * (thread_limit(stimulus, limit) + largest):
        raise AnswerRejected(
            "host", f"{exact_capacity(total)} were transferred, beyond the limit of {exact_capacity(limit)}"
        )


def _runtime(stimulus: Stimulus, read: Transfers, write: Transfers, stall_seconds: float, uncounted_bytes: int) -> None:
    """The runtime must be the one asked, and neither it nor an I/O longer by more than the drive may stand still.

    It may be shorter where a limit was reached.
    """
    slowest = max(read.response_max_ns, write.response_max_ns) / 1e9
    if slowest > stall_seconds:
        raise AnswerRejected("device", f"the device stalled: an I/O took {slowest:.4g} s (limit {stall_seconds:g} s)")
    if stimulus.seconds is None:
        return
    runtime = max(read.runtime_ms, write.runtime_ms) / 1000
    total, limit = read.transferred_bytes + write.transferred_bytes, stimulus.limit_bytes
    if runtime < 0.99 * stimulus.seconds - _COUNTED_LATE_SECONDS and (limit is None or total + uncounted_bytes < limit):
        short = "" if limit is None else f", and transferred {exact_capacity(total)} of {exact_capacity(limit)}"
        raise AnswerRejected("host", f"the stimulus ran {runtime:g} s instead of {stimulus.seconds:g} s{short}")
    if runtime > stimulus.seconds + stall_seconds:
        late = f"{runtime:g} s for a stimulus of {stimulus.seconds:g} s (limit {stall_seconds:g} s more)"
        raise AnswerRejected("device", f"the device stalled: {late}")
