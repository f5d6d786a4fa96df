"""Arrays of the kernel's md driver, by mdadm.

Every array has a random UUID chosen by the suite.  The UUID alone identifies an array and its superblocks as the
suite's.
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
from ...lab.device.identity import ROOT, attribute, block_directory
from ...lab.device.storage import device_path
from ...lab.process.program import Tick
from ...model.array import Layout
from ...units import KIB
from .programs import ArrayError, Programs

KIND = "mdadm"
IDENTITY_PATTERN = r"[0-9a-f]{8}(:[0-9a-f]{8}){3}"
_APPEARING_SECONDS = 20.0
_STOPPING_SECONDS = 20.0
#: A sync without progress for this long has failed.
_STALLED_SECONDS = 600.0
_PAUSE_SECONDS = (0.1, 5.0)
#: The sync speed limit in KiB/s, above any drive's rate: nothing else needs the drives during the sync.
_MAX_SYNC_KIB_PER_SECOND = 100_000_000


def require_driver(layout: Layout, root: Path = ROOT) -> None:
    """Raise TargetUnfit unless the kernel has the md driver for the level, or modprobe finds it."""
    level = f"raid{layout.level}"
    if f"[{level}]" in attribute(root / "proc/mdstat"):
        return
    with suppress(ToolMissing):
        finished = Programs().run("driver", "modprobe", "--dry-run", "--quiet", f"md-{level}")
        if not finished.exit_code and not finished.timed_out:
            return
    raise TargetUnfit(
        path=layout.device,
        reason=f"this kernel has no md driver for RAID {layout.level}, and modprobe finds none",
        hint=f"Load the module {level}, on the host of a container; or use a kernel that has it.",
    )


class Mdadm:
    """Manages an array with mdadm; ``identity`` is its UUID."""

    def __init__(self, layout: Layout, identity: str = "", *, root: Path = ROOT) -> None:
        self._layout, self._root = layout, root
        self._device = layout.device  # later the device with its number, so that a recreated array gets the same one
        self.identity = identity or ":".join(secrets.token_hex(4) for _ in range(4))

    @property
    def place(self) -> str:
        """The place that a restore file records."""
        return f"{KIND} {self.identity}"

    def version(self) -> str:
        """Return the version of mdadm, and of the kernel with the md driver."""
        finished = Programs().run("version", "mdadm", "--version")
        return f"{(finished.stderr or finished.stdout).strip()}; md of Linux {os.uname().release}"

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Create the array from unused drives and return its device; ``clean`` assumes consistent redundancy.

        Raises ArrayError.
        """
        name = self._root / self._device.lstrip("/")
        if name.exists() and not self._is_stale(name):
            raise ArrayError(f"{self._device} already exists, and belongs to another array")
        programs, is_new = Programs(evidence), not os.path.lexists(name)
        try:
            programs.require("create", *self._create_command(members, clean=clean))
        except ArrayError:
            if is_new:
                self._remove_names(name)
            raise
        return self._wait_for_device(programs)

    def _remove_names(self, name: Path) -> None:
        """Remove the /dev entries that mdadm created for an array that the kernel does not have."""
        node = _real_path(name)
        if node.is_block_device() and not block_directory(node.stat().st_rdev, self._root).exists():
            for path in {name, node}:
                path.unlink()
            with suppress(OSError):  # it contains names of other arrays
                (self._root / "dev/md").rmdir()

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until the redundancy is complete; raises ArrayError if the sync stalls or a member fails."""
        md = self._root / "sys/class/block" / device.name / "md"
        for name in ("sync_speed_max", "sync_speed_min"):
            with suppress(OSError):
                (md / name).write_text(str(_MAX_SYNC_KIB_PER_SECOND))
        started = last_progress = time.monotonic()
        pause, completed = _PAUSE_SECONDS[0], ""
        while not self._is_synced(md):
            current = attribute(md / "sync_completed")
            if current != completed:
                last_progress, completed = time.monotonic(), current
            if time.monotonic() - last_progress > _STALLED_SECONDS:
                raise ArrayError(f"its first sync has stalled ({attribute(md / 'sync_action')}, {completed})")
            if tick is not None:
                tick(time.monotonic() - started, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    def _is_synced(self, md: Path) -> bool:
        """Return whether the sync is complete; raises ArrayError if a member has failed."""
        failed = [state.parent.name for state in sorted(md.glob("dev-*/state")) if "faulty" in attribute(state)]
        if failed:
            raise ArrayError(f"during its first sync {', '.join(failed)} failed")
        idle = attribute(md / "sync_action") == "idle"
        return idle and attribute(md / "degraded") == "0" and attribute(md / "resync_start") == "none"

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return the array's properties as reported by the kernel."""
        md = self._root / "sys/class/block" / device.name / "md"
        names = {"level": "Level", "layout": "Layout", "chunk_size": "Chunk (bytes)", "metadata_version": "Metadata"}
        rows = [(title, attribute(md / name)) for name, title in names.items()]
        rows.append(("Bitmap", attribute(md / "bitmap/location") or "none"))
        rows.append(("Consistency", attribute(md / "consistency_policy")))
        offsets = sorted({attribute(member) for member in md.glob("dev-*/offset")})
        rows.append(("Data offset (sectors)", ", ".join(offsets)))
        return tuple((name, value) for name, value in rows if value)

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Stop the array and zero its own superblocks on ``members``, no other ones; raises ArrayError."""
        programs = Programs(evidence)
        self._stop(programs)
        for number, member in enumerate(members, start=1):
            _zero_superblock(programs, member, self.identity, number)

    def exists(self) -> bool:
        """Return whether the array exists, or a superblock of it on any drive."""
        programs = Programs()
        return any(self._arrays(programs)) or any(self._member_devices(programs))

    def clean_up(self) -> None:
        """Stop the array and zero its superblocks, wherever they are; raises ArrayError."""
        programs = Programs()
        self._stop(programs)
        for number, device in enumerate(self._member_devices(programs), start=1):
            _zero_superblock(programs, device, self.identity, number)

    def _create_command(self, members: Sequence[str], *, clean: bool) -> Iterator[str]:
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

    def _wait_for_device(self, programs: Programs) -> Path:
        """Return the device that the array's name resolves to, once it exists."""
        name = self._root / self._device.lstrip("/")
        deadline = time.monotonic() + _APPEARING_SECONDS
        while True:
            blocks = [block for block in self._arrays(programs) if device_path(block, self._root) == _real_path(name)]
            if blocks:
                device = device_path(blocks[0], self._root)
                self._device = f"/{device.relative_to(self._root)}"
                return device
            if time.monotonic() > deadline:
                raise ArrayError(f"{self._device} did not appear")
            time.sleep(_PAUSE_SECONDS[0])

    def _is_stale(self, name: Path) -> bool:
        """Return whether a name belongs to a stopped array; mdadm leaves such names if there is no udev."""
        block = block_directory(name.stat().st_rdev, self._root)
        return name.is_block_device() and attribute(block / "md/array_state") in ("", "clear")

    def _arrays(self, programs: Programs) -> Iterator[Path]:
        """Yield the sysfs folders of the arrays with our UUID: one or none."""
        for block in sorted((self._root / "sys/block").glob("md*")):
            finished = programs.run("detail", "mdadm", "--detail", "--export", str(device_path(block, self._root)))
            if _uuid(finished.stdout) == self.identity:
                yield block

    def _member_devices(self, programs: Programs) -> list[str]:
        """Return the drives with a superblock that has our UUID, as found by mdadm."""
        output = programs.require("scan", "mdadm", "--examine", "--scan", "--verbose", "--config=partitions").stdout
        devices: set[str] = set()
        for array in re.split(r"^(?=ARRAY )", output, flags=re.MULTILINE):
            if f"UUID={self.identity}" in array.split():
                devices.update(name for names in re.findall(r"\sdevices=(\S+)", array) for name in names.split(","))
        return sorted(devices)

    def _stop(self, programs: Programs) -> None:
        """Stop the array with our UUID, retrying because udev may have it open for a moment."""
        deadline = time.monotonic() + _STOPPING_SECONDS
        for block in self._arrays(programs):
            while True:
                try:
                    programs.require("stop", "mdadm", "--stop", str(device_path(block, self._root)))
                    break
                except ArrayError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_PAUSE_SECONDS[0])


def _zero_superblock(programs: Programs, device: str, identity: str, number: int) -> None:
    """Zero the superblock of a drive if it is the array's."""
    finished = programs.run(f"examine{number}", "mdadm", "--examine", "--export", device)
    if finished.exit_code == 0 and _uuid(finished.stdout) == identity:
        programs.require(f"zero{number}", "mdadm", "--zero-superblock", device)


def _uuid(exported: str) -> str:
    match = re.search(rf"^MD_UUID=({IDENTITY_PATTERN})$", exported, re.MULTILINE)
    return match[1] if match else ""


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))
