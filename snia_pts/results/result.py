"""The result of a test: everything a report shows, built from the steps and their outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeGuard

from typing_extensions import TypeVar

from ..analysis.host_limit import HostShare, host_share, majority_verdict
from ..analysis.window import Window
from ..model.annotations import Annotations
from ..model.dut import Dut
from ..model.health import Health, WriteAmplification, write_amplification
from ..model.host_ceiling import Ceiling
from ..model.measurement import MeasuredRound, Measurement, PrepareOutcome, PurgeOutcome, SampledRound
from ..model.plugin import Plugin
from ..model.run_options import RunOptions
from ..model.steps import Phase, Stimulus
from ..model.test_platform import TestPlatform
from ..model.time_series import TimeLine
from ..procedures import Conclusion
from ..spec import (
    CrossStimulusSpec,
    Deviation,
    OperatorSetting,
    Spec,
    TestClass,
    ThroughputSpec,
    WriteSaturationSpec,
    loop_rule,
    settling_rule,
)
from ..spec.limits import Limit
from ..units import block_size, duration, rounded_down
from .imported import Imported
from .interruption import Interruption

#: The specification of a test: a page that needs that of its test takes ``TestResult[IopsSpec]``.
S = TypeVar("S", bound=Spec, covariant=True, default=Spec)
Ending = Literal["finished", "interrupted", "device failed", "host failed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning:
    """A fact that a reader must know but that is not a deviation from the standard: what, and in which step."""

    what: str
    detail: str

    @property
    def title(self) -> str:
        """The name of the kind ``what`` in reports and on the terminal."""
        return "long I/Os" if self.what == "stall" else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts(Generic[S]):
    """The facts that are fixed before the first step: specification, device, platform, seed and command line.

    ``deviations`` are those known at the start; outcomes may add more.  ``settings`` are the operator's choices where
    the standard leaves a choice.  ``ceilings`` are the host's ceilings for the shapes of the test's stimuli; empty
    without calibration.  ``health`` is the drive's health log before the test.  ``about`` holds the operator's
    annotations. ``imported`` is the origin of a run of another tool; such a run has no ``seed`` and no ``options``, the
    options of the run.  ``plugins`` are those that the operator named.
    """

    run_id: str
    started: str
    command_line: tuple[str, ...]
    seed: int | None
    test_class: TestClass
    spec: S
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
    plugins: tuple[Plugin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The rounds of a part of the test, and their last complete window: the Measurement Window if it is steady.

    ``too_short`` are the measurements of passes that were too short for a rate and were repeated with more passes.
    """

    part: str
    rounds: tuple[MeasuredRound, ...]
    window: Window | None
    too_short: tuple[Measurement, ...] = ()

    @property
    def measurements(self) -> Iterator[Measurement]:
        """Iterate over all measurements, including those that were too short; not in order of time."""
        yield from self.too_short
        for measured in self.rounds:
            yield from measured.measurements

    @property
    def complete(self) -> tuple[MeasuredRound, ...]:
        """The rounds that were measured completely."""
        return tuple(measured for measured in self.rounds if measured.complete)

    @property
    def window_rounds(self) -> tuple[MeasuredRound, ...]:
        """The rounds of the window; empty without a window."""
        numbers = self.window.numbers if self.window else ()
        return tuple(measured for measured in self.rounds if measured.number in numbers)

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady

    @property
    def written_bytes(self) -> float:
        """Bytes that the rounds wrote up to the end of the window; 0 without one, nan without counts."""
        last = self.window.numbers[-1] if self.window else 0
        points = [point for measured in self.rounds if measured.number <= last for point in measured.measurements]
        if any(point.reported is not None for point in points):
            return math.nan
        return sum(point.write.transferred_bytes for point in points)

    @property
    def fills(self) -> float | None:
        """How often the rounds wrote the ActiveRange up to the end of the window; None without one, or if unknown."""
        if self.window is None or math.isnan(self.written_bytes):
            return None
        return self.window_rounds[0].measurements[0].stimulus.fills(self.written_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The samples of a continuous stimulus that count as rounds, and their last window."""

    phase: Phase
    rounds: tuple[SampledRound, ...]
    window: Window | None

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An idle time of the device between two stimuli.

    ``requested_seconds`` is the idle time that the test requested, or None.  ``suite_us`` is the suite's share of
    ``idle_ms``.  ``disturbed`` is true if another program did I/O on the device in that time.
    """

    part: str
    requested_seconds: float | None
    idle_ms: float
    suite_us: float
    disturbed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult(Generic[S]):
    """The result of one run of one test, as far as it got.

    ``long_samples`` are the samples that took at least 1.5 times the requested time: their time line's label, and their
    duration in seconds.  ``unwritten_reads`` are the labels of stimuli that read addresses which no step had written.
    ``health_after`` is the drive's health log after the test; None if the run was killed.  ``prepared`` are the
    outcomes of preparing the host for points, by point name.  ``evidence`` are the SHA-256 digests of the
    files in evidence/, ``journal_sha256`` is that of the journal; empty if the result is not from a journal.
    ``end_warnings`` are those that were recorded whenever the run stopped or ended.  ``limits_source`` is the file of
    limits that replace those of the run; empty if none do.
    """

    facts: RunFacts[S]
    purges: tuple[tuple[str, PurgeOutcome], ...]
    loops: tuple[Loop, ...]
    sampling: Sampling | None
    time_lines: tuple[TimeLine, ...]
    gaps: tuple[Gap, ...]
    long_samples: tuple[tuple[str, float], ...]
    unwritten_reads: tuple[str, ...]
    conclusion: Conclusion
    ending: Ending
    ending_detail: str
    finished: str
    running: bool = False
    interruptions: tuple[Interruption, ...] = ()
    health_after: Health | None = None
    end_warnings: tuple[RunWarning, ...] = ()
    prepared: tuple[tuple[str, PrepareOutcome], ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)
    journal_sha256: str = ""
    limits_source: str = ""

    def loop(self, part: str = "") -> Loop | None:
        """Return the loop of a part of the test; None before its first round."""
        return next((loop for loop in self.loops if loop.part == part), None)

    def time_line(self, phase: Phase, part: str = "") -> TimeLine | None:
        """Return the time line of a phase of a part; None before its first stimulus."""
        return next((line for line in self.time_lines if (line.phase, line.part) == (phase, part)), None)

    def lines(self, phase: Phase) -> tuple[TimeLine, ...]:
        """Return a phase's time lines of all parts, in the order they ran."""
        return tuple(line for line in self.time_lines if line.phase == phase)

    @property
    def separate_lines(self) -> tuple[TimeLine, ...]:
        """The time lines except those of sampled points, which are repeats in a loop, too."""
        repeats = self.facts.spec.rounds_are_repeats
        return tuple(line for line in self.time_lines if not (repeats and line.phase == "stimulus"))

    @property
    def measurements(self) -> Iterator[Measurement]:
        """Iterate over all measurements of the run."""
        for line in self.separate_lines:
            yield from line.measurements
        for loop in self.loops:
            yield from loop.measurements

    def host_share(self, measurement: Measurement) -> HostShare | None:
        """Return the host's share in a measurement; None for a simulated drive."""
        return host_share(measurement, self.facts.dut, self.facts.platform.cpus, self.facts.ceilings)

    def host_limited(self, measurements: Sequence[Measurement]) -> bool | None:
        """Return whether the host limited a point, from all its measurements; None if undetermined."""
        return majority_verdict([self.host_share(measurement) for measurement in measurements])

    def points(self, loop: Loop) -> Mapping[Stimulus, Sequence[Measurement]]:
        """Return the measurements of each point of a loop's evaluated rounds.

        A sequential stream is one point, wherever it started; so are repeats with a different number of passes.
        """
        points: dict[Stimulus, list[Measurement]] = {}
        for measured in self.evaluated_rounds(loop):
            for measurement in measured.measurements:
                point = replace(measurement.stimulus, start_bytes=0, passes=measurement.stimulus.passes and 1)
                points.setdefault(point, []).append(measurement)
        return points

    def host_limited_points(self, loop: Loop) -> Mapping[Stimulus, bool | None]:
        """Return whether the host limited each point of a loop's evaluated rounds; the keys are those of ``points``."""
        return {point: self.host_limited(measured) for point, measured in self.points(loop).items()}

    @property
    def write_amplification(self) -> WriteAmplification | None:
        """The write amplification during the run; None if the drive does not report it."""
        return write_amplification(self.facts.health, self.health_after)

    @property
    def written_bytes(self) -> float:
        """Bytes that the whole run wrote since its first purge, as far as counted; nan without counts."""
        rounds = (point.write.transferred_bytes for loop in self.loops for point in loop.measurements)
        return self._uncounted + sum(rounds) + sum(line.written_bytes for line in self.separate_lines)

    @property
    def read_bytes(self) -> float:
        """Bytes read since the first purge, as far as counted; nan without counts."""
        rounds = (point.read.transferred_bytes for loop in self.loops for point in loop.measurements)
        return self._uncounted + sum(rounds) + sum(sum(line.read_bytes) for line in self.separate_lines)

    @property
    def _uncounted(self) -> float:
        """Nan if another tool measured rounds and its file has no counts of a measurement; else 0."""
        measurements = (point for loop in self.loops for point in loop.measurements) if self.facts.imported else ()
        return math.nan if any(point.reported is not None for point in measurements) else 0.0

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """All differences from the standard; a run with any is not PTS conformant."""
        any_method = self.facts.spec.any_purge_method
        purges = [purge for _, purge in self.purges if not any_method or purge.survivors or not purge.samples]
        purged = (deviation for purge in purges for deviation in purge.deviations)
        interrupted = (interruption.deviation for interruption in self.interruptions)
        return tuple(dict.fromkeys((*self.facts.deviations, *purged, *interrupted)))

    @property
    def unsteady(self) -> tuple[str, ...]:
        """The parts that the standard requires to be steady but are not; ``test loop`` for the only loop."""
        spec = self.facts.spec
        expected = _parts(spec) if loop_rule(spec) else ()
        unsteady = [part or "test loop" for part in expected if not ((loop := self.loop(part)) and loop.steady)]
        if settling_rule(spec) and not isinstance(spec, WriteSaturationSpec):
            unsteady += [] if self.sampling and self.sampling.steady else ["preconditioning"]
        return tuple(unsteady)

    @property
    def steady(self) -> bool | None:
        """Whether the test finished with all that it requires to be steady; None if it requires no steady state."""
        spec = self.facts.spec
        if not loop_rule(spec) and not settling_rule(spec):
            return None
        return self.ending == "finished" and self.steady_so_far

    @property
    def steady_so_far(self) -> bool:
        """Whether all required parts are steady, also of a run that did not finish.

        For write saturation, whether steady state ended it.  True for a test that requires no steady state.
        """
        if isinstance(self.facts.spec, WriteSaturationSpec):
            return self.sampling is not None and self.sampling.steady
        return not self.unsteady

    @property
    def achieved(self) -> bool:
        """Whether the test reached the end that the standard requires, steady state or not."""
        return self.ending == "finished" and (self.steady_so_far or isinstance(self.facts.spec, WriteSaturationSpec))

    @property
    def altered_rules(self) -> bool:
        """Whether steady state was judged with other numbers than the standard's."""
        return any(deviation.what.startswith(("steady_state.", "settling.")) for deviation in self.facts.deviations)

    @property
    def conformant(self) -> bool:
        """Whether it is a test of the standard that finished without a deviation."""
        return self.facts.spec.is_standard and self.ending == "finished" and not self.deviations

    def evaluated_rounds(self, loop: Loop) -> tuple[MeasuredRound, ...]:
        """Return the rounds of a loop that count: the window's; all complete ones if rounds are repeats."""
        return loop.complete if self.facts.spec.rounds_are_repeats else loop.window_rounds

    @property
    def _early(self) -> str:
        """The amount that a continuous stimulus had written if its window was too early; else empty."""
        sampling = self.sampling
        early = sampling.window.early_note if sampling and sampling.window else ""
        return f", {'preconditioning ' * (sampling.phase == 'PC')}{early}" if sampling and early else ""

    @property
    def verdict(self) -> str:
        """The verdict in the standard's words."""
        spec = self.facts.spec
        if self.ending != "finished":
            return f"INCOMPLETE ({self.ending})"
        if not spec.is_standard:
            return f"COMPLETE ({spec.subtitle})"
        if isinstance(spec, CrossStimulusSpec):
            return "COMPLETE (this test does not require steady state)"
        rules = " BY ALTERED RULES" if self.altered_rules else ""
        if has_spec(self, WriteSaturationSpec) and not self.steady_so_far:
            return f"COMPLETE: {saturation_end(self)}, steady state NOT ACHIEVED{rules}{self._early}"
        if self.steady_so_far:
            return f"STEADY STATE{rules}{self._early}"
        parts = f" ({', '.join(self.unsteady)})" if self.unsteady != ("test loop",) else ""
        return f"STEADY STATE NOT ACHIEVED{rules}{parts}{self._early}"


def has_spec(result: TestResult, kind: type[S]) -> TypeGuard[TestResult[S]]:
    """Return whether the specification of a result is of a kind."""
    return isinstance(result.facts.spec, kind)


def saturation_end(result: TestResult[WriteSaturationSpec]) -> str:
    """Return a description of what ended a write saturation test."""
    if result.conclusion is None:
        return "end not stated in its file" if result.facts.imported else "not ended"
    spec = result.facts.spec
    requested, line = spec.saturation.capacities, result.time_line("stimulus")
    written = result.facts.dut.fills(line.written_bytes) if line else 0.0  # A mix writes slightly less.
    amount = f"{requested:g}" if written >= requested else f"{rounded_down(written, 4)} of {requested:g}"
    return {
        "steady state": "steady state",
        "written": f"{amount} x user capacity written",
        "time": f"{duration(spec.saturation.seconds)} elapsed",
    }[result.conclusion.reason]


def _parts(spec: Spec) -> tuple[str, ...]:
    if isinstance(spec, ThroughputSpec):
        return tuple(map(block_size, spec.rounds.block_sizes_bytes))
    return ("",)
