"""A stimulus, and what was measured of it, by the names that they have wherever the suite writes data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..model.dut import Dut
from ..model.measurement import (
    NINES,
    Measurement,
    average_response_us,
    mean,
    percentiles_response_us,
    sync_percentile_us,
)
from ..model.steps import BlockSize, Stimulus
from ..procedures.profile import points as profile_points
from ..spec import ProfileSpec, Scalar
from .result import Loop, TestResult

_SYNC = {"half_sync_us": 50.0, "two_nines_sync_us": 99.0, "three_nines_sync_us": 99.9}
_NINES = ("three_nines_response_us", "four_nines_response_us", "five_nines_response_us")


def stimulus_attributes(stimulus: Stimulus) -> Mapping[str, object]:
    """Return a stimulus by the names of result.xml; None where something is as usual.

    A mix of sizes and a skew are lists of ``bytes:percent`` and of ``percent of accesses:percent of range``.
    """
    skew = " ".join(f"{zone.access_percent}:{zone.range_percent}" for zone in stimulus.skew)
    return {
        "access": stimulus.access,
        "read_percent": stimulus.read_percent,
        **sizes(stimulus.block_size_bytes),
        "thread_count": stimulus.thread_count,
        "queue_depth": stimulus.queue_depth,
        "range_offset_bytes": stimulus.range_offset_bytes,
        "range_bytes": stimulus.range_bytes or None,
        "skew": skew or None,
        "start_bytes": _starts(stimulus),
        "seconds": stimulus.seconds,
        "passes": stimulus.passes,
        "limit_bytes": stimulus.limit_bytes,
        "ramp_seconds": stimulus.ramp_seconds or None,
        "skip_bytes": stimulus.skip_bytes or None,
        "options": " ".join(f"{key}={value}" for key, value in stimulus.options) or None,
        "name": stimulus.name or None,
    }


def _starts(stimulus: Stimulus) -> int | str | None:
    """Return where sequential streams begin, of several threads as a list; None where all begin their share."""
    start = stimulus.start_bytes
    return " ".join(map(str, start)) if isinstance(start, tuple) else start or None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A point of a profile: its name, its stimulus, where it lies on the axes, its figures by their names."""

    name: str
    stimulus: Stimulus
    place: Mapping[str, Scalar]
    figures: Mapping[str, int | float | None]


def repeated_points(result: TestResult) -> Iterator[Repeated]:
    """Give every point of a profile's run with what it comes to over all complete repeats."""
    spec = result.facts.spec
    if not isinstance(spec, ProfileSpec):
        return
    places = {point.name: point.place for point in profile_points(spec, result.facts.dut)}
    for loop in result.loops:
        measured = [each for counted in result.counted(loop) for each in counted.measurements]
        if measured:
            figures = {
                "repeats": len(measured),
                **_means(measured),
                **_repeated(measured),
                "host_limited": result.host_limited(measured),
            }
            yield Repeated(
                name=loop.part, stimulus=measured[0].stimulus, place=places.get(loop.part, {}), figures=figures
            )


def _repeated(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """What is told of a profile's point besides: how far repeats lie apart, sides of a mix, synchronizing calls."""
    rates, mixed = [each.iops for each in measured], 0 < measured[0].stimulus.read_percent < 100
    half, most = percentiles_response_us(measured, (50.0, 99.0))
    rates = [rate for rate in rates if math.isfinite(rate)] or [math.nan]
    synced = [each.sync for each in measured if each.sync is not None]
    calls = sum(each.calls for each in synced)
    return {
        "least_iops": finite_or_none(min(rates)),
        "greatest_iops": finite_or_none(max(rates)),
        "spread_percent": spread_percent(measured),
        "read_iops": finite_or_none(mean(each.read.iops for each in measured)) if mixed else None,
        "write_iops": finite_or_none(mean(each.write.iops for each in measured)) if mixed else None,
        "half_response_us": half,
        "two_nines_response_us": most,
        "sync_calls": calls or None,
        "average_sync_us": math.fsum(each.calls * each.mean_ns for each in synced) / calls / 1000 if calls else None,
        **{name: sync_percentile_us(measured, percent) if calls else None for name, percent in _SYNC.items()},
        "maximum_sync_us": max(each.max_ns for each in synced) / 1000 if calls else None,
    }


def spread_percent(measured: Sequence[Measurement]) -> float | None:
    """Return the difference between the greatest and the least IOPS of ``measured`` in percent of their mean.

    None of one measurement, of one too short for a rate, and where the difference is less than the resolution of the
    engine's clock: 1 ms of the shortest measurement.
    """
    rates, told = [each.iops for each in measured], any(each.told is not None for each in measured)
    middle = mean(rates)
    if len(rates) < 2 or not middle > 0:
        return None
    spread, shortest_ms = 100 * (max(rates) - min(rates)) / middle, min(each.runtime_ms for each in measured)
    return spread if told or spread * shortest_ms >= 100 else None


def _place(stimulus: Stimulus) -> Stimulus:
    """The same point of every round: a sequential stream begins elsewhere in each."""
    return replace(stimulus, start_bytes=0)


def _means(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """The figures of a point over a window; response times are of all its I/Os together."""
    greatest = [each.maximum_response_us for each in measured]
    busy = [each.host_cpu_percent for each in measured if each.host_cpu_percent is not None]
    return {
        "iops": finite_or_none(mean(each.iops for each in measured)),
        "mb_per_second": finite_or_none(mean(each.mb_per_second for each in measured)),
        "average_response_us": finite_or_none(average_response_us(measured)),
        "maximum_response_us": finite_or_none(max(greatest)),
        "mean_maximum_response_us": finite_or_none(mean(greatest)),
        **percentiles(measured),
        "host_cpu_percent": mean(busy) if len(busy) == len(measured) else None,
    }


def finite_or_none(value: float) -> float | None:
    """Return a number; None for what is none."""
    return value if math.isfinite(value) else None


def dut_attributes(dut: Dut) -> Mapping[str, object]:
    """Return a device by the names of result.xml; None is a size that it does not tell."""
    told = asdict(dut)
    del told["array"]  # which has parts of its own
    return {name: told[name] or None if name.endswith("_bytes") else told[name] for name in told}


def whole_bytes_or_none(value: float) -> int | None:
    """Return an amount of whole bytes; None where nobody counted them."""
    return int(value) if math.isfinite(value) else None


def transfers(measurement: Measurement) -> Mapping[str, int | None]:
    """Return the counts and times of reads and writes, by their names in result.xml; None where nobody counted them."""
    sides = (("read", measurement.read), ("write", measurement.write))
    found = {
        f"{name}_{what}": value
        for name, side in sides
        for what, value in (("ios", side.ios), ("bytes", side.transferred_bytes), ("runtime_ms", side.runtime_ms))
    }
    return found if measurement.told is None else dict.fromkeys(found)


def percentiles(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the confidence levels of merged bins in us, by their names in result.xml; None where I/Os are too few.

    None is above the greatest response time, which is known exactly.
    """
    return dict(zip(_NINES, percentiles_response_us(measured, NINES), strict=True))
