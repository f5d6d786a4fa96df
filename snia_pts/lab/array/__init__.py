"""Arrays that the suite makes of drives, tests, and takes apart again: by the kernel's md, or by a hardware controller.

An array stands only while a test needs it.  A purge takes it apart, purges its members one by one, and makes it again;
at the end nothing is left of it.  What a killed run leaves is found by a name of its own (docs/array.rst).
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
