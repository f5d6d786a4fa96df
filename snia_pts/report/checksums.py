"""The digests of the engine's answers that a result is made of, as ``sha256sum`` writes and checks them."""

from __future__ import annotations

import hashlib

from ..results.result import TestResult

PLACE = "SHA256SUMS"


def sums(result: TestResult) -> bytes:
    """Return a line for each final answer of the engine, as ``sha256sum --check`` reads it in the run folder.

    Escaped as that program does it, where a name holds a backslash or a line feed.
    """
    named = [
        (each.evidence_sha256, f"evidence/{each.evidence}.json") for each in result.measurements if not each.reported
    ]
    if imported := result.facts.imported:
        named = [(imported.sha256, f"evidence/{imported.file}")]
    return "".join(_line(*each) for each in named).encode("utf-8", "backslashreplace")


def digest(result: TestResult) -> str:
    """Return the SHA-256 of what ``sums`` gives: one number that stands for all of them."""
    return hashlib.sha256(sums(result)).hexdigest()


def _line(sha256: str, place: str) -> str:
    escaped = place.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != place else ""
    return f"{mark}{sha256}  {escaped}\n"
