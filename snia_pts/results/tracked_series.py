"""The rounds or samples on which steady state is evaluated, with the names of their tracked variables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..analysis.window import Judged, Window
from ..model.measurement import mean
from ..model.steps import Stimulus
from ..spec import SteadyStateRule, Tracked, loop_rule, settling_rule
from ..units import KIB, SHORT_SECONDS
from .result import Loop, Sampling, TestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTimes:
    """The ends of the samples that serve as rounds, by round, in minutes, or in seconds if the last is early."""

    unit: Literal["minute", "second"]
    ends: Mapping[int, float]

    def span(self, numbers: Sequence[int]) -> str:
        """Return the times of a span of rounds: ``minutes 1 - 121``."""
        return f"{self.unit}s {self.ends[numbers[0]]:.4g} - {self.ends[numbers[-1]]:.4g}"


def stimulus_code(stimulus: Stimulus) -> str:
    """Return a stimulus' name in the form used in titles: ``RND/4KiB RW0``, ``RND/0.5-64KiB RW40``."""
    sizes = [share.size_bytes for share in stimulus.block_shares] or [stimulus.largest_block_bytes]
    block = "-".join(f"{size / KIB:g}" for size in dict.fromkeys((min(sizes), max(sizes))))
    return f"{stimulus.access}/{block}KiB RW{stimulus.read_percent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedSeries:
    """The basis of a steady state evaluation: complete rounds of a loop, or the samples that serve as rounds.

    ``stimuli`` are those of the tracked variables, in the rule's order; empty without rounds.  ``times`` are the
    ends of the rounds' samples, None for a loop.  ``name`` starts a page's title, ``part`` is the title of a
    table.
    """

    name: str
    part: str
    rule: SteadyStateRule
    rounds: tuple[Judged, ...]
    window: Window | None
    stimuli: tuple[Stimulus, ...]
    times: SampleTimes | None

    def label(self, tracked: Tracked) -> str:
        """Return a tracked variable's name: ``RND 4 KiB 0/100``, with its demand if that is part of the rule."""
        stimulus = self.stimuli[self.rule.tracked.index(tracked)]
        return f"{stimulus.label} {stimulus.demand.label}" if tracked.thread_count else stimulus.label

    def code(self, tracked: Tracked) -> str:
        """Return a tracked variable's name in the form used in titles: ``RND/4KiB RW0``, ``RND/0.5-64KiB RW40``."""
        stimulus = self.stimuli[self.rule.tracked.index(tracked)]
        code = stimulus_code(stimulus)
        return f"{code} {stimulus.demand.label}" if tracked.thread_count else code

    @property
    def averaged(self) -> tuple[int, ...]:
        """The rounds whose average is 100 %: the window's, or all without a window."""
        return self.window.numbers if self.window else tuple(judged.number for judged in self.rounds)

    def percents(self) -> dict[str, dict[int, float]]:
        """Return every tracked variable over all rounds in percent of its average, by label and round."""
        series: dict[str, dict[int, float]] = {}
        for variable in self.rule.tracked:
            values = {judged.number: judged.value(variable) for judged in self.rounds}
            average = mean(values[number] for number in self.averaged)
            series[self.label(variable)] = {
                number: 100 * value / average if average else math.nan for number, value in values.items()
            }
        return series

    @property
    def bounds(self) -> dict[str, float]:
        """Half the allowed data excursion above and below the average, in percent."""
        half = self.rule.data_excursion_percent / 2
        return {f"{100 + half:g} %": 100 + half, f"{100 - half:g} %": 100 - half}


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """The tracked variables of a test in percent of their averages, by label and round, with the rounds of the window.

    ``name`` is the test's, with the word Preconditioning if they are those of its preconditioning.  ``window`` is empty
    if there is none, or if the loops of the test have different ones.
    """

    name: str
    series: Mapping[str, Mapping[int, float]]
    window: tuple[int, ...]
    steady: bool
    bounds: dict[str, float]


def tracked_series(result: TestResult, part: Loop | Sampling) -> TrackedSeries:
    """Return the basis of the steady state evaluation of a loop of ``result``, or of its samples.

    Raises ValueError if the test has no steady state rule for it.
    """
    spec = result.facts.spec
    rule: SteadyStateRule | None
    if isinstance(part, Sampling):
        rule, line = settling_rule(spec), result.time_line(part.phase)
        stimuli = (line.stimulus,) * len(rule.tracked) if rule and line else ()
        preconditioning = " Preconditioning" if part.phase == "PC" else ""
        rounds: tuple[Judged, ...] = part.rounds
        name, part_name = f"{spec.title}{preconditioning}", ""
    else:
        rule, rounds = loop_rule(spec), part.complete
        variables = rule.tracked if rule and part.complete else ()
        stimuli = tuple(part.complete[0].point(variable).stimulus for variable in variables)
        name, part_name = spec.title, part.part
    if rule is None:
        raise ValueError("the test has no steady state rule")
    return TrackedSeries(
        name=name,
        part=part_name,
        rule=rule,
        rounds=rounds,
        window=part.window,
        stimuli=stimuli,
        times=sample_times(part),
    )


def untracked_reads(loop: Loop) -> Iterator[Tracked]:
    """Yield, for each tracked pure write of the loop's window, the pure read of the same block size.

    Reads that are tracked themselves, or that the window does not contain, are omitted.
    """
    variables = [variable for variable, _ in loop.window.determinations] if loop.window else []
    reads = [replace(variable, read_percent=100) for variable in variables if variable.read_percent == 0]
    for read in reads:
        if read not in variables and all(measured.contains(read) for measured in loop.window_rounds):
            yield read


def evaluated_series(result: TestResult) -> Iterator[TrackedSeries]:
    """Yield each series with a steady state evaluation and at least one round, the samples first."""
    loops = result.loops if loop_rule(result.facts.spec) else ()
    for part in (*((result.sampling,) if result.sampling else ()), *loops):
        series = tracked_series(result, part)
        if series.rounds and series.stimuli:
            yield series


def shown_series(result: TestResult) -> list[TrackedSeries]:
    """Return the series that a small figure shows: those of the loops; those of samples for a test without loops."""
    evaluated = list(evaluated_series(result))
    return [series for series in evaluated if series.times is None] or evaluated


def convergence(shown: Sequence[TrackedSeries]) -> Convergence | None:
    """Return what a small figure shows of these series; None without any."""
    if not shown:
        return None
    windows = {series.window.numbers if series.window else () for series in shown}
    return Convergence(
        name=shown[0].name,
        series={label: line for series in shown for label, line in series.percents().items()},
        window=windows.pop() if len(windows) == 1 else (),
        steady=all(series.window is not None and series.window.steady for series in shown),
        bounds=shown[0].bounds,
    )


def sample_times(part: Loop | Sampling | None) -> SampleTimes | None:
    """Return the times at which the samples of the rounds ended; None for a loop."""
    if not isinstance(part, Sampling) or not part.rounds:
        return None
    minutes = {sample.number: sample.minute for sample in part.rounds}
    if 60 * max(minutes.values()) > SHORT_SECONDS:
        return SampleTimes(unit="minute", ends=minutes)
    return SampleTimes(unit="second", ends={number: 60 * minute for number, minute in minutes.items()})


def span(numbers: Sequence[int], times: SampleTimes | None) -> str:
    """Return a span of rounds: ``1 - 5``, ``1 - 5 (minutes 1 - 121)``."""
    return f"{numbers[0]} - {numbers[-1]}" + (f" ({times.span(numbers)})" if times else "")
