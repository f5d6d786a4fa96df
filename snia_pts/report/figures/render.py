"""Renders a report's figures to SVG and PDF."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib

from ..pages import Report
from .style import SETTINGS

#: Omits dates and versions, so that equal figures give equal files.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def draw(report: Report, forms: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Return every figure in each of ``forms``, by form and name; matplotlib's settings are restored."""
    drawn: dict[str, dict[str, bytes]] = {form: {} for form in forms}
    with settings():
        for figure in report.figures:
            canvas = figure.draw()
            for form in forms:
                output = io.BytesIO()
                canvas.savefig(output, format=form, metadata=_METADATA[form])
                drawn[form][figure.name] = output.getvalue()
    return drawn


@contextmanager
def settings() -> Iterator[None]:
    """Use only the report's settings, ignoring the user's matplotlibrc; restore the previous settings on exit."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(dict(SETTINGS))
        yield
