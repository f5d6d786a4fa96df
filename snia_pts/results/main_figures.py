"""The few key figures that represent a test: for the regression rule, and for figures that compare runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

#: More figures would not fit into one view, and would give more false alarms for each run.
MAX_FIGURES = 6

_MAX_MID_MIN = tuple(
    (metric, f"{point} IOPS point") for metric in ("iops", "average_response_ms") for point in ("Max", "Mid", "Min")
)
#: For each test, its main figures, as (metric, point).  Those of other tests are the first six IOPS.
_FIGURES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "iops": (
        ("iops", "RND 4 KiB 100/0"),
        ("iops", "RND 4 KiB 65/35"),
        ("iops", "RND 4 KiB 0/100"),
        ("iops", "RND 64 KiB 65/35"),
        ("iops", "RND 1024 KiB 100/0"),
        ("iops", "RND 1024 KiB 0/100"),
    ),
    "throughput": tuple(
        ("mb_per_second", f"SEQ {size} KiB {mix}") for size in (1024, 128) for mix in ("100/0", "0/100")
    ),
    "latency": (
        ("average_response_ms", "RND 4 KiB 100/0"),
        ("average_response_ms", "RND 4 KiB 65/35"),
        ("average_response_ms", "RND 4 KiB 0/100"),
        ("average_response_ms", "RND 8 KiB 100/0"),
        ("average_response_ms", "RND 8 KiB 0/100"),
        ("response_99.9_percent_ms", "histogram"),
    ),
    "wsat": (
        ("iops", "end of the stimulus"),
        ("average_response_ms", "end of the stimulus"),
        ("iops", "whole stimulus, from FOB on"),
        ("response_99.9_percent_ms", "histogram"),
    ),
    "hir": (
        ("iops", "PC, measurement window"),
        *(("iops", f"Wait State {number}, access C") for number in (1, 2, 3, 5, 10)),
    ),
    "xsr": tuple(
        (metric, f"AG {group}, stimulus") for metric in ("iops", "average_response_ms") for group in (1, 2, 3)
    ),
    "composite": _MAX_MID_MIN,
    "dirth": _MAX_MID_MIN,
}


class _Named(Protocol):
    @property
    def metric(self) -> str: ...
    @property
    def at(self) -> str: ...


_Figure = TypeVar("_Figure", bound=_Named)


def main_figures(test: str, figures: Sequence[_Figure]) -> tuple[_Figure, ...]:
    """Return the main ones of a test's key figures, at most ``MAX_FIGURES``."""
    if names := _FIGURES.get(test):
        by_name = {(figure.metric, figure.at): figure for figure in figures}
        return tuple(by_name[name] for name in names if name in by_name)
    return tuple(figure for figure in figures if figure.metric == "iops")[:MAX_FIGURES]
