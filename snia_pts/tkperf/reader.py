"""Makes a run of ours of each test in a file of TKperf: its facts, its steps, and what came of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .. import __version__
from ..errors import RecordError, SpecError
from ..model.measurement import NO_TRANSFERS, Measurement, Outcome, Sample, Timing
from ..model.reported import ReportedFigures
from ..model.steps import ContinuousStimulus, Round, Step, Stimulus
from ..model.test_platform import TestPlatform
from ..procedures import Point
from ..results.imported import Claim, Imported
from ..results.result import RunFacts
from ..spec.reader import Specification, read_specification
from ..units import KIB, MB, block_size
from .device import Command, command, device
from .document import MIXES, ZONED_MIXES, ZONED_SIZES, File, Kind, Test, Times
from .faults import MAX_MINUTES, deviations, tool_of, warnings
from .zones import PROFILES, tkperf_zone, zone_points, zoned_profile

#: Our test of each of TKperf's.
VERBS: dict[Kind, str] = {"iops": "iops", "lat": "latency", "tp": "throughput", "writesat": "wsat"}
#: Seconds of a point before there was an option for it.
_SECONDS = 60
#: What turns a value that TKperf judged into one of the variable that is tracked here.
_FACTORS: dict[Kind, float] = {"iops": 1.0, "lat": 1e-3, "tp": KIB / MB}
_UNTIMED = Timing(started="", started_monotonic_ns=0, ended_monotonic_ns=0, suite_gap_us=None, idle_gap_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One test of a file as a run: ``course`` are its steps, each with what came of it."""

    test: str
    facts: RunFacts
    course: tuple[tuple[Step, tuple[Outcome, ...]], ...]


def runs(file: File, imported: Imported, command_line: tuple[str, ...], name: str) -> tuple[Run, ...]:
    """Return a run for each test of ``file``; ``imported`` tells where it comes from, ``name`` what messages call it.

    Raises RecordError for what no specification can hold.
    """
    return tuple(_Reading(file, test, imported, name).run(command_line) for test in file.tests)


class _Reading:
    """Reads one test."""

    def __init__(self, file: File, test: Test, imported: Imported, name: str) -> None:
        self._file, self._test, self._imported, self._name = file, test, imported, name
        self._asked = command(file.command_line)
        self._jobs, self._depth = _demand(file, self._asked)
        self._seconds = test.seconds or _SECONDS  # whole, as TKperf has them
        every = {size for each in file.tests if each.kind != "writesat" and not each.zones for size in each.sizes}
        self._dut = device(file, tuple(every))
        if test.zones and self._dut.capacity_bytes < test.zones * (self._stimulated()[0] << 20):  # no disk is so small
            self._dut = replace(self._dut, capacity_bytes=0)

    def run(self, command_line: tuple[str, ...]) -> Run:
        found, (tool, version) = self._specification(), tool_of(self._file)
        imported = replace(
            self._imported,
            tool=tool,
            version=version,
            name=self._file.name,
            date=self._file.date,
            command_line=self._file.command_line,
            description=self._file.description,
            features=self._file.features,
            options=self._test.options,
            claim=self._claim(),
        )
        facts = RunFacts(
            run_id="",
            started=self._file.date[:10],
            command_line=command_line,
            seed=None,
            test_class=found.test_class,
            spec=found.spec,
            dut=self._dut,
            platform=self._platform(tool),
            deviations=(*found.deviations, *deviations(self._file, self._test, self._dut, self._asked, self._jobs)),
            warnings=tuple(warnings(self._file, self._test, self._dut, self._seconds)),
            imported=imported,
        )
        course = {"writesat": self._saturation, "tp": self._streams}.get(self._test.kind, self._rounds)
        course = self._zones if self._test.zones else course
        name = PROFILES[self._test.kind] if self._test.zones else VERBS[self._test.kind]
        return Run(test=name, facts=facts, course=tuple(course()))

    # -- facts --------------------------------------------------------------------------------------------------------

    def _specification(self) -> Specification:
        """Return the standard's test as TKperf ran it: it follows 1.1 of the enterprise class."""
        test, (jobs, depth) = self._test, self._stimulated()
        loaded: list[tuple[str, Any]] = [("setup.thread_count", jobs), ("setup.queue_depth", depth)]
        if test.kind == "lat":  # one outstanding I/O, whatever its file says
            loaded = []
        if test.kind == "writesat":
            loaded += [("settling.minimum_fills", 0.0)]  # its file does not tell what was written
            loaded += [("settling.sample_seconds", self._seconds), ("saturation.seconds", MAX_MINUTES * self._seconds)]
        else:
            loaded += [("rounds.point_seconds", self._seconds), ("rounds.maximum", max(25, len(self._rates())))]
        if test.kind == "tp":
            loaded.append(("rounds.block_sizes_kib", [_kib(size) for size in test.sizes]))
        if test.kind == "lat" and self._jobs and self._depth:
            loaded += [("preconditioning.thread_count", self._jobs), ("preconditioning.queue_depth", self._depth)]
        try:
            if test.zones:
                return zoned_profile(PROFILES[test.kind], jobs, depth, self._seconds, test.zones)
            return read_specification(VERBS[test.kind], "1.1", "enterprise", overrides=loaded)
        except ValueError as error:
            mistakes = error.mistakes if isinstance(error, SpecError) else error
            reason = f"{test.kind}: its numbers are none of a test: {mistakes}"
            raise RecordError(path=self._name, reason=reason, hint="") from None

    def _stimulated(self) -> tuple[int, int]:
        """Return Thread Count and Queue Depth of the test."""
        if self._test.kind == "lat":
            return 1, 1
        jobs, depth = self._test.jobs or self._jobs, self._test.depth or self._depth
        if jobs is None or depth is None:
            reason = f"{self._test.kind}: it does not tell how many jobs, and how many I/Os each, there were"
            raise RecordError(
                path=self._name, reason=reason, hint="Nobody can tell what such a number is the number of."
            )
        return jobs, depth

    def _rates(self) -> tuple[Any, ...]:
        return self._test.rates or self._test.times

    def _platform(self, tool: str) -> TestPlatform:
        told = self._file.distribution.removeprefix("Description:").strip()
        version = self._test.fio.removeprefix("fio").lstrip("- ")
        return TestPlatform(
            hostname="",
            motherboard="",
            cpu="",
            cpus=0,
            memory_bytes=0,
            operating_system=told,
            kernel=self._file.kernel,
            python="",
            suite_version=__version__,
            engine="fio",
            engine_version=version,
            io_engine="libaio" if tool == "TKperf" else "",
        )

    def _claim(self) -> Claim | None:
        steady = self._test.steady
        if steady is None:
            return None
        factor = _FACTORS[self._test.kind]
        return Claim(
            steady=steady.reached,
            rounds=tuple(each + 1 for each in steady.rounds),
            values=tuple(factor * each for each in steady.values),
            average=factor * steady.average,
            slope=factor * steady.slope[0],
            intercept=factor * steady.slope[1],
        )

    # -- course -------------------------------------------------------------------------------------------------------

    def _stimulus(self, access: Any, read_percent: int, size_bytes: int) -> Stimulus:
        jobs, depth = self._stimulated()
        return Stimulus(
            access=access,
            read_percent=read_percent,
            block_size_bytes=size_bytes,
            thread_count=jobs,
            queue_depth=depth,
            range_offset_bytes=0,
            range_bytes=self._dut.capacity_bytes,
            seconds=float(self._seconds),
        )

    def _rounds(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Give rounds of R/W mixes and block sizes, in the order in which TKperf ran them."""
        places = itertools.product(MIXES[self._test.kind], self._test.sizes)
        stimuli = tuple(self._stimulus("RND", *place) for place in places)
        for number, found in enumerate(self._rates(), start=1):
            cells = itertools.chain.from_iterable(found)
            tell = _timed if self._test.kind == "lat" else _counted
            outcomes = tuple(_measured(each, tell(cell)) for each, cell in zip(stimuli, cells, strict=True))
            yield Round(number=number, stimuli=stimuli), outcomes

    def _streams(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Give the rounds of each block size, one size after the other."""
        for place, size in enumerate(self._test.sizes):
            stimuli = tuple(self._stimulus("SEQ", share, size) for share in MIXES["tp"])
            for number, found in enumerate(self._test.rates, start=1):
                told = (ReportedFigures(kib_per_second=found[mix][place]) for mix in (0, 1))
                outcomes = tuple(map(_measured, stimuli, told))
                yield Round(part=block_size(size), number=number, stimuli=stimuli), outcomes

    def _zones(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Give a round for each point of a hard disk's profile, in the order of the profile."""
        for point in zone_points(self._specification().spec, self._dut):
            rate = _cell(self._test, point)
            told = ReportedFigures(iops=rate) if self._test.kind == "iops" else ReportedFigures(kib_per_second=rate)
            stimulus = tkperf_zone(point, self._dut, self._test.zones)
            yield Round(part=point.name, number=1, stimuli=(stimulus,)), (_measured(stimulus, told),)

    def _saturation(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Give a stretch for each sample, for which fio was started anew."""
        stimulus = self._stimulus("RND", 0, 4 * KIB)
        seconds = float(self._seconds)
        step = ContinuousStimulus(phase="stimulus", stimulus=stimulus, sample_seconds=seconds)
        for ((iops,),), ((times,),) in zip(self._test.rates, self._test.times, strict=True):
            ios = round(iops * self._seconds)
            sample = Sample(
                number=1,
                ended_seconds=seconds,
                seconds=seconds,
                read_ios=0,
                write_ios=ios,
                read_bytes=0,
                write_bytes=ios * 4 * KIB,
                average_response_us=times[2],
                maximum_response_us=times[1],
                three_nines_us=None,
                four_nines_us=None,
                five_nines_us=None,
            )
            yield step, (sample, _measured(stimulus, replace(_timed(times), iops=iops)))


def _demand(file: File, asked: Command) -> tuple[int | None, int | None]:
    """Return how many jobs a run was asked for, and how many I/Os each; of old files not every test tells."""
    for test in file.tests:
        if test.kind != "lat" and test.jobs and test.depth:
            return test.jobs, test.depth
    return asked.jobs, asked.depth


def _cell(test: Test, point: Point) -> float:
    """Return what was measured at a point of a hard disk's profile."""
    mix = ZONED_MIXES[test.kind].index(point.stimulus.read_percent)
    return test.rates[point.zone - 1][mix][ZONED_SIZES[test.kind].index(point.stimulus.largest_block_bytes)]


def _kib(size_bytes: int) -> float:
    return size_bytes // KIB if size_bytes >= KIB else size_bytes / KIB


def _counted(iops: float) -> ReportedFigures:
    return ReportedFigures(iops=iops)


def _timed(times: Times) -> ReportedFigures:
    least, most, mean = times
    return ReportedFigures(response_us=(None if math.isnan(least) else least, most, mean))


def _measured(stimulus: Stimulus, told: ReportedFigures) -> Measurement:
    return Measurement(
        stimulus=stimulus,
        seed=0,
        read=NO_TRANSFERS,
        write=NO_TRANSFERS,
        timing=_UNTIMED,
        evidence="",
        evidence_sha256="",
        reported=told,
    )
