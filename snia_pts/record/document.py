"""Parses result.xml as untrusted input: no entities, no DTD, no network, valid against the schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import zip_longest

from lxml import etree

from ..errors import RecordError
from ..spec.reader import SPECS
from ..units import MIB

MAX_BYTES = 256 * 1024 * 1024


def parse(document: bytes, name: str) -> etree._Element:
    """Return the root of a result document; raises RecordError with the line and the reason."""
    if len(document) > MAX_BYTES:
        raise RecordError(path=name, reason=f"it is larger than {MAX_BYTES // MIB} MiB")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        raise RecordError(path=name, reason=f"invalid XML: {error.msg}") from None
    if root.getroottree().docinfo.doctype:
        raise RecordError(path=name, reason="it has a document type declaration, which is not allowed")
    if root.getprevious() is not None or root.getnext() is not None:
        reason = "it has a comment or processing instruction outside its root element, which is not allowed"
        raise RecordError(path=name, reason=reason)
    schema = _schema()
    if not schema.validate(root):
        last = schema.error_log.last_error
        raise RecordError(path=name, reason=f"line {last.line}: {last.message}" if last else "it is invalid")
    for column, count in (
        (column, samples.get("count")) for samples in root.iterfind("time_line/samples") for column in samples
    ):
        if len((column.text or "").split()) != int(count or 0):
            reason = f"line {column.sourceline}: expected {count} values of {column.tag!s}"
            raise RecordError(path=name, reason=reason)
    return root


@cache
def _schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(SPECS / "result.xsd")))


def compare(stored: etree._Element, expected: etree._Element) -> Iterator[str]:
    """Yield a sentence for each value or element in which a stored document differs from the expected one.

    The version of the suite is not compared.  If another version wrote the stored document, kinds of elements and
    attributes that it has nowhere do not differ: a later version may have added them.
    """
    same_version = stored.get("suite_version") == expected.get("suite_version")
    yield from _compare(stored, expected, None if same_version else frozenset(_kinds(stored)))


def _kinds(root: etree._Element) -> Iterator[tuple[str, str]]:
    """Yield the kinds of elements in a document, as ``(tag, "")``, and those of attributes, as ``(tag, name)``."""
    for element in root.iter():
        yield str(element.tag), ""
        yield from ((str(element.tag), str(name)) for name in element.attrib)


def _compare(
    stored: etree._Element, expected: etree._Element, known: frozenset[tuple[str, str]] | None
) -> Iterator[str]:
    """Compare two elements; of the expected one, ignore the kinds that are not ``known``, if that is given."""
    tag = str(stored.tag)
    for name in sorted(set(stored.attrib) | set(expected.attrib)):
        stored_value, expected_value = stored.get(name), expected.get(name)
        is_added = stored_value is None and known is not None and (tag, name) not in known
        if stored_value != expected_value and name != "suite_version" and not is_added:
            yield f"line {stored.sourceline}, {tag} {name}: stored {stored_value}, expected {expected_value}"
    yield from _compare_texts(stored, expected)
    expected_children = [child for child in expected if known is None or (str(child.tag), "") in known]
    for stored_child, expected_child in zip_longest(stored, expected_children):
        if stored_child is None or expected_child is None or stored_child.tag != expected_child.tag:
            yield f"line {stored.sourceline}, {tag}: its elements differ from those expected"
            return
        yield from _compare(stored_child, expected_child, known)


def _compare_texts(stored: etree._Element, expected: etree._Element) -> Iterator[str]:
    if stored.text == expected.text:
        return
    values = zip_longest((stored.text or "").split(), (expected.text or "").split())
    for number, (stored_value, expected_value) in enumerate(values, start=1):
        if stored_value != expected_value:
            position = f"line {stored.sourceline}, {stored.tag!s}, value {number}"
            yield f"{position}: stored {stored_value}, expected {expected_value}"
            return
