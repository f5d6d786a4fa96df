"""Export results as a file that TKperf's own loader reads and plots, and list what the format cannot store."""

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
from ..profiles.spec import ProfileSpec
from ..results.result import Loop, TestResult
from ..spec import IopsSpec, LatencySpec, RoundsSpec, SteadyStateRule, ThroughputSpec, WriteSaturationSpec
from ..units import KIB, MB, block_size
from .device import SIMULATED
from .document import KINDS, MAX_ZONES, MIXES, SIZES, ZONED_MIXES, ZONED_SIZES, Kind
from .zones import PROFILES, zone_keys, zone_points

#: The R/W mix and block size on which TKperf judges steady state.
_JUDGED: dict[Kind, tuple[int, int]] = {"iops": (0, 4 * KIB), "lat": (0, 4 * KIB), "tp": (0, 1024 * KIB)}
_SATURATING = (0, 4 * KIB)
_HINT = "A file of TKperf holds IOPS, throughput, latency and write saturation (docs/tkperf.rst)."
#: What the elements that a file has once state.
_HEADINGS = {
    "testdate": "date",
    "devinfo": "description of the device",
    "featmatrix": "features",
    "kernel": "kernel",
    "lsb": "distribution",
    "ioperfversion": "version of the tool",
    "cmdline": "command line",
}
#: TKperf requires a line about the device.
_NO_DEVICE = "\n"


class _NotStorable(Exception):
    """The format cannot store a test or a part of it."""


def export_document(results: Sequence[TestResult], name: str) -> tuple[bytes, str, tuple[str, ...]]:
    """Return the file of all ``results``, its name in TKperf, and a sentence for everything that it cannot store.

    Raises NotExportable if it can store none of the results; the message calls them ``name``.
    """
    omissions, elements = list[str](), dict[Kind, etree._Element]()
    for result in results:
        try:
            kind, element = _Exporter(result, omissions).element()
            if kind in elements:
                raise _NotStorable("the file already contains a test of this kind")
            elements[kind] = element
        except _NotStorable as reason:
            omissions.append(f"{result.facts.spec.title}: {reason}")
    if not elements:
        raise NotExportable(path=name, reason="; ".join(omissions), hint=_HINT)
    _require_one_device(results, name)
    facts = results[0].facts
    imported = facts.imported
    root = etree.Element(file_stem(imported.name if imported else facts.dut.model or facts.dut.name))
    for tag, text in _header(results[0]).items():
        if text or tag == "devinfo":
            _put(root, tag, text or _NO_DEVICE)
    omissions += _header_differences(results)
    root.extend(elements[kind] for kind in KINDS if kind in elements)
    if imported is None:
        omissions.append("purge, preconditioning, deviations, warnings, counts of I/Os, percentiles and evidence")
    return etree.tostring(root), str(root.tag), tuple(dict.fromkeys(omissions))


def file_stem(name: str) -> str:
    """Return a name as the name of an element and of its file, as TKperf has them."""
    stem = re.sub("[^A-Za-z0-9._-]+", "-", name)
    return stem if re.match("[A-Za-z_]", stem) else f"_{stem}"


def _require_one_device(results: Sequence[TestResult], name: str) -> None:
    """Raise NotExportable for runs of several devices: a file is that of one."""
    devices = {
        (dut.model, dut.serial, dut.name, dut.capacity_bytes) for dut in (result.facts.dut for result in results)
    }
    if len(devices) > 1:
        hint = "Export the runs of each device separately."
        raise NotExportable(path=name, reason=f"its runs are of {len(devices)} devices", hint=hint)


def _header_differences(results: Sequence[TestResult]) -> Iterator[str]:
    """Yield what the file states once, and what a later test states otherwise."""
    first, *others = results
    for other in others:
        expected, actual = _header(first), _header(other)
        if different := [_HEADINGS[tag] for tag in expected if expected[tag] != actual[tag]]:
            yield f"{other.facts.spec.title}: {', '.join(different)}, other than of {first.facts.spec.title}"


def _header(result: TestResult) -> dict[str, str]:
    """Return device, host and tool in TKperf's order; its loader always requires a device."""
    facts, imported, platform = result.facts, result.facts.imported, result.facts.platform
    distribution = f"Description:\t{platform.operating_system}\n" if platform.operating_system else ""
    version = f"snia-pts {platform.suite_version}"
    if imported is not None:
        version = imported.version if imported.tool == "TKperf" else imported.label
    return {
        "testdate": imported.date if imported else facts.started[:10],
        "devinfo": imported.description if imported else _description(facts.dut),
        "featmatrix": imported.features if imported else "",
        "kernel": f"{platform.kernel}\n" if platform.kernel else "",
        "lsb": distribution,
        "ioperfversion": version,
        "cmdline": imported.command_line if imported else shlex.join(facts.command_line),
    }


def _description(dut: Dut) -> str:
    """Describe a device in the lines that TKperf copies from other programs."""
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


class _Exporter:
    """Exporter of one test; appends a sentence for everything it omits to ``omissions``."""

    def __init__(self, result: TestResult, omissions: list[str]) -> None:
        self._result, self._facts, self._omissions = result, result.facts, omissions

    def element(self) -> tuple[Kind, etree._Element]:
        """Return the element of the test; raises _NotStorable."""
        spec = self._facts.spec
        match spec:
            case IopsSpec():
                return "iops", self._looped("iops", spec, self._matrix("iops", _iops))
            case LatencySpec():
                if self._facts.imported is None:
                    self._omit("response times of mixed points are the true ones; TKperf weights them by the mix")
                return "lat", self._looped("lat", spec, self._matrix("lat", _times))
            case ThroughputSpec():
                return "tp", self._looped("tp", spec, self._streams())
            case WriteSaturationSpec():
                return "writesat", self._saturated(spec)
            case ProfileSpec():
                return self._zoned(spec)
        raise _NotStorable("TKperf has no such test")

    def _omit(self, omission: str) -> None:
        self._omissions.append(f"{self._facts.spec.title}: {omission}")

    def _test_element(self, kind: Kind, jobs: int, depth: int, seconds: float) -> etree._Element:
        root, platform, imported = etree.Element(kind), self._facts.platform, self._facts.imported
        _put(root, "fioversion", f"fio-{platform.engine_version}\n" if platform.engine_version else "n.a.")
        _put(root, "numjobs", jobs)
        _put(root, "iodepth", depth)
        if seconds != round(seconds):
            self._omit(f"duration of a point, {seconds:g} s: TKperf stores whole seconds")
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

    def _looped(self, kind: Kind, spec: RoundsSpec, rounds: tuple[Loop, list[Any]]) -> etree._Element:
        (loop, matrix), rule, setup = rounds, spec.steady_state, spec.setup
        if any(stimulus.demand != loop.rounds[0].measurements[0].stimulus.demand for stimulus in _stimuli(loop)):
            raise _NotStorable("its points have different demands")
        root = self._test_element(kind, setup.thread_count, setup.queue_depth, spec.rounds.point_seconds)
        _put(root, "roundmat", matrix)
        if len(rule.tracked) > 1:
            self._omit("TKperf stores one tracked variable; the verdict on the window applies to all of them")
        self._steady(root, kind, loop, rule)
        return root

    def _loop(self, part: str = "") -> Loop:
        """Return a loop that TKperf can plot; raises _NotStorable."""
        loop = self._result.loop(part)
        if loop is None or loop.window is None:
            raise _NotStorable(f"{f'{part}: ' if part else ''}TKperf cannot plot a test of fewer than five rounds")
        if len(loop.complete) < len(loop.rounds):
            self._omit(f"{part + ': ' if part else ''}incomplete rounds")
        return loop

    def _matrix(self, kind: Kind, cell: Callable[[Measurement], Any]) -> tuple[Loop, list[Any]]:
        """Return the loop and its values by round, R/W mix and block size, in TKperf's order."""
        loop = self._loop()
        measured = {_key(measurement) for round_ in loop.complete for measurement in round_.measurements}
        sizes = SIZES[kind] if self._facts.dut.logical_sector_bytes != 4 * KIB else SIZES[kind][:-1]
        expected = [(share, size) for share in MIXES[kind] for size in sizes]
        if missing := [key for key in expected if key not in measured]:
            more = f"{_label(missing[0])} and {len(missing) - 1} more"
            raise _NotStorable(f"TKperf's matrix has {more} that were not measured")
        if extra := sorted(measured - set(expected)):
            self._omit(f"{', '.join(map(_label, extra[:4]))}{' and more' * (len(extra) > 4)}: not in TKperf's matrix")
        rounds = [{_key(point): cell(point) for point in round_.measurements} for round_ in loop.complete]
        return loop, [[[cells[share, size] for size in sizes] for share in MIXES[kind]] for cells in rounds]

    def _streams(self) -> tuple[Loop, list[Any]]:
        """Return the first loop, and throughput by block size, read or write, and round.

        A block size that was not measured has NaN.
        """
        first = self._loop(block_size(_JUDGED["tp"][1]))
        sizes = SIZES["tp"] if self._facts.dut.logical_sector_bytes != 4 * KIB else SIZES["tp"][:-1]
        rounds = len(first.complete)
        matrix = []
        for size in sizes:
            loop = self._result.loop(block_size(size))
            columns = [[math.nan] * rounds, [math.nan] * rounds]
            if loop is not None and len(loop.complete) == rounds:
                cells = [{_key(point): _kib(point) for point in round_.measurements} for round_ in loop.complete]
                if {key for keys in cells for key in keys} != {(share, size) for share in MIXES["tp"]}:
                    raise _NotStorable(f"{block_size(size)}: TKperf stores only pure reads and pure writes")
                columns = [[values[share, size] for values in cells] for share in MIXES["tp"]]
            elif loop is not None:
                self._omit(f"{loop.part}: number of rounds differs from that of {first.part}")
            matrix.append(columns)
        if others := [loop.part for loop in self._result.loops if loop.part not in map(block_size, sizes)]:
            self._omit(f"{', '.join(others)}: not among TKperf's block sizes")
        return first, matrix

    def _steady(self, root: etree._Element, kind: Kind, loop: Loop, rule: SteadyStateRule) -> None:
        """Write the window of TKperf's tracked variable and the suite's verdict on it; rounds are counted from 0."""
        numbers = [measured.number for measured in loop.complete]
        indices = [numbers.index(number) for number in (loop.window.numbers if loop.window else ())]
        cell = {"iops": _iops, "lat": _mean, "tp": _kib}[kind]
        values = [cell(_point(loop.complete[index], _JUDGED[kind])) for index in indices]
        state = determine(values, rule, first_round=indices[0])
        _put(root, "stdyrounds", indices)
        _put(root, "stdyvalues", values)
        _put(root, "stdyslope", [state.slope, state.intercept] if state.evaluable else [0.0, 0.0])
        _put(root, "stdyavg", state.average if state.evaluable else 0.0)
        _put(root, "reachstdystate", loop.steady)
        _put(root, "rndnr", len(numbers) - 1)

    # -- hard disks ---------------------------------------------------------------------------------------------------

    def _zoned(self, spec: ProfileSpec) -> tuple[Kind, etree._Element]:
        """Return a zoned profile as one of TKperf's tests of hard disks."""
        points = zone_points(spec, self._facts.dut)
        measurements = {
            (point.stimulus.read_percent, point.stimulus.largest_block_bytes, point.zone): self._last(point.name)
            for point in points
        }
        kinds = [kind for kind in PROFILES if measurements.keys() == set(zone_keys(kind))]
        if not kinds or None in measurements.values():
            raise _NotStorable("TKperf supports only complete hdd-iops and hdd-throughput profiles in 128 zones")
        kind, zones = kinds[0], range(1, MAX_ZONES + 1)
        cells = {key: _cell(kind, measurement) for key, measurement in measurements.items() if measurement is not None}
        mixes, sizes = ZONED_MIXES[kind], ZONED_SIZES[kind]
        if kind == "iops":
            matrix = [[[cells[mix, size, zone] for size in sizes] for mix in mixes] for zone in zones]
        else:
            matrix = [[[cells[mix, size, zone] for zone in zones] for mix in mixes] for size in sizes]
        stimuli = [point.stimulus for point in points]
        if len({(stimulus.demand, stimulus.seconds, stimulus.options) for stimulus in stimuli}) > 1:
            raise _NotStorable("its points have different demands, durations or options of fio")
        jobs, depth, seconds = stimuli[0].thread_count, stimuli[0].queue_depth, stimuli[0].seconds
        if stimuli[0].options:
            self._omit(f"options of fio: {', '.join(f'{key}={value}' for key, value in stimuli[0].options)}")
        root = self._test_element(kind, jobs, depth, seconds or 0)
        _put(root, "roundmat", matrix)
        if kind == "iops":
            _put(root, "rndnr", MAX_ZONES)
        if spec.repeats > 1:
            self._omit("all repeats except the last")
        return kind, root

    def _last(self, part: str) -> Measurement | None:
        """Return the last measurement of a point."""
        loop = self._result.loop(part)
        return loop.complete[-1].measurements[0] if loop is not None and loop.complete else None

    # -- write saturation ---------------------------------------------------------------------------------------------

    def _saturated(self, spec: WriteSaturationSpec) -> etree._Element:
        line = self._result.time_line("stimulus")
        if line is None or not len(line):
            raise _NotStorable("no samples")
        stimulus = line.stimulus
        if stimulus.block_shares or (stimulus.read_percent, stimulus.block_size_bytes) != _SATURATING:
            raise _NotStorable(f"TKperf writes only RND {block_size(_SATURATING[1])}, not {stimulus.label}")
        reported = [measurement for measurement in line.measurements if measurement.reported is not None]
        if len(reported) == len(line):
            iops, times = [_iops(sample) for sample in reported], [_times(sample) for sample in reported]
        else:
            iops = [_whole_or_float(rate) for rate in line.iops]
            pairs = zip(line.maximum_response_us, line.average_response_us, strict=True)
            times = [[math.nan, maximum, mean] for maximum, mean in pairs]
            self._omit("minimum response time of a sample, which is not recorded")
        setup = spec.setup
        root = self._test_element("writesat", setup.thread_count, setup.queue_depth, spec.settling.sample_seconds)
        _put(root, "roundmat", [iops, times])
        _put(root, "rndnr", len(line) - 1)
        return root


def _stimuli(loop: Loop) -> Iterator[Any]:
    return (measurement.stimulus for round_ in loop.rounds for measurement in round_.measurements)


def _cell(kind: Kind, measurement: Measurement) -> int | float:
    return _iops(measurement) if kind == "iops" else _kib(measurement)


def _key(measurement: Measurement) -> tuple[int, int]:
    """Return the share of reads in percent and the block size in bytes of a measurement; 0 bytes for mixed sizes."""
    size = measurement.stimulus.block_size_bytes
    return measurement.stimulus.read_percent, size if isinstance(size, int) else 0


def _point(measured: MeasuredRound, key: tuple[int, int]) -> Measurement:
    return next(measurement for measurement in measured.measurements if _key(measurement) == key)


def _label(key: tuple[int, int]) -> str:
    return f"{block_size(key[1])} {mix(key[0])}"


def _whole_or_float(value: float) -> int | float:
    """Return a whole number as int, as TKperf writes IOPS and KiB/s."""
    return int(value) if value == int(value) else value


def _iops(measurement: Measurement) -> int | float:
    return _whole_or_float(measurement.iops)


def _kib(measurement: Measurement) -> int | float:
    reported = measurement.reported.kib_per_second if measurement.reported else None
    return _whole_or_float(measurement.mb_per_second * MB / KIB if reported is None else reported)


def _mean(measurement: Measurement) -> float:
    return measurement.average_response_us


def _times(measurement: Measurement) -> list[float]:
    """Return the minimum, maximum and mean response time in us."""
    if measurement.reported is not None:
        return [math.nan if time is None else time for time in measurement.reported.response_us]
    sides = [side for side in (measurement.read, measurement.write) if side.ios]
    minimum = min((side.response_min_ns / 1000 for side in sides), default=math.nan)
    return [minimum, measurement.maximum_response_us, measurement.average_response_us]
