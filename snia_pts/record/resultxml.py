"""result.xml: the result of a run for other programs, valid against ``specs/result.xsd``."""

from __future__ import annotations

import math
import re
import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from lxml import etree

from .. import __version__
from ..demand import demand_means, operating_points
from ..errors import RecordError
from ..files import read_regular
from ..histogram import Histogram
from ..measurement import NINES, Measurement, Transfers, average_response_us, mean
from ..result import Gap, Loop, Sampling, TestResult
from ..spec import DemandSpec, Spec, Tracked
from ..specfile import shown
from ..steadystate import SteadyState
from ..steps import Stimulus
from ..timeline import TimeLine
from ..window import Window
from .document import LARGEST_BYTES, compare, parse

FORMAT = 1
#: The columns of a time line's samples, in the order of the document.
COLUMNS = (
    "ended_seconds", "seconds", "read_ios", "write_ios", "read_bytes", "write_bytes", "average_response_us",
    "maximum_response_us", "three_nines_us", "four_nines_us", "five_nines_us",
)  # fmt: skip
_NINES = ("three_nines_response_us", "four_nines_response_us", "five_nines_response_us")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def result_xml(result: TestResult) -> bytes:
    """Return the whole of result.xml; the same result gives the same bytes.

    Raises RecordError when it would not be valid against the schema: that is a mistake of the suite.
    """
    root = _element(None, "result", {"format": FORMAT, "suite_version": __version__})
    _run(root, result)
    _specification(root, result)
    _element(root, "dut", asdict(result.facts.dut))
    _element(root, "platform", asdict(result.facts.platform))
    for deviation in result.deviations:
        _element(root, "deviation", asdict(deviation))
    for warning in result.warnings:
        _element(root, "warning", asdict(warning))
    for interruption in result.interruptions:
        told = asdict(interruption)
        _element(root, "interruption", {key: told[key] for key in told if key != "changes"})
    for part, purged in result.purges:
        told = asdict(purged)
        _element(root, "purge", {"part": part, **{key: told[key] for key in told if key not in ("kind", "deviations")}})
    for loop in result.loops:
        _loop(root, loop)
    if result.sampling:
        _sampling(root, result.sampling)
    for line in result.time_lines:
        _time_line(root, line)
    _gaps(root, result.gaps)
    if result.conclusion:
        _element(root, "conclusion", {"reason": result.conclusion.reason})
    _operating_points(root, result)
    document = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    parse(document, "result.xml")
    return document


def differences(path: Path, result: TestResult) -> tuple[str, ...]:
    """Return where the stored result.xml and ``result`` differ, a sentence each; nothing when they agree."""
    try:
        document = read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error)) from None
    return tuple(compare(parse(document, str(path)), parse(result_xml(result), "result.xml")))


def _run(root: etree._Element, result: TestResult) -> None:
    facts = result.facts
    words = {
        "id": facts.run_id, "started": facts.started, "finished": result.finished, "ending": result.ending,
        "detail": result.ending_detail, "verdict": result.verdict, "conformant": result.conformant,
        "seed": facts.seed, "operator": facts.operator, "written_bytes": int(result.written_bytes),
        "read_bytes": int(result.read_bytes),
    }  # fmt: skip
    run = _element(root, "run", words)
    for argument in facts.command_line:
        _element(run, "argument", {"value": argument})


def _specification(root: etree._Element, result: TestResult) -> None:
    spec = result.facts.spec
    words = {
        "test": spec.test, "pts": spec.pts, "class": result.facts.test_class, "revision": spec.revision,
        "title": spec.title, "publication": spec.publication,
    }  # fmt: skip
    element = _element(root, "specification", words)
    for key, value in numbers(spec):
        _element(element, "number", {"key": key, "value": value})


def numbers(spec: Spec) -> Iterator[tuple[str, str]]:
    """Give every number of a specification with its dotted key; what has a name in a list is found by that name."""
    for field in fields(spec):
        item = getattr(spec, field.name)
        if not isinstance(item, str):
            yield from _numbers(item, field.name)


def _numbers(value: Any, key: str, known: str = "") -> Iterator[tuple[str, str]]:
    """Give what ``value`` holds; the field ``known`` stands in the key already."""
    if is_dataclass(value):
        for field in fields(value):
            if field.name != known:
                yield from _numbers(getattr(value, field.name), f"{key}.{field.name}")
    elif isinstance(value, tuple) and value and hasattr(value[0], "name"):
        for entry in value:
            yield from _numbers(entry, f"{key}.{entry.name}", "name")
    elif value is not None:
        yield key, shown(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(entry) for name, entry in asdict(value).items() if entry is not None}
    return value


def _loop(root: etree._Element, loop: Loop) -> None:
    parent = _element(root, "loop", {"part": loop.part})
    for measured in loop.rounds:
        element = _element(parent, "round", {"number": measured.number, "complete": measured.complete})
        for measurement in measured.measurements:
            _measurement(element, measurement)
    if loop.window is None:
        return
    window = _window(parent, loop.window)
    for stimulus, figures in window_points(loop):
        _element(window, "point", {**described(stimulus), **figures})


def window_points(loop: Loop) -> Iterator[tuple[Stimulus, Mapping[str, float | None]]]:
    """Give every point of a loop with its means over the window, by their names in result.xml."""
    keyed = [measured.by(_place) for measured in loop.window_rounds]
    for stimulus in keyed[0] if keyed else ():
        yield stimulus, _means([points[stimulus] for points in keyed])


def _place(stimulus: Stimulus) -> Stimulus:
    """The same point of every round: a sequential stream begins elsewhere in each."""
    return replace(stimulus, start_bytes=0)


def _means(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """The figures of a point over a window; response times are of all its I/Os together."""
    greatest = [each.maximum_response_us for each in measured]
    busy = [each.host_cpu_percent for each in measured if each.host_cpu_percent is not None]
    return {
        "iops": mean(each.iops for each in measured),
        "mb_per_second": mean(each.mb_per_second for each in measured),
        "average_response_us": _known(average_response_us(measured)),
        "maximum_response_us": max(greatest),
        "mean_maximum_response_us": mean(greatest),
        **percentiles(measured),
        "host_cpu_percent": mean(busy) if len(busy) == len(measured) else None,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def percentiles(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the confidence levels of merged bins in us, by their names in result.xml; None where I/Os are too few.

    None is above the greatest response time, which is known exactly.
    """
    merged = Histogram()
    for each in measured:
        merged = merged.merge(each.histogram)
    found = [merged.percentile_ns(percent) for percent in NINES]
    greatest = max(each.maximum_response_us for each in measured)
    return {
        name: None if value is None else min(value / 1000, greatest) for name, value in zip(_NINES, found, strict=True)
    }


def _sampling(root: etree._Element, sampling: Sampling) -> None:
    parent = _element(root, "sampling", {"phase": sampling.phase})
    for measured in sampling.rounds:
        sample = measured.sample
        values: dict[str, object] = {
            "number": measured.number, "minute": measured.minute, "iops": sample.iops,
            "mb_per_second": sample.mb_per_second, "average_response_us": sample.average_response_us,
        }  # fmt: skip
        _element(parent, "round", values)
    if sampling.window:
        _window(parent, sampling.window)


def _window(parent: etree._Element, window: Window) -> etree._Element:
    numbers = window.numbers
    element = _element(parent, "window", {"first": numbers[0], "last": numbers[-1], "steady": window.steady})
    for tracked, determination in window.determinations:
        _element(element, "determination", {**_key(tracked), **_figures(determination)})
    return element


def _key(tracked: Tracked) -> Mapping[str, object]:
    return {
        "metric": tracked.metric, "read_percent": tracked.read_percent, "block_size_bytes": tracked.block_size_bytes,
        "thread_count": tracked.thread_count, "queue_depth": tracked.queue_depth,
    }  # fmt: skip


def _figures(determination: SteadyState) -> Mapping[str, object]:
    figures = asdict(determination)
    figures.pop("values")
    return figures


def _time_line(root: etree._Element, line: TimeLine) -> None:
    facts = {"phase": line.phase, "part": line.part, "stretches": line.stretches, "complete": line.complete}
    parent = _element(root, "time_line", {**facts, **described(line.stimulus)})
    for measurement in line.measurements:
        _measurement(parent, measurement)
    element = _element(parent, "samples", {"count": len(line), "samples_per_row": line.samples_per_row})
    for name in COLUMNS:
        _element(element, name, {}).text = _column(getattr(line, name))


def _column(values: array[float]) -> str:
    return " ".join(map(_text, values))


def _gaps(root: etree._Element, gaps: Sequence[Gap]) -> None:
    """The times without host I/O, of each part and each time that was asked for together."""
    grouped: dict[tuple[str, float | None], list[Gap]] = {}
    for gap in gaps:
        grouped.setdefault((gap.part, gap.asked_seconds), []).append(gap)
    for (part, asked), group in grouped.items():
        idle, own = [gap.idle_ms for gap in group], [gap.own_us for gap in group]
        values: dict[str, object] = {
            "part": part, "asked_seconds": asked, "count": len(group), "median_ms": statistics.median(idle),
            "worst_ms": max(idle), "own_median_us": statistics.median(own), "own_worst_us": max(own),
        }  # fmt: skip
        _element(root, "gaps", values)


def _operating_points(root: etree._Element, result: TestResult) -> None:
    spec, loop = result.facts.spec, result.loop()
    if not isinstance(spec, DemandSpec) or loop is None:
        return
    for point in operating_points(demand_means(loop.window_rounds), spec.operating_points.maximum_art_ms):
        values: dict[str, object] = {
            "name": point.name, **asdict(point.demand), "iops": point.iops,
            "average_response_us": _known(1000 * point.art_ms), "wanted_iops": point.wanted_iops,
        }  # fmt: skip
        _element(root, "operating_point", values)


def _measurement(parent: etree._Element, measurement: Measurement) -> None:
    clocking = asdict(measurement.clocking)
    values: dict[str, object] = {
        **described(measurement.stimulus),
        "seed": measurement.seed,
        "iops": measurement.iops,
        "mb_per_second": measurement.mb_per_second,
        "average_response_us": measurement.average_response_us,
        "maximum_response_us": measurement.maximum_response_us,
        **percentiles([measurement]),
        **_transfers("read", measurement.read),
        **_transfers("write", measurement.write),
        **{key: clocking[key] for key in ("started", "own_gap_us", "idle_gap_ms")},
        "host_cpu_percent": measurement.host_cpu_percent,
        "evidence": measurement.evidence,
        "evidence_sha256": measurement.evidence_sha256,
        "interruptions": clocking["interruptions"] or None,
    }
    _element(parent, "measurement", values)


def described(stimulus: Stimulus) -> Mapping[str, object]:
    """Return a stimulus by the names of result.xml; None where something is as usual.

    A mix of sizes and a skew are lists of ``bytes:percent`` and of ``percent of accesses:percent of range``.
    """
    sizes = " ".join(f"{share.size_bytes}:{share.percent}" for share in stimulus.block_shares)
    skew = " ".join(f"{zone.access_percent}:{zone.range_percent}" for zone in stimulus.skew)
    return {
        "access": stimulus.access, "read_percent": stimulus.read_percent,
        "block_size_bytes": None if sizes else stimulus.block_size_bytes, "block_mix": sizes or None,
        "thread_count": stimulus.thread_count, "queue_depth": stimulus.queue_depth,
        "range_offset_bytes": stimulus.range_offset_bytes, "range_bytes": stimulus.range_bytes, "skew": skew or None,
        "start_bytes": stimulus.start_bytes or None, "seconds": stimulus.seconds, "passes": stimulus.passes,
        "limit_bytes": stimulus.limit_bytes,
    }  # fmt: skip


def _transfers(side: str, transfers: Transfers) -> Mapping[str, object]:
    return {
        f"{side}_ios": transfers.ios, f"{side}_bytes": transfers.transferred_bytes,
        f"{side}_runtime_ms": transfers.runtime_ms,
    }  # fmt: skip


def _element(parent: etree._Element | None, tag: str, attributes: Mapping[str, object]) -> etree._Element:
    """Make an element; None leaves its attribute out."""
    texts = {name: _text(value) for name, value in attributes.items() if value is not None}
    return etree.Element(tag, texts) if parent is None else etree.SubElement(parent, tag, texts)


def _text(value: object) -> str:
    """Write a value so that it reads back to the last bit."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
