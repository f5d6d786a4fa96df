"""Links of the site that plain pages do not state: to other pages by their file names, and to terms of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from snia_pts.manual import generate

_GLOSSARY = "glossary"
#: Nodes whose text has no links to terms.
_UNLINKED = (nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.term, addnodes.pending_xref)


def _names(entry: str) -> list[str]:
    """Return the names of a term: ``ART, average response time``, ``ActiveRange (AR)``."""
    return [name for name in re.split(r", | \(|\)", entry) if name]


def _terms() -> dict[str, str]:
    """Return the label of each term of the glossary by each of its names."""
    text = (Path(__file__).parent / f"{_GLOSSARY}.rst").read_text()
    entries = map(_names, re.findall(r"^(\w.*)\n(?=    \w)", text, re.MULTILINE))
    return {name: nodes.make_id(f"term {names[0]}") for names in entries for name in names}


_TERMS = _terms()
#: The same by names in small letters, for all but abbreviations.
_SMALL_TERMS = {name.lower(): label for name, label in _TERMS.items() if not name.isupper()}
#: Names that mean nothing else in a sentence: those of several words, and abbreviations.
_UNMISTAKABLE = re.compile(
    rf"\b((?i:{'|'.join(name for name in _SMALL_TERMS if ' ' in name)})"
    rf"|{'|'.join(name for name in _TERMS if name.isupper() and name not in ('PC', 'AR'))})s?\b"
)


def connect(app: Sphinx) -> None:
    """Make the links of every page that Sphinx reads."""
    for link in (_link_pages, _label_terms, _link_terms):
        app.connect("doctree-read", link)
    app.connect("autodoc-process-docstring", _link_docstring)


def _link_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Turn links to ``page.rst``, and its name in literals, into links to the page of the site, with its title."""
    for node in [*doctree.findall(nodes.reference), *doctree.findall(nodes.literal)]:
        target = node.get("refuri", node.astext())
        name = target.removesuffix(".rst")
        if name != target and name in app.env.found_docs:
            node.replace_self(_reference(app, "doc", f"/{name}", node.astext(), explicit=node.astext() != target))


def _label_terms(app: Sphinx, doctree: nodes.document) -> None:
    """Give each term of the glossary its label."""
    if app.env.docname == _GLOSSARY:
        for term in doctree.findall(nodes.term):
            label = _TERMS[_names(term.astext())[0]]
            term["ids"].append(label)
            app.env.domains.standard_domain.anonlabels[label] = _GLOSSARY, label


def _link_terms(app: Sphinx, doctree: nodes.document) -> None:
    """Link terms of the glossary to their entries: emphasised ones, and the first of each that is no everyday word."""
    linked: set[str] = set()
    for text in list(doctree.findall(nodes.Text)):
        if app.env.docname == _GLOSSARY or any(isinstance(parent, _UNLINKED) for parent in _parents(text)):
            continue
        emphasised = isinstance(text.parent, nodes.emphasis)
        match = re.fullmatch(".+", text, re.DOTALL) if emphasised else _UNMISTAKABLE.search(text)
        label = _label(match[0]) if match else None
        if match and label and (emphasised or label not in linked):
            linked.add(label)
            link = _reference(app, "ref", label, match[0], explicit=True)
            before, after = nodes.Text(text[: match.start()]), nodes.Text(text[match.end() :])
            text.parent.replace(text, [before, link, after])


def _label(words: str) -> str | None:
    """Return the label of a term, also in the plural."""
    names = (words, words.removesuffix("s"))
    return next((label for name in names if (label := _TERMS.get(name) or _SMALL_TERMS.get(name.lower()))), None)


def _parents(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _reference(app: Sphinx, kind: str, target: str, text: str, *, explicit: bool) -> addnodes.pending_xref:
    """Return a reference that Sphinx resolves when it has read all pages."""
    reference = addnodes.pending_xref(
        "", refdomain="std", reftype=kind, reftarget=target, refexplicit=explicit, refdoc=app.env.docname
    )
    reference += nodes.inline("", text)
    return reference


def _link_docstring(*event: Any) -> None:
    """Make the names of pages in a docstring literals, which ``_link_pages`` links."""
    lines = event[-1]
    lines[:] = [generate.with_page_names(line) for line in lines]
