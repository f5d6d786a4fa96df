"""Parse fio's answer: the values that it reports.  Whether it ran as requested is decided in ``acceptance``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ...model.histogram import Histogram, SyncTimes, merge
from ...model.measurement import NO_TRANSFERS, Transfers
from ...model.steps import Stimulus
from ...text import one_line, without_numbers
from ...units import MAX_QUANTITY
from .agreement import require_response_times
from .job import AnswerRejected
from .numbers import bin_counts, integer, number

#: The options that call fsync or fdatasync.
_SYNC_CALLS = {"fsync", "fdatasync", "end_fsync"}
#: The start of the JSON.  Lines of text precede it, and a path in them may contain a brace.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
_END = b"\n}\n"
#: fio writes this for a device if it does not run as root; harmless for direct I/O, which does not use the cache.
_CACHE_NOT_FLUSHED = "fio: only root may flush block devices. Cache flush bypassed!"
#: How many lines of fio's standard error a measurement has, and how many characters of each.
_MAX_MESSAGES, _MAX_MESSAGE_LENGTH = 5, 200


#: The response times of I/Os of which fio measured none.
NO_TIMES: Mapping[str, Any] = {"min": 0, "max": 0, "mean": 0.0, "N": 0}


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


@lru_cache(maxsize=1)  # Transfers, sync calls and uncounted I/Os are read from the same answer one after the other.
def parse_answer(output: str, exit_code: int = 0) -> dict[str, Any]:
    """Return fio's JSON document, which text lines may precede; raises AnswerRejected if there is none."""
    begin = _BEGIN.search(output)
    try:
        document = json.loads(output[begin.start() :], object_pairs_hook=_unique) if begin else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise AnswerRejected("host", f"fio {exit_status(exit_code)} and wrote no result")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError if a key occurs twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")
    return members


def parse_jobs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the jobs, or groups of jobs, of an answer; raises IndexError without any."""
    jobs: list[Mapping[str, Any]] = document["jobs"]
    return [jobs[0], *jobs[1:]]


@contextmanager
def reject_unreadable(what: str) -> Iterator[None]:
    """Raise AnswerRejected for every error with which malformed values of an answer, ``what``, can be parsed."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AnswerRejected("host", f"cannot parse {what} ({error!r})") from error


def text_before(output: str) -> str:
    """Return the text that precedes the JSON document."""
    return _BEGIN.split(output, maxsplit=1)[0]


def exit_status(exit_code: int) -> str:
    """Return how fio ended, in words."""
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


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


def engine_cpu_percent(output: str) -> float | None:
    """Return the CPU use of fio's threads in one answer (mean of the threads); None if it is not reported.

    Raises AnswerRejected if it cannot be parsed.
    """
    with reject_unreadable("fio's CPU usage"):
        jobs = parse_jobs(parse_answer(output))
        if not all({"usr_cpu", "sys_cpu"} <= job.keys() for job in jobs):
            return None
        percents = [number(job[name]) for job in jobs for name in ("usr_cpu", "sys_cpu")]
        require_plausible(*percents)
        return min(100.0, sum(percents) / len(jobs))


def side_transfers(stimulus: Stimulus, side: Mapping[str, Any], what: str, uncounted: int) -> Transfers:
    """Parse the result of the reads or the writes, and check that it is consistent."""
    response = side["lat_ns"]
    if not stimulus.timed:
        return count_transfers(side)
    if not (side["total_ios"] or side["io_bytes"] or response.get("N")):
        return NO_TRANSFERS
    bins = bin_counts(response["bins"])
    counts = side_counts(stimulus, side, uncounted)
    histogram = Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()]))
    transfers = build_transfers(side, response, counts, histogram)
    require_response_times(response, transfers.ios, what)
    return transfers


def count_transfers(side: Mapping[str, Any]) -> Transfers:
    """Return the transfers of a side of a job whose response times fio did not measure."""
    counts = integer(side["total_ios"]), integer(side["io_bytes"])
    return build_transfers(side, NO_TIMES, counts, Histogram()) if any(counts) else NO_TRANSFERS


def build_transfers(
    side: Mapping[str, Any],
    times: Mapping[str, Any],
    counts: tuple[int, int],
    histogram: Histogram,
    percentiles_ns: tuple[tuple[float, float], ...] = (),
) -> Transfers:
    """Return the transfers of a side of a job from its ``counts`` of I/Os and bytes and its response ``times``.

    Raises ValueError if a number is not plausible, and the errors of malformed values.
    """
    ios, transferred_bytes = counts
    runtime_ms, least, most = integer(side["runtime"]), integer(times["min"]), integer(times["max"])
    mean = number(times["mean"])
    require_plausible(ios, transferred_bytes, runtime_ms, least, mean, most)
    return Transfers(
        ios=ios,
        transferred_bytes=transferred_bytes,
        runtime_ms=runtime_ms,
        response_min_ns=least,
        response_mean_ns=mean,
        response_max_ns=most,
        histogram=histogram,
        percentiles_ns=percentiles_ns,
    )


def side_counts(stimulus: Stimulus, side: Mapping[str, Any], uncounted: int) -> tuple[int, int]:
    """Return the I/Os and bytes of the reads or the writes without the ``uncounted`` I/Os.

    fio may or may not have included the bytes of uncounted I/Os.  After a ramp, the I/Os are those that completed in
    the measured time, each with a response time: fio's ``total_ios`` omits the I/Os outstanding at the ramp's end, and
    ``io_bytes`` may include one more per thread.
    """
    ios, transferred_bytes = integer(side["total_ios"]), integer(side["io_bytes"])
    completed, block = integer(side["lat_ns"]["N"]), stimulus.largest_block_bytes
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


def job_uncounted_ios(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    """Return how many I/Os fio started without a response time; 0 if these exceed the queue depth of one thread."""
    if stimulus.ramp_seconds or not stimulus.timed:
        return 0
    counts = [integer(job[side]["total_ios"]) - integer(job[side]["lat_ns"].get("N", 0)) for side in ("read", "write")]
    return sum(counts) if min(counts) >= 0 and sum(counts) <= stimulus.queue_depth else 0


def uncounted_ios(stimulus: Stimulus, output: str) -> int:
    """Return the number of I/Os in an accepted answer that fio lost count of at its end."""
    return sum(job_uncounted_ios(stimulus, job) for job in parse_answer(output)["jobs"])


def stream_bytes(stimulus: Stimulus, output: str) -> tuple[int, ...]:
    """Return the bytes of each sequential thread of an accepted answer; empty if fio reported only their sum."""
    jobs = parse_answer(output)["jobs"][: stimulus.streams]
    if len(jobs) < 2:
        return ()
    return tuple(
        sum(side_counts(stimulus, job[side], job_uncounted_ios(stimulus, job))[1] for side in ("read", "write"))
        for job in jobs
    )


def job_short_ios(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    """Return the number of I/Os that transferred less than requested, or nothing.

    fio 3.33 counts each call of fsync and fdatasync as a short read.
    """
    sides = ("write",) if _SYNC_CALLS & dict(stimulus.options).keys() else ("read", "write")
    return sum(integer(job[side].get(count, 0)) for side in sides for count in ("short_ios", "drop_ios"))


def sync_times(output: str) -> SyncTimes | None:
    """Return the times of fsync and fdatasync in an answer; None if there were no calls.

    Raises AnswerRejected if they cannot be parsed.
    """
    with reject_unreadable("fio's sync calls"):
        return combined_sync_times(parse_answer(output)["jobs"])


def combined_sync_times(jobs: Iterable[Mapping[str, Any]]) -> SyncTimes | None:
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
    calls, bins = integer(latency.get("N", 0)), bin_counts(latency.get("bins", {}))
    if not calls:
        return None
    require_plausible(calls, latency["mean"], latency["max"])
    require_response_times(latency, calls, "sync calls")
    return SyncTimes(
        calls=calls,
        mean_ns=number(latency["mean"]),
        max_ns=integer(latency["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )


def require_plausible(*numbers: float) -> None:
    if not all(0 <= number <= MAX_QUANTITY for number in numbers):
        raise ValueError(f"a number is negative or greater than {MAX_QUANTITY}")
