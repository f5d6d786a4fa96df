"""Accept fio's answer if it confirms that fio ran as requested."""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...model.measurement import Transfers
from ...model.steps import SYNCHRONOUS_ENGINES, Stimulus, mix
from ...units import counted, exact_capacity
from ..process.program import Finished
from .agreement import (
    require_bytes,
    require_outstanding,
    require_rates,
    require_sync_times,
)
from .answer import (
    combine,
    combined_sync_times,
    exit_status,
    job_short_ios,
    job_uncounted_ios,
    parse_answer,
    parse_jobs,
    reject_unreadable,
    side_transfers,
    text_before,
)
from .job import STALL_SECONDS, AnswerRejected, count_threads, sections, thread_limit, timeout_seconds
from .numbers import integer, key_number, number

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
#: If at least this many reads (or writes) are expected and fio did none, the reason is not chance.
_MIN_EXPECTED_IOS = 50
_FAILED_IO = re.compile(r"^fio: (?:io_u error|pid=\d+.*\berr=[1-9]).*$", re.MULTILINE)
_CAPPED_DEPTH = "queue depth will be capped at 1"
#: If an answer has this many I/Os, and this many for each outstanding one, then at least this percentage of them must
#: have been submitted with half the queue depth outstanding.  Some 250 true answers had 98 % or more, with three busy
#: loops on two cores 93 %.
_DEPTH_IOS, _DEPTH_IOS_EACH, _DEPTH_PERCENT = 1000, 10, 50.0
#: fio counts all depths from here on together.
_DEEPEST_LEVEL = 64
#: fio measures reads and writes of a thread over the same time; threads end up to this much apart.
_RUNTIME_TOLERANCE_MS = 10
_RUNTIME_TOLERANCE = 0.01
#: fio's runtime is in whole ms and may be rounded.
_ROUNDING_SECONDS = 0.01


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
    with reject_unreadable("fio's output"):
        jobs = parse_jobs(document)
        for job in jobs:
            require_no_error(job, exit_code, output, errors)
        _require_queue_depth(stimulus, output + errors)
        _require_groups(stimulus, document)
        uncounted = sum(job_uncounted_ios(stimulus, job) for job in jobs)
        if uncounted and not allow_uncounted:
            reason = f"fio started {counted(uncounted, 'I/O')} without counting a response time"
            raise AnswerRejected("host", reason, repeatable=True)
        read, write = (
            combine([side_transfers(stimulus, job[side], f"{side}s", job_uncounted_ios(stimulus, job)) for job in jobs])
            for side in ("read", "write")
        )
        uncounted_bytes = uncounted * stimulus.largest_block_bytes
        _require_amounts(stimulus, read, write, uncounted_bytes, sum(job_short_ios(stimulus, job) for job in jobs))
        _require_runtime(stimulus, read, write, stall_seconds, uncounted_bytes)
        if stimulus.passes is None:
            _require_common_runtime(read, write)
        if stimulus.timed:
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
    return read, write


def accept_finished(
    stimulus: Stimulus,
    finished: Finished,
    answer: str,
    stall_seconds: float = STALL_SECONDS,
    *,
    allow_uncounted: bool = False,
    exited_ns: int = 0,
) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus; raises AnswerRejected, with fio's errors, if it is invalid.

    A fio that was asked for running totals while a thread ended may count its time until ``exited_ns``.
    """
    if finished.stopped_seconds is not None:
        raise AnswerRejected("host", f"another process stopped fio for about {finished.stopped_seconds:.2g} s")
    try:
        read, write = accept(
            stimulus,
            finished.exit_code,
            finished.timed_out,
            answer,
            finished.stderr,
            stall_seconds=stall_seconds,
            allow_uncounted=allow_uncounted,
        )
    except AnswerRejected as refusal:
        detail = f"fio said: {finished.error_summary}"
        if finished.unkillable_pid is not None:
            detail = f"fio hangs in the kernel and cannot be killed (process {finished.unkillable_pid})"
        reason, repeatable = f"{refusal.reason}; {detail}", refusal.repeatable
        raise AnswerRejected(refusal.blame, reason, refusal.number, repeatable=repeatable) from None
    runtime = max(read.runtime_ms, write.runtime_ms) / 1000
    present_seconds = finished.seconds + max(0, exited_ns - finished.ended_monotonic_ns) / 1e9
    if runtime > present_seconds + _ROUNDING_SECONDS:
        raise AnswerRejected(
            "host", f"fio reports {runtime:g} s of I/O, but its process ran for only {present_seconds:.3g} s"
        )
    return read, write


def blame(error_number: int) -> Literal["device", "host"]:
    """Return whether an errno indicates a device or a host failure; the device if it can be either."""
    return "host" if error_number in _HOST_ERRORS else "device"


def require_no_error(job: Mapping[str, Any], exit_code: int, output: str, errors: str) -> None:
    """Raise AnswerRejected if the answer, the text before it, or ``errors`` reports a failure."""
    error = integer(job["error"]) or integer(job.get("total_err", 0) and (job.get("first_error") or errno.EIO))
    if error:
        raise AnswerRejected(blame(error), f"fio reports error {error}, {os.strerror(error)}", error)
    text = text_before(output) + errors
    if "terminating on signal" in text:
        raise AnswerRejected("host", "another process stopped fio with a signal")
    if failed := _FAILED_IO.search(text):
        raise AnswerRejected("device", f"fio reports a failed I/O, but error 0: {failed[0]}")
    if exit_code != 0:
        raise AnswerRejected("host", f"fio {exit_status(exit_code)}")


def _require_queue_depth(stimulus: Stimulus, text: str) -> None:
    """Raise AnswerRejected if fio reduced the queue depth, although no option chose a synchronous I/O engine."""
    if stimulus.queue_depth > 1 and "ioengine" not in dict(stimulus.options) and _CAPPED_DEPTH in text:
        raise AnswerRejected("host", f"fio reduced the queue depth to 1, expected {stimulus.queue_depth}")


def _require_depth_kept(stimulus: Stimulus, job: Mapping[str, Any]) -> None:
    """Raise AnswerRejected if few I/Os had at least half the queue depth outstanding when fio submitted them.

    fio counts a depth before it adds the new I/O, in levels of powers of two, each as a percentage.  Options of the
    stimulus may reduce the depth.
    """
    ios = integer(job["read"]["total_ios"]) + integer(job["write"]["total_ios"])
    if stimulus.queue_depth < 4 or stimulus.options or "iodepth_level" not in job:
        return
    if ios < max(_DEPTH_IOS, _DEPTH_IOS_EACH * stimulus.total_oio):
        return
    half = min(stimulus.queue_depth // 2, _DEEPEST_LEVEL)
    levels = {key_number(level.removeprefix(">=")): number(percent) for level, percent in job["iodepth_level"].items()}
    kept = math.fsum(percent for level, percent in levels.items() if 2 * level > half)
    if not kept >= _DEPTH_PERCENT:
        raise AnswerRejected(
            "host", f"fio kept at least half of queue depth {stimulus.queue_depth} in only {kept:.3g} % of its I/Os"
        )


def _require_groups(stimulus: Stimulus, document: Mapping[str, Any]) -> None:
    """Raise AnswerRejected if the answer does not have the expected number of job groups.

    Several sequential threads are a group each; all other threads are one group.  Older answers have one group for
    sequential threads, too; their global options contain ``group_reporting``.
    """
    groups, grouped = len(document["jobs"]), (document.get("global options") or {}).get("group_reporting") == "1"
    expected = 1 if stimulus.streams < 2 or grouped else sum(1 for _ in sections(stimulus))
    if groups != expected:
        raise AnswerRejected("host", f"fio's answer has {counted(groups, 'job group')}, expected {expected}")


def _require_amounts(
    stimulus: Stimulus, read: Transfers, write: Transfers, uncounted_bytes: int, short_ios: int
) -> None:
    """Check that there are bytes and I/Os, and that they are as requested; raises AnswerRejected if not.

    If fio reports no error but did not reach the amount, fio failed, or the device if there are ``short_ios``.
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

    If there are several passes, fio measures the reads from the pass with the first read, and the writes likewise.
    """
    if not read.ios or not write.ios:
        return
    difference_ms = abs(read.runtime_ms - write.runtime_ms)
    # A thread may do only reads or only writes; its runtime ends with its last I/O.
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
    elapsed_seconds = integer(job.get("elapsed", runtime_ms))
    if 1000 * elapsed_seconds < runtime_ms:
        raise AnswerRejected("host", f"fio reports {runtime_ms} ms of I/O, but {elapsed_seconds} s since its start")


def _require_sync_calls(
    stimulus: Stimulus, read: Transfers, write: Transfers, jobs: Sequence[Mapping[str, Any]]
) -> None:
    """Check that fio counted a sync call after as many writes as an option says, and that their times are possible.

    The call after the last writes of a thread may be missing.  There may be more calls: fio 3.33 repeats a call after
    each read, and after each restart of the thread at the beginning of its range, until the next write.  With more than
    one outstanding I/O, fio does fewer calls, which are not checked.
    Raises AnswerRejected if the number or the times are wrong.
    """
    if stimulus.outstanding_ios > 1:
        return
    intervals = [value for name, value in stimulus.options if name in ("fdatasync", "fsync") and value.isdecimal()]
    if len(intervals) != 1 or intervals[0] == "0" or stimulus.ramp_seconds:
        return
    sync = combined_sync_times(jobs)
    calls, threads = sync.calls if sync else 0, count_threads(stimulus)
    expected = write.ios // int(intervals[0])
    restarts = _max_restarts(stimulus, read.transferred_bytes + write.transferred_bytes)
    if not expected - threads <= calls <= expected + read.ios + threads + restarts:
        reason = f"fio reports {calls} sync calls after {write.ios} writes, expected {expected}"
        raise AnswerRejected("host", reason)
    if sync and dict(stimulus.options).get("ioengine") in SYNCHRONOUS_ENGINES:  # others sync during the next write
        require_sync_times(stimulus, (read, write), sync)


def _max_restarts(stimulus: Stimulus, transferred_bytes: int) -> int:
    """Return how often, at most, all threads started again at the beginning of their parts of the range."""
    if stimulus.ends_by_time:
        return 0
    return transferred_bytes // min(section.size_bytes for section in sections(stimulus))
