"""Response times of many I/Os at once, counted in bins as fine as fio's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from ...model.histogram import percentile_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: fio's bins: 64 for each power of two.
_BITS = 6
_BINS = 29 << _BITS
_TAIL_SIGMA = 0.35
#: More I/Os than that lie in the bins by their shares: the greatest response times are some 30 times the mean, so that
#: the rounding of a share moves the mean by less than a fifth of a percent, and a bin is 0.8 % wide at least.
_DRAWN_ONE_BY_ONE = 1 << 14


def _upper_edges() -> NDArray[np.float64]:
    places = np.arange(_BINS)
    fine = np.maximum((places >> _BITS) - 1, 0)
    start = np.where(places < 2 << _BITS, places, (1 << (fine + _BITS)) + (places % (1 << _BITS) << fine))
    upper: NDArray[np.float64] = (start + (1 << fine)).astype(np.float64)
    return upper


_UPPER = _upper_edges()
_LOWER = np.concatenate(([0.0], _UPPER[:-1]))
#: What fio prints for a bin: its middle.
_NAMES = ((_LOWER + _UPPER) // 2).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How response times spread about their mean: a bell on a log axis, and a share of late ones."""

    sigma: float
    late_share: float
    late_factor: float


@dataclass(slots=True)
class Tally:
    """I/Os of one direction so far: counts, bytes, and their response times in nanoseconds."""

    ios: int = 0
    transferred_bytes: int = 0
    sum_ns: float = 0.0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BINS, dtype=np.int64))

    def add(self, ios: int, transferred_bytes: int, mean_ns: float, shape: Shape, luck: float) -> None:
        """Count ``ios`` more with a mean response time; ``luck`` (0 to 1) decides how their parts are rounded.

        The mean is that of the times in the bins.  Of many I/Os the shares of the bins have it; a few are drawn one by
        one, as one late I/O more or less would move their mean out of the bins, and scaled to it.
        """
        if not ios:
            return
        self.ios += ios
        self.transferred_bytes += transferred_bytes
        self.sum_ns += ios * mean_ns
        first, below = _shares_below(mean_ns, shape)
        if ios > _DRAWN_ONE_BY_ONE:
            self.counts[first : first + len(below)] += np.diff(np.floor(below * ios + luck), prepend=0).astype(np.int64)
            return
        times = np.interp((np.arange(ios) + luck) / ios, below, _UPPER[first : first + len(below)])
        places = np.searchsorted(_UPPER, times * (mean_ns / times.mean()), side="right")
        self.counts += np.bincount(np.minimum(places, _BINS - 1), minlength=_BINS)

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.ios if self.ios else 0.0

    @property
    def bins(self) -> dict[str, int]:
        """The counts by fio's names of the bins."""
        filled = np.flatnonzero(self.counts)
        return {str(_NAMES[place]): int(self.counts[place]) for place in filled}

    @property
    def extremes_ns(self) -> tuple[int, int]:
        """The least and the greatest response time: of the outer bins, and no further in than the mean."""
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return 0, 0
        return min(int(_NAMES[filled[0]]), int(self.mean_ns)), max(int(_NAMES[filled[-1]]), math.ceil(self.mean_ns))

    def percentile_us(self, percent: float) -> float | None:
        """Return a percentile of the response times; None where there are too few I/Os to tell."""
        rank = percentile_rank(self.ios, percent)
        if rank is None:
            return None
        place = int(np.searchsorted(self.counts.cumsum(), rank))
        return float(_NAMES[place]) / 1000

    def join(self, other: Tally) -> None:
        """Take in what another has counted."""
        self.ios += other.ios
        self.transferred_bytes += other.transferred_bytes
        self.sum_ns += other.sum_ns
        self.counts += other.counts


def _shares_below(mean_ns: float, shape: Shape) -> tuple[int, NDArray[np.float64]]:
    """Return the first bin that is filled, and from there on the share that lies in or below each bin, up to 1."""
    bell = math.exp(shape.sigma**2 / 2) * (1 - shape.late_share)
    late = shape.late_factor * math.exp(_TAIL_SIGMA**2 / 2) * shape.late_share
    middle = mean_ns / (bell + late)
    lowest, highest = middle * math.exp(-4.5 * shape.sigma), middle * shape.late_factor * math.exp(4 * _TAIL_SIGMA)
    first, last = (min(_BINS - 1, int(np.searchsorted(_UPPER, edge))) for edge in (lowest, highest))
    logs = np.log(_UPPER[first : last + 1] / middle)
    below = (1 - shape.late_share) * ndtr(logs / shape.sigma)
    below += shape.late_share * ndtr((logs - math.log(shape.late_factor)) / _TAIL_SIGMA)
    below[-1] = 1.0
    return first, below
