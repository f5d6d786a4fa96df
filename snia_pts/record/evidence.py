"""Holds what the engine said, as it lies in evidence/, against what the journal keeps of it."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator

from ..files import open_regular
from ..result import TestResult
from .folder import RunFolder

_LARGEST_BYTES = 1024 * 1024 * 1024


def evidence_differences(folder: RunFolder, result: TestResult) -> Iterator[str]:
    """Say which evidence is gone, or is no longer what was measured from; nothing when all of it is as it was."""
    for measurement in result.measurements:
        if "/" in measurement.evidence or "\0" in measurement.evidence or measurement.evidence == "..":
            yield f"{measurement.evidence!r}: it is no name of a file in evidence/"
            continue
        path = folder.evidence / f"{measurement.evidence}.json"
        try:
            with open_regular(path, _LARGEST_BYTES) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            too_large = error.errno == errno.EFBIG
            yield f"{path.name}: {'it is larger than any fio answer' if too_large else error.strerror}"
            continue
        if found != measurement.evidence_sha256:
            yield f"{path.name}: its SHA-256 is not the one that was journaled"
