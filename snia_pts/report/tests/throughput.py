"""The pages of the throughput test's report (PTS 2.0.2 chapter 8): each block size is a separate test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ...model.measurement import METRICS
from ...model.steps import mix
from ...results.result import Loop, TestResult
from ...spec import ThroughputSpec
from ...units import block_size
from ..figures import figure as figures
from ..figures import matrices
from ..figures.dashboard import heat_map
from ..figures.style import series_styles
from ..header import Rows, chart_conditions, demand, loop_setup, pattern, range_and_amount, window_rounds
from ..pages import Figure, Page, Prose, slug
from ..sections.array import predicted_throughput_page
from ..sections.convergence import convergence_page, dashboard
from ..sections.key_figures import key_figures, unsteady_points_note, values_note
from ..sections.provenance import provenance
from ..sections.steady_state import rounds_page, spans, too_few, window_pages
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE

Result = TestResult[ThroughputSpec]

_METRIC = METRICS["mb_per_second"]
#: Names of the pure mixes by read share in percent.
_NAMES = {0: "Write", 100: "Read"}


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    loops = [loop for part in _parts(result) if (loop := result.loop(part)) is not None]
    measured = [page for loop in loops for page in (*_convergence(result, loop), *window_pages(result, loop))]
    first = summary(result, omitted=_omitted(result), figures=(*_dashboard(result, loops), *key_figures(result, loops)))
    predicted = predicted_throughput_page(result, loops)
    return (first, *measured, *rounds_page(result, *loops), *_matrix(result, loops), *predicted, provenance(result))


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    spec, parts = result.facts.spec, _parts(result)
    return loop_setup(result, spec, " / ".join(parts), parts)


def parameters(result: Result) -> Rows:
    """Return the Test Parameters: the first block size is Test Stimulus 1, the others are Test Stimulus 2."""
    spec, (first, *others) = result.facts.spec, _parts(result)
    toio = demand(spec.setup.thread_count, spec.setup.queue_depth)
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Test Stimulus 1", f"SEQ {first}"),
        ("RW Mix", ", ".join(map(mix, spec.rounds.read_percents))),
        ("Block Sizes", "each a separate test" if others else first),
        ("TOIO - TC/QD", toio),
        ("Steady State", _window(result, first)),
        ("Test Stimulus 2", f"SEQ {', '.join(others)}" if others else NOT_APPLICABLE),
        ("TOIO - TC/QD", toio if others else NOT_APPLICABLE),
        ("Steady State", "; ".join(_window(result, part) for part in others) or NOT_APPLICABLE),
    )


def _parts(result: Result) -> tuple[str, ...]:
    return tuple(map(block_size, result.facts.spec.rounds.block_sizes_bytes))


def _window(result: Result, part: str) -> str:
    loop = result.loop(part)
    return window_rounds(result, loop)


def _dashboard(result: Result, loops: Sequence[Loop]) -> Iterator[Figure]:
    judged, rounds = [loop for loop in loops if loop.window is not None], result.facts.spec.rounds
    values = matrices.reduced(judged, matrices.mb_per_second)
    sizes, _ = matrices.measured_sizes(matrices.sizes(rounds), values)
    marks = matrices.marks(result, judged)
    caption, mixes = f"{_METRIC.heading}, {_mean_over(judged)}", matrices.mixes(rounds)
    yield from dashboard(result, heat_map(values, sizes, mixes, heading=_METRIC.heading, caption=caption, marks=marks))


def _omitted(result: Result) -> str:
    """Return a sentence on the pages that have no data, and why; empty if all have data."""
    sentences, rule = [], result.facts.spec.steady_state
    for part in _parts(result):
        loop = result.loop(part) or Loop(part=part, rounds=(), window=None)
        if loop.window is None:
            missing = "measurement window" if loop.complete else "convergence plots, measurement window, rounds"
            reason = too_few(loop.complete, rule, part=part)
            sentences.append(f"{reason} {missing[0].upper()}{missing[1:]} of {part} omitted: no data.")
    if len(sentences) == len(_parts(result)):
        sentences.append("Tabular data and 2D plot omitted: no data.")
    return " ".join(sentences)


def _convergence(result: Result, loop: Loop) -> Iterator[Page]:
    spec = result.facts.spec
    for share in sorted(spec.rounds.read_percents):
        name = _NAMES.get(share, f"R/W {mix(share)}")
        yield from convergence_page(
            loop,
            _METRIC,
            matrices.size_and_mix,
            {(size, share): block_size(size) for size in sorted(spec.rounds.block_sizes_bytes)},
            title=f"{spec.title} Steady State Convergence Plot - SEQ {loop.part} {name}",
            name=slug(f"convergence {loop.part} {share}"),
            caption=f"Throughput of SEQ {loop.part} over all rounds, R/W {mix(share)}, "
            f"TOIO {demand(spec.setup.thread_count, spec.setup.queue_depth)}. {chart_conditions(result)}.",
            legend="Block size",
            log=False,
        )


def _matrix(result: Result, loops: Sequence[Loop]) -> Iterator[Page]:
    spec, judged = result.facts.spec, [loop for loop in loops if loop.window is not None]
    if not judged:
        return
    values = matrices.reduced(judged, matrices.mb_per_second)
    in_order = matrices.sizes(spec.rounds).in_order(spec.rounds.block_sizes_bytes)
    sizes, _ = matrices.measured_sizes(in_order, values)
    mixes, mean_over = matrices.mixes(spec.rounds), _mean_over(judged)
    name = f"{spec.title} - SEQ {' & '.join(loop.part for loop in judged)}"
    marks, heading = matrices.marks(result, judged), f"Throughput (MB/s, decimal), {mean_over}"
    tables = matrices.matrix_tables(values, sizes, mixes, title=heading, marks=marks)
    has_mixes = any(0 < share < 100 for share in spec.rounds.read_percents)
    sentences = (
        "1 MB/s is 1 000 000 bytes per second.",
        "Throughput of a mixed point includes reads and writes." * has_mixes,
        unsteady_points_note(result, judged),
        matrices.foot(marks.values()),
    )
    explanation = " ".join(filter(None, sentences))
    flows = not matrices.fits_a_page(sizes, mixes)
    values_page = f"{name} - Tabular Data"
    yield Page(title=values_page, blocks=(*tables, Prose(text=explanation)), flows=flows)
    by_mix = {(share, size): value for (size, share), value in values.items()}
    styles = series_styles(matrices.sizes(spec.rounds).keys)
    named = replace(sizes, title="Block size", labels=tuple(map(block_size, sizes.keys)))
    yield Page(
        title=f"{name} - 2D Plot",
        blocks=(
            Figure(
                name="matrix-2d",
                caption=f"Throughput of each R/W mix, one bar per block size; {mean_over}."
                f"{values_note(result, judged, values_page)}",
                alt="Bars from zero: throughput in MB/s, a group for each R/W mix, one bar per block size.",
                draw=partial(figures.matrix_bars, by_mix, mixes, named, heading=_METRIC.heading, styles=styles),
            ),
        ),
    )


def _mean_over(judged: Sequence[Loop]) -> str:
    """Return the words on the rounds of the values: ``each block size: mean over its rounds 1 - 5``."""
    windows = {(loop.window.numbers if loop.window else (), loop.steady) for loop in judged}
    if len(judged) > 1 and len(windows) == 1:
        return f"each block size: mean over its {spans(judged[:1])}"
    return f"mean over {spans(judged)}"
