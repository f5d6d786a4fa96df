"""The array of a run: created, claimed like any target, released, and created again as the same target."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import HostFailed, TargetBusy
from ...lab.device.identity import ROOT
from ...lab.device.target_claim import Target, claim_target
from ...lab.process.program import Tick
from ...model.array import BuiltArray, Layout, Member, Speeds
from ...model.dut import Dut
from ...units import block_size
from .controller import Controller
from .programs import ArrayError

_CLAIM_SECONDS = 10.0
_PAUSE_SECONDS = 0.2


class AssembledArray:
    """The array of a run.

    ``target`` stays the same object when the array is created again.  It is unusable while the array is released.
    """

    def __init__(
        self, layout: Layout, controller: Controller, *, speeds: Speeds | None = None, root: Path = ROOT
    ) -> None:
        self.layout, self._controller, self._root = layout, controller, root
        self._speeds = speeds
        self._target: Target | None = None

    @property
    def target(self) -> Target:
        """The array; it must have been created."""
        if self._target is None:
            raise RuntimeError("the array was not created")
        return self._target

    def create(self, members: Sequence[Member], evidence: Path, *, clean: bool, tick: Tick | None = None) -> None:
        """Create the array from unused members and claim it; unless ``clean``, synchronise its redundancy first.

        Raises HostFailed, also if the array differs from the one created before.
        """
        layout = self.layout
        try:
            device = self._controller.create([member.path for member in members], evidence, clean=clean)
            if layout.redundant and not clean:
                self._controller.wait(device, tick)
            properties = (*self._controller.properties(device), ("First sync", _sync_text(layout)))
            built = BuiltArray(
                layout=layout,
                version=self._controller.version(),
                members=tuple(members),
                properties=properties,
                speeds=self._speeds,
            )
        except ArrayError as error:
            raise _failed(layout, str(error)) from None
        self._claim(device, built)

    def delete(self, members: Sequence[Member], evidence: Path | None = None) -> None:
        """Release and delete the array; raises HostFailed."""
        self.release()
        try:
            self._controller.delete([member.path for member in members], evidence)
        except ArrayError as error:
            raise _failed(self.layout, str(error)) from None

    def release(self) -> None:
        """Release the array; its descriptor keeps its number, but refers to /dev/null."""
        if self._target is not None:
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(null, self._target.descriptor, inheritable=False)
            os.close(null)

    def close(self) -> None:
        """Close the descriptor at the end."""
        if self._target is not None:
            os.close(self._target.descriptor)
            self._target = None

    def _claim(self, device: Path, built: BuiltArray) -> None:
        """Claim the created array, under the descriptor number that it had before it was created again."""
        deadline = time.monotonic() + _CLAIM_SECONDS
        while True:
            try:
                with claim_target(
                    device, size_bytes=None, overwrite=False, discard_data=True, root=self._root
                ) as target:
                    self._adopt(target, built)
                return
            except TargetBusy:  # udev opens new devices
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _adopt(self, target: Target, built: BuiltArray) -> None:
        if self._target is None:
            self._target = replace(target, dut=array_dut(target.dut, built), descriptor=os.dup(target.descriptor))
            return
        for field in ("path", "capacity_bytes", "logical_sector_bytes"):
            if (after := getattr(target.dut, field)) != (before := getattr(self._target.dut, field)):
                raise _failed(self.layout, f"the recreated array's {field} was {before}, and is now {after}")
        os.dup2(target.descriptor, self._target.descriptor, inheritable=False)


def array_dut(dut: Dut, built: BuiltArray) -> Dut:
    """Return ``dut``, the device of an array, with the properties that follow from its layout and members."""
    serials = [member.serial for member in built.members]
    return replace(
        dut,
        kind="virtual device",
        model=_model(built.layout, built.members),
        array=built,
        instance=None,
        serial=",".join(serials) if all(serials) else "",
        firmware=", ".join(dict.fromkeys(member.firmware for member in built.members if member.firmware)),
        bus=_interface(built.layout),
        rotational=built.rotational,
    )


def predicted_dut(
    layout: Layout, members: Sequence[Member], *, sector_bytes: int, version: str = "", speeds: Speeds | None = None
) -> Dut:
    """Return the device under test for an array not created yet: slightly larger than it will be."""
    smallest = min(member.capacity_bytes for member in members)
    dut = Dut(
        path=layout.device,
        kind="virtual device",
        model="",
        serial="",
        firmware="",
        bus="",
        capacity_bytes=layout.array.data_disks * smallest,
        logical_sector_bytes=sector_bytes,
        physical_sector_bytes=sector_bytes,
        rotational=None,
        write_cache="unknown",
        discard=None,
    )
    return array_dut(dut, BuiltArray(layout=layout, version=version, members=tuple(members), speeds=speeds))


def identities(members: Sequence[Member]) -> str:
    """Return the confirmation that the operator types: the members' serial numbers or names, in order."""
    return ",".join(member.identity for member in members)


def _model(layout: Layout, members: Sequence[Member]) -> str:
    models = dict.fromkeys(member.model or "unknown model" for member in members)
    return f"RAID {layout.level} of {len(members)} x {' / '.join(models)}"


def _interface(layout: Layout) -> str:
    """Return a text such as ``mdadm, chunk 64 KiB``."""
    return f"{layout.controller}, chunk {block_size(layout.chunk_bytes)}" if layout.chunk_bytes else layout.controller


def _sync_text(layout: Layout) -> str:
    if not layout.redundant:
        return "none: the level has no redundancy"
    return "completed" if layout.sync == "wait" else "skipped: redundancy is not consistent"


def _failed(layout: Layout, reason: str) -> HostFailed:
    hint = "Check dmesg; docs/array.rst describes how to delete an array that was left."
    return HostFailed(step="array", what=f"{layout.label}, {layout.controller}", reason=reason, hint=hint)
