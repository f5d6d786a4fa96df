"""The values of a run in progress that a page or a terminal shows, from the entries of its journal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..analysis.window import Window
from ..errors import TargetUnfit
from ..model.dut import AssumedSpeed
from ..model.measurement import METRICS, IdleOutcome, Measurement, Outcome, PurgeOutcome, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Idle, Round, Step, Stimulus, progress_label
from ..procedures.estimator import Assumptions, simulate
from ..record.entries import EndEntry, Entry, ResumeEntry, StartEntry
from ..record.folder import RunFolder, without_start_entry
from ..record.follower import JournalTail
from ..results.result import RunFacts
from ..spec import DemandSpec, HostIdleSpec, MetricName, Spec, SteadyStateRule, Tracked, max_rounds
from ..units import MB
from .events import OutcomeRecorded, RoundEvaluated, StepStarted
from .following import EventReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Determination:
    """The steady state determination of a tracked variable in a window, with all excursions in percent.

    The best fit is ``slope * round + intercept``.  The average, the measured excursions, the slope and the intercept
    are None if the window cannot be evaluated.
    """

    first_round: int
    last_round: int
    steady: bool
    average: float | None
    data_excursion_percent: float | None
    allowed_data_excursion_percent: float
    slope_excursion_percent: float | None
    allowed_slope_excursion_percent: float
    slope: float | None
    intercept: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedVariable:
    """A tracked variable by round.

    ``values[i]`` is the value of round ``rounds[i]``; only complete rounds are listed.  ``series`` is the part of the
    test, such as ``128 KiB``; it is empty if the test has only one loop.  ``determination`` is the steady state
    determination of the last window; None with too few rounds.
    """

    series: str
    variable: str
    metric: MetricName
    unit: str
    rounds: tuple[int, ...]
    values: tuple[float | None, ...]
    determination: Determination | None

    @property
    def title(self) -> str:
        """The name with the part of the test, such as ``128 KiB: SEQ 128 KiB 0/100``."""
        return f"{self.series}: {self.variable}" if self.series else self.variable


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """Values over time, in ``seconds`` since the first step began; None where a value is unknown."""

    name: str
    unit: str
    seconds: tuple[float, ...]
    values: tuple[float | None, ...]

    def thinned(self, maximum: int) -> TimeSeries:
        """Return at most so many values: every n-th one, with the last one."""
        places = slice(None, None, -max(1, math.ceil(len(self.seconds) / maximum)))
        return replace(self, seconds=self.seconds[places][::-1], values=self.values[places][::-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """How far a run is, from its journal.

    ``round_number`` is the round in progress, after the end the last round; None during a step without rounds, and of
    a test without rounds.  ``round_maximum`` is None if the number of rounds is not limited.  ``point`` is the number
    of completed points or samples of the current step, ``points`` their total.  ``least_seconds_left`` and
    ``most_seconds_left`` are the bounds by the plan; None if unknown.  ``progress`` is the completed fraction of the
    longest possible run (steady state never reached), and ``longest_step_seconds`` the duration of its longest step;
    both are None if unknown, and ``longest_step_seconds`` also after the end.  ``iops``, ``celsius`` and ``watts`` are
    the last values that an outcome of the current step or the step before it has; None if no outcome of the two steps
    has a value.
    """

    position: str
    step: str
    point: int
    points: int
    round_number: int | None
    round_maximum: int | None
    least_seconds_left: float | None
    most_seconds_left: float | None
    iops: float | None
    celsius: float | None
    watts: float | None
    written_bytes: int
    variables: tuple[TrackedVariable, ...]
    progress: float | None = None
    longest_step_seconds: float | None = None

    @property
    def latest_variables(self) -> tuple[TrackedVariable, ...]:
        """The tracked variables of the part of the test that was evaluated last; none before its first round."""
        return tuple(one for one in self.variables if one.series == self.variables[-1].series)


@dataclass(slots=True, kw_only=True)
class _Step:
    """A step and the totals of its outcomes so far; ``ended_seconds`` is the test time of its last outcome."""

    step: Step
    began_seconds: float
    ended_seconds: float
    outcome_count: int = 0
    final_outcomes: int = 0
    #: Seconds of the test, IOPS, average response time in ms, temperature, power.
    points: list[tuple[float, float | None, float | None, float | None, float | None]] = field(default_factory=list)
    rounds: list[RoundEvaluated] = field(default_factory=list)
    written_bytes: int = 0
    fill_mb_per_second: float = math.nan

    @property
    def size(self) -> int:
        """The number of points or samples of the step."""
        return self.step.samples if isinstance(self.step, ContinuousStimulus) else len(self.step.stimuli)

    @property
    def complete(self) -> bool:
        """Whether the step has all its outcomes."""
        return self.outcome_count >= max(1, self.size) if isinstance(self.step, Round) else self.final_outcomes > 0

    @property
    def completed_fraction(self) -> float:
        """The completed fraction of the step."""
        if self.complete:
            return 1.0
        if isinstance(self.step, ContinuousStimulus) and self.step.stimulus.seconds:
            return min(1.0, (self.ended_seconds - self.began_seconds) / self.step.stimulus.seconds)
        return min(1.0, self.outcome_count / self.size) if self.size else 0.0

    def add(self, outcome: Outcome) -> None:
        """Add an outcome."""
        self.outcome_count += 1
        match outcome:
            case Sample():
                self.ended_seconds = self.began_seconds + outcome.ended_seconds
                self.written_bytes += outcome.write_bytes
                self._add_point(outcome)
            case Measurement():
                self.final_outcomes += 1
                start = self.began_seconds if isinstance(self.step, ContinuousStimulus) else self.ended_seconds
                self.ended_seconds = start + outcome.runtime_ms / 1000
                if isinstance(self.step, ContinuousStimulus):
                    self.written_bytes = outcome.write.transferred_bytes
                    self.fill_mb_per_second = outcome.mb_per_second if self.step.is_fill else math.nan
                else:
                    self.written_bytes += outcome.write.transferred_bytes
                if not self.points or isinstance(self.step, Round):
                    self._add_point(outcome)
            case PurgeOutcome() | IdleOutcome():
                self.final_outcomes += 1
                self.ended_seconds = self.began_seconds + outcome.seconds
            case _:
                self.final_outcomes += 1

    def _add_point(self, outcome: Sample | Measurement) -> None:
        telemetry = outcome.telemetry
        self.points.append(
            (
                self.ended_seconds,
                _finite(outcome.iops),
                _finite(outcome.average_response_us / 1000),
                telemetry.celsius if telemetry else None,
                telemetry.watts if telemetry else None,
            )
        )


class LiveRun:
    """The live values of a run, read from the journal entries written so far; another process may be performing it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._tail = JournalTail(folder.journal)
        self._facts: RunFacts | None = None
        self._reader: EventReader | None = None
        self._steps: list[_Step] = []
        self._plans: tuple[tuple[Step, ...], tuple[Step, ...]] | None = None
        self.end: EndEntry | None = None

    @property
    def facts(self) -> RunFacts | None:
        """The facts of the run; None before the first entry of its journal was read."""
        return self._facts

    def read(self) -> bool:
        """Read the new entries of the journal; return whether there were any.  Raises RecordError."""
        any_new = False
        for entry in self._tail.new_entries():
            any_new = True
            self._add(entry)
        return any_new

    def _add(self, entry: Entry) -> None:
        if self._reader is None:
            if not isinstance(entry, StartEntry):
                raise without_start_entry(self._folder.journal)
            self._facts = entry.facts
            self._reader = EventReader(self._folder, entry.facts.spec)
            return
        self.end = entry if isinstance(entry, EndEntry) else None
        if self.end is not None:
            return
        if isinstance(entry, ResumeEntry):
            del self._steps[entry.kept_steps :]
        for event in self._reader.events(entry):
            match event:
                case StepStarted():
                    began = self._steps[-1].ended_seconds if self._steps else 0.0
                    self._steps.append(_Step(step=event.step, began_seconds=began, ended_seconds=began))
                case OutcomeRecorded():
                    self._steps[-1].add(event.outcome)
                case RoundEvaluated():
                    self._steps[-1].rounds.append(event)

    @property
    def state(self) -> LiveState | None:
        """How far the run is; None before its first step."""
        if self._facts is None or not self._steps:
            return None
        current = self._steps[-1]
        points = [point for step in self._steps[-2:] for point in step.points]
        least, most = (None, None) if self.end is not None else self._seconds_left(self._facts)
        number, maximum = self._round(self._facts.spec)
        return LiveState(
            position=progress_label(current.step, current.outcome_count),
            step=current.step.label,
            point=min(current.outcome_count, current.size),
            points=current.size,
            round_number=number,
            round_maximum=maximum,
            least_seconds_left=least,
            most_seconds_left=most,
            iops=_last(point[1] for point in points),
            celsius=_last(point[3] for point in points),
            watts=_last(point[4] for point in points),
            written_bytes=sum(step.written_bytes for step in self._steps),
            variables=tuple(self._variables()),
            progress=self._progress(most),
            longest_step_seconds=max(self._longest_seconds, default=None) if self.end is None else None,
        )

    @property
    def _longest_seconds(self) -> list[float]:
        """The duration of each step of the longest possible run, except steps of unknown duration."""
        longest = self._plans[1] if self._plans else ()
        seconds = (_seconds(step, self._fill_speed, shortest=False) for step in longest)
        return [value for value in seconds if math.isfinite(value)]

    @property
    def _fill_speed(self) -> float:
        """The MB/s of the last fill; nan before the first fill."""
        measured = [step.fill_mb_per_second for step in self._steps if step.fill_mb_per_second > 0]
        return measured[-1] if measured else math.nan

    def _progress(self, most_seconds_left: float | None) -> float | None:
        """Return the completed fraction of the longest possible run; 1 for a finished test, None if it is unknown."""
        if self.end is not None and self.end.ending == "finished":
            return 1.0
        total = math.fsum(self._longest_seconds)
        return None if most_seconds_left is None or not total else min(1.0, max(0.0, 1 - most_seconds_left / total))

    @property
    def series(self) -> tuple[TimeSeries, ...]:
        """The values over test time, which counts I/O, idle times and purges, but not the gaps between steps."""
        points = [point for step in self._steps for point in step.points]
        columns = (("IOPS", "IOPS"), ("Average response time", "ms"), ("Temperature", "°C"), ("Power", "W"))
        return tuple(
            TimeSeries(
                name=name,
                unit=unit,
                seconds=tuple(point[0] for point in points),
                values=tuple(point[column] for point in points),
            )
            for column, (name, unit) in enumerate(columns, start=1)
            if any(point[column] is not None for point in points)
        )

    def _round(self, spec: Spec) -> tuple[int | None, int | None]:
        """Return the number of the round in progress, after the end that of the last round, and the maximum."""
        for performed in reversed(self._steps if self.end is not None else self._steps[-1:]):
            step = performed.step
            if isinstance(step, Round):
                return step.number, max_rounds(spec)
            if isinstance(step, ContinuousStimulus) and (evaluated := performed.rounds):
                maximum = spec.conditioning.maximum if isinstance(spec, HostIdleSpec | DemandSpec) else None
                return evaluated[-1].evaluated_round.number, maximum
        return None, None

    def _variables(self) -> Iterator[TrackedVariable]:
        by_series: dict[str, list[RoundEvaluated]] = {}
        for step in self._steps:
            for event in step.rounds:
                by_series.setdefault(_series_name(event), []).append(event)
        for name, events in by_series.items():
            # A repeated round replaces the earlier one with the same number.
            rounds = {event.evaluated_round.number: event for event in events}
            window = events[-1].window
            for tracked in events[-1].rule.tracked:
                yield TrackedVariable(
                    series=name,
                    variable=_label(events[-1], tracked),
                    metric=tracked.metric,
                    unit=METRICS[tracked.metric].unit,
                    rounds=tuple(rounds),
                    values=tuple(_finite(event.evaluated_round.value(tracked)) for event in rounds.values()),
                    determination=_determination(window, tracked, events[-1].rule) if window else None,
                )

    def _seconds_left(self, facts: RunFacts) -> tuple[float | None, float | None]:
        """Return the lower and upper bound of the remaining time.

        They are the times if the drive is steady as early as possible, and if it never is.  Fills are assumed to run at
        the speed of the last fill.  A bound is None if a fill is still to come and none was measured yet.
        """
        if facts.imported is not None:
            return None, None
        if self._plans is None:
            self._plans = _simulated_steps(facts, steady=True), _simulated_steps(facts, steady=False)
        shortest, longest, speed = *self._plans, self._fill_speed
        least = self._remaining_seconds(shortest, speed, shortest=True)
        return least, self._remaining_seconds(longest, speed, shortest=False)

    def _remaining_seconds(self, steps: Sequence[Step], speed: float, *, shortest: bool) -> float | None:
        """Return the remaining time of a sequence of steps.

        None if the time is unknown, or if the current step is not in the sequence.
        """
        current = self._steps[-1]
        repeated = sum(step.step == current.step for step in self._steps)
        positions = [position for position, step in enumerate(steps) if step == current.step][repeated - 1 : repeated]
        if not positions and isinstance(current.step, Round):
            # Beyond the planned rounds: treat this as the last round of its part.
            part = current.step.part
            positions = [
                position for position, step in enumerate(steps) if isinstance(step, Round) and step.part == part
            ][-1:]
        if not positions:
            return None
        seconds = _seconds(current.step, speed, shortest=shortest)
        now = 0.0 if current.complete else seconds * (1 - current.completed_fraction)
        return _finite(now + sum(_seconds(step, speed, shortest=shortest) for step in steps[positions[0] + 1 :]))


def _simulated_steps(facts: RunFacts, *, steady: bool) -> tuple[Step, ...]:
    """Return the steps of the shortest possible run (``steady``), or of the longest."""
    steps: list[Step] = []

    def observe(step: Step, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        steps.append(step)
        return outcomes

    assumptions = Assumptions(speed=AssumedSpeed.constant(1), overhead_seconds=0.0)
    try:
        simulate(facts.spec, facts.dut, assumptions, observe, steady=steady)
    except TargetUnfit:  # a journal of another version
        return ()
    return tuple(steps)


def _seconds(step: Step, speed: float, *, shortest: bool) -> float:
    """Return the duration of a step in seconds; nan if it is unknown.

    A stimulus that is limited by an amount is assumed to run at ``speed`` MB/s.  Purges, and the preparation of the
    host, count as 0.
    """
    if isinstance(step, Idle):
        return step.seconds
    return sum((_stimulus_seconds(stimulus, speed, shortest=shortest) for stimulus in step.stimuli), start=0.0)


def _stimulus_seconds(stimulus: Stimulus, speed: float, *, shortest: bool) -> float:
    if stimulus.seconds is None:
        return math.nan if stimulus.amount_bytes is None else stimulus.amount_bytes / MB / speed
    seconds = stimulus.seconds
    if shortest and stimulus.limit_bytes is not None and speed > 0:
        seconds = min(seconds, stimulus.limit_bytes / MB / speed)
    return seconds + stimulus.ramp_seconds


def _series_name(event: RoundEvaluated) -> str:
    """Return the name of the series that a round belongs to: its part, plus the phase of a continuous stimulus."""
    step = event.step
    return f"{step.part} {step.phase}".strip() if isinstance(step, ContinuousStimulus) else step.part


def _label(event: RoundEvaluated, tracked: Tracked) -> str:
    """Return a tracked variable's name, such as ``RND 4 KiB 0/100``.

    Thread Count and Queue Depth follow if the tracked variable specifies them.
    """
    measured = event.evaluated_round
    stimulus = event.step.stimuli[0] if isinstance(measured, SampledRound) else measured.point(tracked).stimulus
    return f"{stimulus.label} {stimulus.demand.label}" if tracked.thread_count else stimulus.label


def _determination(window: Window, tracked: Tracked, rule: SteadyStateRule) -> Determination:
    state = dict(window.determinations)[tracked]
    return Determination(
        first_round=window.numbers[0],
        last_round=window.numbers[-1],
        steady=state.steady and window.has_minimum_fills,
        average=_finite(state.average),
        data_excursion_percent=_finite(state.data_excursion_percent),
        allowed_data_excursion_percent=rule.data_excursion_percent,
        slope_excursion_percent=_finite(state.slope_excursion_percent),
        allowed_slope_excursion_percent=rule.slope_excursion_percent,
        slope=_finite(state.slope),
        intercept=_finite(state.intercept),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _last(values: Iterator[float | None]) -> float | None:
    return next((value for value in reversed(list(values)) if value is not None), None)
