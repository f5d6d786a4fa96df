"""What the file of another tool tells of a stimulus: rates and response times, without the counts they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..units import KIB, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFigures:
    """Reads and writes together, in that file's own figures; None is what it does not tell.

    ``response_us`` are the least, the greatest and the mean response time.
    """

    iops: Quantity | None = None
    kib_per_second: Quantity | None = None
    response_us: tuple[Quantity | None, Quantity | None, Quantity | None] = (None, None, None)

    def rate(self, block_bytes: int) -> float:
        """Return the IOPS, which the throughput of I/Os of one size tells as well; nan where neither is told."""
        return self.bytes_per_second(block_bytes) / block_bytes if self.iops is None else self.iops

    def bytes_per_second(self, block_bytes: int) -> float:
        """Return the throughput, which the IOPS of one size tell as well; nan where neither is told."""
        if self.kib_per_second is not None:
            return KIB * self.kib_per_second
        return math.nan if self.iops is None else self.iops * block_bytes

    @property
    def timed(self) -> bool:
        """Whether there are response times."""
        return self.response_us != (None, None, None)

    @property
    def maximum_us(self) -> float:
        """The greatest response time; nan where it is not told."""
        return _number(self.response_us[1])

    @property
    def mean_us(self) -> float:
        """The mean response time; nan where it is not told."""
        return _number(self.response_us[2])


def _number(value: float | None) -> float:
    return math.nan if value is None else value
