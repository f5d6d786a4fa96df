"""Figures of a stimulus reported by another tool: rates and response times, without the underlying counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..units import KIB, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFigures:
    """Figures of reads and writes together, as in the other tool's file; None where it reports none.

    ``response_us`` are the minimum, maximum and mean response time.
    """

    iops: Quantity | None = None
    kib_per_second: Quantity | None = None
    response_us: tuple[Quantity | None, Quantity | None, Quantity | None] = (None, None, None)

    def rate(self, block_bytes: int) -> float:
        """Return the IOPS, if necessary derived from the throughput and block size; nan if neither is reported."""
        return self.bytes_per_second(block_bytes) / block_bytes if self.iops is None else self.iops

    def bytes_per_second(self, block_bytes: int) -> float:
        """Return the throughput, if necessary derived from the IOPS; nan if neither is reported."""
        if self.kib_per_second is not None:
            return KIB * self.kib_per_second
        return math.nan if self.iops is None else self.iops * block_bytes

    @property
    def timed(self) -> bool:
        """Whether there are response times."""
        return self.response_us != (None, None, None)

    @property
    def maximum_us(self) -> float:
        """The maximum response time; nan if it is not reported."""
        return _nan_if_none(self.response_us[1])

    @property
    def mean_us(self) -> float:
        """The mean response time; nan if it is not reported."""
        return _nan_if_none(self.response_us[2])


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value
