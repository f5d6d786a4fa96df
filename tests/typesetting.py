"""Reports as PDF without the time for their figures: each is an empty frame of its planned size."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import pypdf
from reportlab.pdfgen.canvas import Canvas

from snia_pts.report import registry as building
from snia_pts.report.formats import pdf, rst
from snia_pts.report.formats.placements import POINTS
from snia_pts.report.pages import Report
from snia_pts.results.result import TestResult

#: The prefix of the names of the header's forms; all others are figures.
HEADER_FORMS = "FormXob."


@cache
def frame(width: float, height: float) -> bytes:
    """Return a PDF page of this size in inches with a frame around it."""
    output = io.BytesIO()
    canvas = Canvas(output, pagesize=(POINTS * width, POINTS * height))
    canvas.rect(0, 0, POINTS * width, POINTS * height)
    canvas.save()
    return output.getvalue()


def typeset(result: TestResult) -> tuple[Report, pypdf.PdfReader]:
    """Return a report and its PDF, checked like every PDF: the content of its pages, and its size."""
    report = building.build(result)
    frames = {figure.name: frame(figure.width, figure.height) for figure in report.figures}
    return report, pypdf.PdfReader(io.BytesIO(pdf.make(report, rst.parse(rst.render(report)), frames)))


def forms_of(page: pypdf.PageObject) -> dict[str, Any]:
    """Return references to the forms that a page shows, by name."""
    resources: Any = page["/Resources"]
    forms = resources.get("/XObject", {})
    return {name.removeprefix("/"): forms.raw_get(name) for name in forms}
