"""Turns a report's figures into files' contents."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..pages import Report
from .style import SETTINGS

#: No clock and no version in the files.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def draw(report: Report, forms: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Return every figure in each of ``forms``, by form and name; matplotlib's settings stay as they were."""
    drawn: dict[str, dict[str, bytes]] = {form: {} for form in forms}
    with settings():
        for figure in report.figures:
            made = figure.draw()
            for form in forms:
                output = io.BytesIO()
                made.savefig(output, format=form, metadata=_METADATA[form])
                drawn[form][figure.name] = output.getvalue()
    return drawn


@contextmanager
def settings() -> Iterator[None]:
    """Draw with the report's settings alone, whatever the user's matplotlibrc says; put back what was set before."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(dict(SETTINGS))
        yield
