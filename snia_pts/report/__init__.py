"""Reports: tables, figures, RST, PDF and HTML from a stored result alone, without device, run or clock.

Importing this package is cheap; the libraries that draw and typeset are imported when a report is written.
"""

from __future__ import annotations

from .writing import DATA_OUTPUTS, DEFAULT_FORMATS, OUTPUTS, known_formats, report_paths, write

__all__ = ["DATA_OUTPUTS", "DEFAULT_FORMATS", "OUTPUTS", "known_formats", "report_paths", "write"]
