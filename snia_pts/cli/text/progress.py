"""Progress: one rewritten line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from ...model.measurement import Measurement, Outcome, PurgeOutcome, Sample
from ...model.steps import ContinuousStimulus, Idle, Purge, Round, Step
from ...procedures.estimator import Plan
from ...runner.events import Event, OutcomeRecorded, RoundEvaluated, RunResumed, StepStarted
from ...spec import DemandSpec, HostIdleSpec, ProfileSpec, Spec, loop_rule, most_rounds
from ...units import capacity, duration, number
from .formatting import excursions, format_tracked_value
from .plan import besides, or_more

_HEARTBEAT_SECONDS = 300.0


class Progress:
    """Follows a run's events.  ``mode``: line (a terminal), log (pipe, file, dumb terminal) or none."""

    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        mode: str,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        resumed: bool = False,
        simulated: bool = False,
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._mode = mode
        self._stream = stream
        self._clock = clock
        #: How often steps of a label come at least: some come hundreds of times.
        self._times = Counter(step.label for step in plan.shortest.steps)
        self._seen: Counter[str] = Counter()
        self._step: Step = Purge()
        self._steps_begun = self._came = 0
        self._latest: Outcome | None = None
        self._points = 0
        self._recalled_points = self._rounds_before = 0
        self._steadiness = ""
        self._resumed, self._wanted_mode = resumed, mode
        self._virtual = " of virtual time" if simulated else ""
        self._began = self._loop_began = self._step_began = self._spoken = clock()

    def begin(self) -> None:
        """Say what is to be expected."""
        if self._resumed:
            self._mode = "none"
            return
        times = dict.fromkeys(duration(each.seconds) for each in (self._plan.shortest, self._plan.longest))
        told = f"{' to '.join(times)}{or_more(self._plan.longest)}{self._virtual}{besides(self._plan)}"
        self._line(f"planned: {told}, at {self._plan.assumptions.speed.span}")

    def event(self, event: Event) -> None:
        """Take note of an event, and say what is worth saying."""
        match event:
            case StepStarted():
                self._begin(event.step)
            case OutcomeRecorded():
                self._outcome(event.step, event.outcome)
            case RoundEvaluated():
                self._judged(event)
            case RunResumed():
                self._go_on()

    def tick(self, seconds: float, written_bytes: int) -> None:
        """Redraw while a program runs: ``seconds`` since its start, ``written_bytes`` by it so far."""
        stimulus = self._step.stimuli[0] if isinstance(self._step, ContinuousStimulus) else None
        if stimulus is None or stimulus.amount_bytes is None:
            self._draw(self._state)
            return
        amount = stimulus.amount_bytes
        share = min(written_bytes / amount, 1.0)
        left = f", {duration(seconds / share - seconds)} left" if share > 0.01 else ""
        self._draw(lambda: f"{self._step.label}: {capacity(written_bytes)} of {capacity(amount)} ({share:.0%}){left}")

    def _go_on(self) -> None:
        """Speak again, and count the time from here: what was gone through took none."""
        self._mode, self._recalled_points = self._wanted_mode, self._points
        if isinstance(self._step, Round):  # no window reaches into it, nor into those before
            self._rounds_before = self._step.number
        self._loop_began = self._step_began = self._clock()

    def close(self) -> None:
        """Leave the terminal on a clean line."""
        if self._mode == "line":
            self._write("\r" + " " * self._width() + "\r")

    def _begin(self, step: Step) -> None:
        self._step, self._came, self._latest, self._step_began = step, 0, None, self._clock()
        times = self._repeats(step)
        self._seen[step.label] += 1
        self._steps_begun += 1
        if isinstance(step, Round):
            if step.number == 1:
                self._loop_began, self._points, self._steadiness = self._clock(), 0, ""
                self._recalled_points = self._rounds_before = 0
        elif times == 1:
            self._line(f"{step.label} ...")
        elif self._seen[step.label] == 1 and not isinstance(step, Idle):
            self._line(f"{step.label}, {times} times ...")
        self._draw(self._state)

    def _repeats(self, step: Step) -> int:
        return max(1, self._times[step.label])

    def _outcome(self, step: Step, outcome: Outcome) -> None:
        self._came, self._latest = self._came + 1, outcome
        if isinstance(outcome, PurgeOutcome):
            self._line(f"{step.label}: {outcome.label}")
        elif isinstance(step, Round):
            self._points += 1
            if isinstance(outcome, Measurement) and isinstance(self._spec, ProfileSpec):
                self._line(f"{self._point(step)}: {_rates(outcome)}")
        elif isinstance(outcome, Measurement) and self._seen[step.label] >= self._repeats(step):
            times = self._repeats(step)
            name = f"{step.label}, time {times}" if times > 1 else step.label
            self._line(f"{name}: {_rates(outcome)}, {capacity(outcome.write.transferred_bytes)} written")
        self._draw(self._state)

    def _judged(self, event: RoundEvaluated) -> None:
        """Say of each round how steady it is, and what is left of the loop."""
        if event.window is None:
            self._steadiness = ", ".join(
                format_tracked_value(tracked, event.judged.value(tracked)) for tracked in event.rule.tracked
            )
        else:
            steady = "steady" if event.window.steady else "not steady"
            self._steadiness = f"{steady}: {excursions(event.window.determinations)}"
        most = self._most(event.step)
        name = f"round {event.judged.number}" + (f" of at most {most}" if most else "")
        over = event.judged.number == most or (event.window is not None and event.window.steady)
        left = "" if over or not isinstance(event.step, Round) else self._left(event.step)
        self._line(f"{_where(event.step)}{name}: {self._steadiness}{left}")

    def _most(self, step: Step) -> int | None:
        """How many rounds there may be; None where something else ends them."""
        spec = self._spec
        if isinstance(step, ContinuousStimulus):
            return spec.conditioning.maximum if isinstance(spec, HostIdleSpec | DemandSpec) else None
        return most_rounds(spec)

    def _state(self) -> str:
        """What goes on now, in a line."""
        step = self._step
        steadiness = f" | {self._steadiness}" if self._steadiness else ""
        if isinstance(step, Round) and isinstance(self._spec, ProfileSpec):
            steps = self._plan.shortest.steps
            return f"{self._point(step)}: step {self._steps_begun}/{len(steps)}{self._remainder()}"
        if isinstance(step, Round):
            place = min(self._came + 1, len(step.stimuli))
            coming = step.stimuli[place - 1]
            demand = f" {coming.demand.label}" if isinstance(self._spec, DemandSpec) else ""
            where = f"{_where(step)}round {step.number}/{self._most(step)} point {place}/{len(step.stimuli)}"
            return f"{where} {coming.label}{demand}{self._last()}{self._left(step)}{steadiness}"
        if isinstance(step, Idle):
            return f"{step.label}{self._count(step)}"
        if isinstance(step, ContinuousStimulus):
            sample = f" sample {min(self._came + 1, step.samples)}/{step.samples}" if step.samples else ""
            return f"{step.label}{self._count(step)}{sample}{self._last()}{self._rest(step)}{steadiness}"
        return f"{step.label} ..."

    def _point(self, step: Round) -> str:
        """What a profile's point is called, and which time it is measured."""
        repeats = self._spec.repeats if isinstance(self._spec, ProfileSpec) else 1
        return f"{step.part}, time {step.number}" if repeats > 1 else step.part

    def _remainder(self) -> str:
        """Time until a profile ends, which takes its planned steps one after the other."""
        coming = self._plan.shortest.steps[self._steps_begun - 1 :]
        rest = max(0.0, sum(step.seconds for step in coming) - (self._clock() - self._step_began))
        return f", {'at least ' if any(step.open_ended for step in coming) else ''}{duration(rest)} left"

    def _count(self, step: Step) -> str:
        times = self._repeats(step)
        return f" {self._seen[step.label]}/{times}" if times > 1 else ""

    def _last(self) -> str:
        last = self._latest
        return f" (last {number(last.iops)} IOPS)" if isinstance(last, Sample | Measurement) else ""

    def _rest(self, step: ContinuousStimulus) -> str:
        """Time until a stretch ends, which a limit may make shorter."""
        if step.stimulus.seconds is None:
            return ""
        rest = max(0.0, step.stimulus.seconds - (self._clock() - self._step_began))
        return f", {'at most ' if step.stimulus.limit_bytes else ''}{duration(rest)} left"

    def _left(self, step: Round) -> str:
        """Time until the loop ends, at least and at most, from the time the points took so far."""
        rule, most = loop_rule(self._spec), self._most(step)
        measured = self._points - self._recalled_points
        if not measured or rule is None or most is None:
            return ""
        each = (self._clock() - self._loop_began) / measured
        certain = step.number + (self._came == len(step.stimuli))
        least = max(self._rounds_before + rule.window_rounds, certain) * len(step.stimuli) - self._points
        longest = most * len(step.stimuli) - self._points
        if least >= longest:
            return f", {duration(longest * each)} left"
        return f", {duration(least * each)} to {duration(longest * each)} left"

    def say(self, text: str) -> None:
        """Say something of a run that has not begun."""
        self._line(text)

    def _line(self, text: str) -> None:
        """Say a whole line, on a terminal above the rewritten one."""
        if self._mode == "none":
            return
        self.close()
        self._write(f"[{duration(self._clock() - self._began)}] {text}\n")
        self._spoken = self._clock()

    def _draw(self, text: Callable[[], str]) -> None:
        """Rewrite the line; where lines cannot be rewritten, say it when nothing was said for long."""
        if self._mode == "line":
            width = self._width()
            self._write("\r" + text()[:width].ljust(width))
        elif self._clock() - self._spoken >= _HEARTBEAT_SECONDS:
            self._line(text())

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._mode = "none"  # whoever listened is gone; that is no reason to stop a test

    def _width(self) -> int:
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns - 1)
        except (OSError, ValueError):
            return 79


def _where(step: Step) -> str:
    """The part of the test, before what goes on in it; a stretch is told by its phase."""
    name = f"{step.part} {step.phase}".strip() if isinstance(step, ContinuousStimulus) else step.part
    return f"{name}: " if name else ""


def _rates(measured: Measurement) -> str:
    response = f"ART {number(measured.average_response_us / 1000)} ms"
    return f"{number(measured.iops)} IOPS, {number(measured.mb_per_second)} MB/s, {response}"


def choose_mode(wanted: str, stream: TextIO) -> str:
    """Return line, log or none for ``wanted``; ``auto`` is line just on a terminal that can rewrite."""
    if wanted != "auto":
        return wanted
    able = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return "line" if able else "log"


def standard_stream() -> TextIO:
    """Return where progress goes: standard error, so that standard output holds the result alone."""
    return sys.stderr
