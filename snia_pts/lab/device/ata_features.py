"""Parse what an ATA drive reports about itself (IDENTIFY DEVICE), as ``hdparm -I`` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...model.health import HealthText

SOURCE = "ATA IDENTIFY DEVICE"
#: A line of the section Commands/features: an asterisk marks what is enabled.
_FEATURE = re.compile(r"^\t +(\*?)\t(.+?) *$", re.MULTILINE)
_SANITIZE = {
    "BLOCK_ERASE_EXT command": "block erase",
    "CRYPTO_SCRAMBLE_EXT command": "crypto scramble",
    "OVERWRITE_EXT command": "overwrite",
}
_NOT_SUPPORTED = "not supported"


def parse(text: str) -> tuple[HealthText, ...]:
    """Return the properties of a drive from the output of ``hdparm -I``; none if it is not such an output.

    A feature that the output does not list is *not supported*, because a drive lists everything that it supports.
    """
    features = {name: bool(mark) for mark, name in _FEATURE.findall(text)}
    if not features:
        return ()
    return tuple(HealthText(name=name, text=value, source=SOURCE) for name, value in _properties(text, features))


def _properties(text: str, features: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    speeds = [name for name in features if "signaling speed" in name]
    if speeds:
        yield "Maximum interface speed", re.sub(r".*\((.*)b/s\).*", r"\1bit/s", speeds[-1])
    yield "NCQ", _ncq(text, features)
    yield "Write cache", _state(features, "Write cache")
    yield "Look-ahead", _state(features, "Look-ahead")
    trim = next((name for name in features if "TRIM supported" in name), None)
    after = next((name for name in features if name.startswith("Deterministic read")), None)
    limit = re.search(r"\((.*)\)", trim) if trim else None
    details = [*([limit[1]] if limit else []), *([after[0].lower() + after[1:]] if after else [])]
    yield "TRIM", (f"supported{''.join(f', {detail}' for detail in details)}" if trim else _NOT_SUPPORTED)
    methods = [method for name, method in _SANITIZE.items() if name in features]
    yield "Sanitize", ", ".join(methods) if "SANITIZE feature set" in features and methods else _NOT_SUPPORTED
    yield "Security Mode", "supported" if "Security Mode feature set" in features else _NOT_SUPPORTED


def _ncq(text: str, features: Mapping[str, bool]) -> str:
    depth = re.search(r"^\tQueue depth: (\d{1,3})$", text, re.MULTILINE)
    if not any("(NCQ)" in name for name in features):
        return _NOT_SUPPORTED
    return f"supported, queue depth {depth[1]}" if depth else "supported"


def _state(features: Mapping[str, bool], name: str) -> str:
    return _NOT_SUPPORTED if name not in features else "enabled" if features[name] else "disabled"
