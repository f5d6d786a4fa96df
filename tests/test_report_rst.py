"""The report as RST: no text of a device, a host or an operator becomes markup."""

from __future__ import annotations

import dataclasses

import pytest
from docutils import nodes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snia_pts.errors import ReportError
from snia_pts.model.annotations import Annotations
from snia_pts.report.formats import rst
from snia_pts.report.registry import build
from snia_pts.report.tables import Column, Table
from snia_pts.results.result import RunWarning, TestResult
from snia_pts.spec import Deviation
from snia_pts.text import one_line
from tests import samples

MARKUP = [
    ".. raw:: html\n\n   <script>alert(1)</script>",
    ".. include:: /etc/passwd",
    "*emphasis* **strong** ``literal``",
    "`role`:sub: :sup:`x` `text`_ word_ word__ |sub| [1]_ [#]_ _`target`",
    "http://example.org",
    "mailto:a@b.c a@b.c h323:5",
    "- a",
    "1. a",
    "(a) b",
    "A. b",
    "#. c",
    "iv) d",
    ":field: x",
    "-o option",
    "--long=x",
    "/V",
    ">>> 1",
    "| line",
    "+---+\n| a |\n+---+",
    "====",
    "----",
    "....",
    "::",
    "text::",
    ":",
    "a: b",
    "::x",
    "__ anonymous",
    ".. _t: x",
    "\\",
    "\\\\",
    "a\\",
    '"',
    '""',
    '","',
    "a, b",
    "'",
    "  indented",
    "\ttab",
    "a\x00b\x1b[31m",
    "\ud800",
    "\u202eevil",
    "\u2028",
    "\u00a0x",
    "x\u202f",
    "###Page###",
    "_",
    "_x",
    "x_",
    "x_y_",
    "x_\u00e9",
    "*",
    "**",
    "`",
    "``",
    "|",
    "||",
    "\u2022 b",
    "\u4e2d\u6587",
    "e\u0301",
    "5\u0301.",
    "@",
    "user@host",
    "a:b",
    "12:30",
    "12:30:",
    "(1)",
    "i.",
    "1.",
    "#.",
    "\ufeff",
]


def texts(strategy: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[str]:
    """Draw arbitrary text, or pieces of markup joined together."""
    pieces = st.lists(st.sampled_from([*MARKUP, " ", "a", "1", "\n", "\n\n"]), max_size=4).map("".join)
    return st.one_of(strategy or st.text(), pieces)


def read(text: str) -> nodes.document:
    return rst.parse(text)


def only_text(paragraph: nodes.Element) -> bool:
    return all(isinstance(child, nodes.Text) for child in paragraph.children)


@pytest.mark.parametrize("text", MARKUP)
def test_escaped_markup_is_plain_text_in_a_paragraph(text: str) -> None:
    """Each kind of RST markup, when escaped, is parsed as plain text."""
    document = read(f"Before.\n\n{rst.escape(text)}\n\nAfter.\n" if one_line(text) else "Before.\n\nAfter.\n")
    paragraphs = [child for child in document.children if isinstance(child, nodes.paragraph)]
    assert len(paragraphs) == len(document.children)
    assert all(only_text(paragraph) for paragraph in paragraphs)
    if one_line(text):
        assert paragraphs[1].astext() == one_line(text)


@pytest.mark.long
@given(texts())
@settings(max_examples=300)
def test_any_text_is_parsed_back_unchanged(text: str) -> None:
    """Any text in a paragraph, a title and a table cell is parsed back as the same text, on one line."""
    shown = one_line(text)
    if not shown:
        return
    title = rst.escape(f"T {text}")
    table = Table(kind="facts", columns=(Column(), Column()), rows=((text, text),), title=text, headed=False)
    document = read(f"{title}\n{rst.underline(title)}\n\n{rst.escape(text)}\n\n{rst.csv(table)}\n")
    section = document.children[0]
    assert isinstance(section, nodes.section)
    heading, paragraph, parsed_table = section.children
    assert heading.astext() == one_line(f"T {text}")
    assert isinstance(parsed_table, nodes.table)
    cells = list(parsed_table.findall(nodes.paragraph))
    assert [cell.astext() for cell in (paragraph, *cells)] == [shown] * 3
    assert all(isinstance(node, nodes.Element) and only_text(node) for node in (heading, paragraph, *cells))


@pytest.mark.long
@given(text=texts())
@example(text=".. raw:: html\n\n   <script>alert(1)</script>")
@example(text='", "\n   .. include:: /etc/passwd\n"')
@settings(max_examples=40)
def test_any_text_in_any_field_gives_a_valid_report(text: str) -> None:
    """Any text in model, serial, operator, path, command line, deviations or warnings gives no other kinds of nodes."""
    document = read(rst.render(build(with_text(text))))
    allowed = {
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
    assert {getattr(node, "tagname", "") for node in document.findall()} <= allowed
    assert len(list(document.findall(nodes.section))) == 2
    cells = [cell.astext() for cell in document.findall(nodes.entry)]
    assert cells.count(one_line(text) or "") >= 4


def with_text(text: str) -> TestResult:
    """Return a short result with ``text`` in every text field."""
    result = samples.iops_result(stop_after=1, ending="device failed", ending_detail=text)
    facts = result.facts
    return dataclasses.replace(
        result,
        facts=dataclasses.replace(
            facts,
            about=Annotations(operator=text, vendor=text, nand_type=text, hba=text, notes=(text or "-",)),
            command_line=("snia-pts", text),
            run_id=text,
            dut=dataclasses.replace(facts.dut, model=text, serial=text, firmware=text, path=f"/dev/{text}", bus=text),
            platform=dataclasses.replace(facts.platform, hostname=text, cpu=text, kernel=text, motherboard=text),
            deviations=(Deviation(what=text, standard=text, actual=text, clause=text),),
            warnings=(RunWarning(what=text, detail=text),),
        ),
    )


def test_a_cell_that_is_too_long_is_cut() -> None:
    """A cell longer than docutils can read is cut and marked with an ellipsis."""
    table = Table(kind="facts", columns=(Column(),), rows=(("*" * 200_000,),), headed=False)
    (cell,) = read(f"{rst.csv(table)}\n").findall(nodes.paragraph)

    assert cell.astext() == "*" * 20_000 + "\N{HORIZONTAL ELLIPSIS}"


def test_control_characters_are_replaced() -> None:
    """Escapes, direction overrides and lone surrogates become U+FFFD; a run of white space becomes one space."""
    assert one_line("a\x1b[31m\u202e\ud800b\r\n\t c") == "a\ufffd[31m\ufffd\ufffdb c"
    assert one_line("12\u202f345") == "12\u202f345"


def test_the_source_is_readable() -> None:
    """Text without markup is not escaped."""
    for text in (
        "EXAMPLE MZ7L3960HCJR-00A07",
        "Intel(R) Xeon(R) Gold 6330",
        "12:30",
        "5 - 9",
        "rounds.point_seconds",
        "Test Run Date Start:",
        "2.0.2 chapter 7, p. 26",
        "n/a",
        "100 %",
    ):
        assert rst.escape(text) == text


def test_a_message_of_docutils_is_an_error() -> None:
    """Any message of docutils stops the report; include and raw directives are refused."""
    with pytest.raises(ReportError, match="docutils reported"):
        rst.parse("Title\n==\n")
    with pytest.raises(ReportError, match="docutils reported"):
        rst.parse(".. include:: /etc/hostname\n")
    with pytest.raises(ReportError, match="docutils reported"):
        rst.parse(".. raw:: html\n\n   <b>x</b>\n")


def test_a_full_report_parses_without_messages() -> None:
    """The parsed report has all pages and figures of a steady run, with captions and alt texts."""
    report = build(samples.iops_result(rounds=9, found=samples.deviations(20)))
    document = read(rst.render(report))
    sections = [next(iter(section.findall(nodes.title))).astext() for section in document.findall(nodes.section)]
    assert sections == [page.title for page in report.pages]
    images = list(document.findall(nodes.image))
    assert [image["uri"] for image in images] == [f"figures/{figure.name}.svg" for figure in report.figures]
    assert all(len(image["alt"]) > 20 for image in images)
    captions = [caption.astext() for caption in document.findall(nodes.caption)]
    assert captions == [figure.caption for figure in report.figures]
