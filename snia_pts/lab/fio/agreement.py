"""Whether the numbers of one answer of fio's agree with each other.

Measured facts behind the tolerances (fio 3.33; ``bench/answers.py`` runs some hundred points of every shape):

* fio keeps response times as a count, least, mean and greatest, and apart from these in bins; both see every I/O.
* A bin is told by its middle (``sampling.upper_edge_ns``); what took longer than the last bin is counted in that.
* ``runtime`` is the longest of all threads', cut to whole milliseconds; rates are computed from it.
* With a ramp ``total_ios`` leaves out what was outstanding at its end; response times and bytes hold it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.measurement import Transfers
from ...model.steps import Stimulus
from ...spec.fio_options import WAITING
from ...units import exact_capacity
from . import sampling
from .job import AnswerRejected, sections
from .sampling import lower_edge_ns

#: The middle of fio's last bin, which has no end.
_LAST_BIN_NS = 17_112_760_320
#: A mean is a running one in double precision, printed with six digits after the point.
_MEAN_SHARE, _MEAN_NS = 1e-6, 1e-3
#: Rates are printed in whole bytes, and I/Os with six digits.
_RATE_SHARE, _RATE = 1e-9, 1.0
#: A runtime is whole milliseconds, and a thread's response times begin a little before it does.
_RUNTIME_SHARE, _RUNTIME_NS = 0.01, 2e6


def require_response_times(response: Mapping[str, Any], ios: int, what: str) -> None:
    """Raise Refused unless count, least, mean, greatest and bins of response times are those of ``ios`` I/Os."""
    bins = {int(middle): int(count) for middle, count in response["bins"].items()}
    if not response["N"] == sum(bins.values()) == ios:
        raise disagreement(
            f"{ios} {what}, but {response['N']} response times, of which {sum(bins.values())} are in bins"
        )
    least, mean, greatest = int(response["min"]), float(response["mean"]), int(response["max"])
    slack = _MEAN_SHARE * mean + _MEAN_NS
    if least > greatest or not least - slack <= mean <= greatest + slack:
        raise disagreement(f"the mean response time of {what} is {mean:g} ns, the range {least} to {greatest} ns")
    lowest, highest = min(bins), max(bins)
    if not lower_edge_ns(lowest) <= least <= upper_edge_ns(lowest):
        raise disagreement(f"the least response time of {what} is {least} ns, and the lowest bin {lowest} ns")
    if not lower_edge_ns(highest) <= greatest <= upper_edge_ns(highest):
        raise disagreement(f"the greatest response time of {what} is {greatest} ns, and the highest bin {highest} ns")
    shortest = math.fsum(count * lower_edge_ns(middle) for middle, count in bins.items()) / ios
    longest = math.fsum(count * min(upper_edge_ns(middle), greatest) for middle, count in bins.items()) / ios
    if not shortest - slack <= mean <= longest + slack:
        raise disagreement(
            f"the mean response time of {what} is {mean:g} ns, and {shortest:g} to {longest:g} ns by the bins"
        )


def require_running_mean(response: Mapping[str, Any]) -> None:
    """Raise Refused where the mean of running totals, whose counters may be of different moments, is not in the bins.

    fio copies the mean before the bins, so that these hold every I/O that is in it.
    """
    bins, mean = [int(middle) for middle in response.get("bins", {})], float(response["mean"])
    slack = _MEAN_SHARE * mean + _MEAN_NS
    if bins and not lower_edge_ns(min(bins)) - slack <= mean <= upper_edge_ns(max(bins)) + slack:
        raise disagreement(f"a mean response time of {mean:g} ns, the bins from {min(bins)} to {max(bins)} ns")


def require_bytes(stimulus: Stimulus, side: Transfers) -> None:
    """Raise Refused unless so many I/Os of the stimulus's block sizes are so many bytes."""
    sizes = [share.size_bytes for share in stimulus.block_shares] or [stimulus.largest_block_bytes]
    smaller = stimulus.passes or 0  # the tail of the range, written once each pass
    most = side.ios * max(sizes)
    least = max(0, side.ios - smaller) * min(sizes)
    if not least <= side.transferred_bytes <= most or (not smaller and side.transferred_bytes % math.gcd(*sizes)):
        raise AnswerRejected(
            "device", f"{side.ios} I/Os and {exact_capacity(side.transferred_bytes)} do not fit together"
        )


def require_rates(said: Mapping[str, Any], what: str) -> None:
    """Raise Refused unless fio's own rates are its counts by its runtime."""
    for rate, amount in (("iops", "total_ios"), ("bw_bytes", "io_bytes")):
        expected = 1000 * said[amount] / said["runtime"] if said["runtime"] else 0
        if not abs(said[rate] - expected) <= _RATE_SHARE * expected + _RATE:
            raise disagreement(
                f"{rate} of {what} is {said[rate]:g}, and {said[amount]} in {said['runtime']} ms are {expected:g}"
            )


def require_outstanding(stimulus: Stimulus, sides: Sequence[Transfers]) -> None:
    """Raise Refused where the response times do not fit into the runtime, by the I/Os outstanding at a time.

    None takes longer than the runtime, but for one that began in a ramp.  Together they take no more than all that is
    outstanding can (Little's law).
    """
    depth = 1 if dict(stimulus.options).get("ioengine") in WAITING else stimulus.queue_depth
    outstanding = depth * sum(section.jobs for section in sections(stimulus))
    together_ns = math.fsum(side.ios * side.response_mean_ns for side in sides)
    runtime_ns = 1e6 * max(side.runtime_ms for side in sides) * (1 + _RUNTIME_SHARE) + _RUNTIME_NS
    greatest_ns = max(side.response_max_ns for side in sides)
    if greatest_ns > runtime_ns and not stimulus.ramp_seconds:
        raise disagreement(f"an I/O took {greatest_ns / 1e9:g} s in a runtime of {runtime_ns / 1e9:.3g} s")
    if together_ns > outstanding * (runtime_ns + greatest_ns):
        raise disagreement(
            f"{sum(side.ios for side in sides)} I/Os took {together_ns / 1e9:g} s together, more than "
            f"{outstanding} outstanding at a time can in {runtime_ns / 1e9:.3g} s"
        )


def upper_edge_ns(middle_ns: int) -> float:
    """Return the greatest time in fio's bin around ``middle_ns``; the last bin has no end."""
    return math.inf if middle_ns >= _LAST_BIN_NS else sampling.upper_edge_ns(middle_ns)


def disagreement(reason: str) -> AnswerRejected:
    """Return the refusal of an answer whose numbers contradict each other."""
    return AnswerRejected("host", f"fio's answer contradicts itself: {reason}")
