"""What the core's reports ask of a profile: the parts of ``report.registry.FurtherTestPages``."""

from __future__ import annotations

from .axes import point_matrices
from .comparing import profile_figures as comparison
from .interactive import profile_plots as plots
from .pages import key_figures, overview, pages, parameters, setup

__all__ = ["comparison", "key_figures", "overview", "pages", "parameters", "plots", "point_matrices", "setup"]
