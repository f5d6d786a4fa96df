"""Parse the JSON answers of storcli and perccli (their option J)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...units import KIB
from .programs import ArrayError

#: ``16.371 TB [0x82f800000 Sectors]``: a rounded figure in powers of 1024, and sectors of a size that follows from it.
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ([KMGTP])i?B \[0x([0-9a-f]{1,12}) Sectors\]", re.IGNORECASE)
_SECTOR_BYTES = (512, 4096)
#: The values that mean "not reported".
_EMPTY_VALUES = ("", "-", "N/A", "NA", "None")
_OPTIMAL = "Optl"


class CommandRejected(ArrayError):
    """The controller reported a failure; ``description`` is its own text."""

    def __init__(self, reason: str, description: str) -> None:
        super().__init__(reason)
        self.description = description


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualDrive:
    """A virtual drive as reported by the controller: its row in the list, its members' slots, and its properties."""

    number: int
    row: Mapping[str, Any]
    slots: tuple[str, ...]
    properties: Mapping[str, Any]

    @property
    def naa(self) -> str:
        """Its NAA number in the kernel's form; empty if not reported."""
        return clean_text(self.properties.get("SCSI NAA Id", "")).lower()

    @property
    def operations(self) -> tuple[str, ...]:
        """Operations in progress: ``Consistency Check (36%)``."""
        return tuple(filter(None, [clean_text(self.properties.get("Active Operations", ""))]))

    def is_ready(self, *, wait: bool) -> bool:
        """Return whether it is optimal and consistent, if no operation is in progress; raises ArrayError if not.

        With ``wait``, return False if it is inconsistent: an operation shows only a moment after it was started.
        """
        if self.row.get("State") != _OPTIMAL:
            raise ArrayError(f"virtual drive {self.number} is {self.row.get('State')}, not optimal")
        if self.row.get("Consist", "Yes") == "Yes":
            return True
        if wait:
            return False
        raise ArrayError(f"virtual drive {self.number} is not consistent, and no operation is in progress")


def decode(output: str) -> Any:
    """Return the first JSON object in a program's output; other lines and control characters in names are allowed."""
    return json.JSONDecoder(strict=False).raw_decode(output, output.index("{"))[0]


def details(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the detailed status of each part of a command."""
    entries = status.get("Detailed Status")
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def is_failure(detail: Mapping[str, Any]) -> bool:
    """Return whether a detailed status reports a failure."""
    return str(detail.get("Status", "")).lower().startswith("fail")


def reasons(status: Mapping[str, Any]) -> str:
    """Return the controller's reasons for a failed command."""
    texts = [clean_text(status.get("Description"))]
    for entry in details(status):
        texts.append(
            clean_text(entry.get("ErrMsg")) or clean_text(entry.get("Description")) or f"error {entry.get('ErrCd')}"
        )
    return "; ".join(dict.fromkeys(filter(None, texts))) or "no reason given"


def clean_text(value: Any) -> str:
    """Return a value as stripped text; empty if it means "not reported"."""
    text = str(value).strip("\0 \t\n")
    return "" if text in _EMPTY_VALUES else text


def size_bytes(text: str) -> int | None:
    """Return a size in bytes, by the sector size that matches the rounded figure; None if none matches."""
    match = _SIZE.search(text)
    if match is None:
        return None
    rounded = float(match[1]) * KIB ** ("KMGTP".index(match[2].upper()) + 1)
    sizes = (int(match[3], 16) * sector_bytes for sector_bytes in _SECTOR_BYTES)
    return next((size for size in sizes if size and abs(size - rounded) <= rounded / 100), None)


def virtual_drives(data: Any, index: int) -> Iterator[VirtualDrive]:
    """Yield the virtual drives of controller ``index`` in an answer."""
    for key, table in data.items() if isinstance(data, Mapping) else ():
        match = re.fullmatch(rf"/c{index}/v([0-9]{{1,5}})", key)
        if match and table:
            members = data.get(f"PDs for VD {match[1]}", ())
            yield VirtualDrive(
                number=int(match[1]),
                row=dict(table[0]),
                slots=tuple(str(member.get("EID:Slt")).strip() for member in members),
                properties=dict(data.get(f"VD{match[1]} Properties", {})),
            )


def rows(data: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every row of an answer, at any depth."""
    if isinstance(data, Mapping):
        yield data
        for value in data.values():
            yield from rows(value)
    elif isinstance(data, list):
        for value in data:
            yield from rows(value)
