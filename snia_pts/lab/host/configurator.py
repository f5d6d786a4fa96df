"""Sets the host as a profile's point wants it, and looks whether it took: CPU governor, I/O scheduler, page cache.

What is set is noted when the run begins, and put back when it ends (``settings``).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ...errors import HostFailed, TargetUnfit
from ...model.measurement import PrepareOutcome
from ...model.steps import Prepare
from ..device.identity import ROOT, attribute, block_directory
from ..settings.settings import AppliedChange, Change, Setting
from .settable import find

_DROP = "proc/sys/vm/drop_caches"
#: What changes with another setting, by kinds.
_TAKEN_ALONG = {"scheduler": "requests", "governor": "energy preference"}
#: Page cache, dentries and inodes.
_ALL = b"3"


def medium(path: Path) -> int:
    """Return the number of the block device that a target is, or lies on; of a file to be made, its folder's."""
    status = (path if path.exists() else path.parent).stat()
    return status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev


class HostConfigurator:
    """The host around one target: ``device`` is the number of the block device that its I/O goes to."""

    def __init__(self, path: str, device: int, *, root: Path = ROOT) -> None:
        self._path, self._root = path, root
        try:
            self._block: Path | None = _disk(block_directory(device, root))
        except OSError:
            self._block = None

    def changes(self, names: Sequence[str]) -> tuple[Change, ...]:
        """Return the settings of these names, to be noted as they are, with those that go with them.

        Raises TargetUnfit where there is none.
        """
        found = [each for name in names for each in self._required(name)]
        taken = (find(_TAKEN_ALONG[each.kind], each.place, self._root) for each in found)
        along = tuple(Change(setting=each) for each in taken if each is not None and each.read())
        return (*along, *(Change(setting=each, alone=True) for each in found))

    def require_free(self, held: Sequence[AppliedChange]) -> None:
        """Raise TargetUnfit where something of ``changes`` cannot be set by this run."""
        for each in held:
            if each.change.alone and each.trouble:
                reason = f"{each.change.setting.name}: {each.trouble}"
                raise TargetUnfit(path=self._path, reason=reason, hint="Wait for it to end, or leave the axis out.")

    def require(self, settings: Sequence[tuple[str, str]], *, cold: bool) -> None:
        """Raise TargetUnfit where the host cannot be set so, or not by this user."""
        for name, value in settings:
            for each in self._required(name):
                if value not in (known := self._values(each)):
                    reason = f"{each.name} cannot be {value}; here it is one of {', '.join(known) or 'none'}"
                    raise TargetUnfit(path=self._path, reason=reason, hint="Choose other values for the axis.")
        if (cold or settings) and not os.access(self._root / _DROP, os.W_OK):
            reason = "only root may set the host and empty its page cache, as the profile wants"
            raise TargetUnfit(path=self._path, reason=reason, hint="Run it as root.")

    def prepare(self, step: Prepare) -> PrepareOutcome:
        """Do what ``step`` asks; raises HostFailed where a setting did not take."""
        started, began = datetime.now().astimezone(), time.monotonic()
        before = tuple((name, self._read(name)) for name, _ in step.settings)
        for name, value in step.settings:
            self._set(step, name, value)
        if step.cold:
            os.sync()  # what is dirty stays in the cache
            try:
                (self._root / _DROP).write_bytes(_ALL)
            except OSError as error:
                raise HostFailed(step=step.label, what=f"/{_DROP}", reason=error.strerror or str(error)) from None
        return PrepareOutcome(
            started=started.isoformat(timespec="milliseconds"),
            seconds=time.monotonic() - began,
            before=before,
            settings=tuple((name, self._read(name)) for name, _ in step.settings),
        )

    def _set(self, step: Prepare, name: str, value: str) -> None:
        found = self._settings(name)
        if not found:
            raise HostFailed(step=step.label, what=name, reason="this host has no such setting any more")
        for each in found:
            try:
                if each.read() != value:
                    each.write(value)
            except OSError as error:
                raise HostFailed(step=step.label, what=each.name, reason=error.strerror or str(error)) from None
            if (now := each.read()) != value:
                raise HostFailed(step=step.label, what=each.name, reason=f"it was set to {value}, and is {now}")

    def _settings(self, name: str) -> tuple[Setting, ...]:
        places = [self._block.name] if name == "scheduler" and self._block else []
        if name == "governor":
            policies = (self._root / "sys/devices/system/cpu/cpufreq").glob("policy*")
            places = sorted(policy.name for policy in policies)
        known = (find(name, place, self._root) for place in places)
        return tuple(setting for setting in known if setting is not None and setting.read())

    def _required(self, name: str) -> tuple[Setting, ...]:
        found = self._settings(name)
        if not found:
            where = "this host, or what the target lies on," if name == "scheduler" else "this host"
            reason = f"{where} lets nobody choose its {name}"
            raise TargetUnfit(path=self._path, reason=reason, hint=f"Leave out the axis host.{name}.")
        return found

    def _read(self, name: str) -> str:
        return ", ".join(dict.fromkeys(each.read() or "unknown" for each in self._settings(name)))

    def _values(self, setting: Setting) -> tuple[str, ...]:
        """Return the values that a setting may have, as the kernel lists them."""
        if setting.kind == "governor":
            folder = self._root / "sys/devices/system/cpu/cpufreq" / setting.place
            return tuple(attribute(folder / "scaling_available_governors").split())
        listed = attribute(self._root / "sys/block" / setting.place / "queue/scheduler")
        return tuple(listed.replace("[", "").replace("]", "").split())


def _disk(block: Path) -> Path:
    """Return the folder of the disk that a block device is, or is a partition of."""
    return block.parent if (block / "partition").exists() else block
