"""The report as HTML: a self-contained file for archiving, without scripts or requests, with embedded figures."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from docutils import nodes
from docutils.core import publish_from_doctree

from ...text import one_line
from ..header import PAGE_OF_TOTAL
from ..pages import Report
from .rst import TEMPLATES, table_style


def make(report: Report, document: nodes.document, figures: Mapping[str, bytes]) -> bytes:
    """Return ``report`` as HTML from its parsed RST and its figures' SVGs, by name."""
    document = document.deepcopy()
    _align_tables(document)
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
    }
    document["title"] = one_line(report.title)
    return _with_inline_figures(
        bytes(publish_from_doctree(document, writer="html5", settings_overrides=settings)), figures
    )


def _align_tables(document: nodes.document) -> None:
    """Give every cell the class of its column's alignment, and remove the page number, which HTML does not have."""
    for table in list(document.findall(nodes.table)):
        kind, aligns = table_style(table)
        table["classes"] = [kind, "colwidths-given"]
        for row in table.findall(nodes.row):
            for entry, align in zip(row.children, aligns, strict=True):
                if isinstance(entry, nodes.Element):
                    entry["classes"] = [align]
        if PAGE_OF_TOTAL in table.astext():
            _drop_last_columns(table, 2)


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
