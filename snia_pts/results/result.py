"""What came of a test: everything a report says, folded from what was asked and what came back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..analysis.disturbances import clock_set, disturbances, idled_otherwise, otherwise
from ..analysis.host_limit import HostShare, host_share, limited_over, limited_words
from ..analysis.window import Window
from ..model.annotations import Annotations
from ..model.description import contradictions
from ..model.dut import Dut
from ..model.health import Health, WriteAmplification, alarms, write_amplification
from ..model.host_ceiling import Ceiling
from ..model.measurement import (
    SHORTEST_RATED_MS,
    MeasuredRound,
    Measurement,
    PrepareOutcome,
    PurgeOutcome,
    SampledRound,
)
from ..model.run_options import RunOptions
from ..model.steps import Phase, Stimulus
from ..model.test_platform import TestPlatform
from ..model.time_series import TimeLine
from ..procedures import Conclusion
from ..spec import (
    CrossStimulusSpec,
    Deviation,
    OperatorSetting,
    ProfileSpec,
    Spec,
    TestClass,
    ThroughputSpec,
    WriteSaturationSpec,
    loop_rule,
    settling_rule,
)
from ..spec.limits import Limit
from ..units import block_size, counted, duration
from .imported import Imported, disputed
from .interruption import Interruption

Ending = Literal["finished", "interrupted", "device failed", "host failed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning:
    """Something a reader must know that is no difference from the standard: what, and in which step."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is fixed before the first step: the specification, the device, the platform, the seed, who asked how.

    ``deviations`` are those known from the start; more may come with the outcomes.  ``settings`` are what the operator
    chose where the standard leaves it to them.  ``ceilings`` are what the host
    alone can do, for the shapes of the test's stimuli; none where it was not calibrated.  ``health`` is what the drive
    told of its life before.  ``about`` is what people say of it.  ``imported`` tells where a run comes from that is
    another tool's; there is no ``seed`` then, and there are no ``options``: what the run was asked for.
    """

    run_id: str
    started: str
    command_line: tuple[str, ...]
    seed: int | None
    test_class: TestClass
    spec: Spec
    dut: Dut
    platform: TestPlatform
    deviations: tuple[Deviation, ...]
    settings: tuple[OperatorSetting, ...] = ()
    warnings: tuple[RunWarning, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    health: Health | None = None
    options: RunOptions | None = None
    limits: tuple[Limit, ...] = ()
    about: Annotations = field(default_factory=Annotations)
    imported: Imported | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The rounds of a part of the test, and their last complete window: the Measurement Window when it is steady.

    ``too_short`` are the measurements of passes that ended too soon for a rate, and were repeated with more passes.
    """

    part: str
    rounds: tuple[MeasuredRound, ...]
    window: Window | None
    too_short: tuple[Measurement, ...] = ()

    @property
    def measurements(self) -> Iterator[Measurement]:
        """Iterate over all measurements, those too short included; not in order of time."""
        yield from self.too_short
        for measured in self.rounds:
            yield from measured.measurements

    @property
    def complete(self) -> tuple[MeasuredRound, ...]:
        """The rounds that were measured to their end."""
        return tuple(measured for measured in self.rounds if measured.complete)

    @property
    def window_rounds(self) -> tuple[MeasuredRound, ...]:
        """The rounds of the window; empty while there is none."""
        numbers = self.window.numbers if self.window else ()
        return tuple(measured for measured in self.rounds if measured.number in numbers)

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The samples of a continuous stimulus that stand for rounds, and their last window."""

    phase: Phase
    rounds: tuple[SampledRound, ...]
    window: Window | None

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The device was left alone between two stimuli: ``asked_seconds`` where that was the test's wish.

    ``own_us`` is the suite's own share of ``idle_ms``.
    """

    part: str
    asked_seconds: float | None
    idle_ms: float
    own_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One run of one test, as far as it came.

    ``long_samples`` are the seconds of samples that took half as long again as asked, or longer.  ``health_after`` is
    what the drive told of its life after; a run that was killed has none.  ``prepared`` is what came of setting the
    host for a profile's points, by their names.  ``evidence`` are the SHA-256 digests of the files in evidence/.
    """

    facts: RunFacts
    purges: tuple[tuple[str, PurgeOutcome], ...]
    loops: tuple[Loop, ...]
    sampling: Sampling | None
    time_lines: tuple[TimeLine, ...]
    gaps: tuple[Gap, ...]
    long_samples: tuple[float, ...]
    conclusion: Conclusion
    ending: Ending
    ending_detail: str
    finished: str
    running: bool = False
    interruptions: tuple[Interruption, ...] = ()
    health_after: Health | None = None
    prepared: tuple[tuple[str, PrepareOutcome], ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    def loop(self, part: str = "") -> Loop | None:
        """Return the loop of a part of the test; None before its first round."""
        return next((loop for loop in self.loops if loop.part == part), None)

    def time_line(self, phase: Phase, part: str = "") -> TimeLine | None:
        """Return what was measured in a phase of a part; None before its first stretch."""
        found = (line for line in self.time_lines if (line.phase, line.part) == (phase, part))
        return next(found, None)

    def lines(self, phase: Phase) -> tuple[TimeLine, ...]:
        """Return a phase's time lines of all parts, in the order they ran."""
        return tuple(line for line in self.time_lines if line.phase == phase)

    @property
    def lines_apart(self) -> tuple[TimeLine, ...]:
        """The time lines but for those of a profile's points, which are loops too."""
        profile = isinstance(self.facts.spec, ProfileSpec)
        return tuple(line for line in self.time_lines if not (profile and line.phase == "stimulus"))

    @property
    def measurements(self) -> Iterator[Measurement]:
        """Every measurement of the run."""
        for line in self.lines_apart:
            yield from line.measurements
        for loop in self.loops:
            yield from loop.measurements

    def host_share(self, measurement: Measurement) -> HostShare | None:
        """Return the host's share in a measurement; None of a simulated drive."""
        return host_share(measurement, self.facts.dut, self.facts.platform.cpus, self.facts.ceilings)

    def host_limited(self, measurements: Sequence[Measurement]) -> bool | None:
        """Tell whether the host set the number of a point that was measured so often; None where nobody knows."""
        return limited_over([self.host_share(each) for each in measurements])

    def host_limited_points(self, loop: Loop) -> Mapping[Stimulus, bool | None]:
        """Tell it of each point of a loop that counts; of a sequential stream, wherever it began."""
        points: dict[Stimulus, list[Measurement]] = {}
        for each in (each for measured in self.counted(loop) for each in measured.measurements):
            points.setdefault(replace(each.stimulus, start_bytes=0), []).append(each)
        return {point: self.host_limited(measured) for point, measured in points.items()}

    @property
    def write_amplification(self) -> WriteAmplification | None:
        """What the drive wrote on its media for what the host wrote during the run; None where it does not tell."""
        return write_amplification(self.facts.health, self.health_after)

    @property
    def written_bytes(self) -> float:
        """Bytes written since the first purge (TGBW), as far as they were counted; nan where nobody counted them."""
        rounds = (each.write.transferred_bytes for loop in self.loops for each in loop.measurements)
        return self._uncounted + sum(rounds) + sum(line.written_bytes for line in self.lines_apart)

    @property
    def read_bytes(self) -> float:
        """Bytes read since the first purge, as far as they were counted; nan where nobody counted them."""
        rounds = (each.read.transferred_bytes for loop in self.loops for each in loop.measurements)
        return self._uncounted + sum(rounds) + sum(sum(line.read_bytes) for line in self.lines_apart)

    @property
    def _uncounted(self) -> float:
        """Nan where rounds were measured by another tool, which tells no counts."""
        return math.nan if self.facts.imported and self.loops else 0.0

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Every difference from the standard; a run is PTS conformant only with none."""
        profile = isinstance(self.facts.spec, ProfileSpec)  # which asks for no certain purge, but for one
        purges = [each for _, each in self.purges if not profile or each.survivors or not each.samples]
        purged = (deviation for each in purges for deviation in each.deviations)
        interrupted = (interruption.deviation for interruption in self.interruptions)
        return tuple(dict.fromkeys((*self.facts.deviations, *purged, *interrupted)))

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        """What a reader must know besides.

        First of all whose numbers these are; then pauses between stimuli, points that took another time or mix than
        asked.
        """
        points = list(self.measurements)
        idle = [(gap.asked_seconds, gap.idle_ms / 1000) for gap in self.gaps if gap.asked_seconds is not None]
        pauses = (*_pauses(self), *_warned(idled_otherwise(idle)))
        found = (*_purges(self), *_ends(self), *_halts(self.long_samples), *_unrated(self), *pauses)
        found = (*_changes(self), *_warned(clock_set(points)), *found, *_warned(otherwise(points)))
        known = (*self.facts.warnings, *_warned(contradictions(self.facts.dut, self.facts.about)))
        return (*_host(self), *known, *_disputed(self), *found, *_told(self, points))

    @property
    def unsteady(self) -> tuple[str, ...]:
        """The parts of the test that the standard wants steady and that are not; ``test loop`` where there is one."""
        spec = self.facts.spec
        expected = _parts(spec) if loop_rule(spec) else ()
        found = [part or "test loop" for part in expected if not ((loop := self.loop(part)) and loop.steady)]
        if settling_rule(spec) and not isinstance(spec, WriteSaturationSpec):
            found += [] if self.sampling and self.sampling.steady else ["preconditioning"]
        return tuple(found)

    @property
    def steady(self) -> bool:
        """Whether everything that the standard wants steady is; of write saturation, whether that ended it."""
        if isinstance(self.facts.spec, WriteSaturationSpec):
            return self.sampling is not None and self.sampling.steady
        return not self.unsteady

    @property
    def achieved(self) -> bool:
        """Whether the test came to the end that the standard wants, whether or not that is a steady state."""
        return self.ending == "finished" and (self.steady or isinstance(self.facts.spec, WriteSaturationSpec))

    @property
    def altered_rules(self) -> bool:
        """Whether steady state was judged by other numbers than the standard's."""
        return any(deviation.what.startswith(("steady_state.", "settling.")) for deviation in self.facts.deviations)

    @property
    def conformant(self) -> bool:
        """Whether it is a test of the standard, run to its end without a difference."""
        standard = not isinstance(self.facts.spec, ProfileSpec)
        return standard and self.ending == "finished" and not self.deviations

    def counted(self, loop: Loop) -> tuple[MeasuredRound, ...]:
        """Return the rounds of a loop that its numbers come from: the window's; of a profile all that are complete."""
        return loop.complete if isinstance(self.facts.spec, ProfileSpec) else loop.window_rounds

    @property
    def _early(self) -> str:
        """How little a continuous stimulus had written where its window is even; empty where that was enough."""
        judged = self.sampling
        early = judged.window.early if judged and judged.window else ""
        return f", {'preconditioning ' * (judged.phase == 'PC')}{early}" if judged and early else ""

    @property
    def verdict(self) -> str:
        """The verdict in the standard's words."""
        spec = self.facts.spec
        if self.ending != "finished":
            return f"INCOMPLETE ({self.ending})"
        if isinstance(spec, ProfileSpec):
            return "COMPLETE (a workload profile, no test of the standard)"
        if isinstance(spec, CrossStimulusSpec):
            return "COMPLETE (this test asks for no steady state)"
        by = " BY ALTERED RULES" if self.altered_rules else ""
        if isinstance(spec, WriteSaturationSpec) and not self.steady:
            return f"COMPLETE: {saturation_end(self, spec)}, steady state not reached{by}{self._early}"
        if self.steady:
            return f"STEADY STATE{by}{self._early}"
        which = f" ({', '.join(self.unsteady)})" if self.unsteady != ("test loop",) else ""
        return f"STEADY STATE NOT ACHIEVED{by}{which}{self._early}"


def saturation_end(result: TestResult, spec: WriteSaturationSpec) -> str:
    """Tell what ended a write saturation test."""
    if result.conclusion is None:
        return "an end that its file does not tell" if result.facts.imported else "not ended"
    asked, line = spec.saturation.capacities, result.time_line("stimulus")
    written = result.facts.dut.fills(line.written_bytes) if line else 0.0  # of a mix it comes out a little less
    return {
        "steady state": "steady state",
        "written": f"{f'{asked:g}' if written >= asked else f'{written:.4f} of {asked:g}'} x user capacity written",
        "time": f"{duration(spec.saturation.seconds)} over",
    }[result.conclusion.reason]


def _parts(spec: Spec) -> tuple[str, ...]:
    if isinstance(spec, ThroughputSpec):
        return tuple(map(block_size, spec.rounds.block_sizes_bytes))
    return ("",)


#: The standard asks for no pause between stimuli (PTS 2.0.2 chapter 4); a longer one may let a drive recover.
_LONGEST_IDLE_MS = 3000.0


def _host(result: TestResult) -> Iterator[RunWarning]:
    """Name the points whose number the host set, of each loop's window and each continuous stimulus."""
    found = [(f"{loop.part}: " if loop.part else "", result.host_limited_points(loop)) for loop in result.loops]
    of = " of the window"
    if isinstance(result.facts.spec, ProfileSpec):  # each of whose points is a loop
        found, of = [("", {point: limited for _, points in found for point, limited in points.items()})], ""
    for part, points in found:
        if limited := limited_words(points, of):
            yield RunWarning(what="host-limited", detail=f"{part}{limited}")
    for line in result.lines_apart:
        if line.phase != "WIPC" and line.measurements and result.host_limited(line.measurements):
            where = f"{line.phase}, {line.part}" if line.part else line.phase
            detail = f"the host, not the drive, set the numbers of {line.stimulus.label} ({where})"
            yield RunWarning(what="host-limited", detail=detail)


def _told(result: TestResult, points: Sequence[Measurement]) -> Iterator[RunWarning]:
    """What the kernel's counters and the drive's own log tell."""
    return _warned((*disturbances(points), *alarms(result.facts.health, result.health_after)))


def _warned(told: Iterable[tuple[str, str]]) -> Iterator[RunWarning]:
    return (RunWarning(what=what, detail=detail) for what, detail in told)


def _disputed(result: TestResult) -> Iterator[RunWarning]:
    """Tell what an imported file claims of its steady state, by its first loop, and what does not come out here."""
    claim = result.facts.imported.claim if result.facts.imported else None
    if claim is not None and result.loops:
        yield from _warned(("steady state claimed", detail) for detail in disputed(claim, result.loops[0].window))


def _changes(result: TestResult) -> Iterator[RunWarning]:
    for interruption in result.interruptions:
        for change in interruption.changes:
            yield RunWarning(what="resumed otherwise", detail=f"{interruption.resumed}: {change}")


def _purges(result: TestResult) -> Iterator[RunWarning]:
    for part, purged in result.purges:
        for remark in purged.remarks:
            yield RunWarning(what=f"purge of {part}" if part else "purge", detail=remark)


def _ends(result: TestResult) -> Iterator[RunWarning]:
    ended, line = result.conclusion, result.time_line("stimulus")
    counted_here = ended is not None and ended.reason == "written" and not result.facts.imported
    if counted_here and line is not None and line.stimulus.thread_count > 1:
        detail = (
            "what may be written is shared out evenly among the threads; where some were done before others, the last "
            f"sample held fewer outstanding I/Os than {line.stimulus.demand.label}"
        )
        yield RunWarning(what="end of the stimulus", detail=detail)


def _halts(long_samples: Sequence[float]) -> Iterator[RunWarning]:
    if long_samples:
        detail = (
            f"{counted(len(long_samples), 'sample')} took longer than asked, {max(long_samples):.3g} s at the longest: "
            "the host stood still, or was too busy to look; such a sample stands for no round"
        )
        yield RunWarning(what="long samples", detail=detail)


def _unrated(result: TestResult) -> Iterator[RunWarning]:
    """Warn of points that were too short for a rate."""
    lines = (each for line in result.lines_apart if line.phase != "WIPC" for each in line.measurements)
    rounds = (each for loop in result.loops for measured in loop.rounds for each in measured.measurements)
    points = [*lines, *rounds]
    short = [each for each in points if each.ios and math.isnan(each.iops)]
    if short:
        detail = (
            f"{len(short)} of {counted(len(points), 'point')} lasted less than {SHORTEST_RATED_MS} ms, too short for "
            "the engine's clock of 1 ms: no IOPS and no throughput are given (n/a): "
            f"{short[0].stimulus.label} ({short[0].evidence})"
        )
        yield RunWarning(what="too short for a rate", detail=detail + (" is the first" if len(short) > 1 else ""))


def _pauses(result: TestResult) -> Iterator[RunWarning]:
    gaps = () if isinstance(result.facts.spec, ProfileSpec) else result.gaps  # no profile asks for points without a gap
    long = [gap.idle_ms for gap in gaps if gap.asked_seconds is None and gap.idle_ms > _LONGEST_IDLE_MS]
    if long:
        longest = f"{max(long) / 1000:.3g} s at the longest"
        detail = f"{counted(len(long), 'time')} the drive was left idle between points, for {longest}"
        yield RunWarning(what="pause", detail=detail)
