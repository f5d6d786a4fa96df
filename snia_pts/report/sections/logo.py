"""The operator's logo, at the top of the first page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import ReportError
from ...model.annotations import Annotations
from ..pages import FIGURE_WIDTH, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: Inches.
_HEIGHT, _MAX_WIDTH = 0.55, 3.0
#: Pixels per inch, enough for print.
_DPI = 400
#: The name of the figure.
LOGO = "logo"


def logo(about: Annotations) -> Figure | None:
    """Return the logo in a strip of the page's width; None if there is no logo."""
    if not about.logo:
        return None
    return Figure(
        name=LOGO,
        caption="",
        alt=f"Logo of {about.vendor or about.operator or 'the operator'}",
        draw=partial(_draw, about),
        height=_HEIGHT,
    )


def _draw(about: Annotations) -> Drawing:
    """Draw the logo in the middle of a strip; raises ReportError if the image is damaged."""
    import numpy as np
    from matplotlib.figure import Figure as Drawing

    try:
        image = about.image()
    except ValueError as error:
        raise ReportError(
            reason=f"cannot draw the logo: {error}", hint="Set another logo in the --about file."
        ) from None
    image.thumbnail((int(_MAX_WIDTH * _DPI), int(_HEIGHT * _DPI)))
    scale = min(_HEIGHT / image.height, _MAX_WIDTH / image.width)
    width, height = image.width * scale / FIGURE_WIDTH, image.height * scale / _HEIGHT
    drawing = Drawing(figsize=(FIGURE_WIDTH, _HEIGHT))
    axes = drawing.add_axes((0.5 - width / 2, 0.5 - height / 2, width, height))
    axes.imshow(np.asarray(image), aspect="auto", interpolation="none")
    axes.set_axis_off()
    return drawing
