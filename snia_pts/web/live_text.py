"""Formats the values of runs for a terminal: as blocks, as one line per run, and as one line per event."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..runner.live import Determination, LiveState, TrackedVariable
from ..text import printable
from ..units import counted, duration, number
from .model import RunView

#: How many warnings of a run are shown; the last ones.
_MAX_WARNINGS = 3


def block(name: str, run: RunView, now: datetime) -> Iterator[str]:
    """Yield the lines about one run."""
    yield name
    if run.title:
        yield f"  {run.title} of {run.drive}"
    yield f"  {run.state}: {_position(run)}{'; it stops after this' if run.stopping else ''}"
    if run.live:
        if text := ", ".join(filter(None, (_round(run.live), _progress(run), _celsius(run.live)))):
            yield f"  {text}"
        if text := time_left(run, now):
            yield f"  {text}"
        yield from _determination_lines(run.live)
    yield from (f"  warning: {warning.what}: {warning.detail}" for warning in run.warnings[-_MAX_WARNINGS:])
    if len(run.warnings) > _MAX_WARNINGS:
        yield f"  and {counted(len(run.warnings) - _MAX_WARNINGS, 'earlier warning')}"


def row(name: str, run: RunView, now: datetime) -> str:
    """Return one line about one of many runs."""
    details = [_position(run)]
    if run.in_progress and run.live:
        bounds = run.seconds_left(now)
        left = " to ".join(dict.fromkeys(map(duration, bounds))) if bounds else ""
        details = [_round(run.live, brief=True), _progress(run, brief=True), left, _celsius(run.live)]
    warnings = counted(len(run.warnings), "warning") if run.warnings else ""
    return f"{name}  {run.state:8}  {run.test:10}  {', '.join(filter(None, (*details, warnings)))}".rstrip()


def time_left(run: RunView, now: datetime) -> str:
    """Return the bounds of the remaining time, with the time of the end; the time of a simulated drive is virtual."""
    bounds = run.seconds_left(now)
    if bounds is None:
        return ""
    spans = " to ".join(dict.fromkeys(map(duration, bounds)))
    if run.virtual:
        return f"{spans} of virtual time left"
    ends = dict.fromkeys((now + timedelta(seconds=seconds)).strftime("%a %d %b %H:%M") for seconds in bounds)
    return f"{spans} left: ends {' to '.join(ends)}"


def _position(run: RunView) -> str:
    if run.in_progress and run.live:
        return run.live.position
    return ", ".join(filter(None, (run.verdict, run.detail)))


def _round(live: LiveState, *, brief: bool = False) -> str:
    if live.round_number is None:
        return ""
    before_maximum = "/" if brief else " of at most "
    return f"round {live.round_number}{f'{before_maximum}{live.round_maximum}' if live.round_maximum else ''}"


def _progress(run: RunView, *, brief: bool = False) -> str:
    if not run.live or run.live.progress is None or not run.in_progress:
        return ""
    return f"{run.live.progress:.0%}{'' if brief else ' of the longest possible run'}"


def _celsius(live: LiveState) -> str:
    return "" if live.celsius is None else f"{live.celsius:g} °C"


def _determination_lines(live: LiveState) -> Iterator[str]:
    """Yield the last value of each tracked variable of the latest part, its excursions, and the decision."""
    variables = live.latest_variables
    for variable in variables:
        excursions = _excursions(variable.determination, limits=True) if variable.determination else ""
        yield f"  {variable.title} {_value(variable, -1)}{excursions}"
    if variables:
        yield f"  {_decision(variables)}"


def _decision(variables: tuple[TrackedVariable, ...]) -> str:
    determinations = [variable.determination for variable in variables if variable.determination]
    if len(determinations) < len(variables):
        return f"too few rounds for a determination: {len(variables[0].rounds)}"
    steady = "steady" if all(one.steady for one in determinations) else "not steady"
    return f"{steady} in rounds {determinations[0].first_round} - {determinations[0].last_round}"


def _value(variable: TrackedVariable, index: int) -> str:
    value = variable.values[index]
    return "n/a" if value is None else f"{number(value)} {variable.unit}"


def _excursions(one: Determination, *, limits: bool) -> str:
    if one.data_excursion_percent is None or one.slope_excursion_percent is None:
        return ": not evaluable"
    data, slope = (
        f"{value:.1f}{f' of {allowed:g}' if limits else ''} %"
        for value, allowed in (
            (one.data_excursion_percent, one.allowed_data_excursion_percent),
            (one.slope_excursion_percent, one.allowed_slope_excursion_percent),
        )
    )
    return f": data {data}, slope {slope}"


@dataclass(slots=True)
class EventLines:
    """The events of one run between two readings, one line each."""

    name: str
    previous: RunView | None = None

    def new_lines(self, run: RunView, now: datetime) -> Iterator[str]:
        """Yield a line for each event since the last call: rounds, warnings, step, state, end."""
        before, self.previous = self.previous, run
        prefix = f"{now:%H:%M:%S} {self.name}: "
        if run.title and (before is None or not before.title):
            yield f"{prefix}{run.title} of {run.drive}"
        if before is not None and run.live:
            yield from (f"{prefix}{text}" for text in _new_rounds(before.live, run.live))
        known = before.warnings if before else ()
        yield from (
            f"{prefix}warning: {warning.what}: {warning.detail}" for warning in run.warnings if warning not in known
        )
        if before is None or (before.state, _step(before)) != (run.state, _step(run)):
            yield f"{prefix}{run.state}: {'; '.join(filter(None, (_position(run), time_left(run, now))))}"


def _step(run: RunView) -> str:
    return run.live.step if run.live else ""


def _new_rounds(before: LiveState | None, live: LiveState) -> Iterator[str]:
    """Yield a line for each new round, with the values, and for the last one with the determination."""
    earlier = {(one.series, one.variable): one.rounds for one in before.variables} if before else {}
    by_series: dict[str, list[TrackedVariable]] = {}
    for variable in live.variables:
        by_series.setdefault(variable.series, []).append(variable)
    for series, variables in by_series.items():
        rounds = variables[0].rounds
        for index, one in enumerate(rounds):
            if one in earlier.get((series, variables[0].variable), ()):
                continue
            last = index == len(rounds) - 1
            values = "; ".join(
                f"{variable.variable} {_value(variable, index)}"
                + (_excursions(variable.determination, limits=False) if last and variable.determination else "")
                for variable in variables
            )
            decision = f": {_decision(tuple(variables))}" if last and variables[0].determination else ""
            yield f"{f'{series}: ' if series else ''}round {one}: {values}{decision}"


def cut(line: str, width: int) -> str:
    """Return a printable line, cut or padded to ``width`` columns; some letters take two, some none."""
    used, letters = 0, list[str]()
    for letter in printable(line):
        columns = 2 if unicodedata.east_asian_width(letter) in "WF" else 0 if unicodedata.combining(letter) else 1
        if used + columns > width:
            break
        letters.append(letter)
        used += columns
    return "".join(letters) + " " * (width - used)
