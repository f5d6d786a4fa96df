"""Writes a report's files; each is replaced atomically."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .. import registries
from ..errors import ReportError, RunFolderError
from ..files import create_file, keep_folder_open, make_folder, remove, remove_folder, replace_file
from ..results.result import TestResult
from ..results.tables import data_tables
from ..trusted_paths import private_path, require_private
from .checksums import FILE_NAME as CHECKSUMS_FILE
from .checksums import checksums
from .formats.isolation import isolated
from .written_files import list_path, recorded, written

if TYPE_CHECKING:
    from docutils import nodes

    from .pages import Report

_LOGGER = logging.getLogger(__name__)
#: Hint if files of a new report cannot be written.
_NEW_FILES_HINT = "Name another folder with --out, remove what is in the way, or make room on the disk."
#: The formats of every figure, both vector.
FIGURE_FORMATS = ("svg", "pdf")


@dataclass(slots=True, kw_only=True)
class RenderContext:
    """The input of all page formats: the report, its RST, which is parsed once, and its figures by format and name."""

    report: Report
    text: str
    figures: Mapping[str, Mapping[str, bytes]]
    parsed: nodes.document | None = field(default=None)

    @property
    def document(self) -> nodes.document:
        """The parsed RST; raises ReportError for any docutils message."""
        from .formats import rst

        if self.parsed is None:
            self.parsed = rst.parse(self.text)
        return self.parsed


def _rst(context: RenderContext) -> bytes:
    return context.text.encode("utf-8")


def _pdf(context: RenderContext) -> bytes:
    from .formats import pdf

    return pdf.make(context.report, context.document, context.figures["pdf"])


def _html(context: RenderContext) -> bytes:
    from .formats import html

    return html.make(context.report, context.document, context.figures["svg"])


def _xlsx(result: TestResult) -> dict[str, bytes]:
    from .formats import xlsx

    return {"report.xlsx": xlsx.make(result)}


def _csv(result: TestResult) -> dict[str, bytes]:
    from .formats.csv_json import as_csv

    return {f"tables/{table.name}.csv": as_csv(table) for table in data_tables(result)}


def _json(result: TestResult) -> dict[str, bytes]:
    from .formats.csv_json import as_json

    return {"report.json": as_json(data_tables(result))}


def _junit(result: TestResult) -> dict[str, bytes]:
    from .formats import junit

    return {_PATHS["junit"]: junit.make(result)}


def _ocp(result: TestResult) -> dict[str, bytes]:
    from .formats import ocp

    return {_PATHS["ocp"]: ocp.make(result)}


def _interactive(result: TestResult) -> dict[str, bytes]:
    from .formats import interactive

    return {_PATHS["interactive"]: interactive.make(result)}


#: The function for each page format, by name; the file is ``report.`` with that name.
OUTPUTS: Mapping[str, Callable[[RenderContext], bytes]] = {"rst": _rst, "pdf": _pdf, "html": _html}
#: The function for each data format; it returns files by their paths in the run folder.
DATA_OUTPUTS: Mapping[str, Callable[[TestResult], Mapping[str, bytes]]] = {
    "xlsx": _xlsx,
    "csv": _csv,
    "json": _json,
    "junit": _junit,
    "ocp": _ocp,
    "interactive": _interactive,
}
#: The paths of formats whose file is not ``report.`` with their name.
_PATHS = {
    "csv": "tables",
    "junit": "report.junit.xml",
    "ocp": "report.ocp.jsonl",
    "interactive": "report.interactive.html",
}
#: The default formats of a report.
DEFAULT_FORMATS = ("rst", "pdf", "html", "xlsx")


def write(result: TestResult, folder: Path, formats: Sequence[str] = DEFAULT_FORMATS) -> dict[str, Path]:
    """Write the report on ``result`` into ``folder``; return the files (or the folder of tables) by format.

    Page formats include their figures, in ``figures/``.  The same result gives the same bytes.  Before it
    writes, it raises ReportError if a format is unknown, a page differs from its planned layout, or a file of the user
    is in the way.  If a file cannot be written (ReportError), the files before it are already replaced.
    """
    if unknown := [name for name in formats if name not in known_formats()]:
        raise ReportError(reason=f"unknown format {', '.join(unknown)}; formats: {', '.join(known_formats())}")
    from .registry import build

    files: dict[str, bytes] = {}
    with isolated():
        for name in DATA_OUTPUTS:
            if name in formats:
                files |= DATA_OUTPUTS[name](result)
        for name in filter(registries.OUTPUTS.__contains__, formats):
            files[f"report.{name}"] = _further_output(name, result)
    pages = [name for name in formats if name in OUTPUTS]
    if pages:
        files |= render(build(result), pages) | {CHECKSUMS_FILE: checksums(result)}
    replace_files(folder, files)
    if files:
        _LOGGER.info("report files written to %s: %s", folder, ", ".join(files))
    return report_paths(folder, formats)


def known_formats() -> tuple[str, ...]:
    """Return all formats, also those of the plugins that are loaded."""
    return (*OUTPUTS, *DATA_OUTPUTS, *registries.OUTPUTS)


def _further_output(name: str, result: TestResult) -> bytes:
    """Return the content of the file in a format of a plugin; raises ReportError."""
    try:
        content = registries.load(registries.OUTPUTS, name)(result)
    except Exception as error:
        reason = f"the format {name} of a plugin failed ({type(error).__name__}: {error})"
        raise ReportError(reason=reason, hint="The result is safe; omit this format, or correct the plugin.") from error
    if not isinstance(content, bytes):
        raise ReportError(reason=f"the format {name} of a plugin: expected bytes, got {type(content).__name__}")
    return content


def report_paths(folder: Path, formats: Sequence[str]) -> dict[str, Path]:
    """Return the path of a report in ``folder`` by format: a file, or a folder of tables."""
    return {name: folder / _PATHS.get(name, f"report.{name}") for name in formats}


def remove_report(folder: Path) -> None:
    """Remove every file of an outdated report, but no file of the user.

    Raises ReportError before anything is removed if a file of the report was changed, because the next report could not
    replace it; and RunFolderError if a file cannot be removed.
    """
    names = [path.name for path in report_paths(folder, known_formats()).values() if path.name != _PATHS["csv"]]
    subfolders = [list_path(folder, f"{subfolder}/file") for subfolder in ("figures", _PATHS["csv"])]
    try:
        own = written(list_path(folder, "report"), (*names, CHECKSUMS_FILE))
        for path in (*own, *(path for subfolder in subfolders for path in written(subfolder))):
            remove(path)
    except RunFolderError as error:
        raise _failed(error) from error
    except OSError as error:
        reason = f"its outdated report cannot be removed ({error.filename or 'a file'}: {error.strerror})"
        raise RunFolderError(path=folder, reason=reason, hint="Remove it yourself, and try again.") from None


def render(report: Report, formats: Sequence[str] = tuple(OUTPUTS), *, stem: str = "report") -> dict[str, bytes]:
    """Return a report's files by path: pages in ``formats``, and the figures.  Raises ReportError."""
    with isolated():
        from .figures.render import draw  # matplotlib reads its configuration when it is imported

        figures = draw(report, FIGURE_FORMATS)
        context = prepare(report, figures)
        files = {f"{stem}.{name}": OUTPUTS[name](context) for name in OUTPUTS if name in formats}
    for form, drawn in figures.items():
        files |= {f"figures/{name}.{form}": content for name, content in drawn.items()}
    return files


def html_page(report: Report) -> bytes:
    """Return a report as HTML alone, without the files of its figures.  Raises ReportError."""
    with isolated():
        from .figures.render import draw

        return _html(prepare(report, draw(report, ["svg"])))


def replace_files(folder: Path, files: Mapping[str, bytes], *, new: bool = False, hint: str = ReportError.hint) -> None:
    """Write files by their paths in ``folder``, each atomically; ``hint`` says how to make them again.

    With ``new``, none of them may exist, and if one cannot be written, all are removed again.

    Each folder has a list of the files written there.  Listed files that are not in ``files`` are removed from the
    subfolders; a file of the user is neither replaced nor removed.  Raises ReportError if a file cannot
    be written, and, before any file is written, if a file of the user is in the way or a subfolder is a symlink; raises
    RunFolderError if root runs this and others may change the folder.
    """
    require_private(folder)
    try:
        folder = private_path(folder.parent, make=True) / folder.name
        make_folder(folder)
        with keep_folder_open(folder), ExitStack() as undo:
            if existing := [place for place in files if new and os.path.lexists(folder / place)]:
                others = f" (and {len(existing) - 1} more)" if existing[1:] else ""
                raise RunFolderError(path=folder, reason=f"{existing[0]} already exists{others}")
            contents: dict[Path, dict[str, bytes]] = {}
            for place, data in files.items():
                contents.setdefault(list_path(folder, place), {})[Path(place).name] = data
            for inside in {path.parent for path in contents} - {folder}:
                make_folder(inside)
                if new:
                    undo.callback(_remove_if_empty, inside)
            with nullcontext() if new else recorded(contents):
                for place, data in files.items():
                    if new:
                        create_file(folder / place, data)
                        undo.callback(remove, folder / place)
                    else:
                        replace_file(folder / place, data, durable=False)  # it can be written again
            undo.pop_all()
    except (OSError, RunFolderError) as error:
        raise _failed(error, _NEW_FILES_HINT if new else hint) from error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        remove_folder(folder)


def _failed(error: OSError | RunFolderError, hint: str = ReportError.hint) -> ReportError:
    """Return why a file of a report could not be written or removed."""
    if isinstance(error, RunFolderError):
        return ReportError(reason=f"{error.path}: {error.reason}", hint=hint)
    return ReportError(reason=f"{error.filename or 'a file'}: {error.strerror}", hint=hint)


def prepare(report: Report, figures: Mapping[str, Mapping[str, bytes]]) -> RenderContext:
    """Return the context for all page formats of ``report``; ``figures`` are by format and name."""
    from .formats import rst

    return RenderContext(report=report, text=rst.render(report), figures=figures)
