"""The ids of reports, and the checksums of the engine's raw results (evidence files), as ``sha256sum`` prints them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ..results.result import TestResult

FILE_NAME = "SHA256SUMS"
#: The number of hexadecimal digits of a report id: 64 bits.
ID_DIGITS = 16


def checksums(result: TestResult) -> bytes:
    """Return a line for each evidence file of the engine; ``sha256sum --check`` reads them in the run folder.

    Names that contain a backslash or a line feed are escaped like in that program.
    """
    files = [
        (measurement.evidence_sha256, f"evidence/{measurement.evidence}.json")
        for measurement in result.measurements
        if not measurement.reported
    ]
    if imported := result.facts.imported:
        files = [(file.sha256, f"evidence/{file.name}") for file in imported.files]
    return "".join(_line(sha256, path) for sha256, path in files).encode("utf-8", "backslashreplace")


def digest(result: TestResult) -> str:
    """Return the SHA-256 of ``checksums(result)``: one checksum over all of them."""
    return hashlib.sha256(checksums(result)).hexdigest()


def report_id(result: TestResult) -> str:
    """Return the id of a report on a run: the start of the SHA-256 of its journal; empty for a result without one."""
    return result.journal_sha256[:ID_DIGITS]


def summary_id(journals: Mapping[str, str]) -> str:
    """Return the id of the summary of several runs, from the SHA-256 of their journals by path; empty without any.

    It is the start of what ``sha256sum PATH PATH ... | sha256sum`` prints.
    """
    content = "".join(_line(digest, path) for path, digest in journals.items())
    return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:ID_DIGITS] if content else ""


def _line(sha256: str, path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != path else ""
    return f"{mark}{sha256}  {escaped}\n"
