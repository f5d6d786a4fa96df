"""Holds what the engine said, as it lies in evidence/, against what the journal keeps of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ..measurement import Measurement
from ..result import TestResult
from .folder import RunFolder


def evidence_differences(folder: RunFolder, result: TestResult) -> Iterator[str]:
    """Say which evidence is gone, or is no longer what was measured from; nothing when all of it is as it was."""
    for measurement in _measurements(result):
        path = folder.evidence / f"{measurement.evidence}.json"
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            yield f"{path.name}: {error.strerror}"
            continue
        if found != measurement.evidence_sha256:
            yield f"{path.name}: its SHA-256 is not the one that was journaled"


def _measurements(result: TestResult) -> Iterator[Measurement]:
    if result.preconditioned is not None:
        yield result.preconditioned
    for measured in result.rounds:
        yield from measured.measurements
