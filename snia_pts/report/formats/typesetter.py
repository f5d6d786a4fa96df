"""The names used of rst2pdf, and the folder of its fonts: those of matplotlib, so that text and figures match."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from rst2pdf.basenodehandler import NodeHandler
from rst2pdf.createpdf import RstToPdf
from rst2pdf.flowables import DelayedTable, Heading, MyPageBreak
from rst2pdf.styles import StyleSheet

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"

__all__ = ["FONTS", "DelayedTable", "Heading", "MyPageBreak", "NodeHandler", "RstToPdf", "StyleSheet"]
