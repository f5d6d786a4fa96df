"""Validate fio's answer and read the measurement from it."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from ...model.histogram import Histogram, SyncTimes, merge
from ...model.measurement import NO_TRANSFERS, Transfers
from ...model.steps import SYNCHRONOUS_ENGINES, Stimulus, mix
from ...text import one_line, without_numbers
from ...units import MAX_QUANTITY, counted, exact_capacity
from .agreement import (
    require_bytes,
    require_outstanding,
    require_rates,
    require_response_times,
    require_running_mean,
    require_sync_times,
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
#: fio stops a thread a fixed time after its start, but counts its runtime from its first I/O, in whole milliseconds.
_LATE_COUNT_SECONDS = 0.005
#: The start of the JSON.  Lines of text precede it, and a path in them may contain a brace.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
#: If at least this many reads (or writes) are expected and fio did none, the reason is not chance.
_MIN_EXPECTED_IOS = 50
_FAILED_IO = re.compile(r"^fio: (?:io_u error|pid=\d+.*\berr=[1-9]).*$", re.MULTILINE)
#: The options that call fsync or fdatasync.
_SYNC_CALLS = {"fsync", "fdatasync", "end_fsync"}
_CAPPED_DEPTH = "queue depth will be capped at 1"
#: Of so many I/Os, and of so many for each outstanding one, this share must have at least half the queue depth.  All of
#: some 250 honest answers had 98 % or more, with three busy loops on two cores 93 %.
_DEPTH_IOS, _DEPTH_IOS_EACH, _DEPTH_PERCENT = 1000, 10, 50.0
#: fio counts all depths from here on together.
_DEEPEST_LEVEL = 64
#: fio measures reads and writes of a thread over the same time; threads end up to this much apart.
_RUNTIME_TOLERANCE_MS = 10
_RUNTIME_TOLERANCE = 0.01
_END = b"\n}\n"
#: fio writes this for a device if it does not run as root; harmless for direct I/O, which does not use the cache.
_CACHE_NOT_FLUSHED = "fio: only root may flush block devices. Cache flush bypassed!"
#: How many lines of fio's standard error a measurement has, and how many characters of each.
_MAX_MESSAGES, _MAX_MESSAGE_LENGTH = 5, 200
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
    """Return the reads and writes of a stimulus if fio's whole answer confirms that it ran as requested.

    ``errors`` is fio's standard error.  A device that stalled for longer than ``stall_seconds`` has failed.  Raises
    AnswerRejected otherwise: exit code 0 alone proves nothing.

    Rarely, fio loses count of the I/Os that one thread had outstanding at its end.  Such an answer is rejected as
    repeatable; with ``allow_uncounted`` the counted I/Os are accepted (see ``uncounted_ios``).
    """
    if timed_out:
        raise AnswerRejected("device", f"no answer within {timeout_seconds(stimulus, stall_seconds):.0f} s")
    document = parse_answer(output, exit_code)
    try:
        jobs = _jobs(document)
        for job in jobs:
            _require_no_error(job, exit_code, output, errors)
        _require_queue_depth(stimulus, output + errors)
        _require_groups(stimulus, document)
        uncounted = sum(_uncounted(stimulus, job) for job in jobs)
        if uncounted and not allow_uncounted:
            reason = f"fio started {counted(uncounted, 'I/O')} without counting a response time"
            raise AnswerRejected("host", reason, repeatable=True)
        read, write = (
            combine([_transfers(stimulus, job[side], f"{side}s", _uncounted(stimulus, job)) for job in jobs])
            for side in ("read", "write")
        )
        uncounted_bytes = uncounted * stimulus.largest_block_bytes
        _require_amounts(stimulus, read, write, uncounted_bytes, sum(_short_ios(stimulus, job) for job in jobs))
        _require_runtime(stimulus, read, write, stall_seconds, uncounted_bytes)
        if stimulus.passes is None:
            _require_common_runtime(read, write)
        require_outstanding(stimulus, (read, write))
        _require_sync_calls(stimulus, read, write, jobs)
        for job in jobs:
            _require_depth_kept(stimulus, job)
        for what, side in (("read", read), ("write", write)):
            require_bytes(stimulus, side)
            for job in jobs:
                require_rates(job[what], f"{what}s")
        for job in jobs:
            _require_no_trims(job)
            _require_elapsed(job, max(read.runtime_ms, write.runtime_ms))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"cannot parse fio's output ({error!r})") from error
    return read, write


def engine_cpu_percent(output: str) -> float | None:
    """Return the CPU use of fio's threads in one answer (mean of the threads); None if it is not reported."""
    user_and_system = [float(percent) for percent in _CPU.findall(output)]
    jobs, unpaired = divmod(len(user_and_system), 2)
    return min(100.0, sum(user_and_system) / jobs) if jobs and not unpaired else None


def sync_times(output: str) -> SyncTimes | None:
    """Return the times of fsync and fdatasync in an answer; None if there were no calls.

    Raises AnswerRejected if they cannot be parsed.
    """
    try:
        return _combined_sync_times(parse_answer(output)["jobs"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"cannot parse fio's sync calls ({error!r})") from error


def unexpected_messages(stimulus: Stimulus, errors: str) -> tuple[str, ...]:
    """Return the unexpected lines of fio's standard error, printable and shortened, one of each kind.

    Lines of one kind differ in numbers only.
    """
    expected = {"", "" if stimulus.cached else _CACHE_NOT_FLUSHED}
    by_kind: dict[str, str] = {}
    for line in map(one_line, errors.splitlines()):
        if line not in expected:
            by_kind.setdefault(without_numbers(line), line[:_MAX_MESSAGE_LENGTH])
    return tuple(by_kind.values())[:_MAX_MESSAGES]


def _combined_sync_times(jobs: Iterable[Mapping[str, Any]]) -> SyncTimes | None:
    times = [times for job in jobs if (times := _job_sync_times(job)) is not None]
    if len(times) < 2:
        return times[0] if times else None
    calls = sum(job.calls for job in times)
    return SyncTimes(
        calls=calls,
        mean_ns=math.fsum(job.calls * job.mean_ns for job in times) / calls,
        max_ns=max(job.max_ns for job in times),
        histogram=merge(job.histogram for job in times),
    )


def _job_sync_times(job: Mapping[str, Any]) -> SyncTimes | None:
    """Return the times of the sync calls of one job; None without such calls."""
    latency = job.get("sync", {}).get("lat_ns", {})
    calls, bins = int(latency.get("N", 0)), latency.get("bins", {})
    if not calls:
        return None
    _require_plausible(calls, latency["mean"], latency["max"])
    require_response_times(latency, calls, "sync calls")
    return SyncTimes(
        calls=calls,
        mean_ns=float(latency["mean"]),
        max_ns=int(latency["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )


class StatusStream:
    """Split fio's output into answers: one document each, with the text that precedes it.

    Buffers at most one answer.
    """

    def __init__(self) -> None:
        self._answer = self._buffer = b""

    @property
    def last_answer(self) -> bytes:
        """The incomplete answer at the end of the output if there is one, else the last complete answer."""
        return self._buffer or self._answer

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Add a chunk of fio's output and yield the answers that it completes."""
        self._buffer += chunk
        while (end := self._buffer.find(_END)) >= 0:
            self._answer, self._buffer = self._buffer[: end + len(_END)], self._buffer[end + len(_END) :]
            yield self._answer.decode("utf-8", "replace")


def read_totals(answer: str) -> tuple[Totals, float | None]:
    """Return the running totals of an answer and the time when fio printed it (Unix ms; None if not reported).

    Raises AnswerRejected if the answer cannot be parsed or reports an error.
    """
    try:
        document = parse_answer(answer)
        jobs, printed_ms = _jobs(document), document.get("timestamp_ms")
        for job in jobs:
            _require_no_error(job, 0, answer, "")
        read, write = (Side.combine([_side(job[side]) for job in jobs]) for side in ("read", "write"))
        totals = Totals(read=read, write=write)
        if printed_ms is not None:
            _require_plausible(printed_ms)
        return totals, printed_ms
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"cannot parse fio's running totals ({error!r})") from error


def blame(error_number: int) -> Literal["device", "host"]:
    """Return whether an errno indicates a device or a host failure; the device if it can be either."""
    return "host" if error_number in _HOST_ERRORS else "device"


@lru_cache(maxsize=1)  # Transfers, sync calls and uncounted I/Os are read from the same answer one after the other.
def parse_answer(output: str, exit_code: int = 0) -> dict[str, Any]:
    """Return fio's JSON document, which text lines may precede; raises AnswerRejected if there is none."""
    begin = _BEGIN.search(output)
    try:
        document = json.loads(output[begin.start() :], object_pairs_hook=_unique) if begin else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise AnswerRejected("host", f"fio {_exit_status(exit_code)} and wrote no result")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError if a key occurs twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _jobs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the jobs, or groups of jobs, of an answer; raises IndexError without any."""
    jobs: list[Mapping[str, Any]] = document["jobs"]
    return [jobs[0], *jobs[1:]]


def _exit_status(exit_code: int) -> str:
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _require_no_error(job: Mapping[str, Any], exit_code: int, output: str, errors: str) -> None:
    """Raise AnswerRejected if the answer, the text before it, or ``errors`` reports a failure."""
    error = int(job["error"]) or int(job.get("total_err", 0) and (job.get("first_error") or errno.EIO))
    if error:
        raise AnswerRejected(blame(error), f"fio reports error {error}, {os.strerror(error)}", error)
    text = _BEGIN.split(output, maxsplit=1)[0] + errors
    if "terminating on signal" in text:
        raise AnswerRejected("host", "another process stopped fio with a signal")
    if failed := _FAILED_IO.search(text):
        raise AnswerRejected("device", f"fio reports a failed I/O, but error 0: {failed[0]}")
    if exit_code != 0:
        raise AnswerRejected("host", f"fio {_exit_status(exit_code)}")


def _require_queue_depth(stimulus: Stimulus, text: str) -> None:
    """Raise AnswerRejected if fio reduced the queue depth, although no option chose a synchronous I/O engine."""
    if stimulus.queue_depth > 1 and "ioengine" not in dict(stimulus.options) and _CAPPED_DEPTH in text:
        raise AnswerRejected("host", f"fio reduced the queue depth to 1, expected {stimulus.queue_depth}")


def _require_depth_kept(stimulus: Stimulus, job: Mapping[str, Any]) -> None:
    """Raise AnswerRejected if few I/Os had at least half the queue depth outstanding when fio submitted them.

    fio counts a depth before it adds the new I/O, in levels of powers of two, each as a percentage.  Options of the
    stimulus may reduce the depth.
    """
    ios = int(job["read"]["total_ios"]) + int(job["write"]["total_ios"])
    if stimulus.queue_depth < 4 or stimulus.options or "iodepth_level" not in job:
        return
    if ios < max(_DEPTH_IOS, _DEPTH_IOS_EACH * stimulus.total_oio):
        return
    half = min(stimulus.queue_depth // 2, _DEEPEST_LEVEL)
    levels = {int(level.removeprefix(">=")): float(percent) for level, percent in job["iodepth_level"].items()}
    kept = math.fsum(percent for level, percent in levels.items() if 2 * level > half)
    if not kept >= _DEPTH_PERCENT:
        raise AnswerRejected(
            "host", f"fio kept at least half of queue depth {stimulus.queue_depth} in only {kept:.3g} % of its I/Os"
        )


def _side(side: Mapping[str, Any]) -> Side:
    """Parse running totals.  fio counts I/Os on completion, like their response times."""
    response = side["lat_ns"]
    _require_plausible(response["N"], side["io_bytes"], side["runtime"], response["mean"], response["max"])
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
    """Return the number of I/Os in an accepted answer that fio lost count of at its end."""
    return sum(_uncounted(stimulus, job) for job in parse_answer(output)["jobs"])


def stream_bytes(stimulus: Stimulus, output: str) -> tuple[int, ...]:
    """Return the bytes of each sequential thread of an accepted answer; empty if fio reported only their sum."""
    jobs = parse_answer(output)["jobs"][: stimulus.streams]
    if len(jobs) < 2:
        return ()
    return tuple(
        sum(_counts(stimulus, job[side], _uncounted(stimulus, job))[1] for side in ("read", "write")) for job in jobs
    )


def _require_groups(stimulus: Stimulus, document: Mapping[str, Any]) -> None:
    """Raise AnswerRejected unless each of several sequential threads is a job, and all other threads are one group.

    Old answers also have one group for sequential threads; their global options contain ``group_reporting``.
    """
    groups, grouped = len(document["jobs"]), (document.get("global options") or {}).get("group_reporting") == "1"
    expected = 1 if stimulus.streams < 2 or grouped else sum(1 for _ in sections(stimulus))
    if groups != expected:
        raise AnswerRejected("host", f"fio's answer has {counted(groups, 'job group')}, expected {expected}")


def _uncounted(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    """Return how many I/Os fio started without a response time; 0 if these exceed the queue depth of one thread."""
    if stimulus.ramp_seconds:
        return 0
    counts = [int(job[side]["total_ios"]) - int(job[side]["lat_ns"].get("N", 0)) for side in ("read", "write")]
    return sum(counts) if min(counts) >= 0 and sum(counts) <= stimulus.queue_depth else 0


def _transfers(stimulus: Stimulus, side: Mapping[str, Any], what: str, uncounted: int) -> Transfers:
    """Parse the result of the reads or the writes, and check that it is consistent."""
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
    _require_plausible(
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
    """Return the I/Os and bytes of the reads or the writes without the ``uncounted`` I/Os.

    fio may or may not have included the bytes of uncounted I/Os.  After a ramp, the I/Os are those that completed in
    the measured time, each with a response time: fio's ``total_ios`` omits the I/Os outstanding at the ramp's end, and
    ``io_bytes`` may include one more per thread.
    """
    ios, transferred_bytes = int(side["total_ios"]), int(side["io_bytes"])
    completed, block = int(side["lat_ns"]["N"]), stimulus.largest_block_bytes
    if uncounted:
        return completed, transferred_bytes if stimulus.block_shares else min(transferred_bytes, completed * block)
    if not stimulus.ramp_seconds:
        return ios, transferred_bytes
    max_difference, completed_bytes = stimulus.total_oio, completed * block
    if abs(completed - ios) > max_difference or abs(transferred_bytes - completed_bytes) > max_difference * block:
        raise AnswerRejected(
            "host", f"fio counts {ios} I/Os and {transferred_bytes} bytes, but {completed} response times"
        )
    return completed, completed_bytes


def combine(parts: Sequence[Transfers]) -> Transfers:
    """Return the transfers of several jobs that ran at the same time."""
    parts = [part for part in parts if part != NO_TRANSFERS]
    if len(parts) < 2:
        return parts[0] if parts else NO_TRANSFERS
    ios = sum(part.ios for part in parts)
    return Transfers(
        ios=ios,
        transferred_bytes=sum(part.transferred_bytes for part in parts),
        runtime_ms=max(part.runtime_ms for part in parts),
        response_min_ns=min(part.response_min_ns for part in parts),
        response_mean_ns=math.fsum(part.ios * part.response_mean_ns for part in parts) / ios,
        response_max_ns=max(part.response_max_ns for part in parts),
        histogram=merge(part.histogram for part in parts),
    )


def _require_plausible(*numbers: float) -> None:
    if not all(0 <= number <= MAX_QUANTITY for number in numbers):
        raise ValueError(f"a number is negative or greater than {MAX_QUANTITY}")


def _short_ios(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    """Return the number of I/Os that transferred less than requested, or nothing.

    fio 3.33 counts each call of fsync and fdatasync as a short read.
    """
    sides = ("write",) if _SYNC_CALLS & dict(stimulus.options).keys() else ("read", "write")
    return sum(int(job[side].get(count, 0)) for side in sides for count in ("short_ios", "drop_ios"))


def _require_amounts(
    stimulus: Stimulus, read: Transfers, write: Transfers, uncounted_bytes: int, short_ios: int
) -> None:
    """Check that there are bytes and I/Os, and that they are as requested; raises AnswerRejected if not.

    If fio does not reach the amount and reports no error, fio failed, unless it counted ``short_ios``.
    """
    ios, total = read.ios + write.ios, read.transferred_bytes + write.transferred_bytes
    if not ios or not total:
        raise AnswerRejected("host", "fio did no I/O (is the target in use by another process?)")
    for side, percent in ((read, stimulus.read_percent), (write, 100 - stimulus.read_percent)):
        if (side.ios and not percent) or (not side.ios and ios * percent > 100 * _MIN_EXPECTED_IOS):
            raise AnswerRejected("host", f"fio did not run the requested R/W mix {mix(stimulus.read_percent)}")
    if stimulus.amount_bytes is not None:
        if not stimulus.amount_bytes - uncounted_bytes <= total <= stimulus.amount_bytes:
            reason = f"transferred {exact_capacity(total)}, expected {exact_capacity(stimulus.amount_bytes)}"
            if short_ios:
                raise AnswerRejected("device", reason)
            raise AnswerRejected("host", f"fio reported no error, but {reason}")
        return
    if short_ios:
        raise AnswerRejected("device", f"fio counted {counted(short_ios, 'short I/O')}")
    limit, largest = stimulus.limit_bytes, stimulus.largest_block_bytes
    if limit is not None and total > stimulus.thread_count * (thread_limit(stimulus, limit) + largest):
        raise AnswerRejected(
            "host", f"transferred {exact_capacity(total)}, more than the limit of {exact_capacity(limit)}"
        )


def _require_runtime(
    stimulus: Stimulus, read: Transfers, write: Transfers, stall_seconds: float, uncounted_bytes: int
) -> None:
    """Check that the runtime is as requested; raises AnswerRejected if not.

    Neither an I/O nor the excess of the runtime may be longer than ``stall_seconds``.  The runtime may be shorter if a
    byte limit was reached.
    """
    slowest = max(read.response_max_ns, write.response_max_ns) / 1e9
    if slowest > stall_seconds:
        raise AnswerRejected("device", f"the device stalled: an I/O took {slowest:.4g} s (limit {stall_seconds:g} s)")
    if stimulus.seconds is None:
        return
    runtime = max(read.runtime_ms, write.runtime_ms) / 1000
    total, limit = read.transferred_bytes + write.transferred_bytes, stimulus.limit_bytes
    if runtime < 0.99 * stimulus.seconds - _LATE_COUNT_SECONDS and (limit is None or total + uncounted_bytes < limit):
        progress = "" if limit is None else f", and transferred {exact_capacity(total)} of {exact_capacity(limit)}"
        raise AnswerRejected("host", f"the stimulus ran {runtime:g} s, expected {stimulus.seconds:g} s{progress}")
    if runtime > stimulus.seconds + stall_seconds:
        raise AnswerRejected(
            "device",
            f"the device stalled: {runtime:g} s for a stimulus of {stimulus.seconds:g} s "
            f"(limit: {stall_seconds:g} s more)",
        )


def _require_common_runtime(read: Transfers, write: Transfers) -> None:
    """Check that fio measured the reads and the writes of a mix over the same time; raises AnswerRejected if not.

    Of several passes, fio leaves out those before the first read, or the first write.
    """
    if not read.ios or not write.ios:
        return
    difference_ms = abs(read.runtime_ms - write.runtime_ms)
    # A thread may do reads or writes alone, and ends with its last I/O.
    tolerance_ms = _RUNTIME_TOLERANCE_MS + max(read.response_max_ns, write.response_max_ns) / 1e6
    if difference_ms > tolerance_ms + _RUNTIME_TOLERANCE * max(read.runtime_ms, write.runtime_ms):
        raise AnswerRejected(
            "host", f"fio measured the reads over {read.runtime_ms} ms and the writes over {write.runtime_ms} ms"
        )


def _require_no_trims(job: Mapping[str, Any]) -> None:
    """Raise AnswerRejected if fio reports trims, which no stimulus has."""
    trims = job.get("trim", {})
    if any(trims.get(count, 0) for count in ("total_ios", "io_bytes", "runtime")):
        raise AnswerRejected("host", f"fio reports {trims.get('total_ios')} trims, expected none")


def _require_elapsed(job: Mapping[str, Any], runtime_ms: int) -> None:
    """Raise AnswerRejected if fio's time since its start, which it rounds up to seconds, is less than its runtime."""
    elapsed_seconds = job.get("elapsed", math.inf)
    if not 1000 * elapsed_seconds >= runtime_ms:
        raise AnswerRejected("host", f"fio reports {runtime_ms} ms of I/O, but {elapsed_seconds} s since its start")


def _require_sync_calls(
    stimulus: Stimulus, read: Transfers, write: Transfers, jobs: Sequence[Mapping[str, Any]]
) -> None:
    """Check that fio counted a sync call after as many writes as an option says, and that their times are possible.

    The call after the last writes of a thread may be missing.  There may be more calls: until the next write, fio 3.33
    repeats the call after each read, and after each restart of the thread at the beginning of its range.  With more
    outstanding I/Os, fio does fewer calls.
    Raises AnswerRejected if the number or the times are wrong.
    """
    if stimulus.outstanding_ios > 1:
        return
    intervals = [value for name, value in stimulus.options if name in ("fdatasync", "fsync") and value.isdecimal()]
    if len(intervals) != 1 or intervals[0] == "0" or stimulus.ramp_seconds:
        return
    sync = _combined_sync_times(jobs)
    calls, threads = sync.calls if sync else 0, sum(section.jobs for section in sections(stimulus))
    expected = write.ios // int(intervals[0])
    restarts = _max_restarts(stimulus, read.transferred_bytes + write.transferred_bytes)
    if not expected - threads <= calls <= expected + read.ios + threads + restarts:
        reason = f"fio reports {calls} sync calls after {write.ios} writes, expected {expected}"
        raise AnswerRejected("host", reason)
    if sync and dict(stimulus.options).get("ioengine") in SYNCHRONOUS_ENGINES:  # others sync beside their next write
        require_sync_times(stimulus, (read, write), sync)


def _max_restarts(stimulus: Stimulus, transferred_bytes: int) -> int:
    """Return how often, at most, all threads started again at the beginning of their parts of the range."""
    if stimulus.ends_by_time:
        return 0
    if stimulus.passes is not None:
        return stimulus.passes * sum(section.jobs for section in sections(stimulus))
    return transferred_bytes // min(section.size_bytes for section in sections(stimulus))
