"""The figures in a file of TKperf, which are all the evidence of an imported run, by round, R/W mix and block size."""

from __future__ import annotations

import json
import math
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from lxml import etree

_MIXES = {"iops": (100, 95, 65, 50, 35, 5, 0), "lat": (100, 65, 0), "tp": (100, 0)}
#: Of a hard disk, which is measured zone by zone.
_ZONED_MIXES = {"iops": (100, 50, 0), "tp": (100, 0)}
_ZONED_SIZES_KIB = {"iops": (64, 16, 4), "tp": (1024, 4)}
_SIZES_KIB = {
    "iops": (1024.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 0.5),
    "lat": (8.0, 4.0, 0.5),
    "tp": (1024.0, 64.0, 8.0, 4.0, 0.5),
}

#: The tests of a file by those of this suite.
_NAMES = {"iops": "iops", "latency": "lat", "throughput": "tp", "wsat": "writesat"}
#: IOPS, MB/s, and in ms ART and MRT, each nan if the file has none.
Figures = dict[str, float]
#: Round, sample or zone, counted from 1; share of reads in percent; block size in bytes.
Place = tuple[int, int, int]


@cache
def figures(path: Path) -> dict[Place, Figures]:
    """Return the figures of a file with one test of a drive."""
    test = _test(path)
    kind, measured = str(test.tag), json.loads(test.findtext("roundmat") or "")
    if kind == "writesat":
        samples = enumerate(zip(*measured, strict=True), start=1)
        return {(number, 0, 4096): _rated(iops, 4096) | _timed(times) for number, (iops, times) in samples}
    if (kind == "iops" and len(measured[0]) == 3) or (kind == "tp" and len(measured) == 2):
        return _zoned(kind, np.array(measured, dtype=float))
    found: dict[Place, Figures] = {}
    sizes = _SIZES_KIB[kind][: len(measured if kind == "tp" else measured[0][0])]  # 4096-byte sectors: no 0.5 KiB
    for (mix, read_percent), (place, kib) in product(enumerate(_MIXES[kind]), enumerate(sizes)):
        size_bytes = int(1024 * kib)
        rounds = measured[place][mix] if kind == "tp" else [table[mix][place] for table in measured]
        for number, value in enumerate(rounds, start=1):
            match kind:
                case "iops":
                    cell = _rated(value, size_bytes) | _timed(None)
                case "tp":  # KiB per second
                    cell = _rated(1024 * value / size_bytes, size_bytes) | _timed(None)
                case _:
                    cell = _rated(math.nan, size_bytes) | _timed(value)
            found[number, read_percent, size_bytes] = cell
    return found


def _zoned(kind: str, measured: np.ndarray) -> dict[Place, Figures]:
    """Return the figures of a hard disk: IOPS by zone, mix and size; KiB per second by size, mix and zone."""
    by_zone = measured if kind == "iops" else measured.transpose(2, 1, 0)
    found: dict[Place, Figures] = {}
    for (zone, mix, size), value in np.ndenumerate(by_zone):
        size_bytes = 1024 * _ZONED_SIZES_KIB[kind][size]
        iops = value if kind == "iops" else 1024 * value / size_bytes
        found[zone + 1, _ZONED_MIXES[kind][mix], size_bytes] = _rated(iops, size_bytes) | _timed(None)
    return found


def _rated(iops: float, size_bytes: int) -> Figures:
    return {"iops": float(iops), "mb_per_second": iops * size_bytes / 1e6}


def _timed(times: tuple[float, float, float] | None) -> Figures:
    """Return ART and MRT of the least, the greatest and the mean response time in microseconds."""
    _, greatest, mean = times or (math.nan, math.nan, math.nan)
    return {"average_ms": mean / 1000, "maximum_ms": greatest / 1000}


def claim(path: Path) -> dict[str, list[float]] | None:
    """Return the values of the file's window, their average, and slope and intercept of their fit; None without one.

    They are in IOPS, ms or MB/s.
    """
    test = _test(path)
    if test.find("stdyavg") is None:
        return None
    factor = {"iops": 1.0, "lat": 1 / 1000, "tp": 1024 / 1e6}[str(test.tag)]
    texts = {"values": "stdyvalues", "average": "stdyavg", "fit": "stdyslope"}
    found = {name: np.ravel(json.loads(test.findtext(tag) or "")) for name, tag in texts.items()}
    return {name: [factor * float(value) for value in values] for name, values in found.items()}


def _test(path: Path) -> etree._Element:
    """Return the test of a file; of several tests, that of the run in whose folder its copy is."""
    tests = [element for element in etree.parse(path).getroot() if element.find("roundmat") is not None]
    name = _NAMES.get(path.parents[1].name)
    (test,) = tests if len(tests) == 1 else (element for element in tests if element.tag == name)
    return test
