"""rst2pdf without matplotlib, which it would load for formulas: a report has none, and its figures are drawn aside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let a library that nothing has loaded yet be as if it were not there, for whoever can do without."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how Python says that there is none
    try:
        yield
    finally:
        del sys.modules[name]


def _fonts() -> Path:
    """Return the folder of the faces that matplotlib brings: the same in the text as in the figures."""
    spec = find_spec("matplotlib")
    beside = Path(spec.origin).parent / "mpl-data" if spec and spec.origin else Path()
    if not beside.is_dir():  # a distribution may have them elsewhere
        import matplotlib

        beside = Path(matplotlib.get_data_path())
    return beside / "fonts" / "ttf"


with _without("matplotlib"):
    from rst2pdf.basenodehandler import NodeHandler
    from rst2pdf.createpdf import RstToPdf
    from rst2pdf.flowables import Heading, MyPageBreak
    from rst2pdf.styles import StyleSheet

FONTS = _fonts()

__all__ = ["FONTS", "Heading", "MyPageBreak", "NodeHandler", "RstToPdf", "StyleSheet"]
