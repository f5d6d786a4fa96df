"""A stimulus, and what was measured of it, by the names that they have wherever the suite writes data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .measurement import NINES, Measurement, average_response_us, mean, percentiles_response_us
from .result import Loop
from .steps import BlockSize, Stimulus

_NINES = ("three_nines_response_us", "four_nines_response_us", "five_nines_response_us")


def described(stimulus: Stimulus) -> Mapping[str, object]:
    """Return a stimulus by the names of result.xml; None where something is as usual.

    A mix of sizes and a skew are lists of ``bytes:percent`` and of ``percent of accesses:percent of range``.
    """
    skew = " ".join(f"{zone.access_percent}:{zone.range_percent}" for zone in stimulus.skew)
    return {
        "access": stimulus.access, "read_percent": stimulus.read_percent,
        **sizes(stimulus.block_size_bytes),
        "thread_count": stimulus.thread_count, "queue_depth": stimulus.queue_depth,
        "range_offset_bytes": stimulus.range_offset_bytes, "range_bytes": stimulus.range_bytes, "skew": skew or None,
        "start_bytes": stimulus.start_bytes or None, "seconds": stimulus.seconds, "passes": stimulus.passes,
        "limit_bytes": stimulus.limit_bytes,
    }  # fmt: skip


def sizes(found: BlockSize | None) -> Mapping[str, object]:
    """Return a block size, or the shares of a mix, by their names; None is no size."""
    if found is None or isinstance(found, int):
        return {"block_size_bytes": found, "block_mix": None}
    shares = " ".join(f"{share.size_bytes}:{share.percent}" for share in found)
    return {"block_size_bytes": None, "block_mix": shares}


def window_points(loop: Loop) -> Iterator[tuple[Stimulus, Mapping[str, float | None]]]:
    """Give every point of a loop with its means over the window, by their names in result.xml."""
    keyed = [measured.by(_place) for measured in loop.window_rounds]
    for stimulus in keyed[0] if keyed else ():
        yield stimulus, _means([points[stimulus] for points in keyed])


def _place(stimulus: Stimulus) -> Stimulus:
    """The same point of every round: a sequential stream begins elsewhere in each."""
    return replace(stimulus, start_bytes=0)


def _means(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """The figures of a point over a window; response times are of all its I/Os together."""
    greatest = [each.maximum_response_us for each in measured]
    busy = [each.host_cpu_percent for each in measured if each.host_cpu_percent is not None]
    return {
        "iops": mean(each.iops for each in measured),
        "mb_per_second": mean(each.mb_per_second for each in measured),
        "average_response_us": known(average_response_us(measured)),
        "maximum_response_us": max(greatest),
        "mean_maximum_response_us": mean(greatest),
        **percentiles(measured),
        "host_cpu_percent": mean(busy) if len(busy) == len(measured) else None,
    }


def known(value: float) -> float | None:
    """Return a number; None for what is none."""
    return value if math.isfinite(value) else None


def percentiles(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the confidence levels of merged bins in us, by their names in result.xml; None where I/Os are too few.

    None is above the greatest response time, which is known exactly.
    """
    return dict(zip(_NINES, percentiles_response_us(measured, NINES), strict=True))
