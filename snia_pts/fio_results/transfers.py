"""Read what a job of fio transferred, and how long it took, from its JSON: with bins, with percentiles, or without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..lab.fio.agreement import require_response_times
from ..lab.fio.answer import (
    NO_TIMES,
    build_transfers,
    count_transfers,
    job_uncounted_ios,
    require_plausible,
    side_counts,
    side_transfers,
)
from ..lab.fio.job import AnswerRejected
from ..lab.fio.numbers import bin_counts, integer, number
from ..model.histogram import Histogram
from ..model.measurement import NO_TRANSFERS, Transfers
from ..model.steps import Stimulus
from ..units import KIB

Side = Literal["read", "write"]
#: The response times of a side: of whole I/Os, of their completion without the submission, or none.
Times = Literal["response", "completion", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideResult:
    """The transfers of one side, and the kind of its response times and of its percentiles."""

    transfers: Transfers
    times: Times
    percentiles: Times


NO_SIDE = SideResult(transfers=NO_TRANSFERS, times="none", percentiles="none")


def normalize(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job as fio 3.33 reports it.

    fio 2 reports microseconds and KiB; fio before 3.17 does not report the number of response times.
    """
    sides = {side: job[side] for side in ("read", "write", "trim", "mixed") if side in job}
    if not any("lat_ns" in side or "clat_ns" in side for side in sides.values()):
        return {**job, **{name: _from_version_2(side) for name, side in sides.items()}}
    return {**job, **{name: _with_counts(side) for name, side in sides.items()}}


def _with_counts(side: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a side with the number of its response times; if it is missing, use that of the I/Os, 0 without times."""
    times = {
        name: {**side[name], "N": integer(side["total_ios"]) if number(side[name]["max"]) else 0}
        for name in ("lat_ns", "clat_ns")
        if name in side and "N" not in side[name]
    }
    return {**side, **times}


def _from_version_2(side: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a side of fio 2 in the form of fio 3."""
    ios = integer(side["total_ios"])
    times = {f"{name}_ns": _in_nanoseconds(side[name], ios) for name in ("lat", "clat") if name in side}
    amount = integer(side["io_bytes"]) if "io_kbytes" in side else KIB * integer(side["io_bytes"])
    return {**side, **times, "io_bytes": amount}


def _in_nanoseconds(times: Mapping[str, Any], ios: int) -> Mapping[str, Any]:
    """Return response times of fio 2 in the form of fio 3, without the bins, which fio 2 numbers in another way."""
    measured = number(times["max"]) > 0
    percentiles = {key: 1000 * number(value) for key, value in times.get("percentile", {}).items() if key[:1].isdigit()}
    return {
        **{name: 1000 * integer(times[name]) for name in ("min", "max")},
        "mean": 1000 * number(times["mean"]),
        "N": ios if measured else 0,
        "percentile": percentiles,
    }


def read_side(stimulus: Stimulus, job: Mapping[str, Any], name: Side) -> SideResult:
    """Return the reads, or the writes, of a job; raises AnswerRejected and the errors of malformed values."""
    side = job[name]
    if not (integer(side["total_ios"]) or integer(side["io_bytes"])):
        return NO_SIDE
    whole, completion = (side.get(key, NO_TIMES) for key in ("lat_ns", "clat_ns"))
    if whole.get("bins"):
        transfers = side_transfers(stimulus, side, f"{name}s", job_uncounted_ios(stimulus, job))
        return SideResult(transfers=transfers, times="response", percentiles="response")
    times = whole if whole.get("N") else completion
    if not times.get("N"):
        return SideResult(transfers=count_transfers(side), times="none", percentiles="none")
    counts = side_counts(stimulus, {**side, "lat_ns": times}, _uncounted(stimulus, job))
    histogram, percentiles = _distribution(whole, completion, counts[0], f"{name}s")
    transfers = build_transfers(side, times, counts, histogram, percentiles)
    _require_consistent(transfers, integer(times["N"]), stimulus, f"{name}s")
    return SideResult(
        transfers=transfers,
        times="response" if times is whole else "completion",
        percentiles="response" if percentiles and percentiles == _percentiles(whole) else "completion",
    )


def _uncounted(stimulus: Stimulus, job: Mapping[str, Any]) -> int:
    return job_uncounted_ios(stimulus, job) if all("lat_ns" in job[side] for side in ("read", "write")) else 0


def _distribution(
    whole: Mapping[str, Any], completion: Mapping[str, Any], ios: int, what: str
) -> tuple[Histogram, tuple[tuple[float, float], ...]]:
    """Return the histogram of completion times if there are bins, else fio's percentiles."""
    if completion.get("bins"):
        require_response_times(completion, ios, what)
        return Histogram.from_bins(bin_counts(completion["bins"]).items()), ()
    return Histogram(), _percentiles(whole) or _percentiles(completion)


def _percentiles(times: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """Return percentiles by percent, ascending; raises AnswerRejected if their times do not ascend.

    Old versions state 0 % for each percentile that is not set.
    """
    stated = ((float(key), number(value)) for key, value in times.get("percentile", {}).items())
    percentiles = sorted((percent, value) for percent, value in stated if percent)
    require_plausible(*(value for _, value in percentiles))
    values = [value for _, value in percentiles]
    if values != sorted(values) or not all(0 < percent <= 100 for percent, _ in percentiles):
        raise AnswerRejected("host", "the percentiles do not ascend")
    return tuple(percentiles)


def _require_consistent(transfers: Transfers, count: int, stimulus: Stimulus, what: str) -> None:
    """Raise AnswerRejected if the response times of ``what`` contradict each other or the number of I/Os."""
    least, mean, most = transfers.response_min_ns, transfers.response_mean_ns, transfers.response_max_ns
    tolerance = 1e-6 * mean + 1e-3
    if not least - tolerance <= mean <= most + tolerance:
        reason = f"the mean response time of {what} is {mean:g} ns, but the range {least} to {most} ns"
        raise AnswerRejected("host", reason)
    if abs(count - transfers.ios) > stimulus.total_oio:
        raise AnswerRejected("host", f"{transfers.ios} {what}, but {count} response times")
