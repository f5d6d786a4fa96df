"""Generate the response times of many I/Os at once, counted in bins like fio's."""

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
#: The latest I/Os take this many times as long as the median of late ones.
LATEST = math.exp(4 * _TAIL_SIGMA)
#: More I/Os than this are distributed over the bins by shares.  The longest response times are some 30 times the mean,
#: so rounding the shares changes the mean by less than 0.2 %; a bin is at least 0.8 % wide.
_MAX_SINGLE_DRAWS = 1 << 14


def _upper_edges() -> NDArray[np.float64]:
    indices = np.arange(_BINS)
    width_bits = np.maximum((indices >> _BITS) - 1, 0)
    wide_start = (1 << (width_bits + _BITS)) + (indices % (1 << _BITS) << width_bits)
    start = np.where(indices < 2 << _BITS, indices, wide_start)
    upper: NDArray[np.float64] = (start + (1 << width_bits)).astype(np.float64)
    return upper


_UPPER = _upper_edges()
_LOWER = np.concatenate(([0.0], _UPPER[:-1]))
#: fio identifies a bin by its midpoint.
_MIDPOINTS = ((_LOWER + _UPPER) // 2).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The distribution of response times: log-normal, plus a share of late ones."""

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
        """Add ``ios`` I/Os with a mean response time; ``luck`` (0 to 1) decides the rounding.

        The times in the bins have that mean.  Many I/Os are distributed over the bins by shares.  A few I/Os are drawn
        one by one and scaled to the mean, because a single late I/O would change it.
        """
        if not ios:
            return
        self.ios += ios
        self.transferred_bytes += transferred_bytes
        self.sum_ns += ios * mean_ns
        first, below = _shares_below(mean_ns, shape)
        if ios > _MAX_SINGLE_DRAWS:
            self.counts[first : first + len(below)] += np.diff(np.floor(below * ios + luck), prepend=0).astype(np.int64)
            return
        start, counts = _single_draws(ios, mean_ns, luck, first, below)
        self.counts[start : start + len(counts)] += counts

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.ios if self.ios else 0.0

    @property
    def bins(self) -> dict[str, int]:
        """The counts by fio's bin midpoints."""
        filled = np.flatnonzero(self.counts)
        return dict(zip(map(str, _MIDPOINTS[filled].tolist()), self.counts[filled].tolist(), strict=True))

    @property
    def extremes_ns(self) -> tuple[int, int]:
        """The minimum and maximum response time: midpoints of the outer bins, extended to the mean if necessary."""
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return 0, 0
        return min(int(_MIDPOINTS[filled[0]]), int(self.mean_ns)), max(
            int(_MIDPOINTS[filled[-1]]), math.ceil(self.mean_ns)
        )

    def percentile_us(self, percent: float) -> float | None:
        """Return a percentile of the response times; None if there are too few I/Os."""
        rank = percentile_rank(self.ios, percent)
        if rank is None:
            return None
        index = int(np.searchsorted(self.counts.cumsum(), rank))
        return float(_MIDPOINTS[index]) / 1000

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.ios += other.ios
        self.transferred_bytes += other.transferred_bytes
        self.sum_ns += other.sum_ns
        self.counts += other.counts


def _shares_below(mean_ns: float, shape: Shape) -> tuple[int, NDArray[np.float64]]:
    """Return the index of the first filled bin, and for it and all following bins the cumulative share, up to 1."""
    bell = math.exp(shape.sigma**2 / 2) * (1 - shape.late_share)
    late = shape.late_factor * math.exp(_TAIL_SIGMA**2 / 2) * shape.late_share
    median = mean_ns / (bell + late)
    lowest, highest = median * math.exp(-4.5 * shape.sigma), median * shape.late_factor * LATEST
    first, last = (min(_BINS - 1, int(np.searchsorted(_UPPER, edge))) for edge in (lowest, highest))
    logs = np.log(_UPPER[first : last + 1] / median)
    below = (1 - shape.late_share) * ndtr(logs / shape.sigma)
    below += shape.late_share * ndtr((logs - math.log(shape.late_factor)) / _TAIL_SIGMA)
    below[-1] = 1.0
    return first, below


def _single_draws(
    ios: int, mean_ns: float, luck: float, first: int, below: NDArray[np.float64]
) -> tuple[int, NDArray[np.int64]]:
    """Draw the quantiles ``(number + luck) / ios``, scale their times to the mean; return the first bin and the counts.

    Times are linear within a bin of ``below``.  Neither the times nor their sum need one value per I/O: the quantiles
    between two edges are an arithmetic series.
    """
    edges = _UPPER[first : first + len(below)]
    ranks = np.ceil(below * ios - luck)
    counts = np.diff(ranks)
    quantile_sums = counts * (ranks[1:] + ranks[:-1] - 1 + 2 * luck) / (2 * ios)
    slopes = np.diff(edges) / np.maximum(np.diff(below), 1e-300)
    segments_ns = counts * edges[:-1] + slopes * (quantile_sums - counts * below[:-1])
    sum_ns = ranks[0] * edges[0] + segments_ns.sum()
    scaled = edges * (mean_ns * ios / sum_ns)
    start, last = np.minimum(np.searchsorted(_UPPER, scaled[[0, -1]]), _BINS - 1)
    shares = np.interp(_UPPER[start : last + 1], scaled, below)
    shares[-1] = 1.0
    return int(start), np.diff(np.ceil(shares * ios - luck), prepend=0).astype(np.int64)
