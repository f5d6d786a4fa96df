"""Ten files that TKperf wrote, of drives with random numbers; see ``make``."""

from __future__ import annotations

import gzip
from pathlib import Path

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.name.removesuffix(".xml.gz") for path in HERE.glob("*.xml.gz")))


def written(name: str) -> bytes:
    """Return the content of a file."""
    return gzip.decompress((HERE / f"{name}.xml.gz").read_bytes())
