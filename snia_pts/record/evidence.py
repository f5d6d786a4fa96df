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
    for name, sha256 in _files(result):
        plain = name.removesuffix(".json")
        if "/" in name or "\0" in name or plain == "..":
            yield f"{plain!r}: it is no name of a file in evidence/"
            continue
        path = folder.evidence / name
        try:
            with open_regular(path, _LARGEST_BYTES) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            too_large = error.errno == errno.EFBIG
            yield f"{path.name}: {'it is larger than any fio answer' if too_large else error.strerror}"
            continue
        if found != sha256:
            yield f"{path.name}: its SHA-256 is not the one that was journaled"


def _files(result: TestResult) -> Iterator[tuple[str, str]]:
    """Give the files that a result was made of, with their digests: the engine's answers, or another tool's file."""
    if result.facts.imported is not None:
        yield result.facts.imported.file, result.facts.imported.sha256
        return
    for measurement in result.measurements:
        yield f"{measurement.evidence}.json", measurement.evidence_sha256
