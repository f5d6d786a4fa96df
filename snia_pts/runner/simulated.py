"""Sets up a simulated drive: ``sim:NAME`` (docs/simulation.rst)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ..errors import TargetUnfit
from ..lab.process.program import Tick
from ..lab.simulated.laboratory import SimulatedLaboratory
from ..lab.simulated.preset import Identity, read_preset, simulated_dut
from ..model.dut import AssumedSpeed, Dut
from ..model.run_options import SIMULATED, RunOptions
from ..model.steps import Stimulus
from ..model.test_platform import HostSetting
from ..record.folder import RunFolder
from ..results.target_deviations import target_deviations
from ..spec import Deviation, Spec
from .confirmation import Confirm
from .target import RunContext


class SimulatedSetup:
    """Sets up a simulated drive, whose write cache is as the test requires."""

    def __init__(self, options: RunOptions) -> None:
        self._name = options.target.removeprefix(SIMULATED)
        self._preset = read_preset(self._name)
        self._now: Callable[[], datetime] = lambda: datetime.now().astimezone()

    @property
    def subject(self) -> str:
        """The preset's name."""
        return f"simulated-{Path(self._name).stem}"

    def dut(self, spec: Spec) -> Dut:
        """Return the description of the simulated drive."""
        drive = self._drive(spec)
        return simulated_dut(self._name, dataclasses.replace(self._preset, drive=drive))

    def speed(self, spec: Spec) -> AssumedSpeed:
        """See TargetSetup: the speed of its preset."""
        del spec
        return self._preset.speed

    def deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup; raises TargetUnfit for a test that only a real host can run."""
        dut = self.dut(spec)
        if spec.host_requirement:
            reason = f"the simulated drive has no host, and {spec.name} requires {spec.host_requirement}"
            raise TargetUnfit(path=dut.path, reason=reason, hint="Run it on a drive, a file, or in a directory.")
        return target_deviations(dut, spec)

    def purge_deviations(self, spec: Spec) -> tuple[Deviation, ...]:
        """See TargetSetup: a simulated drive returns to FOB as the standard requires."""
        del spec
        return ()

    def buffered_io(self) -> tuple[HostSetting, ...]:
        """See TargetSetup: no I/O is performed."""
        return ()

    def require_tools(self) -> None:
        """See TargetSetup: no tools are required."""

    def preflight(self, spec: Spec) -> None:
        """See TargetSetup: there are no further checks."""

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """See TargetSetup: there is nothing to claim."""
        yield

    def confirm(self, evidence: Path, ask: Confirm) -> None:
        """See TargetSetup: no data are destroyed."""

    @contextmanager
    def conditions_applied(self, spec: Spec, folder: RunFolder, write_cache: str) -> Iterator[tuple[HostSetting, ...]]:
        """See TargetSetup: there is nothing to set."""
        del spec, folder, write_cache
        yield ()

    def _drive(self, spec: Spec) -> Identity:
        """Return the drive's identity, with the write cache that the test requires."""
        write_cache = spec.setup.write_cache
        if write_cache == "as found":
            return self._preset.drive
        return dataclasses.replace(self._preset.drive, write_cache=write_cache)

    def content_state(self) -> None:
        """See TargetSetup: a simulated drive has the content that the recorded steps wrote."""

    def set_clock(self, at: datetime) -> None:
        """See TargetSetup."""
        self._now = lambda: at

    def remove_file(self, *, refused: bool = False) -> None:
        """See TargetSetup: there is no file."""

    def context(self, spec: Spec, evidence: Path, seed: int, tick: Tick, stimuli: Sequence[Stimulus]) -> RunContext:
        """Return a laboratory in virtual time."""
        del tick, stimuli
        drive = self._drive(spec)
        laboratory = SimulatedLaboratory(
            dataclasses.replace(self._preset, drive=drive),
            seed=seed,
            evidence=evidence,
            started=self._now(),
        )
        self._now = laboratory.now  # the next test starts when this one ends
        return RunContext(
            laboratory=laboratory,
            engine=laboratory,
            now=laboratory.now,
            read_health=laboratory.read_health,
            end_warnings=lambda: (),
            calibrate=lambda *_: (),
            read_content=lambda: None,
            durable=False,
        )
