"""Convert every test in a TKperf file to a run: its facts, its steps and their outcomes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .. import __version__
from ..errors import RecordError, SpecError
from ..importer.runs import UNTIMED, ImportedRun
from ..model.measurement import NO_TRANSFERS, Measurement, Outcome, Sample
from ..model.reported import ReportedFigures
from ..model.steps import ContinuousStimulus, Round, Step, Stimulus
from ..model.test_platform import UNKNOWN_PLATFORM, TestPlatform
from ..profiles.procedure import Point
from ..results.imported import Claim, Imported
from ..results.result import RunFacts
from ..spec.reader import Specification, read_specification
from ..units import KIB, MB, block_size
from .device import Command, command, device
from .document import MIXES, ZONED_MIXES, ZONED_SIZES, File, Kind, Test, Times
from .faults import MAX_MINUTES, deviations, tool_and_version, warnings
from .zones import PROFILES, VERBS, tkperf_zone, zone_points, zoned_profile

#: Duration of a point in versions without an option for it.
_SECONDS = 60
#: Factors from the values that TKperf judges to the suite's tracked variables.
_FACTORS: dict[Kind, float] = {"iops": 1.0, "lat": 1e-3, "tp": KIB / MB}


def runs(file: File, imported: Imported, command_line: tuple[str, ...], name: str) -> tuple[ImportedRun, ...]:
    """Return a run for every test of ``file``; ``imported`` is the file's origin, and messages call it ``name``.

    Raises RecordError if a value is invalid in a specification.
    """
    return tuple(_Converter(file, test, imported, name).run(command_line) for test in file.tests)


class _Converter:
    """Converter of one test to a run."""

    def __init__(self, file: File, test: Test, imported: Imported, name: str) -> None:
        self._file, self._test, self._imported, self._name = file, test, imported, name
        self._command = command(file.command_line)
        self._jobs, self._depth = _demand(file, self._command)
        self._seconds = test.seconds or _SECONDS  # whole seconds, as in TKperf
        matrices = (other.sizes for other in file.tests if other.kind != "writesat" and not other.zones)
        self._dut = device(file, tuple({size for sizes in matrices for size in sizes}))
        # No disk is this small, so the stated capacity is wrong.
        if test.zones and self._dut.capacity_bytes < test.zones * (self._threads_and_depth()[0] << 20):
            self._dut = replace(self._dut, capacity_bytes=0)

    def run(self, command_line: tuple[str, ...]) -> ImportedRun:
        specification, (tool, version) = self._specification(), tool_and_version(self._file)
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
            stops_at_limit=tool == "TKperf",
            claim=self._claim(),
        )
        facts = RunFacts(
            run_id="",
            started=self._file.date[:10],
            command_line=command_line,
            seed=None,
            test_class=specification.test_class,
            spec=specification.spec,
            dut=self._dut,
            platform=self._platform(tool),
            deviations=(
                *specification.deviations,
                *deviations(self._file, self._test, self._dut, self._command, self._jobs),
            ),
            warnings=tuple(warnings(self._file, self._test, self._dut, self._seconds)),
            imported=imported,
        )
        steps = {"writesat": self._saturation, "tp": self._streams}.get(self._test.kind, self._rounds)
        steps = self._zones if self._test.zones else steps
        name = PROFILES[self._test.kind] if self._test.zones else VERBS[self._test.kind]
        return ImportedRun(test=name, facts=facts, steps=tuple(steps()))

    # -- facts --------------------------------------------------------------------------------------------------------

    def _specification(self) -> Specification:
        """Return the standard's test as TKperf ran it; TKperf follows PTS-E 1.1."""
        test, (jobs, depth) = self._test, self._threads_and_depth()
        overrides: list[tuple[str, Any]] = [("setup.thread_count", jobs), ("setup.queue_depth", depth)]
        if test.kind == "lat":  # TKperf uses one outstanding I/O, even if its file states more
            overrides = []
        if test.kind == "writesat":
            overrides += [("settling.minimum_fills", 0.0)]  # the file does not state the amount written
            overrides += [
                ("settling.sample_seconds", self._seconds),
                ("saturation.seconds", MAX_MINUTES * self._seconds),
            ]
        else:
            overrides += [("rounds.point_seconds", self._seconds), ("rounds.maximum", max(25, len(self._rates())))]
        if test.kind == "tp":
            overrides.append(("rounds.block_sizes_kib", [_kib(size) for size in test.sizes]))
        if test.kind == "lat" and self._jobs and self._depth:
            overrides += [("preconditioning.thread_count", self._jobs), ("preconditioning.queue_depth", self._depth)]
        try:
            if test.zones:
                return zoned_profile(PROFILES[test.kind], jobs, depth, self._seconds, test.zones)
            return read_specification(VERBS[test.kind], "1.1", "enterprise", overrides=overrides)
        except ValueError as error:
            mistakes = error.mistakes if isinstance(error, SpecError) else error
            reason = f"{test.kind}: invalid numbers of a test: {mistakes}"
            raise RecordError(path=self._name, reason=reason, hint="") from None

    def _threads_and_depth(self) -> tuple[int, int]:
        """Return Thread Count and Queue Depth of the test."""
        if self._test.kind == "lat":
            return 1, 1
        jobs, depth = self._test.jobs or self._jobs, self._test.depth or self._depth
        if jobs is None or depth is None:
            reason = f"{self._test.kind}: missing number of jobs or of outstanding I/Os per job"
            raise RecordError(
                path=self._name,
                reason=reason,
                hint="Without the demand, the results have no meaning; import another file.",
            )
        return jobs, depth

    def _rates(self) -> tuple[Any, ...]:
        return self._test.rates or self._test.times

    def _platform(self, tool: str) -> TestPlatform:
        distribution = self._file.distribution.removeprefix("Description:").strip()
        version = self._test.fio.removeprefix("fio").lstrip("- ")
        return replace(
            UNKNOWN_PLATFORM,
            operating_system=distribution,
            kernel=self._file.kernel,
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
            rounds=tuple(index + 1 for index in steady.rounds),
            values=tuple(factor * value for value in steady.values),
            average=factor * steady.average,
            slope=factor * steady.slope[0],
            intercept=factor * steady.slope[1],
        )

    # -- steps --------------------------------------------------------------------------------------------------------

    def _stimulus(self, access: Any, read_percent: int, size_bytes: int) -> Stimulus:
        jobs, depth = self._threads_and_depth()
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
        """Yield rounds of R/W mixes and block sizes, in the order in which TKperf ran them."""
        keys = itertools.product(MIXES[self._test.kind], self._test.sizes)
        stimuli = tuple(self._stimulus("RND", *key) for key in keys)
        for number, matrix in enumerate(self._rates(), start=1):
            cells = itertools.chain.from_iterable(matrix)
            figures = _response_times if self._test.kind == "lat" else _iops
            outcomes = tuple(
                _measurement(stimulus, figures(cell)) for stimulus, cell in zip(stimuli, cells, strict=True)
            )
            yield Round(number=number, stimuli=stimuli), outcomes

    def _streams(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Yield the rounds of every block size, one size after the other."""
        for column, size in enumerate(self._test.sizes):
            stimuli = tuple(self._stimulus("SEQ", share, size) for share in MIXES["tp"])
            for number, matrix in enumerate(self._test.rates, start=1):
                figures = (ReportedFigures(kib_per_second=matrix[mix][column]) for mix in (0, 1))
                outcomes = tuple(map(_measurement, stimuli, figures))
                yield Round(part=block_size(size), number=number, stimuli=stimuli), outcomes

    def _zones(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Yield a round for every point of a hard disk's profile, in the order of the profile."""
        for point in zone_points(self._specification().spec, self._dut):
            rate = _cell(self._test, point)
            figures = ReportedFigures(iops=rate) if self._test.kind == "iops" else ReportedFigures(kib_per_second=rate)
            stimulus = tkperf_zone(point, self._dut, self._test.zones)
            yield Round(part=point.name, number=1, stimuli=(stimulus,)), (_measurement(stimulus, figures),)

    def _saturation(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Yield a continuous stimulus for every sample, because TKperf restarted fio for every sample."""
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
            yield step, (sample, _measurement(stimulus, replace(_response_times(times), iops=iops)))


def _demand(file: File, tkperf: Command) -> tuple[int | None, int | None]:
    """Return the requested jobs and I/Os per job of a run; in old files, only some tests state them."""
    for test in file.tests:
        if test.kind != "lat" and test.jobs and test.depth:
            return test.jobs, test.depth
    return tkperf.jobs, tkperf.depth


def _cell(test: Test, point: Point) -> float:
    """Return the rate at a point of a hard disk's profile."""
    mix = ZONED_MIXES[test.kind].index(point.stimulus.read_percent)
    return test.rates[point.zone - 1][mix][ZONED_SIZES[test.kind].index(point.stimulus.largest_block_bytes)]


def _kib(size_bytes: int) -> float:
    return size_bytes // KIB if size_bytes >= KIB else size_bytes / KIB


def _iops(iops: float) -> ReportedFigures:
    return ReportedFigures(iops=iops)


def _response_times(times: Times) -> ReportedFigures:
    minimum, maximum, mean = times
    return ReportedFigures(response_us=(None if math.isnan(minimum) else minimum, maximum, mean))


def _measurement(stimulus: Stimulus, figures: ReportedFigures) -> Measurement:
    return Measurement(
        stimulus=stimulus,
        seed=0,
        read=NO_TRANSFERS,
        write=NO_TRANSFERS,
        timing=UNTIMED,
        evidence="",
        evidence_sha256="",
        reported=figures,
    )
