"""The report as reStructuredText: readable by itself, and the source of PDF and HTML.

Every text that is set passes through ``escape``: no device, host or operator can say anything that becomes markup,
a directive, a link, or breaks a table.  Links are made of ``Link`` alone.  ``parse`` reads it back with file insertion
and raw text disabled, and takes any message of docutils for a failure.
"""

from __future__ import annotations

import io
import re
import string
import unicodedata
from typing import TYPE_CHECKING

from ...errors import ReportError
from ...files import data_folder
from ...text import one_line
from ..pages import Report
from ..tables import Link, Table

if TYPE_CHECKING:
    from docutils import nodes

TEMPLATES = data_folder("reports")

#: Python's csv takes no more than 131072 letters, escapes included.
_LONGEST_CELL = 20_000
#: Always markup, wherever they stand.
_MARKUP = re.compile(r"[\\*`|@]")
#: An underscore that does not stand between two letters or digits may end a reference.
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
#: A colon right before text may begin an address or a role; two at the end, a literal block.
_COLON = re.compile(r":(?=\S)|:$")
#: What begins an enumerated list; a bullet, field, option, line block, comment or title's line begins with a sign.
_ENUMERATOR = re.compile(r"\(?([0-9]+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)[.)](\s|$)")
_SIGNS = frozenset(f"{string.punctuation}\N{BULLET}\N{TRIANGULAR BULLET}\N{HYPHEN BULLET}")


def escape(text: str) -> str:
    """Return ``text`` as RST that reads as just this text."""
    shown = one_line(text)
    escaped = _MARKUP.sub(r"\\\g<0>", shown)
    escaped = _UNDERSCORE.sub(r"\\_", escaped)
    escaped = _COLON.sub(_escape_colon, escaped)
    if escaped and not escaped.strip("\\"):
        return f"\\ {escaped}"  # nothing but backslashes would be a title's line
    at_risk = bool(escaped) and escaped[0] in _SIGNS and not escaped.startswith("\\")
    return f"\\{escaped}" if at_risk or _ENUMERATOR.match(escaped) else escaped


def _escape_colon(match: re.Match[str]) -> str:
    """Leave the colons of times alone: digits on both sides, with no letter in the word before."""
    before = match.string[: match.start()].rpartition(" ")[2]
    after = match.string[match.end() : match.end() + 1]
    times = before.replace(":", "").isdigit() and after.isdigit()
    lonely = not after and not before.endswith(":")
    return ":" if times or (lonely and before) else "\\:"


def underline(text: str, sign: str = "=") -> str:
    """Return a title line under ``text`` that is long enough, whatever the width of its letters."""
    return sign * max(4, sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text))


def csv(table: Table, indent: int = 0) -> str:
    """Return a table as a ``csv-table`` directive, its cells padded so that the source reads as a table too."""
    heads = [tuple(column.heading for column in table.columns)] if table.headed else []
    cells = [[_quoted(cell) for cell in row] for row in (*heads, *table.rows)]
    widths = [max(len(row[place]) for row in cells) if cells else 0 for place in range(len(table.columns))]
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
    for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
        width = min(widths[place], 40)
        comma = "," if place < len(row) - 1 else ""
        parts.append(cell.rjust(width) + comma if column.align == "right" else (cell + comma).ljust(width + 1))
    return " ".join(parts).rstrip()


def render(report: Report) -> str:
    """Return ``report`` as RST, from the template ``report.rst.j2``."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # it makes RST, by escape()
    )
    environment.filters.update(escape=escape, one_line=one_line, underline=underline, csv=csv)
    return environment.get_template("report.rst.j2").render(report=report)


def parse(text: str, source: str = "report.rst") -> nodes.document:
    """Parse RST; raises ReportError when docutils has anything to say about it."""
    from docutils.core import publish_doctree

    said = io.StringIO()
    settings = {
        "raw_enabled": False,
        "file_insertion_enabled": False,
        "doctitle_xform": False,
        "docinfo_xform": False,
        "smart_quotes": False,
        "report_level": 1,
        "halt_level": 5,
        "warning_stream": said,
        "_disable_config": True,
        "embed_stylesheet": True,
        "line_length_limit": 1_000_000,
        "input_encoding": "unicode",
    }
    document = publish_doctree(text, source_path=source, settings_overrides=settings)
    if said.getvalue():
        raise ReportError(reason=f"docutils says: {said.getvalue().strip()}")
    return document


def described(table: nodes.table) -> tuple[str, list[str]]:
    """Return a parsed table's kind, and how its columns lean."""
    lean = next(name for name in table["classes"] if name.startswith("align-")).removeprefix("align-")
    kind = next(name for name in table["classes"] if not name.startswith(("align-", "colwidths-")))
    return kind, [{"l": "left", "c": "center", "r": "right"}[letter] for letter in lean]
