"""The volatile write cache of a drive: its state is read from the drive, set for a run, and checked after each purge.

The kernel reports the state that it assumes, and does not notice when an NVMe drive's cache changes.  So the suite
reads the state from the drive: from NVMe feature 06h, ATA IDENTIFY, or the SCSI caching mode page after a rescan.
"""

from __future__ import annotations

import errno
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ...errors import RunFolderError, ToolMissing
from ...model.dut import CacheState, Dut
from ...results.target_deviations import WRITE_CACHE_CLAUSE
from ...spec import Deviation
from ...temporary import temporary_folder
from ..device.identity import ROOT, attribute
from ..process import program as process
from .settings import AppliedChange, Change, Setting, change_sentence

_TOOL_SECONDS = 20.0
_VOLATILE = 1
"""The bit in VWC that reports a volatile write cache, and the bit in feature 06h that reports it as enabled."""
_KERNEL = "as reported by the kernel"
_STATES: dict[str, CacheState] = {
    "write back": "enabled",
    "write back, no read (daft)": "enabled",
    "write through": "disabled",
    "none": "disabled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCacheStatus:
    """The state of a write cache, and the source of this information as text."""

    state: CacheState
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cache(ABC):
    """A write cache as a Setting; ``evidence`` is the base name of its programs' evidence files."""

    place: str
    root: Path = ROOT
    evidence: Path | None = None

    KIND: ClassVar[str]
    PLACE_PATTERN: ClassVar[str] = r"[a-z][a-z0-9]{0,31}"
    SURVIVES_BOOT: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def name(self) -> str:
        return f"write cache of {self.place}"

    @property
    def survives_boot(self) -> bool:
        return self.SURVIVES_BOOT

    @property
    def settable(self) -> bool:
        """Whether this user may set it, as far as file permissions show that."""
        return True

    def accepts(self, value: str) -> bool:
        """See Setting."""
        return value in ("enabled", "disabled")

    def candidates(self) -> Iterator[Setting]:
        """See Setting."""
        yield from ()

    @abstractmethod
    def status(self, *, refresh: bool = True) -> WriteCacheStatus:
        """Return its state; without ``refresh``, the drive need not be queried if the kernel has its state."""

    def read(self) -> str | None:
        """See Setting."""
        state = self.status().state
        return state if self.accepts(state) else None

    def _run(self, name: str, *argv: str) -> process.Finished:
        """Run a program; raises OSError if it is missing or fails, or if its evidence cannot be written."""
        with ExitStack() as stack:
            base = self.evidence or stack.enter_context(temporary_folder()) / "write-cache"
            try:
                evidence = base.with_name(f"{base.name}-{name}")
                finished = process.run(argv, evidence=evidence, timeout_seconds=_TOOL_SECONDS)
            except ToolMissing as error:
                raise OSError(errno.ENOENT, f"{error.program} is not installed") from None
            except RunFolderError as error:
                raise OSError(errno.EIO, str(error)) from None
        if finished.exit_code or finished.timed_out:
            raise OSError(errno.EIO, f"{argv[0]} failed: {finished.error_summary}")
        return finished


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeCache(_Cache):
    """The write cache of an NVMe controller, ``nvme0``."""

    KIND = "NVMe write cache"
    PLACE_PATTERN = r"nvme[0-9]{1,5}"

    @property
    def drive(self) -> str:
        folder = self.root / "sys/class/nvme" / self.place
        return f"{attribute(folder / 'model')}; {attribute(folder / 'serial')}"

    def status(self, *, refresh: bool = True) -> WriteCacheStatus:
        """Query whether there is one, and feature 06h for its state, which the kernel does not know."""
        del refresh
        try:
            identity = json.loads(self._run("identify", "nvme", "id-ctrl", self._device, "-o", "json").stdout)
            if not int(identity["vwc"]) & _VOLATILE:
                return WriteCacheStatus(state="none", source="NVMe identify: no volatile write cache")
        except (ValueError, KeyError, TypeError):
            return WriteCacheStatus(state="unknown", source="not reported by nvme id-ctrl")
        except OSError as error:
            return WriteCacheStatus(state="unknown", source=str(error.strerror))
        return self._feature_status()

    def read(self) -> str | None:
        """See Setting; only for a controller that has a write cache."""
        state = self._feature_status().state
        return state if self.accepts(state) else None

    def _feature_status(self) -> WriteCacheStatus:
        try:
            text = self._run("read", "nvme", "get-feature", self._device, "--feature-id=6").stdout
        except OSError as error:
            return WriteCacheStatus(state="unknown", source=str(error.strerror))
        value = re.search(r"value: ?(?:0x)?([0-9a-fA-F]{1,16})\b", text)  # some versions omit 0x for 0
        if value is None:
            return WriteCacheStatus(state="unknown", source="not reported by nvme get-feature")
        return WriteCacheStatus(
            state="enabled" if int(value[1], 16) & _VOLATILE else "disabled", source="NVMe feature 06h"
        )

    def write(self, value: str) -> None:
        """See Setting; the drive does not save the value, so a power cycle resets it."""
        number = int(value == "enabled")
        self._run("set", "nvme", "set-feature", self._device, "--feature-id=6", f"--value={number}")

    @property
    def _device(self) -> str:
        return f"/dev/{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScsiCache(_Cache):
    """The write cache of a SCSI or ATA disk, ``sda``; the kernel passes a change on to the drive."""

    KIND = "SCSI write cache"
    SURVIVES_BOOT = True

    def candidates(self) -> Iterator[Setting]:
        """See Setting: a drive may get another name after a reboot or on another cable."""
        for block in sorted((self.root / "sys/block").glob("sd*")):
            yield replace(self, place=block.name)

    @property
    def drive(self) -> str:
        names = ("vendor", "model", "wwid", "vpd_pg80")
        return "; ".join(text for name in names if (text := attribute(self._device / name)))

    def status(self, *, refresh: bool = True) -> WriteCacheStatus:
        """Query an ATA drive's IDENTIFY data, of which the kernel has a copy; or rescan a SCSI drive's mode page."""
        if not refresh:
            return WriteCacheStatus(state=self._kernel_state, source=_KERNEL)
        if attribute(self._device / "vendor") == "ATA":
            try:
                output = self._run("read", "hdparm", "-W", f"/dev/{self.place}").stdout
            except OSError as error:
                return WriteCacheStatus(state=self._kernel_state, source=f"{_KERNEL}; {error.strerror}")
            match = re.search(r"write-caching = +([01]) ", output)
            if match is None:
                return WriteCacheStatus(state=self._kernel_state, source=f"{_KERNEL}; not reported by the drive")
            return WriteCacheStatus(state="enabled" if match[1] == "1" else "disabled", source="ATA IDENTIFY")
        try:
            (self._device / "rescan").write_text("1")
        except OSError as error:
            return WriteCacheStatus(state=self._kernel_state, source=f"{_KERNEL}; rescan failed ({error.strerror})")
        return WriteCacheStatus(state=self._kernel_state, source="SCSI caching mode page")

    def write(self, value: str) -> None:
        """See Setting; read caching stays as it is."""
        if self._file is None:
            raise OSError(errno.ENOENT, "the kernel does not support it")
        is_read_cache_off = attribute(self._file) in ("none", "write back, no read (daft)")
        texts = {"enabled": ("write back", "write back, no read (daft)"), "disabled": ("write through", "none")}
        self._file.write_text(texts[value][is_read_cache_off])

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
    def _kernel_state(self) -> CacheState:
        return _STATES.get(attribute(self._file), "unknown") if self._file else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtioCache(_Cache):
    """The write cache of a virtual disk, ``vda``, as presented by its host."""

    KIND = "virtio write cache"

    @property
    def drive(self) -> str:
        block = self.root / "sys/block" / self.place
        return f"{attribute(block / 'serial')}; {attribute(block / 'size')}"

    def status(self, *, refresh: bool = True) -> WriteCacheStatus:
        """Query the virtual disk."""
        del refresh
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


def find_write_cache(block: Path, root: Path = ROOT) -> NvmeCache | ScsiCache | VirtioCache | None:
    """Return the write cache of the drive with the sysfs folder ``block``; None if the suite cannot set it."""
    if re.fullmatch(r"nvme[0-9]+n[0-9]+", block.name):
        parent = (block / "device").resolve()
        names = [parent.name, *sorted(path.name for path in parent.glob("nvme[0-9]*"))]
        controller = next((name for name in names if re.fullmatch(NvmeCache.PLACE_PATTERN, name)), None)
        return NvmeCache(place=controller, root=root) if controller else None
    if any((block / "device").glob("scsi_disk/*/cache_type")):
        return ScsiCache(place=block.name, root=root)
    return VirtioCache(place=block.name, root=root) if (block / "cache_type").exists() else None


class WriteCache:
    """The write cache of a target, and the state requested for a run."""

    def __init__(self, dut: Dut, block: Path | None, requested: str, *, keep: bool = False, root: Path = ROOT) -> None:
        """``block`` is the target's folder in sysfs, if any; with ``keep`` the cache is not changed."""
        self._dut, self._requested, self._keep = dut, requested, keep
        self._cache = find_write_cache(block, root) if block else None
        self._state: CacheState = "unknown"

    def changes(self, evidence: Path) -> tuple[Change, ...]:
        """Return the changes for the run; ``evidence`` is the base name of the programs' evidence files."""
        if self._cache is None or self._keep or not self._cache.accepts(self._requested):
            return ()
        cache = replace(self._cache, evidence=evidence)
        return (Change(setting=cache, value=self._requested),) if cache.accepts(cache.status().state) else ()

    def status(self, evidence: Path | None = None, outcomes: tuple[AppliedChange, ...] = ()) -> WriteCacheStatus:
        """Read its state after the changes for the run; ``outcomes`` are the outcomes of these changes."""
        if self._cache is None:
            status = WriteCacheStatus(state=self._dut.write_cache, source=self._not_settable())
        else:
            status = replace(self._cache, evidence=evidence).status()
        self._state = status.state
        for outcome in outcomes:
            if self._cache is not None and outcome.change.setting.kind == self._cache.kind:
                detail = (
                    f"could not be set: {outcome.error}" if outcome.error else f"set for the run, was {outcome.before}"
                )
                return replace(status, source=f"{status.source}; {detail}")
        return replace(status, source=f"{status.source}; left as it was") if self._keep and self._cache else status

    def expected_status(self) -> WriteCacheStatus:
        """Return the state that the cache will have in a run; queries the drive without changing it."""
        if self._cache is None:
            return self.status()
        status = self._cache.status(refresh=False)
        if self._keep or not self._cache.accepts(status.state):
            return status
        if not self._cache.settable:
            return replace(status, source=f"{status.source}; this user may not set it")
        return WriteCacheStatus(
            state="enabled" if self._requested == "enabled" else "disabled", source="to be set for the run"
        )

    def after_purge(self, evidence: Path) -> tuple[tuple[str, ...], tuple[Deviation, ...]]:
        """Check whether a purge changed the cache's state, and set it again if so; return remarks and deviations.

        It is a remark if the state could be set again, and a Deviation if not.
        """
        if self._cache is None:
            return (), ()
        cache, before = replace(self._cache, evidence=evidence), self._state
        now = cache.status()
        if now.state == before:
            return (), ()
        reason = "this run does not change it"
        if not self._keep and cache.accepts(before):
            reason = _try_write(cache.write, before) or "setting it again had no effect"
            read_back = cache.status()
            if read_back.state == before:
                source = f"read back by {read_back.source}"
                return (f"the purge left the write cache {now.state}; it was set to {before} again, {source}",), ()
            now = read_back
        actual = f"{now.state} ({now.source}), was {before} before the purge; {reason}"
        return (), (
            Deviation(what="write cache after the purge", standard=before, actual=actual, clause=WRITE_CACHE_CLAUSE),
        )

    def setting_changes(self, evidence: Path) -> tuple[str, ...]:
        """Return a sentence if its state has changed since the last call of ``status``."""
        if self._cache is None:
            return ()
        now = replace(self._cache, evidence=evidence).status().state
        return () if now == self._state else (change_sentence(self._cache.name, self._state, now),)

    def _not_settable(self) -> str:
        if self._dut.kind == "drive":
            return f"{_KERNEL}; the suite does not support setting it"
        if self._dut.kind == "file":
            return "not reported for a file"
        return f"{_KERNEL}; a {self._dut.kind} has no write cache that can be set"


def _try_write(write: Callable[[str], None], value: str) -> str:
    """Set a value; return an error message, empty on success."""
    try:
        write(value)
    except OSError as error:
        return f"setting it again failed: {error.strerror}"
    return ""
