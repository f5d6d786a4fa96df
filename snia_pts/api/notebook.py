"""A run as a notebook shows it: the first page of its report, as HTML."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from ..report.registry import build
from ..report.writing import html_page
from ..results.result import TestResult

#: The height of the page in a notebook, in CSS pixels; a longer page scrolls.
_HEIGHT = 720


def first_page(result: TestResult) -> str:
    """Return the first page of the report on ``result`` as an HTML element that runs no script and loads no file.

    It is a frame, so that its styles are not those of the notebook; scripts are off, because ``sandbox`` does not allow
    them.  Raises ReportError.
    """
    report = build(result)
    page = html_page(replace(report, pages=report.pages[:1])).decode("utf-8")
    style = f"width:100%; height:{_HEIGHT}px; border:0; background:white; resize:vertical"
    return f'<iframe sandbox="allow-same-origin" style="{style}" srcdoc="{escape(page)}"></iframe>'
