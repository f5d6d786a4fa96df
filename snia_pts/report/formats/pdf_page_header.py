"""The header of a PDF's pages, laid out once: a form that every page with a title shows; others have a short one.

rst2pdf would lay it out again for every page, and all pages twice, because it knows their number only after the last.
A page may show a form that is drawn later.  Therefore "page n of m" is a form too, drawn at the document's end.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from docutils import nodes
from reportlab.platypus import Flowable, Paragraph, Spacer, Table

from ...errors import ReportError
from ..header import PAGE_OF_TOTAL
from . import header_text
from .placements import Sheet
from .rst import table_style
from .typesetter import NodeHandler

_FORM = "letterhead"
_STYLE = "standard-center"
#: Half the width of a table's border, which is outside the table; in points.
_HALF_LINE = 1


class page_header(nodes.General, nodes.Element):
    """The header's content."""


class page_number(nodes.General, nodes.Element):
    """The page number, as "n of m"."""


class all_page_numbers(nodes.General, nodes.Element):
    """The document's end, where the number of pages is known."""


def insert_nodes(document: nodes.document, identity: Sequence[str], runs: Mapping[str, str], sheet: Sheet) -> None:
    """Replace the header's content and its page number by our own nodes, and append one to the document.

    ``identity`` is what the short header of a continuation page shows, ``runs`` the text below the title of a section
    that goes on.

    Raises ReportError if the header has no page number.
    """
    header = next(iter(document.findall(nodes.header)))
    standard = (table for table in header.findall(nodes.table) if table_style(table)[0] == "standard")
    cells = [list(table.findall(nodes.entry))[-1] for table in standard]  # the page number's cell
    if [cell.astext() for cell in cells] != [PAGE_OF_TOTAL]:
        raise ReportError(reason="the header has no page number")
    cells[0].children[:] = [page_number(sheet=sheet)]
    header_text.insert_nodes(header)
    header.children[:] = [page_header("", *header.children, identity=tuple(identity), runs=runs, sheet=sheet)]
    document.append(all_page_numbers(sheet=sheet))


class PageHeader(Flowable):
    """Stacked flowables, drawn once and shown on every page that begins a section; all pages have one size.

    Other pages show a short header: ``identity`` (test, model, serial number, report id), and the title of a section
    that goes on, with the names of the ``runs`` in its tables.
    """

    def __init__(
        self, content: Sequence[Any], identity: Sequence[str], runs: Mapping[str, str], styles: Any, sheet: Sheet
    ) -> None:
        super().__init__()
        self.content, self.names, self.runs, self.styles, self.sheet = content, identity, runs, styles, sheet
        self.page, self.heights = 0, list[float]()
        self.short: list[Any] = []

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:
        """Return the total size, that of the full header measured for the first page."""
        if self.canv.getPageNumber() != self.page:  # a page begins
            self.page = self.canv.getPageNumber()
            kind, self.sheet.next_header = self.sheet.next_header, "continued"
            self.short = [] if kind == "full" else self._short(aW, continued=kind == "continued")
        if not self.heights:
            self.heights = [flowable.wrapOn(self.canv, aW, aH)[1] for flowable in self.content]
        heights = [flowable.wrapOn(self.canv, aW, aH)[1] for flowable in self.short] or self.heights
        self.width, self.height = aW, sum(heights)
        return self.width, self.height

    def _short(self, width: float, *, continued: bool) -> list[Any]:
        """Return the flowables of the short header of the current page."""
        test, model, serial, report_id = (html.escape(text, quote=False) for text in self.names)
        cell, bold = self.styles["small"], self.styles["banner-center"]
        known = [
            (label + text, share)
            for label, text, share in (("", model, 0.2), ("S/N: ", serial, 0.18), ("Report id: ", report_id, 0.16))
            if text
        ]
        shares = [share for _, share in known]
        cells = [
            header_text.HeaderText(test, bold),
            *(header_text.HeaderText(text, cell) for text, _ in known),
            ShownPageNumber(cell, self.sheet),
        ]
        table = Table([cells], [share * width for share in (0.92 - sum(shares), *shares, 0.08)])
        table.setStyle([("GRID", (0, 0), (-1, -1), 0.5, "#222222"), ("VALIGN", (0, 0), (-1, -1), "MIDDLE")])
        if not continued:
            return [table]
        title, runs = self.sheet.titles[-1][0], self.runs.get(self.sheet.titles[-1][0], "")
        heading = Paragraph(f"{html.escape(title, quote=False)} (continued)", self.styles["heading1"])
        note = [Paragraph(html.escape(runs, quote=False), self.styles["note"])] if runs else []
        return [table, Spacer(0, 7), heading, Spacer(0, 3), *note]

    def draw(self) -> None:
        if self.short:
            _stack(self.canv, self.short, self.width, self.height)
            return
        canvas = self.canv
        if not canvas.hasForm(_FORM):
            right, top = math.ceil(self.width), math.ceil(self.height)
            canvas.beginForm(_FORM, -_HALF_LINE, -_HALF_LINE, right + _HALF_LINE, top + _HALF_LINE)
            _stack(canvas, self.content, self.width, self.height)
            canvas.endForm()
        canvas.doForm(_FORM)
        canvas.translate(*self.sheet.number_at)
        canvas.doForm(_form_name(canvas.getPageNumber()))


def _stack(canvas: Any, flowables: Sequence[Any], width: float, height: float) -> None:
    """Draw flowables below each other, the first at ``height``."""
    for flowable in flowables:
        height -= flowable.wrapOn(canvas, width, height)[1]
        flowable.drawOn(canvas, 0, height)


def _form_name(page: int) -> str:
    return f"page-{page}"


class PageNumber(Flowable):
    """An empty space for the page number; records its position in the header on the sheet."""

    def __init__(self, style: Any, sheet: Sheet) -> None:
        super().__init__()
        self.style, self.sheet = style, sheet

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002  # reportlab's names
        """Return the size of one line."""
        self.sheet.number_width = aW
        return aW, self.style.leading

    def draw(self) -> None:
        self.sheet.number_at = self.canv.absolutePosition(0, 0)


class ShownPageNumber(PageNumber):
    """The number of the current page."""

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002
        """Return the size of one line."""
        return self.sheet.number_width, self.style.leading

    def draw(self) -> None:
        self.canv.doForm(_form_name(self.canv.getPageNumber()))


class NumbersAtEnd(Flowable):
    """A flowable of no size at the document's end, where numbers are known that pages before it show as forms."""

    def __init__(self, style: Any, sheet: Sheet) -> None:
        super().__init__()
        self.style, self.sheet = style, sheet

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002
        """Return no size, so that it fits on the last page even if that is full."""
        return 0, 0

    def draw_form(self, name: str, text: str, width: float) -> None:
        """Draw a form of this width with a text."""
        paragraph = Paragraph(text, self.style)
        paragraph.wrapOn(self.canv, width, self.style.leading)
        self.canv.beginForm(name)
        paragraph.drawOn(self.canv, 0, 0)
        self.canv.endForm()


class AllPageNumbers(NumbersAtEnd):
    """The numbers of all pages up to its own."""

    def draw(self) -> None:
        total = self.canv.getPageNumber()
        for page in range(1, total + 1):
            self.draw_form(_form_name(page), f"{page} of {total}", self.sheet.number_width)


class PageHeaderHandler(NodeHandler, page_header):  # type: ignore[misc]  # registers itself with rst2pdf
    """Lays out the header as rst2pdf would, as one flowable."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        content = client.gather_elements(node, style=style)
        return [PageHeader(content, node["identity"], node["runs"], client.styles, node["sheet"])]


class PageNumberHandler(NodeHandler, page_number):  # type: ignore[misc]
    """Reserves space for the page number."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [PageNumber(client.styles[_STYLE], node["sheet"])]


class AllPageNumbersHandler(NodeHandler, all_page_numbers):  # type: ignore[misc]
    """Draws the page numbers when their total is known."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [AllPageNumbers(client.styles[_STYLE], node["sheet"])]
