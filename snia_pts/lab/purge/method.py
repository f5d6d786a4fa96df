"""The interface of a purge method, and the programs that it runs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...model.dut import Dut
from ...trusted_paths import tampering_risk
from ..device.identity import ROOT, attribute, block_directory
from ..process import program as process
from ..process.inherited import InheritedFiles

#: Stands for the target in a vendor's command.
DEVICE = "{device}"
#: A purge fails after this time if the device reports no estimate.
DEFAULT_TIMEOUT_SECONDS = 12 * 3600.0
_GRACE_SECONDS = 2 * 3600.0
_QUERY_SECONDS = 60.0
_SILENCE_SECONDS = 180.0
_PAUSE_SECONDS = (0.2, 30.0)
_USE_DEV_HINT = "Name the device by its path in /dev, or choose blkdiscard or overwrite, which use the open descriptor."


class MethodUnavailable(Exception):
    """The device cannot be purged by a method; ``remedy`` says which change of its state would allow it, if any."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


class MethodFailed(Exception):
    """A purge failed; ``remedy`` says what the operator should do if the general hint does not apply."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeCapability:
    """A method that the device supports: the command that purges, and the device's estimate in seconds.

    A method with a ``caveat`` is used only if the operator names it; ``auto`` never selects it.  ``by_descriptor`` is
    True if the command uses the target's path only to open it; the command then gets the suite's open descriptor.
    """

    command: tuple[str, ...]
    seconds: float | None = None
    caveat: str = ""
    by_descriptor: bool = False

    @property
    def timeout_seconds(self) -> float:
        """The time after which the purge has failed: twice the device's estimate plus 2 hours; 12 hours without it."""
        return DEFAULT_TIMEOUT_SECONDS if self.seconds is None else 2 * self.seconds + _GRACE_SECONDS


class Tools:
    """Runs a purge's programs on a device that is claimed through ``descriptor``.

    ``evidence`` is the base name of the programs' evidence files.
    """

    def __init__(
        self,
        dut: Dut,
        evidence: Path,
        *,
        tick: process.Tick | None = None,
        root: Path = ROOT,
        descriptor: int | None = None,
    ) -> None:
        self.dut = dut
        self._descriptor = descriptor
        self._evidence = evidence
        self._tick = tick
        self._root = root
        self._answers: dict[str, process.Finished] = {}

    def query_once(self, name: str, *argv: str) -> process.Finished:
        """Run a program that only reads; a repeated query returns the first answer."""
        if name not in self._answers:
            self._answers[name] = self.query(name, *argv)
        return self._answers[name]

    def query(self, name: str, *argv: str) -> process.Finished:
        """Run a program that only reads; its evidence replaces the evidence of the last query of this name."""
        return process.run(argv, evidence=self.evidence_path(name), timeout_seconds=_QUERY_SECONDS)

    def run(
        self, argv: tuple[str, ...], *, timeout_seconds: float, name: str = "", by_descriptor: bool = False
    ) -> process.Finished:
        """Run a program that changes the device; raises MethodFailed if it fails or times out.

        With ``by_descriptor`` the program gets the suite's open descriptor.  A command of the suite also inherits the
        descriptors that lock the device; a vendor's command does not.  Without ``by_descriptor`` the program opens the
        device by its path, which must be in a folder such as ``/dev`` where only root can create entries.
        """
        evidence = self.evidence_path(name) if name else self._evidence
        files: dict[str, int] = {}
        claims: tuple[int, ...] = ()
        if by_descriptor and self._descriptor is not None:
            files = {self.dut.path: self._descriptor, DEVICE: self._descriptor}
            claims = () if any(DEVICE in word for word in argv) else (self._descriptor,)
        if not by_descriptor and (risk := tampering_risk(Path(self.dut.path).parent)):
            raise MethodFailed(
                f"is not possible: {argv[0]} would open the device by its path, and {risk}", _USE_DEV_HINT
            )
        try:
            for descriptor in files.values():  # a loop device cannot discard data not yet written to its backing device
                os.fsync(descriptor)
        except OSError as error:
            raise MethodFailed(f"failed: cannot sync earlier writes ({error.strerror})") from None
        finished = process.run(
            argv,
            evidence=evidence,
            timeout_seconds=timeout_seconds,
            tick=self._tick,
            inherited=InheritedFiles(files=files, claims=claims),
        )
        if finished.timed_out:
            raise MethodFailed(f"failed: {argv[0]} timed out after {timeout_seconds:.0f} s")
        if finished.exit_code:
            raise MethodFailed(f"failed: {finished.error_summary}")
        return finished

    def wait(self, progress: Callable[[], float | None], *, timeout_seconds: float) -> None:
        """Poll ``progress`` (0 to 1) until it returns None, which means finished.

        Raises MethodFailed on timeout, or if the drive has not reported progress for minutes.
        """
        started = last_report = time.monotonic()
        pause, fraction = _PAUSE_SECONDS[0], 0.0
        while True:
            try:
                reported = progress()
                if reported is None:
                    return
                last_report, fraction = time.monotonic(), reported
            except MethodUnavailable as error:
                if time.monotonic() - last_report > _SILENCE_SECONDS:
                    raise MethodFailed(f"failed: it was at {fraction:.0%}, then {error}") from None
            elapsed = time.monotonic() - started
            if elapsed > timeout_seconds:
                raise MethodFailed(
                    f"failed: it is at {fraction:.0%} after {elapsed:.0f} s, and may still be running in the drive"
                )
            if self._tick is not None:
                self._tick(elapsed, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    @cached_property
    def sysfs_folder(self) -> Path:
        """The device's folder in sysfs; a path that does not exist if the target is not a device."""
        try:
            number = Path(self.dut.path).stat().st_rdev
        except OSError:
            number = 0
        return block_directory(number, self._root)

    @cached_property
    def protocol(self) -> str:
        """The command set for a purge of the drive: NVMe, ATA or SCSI; empty if there is none.

        A USB drive has none, because it is unknown how its bridge translates such commands.
        """
        if self.dut.kind != "drive" or self.dut.bus.startswith("USB"):
            return ""
        if re.fullmatch(r"nvme\d+n\d+", self.dut.name):
            return "NVMe"
        if (self.sysfs_folder / "device/subsystem").resolve().name != "scsi":
            return ""
        return "ATA" if attribute(self.sysfs_folder / "device/vendor") == "ATA" else "SCSI"

    def evidence_path(self, name: str) -> Path:
        """Return the path of an evidence file."""
        return self._evidence.with_name(f"{self._evidence.name}-{name}")


def _no_preparation(tools: Tools) -> None:
    del tools


def _run_command(tools: Tools, capability: PurgeCapability) -> None:
    """Purge by running the command, without further steps."""
    tools.run(capability.command, timeout_seconds=capability.timeout_seconds, by_descriptor=capability.by_descriptor)


def any_device(tools: Tools) -> bool:
    """Return True: the method can be tried on every device."""
    del tools
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A purge method.

    ``name`` is the value of --purge, ``title`` the name in the report, ``standard`` whether the standard names it.
    ``words`` identify its commands: each of its commands contains all of them, and no command of another method does.
    ``fits`` decides from sysfs alone whether the method applies.  ``query`` queries the device, without changing it;
    raises MethodUnavailable.  ``prepare`` prepares the device before the suite writes the pattern that proves the
    purge, ``perform`` purges; both raise MethodFailed.  A method that is not ``automatic`` is used only if the operator
    names it; ``auto`` never selects it.
    """

    name: str
    title: str
    words: tuple[str, ...]
    standard: bool
    fits: Callable[[Tools], bool]
    query: Callable[[Tools], PurgeCapability]
    prepare: Callable[[Tools], None] = _no_preparation
    perform: Callable[[Tools, PurgeCapability], None] = _run_command
    automatic: bool = True


def stdout_of(finished: process.Finished) -> str:
    """Return the output of a query; raises MethodUnavailable if the program failed."""
    if finished.exit_code or finished.timed_out:
        reason = f"{' '.join(finished.argv[:2])} failed: {finished.error_summary}"
        raise MethodUnavailable(reason, "Run as root, with a tool that knows the drive.")
    return finished.stdout


def json_of(finished: process.Finished) -> dict[str, Any]:
    """Return the JSON object that a query printed; raises MethodUnavailable if it failed or printed something else."""
    text = stdout_of(finished)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MethodUnavailable(f"{' '.join(finished.argv[:2])} printed no JSON", "Try a newer version of the tool.")
    return value
