"""Purge a claimed target and prove that it was purged."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...errors import PurgeFailed, TargetMissing, TargetUnfit
from ...model.dut import Dut
from ...model.measurement import PurgeOutcome
from ...spec import Deviation
from ...temporary import temporary_folder
from ..device.identity import ROOT, read_dut
from ..device.target_claim import Target, regain
from ..process.program import Tick
from .choice import NONE, choose
from .method import Method, MethodFailed, MethodUnavailable, Tools
from .proof import Proof

_LOGGER = logging.getLogger(__name__)
_STANDARD = "ATA Security Erase or Sanitize, SCSI Format Unit or Sanitize, NVMe Format or Sanitize, or a vendor command"
#: In the deviation of a purge that failed.
NOT_PROVEN = "NOT PROVEN"
_CLAUSE = "PTS chapter 3, Purge"
_REAPPEAR_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Purger:
    """Purges a target by the method ``requested`` (a name, ``auto`` or ``none``), or by a vendor's ``command``.

    With ``allow_unpurged``, a purge that failed or is not proven is a Deviation instead of an error.  ``tick`` is
    called during the purge.
    """

    requested: str
    command: str | None = None
    allow_unpurged: bool = False
    tick: Tick | None = None
    root: Path = ROOT

    def expected_deviations(self, dut: Dut) -> tuple[Deviation, ...]:
        """Return how the purge will differ from the standard; queries the device if this user has the permission.

        Raises UsageError, TargetUnfit or ToolMissing if it cannot be purged.
        """
        if dut.kind != "file" and not os.access(dut.path, os.R_OK | os.W_OK):
            return (_deviation(f"unknown: querying {dut.path} needs write permission"),)
        with temporary_folder() as folder:
            return _deviations(choose(Tools(dut, folder / "capability", root=self.root), self.requested, self.command))

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Purge a claimed target and prove it; ``evidence`` is the base name of the evidence files.

        Raises PurgeFailed if the method or the proof fails, DeviceFailed or HostFailed if the proof's pattern cannot be
        written or read, or if the drive disappears and does not come back.
        """
        started = datetime.now().astimezone().isoformat(timespec="milliseconds")
        tools = Tools(target.dut, evidence, tick=self.tick, root=self.root, descriptor=target.descriptor)
        try:
            method = choose(tools, self.requested, self.command)
        except TargetUnfit as error:
            reason = f"is not possible: {error.reason}"
            raise PurgeFailed(path=target.dut.path, method=self.requested, reason=reason, hint=error.hint) from None
        if method is None:
            return PurgeOutcome(
                method=NONE,
                samples=0,
                survivors=0,
                started=started,
                seconds=0.0,
                evidence="",
                deviations=_deviations(None),
            )
        proof = Proof(target, seed)
        _LOGGER.info("purge of %s by %s", target.dut.path, method.title)
        seconds, failure = _perform(method, tools, proof)
        survivors = 0
        if failure is None or self.allow_unpurged:
            regain(target, purged=failure is None, patience_seconds=_REAPPEAR_SECONDS, root=self.root)
            _require_unchanged(target, method, self.root)
            survivors = proof.survivors() if proof.is_written else 0
        if survivors and failure is None:
            failure = MethodFailed(
                f"reported success, but {survivors} of {len(proof.offsets)} blocks written before it survived"
            )
        if failure:
            _LOGGER.warning("the purge by %s %s", method.title, failure)
        else:
            blocks = len(proof.offsets) if proof.is_written else 0
            _LOGGER.info("purged in %.1f s; %d of %d blocks survived", seconds, survivors, blocks)
        if failure and not self.allow_unpurged:
            hint = failure.remedy or PurgeFailed.hint
            raise PurgeFailed(path=target.dut.path, method=method.title, reason=str(failure), hint=hint)
        deviations = (
            (_deviation(f"{method.title}, {NOT_PROVEN}: the purge {failure}"),) if failure else _deviations(method)
        )
        return PurgeOutcome(
            method=method.title,
            samples=len(proof.offsets) if proof.is_written else 0,
            survivors=survivors,
            started=started,
            seconds=seconds,
            evidence=evidence.name,
            deviations=deviations,
        )


def _deviations(method: Method | None) -> tuple[Deviation, ...]:
    """Return the deviations of a successful purge."""
    if method is not None and method.standard:
        return ()
    return (_deviation(method.title if method else "not purged"),)


def _deviation(actual: str) -> Deviation:
    return Deviation(what="purge", standard=_STANDARD, actual=actual, clause=_CLAUSE)


def _perform(method: Method, tools: Tools, proof: Proof) -> tuple[float, MethodFailed | None]:
    """Write the proof's pattern and purge; return how long the purge took, in seconds, and its failure if any."""
    started = time.monotonic()
    try:
        capability = method.query(tools)
        method.prepare(tools)
        proof.write()
        started = time.monotonic()
        method.perform(tools, capability)
    except MethodUnavailable as unavailable:
        return time.monotonic() - started, MethodFailed(f"is not possible: {unavailable}", unavailable.remedy)
    except MethodFailed as failure:
        return time.monotonic() - started, failure
    return time.monotonic() - started, None


def _require_unchanged(target: Target, method: Method, root: Path) -> None:
    """Raise PurgeFailed if the purge changed the drive's identity or size: the test's plan no longer applies to it."""
    try:
        dut = read_dut(Path(target.dut.path), root=root)
    except (TargetMissing, TargetUnfit) as error:
        what = "it does not exist" if isinstance(error, TargetMissing) else error.reason
        reason = f"left a target that cannot be tested: {what}"
        raise PurgeFailed(path=target.dut.path, method=method.title, reason=reason) from None
    for field in ("model", "serial", "capacity_bytes", "logical_sector_bytes"):
        before, after = getattr(target.dut, field), getattr(dut, field)
        if before != after:
            reason = f"changed the drive: {field} was {before}, and is now {after}"
            hint = "Restore the drive's former format, and run again."
            raise PurgeFailed(path=target.dut.path, method=method.title, reason=reason, hint=hint)
