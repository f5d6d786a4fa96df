"""The report as PDF: laid out by rst2pdf, with vector figures, and checked before it is written.

rst2pdf cannot place PDF figures, shrinks content that does not fit and replaces unknown content by a placeholder, all
without an error.  Therefore figures and page titles are our own nodes: their flowables take exactly the planned space
and record where they were drawn; then pypdf puts each figure's PDF page there.
"""

from __future__ import annotations

import datetime
import io
import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from docutils import nodes
from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject

from ...errors import ReportError
from ...text import one_line
from ..pages import Figure, Report
from .layout import lay_out
from .placements import POINTS, Placement, Sheet

#: Layout arithmetic is float; a hundredth of a point is invisible.
_TOLERANCE = 0.01
#: matplotlib rounds a page to whole points.
_ROUNDING = 1.0


def make(report: Report, document: nodes.document, figures: Mapping[str, bytes]) -> bytes:
    """Return ``report`` as PDF from its parsed RST and its figures' PDF pages, by name.

    Raises ReportError if a page differs from its planned layout.
    """
    sheet = Sheet()
    with _collected_warnings() as messages:
        content = _finish(report, lay_out(report, document, sheet), sheet, figures)
    if messages:
        raise ReportError(reason=f"rst2pdf reported: {'; '.join(messages)}")
    return content


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect warnings and errors that rst2pdf and pypdf log, instead of printing them."""
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    loggers, listener = [logging.getLogger(name) for name in ("rst2pdf", "pypdf")], Listener(logging.WARNING)
    before = [(logger, logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [listener], False
    try:
        yield messages
    finally:
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate


def _finish(report: Report, laid_out: bytes, sheet: Sheet, figures: Mapping[str, bytes]) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(laid_out))
    check(report, sheet, pages=len(writer.pages))
    for name, placement in sheet.figures:
        figure = PdfReader(io.BytesIO(figures[name])).pages[0]
        size = float(figure.mediabox.width), float(figure.mediabox.height)
        if max(abs(size[0] - placement.width), abs(size[1] - placement.height)) > _ROUNDING:
            raise ReportError(reason=f"the figure {name} was drawn {size} points large, not as planned")
        _stamp(writer, figure, placement, name)
    names = {"/Title": one_line(report.title), "/Author": one_line(report.author), "/Producer": "snia-pts"}
    writer.metadata = {**names, **_date_metadata(report)}
    writer.page_mode = "/UseOutlines"  # readers show the bookmarks
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


def _stamp(writer: PdfWriter, figure: PageObject, placement: Placement, name: str) -> None:
    """Put a figure's PDF page at its place as a form XObject, with unchanged drawing commands."""
    contents = figure.get_contents()
    if contents is None or not contents.get_data().strip():
        raise ReportError(reason=f"the figure {name} is empty")
    form = DecodedStreamObject()
    form.set_data(contents.get_data())
    form[NameObject("/Type")], form[NameObject("/Subtype")] = NameObject("/XObject"), NameObject("/Form")
    form[NameObject("/BBox")] = ArrayObject(NumberObject(side) for side in (0, 0, *_rounded_up(placement)))
    form[NameObject("/Resources")] = cast("DictionaryObject", figure["/Resources"].get_object()).clone(writer)
    page, key = writer.pages[placement.page - 1], NameObject(f"/{name}")
    resources = cast("DictionaryObject", page["/Resources"].get_object())
    forms = resources.setdefault(NameObject("/XObject"), DictionaryObject()).get_object()
    forms[key] = writer._add_object(form.flate_encode())
    stamp = DecodedStreamObject()
    stamp.set_data(f"q 1 0 0 1 {placement.x:.4f} {placement.y:.4f} cm {key} Do Q\n".encode())
    before = page.raw_get("/Contents")
    parts = before if isinstance(before, ArrayObject) else [before]  # an array if the page has a figure already
    page[NameObject("/Contents")] = ArrayObject([*parts, writer._add_object(stamp)])


def _rounded_up(placement: Placement) -> tuple[int, int]:
    return math.ceil(placement.width), math.ceil(placement.height)


def _date_metadata(report: Report) -> dict[str, str]:
    """Return the document's dates: those of the result, so that the same result gives the same bytes."""
    try:
        moment = datetime.datetime.fromisoformat(report.dated)
    except ValueError:
        return {}
    stamp = f"D:{moment:%Y%m%d%H%M%S}" + (f"{moment:%z}"[:3] + "'" + f"{moment:%z}"[3:5] + "'" if moment.tzinfo else "")
    return {"/CreationDate": stamp, "/ModDate": stamp}


def check(report: Report, sheet: Sheet, *, pages: int) -> None:
    """Raise ReportError unless every page and figure has its planned place and size."""
    errors = [*_wrong_figures(report, sheet), *_wrong_pages(report, sheet.titles, pages)]
    if errors:
        raise ReportError(reason="; ".join(errors))


def _wrong_figures(report: Report, sheet: Sheet) -> Iterator[str]:
    planned: dict[str, Figure] = {figure.name: figure for figure in report.figures}
    placed = [name for name, _ in sheet.figures]
    for name in planned:
        if placed.count(name) != 1:
            yield f"the figure {name} is in the PDF {placed.count(name)} times"
    starts = dict(sheet.titles)
    left, bottom, right, top = sheet.frame
    for name, at in sheet.figures:
        figure = planned.get(name)
        if figure is None:
            yield f"the figure {name} was not planned"
            continue
        if max(abs(at.width - figure.width * POINTS), abs(at.height - figure.height * POINTS)) > _TOLERANCE:
            yield f"the figure {name} is {at.width:.1f} x {at.height:.1f} points, not as planned"
        inside = left - 0.5 <= at.x and at.x + at.width <= right + 0.5 and bottom - 0.5 <= at.y
        if not (inside and at.y + at.height <= sheet.tops.get(at.page, top) + 0.5):
            yield f"the figure {name} extends beyond its page"
        owner = next(page for page in report.pages if figure in page.blocks)
        if not owner.flows and starts.get(owner.title) != at.page:
            yield f"the figure {name} is not on its page"


def _wrong_pages(report: Report, titles: Sequence[tuple[str, int]], pages: int) -> Iterator[str]:
    planned = report.pages
    if [title for title, _ in titles] != [page.title for page in planned]:
        yield f"the PDF has the pages {', '.join(title for title, _ in titles)}"
        return
    ends = [start for _, start in titles[1:]] + [pages + 1]
    if titles and titles[0][1] != 1:
        yield "the PDF does not start with its first page"
    shares = [
        *(report.may_share(page, continued=before.flows) for before, page in itertools.pairwise(planned)),
        False,
    ]
    for page, (_, start), end, following_shares in zip(planned, titles, ends, shares, strict=True):
        count = end - start  # of the pages that begin with this one, so 0 if the next one begins below it
        if count < (not following_shares) or (count > 1 and not page.flows):
            yield f"the page {page.title} takes {count} PDF pages"
