"""The report as reStructuredText: readable by itself, and the source of PDF and HTML.

Every text passes through ``escape``: no text of a device, host or operator can become markup, a directive or a link, or
break a table.  Only ``Link`` makes links.  ``parse`` reads the RST back with file insertion and raw text disabled, and
fails on any message from docutils.
"""

from __future__ import annotations

import io
import re
import string
import unicodedata

import jinja2
from docutils import nodes
from docutils.core import publish_doctree

from ...errors import ReportError
from ...files import data_folder
from ...text import one_line
from ..pages import Report
from ..tables import Link, Table

TEMPLATES = data_folder("reports")

#: Python's csv module reads at most 131072 letters per cell, including escapes.
_LONGEST_CELL = 20_000
#: Always markup, in any position.
_MARKUP = re.compile(r"[\\*`|@]")
#: An underscore may end a reference, unless it is between two letters or digits.
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
#: A colon directly before text may start a URI or a role; two at the end start a literal block.
_COLON = re.compile(r":(?=\S)|:$")
#: The start of an enumerated list.
_ENUMERATOR = re.compile(r"\(?([0-9]+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)[.)](\s|$)")
#: Bullets, fields, options, line blocks, comments and title lines start with one of these.
_SIGNS = frozenset(f"{string.punctuation}\N{BULLET}\N{TRIANGULAR BULLET}\N{HYPHEN BULLET}")

#: Spaces at which no line may end: between a number and its unit, in a duration, a range or a queue depth.
_NO_BREAK = re.compile(
    r"(?<=\d) (?=(?:%|°C|us|\N{MICRO SIGN}s|ms|s|min|h|d|B|[kMGT]B(?:/s)?|[KMGT]iB|IOPS)(?![\w/]))"
    r"|(?<=\d [hd]) (?=\d)|(?<=\d min) (?=\d)|(?<=\d) (?=- \d)|(?<=\d -) (?=\d)|(?<=\b[QT][DC]) (?=\d)"
    r"|(?<=, min) (?=\d)|(?<=minutes) (?=\d)"
)


def escape(text: str) -> str:
    """Return ``text`` as one line of RST that docutils renders as this text, without any markup."""
    line = one_line(text)
    escaped = _MARKUP.sub(r"\\\g<0>", line)
    escaped = _UNDERSCORE.sub(r"\\_", escaped)
    escaped = _COLON.sub(_escape_colon, escaped)
    if escaped and not escaped.strip("\\"):
        return f"\\ {escaped}"  # a line of backslashes only would be a title line
    at_risk = bool(escaped) and escaped[0] in _SIGNS and not escaped.startswith("\\")
    return f"\\{escaped}" if at_risk or _ENUMERATOR.match(escaped) else escaped


def _escape_colon(match: re.Match[str]) -> str:
    """Escape a colon, except in times: digits on both sides, with no letter in the word before."""
    before = match.string[: match.start()].rpartition(" ")[2]
    after = match.string[match.end() : match.end() + 1]
    times = before.replace(":", "").isdigit() and after.isdigit()
    at_end = not after and not before.endswith(":")
    return ":" if times or (at_end and before) else "\\:"


def underline(text: str, sign: str = "=") -> str:
    """Return a line to underline the title ``text``, long enough for double-width letters."""
    return sign * max(4, sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text))


def csv(table: Table, indent: int = 0) -> str:
    """Return a table as a ``csv-table`` directive, its cells padded so that the source reads as a table too."""
    heads = [tuple(column.heading for column in table.columns)] if table.headed else []
    cells = [[_quoted(cell) for cell in row] for row in (*heads, *table.rows)]
    widths = [max(len(row[index]) for row in cells) if cells else 0 for index in range(len(table.columns))]
    lines = [f".. csv-table:: {escape(table.title)}".rstrip(), f"   :class: {table.classes}"]
    lines.append(f"   :widths: {' '.join(str(column.width) for column in table.columns)}")
    lines += ["   :header-rows: 1"] if table.headed else []
    lines += ["", *(f"   {_padded(row, widths, table)}" for row in cells)]
    return "\n".join(" " * indent + line if line else "" for line in lines)


def _quoted(cell: str) -> str:
    if len(cell) > _LONGEST_CELL:
        cell = f"{cell[:_LONGEST_CELL]}\N{HORIZONTAL ELLIPSIS}"
    text = f"`{cell} <{cell}>`__" if isinstance(cell, Link) else escape(cell)
    return '"' + text.replace('"', '""') + '"'


def _padded(row: list[str], widths: list[int], table: Table) -> str:
    parts = []
    for index, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
        width = min(widths[index], 40)
        comma = "," if index < len(row) - 1 else ""
        parts.append(cell.rjust(width) + comma if column.align == "right" else (cell + comma).ljust(width + 1))
    return " ".join(parts).rstrip()


def render(report: Report) -> str:
    """Return ``report`` as RST, from the template ``report.rst.j2``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # the output is RST, escaped by escape()
    )
    environment.filters.update(escape=escape, one_line=one_line, underline=underline, csv=csv)
    return environment.get_template("report.rst.j2").render(report=report)


def parse(text: str, source: str = "report.rst") -> nodes.document:
    """Parse RST; raises ReportError on any message from docutils."""
    messages = io.StringIO()
    settings = {
        "raw_enabled": False,
        "file_insertion_enabled": False,
        "doctitle_xform": False,
        "docinfo_xform": False,
        "smart_quotes": False,
        "report_level": 1,
        "halt_level": 5,
        "warning_stream": messages,
        "_disable_config": True,
        "embed_stylesheet": True,
        "line_length_limit": 1_000_000,
        "input_encoding": "unicode",
    }
    document = publish_doctree(text, source_path=source, settings_overrides=settings)
    if messages.getvalue():
        raise ReportError(reason=f"docutils reported: {messages.getvalue().strip()}")
    return document


def without_breaks(text: str) -> str:
    """Return ``text`` with no-break spaces between numbers and their units, for formats that wrap lines."""
    return _NO_BREAK.sub("\N{NO-BREAK SPACE}", text)


def table_style(table: nodes.table) -> tuple[str, list[str]]:
    """Return a parsed table's style class, and the alignment of each column: left, center or right."""
    alignment = next(name for name in table["classes"] if name.startswith("align-")).removeprefix("align-")
    kind = next(name for name in table["classes"] if not name.startswith(("align-", "colwidths-")))
    return kind, [{"l": "left", "c": "center", "r": "right"}[letter] for letter in alignment]
