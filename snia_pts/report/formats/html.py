"""The report as HTML: a self-contained file for archiving, without scripts or requests, with embedded figures."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from docutils import nodes
from docutils.core import publish_from_doctree
from docutils.writers import html5_polyglot

from ...text import one_line, without_breaks
from ..header import PAGE_OF_TOTAL
from ..pages import Report
from ..sections.logo import LOGO
from .rst import TEMPLATES, table_style

#: Which columns of a table have row headers, by its kind: every n-th, or only the first.
_ROW_HEADERS = {
    "facts": slice(1),
    "numbers": slice(1),
    "matrix": slice(1),
    "names": slice(None, None, 2),
    "blocks": slice(None, None, 2),
}
#: Paths, options and digests with more letters than any word may be broken at these places.
_LONG_TOKEN = re.compile(r"\S{17,}")
_BREAKS = re.compile(r"(?<=\w)/(?=\w)|\.(?=\w{6})|[_=,;:@&?\]](?=\w)|[0-9A-Fa-f]{16}(?=[0-9A-Fa-f])")

#: The letters for the names of runs in the lower margin of a printed page, which has room for three lines of them.
_MAX_RUNS = 400
#: A command line of the suite, at the start of a text or after a colon.
_COMMAND = re.compile(r"(?:^|(?<=: ))snia-pts [a-z].*?(?=\.?$)", re.DOTALL)
#: Options, ranges, names of files, dates and serial numbers: no line may end in them, but browsers would end it after
#: their hyphen.
_WHOLE = re.compile(
    r"((?<!\S)--?[A-Za-z][\w-]*|\d[\d.]*\xa0-\xa0\d[\d.]*|\b\d{5}-[a-z]+\b"
    r"|(?<![\w-])(?=[A-Z0-9-]{3,24}(?![\w-]))[A-Z0-9]+(?:-[A-Z0-9]+)+)"
)


def make(report: Report, document: nodes.document, figures: Mapping[str, bytes]) -> bytes:
    """Return ``report`` as HTML from its parsed RST and its figures' SVGs, by name."""
    document = document.deepcopy()
    _style_tables(document)
    _style_pictures(document)
    _add_title(document, report)
    settings = {
        "stylesheet_path": str(TEMPLATES / "report.css"),
        "embed_stylesheet": True,
        "image_loading": "link",
        "output_encoding": "utf-8",
        "_disable_config": True,
        "raw_enabled": False,
        "file_insertion_enabled": False,
        "initial_header_level": 2,
        "generator": False,
        "datestamp": "",
        "source_link": False,
        "xml_declaration": False,
        "table_style": "",
        "math_output": "MathML",
        "toc_backlinks": False,
    }
    document["title"] = one_line(report.title)
    writer = html5_polyglot.Writer()
    writer.translator_class = _Translator
    page = bytes(publish_from_doctree(document, writer=writer, settings_overrides=settings))
    return _with_inline_figures(page.replace(b"</style>", _printed_identity(report) + b"</style>", 1), figures)


class _Translator(html5_polyglot.HTMLTranslator):
    """Writes header cells with their scope, commands as code, and places where a long path or digest may be broken.

    Each table of a section, and each image of a figure, is in a box of its own that scrolls sideways.
    """

    def starttag(self, node: nodes.Element, tagname: str, *args: Any, **attributes: Any) -> str:
        if tagname == "th":
            attributes["scope"] = "col" if isinstance(node.parent.parent, nodes.thead) else "row"
        return str(super().starttag(node, tagname, *args, **attributes))

    def visit_table(self, node: nodes.table) -> None:
        if isinstance(node.parent, nodes.section):
            self.body.append('<div class="scroll">\n')
        super().visit_table(node)

    def depart_table(self, node: nodes.table) -> None:
        super().depart_table(node)
        if isinstance(node.parent, nodes.section):
            self.body.append("</div>\n")

    def visit_image(self, node: nodes.image) -> None:
        if isinstance(node.parent, nodes.figure):
            self.body.append('<div class="scroll">\n')
        super().visit_image(node)

    def depart_image(self, node: nodes.image) -> None:
        super().depart_image(node)
        if isinstance(node.parent, nodes.figure):
            self.body.append("</div>\n")

    def visit_Text(self, node: nodes.Text) -> None:
        text = without_breaks(node.astext())
        if command := _COMMAND.search(text):
            self._write(text[: command.start()])
            self.body.append('<code class="command">')
            self._write(command[0])
            self.body.append("</code>")
            text = text[command.end() :].removeprefix(".")
        self._write(text)

    def _write(self, text: str) -> None:
        """Write a text in which options and ranges stay whole, and long words may be broken."""
        for number, part in enumerate(_WHOLE.split(text)):
            parts = _LONG_TOKEN.sub(lambda token: _BREAKS.sub("\\g<0>\0", token[0]), part).split("\0")
            content = "<wbr>".join(map(self.encode, parts))
            self.body.append(f'<span class="whole">{content}</span>' if number % 2 else content)


def _printed_identity(report: Report) -> bytes:
    """Return the rule that prints at the end of every page what the report is on, even if its header does not fit."""
    texts = report.header.identity if report.header.test.rows else (report.title,)
    lines = (
        one_line(", ".join(filter(None, texts))),
        textwrap.shorten(report.runs, _MAX_RUNS, placeholder=" \N{HORIZONTAL ELLIPSIS}"),
    )
    content = "\n".join(filter(None, lines))
    content = "".join(letter if letter.isalnum() else f"\\{ord(letter):x} " for letter in content)
    return f'@page {{ @bottom-left {{ content: "{content}"; }} }}\n'.encode()


def _style_tables(document: nodes.document) -> None:
    """Give every cell the class of its column's alignment, and remove the page number, which HTML does not have."""
    for table in list(document.findall(nodes.table)):
        kind, aligns = table_style(table)
        table["classes"] = [kind, "colwidths-given"]
        for column in list(table.findall(nodes.colspec))[_ROW_HEADERS.get(kind, slice(0))]:
            column["stub"] = 1
        for row in table.findall(nodes.row):
            for entry, align in zip(row.children, aligns, strict=True):
                if isinstance(entry, nodes.Element):
                    entry["classes"] = [align]
        if PAGE_OF_TOTAL in table.astext():
            _drop_last_columns(table, 2)


def _style_pictures(document: nodes.document) -> None:
    """Mark the logo, whose colours dark mode keeps; those of figures are inverted."""
    for image in document.findall(nodes.image):
        image["classes"] = ["logo" if image["uri"] == f"figures/{LOGO}.svg" else "plot"]


def _add_title(document: nodes.document, report: Report) -> None:
    """Add the title before the first page."""
    first = next(document.findall(nodes.section))
    document.insert(document.index(first), nodes.title("", one_line(report.title)))


def _drop_last_columns(table: nodes.table, count: int) -> None:
    for parts in (list(table.findall(nodes.row)), list(table.findall(nodes.tgroup))):
        for parent in parts:
            cells = [child for child in parent.children if isinstance(child, nodes.entry | nodes.colspec)]
            for child in cells[-count:]:
                parent.remove(child)


def _with_inline_figures(page: bytes, figures: Mapping[str, bytes]) -> bytes:
    """Embed the SVGs as data URIs: each has its own ids, and scripts in them cannot run.

    No text of the page can match a figure's ``src`` attribute, because its quotation marks are escaped.
    """
    for name, svg in figures.items():
        data = b"data:image/svg+xml;base64," + base64.b64encode(svg)
        page = page.replace(f'src="figures/{name}.svg"'.encode(), b'src="' + data + b'"')
    return page
