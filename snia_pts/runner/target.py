"""What a run needs of its target, whatever kind of target that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ..lab.fio.engine import Named
from ..lab.process.program import Tick
from ..model.dut import Dut, SupposedSpeed
from ..model.health import Health
from ..model.host_ceiling import Ceiling
from ..model.steps import Stimulus
from ..model.test_platform import HostSetting
from ..record.folder import RunFolder
from ..spec import Deviation, Spec
from .confirmation import Confirm
from .session import Performer

#: The write cache of a run that leaves it as it is.
AS_FOUND = "as found"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What performs the steps of a run, and its clock.

    ``durable`` is whether the journal must survive a crash of the host.  ``examine`` reads the health of the drive.
    ``calibrate`` measures what the host alone reaches for stimuli, for a test of at least so many seconds; it calls its
    last argument with a sentence before it begins.  ``unchecked`` lists what could not be examined of who else uses the
    target.
    """

    laboratory: Performer
    engine: Named
    now: Callable[[], datetime]
    examine: Callable[[], Health | None]
    calibrate: Callable[[Sequence[Stimulus], float, Callable[[str], None]], tuple[Ceiling, ...]]
    durable: bool
    unchecked: tuple[str, ...] = ()


class TargetSetup(Protocol):
    """Sets up a target for one run or several: a drive, a file, an array, or a simulated drive."""

    @property
    def subject(self) -> str:
        """The target's part of the name of a run folder."""
        ...

    def dut(self, spec: Spec) -> Dut:
        """Return what is known of the target."""
        ...

    def speed(self, spec: Spec) -> SupposedSpeed:
        """Return how fast the target may be, as far as that is known."""
        ...

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return the deviations of this target that are known before the run."""
        ...

    def purge_deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """Return the deviations that its purge will add."""
        ...

    def require_tools(self) -> None:
        """Raise ToolMissing where a program is missing, UsageError where root is required."""
        ...

    def preflight(self, spec: Spec) -> None:
        """Raise what a run would be refused for, as far as reading alone tells."""
        ...

    def claimed(self) -> AbstractContextManager[None]:
        """Have exclusive access to the target inside the block."""
        ...

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """Let the operator confirm the destruction of all data on it; raises NotConfirmed."""
        ...

    def conditions_applied(
        self, spec: Spec, folder: RunFolder, write_cache: str
    ) -> AbstractContextManager[tuple[HostSetting, ...]]:
        """Set write cache and host inside the block as a run in ``folder`` needs them; gives the host settings."""
        ...

    def set_clock(self, at: datetime) -> None:
        """Set the clock at which the next run begins, of a target that has a clock of its own."""
        ...

    def context(self, spec: Spec, evidence: Path, seed: int, tick: Tick, stimuli: Sequence[Stimulus]) -> RunContext:
        """Return what performs the steps of a run; ``stimuli`` are those of its plan, for the memory that they need."""
        ...

    def remove_file(self, *, refused: bool = False) -> None:
        """Remove the file that the run made in a directory, if it made one; while it is claimed.

        Where the run was ``refused`` before it began, also a file that was made under the name that was given.
        """
        ...
