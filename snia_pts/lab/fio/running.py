"""Whether the running totals that fio reports during a stimulus agree with each other, and with the answers before.

Measured facts behind the rules (fio 3.33, and the source of 3.42; some two thousand samples on an overloaded host):

* A thread of fio's reads the clock, then copies bytes, then the count of response times, then the bins, while I/O goes
  on.  Where the host suspends that thread in between, a later counter is ahead by all I/Os of the meantime: bytes were
  421 I/Os behind the count at queue depth 1.  So no fixed tolerance holds.
* What always holds: no counter is ahead of one copied later by more than the outstanding I/Os, and none is behind what
  the answer before had.  Likewise the runtime is read after the answer before was printed, and before this one was.
* A maximum never falls.
"""

from __future__ import annotations

import math

from ...model.steps import Stimulus
from .agreement import disagreement, upper_edge_ns
from .answer import read_totals
from .sampling import Side, Totals, lower_edge_ns

#: Threads begin one after the other, on an overloaded host 100 ms apart, and the runtime is the longest one's.
_CLOCK_MS = 1000


class RunningTotals:
    """Reads the answers of one stimulus in their order, and refuses those that do not fit together."""

    def __init__(self, stimulus: Stimulus) -> None:
        self._outstanding = stimulus.total_oio
        self._sizes = [share.size_bytes for share in stimulus.block_shares] or [stimulus.largest_block_bytes]
        self._before = Totals()
        self._printed_ms: float | None = None
        #: The stimulus began between these moments, by all answers so far.
        self._began_after_ms, self._began_before_ms = -math.inf, math.inf

    def read(self, answer: str, clock_set_seconds: float = 0.0, *, final: bool = False) -> Totals:
        """Return the totals of the next answer; raises Refused where it is not believed.

        The wall clock was set by ``clock_set_seconds`` since the stimulus began.  The ``final`` answer is printed when
        no time is counted any more.
        """
        totals, printed_ms = read_totals(answer)
        for what, side, before in (
            ("reads", totals.read, self._before.read),
            ("writes", totals.write, self._before.write),
        ):
            self._require_counters(side, before, what)
            _require_maximum(side, before, what)
        if printed_ms is not None:
            self._require_runtime(totals, printed_ms - 1000 * clock_set_seconds, final=final)
        self._before = totals
        return totals

    def _require_counters(self, side: Side, before: Side, what: str) -> None:
        counted, in_bins, earlier = side.timed_ios, sum(side.bins.values()), sum(before.bins.values())
        if counted > in_bins + self._outstanding:
            raise disagreement(f"{counted} response times of {what}, of which {in_bins} are in bins")
        if counted < earlier - self._outstanding:
            raise disagreement(f"{counted} response times of {what}, and {earlier} in bins in the answer before")
        most = (counted + self._outstanding) * max(self._sizes)
        least = (earlier - self._outstanding) * min(self._sizes)
        if not least <= side.transferred_bytes <= most:
            raise disagreement(f"{side.transferred_bytes} bytes of {what} in {counted} I/Os ({earlier} before)")

    def _require_runtime(self, totals: Totals, printed_ms: float, *, final: bool) -> None:
        """Require that some beginning fits the runtimes of all answers: each grows with the wall clock.

        A runtime of 0 is that of threads without I/O so far.
        """
        runtime_ms = max(totals.read.runtime_ms, totals.write.runtime_ms)
        before_ms = max(self._before.read.runtime_ms, self._before.write.runtime_ms)
        if runtime_ms < before_ms - _CLOCK_MS:
            raise disagreement(f"a runtime of {runtime_ms} ms, after {before_ms} ms in the answer before")
        if runtime_ms:
            self._began_before_ms = min(self._began_before_ms, printed_ms - runtime_ms)
            if self._printed_ms is not None and not final:
                self._began_after_ms = max(self._began_after_ms, self._printed_ms - runtime_ms)
            if self._began_after_ms > self._began_before_ms + _CLOCK_MS:
                raise disagreement(f"a runtime of {runtime_ms} ms, and another by the wall clock")
        self._printed_ms = printed_ms


def _require_maximum(side: Side, before: Side, what: str) -> None:
    """Require a maximum that is in the last bin, but for I/Os that ended while fio copied its counters."""
    maximum = side.response_max_ns
    if maximum < before.response_max_ns:
        raise disagreement(f"the maximum response time of {what} fell from {before.response_max_ns} to {maximum} ns")
    in_bins = sum(side.bins.values())
    above = sum(count for middle, count in side.bins.items() if lower_edge_ns(middle) > maximum)
    if above > max(0, in_bins - side.timed_ios):
        raise disagreement(f"a maximum response time of {maximum} ns, and {above} {what} in bins above it")
    if in_bins >= side.timed_ios and side.bins and maximum > upper_edge_ns(max(side.bins)):
        raise disagreement(
            f"a maximum response time of {maximum} ns, and the last bin of {what} is {max(side.bins)} ns"
        )
