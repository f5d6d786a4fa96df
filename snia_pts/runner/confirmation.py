"""What a run asks its operator before it destroys data or repeats a long test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NotConfirmed
from ..model.array import Layout
from ..procedures.estimator import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatenedDrive:
    """A drive that will be erased, and the signatures of what is ``on_it``: file systems, partition tables."""

    path: str
    model: str
    serial: str
    capacity_bytes: int
    on_it: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmDestruction:
    """Everything on ``drives`` will be destroyed.

    ``expected`` is the answer that confirms it: the serial numbers, or the names of drives without one.
    ``array`` is the array that the drives will be members of; None for a single drive.
    """

    path: str
    drives: tuple[ThreatenedDrive, ...]
    expected: str
    array: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmRestart:
    """A test on a file would begin again and write ``path`` again, as ``plan`` estimates it.

    ``spared`` is how many outcomes ``--continue`` would keep.  The answer that confirms it is ``yes``.
    """

    path: str
    plan: Plan
    spared: int
    hint: str
    expected: str = "yes"


Confirm = Callable[[ConfirmDestruction | ConfirmRestart], str]
"""Returns what the operator answers; raises NotConfirmed where nobody can be asked."""


def refuse(request: ConfirmDestruction | ConfirmRestart) -> str:
    """Refuse: for a caller that gave no way to confirm.  Raises NotConfirmed."""
    if isinstance(request, ConfirmRestart):
        raise NotConfirmed(
            path=request.path, reason="the test would begin again, and no confirmation is available", hint=request.hint
        )
    raise NotConfirmed(
        path=request.path, reason="no serial number and no confirmation were given", confirmation=request.expected
    )
