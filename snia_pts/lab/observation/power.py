"""Read a power meter during a run, through a program that prints its readings."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import UsageError
from ...model.telemetry import PowerReadings
from ...text import one_line
from ...units import counted, duration
from ..process.program import Program, find

_OPTION = "--power-command"
_HINT = f"It is the program of {_OPTION}. Give its path, or put it on the PATH."
_NUMBER = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
#: Readings above this are rejected as implausible.
_MAX_WATTS = 100_000.0
_MAX_LINE_BYTES, _MAX_NAME, _MAX_SHOWN = 1000, 60, 40
#: Read at most this many chunks per call (enough for a full pipe).  Ignore the program after this many invalid lines.
_MAX_CHUNKS, _MAX_INVALID = 16, 1000
#: The maximum mean interval between readings while fio does I/O.
_MAX_INTERVAL_SECONDS = 5.0


def power_command(command: str) -> tuple[str, ...]:
    """Return the words of a power command; raises UsageError, or ToolMissing if there is no such program."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(detail=f"{_OPTION}: {error}.", hint="Quote it as for a shell.") from None
    if not words:
        raise UsageError(detail=f"{_OPTION}: the command is empty.", hint=f"For example {_OPTION} ./meter.sh.")
    find(words[0], _HINT)
    return words


def parse_watts(line: str) -> float | None:
    """Return the watts of a line; None if it is not a reading."""
    watts = float(line) if _NUMBER.fullmatch(line) else _MAX_WATTS + 1
    return watts if watts <= _MAX_WATTS else None


class PowerMeter:
    """A program that prints the readings of a power meter, one number of watts a line.

    Empty lines are ignored.  Lines that begin with ``#`` are comments.  A comment before the first reading names the
    meter (the first comment counts); otherwise the meter has the program's name.
    """

    def __init__(self, program: Program, name: str) -> None:
        self._program = program
        self.name = name
        self._is_named = False
        self._incomplete = b""
        self._invalid: list[str] = []
        self._ended_early = False
        self._observed_seconds, self._readings = 0.0, 0

    def read(self) -> tuple[float, ...]:
        """Return the readings since the last call, in watts."""
        watts = list[float]()
        for _ in range(_MAX_CHUNKS):
            if len(self._invalid) >= _MAX_INVALID or not (chunk := self._program.read_stdout()):
                break
            *lines, self._incomplete = (self._incomplete + chunk).split(b"\n")
            if len(self._incomplete) > _MAX_LINE_BYTES:
                lines, self._incomplete = [*lines, self._incomplete], b""
            watts += self._parse(lines)
        self._ended_early = self._ended_early or self._program.has_exited
        return tuple(watts)

    def _parse(self, lines: list[bytes]) -> Iterator[float]:
        for line in lines:
            text = one_line(line.decode("utf-8", "replace"))
            if text.startswith("#"):
                if not self._is_named and (name := text.lstrip("#").strip()[:_MAX_NAME]):
                    self.name, self._is_named = name, True
            elif text:
                self._is_named = True
                watts = parse_watts(text)
                if watts is None:
                    self._invalid.append(text[:_MAX_SHOWN])
                else:
                    yield watts

    def count(self, readings: int, seconds: float) -> None:
        """Count the readings of a measurement."""
        self._readings += readings
        self._observed_seconds += seconds

    def end(self) -> None:
        """End the program, with all programs that it started."""
        self._program.end()

    def problems(self) -> Iterator[str]:
        """Yield a message for each problem; call this after ``end``."""
        if self._ended_early:
            finished = self._program.finished
            yield (
                f"the program of {self.name} exited during the run, after {duration(finished.seconds)}: "
                f"{one_line(finished.error_summary)}"
            )
        if len(self._invalid) == 1:
            yield f"1 line of {self.name} is not a reading in watts: {self._invalid[0]!r}"
        elif self._invalid:
            lines = counted(len(self._invalid), "line")
            yield f"{lines} of {self.name} are not readings in watts; the first is {self._invalid[0]!r}"
        if self._readings * _MAX_INTERVAL_SECONDS < self._observed_seconds - _MAX_INTERVAL_SECONDS:
            yield (
                f"{self.name} gave {counted(self._readings, 'reading')} in {duration(self._observed_seconds)} of "
                f"measurements; expected one every {_MAX_INTERVAL_SECONDS:.0f} s or more often"
            )


@contextmanager
def power_meter(command: str | None) -> Iterator[PowerMeter | None]:
    """Start the program of a power command, if there is one; end it at the end of the block."""
    if command is None:
        yield None
        return
    words = power_command(command)
    with Program(words, evidence=None, listen=True) as program:
        yield PowerMeter(program, Path(words[0]).name)


class PowerObserver:
    """Assigns the readings of a power meter to measurements and samples.

    Call ``start`` when a stimulus starts, ``tick`` about once a second, ``lap`` and ``finish`` as those of Observer.
    """

    def __init__(self, meter: PowerMeter | None) -> None:
        self._meter = meter
        self._total: list[float] = []
        self._lap_start = self._received = self._start_ns = 0

    def start(self) -> None:
        """Start a measurement: readings before it are discarded."""
        self._total, self._lap_start, self._received, self._start_ns = [], 0, 0, time.monotonic_ns()
        if self._meter is not None:
            self._meter.read()

    def tick(self, *, ramp: bool = False) -> tuple[float, ...]:
        """Return the readings since the last call; readings in a ``ramp`` do not count."""
        watts = () if self._meter is None else self._meter.read()
        self._received += len(watts)
        if not ramp:
            self._total += watts
        return watts

    def lap(self) -> PowerReadings | None:
        """Return the readings since the last lap, or since the start."""
        start, self._lap_start = self._lap_start, len(self._total)
        return self._mean(self._total[start:])

    def finish(self) -> PowerReadings | None:
        """Return the readings since the start."""
        if self._meter is not None:
            self._meter.count(self._received, (time.monotonic_ns() - self._start_ns) / 1e9)
        return self._mean(self._total)

    def _mean(self, watts: list[float]) -> PowerReadings | None:
        if self._meter is None:
            return None
        mean = sum(watts) / len(watts) if watts else None
        return PowerReadings(source=self._meter.name, watts=mean, readings=len(watts))
