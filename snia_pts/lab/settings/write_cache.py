"""The volatile write cache of a drive: asked of the drive itself, set for a run, looked at again after each purge.

What the kernel calls a write cache is what it believes; NVMe's it never learns when that is set.  So a state is read
back from the drive, by NVMe's feature 06h, ATA's IDENTIFY, or SCSI's caching mode page read anew.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ...errors import RunFolderError, ToolMissing
from ...model.dut import CacheState, Dut
from ...spec import Deviation
from ..device.identity import ROOT, attribute
from ..process import program as process
from .settings import AppliedChange, Change, Setting

CLAUSE = "PTS chapter 3, Caching"
_TOOL_SECONDS = 20.0
_VOLATILE = 1
"""The bit of VWC that says that there is a volatile write cache, and that of feature 06h that it is enabled."""
_KERNEL = "as the kernel reports it"
_STATES: dict[str, CacheState] = {
    "write back": "enabled",
    "write back, no read (daft)": "enabled",
    "write through": "disabled",
    "none": "disabled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCacheStatus:
    """The state of a write cache, and who told it, in words."""

    state: CacheState
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cache(ABC):
    """A write cache as a Setting; ``evidence`` is the base name of what its programs leave."""

    place: str
    root: Path = ROOT
    evidence: Path | None = None

    KIND: ClassVar[str]
    PLACES: ClassVar[str] = r"[a-z][a-z0-9]{0,31}"
    LASTING: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def name(self) -> str:
        return f"write cache of {self.place}"

    @property
    def lasting(self) -> bool:
        return self.LASTING

    @property
    def settable(self) -> bool:
        """Whether this user may set it, as far as can be known without trying."""
        return True

    def takes(self, value: str) -> bool:
        """See Setting."""
        return value in ("enabled", "disabled")

    def elsewhere(self) -> Iterator[Setting]:
        """See Setting."""
        yield from ()

    @abstractmethod
    def look(self, *, anew: bool = True) -> WriteCacheStatus:
        """Ask for its state; unless ``anew``, what the kernel knows will do."""

    def read(self) -> str | None:
        """See Setting."""
        state = self.look().state
        return state if self.takes(state) else None

    def _run(self, what: str, *argv: str) -> process.Finished:
        """Run a program; raises OSError where it is missing or fails, or its evidence cannot be written."""
        with ExitStack() as stack:
            base = self.evidence or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "write-cache"
            try:
                done = process.run(argv, evidence=base.with_name(f"{base.name}-{what}"), timeout_seconds=_TOOL_SECONDS)
            except ToolMissing as missing:
                raise OSError(errno.ENOENT, f"{missing.program} is not installed") from None
            except RunFolderError as unwritable:
                raise OSError(errno.EIO, str(unwritable)) from None
        if done.exit_code or done.timed_out:
            raise OSError(errno.EIO, f"{argv[0]} failed: {done.error_summary}")
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeCache(_Cache):
    """The write cache of an NVMe controller, ``nvme0``."""

    KIND = "NVMe write cache"
    PLACES = r"nvme[0-9]{1,5}"

    @property
    def drive(self) -> str:
        folder = self.root / "sys/class/nvme" / self.place
        return f"{attribute(folder / 'model')}; {attribute(folder / 'serial')}"

    def look(self, *, anew: bool = True) -> WriteCacheStatus:
        """Ask whether there is one, and by feature 06h for its state, which the kernel does not know."""
        del anew
        try:
            identity = json.loads(self._run("identify", "nvme", "id-ctrl", self._device, "-o", "json").stdout)
            if not int(identity["vwc"]) & _VOLATILE:
                return WriteCacheStatus(state="none", source="NVMe identify: no volatile write cache")
        except (ValueError, KeyError, TypeError):
            return WriteCacheStatus(state="unknown", source="nvme id-ctrl does not tell")
        except OSError as error:
            return WriteCacheStatus(state="unknown", source=str(error.strerror))
        return self._feature()

    def read(self) -> str | None:
        """See Setting; for one that is there."""
        state = self._feature().state
        return state if self.takes(state) else None

    def _feature(self) -> WriteCacheStatus:
        try:
            text = self._run("read", "nvme", "get-feature", self._device, "--feature-id=6").stdout
        except OSError as error:
            return WriteCacheStatus(state="unknown", source=str(error.strerror))
        value = re.search(r"value: ?(?:0x)?([0-9a-fA-F]{1,16})\b", text)  # of 0 some versions leave 0x out
        if value is None:
            return WriteCacheStatus(state="unknown", source="nvme get-feature does not tell")
        return WriteCacheStatus(
            state="enabled" if int(value[1], 16) & _VOLATILE else "disabled", source="NVMe feature 06h"
        )

    def write(self, value: str) -> None:
        """See Setting; it is not saved, so that the drive forgets it without power."""
        number = int(value == "enabled")
        self._run("set", "nvme", "set-feature", self._device, "--feature-id=6", f"--value={number}")

    @property
    def _device(self) -> str:
        return f"/dev/{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScsiCache(_Cache):
    """The write cache of a SCSI or ATA disk, ``sda``: set through the kernel, which tells the drive."""

    KIND = "SCSI write cache"
    LASTING = True

    def elsewhere(self) -> Iterator[Setting]:
        """See Setting: the next boot, or a cable, may give a drive another name."""
        for block in sorted((self.root / "sys/block").glob("sd*")):
            yield replace(self, place=block.name)

    @property
    def drive(self) -> str:
        names = ("vendor", "model", "wwid", "vpd_pg80")
        return "; ".join(text for name in names if (text := attribute(self._device / name)))

    def look(self, *, anew: bool = True) -> WriteCacheStatus:
        """Ask an ATA drive by IDENTIFY, of which the kernel keeps a copy; a SCSI drive by its mode page, read anew."""
        if not anew:
            return WriteCacheStatus(state=self._kernel, source=_KERNEL)
        if attribute(self._device / "vendor") == "ATA":
            try:
                said = self._run("read", "hdparm", "-W", f"/dev/{self.place}").stdout
            except OSError as error:
                return WriteCacheStatus(state=self._kernel, source=f"{_KERNEL}; {error.strerror}")
            found = re.search(r"write-caching = +([01]) ", said)
            if found is None:
                return WriteCacheStatus(state=self._kernel, source=f"{_KERNEL}; the drive does not tell")
            return WriteCacheStatus(state="enabled" if found[1] == "1" else "disabled", source="ATA IDENTIFY")
        try:
            (self._device / "rescan").write_text("1")
        except OSError as error:
            return WriteCacheStatus(
                state=self._kernel, source=f"{_KERNEL}; it could not be read anew ({error.strerror})"
            )
        return WriteCacheStatus(state=self._kernel, source="SCSI caching mode page")

    def write(self, value: str) -> None:
        """See Setting; whether reads are cached stays."""
        if self._file is None:
            raise OSError(errno.ENOENT, "the kernel does not offer it")
        unread = attribute(self._file) in ("none", "write back, no read (daft)")
        words = {"enabled": ("write back", "write back, no read (daft)"), "disabled": ("write through", "none")}
        self._file.write_text(words[value][unread])

    @property
    def settable(self) -> bool:
        """See _Cache."""
        return self._file is not None and os.access(self._file, os.W_OK)

    @property
    def _device(self) -> Path:
        return self.root / "sys/block" / self.place / "device"

    @property
    def _file(self) -> Path | None:
        return next(iter(sorted(self._device.glob("scsi_disk/*/cache_type"))), None)

    @property
    def _kernel(self) -> CacheState:
        return _STATES.get(attribute(self._file), "unknown") if self._file else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtioCache(_Cache):
    """The write cache of a virtual disk, ``vda``, as its host shows it."""

    KIND = "virtio write cache"

    @property
    def drive(self) -> str:
        block = self.root / "sys/block" / self.place
        return f"{attribute(block / 'serial')}; {attribute(block / 'size')}"

    def look(self, *, anew: bool = True) -> WriteCacheStatus:
        """Ask the virtual disk."""
        del anew
        return WriteCacheStatus(state=_STATES.get(attribute(self._file), "unknown"), source="virtio cache_type")

    def write(self, value: str) -> None:
        """See Setting."""
        self._file.write_text("write back" if value == "enabled" else "write through")

    @property
    def settable(self) -> bool:
        """See _Cache."""
        return os.access(self._file, os.W_OK)

    @property
    def _file(self) -> Path:
        return self.root / "sys/block" / self.place / "cache_type"


CACHES: tuple[type[NvmeCache | ScsiCache | VirtioCache], ...] = (NvmeCache, ScsiCache, VirtioCache)


def cache_of(block: Path, root: Path = ROOT) -> NvmeCache | ScsiCache | VirtioCache | None:
    """Return the write cache of the drive whose sysfs folder is ``block``; None where there is no way to set one."""
    if re.fullmatch(r"nvme[0-9]+n[0-9]+", block.name):
        above = (block / "device").resolve()
        names = [above.name, *sorted(each.name for each in above.glob("nvme[0-9]*"))]
        controller = next((name for name in names if re.fullmatch(NvmeCache.PLACES, name)), None)
        return NvmeCache(place=controller, root=root) if controller else None
    if any((block / "device").glob("scsi_disk/*/cache_type")):
        return ScsiCache(place=block.name, root=root)
    return VirtioCache(place=block.name, root=root) if (block / "cache_type").exists() else None


class WriteCache:
    """The write cache of a target, as a run is to have it."""

    def __init__(self, dut: Dut, block: Path | None, wanted: str, *, keep: bool = False, root: Path = ROOT) -> None:
        """``block`` is the target's folder in sysfs, if any; with ``keep`` the cache stays as it is."""
        self._dut, self._wanted, self._keep = dut, wanted, keep
        self._cache = cache_of(block, root) if block else None
        self._state: CacheState = "unknown"

    def changes(self, evidence: Path) -> tuple[Change, ...]:
        """Return what is to be set for the run; programs leave their evidence beside the base name ``evidence``."""
        if self._cache is None or self._keep or not self._cache.takes(self._wanted):
            return ()
        cache = replace(self._cache, evidence=evidence)
        return (Change(setting=cache, value=self._wanted),) if cache.takes(cache.look().state) else ()

    def told(self, evidence: Path | None = None, held: tuple[AppliedChange, ...] = ()) -> WriteCacheStatus:
        """Ask for its state, once it is set; ``held`` is what came of the changes of the run."""
        if self._cache is None:
            found = WriteCacheStatus(state=self._dut.write_cache, source=self._untold())
        else:
            found = replace(self._cache, evidence=evidence).look()
        self._state = found.state
        for each in held:
            if self._cache is not None and each.change.setting.kind == self._cache.kind:
                how = f"could not be set: {each.trouble}" if each.trouble else f"set for the run, was {each.before}"
                return replace(found, source=f"{found.source}; {how}")
        return replace(found, source=f"{found.source}; left as it was") if self._keep and self._cache else found

    def foreseen(self) -> WriteCacheStatus:
        """Tell the state that a run will have, as far as that can be known; asks the drive, and changes nothing."""
        if self._cache is None:
            return self.told()
        found = self._cache.look(anew=False)
        if self._keep or not self._cache.takes(found.state):
            return found
        if not self._cache.settable:
            return replace(found, source=f"{found.source}; this user may not set it")
        return WriteCacheStatus(
            state="enabled" if self._wanted == "enabled" else "disabled", source="to be set for the run"
        )

    def after_purge(self, evidence: Path) -> tuple[tuple[str, ...], tuple[Deviation, ...]]:
        """Look whether a purge left the cache as it was, and set it again if not; return what there is to tell.

        That is a remark where it was set again, and a Deviation where it could not be.
        """
        if self._cache is None:
            return (), ()
        cache, was = replace(self._cache, evidence=evidence), self._state
        now = cache.look()
        if now.state == was:
            return (), ()
        trouble = "this run leaves it as it is"
        if not self._keep and cache.takes(was):
            trouble = _set_again(cache.write, was)
            again = cache.look()
            if again.state == was:
                how = f"read back by {again.source}"
                return (f"the purge left the write cache {now.state}; it was set to {was} again, {how}",), ()
            now = again
        actual = f"{now.state} ({now.source}), and was {was} before it; {trouble or 'setting it again did not help'}"
        return (), (Deviation(what="write cache after the purge", standard=was, actual=actual, clause=CLAUSE),)

    def _untold(self) -> str:
        if self._dut.kind == "drive":
            return f"{_KERNEL}; the suite knows no way to set it"
        if self._dut.kind == "file":
            return "a file does not tell"
        return f"{_KERNEL}; a {self._dut.kind} has none that could be set"


def _set_again(write: Callable[[str], None], value: str) -> str:
    try:
        write(value)
    except OSError as error:
        return f"setting it again failed: {error.strerror}"
    return ""
