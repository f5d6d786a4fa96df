"""Reports on what a device, a host and an operator say: text stays text, in every output, and files stay inside."""

from __future__ import annotations

import io
import re
import unicodedata
from argparse import Namespace
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import patch

import pypdf
from docutils import nodes
from lxml import html as markup

from snia_pts.api import report as api
from snia_pts.cli.commands import report as report_verb
from snia_pts.errors import ReportError
from snia_pts.model.annotations import Annotations
from snia_pts.record.document import parse
from snia_pts.record.folder import default_name
from snia_pts.record.result_xml import result_xml
from snia_pts.report.formats import rst
from snia_pts.report.formats.html import make as make_html
from snia_pts.report.formats.pdf import make as make_pdf
from snia_pts.report.registry import build
from snia_pts.report.writing import RenderContext, prepare
from snia_pts.results.result import RunWarning, TestResult
from snia_pts.spec import Deviation
from snia_pts.text import one_line
from tests import samples

from .chain import chained
from .corpora import BEGAN

#: Everything a report's source may hold, once parsed.
_NODES = {
    "document",
    "decoration",
    "header",
    "section",
    "title",
    "paragraph",
    "table",
    "tgroup",
    "colspec",
    "thead",
    "tbody",
    "row",
    "entry",
    "#text",
}
_FILES = re.compile(
    r"(journal\.jsonl|result\.xml|report\.(rst|pdf|html|xlsx|sha256)|SHA256SUMS|figures(/SHA256SUMS|/[a-z0-9.-]+\.(svg|pdf))?)"
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _require(fact: bool, complaint: str) -> None:
    if not fact:
        raise AssertionError(complaint)


@cache
def _short() -> TestResult:
    return samples.iops_result(stop_after=1, ending="device failed", ending_detail="")


def _said(text: str) -> TestResult:
    """Return a short result with ``text`` in every field that a device, a host or an operator can set."""
    result = _short()
    facts = result.facts
    facts = replace(
        facts,
        about=Annotations(operator=text, vendor=text, nand_type=text, hba=text, notes=(text,)),
        command_line=("snia-pts", text),
        run_id=text,
        started=text,
        dut=replace(facts.dut, path=f"/dev/{text}", model=text, serial=text, firmware=text, bus=text),
        platform=replace(
            facts.platform,
            hostname=text,
            motherboard=text,
            cpu=text,
            operating_system=text,
            kernel=text,
            python=text,
            engine_version=text,
            io_engine=text,
        ),
        deviations=(Deviation(what=text, standard=text, actual=text, clause=text),),
        warnings=(RunWarning(what=text, detail=text),),
    )
    return replace(result, facts=facts, ending_detail=text, finished=text)


def texts(data: bytes, folder: Path) -> None:
    """A text in the journal, in result.xml, in a folder's name and in a line of RST."""
    text = _text(data)
    result = _said(text)
    root = parse(result_xml(result), "result.xml")
    element = root.find("dut")
    shown = text.translate(_UNWRITABLE)
    _require(element is not None and element.get("model") == shown, "result.xml tells another model")
    name = default_name("iops", text, BEGAN.isoformat())
    _require(bool(re.fullmatch(r"iops-[A-Za-z0-9._-]+", name)) and ".." not in Path(name).parts, f"a run in {name!r}")
    if one_line(text):
        document = rst.parse(f"Before.\n\n{rst.escape(text)}\n\nAfter.\n")
        paragraphs = [child.astext() for child in document.children if isinstance(child, nodes.paragraph)]
        _require(len(document.children) == 3 and paragraphs[1] == one_line(text), "RST is more than the text")


class _Unwritable(dict[int, str]):
    """Maps control and invisible characters, which XML cannot hold or no reader sees, to U+FFFD."""

    def __missing__(self, point: int) -> str:
        unseen = unicodedata.category(chr(point)) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        return "\N{REPLACEMENT CHARACTER}" if unseen and point not in (9, 10) else chr(point)


_UNWRITABLE = _Unwritable()


def journaled(data: bytes, folder: Path) -> None:
    """Entries of a journal with valid checksums, by the verb report, without evidence: its files, and no others."""
    place = folder / "run"
    rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "journal.jsonl").write_bytes(chained(data))
    unchecked = patch.object(api, "require_evidence")
    try:
        with unchecked, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            report_verb.report(Namespace(run=place, out=None, to="rst,xlsx", limits=None, about=None, plugin=()))
    finally:
        found = {str(path.relative_to(place)) for path in place.rglob("*")}
        _require(all(map(_FILES.fullmatch, found)), f"files beside the report: {sorted(found)}")
        _require([path.name for path in folder.iterdir()] == ["run"], "files outside the run folder")


def report(data: bytes, folder: Path) -> None:
    """A text in every field, as RST and as HTML."""
    text = _text(data)
    material = prepare(build(_said(text)), {})
    found = {getattr(node, "tagname", "") for node in _parsed(material).findall()}
    _require(found <= _NODES, f"RST with {found - _NODES}")
    page = markup.document_fromstring(make_html(material.report, _parsed(material), {}).decode())
    made = set(_elements(page))
    allowed = _plain_elements() | {("wbr",)}  # a place to break a long identifier
    _require(made <= allowed, f"HTML with {made - allowed}")


def pdf(data: bytes, folder: Path) -> None:
    """A text in every field, as PDF."""
    made = set(_names(_pdf(_text(data))))
    _require(made <= _plain_names(), f"a PDF with {made - _plain_names()}")


def _parsed(material: RenderContext) -> nodes.document:
    try:
        return material.document
    except ReportError as error:
        raise AssertionError("a text that is no text in RST") from error


def _elements(page: Any) -> Iterator[tuple[str, ...]]:
    """What an HTML page is made of, but for its texts: elements with attributes, and what these lead to."""
    for element in page.iter():
        yield (str(element.tag), *sorted(element.attrib))
        yield from (("leads", value[:60]) for name, value in element.items() if name in ("href", "src", "style"))


@cache
def _plain_elements() -> frozenset[tuple[str, ...]]:
    material = prepare(build(_said("plain")), {})
    return frozenset(_elements(markup.document_fromstring(make_html(material.report, material.document, {}).decode())))


def _pdf(text: str) -> bytes:
    material = prepare(build(_said(text)), {})
    try:
        return make_pdf(material.report, _parsed(material), {})
    except ReportError as error:
        raise AssertionError("a text that spoils the PDF") from error


def _names(document: bytes) -> Iterator[str]:
    """Every key of a PDF's objects, and what they are and do: actions, annotations, files."""
    reader = pypdf.PdfReader(io.BytesIO(document))
    for number in sorted(reader.xref[0]):
        yield from _keys(reader.get_object(number))


def _keys(item: Any) -> Iterator[str]:
    if isinstance(item, dict):
        for key, value in item.items():
            yield re.sub(r"[0-9]+", "N", key)  # pages and fonts are numbered, and a long text makes more pages
            if key in ("/Type", "/Subtype", "/S"):
                yield f"{key} {value}"
            if not isinstance(value, pypdf.generic.IndirectObject):
                yield from _keys(value)
    elif isinstance(item, list):
        for entry in item:
            yield from _keys(entry)


@cache
def _plain_names() -> frozenset[str]:
    return frozenset(name for text in ("plain", "2026-11-03", "much " * 300) for name in _names(_pdf(text)))
