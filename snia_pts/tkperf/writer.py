"""Writes results as a file that TKperf's own loader reads back and plots, and tells what that cannot hold."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lxml import etree

from ..analysis.steady_state import determine
from ..errors import NotExportable
from ..model.dut import Dut
from ..model.measurement import MeasuredRound, Measurement
from ..model.steps import mix
from ..results.result import Loop, TestResult
from ..spec import IopsSpec, LatencySpec, ProfileSpec, RoundsSpec, SteadyStateRule, ThroughputSpec, WriteSaturationSpec
from ..units import KIB, MB, block_size
from .device import SIMULATED
from .document import KINDS, MAX_ZONES, MIXES, SIZES, ZONED_MIXES, ZONED_SIZES, Kind
from .zones import PROFILES, zone_keys, zone_points

#: What TKperf judges steady state on: R/W mix and block size.
_JUDGED: dict[Kind, tuple[int, int]] = {"iops": (0, 4 * KIB), "lat": (0, 4 * KIB), "tp": (0, 1024 * KIB)}
_SATURATING = (0, 4 * KIB)
#: TKperf wants a line about the device.
_NO_DEVICE = "\n"


class _Lost(Exception):
    """A test, or a part of it, has no place in the file."""


def written(results: Sequence[TestResult], name: str) -> tuple[bytes, str, tuple[str, ...]]:
    """Return the file of all ``results``, what TKperf calls it, and a sentence for all that it cannot hold.

    Raises NotExportable where it can hold none of them; ``name`` is what the message calls them.
    """
    lost, found = list[str](), dict[Kind, etree._Element]()
    for result in results:
        try:
            kind, element = _Writing(result, lost).element()
            if kind in found:
                raise _Lost("the file holds such a test already")
            found[kind] = element
        except _Lost as reason:
            lost.append(f"{result.facts.spec.title}: {reason}")
    if not found:
        raise NotExportable(path=name, reason="; ".join(lost))
    facts = results[0].facts
    imported = facts.imported
    stem = re.sub("[^A-Za-z0-9._-]+", "-", imported.name if imported else facts.dut.model or facts.dut.name)
    root = etree.Element(stem if re.match("[A-Za-z_]", stem) else f"_{stem}")
    _header(root, results[0])
    root.extend(found[kind] for kind in KINDS if kind in found)
    if imported is None:
        lost.append("purge, preconditioning, deviations, warnings, counts of I/Os, percentiles and evidence")
    return etree.tostring(root), str(root.tag), tuple(dict.fromkeys(lost))


def _header(root: etree._Element, result: TestResult) -> None:
    """Write what is known of device, host and tool, as TKperf orders it; its loader wants a device in any case."""
    facts, imported, platform = result.facts, result.facts.imported, result.facts.platform
    distribution = f"Description:\t{platform.operating_system}\n" if platform.operating_system else ""
    version = f"snia-pts {platform.suite_version}"
    if imported is not None:
        version = imported.version if imported.tool == "TKperf" else imported.label
    told = {
        "testdate": imported.date if imported else facts.started[:10],
        "devinfo": imported.description if imported else _described(facts.dut),
        "featmatrix": imported.features if imported else "",
        "kernel": f"{platform.kernel}\n" if platform.kernel else "",
        "lsb": distribution,
        "ioperfversion": version,
        "cmdline": imported.command_line if imported else shlex.join(facts.command_line),
    }
    for tag, text in told.items():
        if text or tag == "devinfo":
            _put(root, tag, text or _NO_DEVICE)


def _described(dut: Dut) -> str:
    """Describe a device in the lines in which TKperf copies them from other programs."""
    lines = {
        "Model Number": dut.model,
        "Serial Number": dut.serial,
        "Firmware Revision": dut.firmware,
        "Device Size (bytes)": dut.capacity_bytes,
        "Device Logical Sector Size": dut.logical_sector_bytes,
        "Device Physical Sector Size": dut.physical_sector_bytes,
    }
    cache = {"enabled": ["write-caching =  1 (on)"], "disabled": ["write-caching =  0 (off)"]}.get(dut.write_cache, [])
    simulated = [SIMULATED] * dut.simulated
    return "\n".join([*simulated, *(f"{name}: {value}" for name, value in lines.items() if value), *cache])


def _put(parent: etree._Element, tag: str, value: Any) -> None:
    etree.SubElement(parent, tag).text = json.dumps(value)


class _Writing:
    """Writes one test; what it leaves out goes to ``lost``."""

    def __init__(self, result: TestResult, lost: list[str]) -> None:
        self._result, self._facts, self._lost = result, result.facts, lost

    def element(self) -> tuple[Kind, etree._Element]:
        """Return the element of the test; raises _Lost."""
        spec = self._facts.spec
        match spec:
            case IopsSpec():
                return "iops", self._looped("iops", spec, self._matrix("iops", _iops))
            case LatencySpec():
                if self._facts.imported is None:
                    self._leave("mixed points have their true response times; TKperf's own weights them by the mix")
                return "lat", self._looped("lat", spec, self._matrix("lat", _times))
            case ThroughputSpec():
                return "tp", self._looped("tp", spec, self._streams())
            case WriteSaturationSpec():
                return "writesat", self._saturated(spec)
            case ProfileSpec():
                return self._zoned(spec)
        raise _Lost("TKperf has no such test")

    def _leave(self, what: str) -> None:
        self._lost.append(f"{self._facts.spec.title}: {what}")

    def _asked(self, kind: Kind, jobs: int, depth: int, seconds: float) -> etree._Element:
        root, platform, imported = etree.Element(kind), self._facts.platform, self._facts.imported
        _put(root, "fioversion", f"fio-{platform.engine_version}\n" if platform.engine_version else "n.a.")
        _put(root, "numjobs", jobs)
        _put(root, "iodepth", depth)
        if seconds != round(seconds):
            self._leave(f"the time of a point, {seconds:g} s: TKperf counts whole seconds")
        _put(root, "runtime", max(1, round(seconds)))
        options = (
            imported.options
            if imported
            else ("refill_buffers",) * bool(self._facts.options and self._facts.options.refill_buffers)
        )
        if options:
            _put(root, "xargs", list(options))
        return root

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _looped(self, kind: Kind, spec: RoundsSpec, found: tuple[Loop, list[Any]]) -> etree._Element:
        (loop, matrix), rule, setup = found, spec.steady_state, spec.setup
        if any(stimulus.demand != loop.rounds[0].measurements[0].stimulus.demand for stimulus in _stimuli(loop)):
            raise _Lost("its points have not the same demand")
        root = self._asked(kind, setup.thread_count, setup.queue_depth, spec.rounds.point_seconds)
        _put(root, "roundmat", matrix)
        if len(rule.tracked) > 1:
            self._leave("TKperf names one tracked variable; whether the window is steady is said of all")
        self._steady(root, kind, loop, rule)
        return root

    def _loop(self, part: str = "") -> Loop:
        """Return a loop that TKperf can plot; raises _Lost."""
        loop = self._result.loop(part)
        if loop is None or loop.window is None:
            raise _Lost(f"{f'{part}: ' if part else ''}TKperf plots no test of fewer than five rounds")
        if len(loop.complete) < len(loop.rounds):
            self._leave(f"{part + ': ' if part else ''}rounds that are not complete")
        return loop

    def _matrix(self, kind: Kind, cell: Callable[[Measurement], Any]) -> tuple[Loop, list[Any]]:
        """Return rounds of R/W mixes of block sizes, as TKperf orders them."""
        loop = self._loop()
        held = {_place(each) for measured in loop.complete for each in measured.measurements}
        sizes = SIZES[kind] if self._facts.dut.logical_sector_bytes != 4 * KIB else SIZES[kind][:-1]
        wanted = [(share, size) for share in MIXES[kind] for size in sizes]
        if missing := [place for place in wanted if place not in held]:
            raise _Lost(f"TKperf's matrix has {_words(missing[0])} and {len(missing) - 1} more that were not measured")
        if extra := sorted(held - set(wanted)):
            self._leave(f"{', '.join(map(_words, extra[:4]))}{' and more' * (len(extra) > 4)}: not in TKperf's matrix")
        rounds = [{_place(each): cell(each) for each in measured.measurements} for measured in loop.complete]
        return loop, [[[each[share, size] for size in sizes] for share in MIXES[kind]] for each in rounds]

    def _streams(self) -> tuple[Loop, list[Any]]:
        """Return block sizes of reads and writes of rounds; NaN where a size was not measured."""
        first = self._loop(block_size(_JUDGED["tp"][1]))
        sizes = SIZES["tp"] if self._facts.dut.logical_sector_bytes != 4 * KIB else SIZES["tp"][:-1]
        rounds = len(first.complete)
        matrix = []
        for size in sizes:
            loop = self._result.loop(block_size(size))
            columns = [[math.nan] * rounds, [math.nan] * rounds]
            if loop is not None and len(loop.complete) == rounds:
                keyed = [{_place(each): _kib(each) for each in measured.measurements} for measured in loop.complete]
                if {place for each in keyed for place in each} != {(share, size) for share in MIXES["tp"]}:
                    raise _Lost(f"{block_size(size)}: TKperf has reads and writes, and no mix of them")
                columns = [[each[share, size] for each in keyed] for share in MIXES["tp"]]
            elif loop is not None:
                self._leave(f"{loop.part}: it has not as many rounds as {first.part}")
            matrix.append(columns)
        if others := [loop.part for loop in self._result.loops if loop.part not in map(block_size, sizes)]:
            self._leave(f"{', '.join(others)}: not among TKperf's block sizes")
        return first, matrix

    def _steady(self, root: etree._Element, kind: Kind, loop: Loop, rule: SteadyStateRule) -> None:
        """Write the window, of TKperf's tracked variable, and our verdict on it; rounds are counted from 0."""
        numbers = [measured.number for measured in loop.complete]
        places = [numbers.index(number) for number in (loop.window.numbers if loop.window else ())]
        cell = {"iops": _iops, "lat": _mean, "tp": _kib}[kind]
        values = [cell(_point(loop.complete[place], _JUDGED[kind])) for place in places]
        found = determine(values, rule, first_round=places[0])
        _put(root, "stdyrounds", places)
        _put(root, "stdyvalues", values)
        _put(root, "stdyslope", [found.slope, found.intercept] if found.evaluable else [0.0, 0.0])
        _put(root, "stdyavg", found.average if found.evaluable else 0.0)
        _put(root, "reachstdystate", loop.steady)
        _put(root, "rndnr", len(numbers) - 1)

    # -- hard disks ---------------------------------------------------------------------------------------------------

    def _zoned(self, spec: ProfileSpec) -> tuple[Kind, etree._Element]:
        """Write a profile that measures zones as one of TKperf's tests of hard disks does."""
        found = {
            (point.stimulus.read_percent, point.stimulus.largest_block_bytes, point.zone): self._last(point.name)
            for point in zone_points(spec, self._facts.dut)
        }
        kinds = [kind for kind in PROFILES if found.keys() == set(zone_keys(kind))]
        if not kinds or None in found.values():
            raise _Lost("TKperf knows profiles of a hard disk in 128 zones alone: hdd-iops and hdd-throughput")
        kind, zones = kinds[0], range(1, MAX_ZONES + 1)
        cells = {place: _cell_of(kind, each) for place, each in found.items() if each is not None}
        mixes, sizes = ZONED_MIXES[kind], ZONED_SIZES[kind]
        if kind == "iops":
            matrix = [[[cells[mix, size, zone] for size in sizes] for mix in mixes] for zone in zones]
        else:
            matrix = [[[cells[mix, size, zone] for zone in zones] for mix in mixes] for size in sizes]
        workload = spec.workload[0]
        root = self._asked(kind, workload.thread_count, workload.queue_depth, workload.seconds or 0)
        _put(root, "roundmat", matrix)
        if kind == "iops":
            _put(root, "rndnr", MAX_ZONES)
        if spec.repeats > 1:
            self._leave("all repeats but the last")
        return kind, root

    def _last(self, part: str) -> Measurement | None:
        """Return what was measured at a point the last time."""
        loop = self._result.loop(part)
        return loop.complete[-1].measurements[0] if loop is not None and loop.complete else None

    # -- write saturation ---------------------------------------------------------------------------------------------

    def _saturated(self, spec: WriteSaturationSpec) -> etree._Element:
        line = self._result.time_line("stimulus")
        if line is None or not len(line):
            raise _Lost("it has no samples")
        stimulus = line.stimulus
        if stimulus.block_shares or (stimulus.read_percent, stimulus.block_size_bytes) != _SATURATING:
            raise _Lost(f"TKperf writes RND {block_size(_SATURATING[1])} alone, not {stimulus.label}")
        told = [each for each in line.measurements if each.reported is not None]
        if len(told) == len(line):
            iops, times = [_iops(each) for each in told], [_times(each) for each in told]
        else:
            iops = [_plain(each) for each in line.iops]
            pairs = zip(line.maximum_response_us, line.average_response_us, strict=True)
            times = [[math.nan, most, mean] for most, mean in pairs]
            self._leave("the least response time of a sample, which is not kept")
        setup = spec.setup
        root = self._asked("writesat", setup.thread_count, setup.queue_depth, spec.settling.sample_seconds)
        _put(root, "roundmat", [iops, times])
        _put(root, "rndnr", len(line) - 1)
        return root


def _stimuli(loop: Loop) -> Iterator[Any]:
    return (each.stimulus for measured in loop.rounds for each in measured.measurements)


def _cell_of(kind: Kind, measurement: Measurement) -> int | float:
    return _iops(measurement) if kind == "iops" else _kib(measurement)


def _place(measurement: Measurement) -> tuple[int, int]:
    """Return where a measurement stands: its share of reads, its block size; 0 bytes for a mix of sizes."""
    size = measurement.stimulus.block_size_bytes
    return measurement.stimulus.read_percent, size if isinstance(size, int) else 0


def _point(measured: MeasuredRound, place: tuple[int, int]) -> Measurement:
    return next(each for each in measured.measurements if _place(each) == place)


def _words(place: tuple[int, int]) -> str:
    return f"{block_size(place[1])} {mix(place[0])}"


def _plain(value: float) -> int | float:
    """Return a whole number as one, as TKperf writes IOPS and KiB/s."""
    return int(value) if value == int(value) else value


def _iops(measurement: Measurement) -> int | float:
    return _plain(measurement.iops)


def _kib(measurement: Measurement) -> int | float:
    told = measurement.reported.kib_per_second if measurement.reported else None
    return _plain(measurement.mb_per_second * MB / KIB if told is None else told)


def _mean(measurement: Measurement) -> float:
    return measurement.average_response_us


def _times(measurement: Measurement) -> list[float]:
    """Return the least, the greatest and the mean response time in us."""
    if measurement.reported is not None:
        return [math.nan if each is None else each for each in measurement.reported.response_us]
    sides = [side for side in (measurement.read, measurement.write) if side.ios]
    least = min((side.response_min_ns / 1000 for side in sides), default=math.nan)
    return [least, measurement.maximum_response_us, measurement.average_response_us]
