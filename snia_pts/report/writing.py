"""Writes a report's files: each is the old one or the new one, never a half."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReportError, RunFolderError
from ..files import keep_folder_open, make_folder, remove, replace_file, require_private
from ..results.result import TestResult
from .checksums import FILE_NAME as CHECKSUMS_FILE
from .checksums import checksums
from .formats.isolation import isolated

if TYPE_CHECKING:
    from docutils import nodes

    from .pages import Report

#: Every figure is kept in these forms, both vector.
FIGURE_FORMS = ("svg", "pdf")


@dataclass(slots=True, kw_only=True)
class RenderContext:
    """What outputs are made of: the report, its RST, its figures by form and name; parsed once."""

    report: Report
    text: str
    figures: Mapping[str, Mapping[str, bytes]]
    parsed: nodes.document | None = field(default=None)

    @property
    def document(self) -> nodes.document:
        """The parsed RST; raises ReportError when docutils has anything to say about it."""
        from .formats import rst

        if self.parsed is None:
            self.parsed = rst.parse(self.text)
        return self.parsed


def _rst(material: RenderContext) -> bytes:
    return material.text.encode("utf-8")


def _pdf(material: RenderContext) -> bytes:
    from .formats import pdf

    return pdf.make(material.report, material.document, material.figures["pdf"])


def _html(material: RenderContext) -> bytes:
    from .formats import html

    return html.make(material.report, material.document, material.figures["svg"])


def _xlsx(result: TestResult) -> dict[str, bytes]:
    from .formats import xlsx

    return {"report.xlsx": xlsx.make(result)}


def _csv(result: TestResult) -> dict[str, bytes]:
    from . import data

    return {f"tables/{table.name}.csv": data.as_csv(table) for table in data.tables(result)}


def _json(result: TestResult) -> dict[str, bytes]:
    from . import data

    return {"report.json": data.as_json(data.tables(result))}


def _junit(result: TestResult) -> dict[str, bytes]:
    from .formats import junit

    return {_PLACES["junit"]: junit.make(result)}


def _ocp(result: TestResult) -> dict[str, bytes]:
    from .formats import ocp

    return {_PLACES["ocp"]: ocp.make(result)}


def _interactive(result: TestResult) -> dict[str, bytes]:
    from .formats import interactive

    return {_PLACES["interactive"]: interactive.make(result)}


#: How each output of pages is made, by the name of its form; the file is ``report.`` with that name.
OUTPUTS: Mapping[str, Callable[[RenderContext], bytes]] = {"rst": _rst, "pdf": _pdf, "html": _html}
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
    r"(run|specification|deviations|settings|warnings|limits|windows|rounds|points|prepared|measurements|samples-[a-z0-9-]+)"
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
    from .registry import build

    files: dict[str, bytes] = {}
    with isolated():
        for name in DATA_OUTPUTS:
            if name in formats:
                files |= DATA_OUTPUTS[name](result)
    pages = [name for name in formats if name in OUTPUTS]
    if pages:
        files |= render(build(result), pages) | {CHECKSUMS_FILE: checksums(result)}
    replace_files(folder, files)
    if pages or "csv" in formats:
        _tidy(folder, kept=files)
    return places(folder, formats)


def places(folder: Path, formats: Sequence[str]) -> dict[str, Path]:
    """Return where a report lies in ``folder``, by format: a file, or a folder of tables."""
    return {name: folder / _PLACES.get(name, f"report.{name}") for name in formats}


def forget(folder: Path) -> None:
    """Remove every file of an earlier report: what it tells is no longer so.  Raises ReportError."""
    _remove(
        *places(folder, (*OUTPUTS, *DATA_OUTPUTS)).values(),
        folder / CHECKSUMS_FILE,
        *_figures(folder),
        *_tables(folder),
    )


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
                remove(path)
    except (OSError, RunFolderError) as error:
        raise _failed(error) from error


def render(report: Report, formats: Sequence[str] = tuple(OUTPUTS), *, stem: str = "report") -> dict[str, bytes]:
    """Return a report's files by their places: pages in ``formats``, and the figures.  Raises ReportError."""
    from .figures.render import draw

    with isolated():
        figures = draw(report, FIGURE_FORMS)
        context = prepare(report, figures)
        files = {f"{stem}.{name}": OUTPUTS[name](context) for name in OUTPUTS if name in formats}
    for form, drawn in figures.items():
        files |= {f"figures/{name}.{form}": content for name, content in drawn.items()}
    return files


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their places in ``folder``, each the old one or the new one.

    Raises ReportError, also for a folder that is a symlink: that leads who knows where; and RunFolderError where others
    may change the folder and root asks.
    """
    require_private(folder)
    try:
        folder = folder.parent.resolve() / folder.name
        folder.mkdir(parents=True, exist_ok=True)
        with keep_folder_open(folder):
            for inside in {(folder / place).parent for place in files} - {folder}:
                make_folder(inside)
            for place, data in files.items():
                replace_file(folder / place, data, durable=False)  # it can be made again
    except (OSError, RunFolderError) as error:
        raise _failed(error) from error


def _failed(error: OSError | RunFolderError) -> ReportError:
    """Return why a file of a report could not be written or removed."""
    if isinstance(error, RunFolderError):
        return ReportError(reason=f"{error.path}: {error.reason}")
    return ReportError(reason=f"{error.filename or 'a file'}: {error.strerror}")


def prepare(report: Report, figures: Mapping[str, Mapping[str, bytes]]) -> RenderContext:
    """Return what every output of ``report`` is made of; ``figures`` are those by form and name."""
    from .formats import rst

    return RenderContext(report=report, text=rst.render(report), figures=figures)
