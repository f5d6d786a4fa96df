"""Questions to the operator before a run destroys data or restarts a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NotConfirmed
from ..model.array import Layout
from ..procedures.estimator import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatenedDrive:
    """A drive that will be erased; ``signatures`` are the file systems and partition tables found on it."""

    path: str
    model: str
    serial: str
    capacity_bytes: int
    signatures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmDestruction:
    """Everything on ``drives`` will be destroyed.

    ``expected`` is the answer that confirms it: the serial numbers, or the names of drives without one.
    ``array`` is the array that will be created from the drives; None for a single drive.
    """

    path: str
    drives: tuple[ThreatenedDrive, ...]
    expected: str
    array: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmRestart:
    """A test on a file would restart and overwrite ``path``; ``plan`` is the estimate of the test.

    ``recoverable_outcomes`` is how many outcomes ``--continue`` would keep.  The answer that confirms it is ``yes``.
    """

    path: str
    plan: Plan
    recoverable_outcomes: int
    hint: str
    expected: str = "yes"


Confirm = Callable[[ConfirmDestruction | ConfirmRestart], str]
"""Returns the operator's answer; raises NotConfirmed if the operator cannot be asked."""


def refuse(request: ConfirmDestruction | ConfirmRestart) -> str:
    """Raise NotConfirmed, for a caller without a means of confirmation."""
    if isinstance(request, ConfirmRestart):
        raise NotConfirmed(
            path=request.path, reason="the test would restart, and no confirmation is available", hint=request.hint
        )
    raise NotConfirmed(
        path=request.path, reason="no serial number and no confirmation were given", confirmation=request.expected
    )
