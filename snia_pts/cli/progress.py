"""Progress: one rewritten line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from ..measurement import MeasuredRound, Measurement
from ..runner import Event, StepBegun
from ..spec import IopsSpec
from ..steps import Precondition, Purge, Round, Step
from ..units import capacity, duration, number
from ..window import window_ending
from .show import excursions, variable

_HEARTBEAT_SECONDS = 300.0


class Progress:
    """Follows a run's events.  ``mode``: line (a terminal), log (pipe, file, dumb terminal) or none."""

    def __init__(
        self, spec: IopsSpec, mode: str, stream: TextIO, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spec = spec
        self._mode = mode
        self._stream = stream
        self._clock = clock
        self._step: Step = Purge()
        self._rounds: tuple[MeasuredRound, ...] = ()
        self._current: list[Measurement] = []
        self._points = 0
        self._tracked = ""
        self._began = self._loop_began = self._spoken = clock()

    def event(self, event: Event) -> None:
        """Take note of an event, and say what is worth saying."""
        if isinstance(event, StepBegun):
            self._begin(event.step)
        elif not isinstance(event.outcome, Measurement):
            self._line(f"purged by {event.outcome.label}")
        elif isinstance(event.step, Round):
            self._point(event.step, event.outcome)
        else:
            written = capacity(event.outcome.write.transferred_bytes)
            self._line(f"{event.step.label}: {written} written, {number(event.outcome.mb_per_second)} MB/s")

    def tick(self, seconds: float, written_bytes: int) -> None:
        """Redraw while a program runs: ``seconds`` since its start, ``written_bytes`` by it so far."""
        if isinstance(self._step, Precondition):
            amount = self._step.stimulus.amount_bytes or 1
            share = min(written_bytes / amount, 1.0)
            left = f", ETA {duration(seconds / share - seconds)}" if share > 0.01 else ""
            self._draw(
                lambda: f"{self._step.label}: {capacity(written_bytes)} of {capacity(amount)} ({share:.0%}){left}"
            )
        else:
            self._draw(self._state)

    def close(self) -> None:
        """Leave the terminal on a clean line."""
        if self._mode == "line":
            self._write("\r" + " " * self._width() + "\r")

    def _begin(self, step: Step) -> None:
        self._step = step
        self._current = []
        if not isinstance(step, Round):
            self._line(f"{step.label} ...")
        elif step.number == 1:
            self._loop_began = self._clock()
        self._draw(self._state)

    def _point(self, step: Round, measurement: Measurement) -> None:
        self._current.append(measurement)
        self._points += 1
        if len(self._current) < len(step.stimuli):
            self._draw(self._state)
            return
        rule = self._spec.steady_state
        done = MeasuredRound(number=step.number, measurements=tuple(self._current), complete=True)
        self._rounds = (*self._rounds, done)[-rule.window_rounds :]
        window = window_ending(self._rounds, rule)
        if window is None:
            self._tracked = ", ".join(
                f"{variable(tracked)} {number(done.value(tracked))} IOPS" for tracked in rule.tracked
            )
        else:
            self._tracked = ("" if window.steady else "not ") + f"steady: {excursions(window.determinations)}"
        over = step.number == self._spec.rounds.maximum or (window is not None and window.steady)
        eta = "" if over else self._eta(step)
        self._line(f"round {step.number} of at most {self._spec.rounds.maximum}: {self._tracked}{eta}")

    def _state(self) -> str:
        """What goes on now, in a line."""
        step = self._step
        if not isinstance(step, Round):
            return f"{step.label} ..."
        coming = step.stimuli[min(len(self._current), len(step.stimuli) - 1)]
        last = f" (last {number(self._current[-1].iops)} IOPS)" if self._current else ""
        where = f"round {step.number}/{self._spec.rounds.maximum} point {len(self._current) + 1}/{len(step.stimuli)}"
        tracked = f" | {self._tracked}" if self._tracked else ""
        return f"{where} {coming.label}{last}{self._eta(step)}{tracked}"

    def _eta(self, step: Round) -> str:
        """Remaining time, at least and at most, from the time the points took so far."""
        if not self._points:
            return ""
        each = (self._clock() - self._loop_began) / self._points
        certain = step.number + (len(self._current) == len(step.stimuli))
        least = max(self._spec.steady_state.window_rounds, certain) * len(step.stimuli) - self._points
        most = self._spec.rounds.maximum * len(step.stimuli) - self._points
        if least == most:
            return f", ETA {duration(most * each)}"
        return f", ETA {duration(least * each)} to {duration(most * each)}"

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


def choose_mode(wanted: str, stream: TextIO) -> str:
    """Return line, log or none for ``wanted``; ``auto`` is line just on a terminal that can rewrite."""
    if wanted != "auto":
        return wanted
    able = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return "line" if able else "log"


def standard_stream() -> TextIO:
    """Return where progress goes: standard error, so that standard output holds the result alone."""
    return sys.stderr
