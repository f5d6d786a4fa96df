"""What only people know of a test, its drive and its host: read from a file, for the report's header and first page.

Every mistake of the file is told at once.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import MaxLen, MinLen

from ..errors import UsageError
from ..files import read_regular
from ..spec.toml_file import checked, mistaken, read_toml
from ..units import block_size, parse_size

if TYPE_CHECKING:
    from PIL import Image

_WHAT = "The file of --about"
_REMEDY = "Correct the file; docs/usage.rst shows one."
_LONGEST_LOGO_BYTES, _MOST_PIXELS = 256 * 1024, 4096
#: A PNG's signature, and the length and name of its first chunk, which begins with width and height (PNG 3rd ed., 5.2).
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
Text = Annotated[str, MinLen(1), MaxLen(1000)]
_MOST_FEATURES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that a device can do or has, and what of it: ``power loss protection``, ``yes``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What people say; empty where they say nothing.

    ``operator`` is who tests, ``vendor`` who makes the drive, ``nand_type`` and ``hba`` are as the report's header has
    them (PTS 2.0.2 chapter 5), ``notes`` are sentences for the reader.  ``logo`` is a PNG in base 64.

    ``model``, ``serial`` and ``firmware`` are those of a device that does not tell them, ``capacity`` is the size it is
    sold as, ``features`` are what else is known of it.  None of these is a word of the device.
    """

    operator: str = ""
    vendor: str = ""
    nand_type: str = ""
    hba: str = ""
    notes: tuple[Text, ...] = ()
    logo: str = field(default="", repr=False)
    model: str = ""
    serial: str = ""
    firmware: str = ""
    capacity: str = ""
    features: tuple[Feature, ...] = ()

    def __post_init__(self) -> None:
        if self.capacity:
            parse_size(self.capacity)
        if self.logo:
            _require_drawable(self.png)

    @property
    def png(self) -> bytes:
        """The logo, no bytes where there is none; raises ValueError where it is not in base 64."""
        try:
            return base64.b64decode(self.logo, validate=True)
        except binascii.Error:
            raise ValueError("a logo in base 64") from None

    def image(self) -> Image.Image:
        """Return the logo's picture, with transparency; raises ValueError for what is no whole PNG."""
        from PIL import Image

        try:
            with Image.open(io.BytesIO(self.png), formats=["PNG"]) as read:
                return read.convert("RGBA")
        except Exception:  # noqa: BLE001  # whatever the library makes of a file that somebody damaged
            raise ValueError("a PNG that is whole") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    operator: Text | None = None
    vendor: Text | None = None
    nand_type: Text | None = None
    hba: Text | None = None
    notes: Annotated[tuple[Text, ...], MaxLen(20)] = ()
    logo: Text | None = None
    model: Text | None = None
    serial: Text | None = None
    firmware: Text | None = None
    capacity: Text | None = None
    features: Annotated[dict[Text, Text], MaxLen(_MOST_FEATURES)] = field(default_factory=dict)


def _require_drawable(png: bytes) -> None:
    """Raise ValueError for what is no PNG, or too large to be drawn."""
    if not png.startswith(_PNG) or len(png) < len(_PNG) + 8:
        raise ValueError("a PNG as the logo")
    width, height = struct.unpack_from(">II", png, len(_PNG))
    if len(png) > _LONGEST_LOGO_BYTES or not 0 < width <= _MOST_PIXELS or not 0 < height <= _MOST_PIXELS:
        raise ValueError(
            f"a logo of at most {_MOST_PIXELS} x {_MOST_PIXELS} pixels and {block_size(_LONGEST_LOGO_BYTES)}"
        )


def read_about(path: Path) -> Annotations:
    """Return what a TOML file says; ``logo`` is the path of a PNG, seen from the file.

    Raises SpecError, naming every mistake at once with key and value.
    """
    table = read_toml(path, _WHAT, remedy=_REMEDY)
    told, mistakes = checked(_File, table)
    logo, capacity = table.get("logo"), table.get("capacity")
    drawn = _logo(path, logo, mistakes) if logo and isinstance(logo, str) else ""
    if capacity and isinstance(capacity, str):
        try:
            parse_size(capacity)
        except UsageError:
            mistakes.append(f"capacity: {capacity!r}: expected a size like 960 GB")
    if told is None or mistakes:
        raise mistaken(str(path), mistakes, _WHAT, remedy=_REMEDY)
    names = ("operator", "vendor", "nand_type", "hba", "model", "serial", "firmware", "capacity")
    texts: dict[str, Any] = {name: getattr(told, name) or "" for name in names}
    features = tuple(Feature(name=name, value=value) for name, value in told.features.items())
    return Annotations(**texts, notes=told.notes, features=features, logo=drawn)


def _logo(path: Path, place: str, mistakes: list[str]) -> str:
    """Return the picture at ``place`` in base 64; empty where it is none, which goes to ``mistakes``."""
    try:
        logo = base64.b64encode(read_regular(path.parent / place, _LONGEST_LOGO_BYTES)).decode("ascii")
        Annotations(logo=logo).image()
    except OSError as error:
        mistakes.append(f"logo: {place!r}: {error.strerror}")
    except ValueError as error:
        told = "no file has such a name" if "\0" in place else f"expected {error}"
        mistakes.append(f"logo: {place!r}: {told}")
    else:
        return logo
    return ""
