"""Arrays that the suite creates, tests and deletes: by the kernel's md driver, or by a hardware controller.

An array exists only while a test needs it.  A purge deletes it, purges its members one by one, and creates it again; at
the end it is deleted.  If a run was killed, its array is found by a unique name (docs/array.rst).
"""

from __future__ import annotations

from .assembled import AssembledArray, predicted_dut
from .caches import MemberCaches
from .controller import Controller, controller_of
from .members import Drives, Members, Slots
from .programs import ArrayError
from .purger import ArrayPurger

__all__ = [
    "ArrayError",
    "ArrayPurger",
    "AssembledArray",
    "Controller",
    "Drives",
    "MemberCaches",
    "Members",
    "Slots",
    "controller_of",
    "predicted_dut",
]
