"""The header of a PDF's pages, set once: a form that every page shows.

rst2pdf would set it for each page anew, and all pages twice, because their number is known after the last.  A page may
show a form that is drawn later, so which page of how many it is are forms too, drawn at the document's end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from reportlab.platypus import Flowable, Paragraph

from ...errors import ReportError
from ..header import PAGE_OF_TOTAL
from .placements import Sheet
from .rst import described
from .typesetter import NodeHandler

_FORM = "letterhead"
_STYLE = "standard-center"
#: Half a table's line is outside of the table; in points.
_LINE = 1


class letterhead(nodes.General, nodes.Element):
    """All that the header holds."""


class page_number(nodes.General, nodes.Element):
    """Where every page says which of how many it is."""


class all_page_numbers(nodes.General, nodes.Element):
    """The document's end, where that is known."""


def exchange(document: nodes.document, sheet: Sheet) -> None:
    """Put our own nodes in the places of the header's content and its page number, and one at the document's end.

    Raises ReportError when the header has no place for a page number.
    """
    header = next(iter(document.findall(nodes.header)))
    standard = (table for table in header.findall(nodes.table) if described(table)[0] == "standard")
    cells = [list(table.findall(nodes.entry))[-1] for table in standard]  # no other text there becomes a number
    if [cell.astext() for cell in cells] != [PAGE_OF_TOTAL]:
        raise ReportError(reason="the header has no place for the page's number")
    cells[0].children[:] = [page_number(sheet=sheet)]
    header.children[:] = [letterhead("", *header.children, sheet=sheet)]
    document.append(all_page_numbers(sheet=sheet))


class Letterhead(Flowable):
    """Flowables below each other, drawn once and shown by every page, which are all of one size."""

    def __init__(self, content: Sequence[Any], sheet: Sheet) -> None:
        super().__init__()
        self.content, self.sheet = content, sheet
        self.heights: list[float] = []

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:
        """Return the room that all take together, as the first page finds it."""
        if not self.heights:
            self.heights = [each.wrapOn(self.canv, aW, aH)[1] for each in self.content]
            self.width, self.height = aW, sum(self.heights)
        return self.width, self.height

    def draw(self) -> None:
        canvas = self.canv
        if not canvas.hasForm(_FORM):
            right, top = math.ceil(self.width), math.ceil(self.height)
            canvas.beginForm(_FORM, -_LINE, -_LINE, right + _LINE, top + _LINE)
            bottom = self.height
            for each, height in zip(self.content, self.heights, strict=True):
                bottom -= height
                each.drawOn(canvas, 0, bottom)
            canvas.endForm()
        canvas.doForm(_FORM)
        canvas.translate(*self.sheet.number_at)
        canvas.doForm(_number(canvas.getPageNumber()))


def _number(page: int) -> str:
    return f"page-{page}"


class PageNumber(Flowable):
    """Takes the room of a page's number, and says on the sheet where in the header that is."""

    def __init__(self, style: Any, sheet: Sheet) -> None:
        super().__init__()
        self.style, self.sheet = style, sheet

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002  # reportlab's names
        """Return the room of a line."""
        self.sheet.number_width = aW
        return aW, self.style.leading

    def draw(self) -> None:
        self.sheet.number_at = self.canv.absolutePosition(0, 0)


class AllPageNumbers(Flowable):
    """Takes no room; draws the numbers of all pages up to its own."""

    def __init__(self, style: Any, sheet: Sheet) -> None:
        super().__init__()
        self.style, self.sheet = style, sheet

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002
        """Return no room: it stands on the last page, however full that is."""
        return 0, 0

    def draw(self) -> None:
        canvas, total = self.canv, self.canv.getPageNumber()
        for page in range(1, total + 1):
            told = Paragraph(f"{page} of {total}", self.style)
            told.wrapOn(canvas, self.sheet.number_width, self.style.leading)
            canvas.beginForm(_number(page))
            told.drawOn(canvas, 0, 0)
            canvas.endForm()


class SetLetterhead(NodeHandler, letterhead):  # type: ignore[misc]  # registers itself with rst2pdf
    """Sets the header as rst2pdf would, as one flowable."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        return [Letterhead(client.gather_elements(node, style=style), node["sheet"])]


class SetPageNumber(NodeHandler, page_number):  # type: ignore[misc]
    """Keeps room for the page's number."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [PageNumber(client.styles[_STYLE], node["sheet"])]


class SetAllPageNumbers(NodeHandler, all_page_numbers):  # type: ignore[misc]
    """Draws the pages' numbers when all are known."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [AllPageNumbers(client.styles[_STYLE], node["sheet"])]
