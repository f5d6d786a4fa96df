"""Arrays of the kernel's md driver, by mdadm.

Every array has a UUID that the suite drew for it: by this, and by nothing else, an array and its superblocks are
known as the suite's own.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import TargetUnfit, ToolMissing
from ...model.array import Layout
from ...units import KIB
from ..device.identity import ROOT, attribute, block_directory
from ..device.storage import device_path
from ..process.program import Tick
from .programs import ArrayError, Programs

KIND = "mdadm"
IDENTITY = r"[0-9a-f]{8}(:[0-9a-f]{8}){3}"
_APPEARING_SECONDS = 20.0
_STOPPING_SECONDS = 20.0
#: A sync that does not move, and has not to wait for anything, has failed.
_STILL_SECONDS = 600.0
_PAUSE_SECONDS = (0.1, 5.0)
#: More than any drive writes, in KiB/s: nothing else needs the drives while the array syncs.
_FASTEST_SYNC = 100_000_000


def require_driver(layout: Layout, root: Path = ROOT) -> None:
    """Raise TargetUnfit unless the kernel has the md driver for a level, or modprobe finds it."""
    level = f"raid{layout.level}"
    if f"[{level}]" in attribute(root / "proc/mdstat"):
        return
    with suppress(ToolMissing):
        found = Programs().ask("driver", "modprobe", "--dry-run", "--quiet", f"md-{level}")
        if not found.exit_code and not found.timed_out:
            return
    raise TargetUnfit(
        path=layout.device,
        reason=f"this kernel has no md driver for RAID {layout.level}, and modprobe finds none",
        hint=f"Load the module {level}, on the host of a container; or use a kernel that has it.",
    )


class Mdadm:
    """An array by mdadm; ``identity`` is its UUID."""

    def __init__(self, layout: Layout, identity: str = "", *, root: Path = ROOT) -> None:
        self._layout, self._root = layout, root
        self._device = layout.device  # the number that it was given, once it has one, so that it has it again
        self.identity = identity or ":".join(secrets.token_hex(4) for _ in range(4))

    @property
    def place(self) -> str:
        """What a note calls it by."""
        return f"{KIND} {self.identity}"

    def version(self) -> str:
        """Return the tool's version, and the kernel's, whose driver it is."""
        said = Programs().ask("version", "mdadm", "--version")
        return f"{(said.stderr or said.stdout).strip()}; md of Linux {os.uname().release}"

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Make the array of free drives, and return its device; ``clean`` takes its redundancy for consistent.

        Raises ArrayError.
        """
        name = self._root / self._device.lstrip("/")
        if name.exists() and not self._stale(name):
            raise ArrayError(f"{self._device} is there already, and is another array's")
        programs, new = Programs(evidence), not os.path.lexists(name)
        try:
            programs.act("create", *self._creation(members, clean=clean))
        except ArrayError:
            if new:
                self._remove_names(name)
            raise
        return self._appeared(programs)

    def _remove_names(self, name: Path) -> None:
        """Remove the names below /dev that mdadm made for an array that the kernel does not have."""
        node = _real(name)
        if node.is_block_device() and not block_directory(node.stat().st_rdev, self._root).exists():
            for each in {name, node}:
                each.unlink()
            with suppress(OSError):  # it holds names of other arrays
                (self._root / "dev/md").rmdir()

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until all redundancy is there; raises ArrayError when the sync stands still, or a member fails."""
        md = self._root / "sys/class/block" / device.name / "md"
        for name in ("sync_speed_max", "sync_speed_min"):
            with suppress(OSError):
                (md / name).write_text(str(_FASTEST_SYNC))
        began = moved = time.monotonic()
        pause, done = _PAUSE_SECONDS[0], ""
        while not self._synced(md):
            now = attribute(md / "sync_completed")
            if now != done:
                moved, done = time.monotonic(), now
            if time.monotonic() - moved > _STILL_SECONDS:
                raise ArrayError(f"its first sync stands still ({attribute(md / 'sync_action')}, {done})")
            if tick is not None:
                tick(time.monotonic() - began, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    def _synced(self, md: Path) -> bool:
        """Whether nothing is to be synced any more; raises ArrayError when a member was lost."""
        failed = [each.parent.name for each in sorted(md.glob("dev-*/state")) if "faulty" in attribute(each)]
        if failed:
            raise ArrayError(f"during its first sync {', '.join(failed)} failed")
        idle = attribute(md / "sync_action") == "idle"
        return idle and attribute(md / "degraded") == "0" and attribute(md / "resync_start") == "none"

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return what the kernel says of the array."""
        md = self._root / "sys/class/block" / device.name / "md"
        names = {"level": "Level", "layout": "Layout", "chunk_size": "Chunk (bytes)", "metadata_version": "Metadata"}
        rows = [(words, attribute(md / name)) for name, words in names.items()]
        rows.append(("Bitmap", attribute(md / "bitmap/location") or "none"))
        rows.append(("Consistency", attribute(md / "consistency_policy")))
        return tuple((name, value) for name, value in rows if value)

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Stop the array, and zero its superblocks on ``members``; raises ArrayError.  What is not ours stays."""
        programs = Programs(evidence)
        self._stop(programs)
        for number, member in enumerate(members, start=1):
            _zero(programs, member, self.identity, number)

    def exists(self) -> bool:
        """Whether there is anything of it: the array itself, or a superblock on any drive."""
        programs = Programs()
        return any(self._standing(programs)) or any(self._marked(programs))

    def clean_up(self) -> None:
        """Stop the array and zero its superblocks, wherever they are; raises ArrayError."""
        programs = Programs()
        self._stop(programs)
        for number, device in enumerate(self._marked(programs), start=1):
            _zero(programs, device, self.identity, number)

    def _creation(self, members: Sequence[str], *, clean: bool) -> Iterator[str]:
        layout = self._layout
        yield from ("mdadm", "--create", self._device, "--run", "--quiet", "--metadata=1.2", f"--level={layout.level}")
        yield from (f"--raid-devices={len(members)}", f"--uuid={self.identity}")
        yield f"--name={layout.device.rpartition('/')[2]}"
        if layout.chunk_bytes:
            yield f"--chunk={layout.chunk_bytes // KIB}K"
        if layout.redundant:
            yield f"--bitmap={layout.bitmap}"
            if clean:
                yield "--assume-clean"
        yield from members

    def _appeared(self, programs: Programs) -> Path:
        """Return the device that the array's name leads to, once it is there."""
        name = self._root / self._device.lstrip("/")
        until = time.monotonic() + _APPEARING_SECONDS
        while True:
            found = [block for block in self._standing(programs) if device_path(block, self._root) == _real(name)]
            if found:
                device = device_path(found[0], self._root)
                self._device = f"/{device.relative_to(self._root)}"
                return device
            if time.monotonic() > until:
                raise ArrayError(f"{self._device} did not appear")
            time.sleep(_PAUSE_SECONDS[0])

    def _stale(self, name: Path) -> bool:
        """Whether a name is one that mdadm left of an array that was stopped, as it does where there is no udev."""
        block = block_directory(name.stat().st_rdev, self._root)
        return name.is_block_device() and attribute(block / "md/array_state") in ("", "clear")

    def _standing(self, programs: Programs) -> Iterator[Path]:
        """Yield the folders in sysfs of the arrays that have our UUID: one, or none."""
        for block in sorted((self._root / "sys/block").glob("md*")):
            said = programs.ask("detail", "mdadm", "--detail", "--export", str(device_path(block, self._root)))
            if _uuid(said.stdout) == self.identity:
                yield block

    def _marked(self, programs: Programs) -> list[str]:
        """Return the drives with a superblock of our UUID, as mdadm finds them."""
        said = programs.act("scan", "mdadm", "--examine", "--scan", "--verbose", "--config=partitions").stdout
        found: list[str] = []
        for array in re.split(r"^(?=ARRAY )", said, flags=re.MULTILINE):
            if f"UUID={self.identity}" in array.split():
                found += [name for words in re.findall(r"\sdevices=(\S+)", array) for name in words.split(",")]
        return sorted(set(found))

    def _stop(self, programs: Programs) -> None:
        """Stop what has our UUID; udev may look into it for a moment."""
        until = time.monotonic() + _STOPPING_SECONDS
        for block in self._standing(programs):
            while True:
                try:
                    programs.act("stop", "mdadm", "--stop", str(device_path(block, self._root)))
                    break
                except ArrayError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(_PAUSE_SECONDS[0])


def _zero(programs: Programs, device: str, identity: str, number: int) -> None:
    """Zero the superblock of a drive, if it is one of the array's."""
    said = programs.ask(f"examine{number}", "mdadm", "--examine", "--export", device)
    if said.exit_code == 0 and _uuid(said.stdout) == identity:
        programs.act(f"zero{number}", "mdadm", "--zero-superblock", device)


def _uuid(exported: str) -> str:
    found = re.search(rf"^MD_UUID=({IDENTITY})$", exported, re.MULTILINE)
    return found[1] if found else ""


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
