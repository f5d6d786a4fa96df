"""Progress: one rewritten line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, TextIO

from ...model.measurement import Measurement, Outcome, PurgeOutcome, Sample
from ...model.steps import ContinuousStimulus, Idle, Purge, Round, Step
from ...procedures.estimator import Estimate, Plan
from ...runner.events import Event, OutcomeRecorded, RoundEvaluated, RunResumed, StepStarted
from ...spec import DemandSpec, HostIdleSpec, Spec, loop_rule, max_rounds
from ...units import capacity, duration, number
from .formatting import excursions, format_tracked_value
from .lines import print_lines
from .plan import exclusions, or_more_suffix

_HEARTBEAT_SECONDS = 300.0
#: Maximum number of points with a line each; of more, as in the zones of a hard disk, only the current one is shown.
_MAX_LISTED_POINTS = 100


class _Course:
    """The place of a run in one of its estimated courses."""

    def __init__(self, estimate: Estimate) -> None:
        self.estimate = estimate
        self._position = -1

    def start(self, step: Step) -> None:
        """Go to the next planned step like ``step``; one that the course does not have counts as the step before it."""
        sought = (step.kind, step.part, step.label)
        for position in range(self._position + 1, len(self.estimate.steps)):
            planned = self.estimate.steps[position]
            if (planned.kind, planned.part, planned.label) == sought:
                self._position = position
                return

    def seconds_left(self, step_seconds: float) -> float:
        """Return the remaining time if the current step began ``step_seconds`` ago."""
        current, *following = (step.seconds for step in self.estimate.steps[max(0, self._position) :])
        return max(0.0, current - step_seconds) + sum(following)


class _State(NamedTuple):
    """The parts of the progress line: the current step and point, the last result, the time left, the excursions."""

    position: str
    last: str = ""
    left: str = ""
    steadiness: str = ""

    def __str__(self) -> str:
        return "".join(self)

    def in_width(self, width: int, *, end_shown: bool) -> str:
        """Return the parts in ``width`` letters, without those that do not fit.

        The time left stays whole and the position is shortened, unless the line shows the end of the test.
        """
        shown = [(self.position, self.last, self.left), (self.position, self.left)]
        shown += [(self.position, self.last), (self.position,)] if end_shown else []
        for parts in shown:
            if len(text := "".join(parts)) <= width:
                return text + _shortened(self.steadiness, width - len(text))
        if end_shown:
            return _shortened(self.position, width)
        return f"{_shortened(self.position, width - len(self.left))}{self.left}"[:width]


class Progress:
    """Shows the progress of a run.  ``mode`` is line (terminal), log (pipe, file, dumb terminal) or none."""

    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        mode: str,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
        resumed: bool = False,
        simulated: bool = False,
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._mode = mode
        self._stream = stream
        self._clock, self._now = clock, now
        self._courses = _Course(plan.shortest), _Course(plan.longest)
        #: How many steps have each label in the shortest course; some labels have hundreds.
        self._step_counts = Counter(step.label for step in plan.shortest.steps)
        self._started_counts: Counter[str] = Counter()
        self._step: Step = Purge()
        self._started_steps = self._outcome_count = 0
        self._latest: Outcome | None = None
        self._points = 0
        self._replayed_points = self._rounds_before = 0
        self._steadiness = ""
        self._lists_points = spec.rounds_are_repeats and len(plan.shortest.steps) <= _MAX_LISTED_POINTS
        self._resumed, self._requested_mode = resumed, mode
        self._simulated = simulated
        self._started = self._loop_started = self._step_started = self._last_output = clock()

    def begin(self) -> None:
        """Show the planned duration."""
        if self._resumed:
            self._mode = "none"
            return
        durations = dict.fromkeys(duration(estimate.seconds) for estimate in (self._plan.shortest, self._plan.longest))
        unit = f"{or_more_suffix(self._plan.longest)}{' of virtual time' if self._simulated else ''}"
        planned = f"{' to '.join(durations)}{unit}{exclusions(self._plan)}"
        self._line(f"planned: {planned}, at {self._plan.assumptions.speed.span}")

    def on_event(self, event: Event) -> None:
        """Update the progress with an event."""
        match event:
            case StepStarted():
                self._start_step(event.step)
            case OutcomeRecorded():
                self._show_outcome(event.step, event.outcome)
            case RoundEvaluated():
                self._show_round(event)
            case RunResumed():
                self._continue()

    def tick(self, seconds: float, written_bytes: int) -> None:
        """Redraw while a program runs; it has run for ``seconds`` and written ``written_bytes``."""
        stimulus = self._step.stimuli[0] if isinstance(self._step, ContinuousStimulus) else None
        if stimulus is None or stimulus.amount_bytes is None:
            self._draw(self._state)
            return
        amount = stimulus.amount_bytes
        share = min(written_bytes / amount, 1.0)
        left = f"; {_time_left(seconds / share - seconds)}" if share > 0.01 else ""
        done = f": {capacity(written_bytes)} of {capacity(amount)} ({100 * share:.0f} %)"
        self._draw(lambda: _State(self._step.label, done, left))

    def _continue(self) -> None:
        """Show progress again after the replay of recorded steps, and measure time from now on."""
        self._mode, self._replayed_points = self._requested_mode, self._points
        if isinstance(self._step, Round):  # no window includes this round or an earlier one
            self._rounds_before = self._step.number
        self._loop_started = self._step_started = self._clock()

    def close(self) -> None:
        """Leave the terminal on a clean line."""
        if self._mode == "line":
            self._write("\r" + " " * self._width() + "\r")

    def _start_step(self, step: Step) -> None:
        self._step, self._outcome_count, self._latest, self._step_started = step, 0, None, self._clock()
        times = self._repeats(step)
        for course in self._courses:
            course.start(step)
        self._started_counts[step.label] += 1
        self._started_steps += 1
        if isinstance(step, Round):
            if step.number == 1:
                self._loop_started, self._points, self._steadiness = self._clock(), 0, ""
                self._replayed_points = self._rounds_before = 0
        elif times == 1:
            self._line(f"{step.label} ...")
        elif self._started_counts[step.label] == 1 and not isinstance(step, Idle):
            self._line(f"{step.label}, {times} times ...")
        self._draw(self._state)

    def _repeats(self, step: Step) -> int:
        return max(1, self._step_counts[step.label])

    def _show_outcome(self, step: Step, outcome: Outcome) -> None:
        self._outcome_count, self._latest = self._outcome_count + 1, outcome
        if isinstance(outcome, Measurement):
            for attempt in outcome.rejected:
                self._line(f"{step.label}: {outcome.stimulus.label} was measured again: {attempt.reason}")
        if isinstance(outcome, PurgeOutcome):
            self._line(f"{step.label}: {outcome.label}")
        elif isinstance(step, Round):
            self._points += 1
            if isinstance(outcome, Measurement) and self._lists_points:
                self._line(f"{self._point(step)}: {_rates(outcome)}")
        elif isinstance(outcome, Measurement) and self._started_counts[step.label] >= self._repeats(step):
            times = self._repeats(step)
            name = f"{step.label}, time {times}" if times > 1 else step.label
            self._line(f"{name}: {_rates(outcome)}, {capacity(outcome.write.transferred_bytes)} written")
        self._draw(self._state)

    def _show_round(self, event: RoundEvaluated) -> None:
        """Show how steady a round is, and the remaining time of the loop."""
        if event.window is None:
            self._steadiness = ", ".join(
                format_tracked_value(tracked, event.evaluated_round.value(tracked)) for tracked in event.rule.tracked
            )
        else:
            steady = "steady" if event.window.steady else "not steady"
            self._steadiness = f"{steady}: {excursions(event.window.determinations)}"
        maximum = self._max_rounds(event.step)
        name = f"round {event.evaluated_round.number}" + (f" of at most {maximum}" if maximum else "")
        ended = event.evaluated_round.number == maximum or (event.window is not None and event.window.steady)
        remaining = "" if ended or not isinstance(event.step, Round) else self._loop_remainder(event.step)
        end = "" if ended else f"; {self._percentage()} of the longest test{self._end()}"
        self._line(f"{_part(event.step)}{name}: {self._steadiness}{remaining}{end}")

    def _max_rounds(self, step: Step) -> int | None:
        """Return the maximum number of rounds; None if something else ends them."""
        spec = self._spec
        if isinstance(step, ContinuousStimulus):
            return spec.conditioning.maximum if isinstance(spec, HostIdleSpec | DemandSpec) else None
        return max_rounds(spec)

    def _state(self) -> _State:
        """Return the current step and point."""
        step = self._step
        steadiness = f" | {self._steadiness}" if self._steadiness else ""
        if isinstance(step, Round) and self._spec.rounds_are_repeats:
            steps = self._plan.shortest.steps
            return _State(f"{self._point(step)}: step {self._started_steps}/{len(steps)}", left=self._remainder())
        if isinstance(step, Round):
            point = min(self._outcome_count + 1, len(step.stimuli))
            stimulus = step.stimuli[point - 1]
            demand = f" {stimulus.demand.label}" if isinstance(self._spec, DemandSpec) else ""
            position = f"{_part(step)}round {step.number}/{self._max_rounds(step)} point {point}/{len(step.stimuli)}"
            return _State(
                f"{position} {stimulus.label}{demand}", self._last_iops(), self._loop_remainder(step), steadiness
            )
        if isinstance(step, Idle):
            return _State(f"{step.label}{self._count(step)}")
        if isinstance(step, ContinuousStimulus):
            sample = f" sample {min(self._outcome_count + 1, step.samples)}/{step.samples}" if step.samples else ""
            position = f"{step.label}{self._count(step)}{sample}"
            return _State(position, self._last_iops(), self._stimulus_remainder(step), steadiness)
        return _State(f"{step.label} ...")

    def _point(self, step: Round) -> str:
        """Return the name of a repeated point, and the number of its repeat."""
        return f"{step.part}, time {step.number}" if self._spec.repeats > 1 else step.part

    def _remainder(self) -> str:
        """Return the remaining time of a test whose rounds are repeats: all its steps are known."""
        steps = self._plan.shortest.steps[self._started_steps - 1 :]
        least, _ = self._seconds_left()
        return f"; {'at least ' if any(step.open_ended for step in steps) else ''}{_time_left(least)}"

    def _seconds_left(self) -> tuple[float, float]:
        """Return the remaining time of the test in its shortest and in its longest course."""
        least, most = (course.seconds_left(self._clock() - self._step_started) for course in self._courses)
        return least, most

    def _percentage(self) -> str:
        """Return the completed share of the longest course."""
        _, most = self._seconds_left()
        total = self._plan.longest.seconds
        return f"{100 * (1 - most / total) if total else 100:.0f} %"

    def _end(self) -> str:
        """Return when the test will end; empty for a simulated drive, whose time is virtual."""
        if self._simulated:
            return ""
        now = self._now()
        times = dict.fromkeys(_time_of_day(now + timedelta(seconds=left), now) for left in self._seconds_left())
        return f", ends {' to '.join(times)}{' or later' if self._plan.longest.open_ended else ''}"

    def _count(self, step: Step) -> str:
        times = self._repeats(step)
        return f" {self._started_counts[step.label]}/{times}" if times > 1 else ""

    def _last_iops(self) -> str:
        last = self._latest
        return f" (last {number(last.iops)} IOPS)" if isinstance(last, Sample | Measurement) else ""

    def _stimulus_remainder(self, step: ContinuousStimulus) -> str:
        """Return the remaining time of a continuous stimulus, which a limit may shorten."""
        if step.stimulus.seconds is None:
            return ""
        seconds = max(0.0, step.stimulus.seconds - (self._clock() - self._step_started))
        return f"; {'at most ' if step.stimulus.limit_bytes else ''}{_time_left(seconds)}"

    def _loop_remainder(self, step: Round) -> str:
        """Return the minimum and maximum remaining time of the loop, from the time per point so far."""
        rule, maximum = loop_rule(self._spec), self._max_rounds(step)
        measured = self._points - self._replayed_points
        if not measured or rule is None or maximum is None:
            return ""
        point_seconds = (self._clock() - self._loop_started) / measured
        certain_rounds = step.number + (self._outcome_count == len(step.stimuli))
        fewest_rounds = max(self._rounds_before + rule.window_rounds, certain_rounds)
        fewest_points = fewest_rounds * len(step.stimuli) - self._points
        most_points = maximum * len(step.stimuli) - self._points
        return f"; {_time_left(min(fewest_points, most_points) * point_seconds, most_points * point_seconds)}"

    def say(self, text: str) -> None:
        """Show a line before the run starts."""
        self._line(text)

    def _line(self, text: str) -> None:
        """Write a whole line, on a terminal above the progress line."""
        if self._mode == "none":
            return
        self.close()
        elapsed = round(self._clock() - self._started, 1)  # not "5.1e-05 s"
        with self._closed_output_ignored():
            print_lines([f"[{duration(elapsed)}] {text}"], self._stream)
        self._last_output = self._clock()

    def _draw(self, state: Callable[[], _State]) -> None:
        """Rewrite the progress line; in mode log, write it if there was no output for a while."""
        if self._mode == "line":
            width, end = self._width(), self._end()
            prefix = f"{self._percentage()}{end}: "
            text = state().in_width(width - len(prefix), end_shown=bool(end))
            self._write("\r" + f"{prefix}{text}"[:width].ljust(width))
        elif self._clock() - self._last_output >= _HEARTBEAT_SECONDS:
            self._line(f"{self._percentage()}{self._end()}: {state()}")

    def _write(self, text: str) -> None:
        with self._closed_output_ignored():
            self._stream.write(text)
            self._stream.flush()

    @contextmanager
    def _closed_output_ignored(self) -> Iterator[None]:
        """A closed output is no reason to stop a test."""
        try:
            yield
        except OSError:
            self._mode = "none"

    def _width(self) -> int:
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns - 1)
        except (OSError, ValueError):
            return 79


def _shortened(text: str, width: int) -> str:
    """Return a text in ``width`` letters; a longer one ends after a word, with an ellipsis."""
    if len(text) <= width:
        return text
    words, _, _ = text[: max(0, width)].rpartition(" ")
    return words.rstrip(" |") + "\N{HORIZONTAL ELLIPSIS}" * (width > 0)


def _time_left(least: float, most: float | None = None) -> str:
    """Return estimates of the remaining time as text, below a minute in whole seconds."""
    estimates = (least, least if most is None else most)
    times = (duration(max(1, round(seconds)) if 0 < seconds < 59.5 else seconds) for seconds in estimates)
    return f"{' to '.join(dict.fromkeys(times))} left"


def _part(step: Step) -> str:
    """Return the part of the test as a prefix; for a continuous stimulus also its phase."""
    name = f"{step.part} {step.phase}".strip() if isinstance(step, ContinuousStimulus) else step.part
    return f"{name}: " if name else ""


def _time_of_day(moment: datetime, now: datetime) -> str:
    """Return a time as ``18:05``, with the weekday if it is not today, or the date if it is not this week."""
    days = (moment.date() - now.date()).days
    return moment.strftime("%H:%M" if not days else "%a %H:%M" if days < 7 else "%d %b %H:%M")


def _rates(measurement: Measurement) -> str:
    response = f"ART {number(measurement.average_response_us / 1000)} ms"
    return f"{number(measurement.iops)} IOPS, {number(measurement.mb_per_second)} MB/s, {response}"


def choose_mode(requested: str, stream: TextIO) -> str:
    """Return line, log or none for the ``requested`` mode; ``auto`` is line only on a terminal that can rewrite."""
    if requested != "auto":
        return requested
    rewritable = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return "line" if rewritable else "log"


def standard_stream() -> TextIO:
    """Return where progress goes: standard error, so that standard output contains only the result."""
    return sys.stderr
