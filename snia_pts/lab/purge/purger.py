"""Carries a purge out on a held target, and proves it."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...errors import PurgeFailed, TargetUnfit
from ...model.dut import Dut
from ...model.measurement import PurgeOutcome
from ...spec import Deviation
from ..device.identity import ROOT, read_dut
from ..device.safety import Target, regain
from ..process.program import Tick
from .choice import NONE, choose
from .method import Method, MethodFailed, MethodUnavailable, Tools
from .proof import Proof

_STANDARD = "ATA Security Erase or Sanitize, SCSI Format Unit or Sanitize, NVMe Format or Sanitize, or the vendor's own"
_CLAUSE = "PTS chapter 3, Purge"
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Purger:
    """How a target is to be purged: by the method ``wanted``, or by a vendor's ``command``.

    ``allow_unpurged`` goes on after a purge that failed or is not proven, with a Deviation.  ``tick`` is called while
    it runs.
    """

    wanted: str
    command: str | None = None
    allow_unpurged: bool = False
    tick: Tick | None = None
    root: Path = ROOT

    def foreseen(self, dut: Dut) -> tuple[Deviation, ...]:
        """Return how the purge will differ from the standard; asks the device, where this user may.

        Raises UsageError, TargetUnfit, ToolMissing where it could not be purged.
        """
        if dut.kind != "file" and not os.access(dut.path, os.R_OK | os.W_OK):
            return (_deviation(f"not known: only a user who may write to {dut.path} can ask it"),)
        with tempfile.TemporaryDirectory(prefix="snia-pts-") as folder:
            return _deviations(choose(Tools(dut, Path(folder) / "offer", root=self.root), self.wanted, self.command))

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Purge a held target and prove it; ``evidence`` is the base name of the evidence files.

        Raises PurgeFailed when the method fails or the proof does, DeviceFailed or HostFailed when the proof cannot be
        read or written, or the drive is away and does not come back.
        """
        started = datetime.now().astimezone().isoformat(timespec="milliseconds")
        tools = Tools(target.dut, evidence, tick=self.tick, root=self.root, descriptor=target.descriptor)
        try:
            method = choose(tools, self.wanted, self.command)
        except TargetUnfit as unfit:
            reason = f"is not possible: {unfit.reason}"
            raise PurgeFailed(path=target.dut.path, method=self.wanted, reason=reason, hint=unfit.hint) from None
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
        seconds, failed = _carry_out(method, tools, proof)
        survivors = 0
        if failed is None or self.allow_unpurged:
            regain(target, patience_seconds=_PATIENCE_SECONDS, root=self.root)
            _require_as_before(target, method, self.root)
            survivors = proof.survivors() if proof.laid_out else 0
        if survivors and failed is None:
            failed = MethodFailed(
                f"is a lie: {survivors} of {len(proof.places)} blocks written before are still there, "
                "though it said success"
            )
        if failed and not self.allow_unpurged:
            hint = failed.remedy or PurgeFailed.hint
            raise PurgeFailed(path=target.dut.path, method=method.title, reason=str(failed), hint=hint)
        unproven = (_deviation(f"{method.title}, NOT PROVEN: the purge {failed}"),) if failed else _deviations(method)
        return PurgeOutcome(
            method=method.title,
            samples=len(proof.places) if proof.laid_out else 0,
            survivors=survivors,
            started=started,
            seconds=seconds,
            evidence=evidence.name,
            deviations=unproven,
        )


def _deviations(method: Method | None) -> tuple[Deviation, ...]:
    """Return what differs from the standard even if all goes well."""
    if method is not None and method.standard:
        return ()
    return (_deviation(method.title if method else "not purged"),)


def _deviation(actual: str) -> Deviation:
    return Deviation(what="purge", standard=_STANDARD, actual=actual, clause=_CLAUSE)


def _carry_out(method: Method, tools: Tools, proof: Proof) -> tuple[float, MethodFailed | None]:
    """Lay out the proof and purge; return the time that the purge took, and why it failed if it did."""
    began = time.monotonic()
    try:
        offer = method.ask(tools)
        method.prepare(tools)
        proof.lay_out()
        began = time.monotonic()
        method.perform(tools, offer)
    except MethodUnavailable as refused:
        return time.monotonic() - began, MethodFailed(f"is not possible: {refused}", refused.remedy)
    except MethodFailed as failed:
        return time.monotonic() - began, failed
    return time.monotonic() - began, None


def _require_as_before(target: Target, method: Method, root: Path) -> None:
    """Raise PurgeFailed where a drive is no longer the one it was: all that was planned for it is void."""
    was, now = target.dut, read_dut(Path(target.dut.path), root=root)
    for what in ("model", "serial", "capacity_bytes", "logical_sector_bytes"):
        before, after = getattr(was, what), getattr(now, what)
        if before != after:
            reason = f"changed the drive: {what} is {after}, and was {before}"
            raise PurgeFailed(
                path=was.path, method=method.title, reason=reason, hint="Give it back the form it had, and run again."
            )
