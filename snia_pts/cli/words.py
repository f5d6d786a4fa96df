"""Words that several verbs use, as text.  Nothing here prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..dut import Dut
from ..measurement import METRICS
from ..spec import Deviation, ProfileSpec, Spec, Tracked
from ..steadystate import SteadyState
from ..steps import Demand, mix
from ..units import THIN, block_size, capacity, counted, number


def dut_words(dut: Dut) -> str:
    """A target in a few words: model, serial, capacity."""
    serial = f", serial {dut.serial}" if dut.serial else ""
    size = capacity(dut.capacity_bytes) if dut.capacity_bytes else "unknown capacity"
    return f"{dut.model or 'unknown model'}{serial}, {size}"


def called(spec: Spec) -> str:
    """What is run, in words: ``IOPS test``, or a profile's title."""
    return spec.title if isinstance(spec, ProfileSpec) else f"{spec.title} test"


def destruction_lines(dut: Dut, found: tuple[str, ...]) -> Iterator[str]:
    """What will be lost, for the operator to see before the word is typed."""
    yield "Everything on this target will be destroyed:"
    yield f"  {dut.path}  {dut_words(dut)}"
    yield f"  on it: {', '.join(found)}" if found else "  on it: no file system or partition table is recognised"


def variable(tracked: Tracked) -> str:
    """A tracked variable in a few words: ``IOPS 4 KiB 0/100``, ``IOPS T32Q32``, ``Throughput 0/100``."""
    words = [METRICS[tracked.metric].label]
    if tracked.block_size_bytes is not None:
        words.append(block_size(tracked.block_size_bytes))
    if tracked.read_percent is not None:
        words.append(mix(tracked.read_percent))
    if tracked.thread_count is not None and tracked.queue_depth is not None:
        words.append(Demand(thread_count=tracked.thread_count, queue_depth=tracked.queue_depth).label)
    return " ".join(words)


def valued(tracked: Tracked, value: float) -> str:
    """A tracked variable with a value: ``IOPS 4 KiB 0/100 12 345``, ``Throughput 0/100 475.2 MB/s``."""
    unit = METRICS[tracked.metric].unit
    return f"{variable(tracked)} {number(value)}{'' if unit == METRICS[tracked.metric].label else f' {unit}'}"


def excursions(determinations: Iterable[tuple[Tracked, SteadyState]]) -> str:
    """The tracked variables' excursions in a few words."""
    return "; ".join(f"{variable(tracked)} {_percents(state)}" for tracked, state in determinations)


def _percents(state: SteadyState) -> str:
    if not state.evaluable:
        return "not evaluable"
    return f"data {state.data_excursion_percent:.1f} %, slope {state.slope_excursion_percent:.1f} %"


def deviation_lines(deviations: Sequence[Deviation], authority: str) -> Iterator[str]:
    """Every difference from what a run is held against, a line each."""
    yield ""
    if not deviations:
        yield f"No deviation from {authority}."
        return
    yield f"{counted(len(deviations), 'deviation')} from {authority}:"
    for deviation in deviations:
        yield f"  {deviation.what}: {deviation.actual}; {authority}: {deviation.standard} ({deviation.clause})"


def printable(text: str) -> str:
    """A text of a device or an operator with a question mark for every letter that a terminal would not print."""
    return "".join(letter if letter.isprintable() or letter == THIN else "?" for letter in text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of columns, the first leaning left, the others right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((f"  {first.ljust(widths[0])}", *cells)).rstrip()
