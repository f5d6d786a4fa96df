"""Annotations: facts about a test, its drive and its host that only the operator can state.

They are read from a TOML file and printed in the report's header and on its first page.  Reading reports all mistakes
of the file at once.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import MaxLen, MinLen

from ..errors import UsageError
from ..files import read_regular, require_author_may_read
from ..spec.toml_file import read_toml, spec_error, validate
from ..units import block_size, parse_size

if TYPE_CHECKING:
    from PIL import Image

_WHAT = "The file of --about"
_REMEDY = "Correct the file; docs/annotations.rst shows one."
_MAX_LOGO_BYTES, _MAX_PIXELS = 256 * 1024, 4096
#: A PNG's signature, and the length and name of its first chunk, which starts with width and height (PNG 3rd ed., 5.2).
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
Text = Annotated[str, MinLen(1), MaxLen(1000)]
_MAX_FEATURES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A property of a device and its value: ``power loss protection``, ``yes``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff:
    """The block of signatures on the first page; empty names are filled in by hand."""

    __pydantic_config__ = {"extra": "forbid"}
    approved_by: Text | Literal[""] = ""
    auditor: Text | Literal[""] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Statements of the operator; empty strings for what is not stated.

    ``operator`` is the person who tests, ``vendor`` the manufacturer of the drive.  ``nand_type`` and ``hba`` have the
    meaning of the report's header (PTS 2.0.2 chapter 5).  ``notes`` are sentences for the reader.  ``logo`` is a PNG in
    base64.  With ``sign_off``, the first page has a block for signatures.

    ``model``, ``serial`` and ``firmware`` are for a device that does not report them.  ``capacity`` is the size that
    the device is sold as, ``features`` are further properties.  The device reports none of these.
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
    sign_off: SignOff | None = None

    def __post_init__(self) -> None:
        if self.capacity:
            parse_size(self.capacity)
        if self.logo:
            _require_drawable(self.png)

    @property
    def png(self) -> bytes:
        """The logo; empty without one.  Raises ValueError if it is not valid base64."""
        try:
            return base64.b64decode(self.logo, validate=True)
        except binascii.Error:
            raise ValueError("a logo in base64") from None

    def image(self) -> Image.Image:
        """Return the logo as an RGBA image; raise ValueError if it is not a complete PNG."""
        from PIL import Image

        try:
            with Image.open(io.BytesIO(self.png), formats=["PNG"]) as image:
                return image.convert("RGBA")
        except Exception:  # noqa: BLE001  # Pillow raises many types for a damaged file.
            raise ValueError("a complete PNG") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationsFile:
    """The content of a file of annotations, as it is written there."""

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
    features: Annotated[dict[Text, Text], MaxLen(_MAX_FEATURES)] = field(default_factory=dict)
    sign_off: SignOff | None = None


def _require_drawable(png: bytes) -> None:
    """Raise ValueError if the bytes are not a PNG, or if the image is too large."""
    if not png.startswith(_PNG) or len(png) < len(_PNG) + 8:
        raise ValueError("a PNG as the logo")
    width, height = struct.unpack_from(">II", png, len(_PNG))
    if len(png) > _MAX_LOGO_BYTES or not 0 < width <= _MAX_PIXELS or not 0 < height <= _MAX_PIXELS:
        raise ValueError(f"a logo of at most {_MAX_PIXELS} x {_MAX_PIXELS} pixels and {block_size(_MAX_LOGO_BYTES)}")


def read_annotations(path: Path) -> Annotations:
    """Return the annotations in a TOML file; its ``logo`` is the path of a PNG, relative to the file.

    Raises SpecError with all mistakes, each with key and value.
    """
    owners: list[int] = []
    table = read_toml(path, _WHAT, remedy=_REMEDY, on_open=owners.append)
    content, mistakes = validate(AnnotationsFile, table)
    logo, capacity = table.get("logo"), table.get("capacity")
    encoded_logo = _logo(path, owners[0], logo, mistakes) if logo and isinstance(logo, str) else ""
    if capacity and isinstance(capacity, str):
        try:
            parse_size(capacity)
        except UsageError:
            mistakes.append(f"capacity: {capacity!r}: expected a size like 960 GB")
    if content is None or mistakes:
        raise spec_error(str(path), mistakes, _WHAT, remedy=_REMEDY)
    names = ("operator", "vendor", "nand_type", "hba", "model", "serial", "firmware", "capacity")
    texts: dict[str, Any] = {name: getattr(content, name) or "" for name in names}
    features = tuple(Feature(name=name, value=value) for name, value in content.features.items())
    return Annotations(**texts, notes=content.notes, features=features, logo=encoded_logo, sign_off=content.sign_off)


def _logo(path: Path, author: int, logo_path: str, mistakes: list[str]) -> str:
    """Return the PNG at ``logo_path`` in base64; an empty string, with a mistake added, if it is invalid.

    A report is public, so the file at ``path`` may only name a picture that its ``author`` may read.
    """
    try:
        require_author = partial(require_author_may_read, path, author)
        content = read_regular(path.parent / logo_path, _MAX_LOGO_BYTES, require_author)
        logo = base64.b64encode(content).decode("ascii")
        Annotations(logo=logo).image()
    except OSError as error:
        mistakes.append(f"logo: {logo_path!r}: {error.strerror}")
    except ValueError as error:
        reason = "invalid file name" if "\0" in logo_path else f"expected {error}"
        mistakes.append(f"logo: {logo_path!r}: {reason}")
    else:
        return logo
    return ""
