"""Holds what the engine said, as it lies in evidence/, against what the journal keeps of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ..result import TestResult
from .folder import RunFolder


def evidence_differences(folder: RunFolder, result: TestResult) -> Iterator[str]:
    """Say which evidence is gone, or is no longer what was measured from; nothing when all of it is as it was."""
    for measurement in result.measurements:
        path = folder.evidence / f"{measurement.evidence}.json"
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            yield f"{path.name}: {error.strerror}"
            continue
        if found != measurement.evidence_sha256:
            yield f"{path.name}: its SHA-256 is not the one that was journaled"
