"""Small files in TKperf's format, of every kind and version: the same arguments give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

SIZES = {"iops": 8, "lat": 3, "tp": 5}
MIXES = {"iops": 7, "lat": 3}
HDPARM = (
    "\tModel Number:       INTEL SSDSA2CW300G3\n\tSerial Number:      CVPR000000000300\n"
    "\tFirmware Revision:  4PC10362\n\tdevice size with M = 1000*1000:      300069 MBytes (300 GB)\n"
    "\twrite-caching =  1 (on)\n"
)
NVME = (
    "sn        : S4EWNX0R300000\nmn        : Samsung SSD 970 EVO Plus 1TB\nfr        : 2B2QEXM7\n"
    "tnvmcap   : 1000204886016\nDevice Interface: nvme\n"
)


def value(*places: int) -> int:
    """Return a rate that differs everywhere, and is steady over the rounds (the first index)."""
    number, *rest = places
    weight = 1
    for item in rest:
        weight = 3 * weight + item
    return 1000 * weight + number % 3


def _times(*places: int) -> list[float]:
    rate = value(*places)
    return [3.0, 40.0 + rate / 7, 10 + rate / 1000 / 3]


def matrix(kind: str, rounds: int, *, sector: int = 512) -> Any:
    """Return the measurements of an SSD test, in TKperf's structure."""
    sizes = SIZES.get(kind, 1) - (sector == 4096)
    if kind == "writesat":
        return [[value(number) for number in range(rounds)], [_times(number) for number in range(rounds)]]
    if kind == "tp":
        return [[[value(n, size, side) for n in range(rounds)] for side in (0, 1)] for size in range(sizes)]
    cell = _times if kind == "lat" else value
    return [[[cell(n, mix, size) for size in range(sizes)] for mix in range(MIXES[kind])] for n in range(rounds)]


def claimed(kind: str, found: Any, rounds: int, *, reached: bool = True) -> dict[str, Any]:
    """Return TKperf's statement on the steady state of a matrix, as it calculates it."""
    last = list(range(rounds - 5, rounds))
    if kind == "tp":
        values = [float(found[0][1][place]) for place in last]
    else:
        judged = [found[place][-1][-2] for place in last]
        values = [item[2] for item in judged] if kind == "lat" else judged
    middle, average = sum(last) / 5, sum(values) / 5
    slope = sum((x - middle) * y for x, y in zip(last, values, strict=True)) / sum((x - middle) ** 2 for x in last)
    return {
        "stdyrounds": last,
        "stdyvalues": values,
        "stdyslope": [slope, average - slope * middle],
        "stdyavg": average,
        "reachstdystate": reached,
        "rndnr": rounds - 1,
    }


def ssd(
    *kinds: str,
    version: str = "2.2",
    name: str = "intel320",
    sector: int = 512,
    rounds: int = 6,
    jobs: int = 2,
    seconds: int = 60,
    description: str = HDPARM,
    command: str | None = None,
    changes: Sequence[tuple[str, Any]] = (),
) -> bytes:
    """Return a file of SSD tests, by default of all kinds; an empty version is that of the first releases.

    ``changes`` replace the content of elements: ``("iops/stdyavg", 1.0)``; None removes one.
    """
    old = version < "2"
    elements: dict[str, Any] = {"testdate": "2013-02-01", "devinfo": description} if version else {}
    if not old:
        elements["devinfo"] += f"Device Logical Sector Size: {sector}\nDevice Physical Sector Size: 4096"
    if version:
        typed = f"tkperf ssd {name} /dev/sde -nj {jobs} -iod 16 -rfb" if command is None else command
        elements |= {"kernel": "3.2.0-4-amd64\n", "lsb": "Description:\tDebian GNU/Linux 7.0 (wheezy)\n"}
        elements |= {"ioperfversion": version, "cmdline": typed}
    tests = {
        kind: _test(kind, old, sector, rounds, jobs, seconds) for kind in kinds or ("iops", "lat", "tp", "writesat")
    }
    for place, content in changes:
        test, _, tag = place.rpartition("/")
        (tests[test] if test else elements)[tag] = content
    return document(name, elements, tests)


def _test(kind: str, old: bool, sector: int, rounds: int, jobs: int, seconds: int) -> dict[str, Any]:
    """Return one test: a file of 1.x has no time per point, write saturation no demand, and latency a wrong one."""
    found = matrix(kind, rounds, sector=sector)
    elements: dict[str, Any] = {"fioversion": "fio 2.0.7\n" if old else "fio-3.33\n"}
    if not (old and kind == "writesat"):
        alone = kind == "lat" and not old
        elements |= {"numjobs": 1 if alone else jobs, "iodepth": 1 if alone else 16}
    if not old:
        elements |= {"runtime": seconds, "xargs": ["refill_buffers"]}
    elements["roundmat"] = found
    return elements | ({"rndnr": rounds - 1} if kind == "writesat" else claimed(kind, found, rounds))


def hdd(kind: str = "iops", zones: int = 128) -> bytes:
    """Return a file of a hard disk's test, of 128 zones like TKperf's."""
    places = range(zones)
    found: Any = [[[100 + zone + mix + 7 * size for size in range(3)] for mix in range(3)] for zone in places]
    if kind == "tp":
        found = [[[200_000 - zone - 900 * mix - 5000 * size for zone in places] for mix in (0, 1)] for size in (0, 1)]
    elements = {"devinfo": "", "ioperfversion": "2.2", "cmdline": f"tkperf hdd wd /dev/sdc -hddt {kind}"}
    return document(
        "wd", elements, {kind: {"fioversion": "fio-2.0.9\n", "numjobs": 1, "iodepth": 16, "roundmat": found}}
    )


def hdd_of_both(zones: int = 128) -> bytes:
    """Return a file of a hard disk with both of its tests, as TKperf writes it for consecutive tests."""
    first, second = hdd("iops", zones), hdd("tp", zones)
    return first.replace(b"</wd>", second[second.index(b"<tp>") :])


def every() -> dict[str, bytes]:
    """Return files of every kind and version, by name."""
    versions = {
        f"ssd-{version or 'first'}": ssd(version=version) for version in ("", "1.1", "1.3", "2.0", "2.1", "2.2")
    }
    return {
        **versions,
        "sectors-4096": ssd(sector=4096),
        "nvme": ssd(description=NVME, jobs=1, seconds=30),
        "slide": slide(),
        "hdd-iops": hdd("iops", 16),
        "hdd-tp": hdd("tp", 16),
        "hdd-both": hdd_of_both(16),
    }


def document(name: str, elements: dict[str, Any], tests: dict[str, dict[str, Any]]) -> bytes:
    """Write elements whose texts are JSON."""

    def inside(content: dict[str, Any]) -> str:
        return "".join(f"<{tag}>{escaped(item)}</{tag}>" for tag, item in content.items() if item is not None)

    whole = inside(elements) + "".join(f"<{kind}>{inside(test)}</{kind}>" for kind, test in tests.items())
    return f"<{name}>{whole}</{name}>".encode()


def escaped(content: Any) -> str:
    """Return a value as JSON in XML."""
    return json.dumps(content).replace("&", "&amp;").replace("<", "&lt;")


#: The file shown on the slides of the TK Roadshow 2012, completed with the rounds that they omit: a first release, of
#: fio 2.0.7, without version, device, date and command line.
def slide() -> bytes:
    """Return the IOPS file of the slides: twelve rounds, the last five of which it calls steady."""
    first = [
        [126, 1087, 2157, 4235, 8052, 12196, 19534, 34917],
        [131, 976, 1916, 3717, 7101, 10179, 15669, 28266],
        [88, 600, 1153, 2230, 3870, 7975, 8766, 17704],
        [74, 544, 1013, 2137, 4117, 6277, 7410, 10754],
        [26, 261, 531, 999, 2524, 2999, 5101, 10291],
        [41, 415, 436, 865, 1390, 2626, 4758, 10799],
        [70, 635, 560, 666, 2185, 3231, 4625, 14559],
    ]
    values = [13705, 14639, 14747, 14678, 13927]
    rounds = [first] * 7 + [[*first[:-1], [*first[-1][:-2], item, 17903]] for item in values]
    elements = {
        "fioversion": "fio 2.0.7\n",
        "numjobs": 2,
        "iodepth": 16,
        "roundmat": rounds,
        "stdyrounds": [7, 8, 9, 10, 11],
        "stdyvalues": values,
        "stdyslope": [48.3000000000001042, 13904.4999999999989],
        "stdyavg": 14339.2,
        "reachstdystate": True,
        "rndnr": 11,
    }
    return document("intel320", {}, {"iops": elements})
