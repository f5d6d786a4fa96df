"""The interface of a run to its target, for every kind of target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ..lab.engine import EngineIdentity
from ..lab.process.program import Tick
from ..model.array import BuiltArray
from ..model.content_state import ContentState
from ..model.dut import AssumedSpeed, Dut
from ..model.health import Health
from ..model.host_ceiling import Ceiling
from ..model.run_options import RunOptions
from ..model.steps import Stimulus
from ..model.test_platform import HostSetting
from ..record.folder import RunFolder
from ..results.interruption import ResumePolicy
from ..results.result import RunWarning
from ..spec import Deviation, Spec
from .confirmation import Confirm
from .session import Performer

#: Write cache setting of a run that leaves the cache unchanged.
AS_FOUND = "as found"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The objects that perform the steps of a run, and its clock.

    ``durable``: the journal must survive a crash of the host.  ``read_health`` reads the drive's health data.
    ``calibrate`` measures the host's ceiling for stimuli, given the minimum duration of the test in seconds; it calls
    its last argument with a sentence before it starts.  ``unchecked`` lists the checks for other users of the target
    that could not be made.  ``other_runs`` returns a warning for each other run on the disks of the target so far.
    ``end_warnings`` returns the warnings that are known at the end: settings that changed, and other runs.
    ``read_content`` reads the state of the target's content.
    """

    laboratory: Performer
    engine: EngineIdentity
    now: Callable[[], datetime]
    read_health: Callable[[], Health | None]
    end_warnings: Callable[[], tuple[RunWarning, ...]]
    calibrate: Callable[[Sequence[Stimulus], float, Callable[[str], None]], tuple[Ceiling, ...]]
    read_content: Callable[[], ContentState | None]
    durable: bool
    unchecked: tuple[str, ...] = ()
    other_runs: Callable[[], tuple[RunWarning, ...]] = tuple


class TargetSetup(Protocol):
    """Sets up a target for one or several runs: a drive, a file, an array, or a simulated drive."""

    @property
    def subject(self) -> str:
        """The target's part of the name of a run folder."""
        ...

    def dut(self, spec: Spec) -> Dut:
        """Return the description of the target."""
        ...

    def speed(self, spec: Spec) -> AssumedSpeed:
        """Return the assumed speed of the target."""
        ...

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return the deviations of this target that are known before the run."""
        ...

    def purge_deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return the deviations that its Purge will add."""
        ...

    def buffered_io(self) -> tuple[HostSetting, ...]:
        """Return whether the direct I/O of a test would end in the page cache or memory of this host."""
        ...

    def require_tools(self) -> None:
        """Raise ToolMissing if a program is missing, UsageError if root is required."""
        ...

    def preflight(self, spec: Spec) -> None:
        """Raise the error with which a run would be refused, as far as it can be determined by reading only."""
        ...

    def claimed(self) -> AbstractContextManager[None]:
        """Claim exclusive access to the target inside the block."""
        ...

    def content_state(self) -> ContentState | None:
        """Return the state of the content of the claimed target; None if it is unknown."""
        ...

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """Let the operator confirm the destruction of all data on it; raises NotConfirmed."""
        ...

    def conditions_applied(
        self, spec: Spec, folder: RunFolder, write_cache: str
    ) -> AbstractContextManager[tuple[HostSetting, ...]]:
        """Apply write cache and host settings for a run in ``folder`` inside the block; yield the host settings."""
        ...

    def set_clock(self, at: datetime) -> None:
        """Set the start time of the next run, for a target with a virtual clock."""
        ...

    def context(self, spec: Spec, evidence: Path, seed: int, tick: Tick, stimuli: Sequence[Stimulus]) -> RunContext:
        """Return the objects that perform a run; ``stimuli`` are those of its plan, which determine its memory."""
        ...

    def remove_file(self, *, refused: bool = False) -> None:
        """Remove the file that the run created in a directory, if any; the target must be claimed.

        If the run was ``refused`` before its start, also remove a file that it created under the given name.
        """
        ...


class TargetKind(Protocol):
    """The class of a TargetSetup in ``registries.TARGETS``."""

    def __call__(self, options: RunOptions, tell: Callable[[str], None], /) -> TargetSetup:
        """Return the setup of the target of the options; ``tell`` is called with notices for the operator."""
        ...

    def resumed(
        self,
        options: RunOptions,
        tell: Callable[[str], None],
        built: BuiltArray | None,
        run: Path,
        policy: ResumePolicy,
        /,
    ) -> TargetSetup:
        """Return the setup of the target of the stopped run in the folder ``run``, which was on the array ``built``.

        Raises NotResumable if the data on it are lost.
        """
        ...
