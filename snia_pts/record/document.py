"""Reads result.xml as if it came from an enemy: no entities, no DTD, no network, valid against the schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import zip_longest

from lxml import etree

from ..errors import RecordError
from ..specfile import SPECS

LARGEST_BYTES = 256 * 1024 * 1024


def parse(document: bytes, name: str) -> etree._Element:
    """Parse a result document from anywhere.

    Raises RecordError with the line and what is wrong.
    """
    if len(document) > LARGEST_BYTES:
        raise RecordError(path=name, reason="it is larger than any result this suite writes")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        raise RecordError(path=name, reason=f"it is not well-formed XML ({error.msg})") from None
    if root.getroottree().docinfo.doctype:
        raise RecordError(path=name, reason="it has a document type, which a result never has")
    schema = _schema()
    if not schema.validate(root):
        complaint = schema.error_log.last_error
        said = f"line {complaint.line}: {complaint.message}" if complaint else "it is not valid"
        raise RecordError(path=name, reason=said)
    for column, count in (
        (column, found.get("count")) for found in root.iterfind("time_line/samples") for column in found
    ):
        if len((column.text or "").split()) != int(count or 0):
            reason = f"line {column.sourceline}: {column.tag!s} has not the {count} values that its samples have"
            raise RecordError(path=name, reason=reason)
    return root


@cache
def _schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(SPECS / "result.xsd")))


def compare(stored: etree._Element, made: etree._Element) -> Iterator[str]:
    """Give a sentence for each value, or missing element, in which a stored document differs from the one ``made``.

    Another version of the suite is no difference.
    """
    for name in sorted(set(stored.attrib) | set(made.attrib)):
        before, now = stored.get(name), made.get(name)
        if before != now and name != "suite_version":
            yield f"line {stored.sourceline}, {stored.tag!s} {name}: {before} is stored, the journal gives {now}"
    yield from _compare_texts(stored, made)
    for one, other in zip_longest(stored, made):
        if one is None or other is None or one.tag != other.tag:
            yield f"line {stored.sourceline}, {stored.tag!s}: it holds other elements than the journal gives"
            return
        yield from compare(one, other)


def _compare_texts(stored: etree._Element, made: etree._Element) -> Iterator[str]:
    if stored.text == made.text:
        return
    values = zip_longest((stored.text or "").split(), (made.text or "").split())
    for number, (before, now) in enumerate(values, start=1):
        if before != now:
            place = f"line {stored.sourceline}, {stored.tag!s}, value {number}"
            yield f"{place}: {before} is stored, the journal gives {now}"
            return
