"""Read fio's running totals, and check that they are consistent in themselves and with the previous answers.

Measured facts behind the rules (fio 3.33, and the source of 3.42; some two thousand samples on an overloaded host):

* During I/O, a fio thread reads the clock, then copies bytes, then the count of response times, then the bins.  If the
  host suspends that thread in between, a counter copied later includes all I/Os done since then: bytes were 421 I/Os
  behind the count at queue depth 1.  Therefore no fixed tolerance is valid.
* Two rules always hold.  A counter exceeds one copied later by at most the outstanding I/Os, and no counter is less
  than in the previous answer.  fio reads the runtime after it printed the previous answer, and before it prints this
  one.
* A maximum never decreases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...model.steps import Stimulus
from .acceptance import require_no_error
from .agreement import disagreement, require_running_mean, upper_edge_ns
from .answer import parse_answer, parse_jobs, reject_unreadable, require_plausible
from .numbers import bin_counts, integer, number
from .sampling import Side, Totals, lower_edge_ns

#: Threads start one after the other, on an overloaded host 100 ms apart.  The runtime is that of the longest one.
_RUNTIME_TOLERANCE_MS = 1000


def read_totals(answer: str) -> tuple[Totals, float | None]:
    """Return the running totals of an answer and the time when fio printed it (Unix ms; None if not reported).

    Raises AnswerRejected if the answer cannot be parsed or reports an error.
    """
    with reject_unreadable("fio's running totals"):
        document = parse_answer(answer)
        jobs, printed_ms = parse_jobs(document), document.get("timestamp_ms")
        for job in jobs:
            require_no_error(job, 0, answer, "")
        read, write = (Side.combine([_side(job[side]) for job in jobs]) for side in ("read", "write"))
        totals = Totals(read=read, write=write)
        if printed_ms is not None:
            require_plausible(number(printed_ms))
        return totals, printed_ms


def _side(side: Mapping[str, Any]) -> Side:
    """Parse running totals.  fio counts I/Os on completion, like their response times."""
    response = side["lat_ns"]
    ios, transferred_bytes, runtime_ms = integer(response["N"]), integer(side["io_bytes"]), integer(side["runtime"])
    mean_ns, max_ns = number(response["mean"]), integer(response["max"])
    require_plausible(ios, transferred_bytes, runtime_ms, mean_ns, max_ns)
    require_running_mean(response)
    return Side(
        ios=ios,
        transferred_bytes=transferred_bytes,
        runtime_ms=runtime_ms,
        timed_ios=ios,
        response_ns=mean_ns * ios,
        response_max_ns=max_ns,
        bins=bin_counts(response.get("bins", {})),
    )


class RunningTotals:
    """Read the answers of one stimulus in order, and reject inconsistent ones."""

    def __init__(self, stimulus: Stimulus) -> None:
        self._outstanding = stimulus.total_oio
        self._sizes = [share.size_bytes for share in stimulus.block_shares] or [stimulus.largest_block_bytes]
        self._previous = Totals()
        self._printed_ms: float | None = None
        #: According to all answers so far, the stimulus started between these moments.
        self._min_start_ms, self._max_start_ms = -math.inf, math.inf

    def read(self, answer: str, clock_set_seconds: float = 0.0, *, final: bool = False) -> Totals:
        """Return the totals of the next answer; raises AnswerRejected if it is inconsistent.

        ``clock_set_seconds`` is the change of the wall clock since the stimulus started.  fio prints the ``final``
        answer after it stopped counting the runtime.
        """
        totals, printed_ms = read_totals(answer)
        for what, side, previous in (
            ("reads", totals.read, self._previous.read),
            ("writes", totals.write, self._previous.write),
        ):
            self._require_counters(side, previous, what)
            _require_maximum(side, previous, what)
        if printed_ms is not None:
            self._require_runtime(totals, printed_ms - 1000 * clock_set_seconds, final=final)
        self._previous = totals
        return totals

    def _require_counters(self, side: Side, previous: Side, what: str) -> None:
        timed_ios, in_bins, previous_in_bins = side.timed_ios, sum(side.bins.values()), sum(previous.bins.values())
        if timed_ios > in_bins + self._outstanding:
            raise disagreement(f"{timed_ios} response times of {what}, but {in_bins} in bins")
        if timed_ios < previous_in_bins - self._outstanding:
            raise disagreement(
                f"{timed_ios} response times of {what}, but {previous_in_bins} in the bins of the previous answer"
            )
        max_bytes = (timed_ios + self._outstanding) * max(self._sizes)
        min_bytes = (previous_in_bins - self._outstanding) * min(self._sizes)
        if not min_bytes <= side.transferred_bytes <= max_bytes:
            raise disagreement(
                f"{side.transferred_bytes} bytes of {what} for {timed_ios} I/Os (previous answer: {previous_in_bins})"
            )

    def _require_runtime(self, totals: Totals, printed_ms: float, *, final: bool) -> None:
        """Check that one start time fits the runtimes of all answers: the runtime increases with the wall clock.

        The runtime is 0 if no thread has done I/O yet.
        """
        runtime_ms = max(totals.read.runtime_ms, totals.write.runtime_ms)
        previous_ms = max(self._previous.read.runtime_ms, self._previous.write.runtime_ms)
        if runtime_ms < previous_ms - _RUNTIME_TOLERANCE_MS:
            raise disagreement(f"the runtime is {runtime_ms} ms, but {previous_ms} ms in the previous answer")
        if runtime_ms:
            self._max_start_ms = min(self._max_start_ms, printed_ms - runtime_ms)
            if self._printed_ms is not None and not final:
                self._min_start_ms = max(self._min_start_ms, self._printed_ms - runtime_ms)
            if self._min_start_ms > self._max_start_ms + _RUNTIME_TOLERANCE_MS:
                raise disagreement(f"the runtime of {runtime_ms} ms does not match the wall clock")
        self._printed_ms = printed_ms


def _require_maximum(side: Side, previous: Side, what: str) -> None:
    """Check that the maximum is in the last bin, except for I/Os that completed while fio copied its counters."""
    maximum = side.response_max_ns
    if maximum < previous.response_max_ns:
        raise disagreement(
            f"the maximum response time of {what} decreased from {previous.response_max_ns} to {maximum} ns"
        )
    in_bins = sum(side.bins.values())
    above = sum(count for midpoint, count in side.bins.items() if lower_edge_ns(midpoint) > maximum)
    if above > max(0, in_bins - side.timed_ios):
        raise disagreement(f"the maximum response time is {maximum} ns, but {above} {what} are in bins above it")
    if in_bins >= side.timed_ios and side.bins and maximum > upper_edge_ns(max(side.bins)):
        raise disagreement(
            f"the maximum response time is {maximum} ns, but the last bin of {what} is {max(side.bins)} ns"
        )
