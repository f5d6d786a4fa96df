"""The identity of a device as the device reports it, else as the operator states it, and contradictions of the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from ..units import capacity, parse_size
from .annotations import Annotations
from .dut import Dut

STATED = "as stated by the operator"
Name = Literal["model", "serial", "firmware"]
#: The display names of the values that a device may report.
NAMES: Mapping[Name, str] = {"model": "model", "serial": "serial number", "firmware": "firmware"}
#: Drives are sold with a rounded size: 1 TB is up to 1.024 TB.
_CAPACITY_TOLERANCE = 0.05


def device_value(dut: Dut, name: Name) -> str:
    """Return the value that the device reports; empty if it reports none."""
    return str(getattr(dut, name))


def operator_value(about: Annotations, name: Name) -> str:
    """Return the value that the operator states; empty if there is none."""
    return str(getattr(about, name))


def display_value(dut: Dut, about: Annotations, name: Name) -> str:
    """Return the device's value, else the operator's, marked as such; empty without either."""
    return device_value(dut, name) or as_stated(operator_value(about, name))


def as_stated(text: str) -> str:
    """Return a text of the operator, marked as such; empty without one."""
    return f"{text} ({STATED})" if text else ""


def contradictions(dut: Dut, about: Annotations) -> Iterator[tuple[str, str]]:
    """Yield the operator's values that contradict the device, each as what and detail.

    The device's value is the one that is used.
    """
    for name, label in NAMES.items():
        reported, stated = device_value(dut, name), operator_value(about, name)
        if reported and stated and not _same(reported, stated):
            yield f"{label} {STATED}", f"{stated!r}; the device reports {reported!r}; that value is used"
    if about.capacity and dut.capacity_bytes:
        size = parse_size(about.capacity)
        if abs(dut.capacity_bytes - size) > _CAPACITY_TOLERANCE * size:
            yield f"capacity {STATED}", f"{about.capacity}; the device has {capacity(dut.capacity_bytes)}"


def _same(first: str, second: str) -> bool:
    """Return whether two texts are equal, ignoring case and spaces."""
    return "".join(first.split()).casefold() == "".join(second.split()).casefold()
