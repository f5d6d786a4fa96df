"""The logo of whoever signs the report, on top of its first page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import ReportError
from ...model.annotations import Annotations
from ..pages import FIGURE_WIDTH, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: Inches.
_HEIGHT, _LONGEST = 0.55, 3.0
#: Pixels of an inch that print needs.
_DPI = 400


def logo(about: Annotations) -> Figure | None:
    """Return the logo in a strip as wide as the page; None where there is none."""
    if not about.logo:
        return None
    return Figure(
        name="logo",
        caption="",
        alt=f"Logo of {about.vendor or about.operator or 'whoever signs'}",
        draw=partial(_draw, about),
        height=_HEIGHT,
    )


def _draw(about: Annotations) -> Drawing:
    """Draw the logo in the middle of a strip; raises ReportError for one that is damaged."""
    import numpy as np
    from matplotlib.figure import Figure as Drawing

    try:
        image = about.image()
    except ValueError as error:
        raise ReportError(reason=f"the logo cannot be drawn: {error}", hint="Give another one with --about.") from None
    image.thumbnail((int(_LONGEST * _DPI), int(_HEIGHT * _DPI)))
    scale = min(_HEIGHT / image.height, _LONGEST / image.width)
    width, height = image.width * scale / FIGURE_WIDTH, image.height * scale / _HEIGHT
    drawing = Drawing(figsize=(FIGURE_WIDTH, _HEIGHT))
    axes = drawing.add_axes((0.5 - width / 2, 0.5 - height / 2, width, height))
    axes.imshow(np.asarray(image), aspect="auto", interpolation="none")
    axes.set_axis_off()
    return drawing
