"""Decodes OCP's log page C0h (SMART / Health Information Extended) with ``specs/logs/ocp-smart-c0h.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal
from uuid import UUID

from ...model.health import HealthText, HealthValue, Role, Unit
from ...spec.reader import SPECS
from ...spec.toml_file import read_file
from ...text import one_line
from ...units import MAX_QUANTITY

SOURCE = "OCP log C0h"
#: The oldest Log Page Version in the table; all later versions have its fields, too.
_OLDEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a log page: its bytes, the specification's name, and what it means.

    ``since`` is the Log Page Version that it came with.  With ``unreported``, all bits set means that the drive does
    not report it.
    """

    offset: int
    size_bytes: int
    name: str
    clause: str
    since: int = _OLDEST
    kind: Literal["count", "text", "uuid"] = "count"
    unit: Unit = ""
    role: Role = ""
    unreported: bool = False

    def raw(self, page: bytes) -> bytes:
        """Return the bytes of the field in a page."""
        return page[self.offset : self.offset + self.size_bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """The layout of a log page: its size, where its version and GUID are, and its fields.

    ``versions`` maps each Log Page Version to the version of the specification.
    """

    format: Literal[1]
    title: str
    publication: str
    log_identifier: int
    size_bytes: int
    version_offset: int
    guid_offset: int
    guid: str
    versions: Mapping[str, str]
    fields: tuple[Field, ...]


class PageRejected(Exception):
    """The bytes are not OCP's log page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The content of a page; ``unread`` has a sentence for what could not be decoded."""

    figures: tuple[HealthValue, ...]
    texts: tuple[HealthText, ...]
    unread: tuple[str, ...]


@cache
def layout() -> LogPage:
    """Return the layout of the page; raises SpecError for mistakes in its file."""
    return read_file(SPECS / "logs" / "ocp-smart-c0h.toml", LogPage)


def decode(page: bytes) -> Decoded:
    """Return the fields of a raw log page; raises PageRejected for one of another size or with another GUID.

    Of a page whose version the table does not have, only the fields common to all versions are decoded.
    """
    table = layout()
    if len(page) != table.size_bytes:
        raise PageRejected(f"its output has {len(page)} bytes, expected {table.size_bytes}")
    guid = page[table.guid_offset : table.guid_offset + 16][::-1].hex().upper()
    if guid != table.guid:
        raise PageRejected(f"its GUID is {guid}, expected {table.guid}")
    version = int.from_bytes(page[table.version_offset : table.version_offset + 2], "little")
    unread = []
    known = str(version) in table.versions
    if not known:
        unread.append(f"Log Page Version {version} is not known, so only the fields common to all versions are decoded")
    fields = [field for field in table.fields if field.since <= (version if known else _OLDEST)]
    figures = [HealthValue(name="Log Page Version", value=float(version), unit="", source=SOURCE)]
    texts = []
    implausible = []
    for field in fields:
        raw = field.raw(page)
        if field.kind != "count":
            if text := _text(raw, field.kind):
                texts.append(HealthText(name=field.name, text=text, source=SOURCE))
            continue
        value = int.from_bytes(raw, "little")
        if field.unreported and value == (1 << 8 * field.size_bytes) - 1:
            continue
        if value > MAX_QUANTITY:
            implausible.append(field.name)
            continue
        figures.append(
            HealthValue(name=field.name, value=float(value), unit=field.unit, source=SOURCE, role=field.role)
        )
    if implausible:
        unread.append(f"implausible values of more than {MAX_QUANTITY:.0e}: {', '.join(implausible)}")
    return Decoded(figures=tuple(figures), texts=tuple(texts), unread=tuple(unread))


def _text(raw: bytes, kind: Literal["text", "uuid"]) -> str:
    """Return text on one line, or a UUID; empty if the field is blank or all zeros."""
    if not any(raw):
        return ""
    return str(UUID(bytes=raw)) if kind == "uuid" else one_line(raw.rstrip(b"\0").decode("ascii", "replace"))
