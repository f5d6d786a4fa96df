"""Writes a report's files: each is the old one or the new one, never a half."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReportError
from ..files import replace_file
from ..result import TestResult

if TYPE_CHECKING:
    from docutils import nodes

    from .pages import Report

#: Every figure is kept in these forms, both vector.
FIGURE_FORMS = ("svg", "pdf")


@dataclass(slots=True, kw_only=True)
class Material:
    """What outputs are made of: the report, its RST, its figures by form and name; parsed once."""

    report: Report
    text: str
    figures: Mapping[str, Mapping[str, bytes]]
    parsed: nodes.document | None = field(default=None)

    @property
    def document(self) -> nodes.document:
        """The parsed RST; raises ReportError when docutils has anything to say about it."""
        from . import rst

        if self.parsed is None:
            self.parsed = rst.parse(self.text)
        return self.parsed


def _rst(material: Material) -> bytes:
    return material.text.encode("utf-8")


def _pdf(material: Material) -> bytes:
    from . import pdf

    return pdf.make(material.report, material.document, material.figures["pdf"])


def _html(material: Material) -> bytes:
    from . import html

    return html.make(material.report, material.document, material.figures["svg"])


#: How each output is made, by the name of its form; the file is ``report.`` with that name.
OUTPUTS: Mapping[str, Callable[[Material], bytes]] = {"rst": _rst, "pdf": _pdf, "html": _html}


def write(result: TestResult, folder: Path, formats: Sequence[str] = ("rst", "pdf", "html")) -> dict[str, Path]:
    """Write the report on ``result`` into ``folder``, with its figures in ``figures/``; return the reports by format.

    The same result gives the same bytes.  Raises ReportError when a format is unknown, a file cannot be written, or a
    page would not look as planned; files that were there before are then as they were.
    """
    unknown = [name for name in formats if name not in OUTPUTS]
    if unknown:
        raise ReportError(reason=f"no output {', '.join(unknown)}; there are {', '.join(OUTPUTS)}")
    material = prepare(result)
    made = {name: OUTPUTS[name](material) for name in formats}
    figures = {f"figures/{name}.{form}": data for form in FIGURE_FORMS for name, data in material.figures[form].items()}
    reports = {f"report.{name}": data for name, data in made.items()}
    replace_files({folder / name: data for name, data in (figures | reports).items()})
    return {name: folder / f"report.{name}" for name in formats}


def replace_files(files: Mapping[Path, bytes]) -> None:
    """Write ``files``, each the old one or the new one, and the folders they lie in.  Raises ReportError."""
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data, durable=False)  # it can be made again
    except OSError as error:
        raise ReportError(reason=f"{error.filename or 'a file'}: {error.strerror}") from error


def prepare(result: TestResult) -> Material:
    """Return what every output of a report on ``result`` is made of."""
    from . import drawing, rst
    from .building import build

    report = build(result)
    return Material(report=report, text=rst.render(report), figures=drawing.draw(report, FIGURE_FORMS))
