"""Formats values that several verbs print.  Nothing here prints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from ...analysis.steady_state import SteadyState
from ...model.measurement import METRICS
from ...model.steps import Demand, mix
from ...spec import Deviation, OperatorSetting, Tracked, default_of
from ...text import json_values
from ...units import block_size, counted, number


def json_text(document: object) -> str:
    """Return a document as JSON, with null for every NaN and infinity, and with texts made printable."""
    return json.dumps(json_values(document), indent=1, allow_nan=False)


def format_tracked(tracked: Tracked) -> str:
    """Format a Tracked Variable: ``IOPS 4 KiB 0/100``, ``IOPS T32Q32``, ``Throughput 0/100``."""
    words = [METRICS[tracked.metric].label]
    if tracked.block_size_bytes is not None:
        words.append(block_size(tracked.block_size_bytes))
    if tracked.read_percent is not None:
        words.append(mix(tracked.read_percent))
    if tracked.thread_count is not None and tracked.queue_depth is not None:
        words.append(Demand(thread_count=tracked.thread_count, queue_depth=tracked.queue_depth).label)
    return " ".join(words)


def format_tracked_value(tracked: Tracked, value: float) -> str:
    """Format a Tracked Variable with its value: ``IOPS 4 KiB 0/100 12 345``, ``Throughput 0/100 475.2 MB/s``."""
    unit = METRICS[tracked.metric].unit
    return f"{format_tracked(tracked)} {number(value)}{'' if unit == METRICS[tracked.metric].label else f' {unit}'}"


def excursions(determinations: Iterable[tuple[Tracked, SteadyState]]) -> str:
    """Format the excursions of the Tracked Variables."""
    return "; ".join(f"{format_tracked(tracked)} {_percents(state)}" for tracked, state in determinations)


def _percents(state: SteadyState) -> str:
    if not state.evaluable:
        return "not evaluable"
    data, slope = state.percent_texts(decimals=1)
    return f"data {data} %, slope {slope} %"


def deviation_lines(deviations: Sequence[Deviation], authority: str) -> Iterator[str]:
    """Yield a line for each deviation from ``authority``, such as the standard."""
    yield ""
    if not deviations:
        yield f"No deviation from {authority}."
        return
    yield f"{counted(len(deviations), 'deviation')} from {authority}:"
    for deviation in deviations:
        text = f"{default_of(deviation, authority)}: {deviation.standard}"
        yield f"  {deviation.what}: {deviation.actual}; {text} ({deviation.clause})"


def setting_lines(settings: Sequence[OperatorSetting]) -> Iterator[str]:
    """Yield a line for each of the operator's choices that differs from the default."""
    if settings:
        yield f"{counted(len(settings), 'setting')} that the operator may choose:"
    for setting in settings:
        yield f"  {setting.what}: {setting.actual}; {default_of(setting)}: {setting.standard} ({setting.clause})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, the first column aligned left, the others right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((f"  {first.ljust(widths[0])}", *cells)).rstrip()
