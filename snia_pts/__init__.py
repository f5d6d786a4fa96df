"""snia-pts: runs the SNIA Solid State Storage Performance Test Specification on a drive.

The public names are those of ``__all__``; docs/api.rst describes them.  Each is imported when it is first used, so that
``import snia_pts`` loads no other library.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from . import plugins, registries

if TYPE_CHECKING:
    from . import errors as errors
    from .api.arithmetic import ResponseTimes as ResponseTimes
    from .api.arithmetic import difference as difference
    from .api.arithmetic import merge_response_times as merge_response_times
    from .api.arithmetic import raid_estimate as raid_estimate
    from .api.arithmetic import steady_state as steady_state
    from .api.assessment import Assessment as Assessment
    from .api.assessment import assess as assess
    from .api.check import TargetCheck as TargetCheck
    from .api.check import check as check
    from .api.comparison import Comparison as Comparison
    from .api.comparison import compare as compare
    from .api.hosts import devices as devices
    from .api.hosts import host as host
    from .api.job import Job as Job
    from .api.job import follow as follow
    from .api.job import start as start
    from .api.report import write_report as write_report
    from .api.run import Run as Run
    from .api.run import load as load
    from .api.run import load_many as load_many
    from .api.running import plan as plan
    from .api.running import resume as resume
    from .api.running import run as run
    from .api.tables import Matrix as Matrix
    from .api.tables import Table as Table
    from .fio_results.api import read_fio as read_fio
    from .model.run_options import RunOptions as RunOptions
    from .runner import events as events
    from .runner.options import ResumeOptions as ResumeOptions

__version__ = "0.2.0.dev0"

logging.getLogger(__name__).addHandler(logging.NullHandler())
plugins.register()

#: The modules of the public names: ``module:object``.  Features that are not part of the standard add theirs.
_NAMES = {
    "Assessment": "snia_pts.api.assessment:Assessment",
    "Comparison": "snia_pts.api.comparison:Comparison",
    "Job": "snia_pts.api.job:Job",
    "Matrix": "snia_pts.api.tables:Matrix",
    "ResponseTimes": "snia_pts.api.arithmetic:ResponseTimes",
    "ResumeOptions": "snia_pts.runner.options:ResumeOptions",
    "Run": "snia_pts.api.run:Run",
    "RunOptions": "snia_pts.model.run_options:RunOptions",
    "Table": "snia_pts.api.tables:Table",
    "TargetCheck": "snia_pts.api.check:TargetCheck",
    "assess": "snia_pts.api.assessment:assess",
    "check": "snia_pts.api.check:check",
    "compare": "snia_pts.api.comparison:compare",
    "devices": "snia_pts.api.hosts:devices",
    "difference": "snia_pts.api.arithmetic:difference",
    "errors": "snia_pts.errors",
    "events": "snia_pts.runner.events",
    "follow": "snia_pts.api.job:follow",
    "host": "snia_pts.api.hosts:host",
    "load": "snia_pts.api.run:load",
    "load_many": "snia_pts.api.run:load_many",
    "merge_response_times": "snia_pts.api.arithmetic:merge_response_times",
    "plan": "snia_pts.api.running:plan",
    "raid_estimate": "snia_pts.api.arithmetic:raid_estimate",
    "resume": "snia_pts.api.running:resume",
    "run": "snia_pts.api.running:run",
    "start": "snia_pts.api.job:start",
    "steady_state": "snia_pts.api.arithmetic:steady_state",
    "write_report": "snia_pts.api.report:write_report",
    **registries.PUBLIC_NAMES,
}
__all__ = sorted(("__version__", *_NAMES))

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        """Import a public name when it is first used; raises AttributeError for any other name."""
        if name not in _NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            globals()[name] = registries.load(_NAMES, name)
        except ModuleNotFoundError as error:
            from .errors import missing_library

            raise missing_library(error) from None
        return globals()[name]

    def __dir__():
        """Return the public names, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
