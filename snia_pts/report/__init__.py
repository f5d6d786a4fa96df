"""The report room: a function of a stored result.  Tables, figures, RST, PDF and HTML; no device, no run, no clock.

Importing it is cheap; what draws and typesets is imported when a report is written.
"""

from __future__ import annotations

from .writing import DATA_OUTPUTS, OUTPUTS, USUAL, places, write

__all__ = ["DATA_OUTPUTS", "OUTPUTS", "USUAL", "places", "write"]
