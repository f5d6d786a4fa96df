"""Check that the numbers in one fio answer are consistent.

Measured facts behind the tolerances (fio 3.33; ``bench/answers.py`` runs some hundred points of every shape):

* fio records response times twice: as count, minimum, mean and maximum, and in bins.  Both include every I/O.
* fio identifies a bin by its midpoint (``sampling.upper_edge_ns``).  The last bin also counts all longer times.
* ``runtime`` is that of the longest thread, truncated to whole milliseconds; fio computes rates from it.
* With a ramp, ``total_ios`` omits the I/Os outstanding at its end; response times and bytes include them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.histogram import SyncTimes
from ...model.measurement import Transfers
from ...model.steps import Stimulus
from ...units import KIB, exact_capacity
from . import sampling
from .job import AnswerRejected, count_threads
from .numbers import bin_counts, integer, number
from .sampling import LAST_BIN_NS, is_midpoint, lower_edge_ns

#: fio computes a running mean in double precision and prints six decimal places.
_MEAN_SHARE, _MEAN_NS = 1e-6, 1e-3
#: fio prints rates in whole bytes, and in I/Os with six digits.
_RATE_SHARE, _RATE = 1e-9, 1.0
#: A runtime is in whole milliseconds, and a thread's response times start slightly earlier than its runtime.
_RUNTIME_SHARE, _RUNTIME_NS = 0.01, 2e6
_MANY_IOS = 1000
#: Between the completion of an I/O and the start of the next one, fio needs some microseconds, or the time to refill
#: the buffer.  With at least this many outstanding I/Os, the other I/Os continue during this time.
_LONG_RESPONSE_NS, _MANY_OUTSTANDING = 50_000, 4
#: For small blocks, this time is negligible if runtime x outstanding I/Os / I/Os is at least the first value times the
#: number of threads, which may share one CPU.  With many outstanding I/Os, which wait for each other, it must also be
#: at least the second value.
_LONG_TURN_NS, _LONG_DEEP_TURN_NS, _SMALL_BLOCK_BYTES = 100_000, 1_000_000, 16 * KIB
#: The share of the outstanding I/Os that the response times must account for.  True answers have 0.86 and more, but a
#: point of 0.1 s on an overloaded host had 0.41, and was measured again.
_LEAST_OUTSTANDING = 0.5
#: Options with which a thread starts the next I/O or sync call as soon as one has ended.
_OPTIONS_WITHOUT_PAUSES = {"fsync", "fdatasync", "direct", "sync", "ioengine"}


def _response_bins(counts: Mapping[str, object]) -> dict[int, int]:
    """Return how many response times are in each bin, by midpoint; raises AnswerRejected if fio has no such bin."""
    bins = bin_counts(counts)
    if unknown := [midpoint for midpoint in bins if not is_midpoint(midpoint)]:
        raise disagreement(f"fio has no bin of response times with the midpoint {unknown[0]} ns")
    return bins


def require_response_times(response: Mapping[str, Any], ios: int, what: str) -> None:
    """Check that count, minimum, mean, maximum and bins of the response times match ``ios`` I/Os.

    Raises AnswerRejected if they do not.
    """
    bins = _response_bins(response["bins"])
    if not all(count > 0 for count in bins.values()):
        raise disagreement(f"a bin of the {what} has no response times")
    if not response["N"] == sum(bins.values()) == ios:
        raise disagreement(f"{ios} {what}, but {response['N']} response times, {sum(bins.values())} of them in bins")
    minimum, mean, maximum = integer(response["min"]), number(response["mean"]), integer(response["max"])
    tolerance = _MEAN_SHARE * mean + _MEAN_NS
    if minimum > maximum or not minimum - tolerance <= mean <= maximum + tolerance:
        raise disagreement(f"the mean response time of {what} is {mean:g} ns, but the range {minimum} to {maximum} ns")
    lowest, highest = min(bins), max(bins)
    if not lower_edge_ns(lowest) <= minimum <= upper_edge_ns(lowest):
        raise disagreement(f"the minimum response time of {what} is {minimum} ns, but the lowest bin {lowest} ns")
    if not lower_edge_ns(highest) <= maximum <= upper_edge_ns(highest):
        raise disagreement(f"the maximum response time of {what} is {maximum} ns, but the highest bin {highest} ns")
    lower_mean = math.fsum(count * lower_edge_ns(midpoint) for midpoint, count in bins.items()) / ios
    upper_mean = math.fsum(count * min(upper_edge_ns(midpoint), maximum) for midpoint, count in bins.items()) / ios
    if not lower_mean - tolerance <= mean <= upper_mean + tolerance:
        raise disagreement(
            f"the mean response time of {what} is {mean:g} ns, but the bins give {lower_mean:g} to {upper_mean:g} ns"
        )


def require_running_mean(response: Mapping[str, Any]) -> None:
    """Check that the mean in running totals is within the range of the bins; raises AnswerRejected if not.

    The counters of running totals may be from different moments.  fio copies the mean before the bins, so the bins
    contain every I/O that the mean includes.
    """
    bins, mean = _response_bins(response.get("bins", {})), number(response["mean"])
    tolerance = _MEAN_SHARE * mean + _MEAN_NS
    if bins and not lower_edge_ns(min(bins)) - tolerance <= mean <= upper_edge_ns(max(bins)) + tolerance:
        raise disagreement(f"the mean response time is {mean:g} ns, but the bins are {min(bins)} to {max(bins)} ns")


def require_bytes(stimulus: Stimulus, side: Transfers) -> None:
    """Check that the bytes of ``side`` are possible for its I/O count and the block sizes; raises AnswerRejected."""
    sizes = [share.size_bytes for share in stimulus.block_shares] or [stimulus.largest_block_bytes]
    smaller = stimulus.passes or 0  # Each pass transfers the tail of the range once.
    max_bytes = side.ios * max(sizes)
    min_bytes = max(0, side.ios - smaller) * min(sizes)
    is_possible = min_bytes <= side.transferred_bytes <= max_bytes
    if not is_possible or (not smaller and side.transferred_bytes % math.gcd(*sizes)):
        raise AnswerRejected(
            "device", f"{side.ios} I/Os cannot transfer {exact_capacity(side.transferred_bytes)} with these block sizes"
        )


def require_rates(counters: Mapping[str, Any], what: str) -> None:
    """Check that fio's rates are its counts divided by its runtime; raises AnswerRejected if not."""
    for rate, amount in (("iops", "total_ios"), ("bw_bytes", "io_bytes")):
        expected = 1000 * counters[amount] / counters["runtime"] if counters["runtime"] else 0
        if not abs(counters[rate] - expected) <= _RATE_SHARE * expected + _RATE:
            raise disagreement(
                f"{rate} of {what} is {counters[rate]:g}, expected {expected:g} "
                f"for {counters[amount]} in {counters['runtime']} ms"
            )


def require_outstanding(stimulus: Stimulus, sides: Sequence[Transfers]) -> None:
    """Check that the response times are possible in the runtime with the number of outstanding I/Os.

    An I/O does not take longer than the runtime, unless it started in a ramp.  The sum of all response times is at most
    the number of outstanding I/Os times the runtime (Little's law), to which a ramp adds at most the longest of them,
    and at least half of it if fio's own time between two I/Os is negligible.  Raises AnswerRejected otherwise.
    """
    threads = count_threads(stimulus)
    outstanding = stimulus.outstanding_ios * threads
    sum_ns = math.fsum(side.ios * side.response_mean_ns for side in sides)
    reported_ns, runtime_ns = _runtimes_ns(sides)
    max_ns = max(side.response_max_ns for side in sides)
    if max_ns > runtime_ns and not stimulus.ramp_seconds:
        raise disagreement(f"an I/O took {max_ns / 1e9:g} s in a runtime of {runtime_ns / 1e9:.3g} s")
    ios = sum(side.ios for side in sides)
    full_ns = outstanding * reported_ns
    is_small = stimulus.largest_block_bytes <= _SMALL_BLOCK_BYTES
    is_deep = stimulus.outstanding_ios >= _MANY_OUTSTANDING
    turn_ns = max(_LONG_TURN_NS * threads, _LONG_DEEP_TURN_NS * is_deep)
    is_slow = (is_small and full_ns >= turn_ns * ios) or (is_deep and sum_ns >= _LONG_RESPONSE_NS * ios)
    if ios >= _MANY_IOS and is_slow and sum_ns < _LEAST_OUTSTANDING * full_ns and _keeps_queue_full(stimulus):
        raise disagreement(
            f"the response times add up to {sum_ns / 1e9:g} s, "
            f"too little with {outstanding} outstanding I/Os in {runtime_ns / 1e9:.3g} s",
            repeatable=True,
        )
    if sum_ns > outstanding * (runtime_ns + (max_ns if stimulus.ramp_seconds else 0)):
        raise disagreement(
            f"the response times of {ios} I/Os add up to {sum_ns / 1e9:g} s, "
            f"impossible with {outstanding} outstanding I/Os in {runtime_ns / 1e9:.3g} s"
        )


def require_sync_times(stimulus: Stimulus, sides: Sequence[Transfers], sync: SyncTimes) -> None:
    """Check the times of fsync and fdatasync of threads that do one I/O or call at a time.

    I/Os and calls together take, for each thread, at most the runtime plus the longest call.  They take at least half
    of the runtime, if fio's own time between two of them is negligible and all threads run equally long.
    Raises AnswerRejected otherwise.
    """
    threads = count_threads(stimulus)
    reported_ns, runtime_ns = _runtimes_ns(sides)
    steps = sum(side.ios for side in sides) + sync.calls
    sum_ns = math.fsum((sync.calls * sync.mean_ns, *(side.ios * side.response_mean_ns for side in sides)))
    times = f"the times of {steps} I/Os and sync calls add up to {sum_ns / 1e9:g} s"
    if sync.max_ns > runtime_ns:
        raise disagreement(f"a sync call took {sync.max_ns / 1e9:g} s in a runtime of {runtime_ns / 1e9:.3g} s")
    if sum_ns > threads * (runtime_ns + sync.max_ns):
        raise disagreement(f"{times}, impossible with {threads} threads in {runtime_ns / 1e9:.3g} s")
    is_small = stimulus.largest_block_bytes <= _SMALL_BLOCK_BYTES
    only_sync = {name for name, _ in stimulus.options} <= _OPTIONS_WITHOUT_PAUSES
    is_slow = reported_ns >= _LONG_TURN_NS * steps
    run_equally_long = threads == 1 or stimulus.ends_by_time
    if only_sync and is_small and is_slow and run_equally_long and sum_ns < _LEAST_OUTSTANDING * threads * reported_ns:
        reason = f"{times}, too little for {threads} threads in {runtime_ns / 1e9:.3g} s"
        raise disagreement(reason, repeatable=True)


def _runtimes_ns(sides: Sequence[Transfers]) -> tuple[float, float]:
    """Return the runtime as fio reports it, and the longest that it can have been."""
    reported_ns = 1e6 * max(side.runtime_ms for side in sides)
    return reported_ns, reported_ns * (1 + _RUNTIME_SHARE) + _RUNTIME_NS


def _keeps_queue_full(stimulus: Stimulus) -> bool:
    """Return whether fio starts the next I/O as soon as one has completed, during the whole measured time."""
    return stimulus.ends_by_time and not (stimulus.ramp_seconds or stimulus.options)


def upper_edge_ns(midpoint_ns: int) -> float:
    """Return the longest time in fio's bin with this midpoint; infinity for the last bin."""
    return math.inf if midpoint_ns >= LAST_BIN_NS else sampling.upper_edge_ns(midpoint_ns)


def disagreement(reason: str, *, repeatable: bool = False) -> AnswerRejected:
    """Return the error for an answer with inconsistent numbers."""
    return AnswerRejected("host", f"fio's answer is inconsistent: {reason}", repeatable=repeatable)
