"""The table of contents of a PDF, two titles side by side, with page numbers that are known after the last page.

rst2pdf would lay out the whole document a second time for them.  Instead each number is a form, drawn at the
document's end, like "page n of m" in the header.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from docutils import nodes
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus import Flowable, KeepTogether, Paragraph, Table

from .pdf_page_header import NumbersAtEnd
from .placements import Sheet, title_anchor
from .typesetter import NodeHandler

#: The widths of a title and its page number: a share of a column, and points.
_TITLE_SHARE, _NUMBER_WIDTH = 0.9, 20


class contents_list(nodes.General, nodes.Element):
    """The table of contents."""


class contents_numbers(nodes.General, nodes.Element):
    """The document's end, where the pages of all titles are known."""


def insert_nodes(document: nodes.document, titles: Sequence[str], sheet: Sheet) -> None:
    """Replace the list of docutils, if there is one, by our own, and append its page numbers to the document."""
    for topic in list(document.findall(nodes.topic)):
        topic.replace_self(contents_list(heading=topic.children[0].astext(), titles=titles))
        document.append(contents_numbers(sheet=sheet))


class TitleNumber(Flowable):
    """The page of a title; its form is drawn later."""

    def __init__(self, number: int, style: Any) -> None:
        super().__init__()
        self.number, self.style = number, style

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002  # reportlab's names
        """Return the size of one line."""
        return _NUMBER_WIDTH, self.style.leading

    def draw(self) -> None:
        self.canv.doForm(_form_name(self.number))


class TitleNumbers(NumbersAtEnd):
    """The page numbers of all titles."""

    def draw(self) -> None:
        for number, (_, page) in enumerate(self.sheet.titles, start=1):
            self.draw_form(_form_name(number), str(page), _NUMBER_WIDTH)


def _form_name(number: int) -> str:
    return f"title-{number}"


class ContentsHandler(NodeHandler, contents_list):  # type: ignore[misc]  # registers itself with rst2pdf
    """Lays out the table of contents on one page, read down its two columns."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        cell = client.styles["contents"]
        entries = [_entry(number, title, cell) for number, title in enumerate(node["titles"], start=1)]
        width = _TITLE_SHARE / 2 * client.styles.tw
        lines = [math.ceil(stringWidth(title, cell.fontName, cell.fontSize) / width) for title in node["titles"]]
        half = max(1, sum(2 * count <= sum(lines) + 1 for count in accumulate(lines)))
        # Two tables, because an entry of two lines in one column must not add space to the other.
        columns = [
            _table(column, [f"{_TITLE_SHARE:.0%}", _NUMBER_WIDTH]) for column in (entries[:half], entries[half:])
        ]
        table = _table([columns], ["50%", "50%"])
        return [KeepTogether([Paragraph(node["heading"], client.styles["table-title"]), table])]


def _table(rows: list[list[Any]], widths: list[Any]) -> Table:
    """Return a table without lines and padding."""
    table = Table(rows, widths, hAlign="LEFT")
    padding = [(f"{side}PADDING", (0, 0), (-1, -1), 0) for side in ("TOP", "BOTTOM", "RIGHT", "LEFT")]
    table.setStyle([("VALIGN", (0, 0), (-1, -1), "TOP"), *padding])
    return table


def _entry(number: int, title: str, style: Any) -> list[Any]:
    text = f'<a href="#{title_anchor(number)}">{html.escape(title, quote=False)}</a>'
    return [Paragraph(text, style), TitleNumber(number, style)]


class TitleNumbersHandler(NodeHandler, contents_numbers):  # type: ignore[misc]
    """Draws the page numbers when they are known."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [TitleNumbers(client.styles["contents-number"], node["sheet"])]
