"""What a purge method is, and how it runs the programs that do the work."""

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

from ...files import tampering_risk
from ...model.dut import Dut
from ..device.identity import ROOT, attribute, block_directory
from ..process import program as process
from ..process.inherited import InheritedFiles

#: The time after which a purge has failed where the device says none.
UNTOLD_SECONDS = 12 * 3600.0
_GRACE_SECONDS = 2 * 3600.0
_QUESTION_SECONDS = 60.0
_SILENCE_SECONDS = 180.0
_PAUSE_SECONDS = (0.2, 30.0)
_BY_DEV = "Name the device as it is called in /dev, or choose a method that opens what is held: blkdiscard, overwrite."


class MethodUnavailable(Exception):
    """A device does not have a method; with a ``remedy``, it has it, but will not do it as things are."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


class MethodFailed(Exception):
    """A purge failed; ``remedy`` is what the operator should do, where that is special."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeCapability:
    """What a device was asked for and has: the command that purges, and the time the device says it takes.

    ``doubt`` says why the method is only taken when it is named.  A command with ``opens`` does no more with the
    target's name than open it, and has that of the descriptor which the suite holds in its place.
    """

    command: tuple[str, ...]
    seconds: float | None = None
    doubt: str = ""
    opens: bool = False

    @property
    def limit_seconds(self) -> float:
        """When a purge has failed: long after the time the device says, or 12 hours where it says none."""
        return UNTOLD_SECONDS if self.seconds is None else 2 * self.seconds + _GRACE_SECONDS


class Tools:
    """The programs that a purge runs on a device, which ``descriptor`` holds.

    Each leaves its evidence, beside the base name ``evidence``.
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

    def ask(self, name: str, *argv: str) -> process.Finished:
        """Run a program that only reads, once: the second time, the first answer is given."""
        if name not in self._answers:
            self._answers[name] = self.look(name, *argv)
        return self._answers[name]

    def look(self, name: str, *argv: str) -> process.Finished:
        """Run a program that only reads; its evidence replaces the last one of that name."""
        return process.run(argv, evidence=self._beside(name), timeout_seconds=_QUESTION_SECONDS)

    def act(
        self, argv: tuple[str, ...], *, limit_seconds: float, name: str = "", opens: bool = False
    ) -> process.Finished:
        """Run a program that changes the device; raises Unpurged when it fails, or takes too long.

        One that ``opens`` it gets what is held.  Others need its name in ``/dev``, where nobody but root makes names.
        """
        place = self._beside(name) if name else self._evidence
        files = {self.dut.path: self._descriptor} if opens and self._descriptor is not None else {}
        if not opens and (why := tampering_risk(Path(self.dut.path).parent)):
            raise MethodFailed(f"is not possible: {argv[0]} would open it by its name, and {why}", _BY_DEV)
        try:
            for descriptor in files.values():  # a loop device cannot discard what the device beneath has not written
                os.fsync(descriptor)
        except OSError as error:
            raise MethodFailed(f"failed: what was written cannot be synced ({error.strerror})") from None
        finished = process.run(
            argv, evidence=place, timeout_seconds=limit_seconds, tick=self._tick, inherited=InheritedFiles(files=files)
        )
        if finished.timed_out:
            raise MethodFailed(f"failed: {argv[0]} was not done after {limit_seconds:.0f} s")
        if finished.exit_code:
            raise MethodFailed(f"failed: {finished.error_summary}")
        return finished

    def wait(self, progress: Callable[[], float | None], *, limit_seconds: float) -> None:
        """Look at a ``progress`` (0 to 1) until it is None: done.

        Raises Unpurged when that takes too long, or when the drive says nothing of it for minutes.
        """
        began = heard = time.monotonic()
        pause, done = _PAUSE_SECONDS[0], 0.0
        while True:
            try:
                progressed = progress()
                if progressed is None:
                    return
                heard, done = time.monotonic(), progressed
            except MethodUnavailable as silent:
                if time.monotonic() - heard > _SILENCE_SECONDS:
                    raise MethodFailed(f"failed: it was at {done:.0%}, then {silent}") from None
            elapsed = time.monotonic() - began
            if elapsed > limit_seconds:
                raise MethodFailed(f"failed: it is at {done:.0%} after {elapsed:.0f} s, and may go on in the drive")
            if self._tick is not None:
                self._tick(elapsed, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    def note(self, name: str) -> Path:
        """Return the place of a note among the evidence."""
        return self._beside(name)

    @cached_property
    def block(self) -> Path:
        """The device's folder in sysfs; one that is not there for what is no device."""
        try:
            number = Path(self.dut.path).stat().st_rdev
        except OSError:
            number = 0
        return block_directory(number, self._root)

    @cached_property
    def protocol(self) -> str:
        """The command set that a drive is purged by: NVMe, ATA, SCSI; nothing for what has none of its own.

        What a USB bridge makes of such commands nobody knows.
        """
        if self.dut.kind != "drive" or self.dut.bus.startswith("USB"):
            return ""
        if re.fullmatch(r"nvme\d+n\d+", self.dut.name):
            return "NVMe"
        if (self.block / "device/subsystem").resolve().name != "scsi":
            return ""
        return "ATA" if attribute(self.block / "device/vendor") == "ATA" else "SCSI"

    def _beside(self, name: str) -> Path:
        return self._evidence.with_name(f"{self._evidence.name}-{name}")


def _nothing(tools: Tools) -> None:
    del tools


def _once(tools: Tools, offer: PurgeCapability) -> None:
    """Purge by the command alone."""
    tools.act(offer.command, limit_seconds=offer.limit_seconds, opens=offer.opens)


def anything(tools: Tools) -> bool:
    """What fits every device."""
    del tools
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to purge.

    ``name`` is what --purge takes, ``title`` what the report says, ``standard`` whether the standard names it.
    ``fits`` looks at the device without asking it.  ``ask`` asks it, reading only; raises NotOffered.  ``prepare``
    puts the device in order before the proof is laid out, ``perform`` purges; both raise Unpurged.  One that is not
    ``automatic`` is taken by name only.
    """

    name: str
    title: str
    standard: bool
    fits: Callable[[Tools], bool]
    ask: Callable[[Tools], PurgeCapability]
    prepare: Callable[[Tools], None] = _nothing
    perform: Callable[[Tools, PurgeCapability], None] = _once
    automatic: bool = True


def answered(finished: process.Finished) -> str:
    """Return what a program said that only reads; raises NotOffered when it failed."""
    if finished.exit_code or finished.timed_out:
        reason = f"{' '.join(finished.argv[:2])} failed: {finished.error_summary}"
        raise MethodUnavailable(reason, "Run as root, with a tool that knows the drive.")
    return finished.stdout


def document(finished: process.Finished) -> dict[str, Any]:
    """Return the JSON that a program said; raises NotOffered when it failed, or said something else."""
    text = answered(finished)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise MethodUnavailable(f"{' '.join(finished.argv[:2])} gave no JSON", "A newer version of the tool may.")
    return found
