"""Reports as PDF without the time that their figures take: each is a frame of the size that is planned for it."""

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

#: What the names of the header's forms begin with; all others are figures.
HEADER_FORMS = "FormXob."


@cache
def frame(width: float, height: float) -> bytes:
    """Return a PDF page of so many inches with a frame around it."""
    output = io.BytesIO()
    canvas = Canvas(output, pagesize=(POINTS * width, POINTS * height))
    canvas.rect(0, 0, POINTS * width, POINTS * height)
    canvas.save()
    return output.getvalue()


def typeset(result: TestResult) -> tuple[Report, pypdf.PdfReader]:
    """Return a report and its PDF, checked as every PDF is: what stands on which page, and how large."""
    report = building.build(result)
    frames = {figure.name: frame(figure.width, figure.height) for figure in report.figures}
    return report, pypdf.PdfReader(io.BytesIO(pdf.make(report, rst.parse(rst.render(report)), frames)))


def forms_of(page: pypdf.PageObject) -> dict[str, Any]:
    """Return references to the forms that a page shows, by name."""
    resources: Any = page["/Resources"]
    forms = resources.get("/XObject", {})
    return {name.removeprefix("/"): forms.raw_get(name) for name in forms}
