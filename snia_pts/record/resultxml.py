"""result.xml: the result of a run for other programs, valid against ``specs/result.xsd``; and hardened reading."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lxml import etree

from .. import __version__
from ..errors import RecordError
from ..measurement import FIVE_NINES, Measurement, Transfers, percentile_response_us
from ..result import TestResult
from ..spec import Tracked
from ..specfile import SPECS, shown
from ..steadystate import SteadyState
from ..window import Window

FORMAT = 1
_LARGEST_BYTES = 256 * 1024 * 1024
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def result_xml(result: TestResult) -> bytes:
    """Return the whole of result.xml; the same result gives the same bytes.

    Raises RecordError when it would not be valid against the schema: that is a mistake of the suite.
    """
    facts = result.facts
    root = _element(None, "result", {"format": FORMAT, "suite_version": __version__})
    run = _element(
        root,
        "run",
        {
            "id": facts.run_id, "started": facts.started, "finished": result.finished, "ending": result.ending,
            "detail": result.ending_detail, "verdict": result.verdict, "conformant": result.conformant,
            "seed": facts.seed, "operator": facts.operator,
        },
    )  # fmt: skip
    for argument in facts.command_line:
        _element(run, "argument", {"value": argument})
    _specification(root, result)
    _element(root, "dut", asdict(facts.dut))
    _element(root, "platform", asdict(facts.platform))
    for deviation in result.deviations:
        _element(root, "deviation", asdict(deviation))
    for warning in result.warnings:
        _element(root, "warning", asdict(warning))
    if result.purged:
        purged = asdict(result.purged)
        _element(root, "purge", {key: purged[key] for key in purged if key not in ("kind", "deviations")})
    if result.preconditioned:
        _measurement(_element(root, "preconditioning", {}), result.preconditioned)
    for measured in result.rounds:
        element = _element(root, "round", {"number": measured.number, "complete": measured.complete})
        for measurement in measured.measurements:
            _measurement(element, measurement)
    if result.window:
        _window(root, result.window)
    document = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    parse(document, "result.xml")
    return document


def parse(document: bytes, name: str) -> etree._Element:
    """Parse a result document from anywhere: no entities, no DTD, no network; valid against the schema.

    Raises RecordError with the line and what is wrong.
    """
    if len(document) > _LARGEST_BYTES:
        raise RecordError(path=name, reason="it is larger than any result this suite writes")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        raise RecordError(path=name, reason=f"it is not well-formed XML ({error.msg})") from None
    if root.getroottree().docinfo.doctype:
        raise RecordError(path=name, reason="it has a document type, which a result never has")
    schema = etree.XMLSchema(etree.parse(str(SPECS / "result.xsd")))
    if not schema.validate(root):
        complaint = schema.error_log[0]
        raise RecordError(path=name, reason=f"line {complaint.line}: {complaint.message}")
    return root


def differences(path: Path, result: TestResult) -> tuple[str, ...]:
    """Return where the stored result.xml and ``result`` differ, a sentence each; nothing when they agree."""
    try:
        document = path.read_bytes()
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error)) from None
    return tuple(_compare(parse(document, str(path)), parse(result_xml(result), "result.xml")))


def _compare(stored: etree._Element, made: etree._Element) -> Iterator[str]:
    for name in sorted(set(stored.attrib) | set(made.attrib)):
        before, now = stored.get(name), made.get(name)
        if before != now and name != "suite_version":
            yield f"line {stored.sourceline}, {stored.tag!s} {name}: {before} is stored, the journal gives {now}"
    for one, other in zip_longest(stored, made):
        if one is None or other is None or one.tag != other.tag:
            yield f"line {stored.sourceline}, {stored.tag!s}: it holds other elements than the journal gives"
            return
        yield from _compare(one, other)


def _specification(root: etree._Element, result: TestResult) -> None:
    spec = result.facts.spec
    words = {
        "test": spec.test, "pts": spec.pts, "class": result.facts.test_class, "revision": spec.revision,
        "title": spec.title, "publication": spec.publication,
    }  # fmt: skip
    element = _element(root, "specification", words)
    for key, value in _numbers(spec, ""):
        _element(element, "number", {"key": key, "value": value})


def _numbers(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields(value):
        item = getattr(value, field.name)
        if is_dataclass(item):
            yield from _numbers(item, f"{prefix}{field.name}.")
        elif prefix:
            yield f"{prefix}{field.name}", shown(_plain(item))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [asdict(entry) if is_dataclass(entry) and not isinstance(entry, type) else entry for entry in value]
    return value


def _window(root: etree._Element, window: Window) -> None:
    numbers = window.numbers
    element = _element(root, "window", {"first": numbers[0], "last": numbers[-1], "steady": window.steady})
    for tracked, determination in window.determinations:
        _element(element, "determination", {**_key(tracked), **_figures(determination)})
    for cell, iops in window.cell_means().items():
        _element(element, "cell", {**asdict(cell), "iops": iops})


def _key(tracked: Tracked) -> Mapping[str, object]:
    return {
        "metric": tracked.metric, "read_percent": tracked.read_percent, "block_size_bytes": tracked.block_size_bytes
    }  # fmt: skip


def _figures(determination: SteadyState) -> Mapping[str, object]:
    figures = asdict(determination)
    figures.pop("values")
    return figures


def _measurement(parent: etree._Element, measurement: Measurement) -> None:
    clocking = asdict(measurement.clocking)
    values: dict[str, object] = {
        **asdict(measurement.stimulus),
        "seed": measurement.seed,
        "iops": measurement.iops,
        "mb_per_second": measurement.mb_per_second,
        "average_response_us": measurement.average_response_us,
        "maximum_response_us": measurement.maximum_response_us,
        "five_nines_response_us": percentile_response_us([measurement], FIVE_NINES),
        **_transfers("read", measurement.read),
        **_transfers("write", measurement.write),
        **{key: clocking[key] for key in ("started", "own_gap_us", "idle_gap_ms")},
        "evidence": measurement.evidence,
        "evidence_sha256": measurement.evidence_sha256,
    }
    _element(parent, "measurement", values)


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
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
