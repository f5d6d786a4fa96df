"""A measurement attempt that was rejected and repeated."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedAttempt:
    """The reason for rejecting fio's result, the attempt's run time, and the files in the run folder that hold it."""

    reason: str
    seconds: Quantity
    evidence: str
    evidence_sha256: str
