"""Lays out a report with rst2pdf: our own nodes for page titles and figures, and the handlers that draw them.

The nodes are private to this module, so that they do not affect other users of rst2pdf in the same process.  Each node
has a reference to a Sheet, where the positions of titles and figures are recorded.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from reportlab import rl_config
from reportlab.pdfbase import pdfmetrics
from reportlab.platypus import CondPageBreak, Flowable, KeepTogether, Paragraph
from reportlab.platypus.doctemplate import LayoutError

from ...errors import ReportError
from ...text import one_line, without_breaks
from ..header import short, width_em
from ..pages import Figure, Page, Report
from . import contents, pdf_page_header
from .placements import POINTS, HeaderKind, Placement, Sheet, title_anchor
from .rst import TEMPLATES, table_style
from .typesetter import FONTS, DelayedTable, Heading, MyPageBreak, NodeHandler, RstToPdf, StyleSheet

#: Height of a table's title, in points.
_TABLE_TITLE_HEIGHT = 23
#: Height of a line of a table, in points, with its padding; prose has lower lines.
_LINE_HEIGHT = 13
#: Height of a line of a table for signatures, with its share of the sentence below the table.
_SIGNATURE_HEIGHT = 36
#: A table of at most this many rows, with its head, is not divided.  Of a longer one, the title stays with the least
#: rows, and the last rows stay together unless they are higher than this, in points.
_MAX_WHOLE_ROWS, _LEAST_ROWS, _LAST_ROWS, _MAX_LAST_HEIGHT = 13, 4, 3, 200
#: The most lines of a table cell, and the least text that fits into one percent of a table's width, in em.
_MAX_CELL_LINES, _EM_PER_PERCENT = 30, 0.6


class page_title(nodes.General, nodes.Element):
    """A page's title bar."""


class planned_figure(nodes.General, nodes.Element):
    """A figure with its caption."""


class table_space(nodes.General, nodes.Element):
    """Starts a new page if the rest of the page is too short: less than ``height`` points."""


def _header_of(page: Page) -> HeaderKind:
    return "short" if page.has_short_header else "full"


class SectionBreak(MyPageBreak):  # type: ignore[misc]
    """Starts a page that begins with a title."""

    def __init__(self, page: Page, sheet: Sheet) -> None:
        super().__init__(breakTo="any")
        self.page, self.sheet = page, sheet

    def frameAction(self, frame: Any) -> None:
        """End the page, unless nothing is on it yet."""
        super().frameAction(frame)
        if frame._generated_content:
            self.sheet.next_header = _header_of(self.page)


class SharedPageBreak(CondPageBreak):
    """Some space before a section, or a new page if it does not fit below the section before it.

    ``content`` are the section's flowables, set when all of them are known.
    """

    def __init__(self, report: Report, page: Page, sheet: Sheet) -> None:
        super().__init__(0)
        self.report, self.page, self.sheet = report, page, sheet
        self.content: Sequence[Any] = ()

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:
        """Return the size of the space; none if a new page follows."""
        continued = self.sheet.titles[-1][1] < self.canv.getPageNumber()
        may_share = self.report.may_share(self.page, continued=continued)
        self.height = _LINE_HEIGHT + self._least_height(aW, aH) if may_share else math.inf
        if aH >= self.height:
            return aW, _LINE_HEIGHT
        self.sheet.next_header = _header_of(self.page)
        size: tuple[float, float] = super().wrap(aW, aH)
        return size

    def _least_height(self, width: float, height: float) -> float:
        """Return the height that the section needs.

        That of its title and first figure or rows is enough if the section is longer than a page, or if more than half
        of this page would remain empty.
        """
        start, total = 0.0, 0.0
        for flowable in self.content:
            if isinstance(flowable, CondPageBreak):
                start = start or total + flowable.height
                continue
            kept = isinstance(flowable, KeepTogether)
            for part in flowable._content if kept else [flowable]:  # reportlab returns no height for KeepTogether
                total += part.getSpaceBefore() + part.wrapOn(self.canv, width, height)[1] + part.getSpaceAfter()
            if kept:
                start = start or total
        frame: Any = self._doctemplateAttr("frame")  # type: ignore[attr-defined]  # reportlab has no types
        divided = total > frame._height or height > frame._height / 2
        return start if start and self.page.flows and divided else total


class TitleBar(Heading):  # type: ignore[misc]  # rst2pdf has no types
    """A page's title: adds an entry to the outline, and records its page on the sheet."""

    def __init__(self, node: nodes.Element, style: Any) -> None:
        self.sheet: Sheet = node["sheet"]
        self.title: str = node["title"]
        anchor = title_anchor(node["number"])
        Heading.__init__(self, html.escape(self.title, quote=False), style, level=0, parent_id=anchor, node=node)

    def draw(self) -> None:
        self.sheet.titles.append((self.title, self.canv.getPageNumber()))
        Heading.draw(self)


class PlacedFigure(Flowable):
    """An empty space of exactly a figure's size; records its position on the sheet."""

    def __init__(self, figure: Figure, sheet: Sheet) -> None:
        super().__init__()
        self.figure, self.sheet = figure, sheet
        self.width, self.height = figure.width * POINTS, figure.height * POINTS
        self.spaceBefore = 2  # the figure's white paper must not cover the line below a table
        self.hAlign = "CENTER"

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002  # reportlab's names
        """Return the planned size even if less space is available: a figure moves to the next page, never shrinks."""
        return self.width, self.height

    def draw(self) -> None:
        x, y = self.canv.absolutePosition(0, 0)
        placement = Placement(page=self.canv.getPageNumber(), x=x, y=y, width=self.width, height=self.height)
        self.sheet.figures.append((self.figure.name, placement))
        frame: Any = self._frame  # type: ignore[attr-defined]  # reportlab sets it while it draws
        self.sheet.tops[placement.page] = frame.y1 + frame.height
        self.sheet.frame = (frame.x1, frame.y1, frame.x1 + frame.width, frame.y1 + frame.height)


class TitleHandler(NodeHandler, page_title):  # type: ignore[misc]  # registers itself with rst2pdf
    """Starts a page with its title bar."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        page, sheet = node["page"], node["sheet"]
        report: Report | None = node["report"]
        start = SharedPageBreak(report, page, sheet) if report else SectionBreak(page, sheet)
        return [start, TitleBar(node, client.styles["heading1"])]


class FigureHandler(NodeHandler, planned_figure):  # type: ignore[misc]
    """Puts a figure and its caption below on one page."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        figure: Figure = node["figure"]
        caption = Paragraph(html.escape(printable(figure.caption), quote=False), client.styles["figure-caption"])
        return [KeepTogether([PlacedFigure(figure, node["sheet"]), caption])]


class TableSpaceHandler(NodeHandler, table_space):  # type: ignore[misc]
    """Keeps a table's title and first rows together, or all rows of a short table."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del client, style
        return [CondPageBreak(node["height"])]


class RowsTable(DelayedTable):  # type: ignore[misc]
    """A table whose last rows are on one page."""

    def __init__(self, table: DelayedTable) -> None:
        super().__init__(table.data, table._colWidths, table.style, table.repeatrows)
        self.hAlign = table.hAlign

    def wrap(self, w: float, h: float) -> tuple[float, float]:
        """Return the table's size."""
        size: tuple[float, float] = super().wrap(w, h)
        heights = self.t._rowHeights
        if len(heights) > _LAST_ROWS and sum(heights[-_LAST_ROWS:]) <= _MAX_LAST_HEIGHT:
            self.t.setStyle([("NOSPLIT", (0, len(heights) - _LAST_ROWS), (0, len(heights) - 1))])
            self.t._calcNoSplitRanges()
        return size


class _Styles(StyleSheet):  # type: ignore[misc]
    """rst2pdf's style sheets, read with libyaml if it is installed, which takes a tenth of the time."""

    def readStyle(self, ssname: str) -> Any:
        """Return a style sheet's data."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return yaml.load(Path(self.findStyle(ssname)).read_bytes(), loader)  # noqa: S506  # both are safe


class _PdfBuilder(RstToPdf):  # type: ignore[misc]
    """rst2pdf with these style sheets."""

    def loadStyles(self, styleSheets: Sequence[str] = ()) -> None:
        """Read rst2pdf's own style sheets, then ``styleSheets``."""
        self.styles = _Styles(list(styleSheets), self.font_path, self.style_path, def_dpi=self.def_dpi)

    def gather_elements(self, node: nodes.Element, style: Any = None) -> list[Any]:
        """Return a node's flowables; repeat the first row of a table on its next page only if it is a head."""
        if isinstance(node, nodes.table):
            self.repeat_table_rows = any(node.findall(nodes.thead))
        flowables: list[Any] = super().gather_elements(node, style=style)
        if isinstance(node, nodes.table):
            flowables = [RowsTable(item) if isinstance(item, DelayedTable) else item for item in flowables]
        if isinstance(node, nodes.section) and isinstance(flowables[0], SharedPageBreak):
            flowables[0].content = flowables[1:]
        return flowables


def lay_out(report: Report, document: nodes.document, sheet: Sheet) -> bytes:
    """Return ``report`` as PDF with empty spaces for its figures, and record their positions on ``sheet``.

    Raises ReportError if rst2pdf fails.
    """
    output = io.BytesIO()
    try:
        with _reproducible():
            builder = _PdfBuilder(
                stylesheets=[str(TEMPLATES / "report.yaml")],
                font_path=[str(FONTS)],
                breaklevel=0,
                breakside="any",
                splittables=True,
                basedir=str(TEMPLATES),
                smarty="0",
                custom_cover="cover.tmpl",
            )
            document = document.deepcopy()
            _insert_nodes(report, document, sheet)
            identity = [printable(one_line(text)) for text in report.header.identity]
            contents.insert_nodes(document, [printable(one_line(page.title)) for page in report.pages], sheet)
            runs = {page.title: report.runs for page in report.pages if not page.brief}
            pdf_page_header.insert_nodes(document, identity, runs, sheet)
            set_paragraph_styles(document)
            _fit_cells(document)
            _replace_unprintable(document)
            _link_to_files(document)
            failed = builder.createPdf(doctree=document, output=output, compressed=True)
    except SystemExit as error:
        raise ReportError(reason="rst2pdf failed") from error
    except LayoutError as error:
        raise ReportError(reason=f"an element does not fit on a page: {error}") from error
    if failed:
        raise ReportError(reason="rst2pdf failed")
    return output.getvalue()


@contextmanager
def _reproducible() -> Iterator[None]:
    """Keep reportlab from writing timestamps, random identifiers and ASCII-85 until the end of the block."""
    before = rl_config.invariant, rl_config.useA85
    rl_config.invariant, rl_config.useA85 = 1, 0
    try:
        yield
    finally:
        rl_config.invariant, rl_config.useA85 = before


def _insert_nodes(report: Report, document: nodes.document, sheet: Sheet) -> None:
    """Replace the titles of sections and the figures by our own nodes, and put one before each table with a title."""
    figures = {f"figures/{figure.name}.svg": figure for figure in report.figures}
    sections = list(document.findall(nodes.section))
    for number, (section, page) in enumerate(zip(sections, report.pages, strict=True), start=1):
        title = next(iter(section.findall(nodes.title)))
        shared = report if number > 1 else None
        title.replace_self(page_title(sheet=sheet, title=title.astext(), number=number, page=page, report=shared))
    for table in list(document.findall(nodes.table)):
        if table.first_child_matching_class(nodes.title) is not None:
            rows = len(list(table.findall(nodes.row)))
            kept = rows if rows <= _MAX_WHOLE_ROWS else _LEAST_ROWS
            line = _SIGNATURE_HEIGHT if table_style(table)[0] == "sign-off" else _LINE_HEIGHT
            height = _TABLE_TITLE_HEIGHT + kept * line
            table.parent.insert(table.parent.index(table), table_space(height=height))
    for node in list(document.findall(nodes.figure)):
        image = next(iter(node.findall(nodes.image)))
        node.replace_self(planned_figure(sheet=sheet, figure=figures[image["uri"]]))


def set_paragraph_styles(document: nodes.document) -> None:
    """Set the style of the paragraphs in every cell by table and column: rst2pdf reads it from the paragraph."""
    for table in document.findall(nodes.table):
        kind, aligns = table_style(table)
        table["classes"] = [kind]
        for row in table.findall(nodes.row):
            head = "-head" if isinstance(row.parent, nodes.thead) else ""
            for column, (entry, align) in enumerate(zip(row.children, aligns, strict=True)):
                style = f"{kind}{head}-{align}".replace("-head-left", "-head")
                if kind == "standard" and column == 2:
                    style = "standard-subtitle"
                for paragraph in entry.findall(nodes.paragraph):
                    paragraph["classes"] = [style]


def _fit_cells(document: nodes.document) -> None:
    """Shorten texts that would make a row longer than a page, which rst2pdf rejects; RST and HTML show all of them."""
    for table in document.findall(nodes.table):
        widths = [column["colwidth"] for column in table.findall(nodes.colspec)]
        for row in table.findall(nodes.row):
            for entry, width in zip(row.children, widths, strict=True):
                for text in list(entry.findall(nodes.Text)):
                    max_em = _MAX_CELL_LINES * _EM_PER_PERCENT * width
                    if sum(map(width_em, text.astext())) > max_em:
                        text.parent.replace(text, nodes.Text(short(text.astext(), max_em)))


def _link_to_files(document: nodes.document) -> None:
    """Make links open the PDFs beside the report: some PDF readers open a URI, which HTML needs, in a web browser."""
    for link in document.findall(nodes.reference):
        if link["refuri"].endswith(".pdf"):
            link["refuri"] = f"pdf:{link['refuri']}"


def _replace_unprintable(document: nodes.document) -> None:
    for text in list(document.findall(nodes.Text)):
        replacement = printable(text.astext())
        if replacement != text.astext():
            text.parent.replace(text, nodes.Text(replacement))


def printable(text: str) -> str:
    """Return ``text`` with U+FFFD for characters that the fonts lack, and no-break spaces where no line may end.

    These are the spaces in and after numbers; reportlab would break lines at the narrow ones, U+202F.
    """
    glyphs = _glyphs()
    replaced = "".join(letter if ord(letter) in glyphs else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return without_breaks(replaced).replace("\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}")


@cache
def _glyphs() -> frozenset[int]:
    """Return the code points that regular, bold and oblique all have; the style sheet has registered these fonts."""
    fonts: list[Any] = [pdfmetrics.getFont(name) for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique")]
    return frozenset.intersection(*(frozenset(font.face.charToGlyph) for font in fonts))
