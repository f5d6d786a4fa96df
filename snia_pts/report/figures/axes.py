"""Axes with few, round, readable ticks, computed so that labels never overlap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..tables import thousands
from .style import GRID, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...results.tracked_series import SampleTimes

#: What a caption says of a linear axis that hides a part of its range.
NOT_FROM_ZERO = "Y axis does not start at zero."
#: Values that differ by more than this factor need a log axis: on a linear one, the lowest lie on the bottom line.
_LINEAR_RANGE = 10.0
#: The most labels on a log axis.
_MAX_LABELS = 9
#: The least ratio of an end of a log axis to the nearest tick, or of the tick to the end, that gives the end a tick.
_LEAST_RATIO = 4.5
#: Units that keep the labels of large numbers short, on an axis that has at least this number.
_UNITS = ((1e9, "G"), (1e6, "M"))
_LEAST_WITH_UNIT = 1e7


def finite(values: Iterable[float]) -> list[float]:
    """Return the finite ones of ``values``."""
    return [value for value in values if math.isfinite(value)]


def is_wide(values: Iterable[float]) -> bool:
    """Return whether the positive ones of ``values`` need a log axis."""
    positive = [value for value in finite(values) if value > 0]
    return bool(positive and max(positive) > _LINEAR_RANGE * min(positive))


def tick_label(value: float, highest: float = 0.0) -> str:
    """Return a round number as an axis up to ``highest`` shows it: ``20 000``, ``0.5``, ``1 000 000``, ``50 M``."""
    for size, unit in _UNITS:
        if abs(value) >= size and max(abs(value), highest) >= _LEAST_WITH_UNIT:
            return f"{tick_label(value / size)} {unit}"
    text = f"{value:.6g}"
    if "e" in text:
        return thousands(value, 0) if abs(value) >= 1 else text
    return thousands(value, len(text.partition(".")[2]))


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the evenly spaced ``ticks`` of an axis, all in one unit and with enough decimals to differ."""
    highest, step = max(map(abs, ticks)), ticks[1] - ticks[0]
    size, unit = next(
        ((size, f" {unit}") for size, unit in _UNITS if highest >= max(size, _LEAST_WITH_UNIT)), (1.0, "")
    )
    decimals = next((places for places in range(6) if math.isclose(round(step / size, places), step / size)), 6)
    return [f"{thousands(tick / size, decimals)}{unit}" for tick in ticks]


def log_axis(low: float, high: float, *, most: int = _MAX_LABELS) -> tuple[tuple[float, float], list[float]]:
    """Return the ends of a log axis around ``low`` .. ``high``, and its ticks: 1-2-5 steps, decades, every n-th decade.

    The ticks are all 1-2-5 steps between the ends, or the decades if the steps are more than ``most``; every second
    step if there are too few decades.

    The ends are 1-2-5 steps too, and have a tick if the nearest one is far from them.  If only two such ticks are
    needed, the ticks are evenly spaced instead: two labels are too few to read a scale.
    """
    from matplotlib.ticker import LogLocator

    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [step * 10.0**power for power in range(first, last + 2) for step in (1, 2, 5)]
    below = max(step for step in steps if step <= low * (1 + 1e-9))
    above = min(step for step in steps if step >= high * (1 - 1e-9) and step > below)
    within = [step for step in steps if below <= step <= above]
    if len(within) > most:
        decades = LogLocator(subs=(1,), numticks=most).tick_values(10.0**first, 10.0**last)
        shown = [float(tick) for tick in decades if below * (1 - 1e-9) <= tick <= above * (1 + 1e-9)]
        within = shown if len(shown) > 2 else within[::2]
    if len(within) < 3:
        return (below, above), linear_ticks(below, above)
    ends = [end for end in (below, above) if not within[0] / _LEAST_RATIO < end < within[-1] * _LEAST_RATIO]
    return (below, above), sorted([*within, *ends])


def linear_ticks(low: float, high: float, *, steps: int = 5) -> list[float]:
    """Return round ticks that enclose ``low`` .. ``high``, with at most ``steps`` steps between them."""
    from matplotlib.ticker import MaxNLocator

    if low == high:  # the locator's own margin is too small to be read
        high += abs(high) * 0.1 or 1.0
    return [float(tick) for tick in MaxNLocator(steps, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]


def round_ticks(first: int, last: int, *, most: int = 25) -> list[int]:
    """Return whole rounds to label, at most ``most``."""
    stride = 1 + (last - first) // most
    return list(range(first, last + 1, stride))


def spread(places: Sequence[float], least: float) -> list[bool]:
    """Return which of ascending ``places`` to label so that labels are ``least`` apart; the first always is."""
    labelled: list[bool] = []
    latest = -math.inf
    for place in places:
        labelled.append(place - latest >= least)
        latest = place if labelled[-1] else latest
    return labelled


def set_log_y(axes: Axes, values: Iterable[float], *, most: int = _MAX_LABELS) -> None:
    """Give ``axes`` a log y axis around the positive ones of ``values``, with at most about ``most`` labels."""
    positive = [value for value in finite(values) if value > 0] or [1.0]
    (low, high), ticks = log_axis(min(positive), max(positive), most=most)
    axes.set_yscale("log")
    room = (high / low) ** 0.03  # for a marker or line at either end
    axes.set_ylim(low / room, high * room)
    axes.set_yticks(ticks, [tick_label(tick, ticks[-1]) for tick in ticks])
    axes.minorticks_off()


def _ends(ticks: Sequence[float], highest: float) -> tuple[float, float]:
    """Return the ends of a linear axis, with room for a marker at a highest value that is close to the last tick."""
    room = 0.03 * (ticks[-1] - ticks[0])
    return ticks[0], ticks[-1] + (room if highest > ticks[-1] - room else 0.0)


def set_linear_y(axes: Axes, values: Iterable[float]) -> None:
    """Give ``axes`` a linear y axis with round ends around ``values``."""
    shown = finite(values) or [0.0, 1.0]
    ticks = linear_ticks(min(shown), max(shown))
    axes.set_ylim(*_ends(ticks, max(shown)))
    axes.set_yticks(ticks, tick_labels(ticks))


def set_y_within(axes: Axes, low: float, high: float, *, steps: int = 8) -> None:
    """Give ``axes`` a linear y axis that ends at ``low`` and ``high``, with round ticks between them."""
    ticks = [tick for tick in linear_ticks(low, high, steps=steps) if low <= tick <= high]
    axes.set_ylim(low, high)
    axes.set_yticks(ticks, tick_labels(ticks))


def set_few_y(axes: Axes, values: Iterable[float]) -> None:
    """Give ``axes`` a linear y axis with round ends around ``values``, for a plot with room for three labels."""
    shown = finite(values) or [0.0, 1.0]
    ticks = linear_ticks(min(shown), max(shown))
    ends = [ticks[0], ticks[-1]]
    axes.set_ylim(*ends)
    few = ticks[:: (len(ticks) - 1) // 2] if len(ticks) % 2 else ends
    axes.set_yticks(few, tick_labels(few))


def set_y(axes: Axes, values: Iterable[float], heading: str, *, log: bool) -> None:
    """Give ``axes`` a y axis around ``values``: log, or linear from zero; ``heading`` is its label."""
    if log:
        set_log_y(axes, values)
    else:
        set_linear_y(axes, [0.0, *values])
    axes.set_ylabel(logarithmic(heading) if log else heading)


def set_linear_x(axes: Axes, values: Iterable[float]) -> None:
    """Give ``axes`` a linear x axis with round ends around ``values``."""
    shown = finite(values) or [0.0, 1.0]
    ticks = linear_ticks(min(shown), max(shown))
    axes.set_xlim(*_ends(ticks, max(shown)))
    axes.set_xticks(ticks, tick_labels(ticks))


def set_few_x(axes: Axes, values: Iterable[float], heading: str) -> None:
    """Give a narrow plot a linear x axis from zero, with three labels."""
    ticks = linear_ticks(0.0, max([0.0, *finite(values)]) or 1.0)
    axes.set_xlim(0.0, ticks[-1] * 1.02)
    few = ticks[:: max(1, (len(ticks) - 1) // 2)]
    axes.set_xticks(few, tick_labels(few))
    axes.set_xlabel(heading)


def logarithmic(heading: str) -> str:
    """Return the label of a log axis: ``Block size (KiB, log)``, ``IOPS (log)``."""
    return f"{heading[:-1]}, log)" if heading.endswith(")") else f"{heading} (log)"


def set_rounds(axes: Axes, first: int, last: int, times: SampleTimes | None = None, *, most: int = 25) -> None:
    """Give ``axes`` an x axis of whole rounds, at most ``most`` labelled, or of the ``times`` of their samples."""
    ticks = round_ticks(first, last, most=most)
    room = max(0.4, 0.03 * (last - first))  # for a marker at either end
    axes.set_xlim(first - room, last + room)
    axes.set_xticks(ticks, [f"{times.ends[tick]:.4g}" if times else str(tick) for tick in ticks])
    axes.set_xlabel(times.unit.capitalize() if times else "Round")


def dress(axes: Axes) -> None:
    """Give ``axes`` a light grid and no frame on top and right."""
    axes.grid(True, which="major", color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=QUIET, length=3)
