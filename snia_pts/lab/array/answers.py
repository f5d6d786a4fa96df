"""What storcli and perccli answer with J, as values; nothing is asked here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...units import KIB
from .programs import ArrayError

#: ``16.371 TB [0x82f800000 Sectors]``: a figure in powers of 1024, and sectors of a size that it alone tells.
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ([KMGTP])i?B \[0x([0-9a-f]{1,12}) Sectors\]", re.IGNORECASE)
_SECTOR_BYTES = (512, 4096)
#: What stands where there is nothing to tell.
_NOTHING = ("", "-", "N/A", "NA", "None")
_OPTIMAL = "Optl"


class CommandRejected(ArrayError):
    """The controller says that it failed; ``description`` is its word for that."""

    def __init__(self, why: str, description: str) -> None:
        super().__init__(why)
        self.description = description


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtual:
    """What a controller tells of a virtual drive: its row in the list, the slots it is made of, and its properties."""

    number: int
    row: Mapping[str, Any]
    slots: tuple[str, ...]
    properties: Mapping[str, Any]

    @property
    def naa(self) -> str:
        """Its NAA number, as the kernel has it; empty where it is not told."""
        return word(self.properties.get("SCSI NAA Id", "")).lower()

    @property
    def operations(self) -> tuple[str, ...]:
        """What goes on, with its progress: ``Consistency Check (36%)``."""
        return tuple(filter(None, [word(self.properties.get("Active Operations", ""))]))

    def settled(self, *, patient: bool) -> bool:
        """Whether it is as it is to be, now that nothing goes on; raises ArrayError where it will not be.

        What was started shows a moment later: so long the caller is ``patient``.
        """
        if self.row.get("State") != _OPTIMAL:
            raise ArrayError(f"virtual drive {self.number} is {self.row.get('State')}, not optimal")
        if self.row.get("Consist", "Yes") == "Yes":
            return True
        if patient:
            return False
        raise ArrayError(f"virtual drive {self.number} is not consistent, and nothing goes on that would make it so")


def decoded(said: str) -> Any:
    """Return the first JSON in what the program said; names may hold control characters, and lines stand around it."""
    return json.JSONDecoder(strict=False).raw_decode(said, said.index("{"))[0]


def details(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what is told of each part of a command."""
    told = status.get("Detailed Status")
    return [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []


def failed(detail: Mapping[str, Any]) -> bool:
    return str(detail.get("Status", "")).lower().startswith("fail")


def reasons(status: Mapping[str, Any]) -> str:
    """Return why a command failed, in the controller's words."""
    told = [word(status.get("Description"))]
    for each in details(status):
        told.append(word(each.get("ErrMsg")) or word(each.get("Description")) or f"error {each.get('ErrCd')}")
    return "; ".join(dict.fromkeys(filter(None, told))) or "no reason given"


def word(value: Any) -> str:
    """Return what is told, without the blanks that fill it; nothing where a mark stands for nothing."""
    text = str(value).strip("\0 \t\n")
    return "" if text in _NOTHING else text


def size_bytes(told: str) -> int | None:
    """Return bytes, by the size of sectors that fits the figure beside them; None where none does."""
    found = _SIZE.search(told)
    if found is None:
        return None
    about = float(found[1]) * KIB ** ("KMGTP".index(found[2].upper()) + 1)
    fits = (int(found[3], 16) * each for each in _SECTOR_BYTES)
    return next((size for size in fits if size and abs(size - about) <= about / 100), None)


def virtual(data: Any, index: int) -> Iterator[Virtual]:
    """Yield the virtual drives of an answer."""
    for key, listed in data.items() if isinstance(data, Mapping) else ():
        known = re.fullmatch(rf"/c{index}/v([0-9]{{1,5}})", key)
        if known and listed:
            members = data.get(f"PDs for VD {known[1]}", ())
            yield Virtual(
                number=int(known[1]),
                row=dict(listed[0]),
                slots=tuple(str(each.get("EID:Slt")).strip() for each in members),
                properties=dict(data.get(f"VD{known[1]} Properties", {})),
            )


def rows(data: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every row of an answer, however deep it is."""
    if isinstance(data, Mapping):
        yield data
        for each in data.values():
            yield from rows(each)
    elif isinstance(data, list):
        for each in data:
            yield from rows(each)
