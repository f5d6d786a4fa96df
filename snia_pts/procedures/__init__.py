"""The tests of the standard, one small file each, as generators that ask for steps.

A procedure yields the Step it wants and receives the outcomes of that step's parts: one Purged for a Purge, one
Measurement for each stimulus.  It holds no clock, file, process or randomness.  Whoever answers decides what the
run is: the laboratory (a run), the journal (a re-assessment), the estimator (a plan).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..dut import Dut
from ..spec import IopsSpec
from ..window import Window
from .asking import Answer, Procedure, drive
from .iops import iops

__all__ = ["TESTS", "Answer", "Procedure", "drive"]

#: The procedure of every test, by its verb.
TESTS: Mapping[str, Callable[[IopsSpec, Dut], Procedure[Window | None]]] = {"iops": iops}
