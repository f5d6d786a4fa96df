"""Laying a report out with rst2pdf: our own nodes for page titles and figures, and the handlers that set them.

The nodes are private to this module, so that rst2pdf, used elsewhere in the same process, sees nothing of them; what
was drawn where is written on the Sheet that each node carries.
"""

from __future__ import annotations

import html
import io
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

from ...errors import ReportError
from ..header import short, width_em
from ..pages import Figure, Report
from . import page_header as letterhead
from .placements import POINTS, Placement, Sheet
from .rst import TEMPLATES, described
from .typesetter import FONTS, Heading, MyPageBreak, NodeHandler, RstToPdf, StyleSheet

#: Points that a table's title, its head and three rows take.
_FIRST_ROWS = 75
#: Lines that a table's cell may take, and em that a hundredth of a table's width holds at least.
_CELL_LINES, _EM_PER_PERCENT = 30, 0.6


class page_title(nodes.General, nodes.Element):
    """A page's title bar."""


class planned_figure(nodes.General, nodes.Element):
    """A figure with its caption."""


class enough_room(nodes.General, nodes.Element):
    """Begins a new page where there is no room for a table's title and its first rows."""


class TitleBar(Heading):  # type: ignore[misc]  # rst2pdf has no types
    """A page's title; begins a new page of the outline, and says on the sheet where it stands."""

    def __init__(self, node: nodes.Element, style: Any) -> None:
        self.sheet: Sheet = node["sheet"]
        self.title: str = node["title"]
        Heading.__init__(
            self, html.escape(self.title, quote=False), style, level=0, parent_id=f"page-{node['number']}", node=node
        )

    def draw(self) -> None:
        self.sheet.titles.append((self.title, self.canv.getPageNumber()))
        Heading.draw(self)


class PlacedFigure(Flowable):
    """Takes the room of a figure, exactly, and says on the sheet where that is."""

    def __init__(self, figure: Figure, sheet: Sheet) -> None:
        super().__init__()
        self.figure, self.sheet = figure, sheet
        self.width, self.height = figure.width * POINTS, figure.height * POINTS
        self.hAlign = "CENTER"

    def wrap(self, aW: float, aH: float) -> tuple[float, float]:  # noqa: ARG002  # reportlab's names
        """Return the planned size, whatever is offered: what does not fit goes to the next page, never shrinks."""
        return self.width, self.height

    def draw(self) -> None:
        x, y = self.canv.absolutePosition(0, 0)
        placement = Placement(page=self.canv.getPageNumber(), x=x, y=y, width=self.width, height=self.height)
        self.sheet.figures.append((self.figure.name, placement))
        frame: Any = self._frame  # type: ignore[attr-defined]  # reportlab gives it for the time of drawing
        self.sheet.frame = (frame.x1, frame.y1, frame.x1 + frame.width, frame.y1 + frame.height)


class SetTitle(NodeHandler, page_title):  # type: ignore[misc]  # registers itself with rst2pdf
    """Begins a page with its title bar."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        return [MyPageBreak(breakTo="any"), TitleBar(node, client.styles["heading1"])]


class SetFigure(NodeHandler, planned_figure):  # type: ignore[misc]
    """Sets a figure with its caption below, both on one page."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del style
        figure: Figure = node["figure"]
        caption = Paragraph(html.escape(printable(figure.caption), quote=False), client.styles["figure-caption"])
        return [KeepTogether([PlacedFigure(figure, node["sheet"]), caption])]


class SetRoom(NodeHandler, enough_room):  # type: ignore[misc]
    """Keeps a table's title and first rows together."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        del client, node, style
        return [CondPageBreak(_FIRST_ROWS)]


class _Styles(StyleSheet):  # type: ignore[misc]
    """rst2pdf's style sheets, read by libyaml where there is one: in a tenth of the time."""

    def readStyle(self, ssname: str) -> Any:
        """Return a style sheet's data."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return yaml.load(Path(self.findStyle(ssname)).read_bytes(), loader)  # noqa: S506  # both are safe


class _Maker(RstToPdf):  # type: ignore[misc]
    """rst2pdf with these style sheets."""

    def loadStyles(self, styleSheets: Sequence[str] = ()) -> None:
        """Read the style sheets, rst2pdf's own before them."""
        self.styles = _Styles(list(styleSheets), self.font_path, self.style_path, def_dpi=self.def_dpi)

    def gather_elements(self, node: nodes.Element, style: Any = None) -> list[Any]:
        """Return what a node's children are set as: only a table with a head has one to repeat on its next page."""
        if isinstance(node, nodes.table):
            self.repeat_table_rows = any(node.findall(nodes.thead))
        found: list[Any] = super().gather_elements(node, style=style)
        return found


def lay_out(report: Report, document: nodes.document, sheet: Sheet) -> bytes:
    """Return ``report`` as PDF with empty rooms for its figures, and write on ``sheet`` where they are.

    Raises ReportError when rst2pdf gives up.
    """
    from reportlab.platypus.doctemplate import LayoutError

    output = io.BytesIO()
    try:
        with _settled():
            maker = _Maker(
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
            _exchange(report, document, sheet)
            letterhead.exchange(document, sheet)
            hand_down_classes(document)
            _fit_cells(document)
            _only_printable(document)
            _lead_to_files(document)
            failed = maker.createPdf(doctree=document, output=output, compressed=True)
    except SystemExit as error:
        raise ReportError(reason="rst2pdf gave up") from error
    except LayoutError as error:
        raise ReportError(reason=f"something is larger than its page: {error}") from error
    if failed:
        raise ReportError(reason="rst2pdf gave up")
    return output.getvalue()


@contextmanager
def _settled() -> Iterator[None]:
    """Let reportlab write no clock and no chance into the file, and no ASCII-85, for the time of one build."""
    before = rl_config.invariant, rl_config.useA85
    rl_config.invariant, rl_config.useA85 = 1, 0
    try:
        yield
    finally:
        rl_config.invariant, rl_config.useA85 = before


def _exchange(report: Report, document: nodes.document, sheet: Sheet) -> None:
    """Put our own nodes in the places of sections' titles and figures."""
    figures = {f"figures/{figure.name}.svg": figure for figure in report.figures}
    for number, section in enumerate(list(document.findall(nodes.section)), start=1):
        title = next(iter(section.findall(nodes.title)))
        title.replace_self(page_title(sheet=sheet, title=title.astext(), number=number))
    for table in list(document.findall(nodes.table)):
        if table.first_child_matching_class(nodes.title) is not None:
            table.parent.insert(table.parent.index(table), enough_room())
    for node in list(document.findall(nodes.figure)):
        image = next(iter(node.findall(nodes.image)))
        node.replace_self(planned_figure(sheet=sheet, figure=figures[image["uri"]]))


def hand_down_classes(document: nodes.document) -> None:
    """Give every cell's paragraphs the style of their table and column: rst2pdf looks for it there."""
    for table in document.findall(nodes.table):
        kind, aligns = described(table)
        table["classes"] = [kind]
        for row in table.findall(nodes.row):
            head = "-head" if isinstance(row.parent, nodes.thead) else ""
            for place, (entry, align) in enumerate(zip(row.children, aligns, strict=True)):
                style = f"{kind}{head}-{align}".replace("-head-left", "-head")
                if kind == "standard" and place == 2:
                    style = "standard-subtitle"
                for paragraph in entry.findall(nodes.paragraph):
                    paragraph["classes"] = [style]


def _fit_cells(document: nodes.document) -> None:
    """Cut what would make a row longer than a page, which cannot be set; RST and HTML have it in full."""
    for table in document.findall(nodes.table):
        widths = [column["colwidth"] for column in table.findall(nodes.colspec)]
        for row in table.findall(nodes.row):
            for entry, width in zip(row.children, widths, strict=True):
                for text in list(entry.findall(nodes.Text)):
                    room_em = _CELL_LINES * _EM_PER_PERCENT * width
                    if sum(map(width_em, text.astext())) > room_em:
                        text.parent.replace(text, nodes.Text(short(text.astext(), room_em)))


def _lead_to_files(document: nodes.document) -> None:
    """Let links open the files beside the report: a URI would be looked for in the web by some readers."""
    for link in document.findall(nodes.reference):
        link["refuri"] = f"pdf:{link['refuri']}"


def _only_printable(document: nodes.document) -> None:
    for text in list(document.findall(nodes.Text)):
        shown = printable(text.astext())
        if shown != text.astext():
            text.parent.replace(text, nodes.Text(shown))


def printable(text: str) -> str:
    """Return ``text`` with what the fonts cannot show as U+FFFD, and with spaces that hold numbers together.

    reportlab breaks lines at U+202F.
    """
    known = _glyphs()
    shown = "".join(sign if ord(sign) in known else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return shown.replace("\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}")


@cache
def _glyphs() -> frozenset[int]:
    """Return the signs that all faces can show; the style sheet has registered them."""
    fonts: list[Any] = [pdfmetrics.getFont(name) for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique")]
    return frozenset.intersection(*(frozenset(font.face.charToGlyph) for font in fonts))
