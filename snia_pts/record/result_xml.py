"""Writes result.xml: the result of a run for other programs, valid against ``specs/result.xsd``.

It uses only the standard library, so that the result is written even if a library cannot be loaded.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .. import __version__
from ..analysis.operating_points import alternative_points, demand_means, operating_points
from ..analysis.window import Window
from ..errors import RecordError
from ..files import open_regular, read_regular
from ..model.annotations import Annotations
from ..model.array import BuiltArray
from ..model.health import changes
from ..model.host_ceiling import Ceiling
from ..model.measurement import Measurement
from ..model.telemetry import TelemetrySample
from ..model.test_platform import TestPlatform
from ..model.time_series import COLUMNS, TELEMETRY_COLUMNS, TimeLine
from ..results.attributes import (
    determination_figures,
    dut_attributes,
    finite_or_none,
    host_settings,
    measurement_figures,
    repeated_points,
    run_attributes,
    sizes,
    specification_attributes,
    stimulus_attributes,
    tail_attributes,
    tails,
    window_points,
)
from ..results.imported import Imported
from ..results.limit_checks import judgements
from ..results.result import Gap, Loop, Sampling, TestResult
from ..results.warnings import run_warnings
from ..spec import DemandSpec, Tracked
from ..spec.reader import spec_values
from ..text import printable

FORMAT = 1
#: Maximum number of samples in a column: XML libraries limit the length of a text (10 MB).
_MAX_SAMPLES = 100_000
#: Placeholder for a column's text until it is written.  No other text contains it, because ``printable`` removes it.
_PLACEHOLDER = "\0"
#: Numbers formatted at a time.
_CHUNK_NUMBERS = 4096
#: Elements that only come after the limits.
_AFTER_LIMITS = ("purge", "loop", "sampling", "time_line", "conclusion")
#: More chunks than the attributes of the first element need.
_MAX_HEAD_CHUNKS, _HEAD_CHUNK_BYTES = 64, 4096
#: Fields of a purge that are written as deviations and warnings, or are the same for all purges.
_REPORTED_ELSEWHERE = ("kind", "deviations", "remarks")


def result_xml(result: TestResult) -> bytes:
    """Return the content of result.xml; the same result gives the same bytes.

    Raises RecordError if it is not valid against the schema, which is a bug of the suite.
    """
    from .document import parse

    document = b"".join(chunks(result))
    parse(document, "result.xml")
    return document


def chunks(result: TestResult) -> Iterator[bytes]:
    """Iterate over the text of result.xml without validation, a part of a column of samples at a time.

    The whole text of a long run would take more memory than everything else.  Uses only the standard library.
    """
    columns: list[tuple[array[float], range]] = []
    first, *others = _document(result, columns).split(_PLACEHOLDER.encode())
    yield first
    for column, following in zip(columns, others, strict=True):
        yield from _column(*column)
        yield following
    yield b"\n"


def _document(result: TestResult, columns: list[tuple[array[float], range]]) -> bytes:
    """Return the text with ``_PLACEHOLDER`` for each column of samples, which is appended to ``columns``."""
    root = _element(None, "result", {"format": FORMAT, "suite_version": __version__})
    _run(root, result)
    _about(root, result.facts.about)
    _specification(root, result)
    _imported(root, result.facts.imported)
    _array(_element(root, "dut", dut_attributes(result.facts.dut)), result.facts.dut.array)
    _platform(root, result.facts.platform)
    for ceiling in result.facts.ceilings:
        _ceiling(root, ceiling)
    _notices(root, result)
    for judgement in judgements(result):
        _element(root, "limit", judgement.attributes)
    for interruption in result.interruptions:
        fields = asdict(interruption)
        _element(root, "interruption", {key: fields[key] for key in fields if key != "changes"})
    for part, purge in result.purges:
        fields = asdict(purge)
        selected = {key: fields[key] for key in fields if key not in _REPORTED_ELSEWHERE}
        _element(root, "purge", {"part": part, **selected})
    _prepared(root, result)
    for loop in result.loops:
        _loop(root, result, loop)
    _repeated_points(root, result)
    if result.sampling:
        _sampling(root, result.sampling)
    for line in result.time_lines:
        _time_line(root, result, line, columns)
    for tail in tails(result):
        _element(root, "percentiles", tail_attributes(tail))
    _gaps(root, result.gaps)
    if result.conclusion:
        _element(root, "conclusion", {"reason": result.conclusion.reason})
    _operating_points(root, result)
    _health(root, result)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return text


def differences(path: Path, expected: bytes) -> tuple[str, ...]:
    """Return a sentence for each difference between the stored result.xml and the expected one."""
    from .document import MAX_BYTES, compare, parse

    try:
        document = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error)) from None
    return () if document == expected else tuple(compare(parse(document, str(path)), parse(expected, "result.xml")))


def stored_verdict(path: Path, run_id: str, finished: str) -> str:
    """Return the verdict in result.xml, reading only its start.

    Empty if it cannot be read, or if it is older than the end of the run at ``finished``.
    """
    return _stored(path, run_id, finished, lambda head: head.run is not None).verdict


def stored_missed_limits(path: Path, run_id: str, finished: str) -> bool:
    """Return whether a limit in result.xml is not met, reading what stands before the measurements.

    False if that cannot be read, or if it is older than the end of the run at ``finished``.
    """
    return _stored(path, run_id, finished, lambda head: head.has_limits).missed_limits


def _stored(path: Path, run_id: str, finished: str, has_enough: Callable[[_Head], bool]) -> _Head:
    """Return the start of result.xml, an empty one if it cannot be read or is older than the end of the run."""
    head = _Head()
    parser = ElementTree.XMLParser(target=head)  # noqa: S314 - _Head refuses a document type, which makes it dangerous
    try:
        with open_regular(path) as file:
            for _ in range(_MAX_HEAD_CHUNKS):
                parser.feed(file.read(_HEAD_CHUNK_BYTES))
                if has_enough(head):
                    break
    except (OSError, ElementTree.ParseError):
        return _Head()  # assess reports the error
    expected = {"id": _text(run_id), "finished": finished, "ending": "finished"}
    return head if head.run and expected.items() <= head.run.items() else _Head()


class _Head:
    """Receives the start of a result document from its parser; refuses a document type, which can define entities."""

    run: Mapping[str, str] | None = None
    #: All limits were read.
    has_limits = False
    missed_limits = False

    @property
    def verdict(self) -> str:
        """The verdict of the run; empty if it was not read."""
        return self.run.get("verdict", "") if self.run else ""

    def doctype(self, *_: object) -> None:
        raise ElementTree.ParseError("it has a document type declaration, which is not allowed")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "run" and self.run is None:
            self.run = attributes
        elif tag == "limit":
            self.missed_limits |= attributes.get("met") != "true"
        elif tag in _AFTER_LIMITS:
            self.has_limits = True


def _imported(root: Element, imported: Imported | None) -> None:
    if imported is not None:
        fields = asdict(imported)
        claim, options, more_files = (fields.pop(name) for name in ("claim", "options", "more_files"))
        element = _element(root, "imported", {**fields, "options": " ".join(options)})
        for file in more_files:
            _element(element, "file", file)
        if claim is not None:
            lists = {name: " ".join(map(_text, claim[name])) for name in ("rounds", "values")}
            _element(element, "claim", {**claim, **lists})


def _array(dut: Element, array: BuiltArray | None) -> None:
    """Add the array that was created for the run: its layout, its controller's properties, its members in order."""
    if array is None:
        return
    layout, speeds = array.layout, array.speeds
    policies = {name: getattr(layout, name) or None for name in ("write_policy", "read_policy", "io_policy")}
    values: dict[str, object] = {
        "controller": layout.controller,
        "version": array.version,
        "level": layout.level,
        "chunk_bytes": layout.chunk_bytes,
        "device": layout.device,
        "sync": layout.sync,
        "bitmap": layout.bitmap,
        **policies,
    }
    element = _element(dut, "array", values)
    for member in array.members:
        _element(element, "member", asdict(member))
    for name, value in array.properties:
        _element(element, "property", {"name": name, "value": value})
    for share, iops in speeds.iops if speeds else ():
        _element(element, "member_speed", {"read_percent": share, "iops": iops, "source": speeds and speeds.source})


def _platform(root: Element, platform: TestPlatform) -> None:
    fields = asdict(platform)
    settings = fields.pop("settings")
    element = _element(root, "platform", fields)
    for setting in settings:
        _element(element, "setting", setting)


def _notices(root: ElementTree.Element, result: TestResult) -> None:
    """Add what a reader must know before any number."""
    for deviation in result.deviations:
        _element(root, "deviation", asdict(deviation))
    for plugin in result.facts.plugins:
        _element(root, "plugin", {**asdict(plugin), "parts": ", ".join(plugin.parts)})
    for setting in result.facts.settings:
        _element(root, "operator_setting", asdict(setting))
    for warning in run_warnings(result):
        _element(root, "warning", asdict(warning))


def _run(root: Element, result: TestResult) -> None:
    run = _element(root, "run", {"id": result.facts.run_id, **run_attributes(result)})
    for argument in result.facts.command_line:
        _element(run, "argument", {"value": argument})


def _about(root: Element, about: Annotations) -> None:
    digest = hashlib.sha256(about.png).hexdigest() if about.logo else None
    attributes = {"vendor": about.vendor, "nand_type": about.nand_type, "hba": about.hba, "logo_sha256": digest}
    attributes |= {name: getattr(about, name) or None for name in ("model", "serial", "firmware", "capacity")}
    attributes |= {name: getattr(about.sign_off, name) or None for name in ("approved_by", "auditor") if about.sign_off}
    if about.notes or about.features or any(attributes.values()):
        element = _element(root, "about", attributes)
        for note in about.notes:
            _element(element, "note", {"value": note})
        for feature in about.features:
            _element(element, "feature", asdict(feature))


def _specification(root: Element, result: TestResult) -> None:
    element = _element(root, "specification", specification_attributes(result))
    for key, value in spec_values(result.facts.spec):
        _element(element, "number", {"key": key, "value": value})


def _ceiling(root: Element, ceiling: Ceiling) -> None:
    shape = ceiling.shape
    values = {
        "side": shape.side,
        "access": shape.access,
        **sizes(shape.block_size_bytes),
        "thread_count": shape.thread_count,
        "queue_depth": shape.queue_depth,
        "iops": ceiling.iops,
        "engine_cpu_percent": ceiling.engine_cpu_percent,
    }
    _element(root, "ceiling", values)


def _prepared(root: Element, result: TestResult) -> None:
    """Add the host settings that were applied for points."""
    for part, outcome in result.prepared:
        values = {"part": part, "started": outcome.started, "seconds": outcome.seconds}
        element = _element(root, "prepared", values)
        for setting in host_settings(outcome):
            _element(element, "host_setting", setting)


def _repeated_points(root: Element, result: TestResult) -> None:
    """Add the named points over all repeats."""
    for point in repeated_points(result):
        element = _element(root, "point", {**stimulus_attributes(point.stimulus), **point.figures})
        for key, value in point.axis_values.items():
            _element(element, "axis_value", {"key": key, "value": value})


def _loop(root: Element, result: TestResult, loop: Loop) -> None:
    parent = _element(root, "loop", {"part": loop.part})
    for measured in loop.rounds:
        element = _element(parent, "round", {"number": measured.number, "complete": measured.complete})
        for measurement in measured.measurements:
            _measurement(element, result, measurement)
    if loop.window is None:
        return
    window = _window(parent, loop.window)
    for stimulus, figures in window_points(result, loop):
        _element(window, "point", {**stimulus_attributes(stimulus), **figures})


def _sampling(root: Element, sampling: Sampling) -> None:
    parent = _element(root, "sampling", {"phase": sampling.phase})
    for measured in sampling.rounds:
        sample = measured.sample
        values: dict[str, object] = {
            "number": measured.number,
            "minute": measured.minute,
            "fills": measured.fills,
            "iops": sample.iops,
            "mb_per_second": sample.mb_per_second,
            "average_response_us": finite_or_none(sample.average_response_us),
        }
        _element(parent, "round", values)
    if sampling.window:
        _window(parent, sampling.window)


def _window(parent: Element, window: Window) -> Element:
    numbers = window.numbers
    values = {"first": numbers[0], "last": numbers[-1], "steady": window.steady, "fills": window.fills}
    element = _element(parent, "window", values)
    for tracked, determination in window.determinations:
        _element(element, "determination", {**_tracked_attributes(tracked), **determination_figures(determination)})
    return element


def _tracked_attributes(tracked: Tracked) -> Mapping[str, object]:
    return {
        "metric": tracked.metric,
        "read_percent": tracked.read_percent,
        "block_size_bytes": tracked.block_size_bytes,
        "thread_count": tracked.thread_count,
        "queue_depth": tracked.queue_depth,
    }


def _time_line(root: Element, result: TestResult, line: TimeLine, columns: list[tuple[array[float], range]]) -> None:
    """Add a time line; append the values and rows of each of its columns to ``columns``."""
    facts = {"phase": line.phase, "part": line.part, "engine_starts": line.engine_starts, "complete": line.complete}
    parent = _element(root, "time_line", {**facts, **stimulus_attributes(line.stimulus)})
    for measurement in line.measurements:
        _measurement(parent, result, measurement)
    telemetry_columns = [name for name in TELEMETRY_COLUMNS if not all(map(math.isnan, getattr(line, name)))]
    for first in range(0, len(line), _MAX_SAMPLES) or (0,):
        count = min(_MAX_SAMPLES, len(line) - first)
        element = _element(parent, "samples", {"count": count})
        for name in (*COLUMNS, *telemetry_columns):
            _element(element, name, {}).text = _PLACEHOLDER
            columns.append((getattr(line, name), range(first, first + count)))


def _column(values: array[float], rows: range) -> Iterator[bytes]:
    """Iterate over the text of a column's rows."""
    for first in range(0, len(rows), _CHUNK_NUMBERS):
        chunk = rows[first : first + _CHUNK_NUMBERS]
        text = " ".join(map(_text, values[chunk.start : chunk.stop]))
        yield (" " * (first > 0) + text).encode()


def _gaps(root: Element, gaps: Sequence[Gap]) -> None:
    """Add the times without host I/O, grouped by part and requested time."""
    grouped: dict[tuple[str, float | None], list[Gap]] = {}
    for gap in gaps:
        grouped.setdefault((gap.part, gap.requested_seconds), []).append(gap)
    for (part, requested_seconds), group in grouped.items():
        idle_ms, suite_us = [gap.idle_ms for gap in group], [gap.suite_us for gap in group]
        values: dict[str, object] = {
            "part": part,
            "requested_seconds": requested_seconds,
            "count": len(group),
            "minimum_ms": min(idle_ms),
            "median_ms": statistics.median(idle_ms),
            "worst_ms": max(idle_ms),
            "suite_median_us": statistics.median(suite_us),
            "suite_worst_us": max(suite_us),
            "disturbed": sum(gap.disturbed for gap in group) or None,
        }
        _element(root, "gaps", values)


def _operating_points(root: Element, result: TestResult) -> None:
    spec, loop = result.facts.spec, result.loop()
    if not isinstance(spec, DemandSpec) or loop is None:
        return
    means = demand_means(loop.window_rounds)
    alternatives = alternative_points(means, spec.operating_points)
    for point in operating_points(means, spec.operating_points):
        values: dict[str, object] = {
            "name": point.name,
            **asdict(point.demand),
            "iops": point.iops,
            "average_response_us": finite_or_none(1000 * point.art_ms),
            "target_iops": point.target_iops,
            "candidates": " ".join(candidate.demand.label for candidate in point.candidates),
            "alternatives": " ".join(candidate.demand.label for candidate in alternatives[point.name]) or None,
        }
        _element(root, "operating_point", values)


def _measurement(parent: Element, result: TestResult, measurement: Measurement) -> None:
    figures = measurement_figures(result, measurement)
    element = _element(parent, "measurement", {**figures, "interruptions": figures["interruptions"] or None})
    if measurement.telemetry is not None:
        _telemetry(element, measurement.telemetry)


def _telemetry(parent: Element, telemetry: TelemetrySample) -> None:
    fields = asdict(telemetry)
    block, underlying = (_block(fields.pop(name)) for name in ("block", "underlying"))
    processes = fields.pop("processes")
    power = fields.pop("power") or {}
    meter = {"watts": power.get("watts"), "power_readings": power.get("readings"), "power_source": power.get("source")}
    element = _element(parent, "telemetry", {**fields, **meter, **block})
    if underlying:
        _element(element, "underlying", underlying)
    for process in processes:
        _element(element, "process", process)


def _block(statistics: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return the attributes of a device's statistics; empty if there are none."""
    if statistics is None:
        return {}
    return {**statistics, "discarded_bytes": statistics["discarded_bytes"] or None}


def _health(root: Element, result: TestResult) -> None:
    """Add the drive's health data before and after the run."""
    before, after = result.facts.health, result.health_after
    if before is None and after is None:
        return
    parent = _element(root, "health", {"before": before and before.read_at, "after": after and after.read_at})
    for change in changes(before, after):
        _element(parent, "figure", {**asdict(change), "role": change.role or None, "unit": change.unit or None})
    for reading in filter(None, (before, after)):
        for reason in reading.unread:
            _element(parent, "unread", {"at": reading.read_at, "reason": reason})
    for reading in filter(None, (before, after)):
        for text in reading.texts:
            _element(parent, "text", {"at": reading.read_at, **asdict(text)})
    amplification = result.write_amplification
    if amplification:
        _element(parent, "write_amplification", {"factor": amplification.factor, **asdict(amplification)})


def _element(parent: Element | None, tag: str, attributes: Mapping[str, object]) -> Element:
    """Create an element; omit attributes whose value is None."""
    texts = {name: _text(value) for name, value in attributes.items() if value is not None}
    return Element(tag, texts) if parent is None else SubElement(parent, tag, texts)


def _text(value: object) -> str:
    """Format a value so that it reads back bit for bit."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")
    return printable(str(value), lines=True)
