"""Writes a report's files: each is the old one or the new one, never a half."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReportError
from ..files import replace_file
from ..result import TestResult
from .sums import PLACE, sums

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


def _xlsx(result: TestResult) -> dict[str, bytes]:
    from . import xlsx

    return {"report.xlsx": xlsx.make(result)}


def _csv(result: TestResult) -> dict[str, bytes]:
    from . import data

    return {f"tables/{table.name}.csv": data.as_csv(table) for table in data.tables(result)}


def _json(result: TestResult) -> dict[str, bytes]:
    from . import data

    return {"report.json": data.as_json(data.tables(result))}


def _junit(result: TestResult) -> dict[str, bytes]:
    from . import junit

    return {_PLACES["junit"]: junit.make(result)}


def _ocp(result: TestResult) -> dict[str, bytes]:
    from . import ocp

    return {_PLACES["ocp"]: ocp.make(result)}


def _interactive(result: TestResult) -> dict[str, bytes]:
    from . import interactive

    return {_PLACES["interactive"]: interactive.make(result)}


#: How each output of pages is made, by the name of its form; the file is ``report.`` with that name.  What can be done
#: before the figures are drawn comes first.
OUTPUTS: Mapping[str, Callable[[Material], bytes]] = {"rst": _rst, "pdf": _pdf, "html": _html}
#: How each output of data is made: files by their places in the run folder.
DATA_OUTPUTS: Mapping[str, Callable[[TestResult], Mapping[str, bytes]]] = {
    "xlsx": _xlsx,
    "csv": _csv,
    "json": _json,
    "junit": _junit,
    "ocp": _ocp,
    "interactive": _interactive,
}
#: What a table of data may be called.
TABLE_NAMES = re.compile(
    r"(run|specification|deviations|warnings|limits|windows|rounds|points|prepared|measurements|samples-[a-z0-9-]+)"
)
#: Where an output is that is not a file of its name.
_PLACES = {
    "csv": "tables",
    "junit": "report.junit.xml",
    "ocp": "report.ocp.jsonl",
    "interactive": "report.interactive.html",
}
#: What a report is written as where nothing else is asked for.
USUAL = ("rst", "pdf", "html", "xlsx")


def write(result: TestResult, folder: Path, formats: Sequence[str] = USUAL) -> dict[str, Path]:
    """Write the report on ``result`` into ``folder``; return what was written by format: a file, or a folder of tables.

    Pages bring their figures, in ``figures/``.  The same result gives the same bytes.  Raises ReportError when a format
    is unknown, a file cannot be written, or a page would not look as planned; files that were there before are then as
    they were.
    """
    unknown = [name for name in formats if name not in OUTPUTS and name not in DATA_OUTPUTS]
    if unknown:
        known = ", ".join((*OUTPUTS, *DATA_OUTPUTS))
        raise ReportError(reason=f"no output {', '.join(unknown)}; there are {known}")
    from .building import build

    def data() -> dict[str, bytes]:
        made = (DATA_OUTPUTS[name](result) for name in DATA_OUTPUTS if name in formats)
        return {place: content for files in made for place, content in files.items()}

    pages = [name for name in formats if name in OUTPUTS]
    files = made(build(result), pages, meanwhile=data) | {PLACE: sums(result)} if pages else data()
    replace_files(folder, files)
    if pages or "csv" in formats:
        _tidy(folder, kept=files)
    return places(folder, formats)


def places(folder: Path, formats: Sequence[str]) -> dict[str, Path]:
    """Return where a report lies in ``folder``, by format: a file, or a folder of tables."""
    return {name: folder / _PLACES.get(name, f"report.{name}") for name in formats}


def forget(folder: Path) -> None:
    """Remove every file of an earlier report: what it tells is no longer so.  Raises ReportError."""
    _remove(*places(folder, (*OUTPUTS, *DATA_OUTPUTS)).values(), folder / PLACE, *_figures(folder), *_tables(folder))


def _tidy(folder: Path, kept: Collection[str]) -> None:
    """Remove figures and tables that an earlier report had and this one, of the same kind, has not."""
    for found in (_figures(folder), _tables(folder)):
        if any(f"{path.parent.name}/{path.name}" in kept for path in found):
            _remove(*(path for path in found if f"{path.parent.name}/{path.name}" not in kept))


def _figures(folder: Path) -> list[Path]:
    """Return the figures in a run folder: what is there in all forms, and nothing that somebody put beside them."""
    place = folder / "figures"
    names = [] if place.is_symlink() else [path.with_suffix("") for path in place.glob(f"*.{FIGURE_FORMS[0]}")]
    forms = ([name.with_name(f"{name.name}.{form}") for form in FIGURE_FORMS] for name in names)
    return [path for paths in forms if all(each.is_file() for each in paths) for path in paths]


def _tables(folder: Path) -> list[Path]:
    """Return the tables in a run folder, by the names that they have, and nothing that somebody put beside them."""
    place = folder / "tables"
    return [] if place.is_symlink() else [path for path in place.glob("*.csv") if TABLE_NAMES.fullmatch(path.stem)]


def _remove(*paths: Path) -> None:
    try:
        for path in paths:
            if not path.is_dir():
                path.unlink(missing_ok=True)
    except OSError as error:
        raise ReportError(reason=f"{error.filename or 'a file'}: {error.strerror}") from error


def made(
    report: Report,
    formats: Sequence[str] = tuple(OUTPUTS),
    *,
    stem: str = "report",
    meanwhile: Callable[[], dict[str, bytes]] = dict,
) -> dict[str, bytes]:
    """Return a report's files by their places: pages in ``formats``, and the figures.  Raises ReportError.

    ``meanwhile`` makes others while the figures are drawn, before the pages, whose libraries stay in memory.
    """
    from . import drawing

    with drawing.drawn(report, FIGURE_FORMS) as figures:
        files, material = meanwhile(), prepare(report, figures)
        for name in sorted(formats, key=list(OUTPUTS).index):
            files[f"{stem}.{name}"] = OUTPUTS[name](material)
        for form, drawn in figures.items():
            files |= {f"figures/{name}.{form}": content for name, content in drawn.items()}
    return files


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their places in ``folder``, each the old one or the new one.

    Raises ReportError, also for a folder in it that is a link: that leads who knows where.
    """
    try:
        for inside in {(folder / place).parent for place in files} - {folder}:
            if inside.is_symlink():
                raise ReportError(reason=f"{inside} is a link")
        for place, data in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data, durable=False)  # it can be made again
    except OSError as error:
        raise ReportError(reason=f"{error.filename or 'a file'}: {error.strerror}") from error


def prepare(report: Report, figures: Mapping[str, Mapping[str, bytes]]) -> Material:
    """Return what every output of ``report`` is made of; ``figures`` are those by form and name."""
    from . import rst

    return Material(report=report, text=rst.render(report), figures=figures)
