"""What is said of a device: by itself, else by people; and where the two contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from ..units import capacity, parse_size
from .annotations import Annotations
from .dut import Dut

AS_TOLD = "as told by the operator"
Name = Literal["model", "serial", "firmware"]
#: What a device may tell, in words.
NAMES: Mapping[Name, str] = {"model": "model", "serial": "serial number", "firmware": "firmware"}
#: A size is sold as a round one: 1 TB has up to 1.024 TB.
_ROUNDED = 0.05


def own(dut: Dut, name: Name) -> str:
    """Return what a device tells itself; empty where it does not."""
    return str(getattr(dut, name))


def told(about: Annotations, name: Name) -> str:
    """Return what people tell; empty where they do not."""
    return str(getattr(about, name))


def said(dut: Dut, about: Annotations, name: Name) -> str:
    """Return what a device tells, else what people tell of it, marked as such; empty where neither does."""
    people = told(about, name)
    return own(dut, name) or (f"{people} ({AS_TOLD})" if people else "")


def contradictions(dut: Dut, about: Annotations) -> Iterator[tuple[str, str]]:
    """Give what people tell of a device that it denies, as what and detail: its own word is what counts."""
    for name, words in NAMES.items():
        device, people = own(dut, name), told(about, name)
        if device and people and _alike(device) != _alike(people):
            yield f"{words} {AS_TOLD}", f"{people!r}; the device tells {device!r}, which is taken"
    if about.capacity and dut.capacity_bytes:
        size = parse_size(about.capacity)
        if abs(dut.capacity_bytes - size) > _ROUNDED * size:
            yield f"capacity {AS_TOLD}", f"{about.capacity}; the device has {capacity(dut.capacity_bytes)}"


def _alike(text: str) -> str:
    """Return a text without what makes no difference: capitals and spaces."""
    return "".join(text.split()).casefold()
