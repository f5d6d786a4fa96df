"""Figures of all rounds: the convergence pages, and the tracked variables on the first page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ...analysis.window import interruption_marks
from ...model.measurement import METRICS, Key, MeasuredRound, Metric
from ...model.steps import Stimulus
from ...results.result import Loop, TestResult
from ...results.tracked_series import TrackedSeries, convergence, shown_series, tracked_series
from ...spec import RoundsSpec
from ..figures import figure as figures
from ..figures import matrices, timelines
from ..figures.axes import NOT_FROM_ZERO, is_wide
from ..figures.dashboard import HEIGHT as DASHBOARD_HEIGHT
from ..figures.dashboard import Curves, HeatMap
from ..figures.dashboard import Tracked as TrackedLines
from ..figures.dashboard import draw as draw_dashboard
from ..figures.style import SeriesStyle, overlaid, overlay_styles, series_styles
from ..pages import FIGURE_HEIGHT, Figure, Page

#: Heights of the two figures of a page in inches: all stimuli, and the tracked variables.
_UPPER_HEIGHT, _TRACKED_HEIGHT = 3.5, 2.9


def convergence_page(
    loop: Loop,
    metric: Metric,
    key: Callable[[Stimulus], Key],
    lines: Mapping[Key, str],
    *,
    title: str,
    name: str,
    caption: str,
    legend: str,
    log: bool = True,
    tracked: Figure | None = None,
) -> Iterator[Page]:
    """Yield the page that plots ``metric`` over all complete rounds of ``loop``; none if there are none.

    ``lines`` names the stimuli to show, by ``key``, in the same order in every figure, so that styles match, even if
    some of them have no data.  ``tracked`` is a second figure.
    """
    series = values_by_round(loop.complete, metric, key, lines)
    if not series:
        return
    incomplete = [measured_round.number for measured_round in loop.rounds if not measured_round.complete]
    note = f" Round {incomplete[0]} was not completed and is not shown." if incomplete else ""
    height = _UPPER_HEIGHT if tracked else FIGURE_HEIGHT
    scale = "log scale" if log else "linear scale from zero"
    figure = Figure(
        name=name,
        caption=f"{caption}{note}",
        alt=f"Line plot: {metric.heading}, {scale}, against rounds 1 to {loop.complete[-1].number}. {caption}",
        draw=partial(
            figures.convergence,
            series,
            loop.window.numbers if loop.window else (),
            heading=metric.heading,
            legend=legend,
            log=log,
            steady=loop.steady,
            height=height,
            interruptions=interruption_marks(loop.complete),
            styles=series_styles(list(lines.values())),
        ),
        height=height,
    )
    blocks = (figure, tracked) if tracked else (figure,)
    yield Page(title=title, blocks=blocks, flows=tracked is not None)


def values_by_round(
    rounds: Sequence[MeasuredRound], metric: Metric, key: Callable[[Stimulus], Key], lines: Mapping[Key, str]
) -> dict[str, dict[int, float]]:
    """Return the values of each of ``lines`` by label and round, without those that have none."""
    series: dict[str, dict[int, float]] = {}
    for measured_round in rounds:
        measurements = measured_round.keyed_by(key)
        for line_key, label in lines.items():
            if line_key in measurements:
                series.setdefault(label, {})[measured_round.number] = metric.read(measurements[line_key])
    return {label: series[label] for label in lines.values() if label in series}


def tracked_figure(result: TestResult, loop: Loop) -> Figure:
    """Return the figure of all tracked variables over all rounds, each in percent of its average in the last window.

    Without a window, the average is that of all rounds.
    """
    tracked = tracked_series(result, loop)
    numbers, series = tracked.averaged, tracked.percents()
    half = tracked.rule.data_excursion_percent / 2
    bounds = tracked.bounds
    basis = f"the average of rounds {numbers[0]} - {numbers[-1]}"
    subject = f"{'every' if len(series) > 1 else 'the'} tracked variable"
    return Figure(
        name="convergence-tracked",
        caption=f"{subject.capitalize()} over all rounds, in percent of {basis}.{_axis_note(series, bounds)}",
        alt=f"Line plot: {subject} in percent of {basis}, with lines at {half:g} % above and below it.",
        draw=partial(
            figures.convergence,
            series,
            tracked.window.numbers if tracked.window else (),
            heading=_percent_heading([tracked]),
            legend="Tracked variable",
            log=False,
            steady=tracked.window is None or tracked.window.steady,
            height=_TRACKED_HEIGHT,
            interruptions=interruption_marks(tracked.rounds),
            bounds=bounds,
            styles=tracked_styles(result, [tracked]),
        ),
        height=_TRACKED_HEIGHT,
    )


def _axis_note(series: Mapping[str, Mapping[int, float]], bounds: Mapping[str, float]) -> str:
    """Return the end of the caption of ``series`` in percent: that the y axis does not start at zero, or nothing."""
    values = [*bounds.values(), *(value for line in series.values() for value in line.values())]
    hides_zero = not is_wide(values) and figures.padded(values)[0] > 0
    return f" {NOT_FROM_ZERO}" * hides_zero


def tracked_styles(result: TestResult, shown: Sequence[TrackedSeries]) -> dict[str, SeriesStyle]:
    """Return the style of each tracked variable by label: its lines may coincide.

    Colour and marker are those of its block size in all figures, unless tracked variables share a block size.
    """
    spec = result.facts.spec
    stimuli = {
        series.label(variable): stimulus
        for series in shown
        for variable, stimulus in zip(series.rule.tracked, series.stimuli, strict=True)
    }
    if isinstance(spec, RoundsSpec):
        of_sizes = series_styles(matrices.sizes(spec.rounds).keys)
        styles = {label: of_sizes[matrices.size_and_mix(stimulus)[0]] for label, stimulus in stimuli.items()}
        if len({style.colour for style in styles.values()}) == len(styles):
            return overlaid(styles)
    return overlay_styles(list(stimuli))


def _percent_heading(shown: Sequence[TrackedSeries]) -> str:
    """Return the name of the tracked quantities, with their unit."""
    labels = dict.fromkeys(METRICS[variable.metric].label for tracked in shown for variable in tracked.rule.tracked)
    return f"{' and '.join(labels)} (% of average)"


def dashboard(result: TestResult, left: HeatMap | Curves | None) -> Iterator[Figure]:
    """Yield the figure of the first page: ``left``, and every tracked variable over its rounds; none without data."""
    shown, tracked, about = shown_series(result), None, []
    if isinstance(left, Curves):
        about.append(f"{left.heading} against time{', log scale' if timelines.is_wide(left.curves) else ''}.")
    elif left is not None:
        about.append(f"{left.caption}.{matrices.shown_marks(left.marks)}")
    if lines := convergence(shown):
        tracked = TrackedLines(heading=_percent_heading(shown), lines=lines, styles=tracked_styles(result, shown))
        basis = "window" if all(series.window for series in shown) else "rounds"
        noun, (above, below) = f"tracked variable{'s' * (len(lines.series) != 1)}", lines.bounds
        about.append(
            f"{noun} over all rounds, in percent of the average of the {basis}; dashed: {above}, dotted: {below}."
            f"{_axis_note(lines.series, lines.bounds)}"
        )
    if not about:
        return
    text = f"Left: {about[0]} Right: {about[1]}" if len(about) > 1 else f"{about[0][0].upper()}{about[0][1:]}"
    yield Figure(
        name="dashboard",
        caption=text,
        alt=f"{'Two small plots' if len(about) > 1 else 'A small plot'}. {text}",
        draw=partial(draw_dashboard, left, tracked),
        height=DASHBOARD_HEIGHT,
    )
