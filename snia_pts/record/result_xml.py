"""result.xml: the result of a run for other programs, valid against ``specs/result.xsd``.

It is written with what Python brings along: the end of a run waits for no library that might not load then.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .. import __version__
from ..analysis.operating_points import demand_means, operating_points
from ..analysis.steady_state import SteadyState
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
from ..model.time_series import COLUMNS, VITALS, TimeLine
from ..results.imported import Imported
from ..results.limit_checks import judgements
from ..results.points import (
    dut_attributes,
    finite_or_none,
    percentiles,
    repeated_points,
    sizes,
    stimulus_attributes,
    transfers,
    whole_bytes_or_none,
    window_points,
)
from ..results.result import Gap, Loop, Sampling, TestResult
from ..spec import DemandSpec, Tracked
from ..spec.reader import numbers
from ..text import printable

FORMAT = 1
#: A column of more samples would be a longer text than XML libraries take (10 MB).
_MOST_SAMPLES = 100_000
#: Stands for a column's text until it is written; no other text has it, because ``printable`` removes it.
_PLACEHOLDER = "\0"
#: So many numbers are made into text at a time.
_CHUNK_NUMBERS = 4096
#: More pieces than the attributes of the first element take.
_HEAD_PIECES, _PIECE_BYTES = 64, 4096
#: What of a purge stands among the deviations and warnings, or is the same for all.
_TOLD_ELSEWHERE = ("kind", "deviations", "remarks")


def result_xml(result: TestResult) -> bytes:
    """Return the whole of result.xml; the same result gives the same bytes.

    Raises RecordError when it would not be valid against the schema: that is a mistake of the suite.
    """
    from .document import parse

    document = b"".join(chunks(result))
    parse(document, "result.xml")
    return document


def chunks(result: TestResult) -> Iterator[bytes]:
    """Iterate over the text of result.xml, a part of a column of samples at a time, without validation.

    The text of a long run is larger than all else in memory.  No library is loaded for it.
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
    for deviation in result.deviations:
        _element(root, "deviation", asdict(deviation))
    for setting in result.facts.settings:
        _element(root, "operator_setting", asdict(setting))
    for warning in result.warnings:
        _element(root, "warning", asdict(warning))
    for judgement in judgements(result):
        _element(root, "limit", judgement.told)
    for interruption in result.interruptions:
        told = asdict(interruption)
        _element(root, "interruption", {key: told[key] for key in told if key != "changes"})
    for part, purged in result.purges:
        told = asdict(purged)
        _element(root, "purge", {"part": part, **{key: told[key] for key in told if key not in _TOLD_ELSEWHERE}})
    _prepared(root, result)
    for loop in result.loops:
        _loop(root, result, loop)
    _repeated(root, result)
    if result.sampling:
        _sampling(root, result.sampling)
    for line in result.time_lines:
        _time_line(root, result, line, columns)
    _gaps(root, result.gaps)
    if result.conclusion:
        _element(root, "conclusion", {"reason": result.conclusion.reason})
    _operating_points(root, result)
    _health(root, result)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return text


def differences(path: Path, made: bytes) -> tuple[str, ...]:
    """Return where the stored result.xml and the one ``made`` now differ, a sentence each; nothing when they agree."""
    from .document import LARGEST_BYTES, compare, parse

    try:
        document = read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error)) from None
    return () if document == made else tuple(compare(parse(document, str(path)), parse(made, "result.xml")))


def stored_verdict(path: Path) -> str:
    """Return the verdict that result.xml holds, from its beginning alone; empty where it cannot be read."""
    parser: Any = ElementTree.XMLPullParser(["start"])
    try:
        with open_regular(path) as file:
            for _ in range(_HEAD_PIECES):
                parser.feed(file.read(_PIECE_BYTES))
                for _, element in parser.read_events():
                    if element.tag == "run":
                        return str(element.get("verdict", ""))
    except (OSError, ElementTree.ParseError):
        return ""  # assess tells what is wrong with it
    return ""


def _imported(root: Element, imported: Imported | None) -> None:
    if imported is not None:
        told = asdict(imported)
        claim, options = told.pop("claim"), told.pop("options")
        element = _element(root, "imported", {**told, "options": " ".join(options)})
        if claim is not None:
            lists = {name: " ".join(map(_text, claim[name])) for name in ("rounds", "values")}
            _element(element, "claim", {**claim, **lists})


def _array(dut: Element, array: BuiltArray | None) -> None:
    """The array that was made for the run: its layout, what its controller says of it, its members in order."""
    if array is None:
        return
    layout, speeds = array.layout, array.speeds
    chosen = {name: getattr(layout, name) or None for name in ("write_policy", "read_policy", "io_policy")}
    values: dict[str, object] = {
        "controller": layout.controller,
        "version": array.version,
        "level": layout.level,
        "chunk_bytes": layout.chunk_bytes,
        "device": layout.device,
        "sync": layout.sync,
        "bitmap": layout.bitmap,
        **chosen,
    }
    element = _element(dut, "array", values)
    for member in array.members:
        _element(element, "member", asdict(member))
    for name, value in array.told:
        _element(element, "told", {"name": name, "value": value})
    for share, iops in speeds.iops if speeds else ():
        _element(element, "member_speed", {"read_percent": share, "iops": iops, "source": speeds and speeds.source})


def _platform(root: Element, platform: TestPlatform) -> None:
    told = asdict(platform)
    settings = told.pop("settings")
    element = _element(root, "platform", told)
    for setting in settings:
        _element(element, "setting", setting)


def _run(root: Element, result: TestResult) -> None:
    facts = result.facts
    words = {
        "id": facts.run_id,
        "started": facts.started,
        "finished": result.finished,
        "ending": result.ending,
        "detail": result.ending_detail,
        "verdict": result.verdict,
        "conformant": result.conformant,
        "seed": facts.seed,
        "operator": facts.about.operator,
        "written_bytes": whole_bytes_or_none(result.written_bytes),
        "read_bytes": whole_bytes_or_none(result.read_bytes),
    }
    run = _element(root, "run", words)
    for argument in facts.command_line:
        _element(run, "argument", {"value": argument})


def _about(root: Element, about: Annotations) -> None:
    digest = hashlib.sha256(about.png).hexdigest() if about.logo else None
    words = {"vendor": about.vendor, "nand_type": about.nand_type, "hba": about.hba, "logo_sha256": digest}
    words |= {name: getattr(about, name) or None for name in ("model", "serial", "firmware", "capacity")}
    if about.notes or about.features or any(words.values()):
        element = _element(root, "about", words)
        for note in about.notes:
            _element(element, "note", {"value": note})
        for feature in about.features:
            _element(element, "feature", asdict(feature))


def _specification(root: Element, result: TestResult) -> None:
    spec = result.facts.spec
    words = {
        "test": spec.test,
        "pts": spec.pts,
        "class": result.facts.test_class,
        "revision": spec.revision,
        "title": spec.title,
        "publication": spec.publication,
    }
    element = _element(root, "specification", words)
    for key, value in numbers(spec):
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
    """What came of setting the host for a profile's points."""
    for part, prepared in result.prepared:
        values = {"part": part, "started": prepared.started, "seconds": prepared.seconds}
        element, before = _element(root, "prepared", values), dict(prepared.before)
        for name, value in prepared.settings:
            _element(element, "host_setting", {"name": name, "value": value, "before": before.get(name, "")})


def _repeated(root: Element, result: TestResult) -> None:
    """A profile's points over all repeats."""
    for each in repeated_points(result):
        element = _element(root, "point", {**stimulus_attributes(each.stimulus), **each.figures})
        for key, value in each.place.items():
            _element(element, "place", {"key": key, "value": value})


def _loop(root: Element, result: TestResult, loop: Loop) -> None:
    parent = _element(root, "loop", {"part": loop.part})
    for measured in loop.rounds:
        element = _element(parent, "round", {"number": measured.number, "complete": measured.complete})
        for measurement in measured.measurements:
            _measurement(element, result, measurement)
    if loop.window is None:
        return
    window, limited = _window(parent, loop.window), result.host_limited_points(loop)
    for stimulus, figures in window_points(loop):
        _element(window, "point", {**stimulus_attributes(stimulus), **figures, "host_limited": limited[stimulus]})


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
        _element(element, "determination", {**_key(tracked), **_figures(determination)})
    return element


def _key(tracked: Tracked) -> Mapping[str, object]:
    return {
        "metric": tracked.metric,
        "read_percent": tracked.read_percent,
        "block_size_bytes": tracked.block_size_bytes,
        "thread_count": tracked.thread_count,
        "queue_depth": tracked.queue_depth,
    }


def _figures(determination: SteadyState) -> Mapping[str, object]:
    figures = asdict(determination)
    figures.pop("values")
    return figures


def _time_line(root: Element, result: TestResult, line: TimeLine, columns: list[tuple[array[float], range]]) -> None:
    """Add a time line; the values and rows of its columns' text are appended to ``columns``."""
    facts = {"phase": line.phase, "part": line.part, "stretches": line.stretches, "complete": line.complete}
    parent = _element(root, "time_line", {**facts, **stimulus_attributes(line.stimulus)})
    for measurement in line.measurements:
        _measurement(parent, result, measurement)
    known = [name for name in VITALS if not all(map(math.isnan, getattr(line, name)))]
    for first in range(0, len(line), _MOST_SAMPLES) or (0,):
        count = min(_MOST_SAMPLES, len(line) - first)
        element = _element(parent, "samples", {"count": count})
        for name in (*COLUMNS, *known):
            _element(element, name, {}).text = _PLACEHOLDER
            columns.append((getattr(line, name), range(first, first + count)))


def _column(values: array[float], rows: range) -> Iterator[bytes]:
    """Iterate over the text of a column's rows."""
    for first in range(0, len(rows), _CHUNK_NUMBERS):
        these = rows[first : first + _CHUNK_NUMBERS]
        text = " ".join(map(_text, values[these.start : these.stop]))
        yield (" " * (first > 0) + text).encode()


def _gaps(root: Element, gaps: Sequence[Gap]) -> None:
    """The times without host I/O, of each part and each time that was asked for together."""
    grouped: dict[tuple[str, float | None], list[Gap]] = {}
    for gap in gaps:
        grouped.setdefault((gap.part, gap.asked_seconds), []).append(gap)
    for (part, asked), group in grouped.items():
        idle, own = [gap.idle_ms for gap in group], [gap.own_us for gap in group]
        values: dict[str, object] = {
            "part": part,
            "asked_seconds": asked,
            "count": len(group),
            "least_ms": min(idle),
            "median_ms": statistics.median(idle),
            "worst_ms": max(idle),
            "own_median_us": statistics.median(own),
            "own_worst_us": max(own),
        }
        _element(root, "gaps", values)


def _operating_points(root: Element, result: TestResult) -> None:
    spec, loop = result.facts.spec, result.loop()
    if not isinstance(spec, DemandSpec) or loop is None:
        return
    for point in operating_points(demand_means(loop.window_rounds), spec.operating_points):
        values: dict[str, object] = {
            "name": point.name,
            **asdict(point.demand),
            "iops": point.iops,
            "average_response_us": finite_or_none(1000 * point.art_ms),
            "wanted_iops": point.wanted_iops,
            "candidates": " ".join(each.demand.label for each in point.candidates),
            "contested": " ".join(each.demand.label for each in point.contested) or None,
        }
        _element(root, "operating_point", values)


def _measurement(parent: Element, result: TestResult, measurement: Measurement) -> None:
    timing, share = asdict(measurement.timing), result.host_share(measurement)
    values: dict[str, object] = {
        **stimulus_attributes(measurement.stimulus),
        "seed": measurement.seed if measurement.told is None else None,
        "iops": finite_or_none(measurement.iops),
        "mb_per_second": finite_or_none(measurement.mb_per_second),
        "average_response_us": finite_or_none(measurement.average_response_us),
        "maximum_response_us": finite_or_none(measurement.maximum_response_us),
        **percentiles([measurement]),
        **transfers(measurement),
        **{key: timing[key] for key in ("started", "own_gap_us", "idle_gap_ms", "thread_spread_ms")},
        "host_cpu_percent": measurement.host_cpu_percent,
        "engine_cpu_percent": measurement.engine_cpu_percent,
        "host_limited": share.limited if share else None,
        "evidence": measurement.evidence or None,
        "evidence_sha256": measurement.evidence_sha256 or None,
        "interruptions": timing["interruptions"] or None,
    }
    element = _element(parent, "measurement", values)
    if measurement.vitals is not None:
        _element(element, "vitals", _vitals(measurement.vitals))


def _vitals(vitals: TelemetrySample) -> Mapping[str, object]:
    told = asdict(vitals)
    return {**{key: told[key] for key in told if key != "block"}, **(told["block"] or {})}


def _health(root: Element, result: TestResult) -> None:
    """What the drive told of its life before and after."""
    before, after = result.facts.health, result.health_after
    if before is None and after is None:
        return
    parent = _element(root, "health", {"before": before and before.at, "after": after and after.at})
    for change in changes(before, after):
        _element(parent, "figure", {**asdict(change), "role": change.role or None, "unit": change.unit or None})
    for reading in filter(None, (before, after)):
        for reason in reading.unread:
            _element(parent, "unread", {"at": reading.at, "reason": reason})
    found = result.write_amplification
    if found:
        _element(parent, "write_amplification", {"factor": found.factor, **asdict(found)})


def _element(parent: Element | None, tag: str, attributes: Mapping[str, object]) -> Element:
    """Make an element; None leaves its attribute out."""
    texts = {name: _text(value) for name, value in attributes.items() if value is not None}
    return Element(tag, texts) if parent is None else SubElement(parent, tag, texts)


def _text(value: object) -> str:
    """Write a value so that it reads back to the last bit."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")
    return printable(str(value), lines=True)
