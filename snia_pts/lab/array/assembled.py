"""An array while a run needs it: made, held as any target is, let go, and made again in its place."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import HostFailed, TargetBusy
from ...model.array import BuiltArray, Layout, Member, Speeds
from ...model.dut import Dut
from ...units import block_size
from ..device.identity import ROOT
from ..device.safety import Target, claim_target
from ..process.program import Tick
from .controller import Controller
from .programs import Unmade

_HOLDING_SECONDS = 10.0
_PAUSE_SECONDS = 0.2


class AssembledArray:
    """The array of a run; ``target`` is the same from its first making to its end, but while it is let go."""

    def __init__(
        self, layout: Layout, controller: Controller, *, speeds: Speeds | None = None, root: Path = ROOT
    ) -> None:
        self.layout, self._controller, self._root = layout, controller, root
        self._speeds = speeds
        self._target: Target | None = None

    @property
    def target(self) -> Target:
        """The array, which was made."""
        if self._target is None:
            raise RuntimeError("the array was not made")
        return self._target

    def make(self, members: Sequence[Member], evidence: Path, *, clean: bool, tick: Tick | None = None) -> None:
        """Make the array of free members, and hold it; unless ``clean``, its redundancy is made consistent first.

        Raises HostFailed, also where it is not what it was when it is made again.
        """
        layout = self.layout
        try:
            device = self._controller.create([each.path for each in members], evidence, clean=clean)
            if layout.redundant and not clean:
                self._controller.wait(device, tick)
            told = (*self._controller.told(device), ("First sync", _sync_words(layout)))
            built = BuiltArray(
                layout=layout,
                version=self._controller.version(),
                members=tuple(members),
                properties=told,
                speeds=self._speeds,
            )
        except Unmade as why:
            raise _failed(layout, str(why)) from None
        self._hold(device, built)

    def take_apart(self, members: Sequence[Member], evidence: Path | None = None) -> None:
        """Let the array go, and take it apart; raises HostFailed."""
        self.let_go()
        try:
            self._controller.delete([each.path for each in members], evidence)
        except Unmade as why:
            raise _failed(self.layout, str(why)) from None

    def let_go(self) -> None:
        """Hold the array no longer; the descriptor's number stays."""
        if self._target is not None:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, self._target.descriptor, inheritable=False)
            os.close(nothing)

    def close(self) -> None:
        """Give the descriptor up, at the end."""
        if self._target is not None:
            os.close(self._target.descriptor)
            self._target = None

    def _hold(self, device: Path, built: BuiltArray) -> None:
        """Hold what was made, in the place of what was held before."""
        until = time.monotonic() + _HOLDING_SECONDS
        while True:
            try:
                with claim_target(
                    device, size_bytes=None, overwrite=False, discard_data=True, root=self._root
                ) as fresh:
                    self._take(fresh, built)
                return
            except TargetBusy:  # udev looks into what is new
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _take(self, fresh: Target, built: BuiltArray) -> None:
        if self._target is None:
            self._target = replace(fresh, dut=array_dut(fresh.dut, built), descriptor=os.dup(fresh.descriptor))
            return
        was = self._target.dut
        for what in ("path", "capacity_bytes", "logical_sector_bytes"):
            if (now := getattr(fresh.dut, what)) != (before := getattr(was, what)):
                raise _failed(self.layout, f"made again, its {what} is {now}, and was {before}")
        os.dup2(fresh.descriptor, self._target.descriptor, inheritable=False)


def array_dut(dut: Dut, built: BuiltArray) -> Dut:
    """Return the device of an array as the device under test, told by its members."""
    serials = [each.serial for each in built.members]
    return replace(
        dut,
        kind="virtual device",
        model=_model(built.layout, built.members),
        array=built,
        instance=None,
        serial=",".join(serials) if all(serials) else "",
        firmware=", ".join(dict.fromkeys(each.firmware for each in built.members if each.firmware)),
        bus=_interface(built.layout),
        rotational=built.rotational,
    )


def predicted_dut(
    layout: Layout, members: Sequence[Member], *, sector_bytes: int, version: str = "", speeds: Speeds | None = None
) -> Dut:
    """Return an array that is not made yet as the device under test: a little larger than it will be."""
    smallest = min(each.capacity_bytes for each in members)
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
    """Return what the operator types: serial numbers, or names, in the members' order."""
    return ",".join(each.identity for each in members)


def _model(layout: Layout, members: Sequence[Member]) -> str:
    models = dict.fromkeys(each.model or "unknown model" for each in members)
    return f"RAID {layout.level} of {len(members)} x {' / '.join(models)}"


def _interface(layout: Layout) -> str:
    """``mdadm, chunk 64 KiB``."""
    return f"{layout.controller}, chunk {block_size(layout.chunk_bytes)}" if layout.chunk_bytes else layout.controller


def _sync_words(layout: Layout) -> str:
    if not layout.redundant:
        return "none: the level has no redundancy"
    return "waited for" if layout.sync == "wait" else "left out: redundancy is not consistent"


def _failed(layout: Layout, reason: str) -> HostFailed:
    hint = "Look at dmesg; docs/array.rst tells how an array that is left is taken apart."
    return HostFailed(step="array", what=f"{layout.label}, {layout.controller}", reason=reason, hint=hint)
