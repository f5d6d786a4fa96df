"""An attempt at a measurement that was not believed, and was repeated."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedAttempt:
    """Why fio's answer was rejected, how long it ran, and which files in the run folder hold it."""

    reason: str
    seconds: Quantity
    evidence: str
    evidence_sha256: str
