"""Brief runs of the tests of the standard on a simulated drive: finished, stopped and resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event as StopEvent
from typing import Any, Literal, NamedTuple

from snia_pts.errors import Interrupted
from snia_pts.model.run_options import RunOptions
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import Event, OutcomeRecorded
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resume
from snia_pts.runner.run import run
from snia_pts.spec import TestClass
from tests.killing import BRIEF

_GROUP = '{{name="AG {}", access="{}", read_percent=0, block_size_kib={}, seconds=300, thread_count=1, queue_depth=32}}'
_GROUPS = ", ".join(_GROUP.format(*group) for group in ((1, "SEQ", 1024), (2, "RND", 8), (3, "SEQ", 1024)))
#: The outcome after which a run is stopped.
_STOP_AFTER = 9


class BriefRun(NamedTuple):
    """A brief run: its test, the version and the class of the standard, and how it ends."""

    test: str
    pts: str
    test_class: TestClass
    fate: Literal["finished", "stopped", "resumed"]

    @property
    def options(self) -> RunOptions:
        overrides = [f"{key}={json.dumps(value)}" for key, value in self._numbers()]
        return RunOptions(
            test=self.test,
            target="sim:enterprise-nvme",
            test_class=self.test_class,
            pts=self.pts,
            overrides=(*overrides, *([f"groups.sequence=[{_GROUPS}]"] if self.test == "xsr" else [])),
            seed=4711,
            formats=(),
        )

    def _numbers(self) -> Sequence[tuple[str, Any]]:
        """Return the numbers of a brief specification; PTS 1.1 has no histogram."""
        return [item for item in BRIEF[self.test] if self.pts != "1.1" or not item[0].startswith("histogram.")]

    def make(self, folder: Path) -> None:
        """Make the run in a new folder."""
        options, stop, outcomes = replace(self.options, run_folder=folder), StopEvent(), 0

        def stop_later(event: Event) -> None:
            nonlocal outcomes
            outcomes += isinstance(event, OutcomeRecorded)
            if self.fate != "finished" and outcomes >= _STOP_AFTER:
                stop.set()

        with suppress(Interrupted):
            run(options, Caller(on_event=stop_later, stop=stop))
        if self.fate == "resumed":
            resume(folder, ResumeOptions(), Caller())


#: Every test, version and class, to its end; then each test stopped, and each one resumed: 48 runs.
ALL = (
    *(BriefRun(*way, "finished") for way in product(BRIEF, ("2.0.2", "1.1"), ("enterprise", "client"))),  # type: ignore[arg-type]
    *(BriefRun(test, "2.0.2", "enterprise", "stopped") for test in BRIEF),
    *(BriefRun(test, "1.1", "client", "resumed") for test in BRIEF),
)
#: A run of each test, and of each ending.
FEW = (
    *(BriefRun(test, "2.0.2", "enterprise", "finished") for test in BRIEF),
    BriefRun("iops", "2.0.2", "enterprise", "stopped"),
    BriefRun("latency", "1.1", "client", "resumed"),
)
