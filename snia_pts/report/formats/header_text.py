"""The texts in the header of a PDF's pages, in narrow cells: long words are broken where a reader expects it.

reportlab breaks a word at a hyphen only if it has nothing but letters, and else wherever the line ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from docutils import nodes
from reportlab.pdfbase.pdfmetrics import getAscentDescent, stringWidth
from reportlab.platypus import Paragraph

from .typesetter import NodeHandler

#: Any word may be broken after a hyphen between letters; one that is wider than a line, after these signs, too.
_AFTER_HYPHEN = re.compile(r"(?<=[^\W\d_]-)(?=[^\W\d_])")
_AFTER_SIGN = re.compile(r"(?<=[-._/:,;=@])(?=\w)")


class header_text(nodes.paragraph):
    """A paragraph of the header."""


def insert_nodes(header: nodes.header) -> None:
    """Replace the paragraphs of the header by our own nodes."""
    for paragraph in list(header.findall(nodes.paragraph)):
        paragraph.replace_self(header_text("", "", *paragraph.children))


def wrap(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Return ``text`` in lines of at most ``width``, in the unit in which ``measure`` returns that of a text.

    A word that is wider is broken after a sign, and within letters or digits only if these are wider than a line.
    """
    lines = [""]
    for word in filter(None, text.split(" ")):
        separator = " " if lines[-1] else ""
        for piece in _pieces(word, width, measure):
            if lines[-1] and measure(f"{lines[-1]}{separator}{piece}") > width:
                lines.append(piece)
            else:
                lines[-1] += f"{separator}{piece}"
            separator = ""
    return lines


def _pieces(word: str, width: float, measure: Callable[[str], float]) -> Iterator[str]:
    """Yield the parts of a word between which a line may end."""
    if measure(word) <= width:
        yield from _AFTER_HYPHEN.split(word)
        return
    for piece in _AFTER_SIGN.split(word):
        yield from [piece] if measure(piece) <= width else piece


class HeaderText(Paragraph):
    """A paragraph whose lines end as ``wrap`` says."""

    def breakLines(self, width: Any) -> Any:
        """Return the lines of the text as reportlab draws them; ``width`` are those of the first and of other lines."""
        if not self.frags:
            return super().breakLines(width)
        fragment = self.frags[0]  # there is one for each special character, all in the same font
        measure = partial(stringWidth, fontName=fragment.fontName, fontSize=fragment.fontSize)
        text = "".join(part.text for part in self.frags)
        lines = [(width[-1] - measure(line), [line]) for line in wrap(text, width[-1], measure)]
        ascent, descent = getAscentDescent(fragment.fontName, fragment.fontSize)
        return fragment.clone(kind=0, lines=lines, ascent=ascent, descent=descent, fontSize=fragment.fontSize)


class HeaderTextHandler(NodeHandler, header_text):  # type: ignore[misc]  # registers itself with rst2pdf
    """Lays out a paragraph of the header."""

    def gather_elements(self, client: Any, node: nodes.Element, style: Any) -> list[Any]:
        return [HeaderText(client.gen_pdftext(node), style)]
