"""Set the CPU governor, I/O scheduler and page cache for a point, and verify them.

The original settings are recorded when the run starts, and restored when it ends (``settings``).
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
from .settings_list import find

_DROP_CACHES = "proc/sys/vm/drop_caches"
#: Kinds of setting that change as a side effect of another one.
_SIDE_EFFECTS = {"scheduler": "requests", "governor": "energy preference"}
#: The schedulers of Linux before 5.0, and those that replaced them.
_SUCCESSORS = {"noop": "none", "cfq": "bfq", "deadline": "mq-deadline"}
#: Page cache, dentries and inodes.
_DROP_ALL = b"3"


def backing_device(path: Path) -> int:
    """Return the number of a target that is a block device, otherwise of the device that has its file or folder."""
    status = (path if path.exists() else path.parent).stat()
    return status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev


class HostConfigurator:
    """Configures the host for one target; ``device`` is the number of the block device that its I/O goes to."""

    def __init__(self, path: str, device: int, *, root: Path = ROOT) -> None:
        self._path, self._root = path, root
        try:
            self._block: Path | None = _disk(block_directory(device, root))
        except OSError:
            self._block = None

    def changes(self, names: Sequence[str]) -> tuple[Change, ...]:
        """Return changes that only record the settings of these names, and those that change as a side effect.

        Raises TargetUnfit if the host has no such setting.
        """
        settings = [setting for name in names for setting in self._required(name)]
        dependents = (find(_SIDE_EFFECTS[setting.kind], setting.place, self._root) for setting in settings)
        recorded = tuple(Change(setting=setting) for setting in dependents if setting is not None and setting.read())
        return (*recorded, *(Change(setting=setting) for setting in settings))

    def require_restorable(self, outcomes: Sequence[AppliedChange]) -> None:
        """Raise TargetUnfit if one of ``changes`` failed: a setting that cannot be restored must not be varied."""
        for outcome in outcomes:
            if outcome.error:
                reason = f"{outcome.change.setting.name}: {outcome.error}"
                raise TargetUnfit(path=self._path, reason=reason, hint="Set it to another value, or omit the axis.")

    def require(self, settings: Sequence[tuple[str, str]], *, cold: bool) -> None:
        """Raise TargetUnfit if the host does not support these settings, or this user may not set them."""
        for name, value in settings:
            for setting in self._required(name):
                if value not in (supported := self._values(setting)):
                    reason = f"{setting.name} cannot be {value}; this host supports {', '.join(supported) or 'none'}"
                    hint = _successor_hint(name, value, supported) or "Choose other values for the axis."
                    raise TargetUnfit(path=self._path, reason=reason, hint=hint)
        if (cold or settings) and not os.access(self._root / _DROP_CACHES, os.W_OK):
            reason = "only root may change host settings and empty the page cache, as the test requires"
            raise TargetUnfit(path=self._path, reason=reason, hint="Run it as root.")

    def prepare(self, step: Prepare) -> PrepareOutcome:
        """Apply the settings of ``step``; raises HostFailed if a setting does not take effect."""
        started, start_seconds = datetime.now().astimezone(), time.monotonic()
        before = tuple((name, self._read(name)) for name, _ in step.settings)
        for name, value in step.settings:
            self._set(step, name, value)
        if step.cold:
            os.sync()  # the kernel does not drop dirty pages
            try:
                (self._root / _DROP_CACHES).write_bytes(_DROP_ALL)
            except OSError as error:
                reason = error.strerror or str(error)
                raise HostFailed(step=step.label, what=f"/{_DROP_CACHES}", reason=reason) from None
        return PrepareOutcome(
            started=started.isoformat(timespec="milliseconds"),
            seconds=time.monotonic() - start_seconds,
            before=before,
            settings=tuple((name, self._read(name)) for name, _ in step.settings),
        )

    def _set(self, step: Prepare, name: str, value: str) -> None:
        settings = self._settings(name)
        if not settings:
            raise HostFailed(step=step.label, what=name, reason="this setting no longer exists on this host")
        for setting in settings:
            try:
                if setting.read() != value:
                    setting.write(value)
            except OSError as error:
                raise HostFailed(step=step.label, what=setting.name, reason=error.strerror or str(error)) from None
            if (actual := setting.read()) != value:
                reason = f"it is {actual} after it was set to {value}"
                raise HostFailed(step=step.label, what=setting.name, reason=reason)

    def _settings(self, name: str) -> tuple[Setting, ...]:
        places = [self._block.name] if name == "scheduler" and self._block else []
        if name == "governor":
            policies = (self._root / "sys/devices/system/cpu/cpufreq").glob("policy*")
            places = sorted(policy.name for policy in policies)
        settings = (find(name, place, self._root) for place in places)
        return tuple(setting for setting in settings if setting is not None and setting.read())

    def _required(self, name: str) -> tuple[Setting, ...]:
        settings = self._settings(name)
        if not settings:
            owner = "this host, or the target's block device," if name == "scheduler" else "this host"
            reason = f"{owner} does not support choosing the {name}"
            raise TargetUnfit(path=self._path, reason=reason, hint=f"Omit the axis host.{name}.")
        return settings

    def _read(self, name: str) -> str:
        return ", ".join(dict.fromkeys(setting.read() or "unknown" for setting in self._settings(name)))

    def _values(self, setting: Setting) -> tuple[str, ...]:
        """Return the values that a setting may have, as the kernel lists them."""
        if setting.kind == "governor":
            folder = self._root / "sys/devices/system/cpu/cpufreq" / setting.place
            return tuple(attribute(folder / "scaling_available_governors").split())
        listed = attribute(self._root / "sys/block" / setting.place / "queue/scheduler")
        return tuple(listed.replace("[", "").replace("]", "").split())


def _successor_hint(name: str, value: str, supported: Sequence[str]) -> str:
    """Return the hint for a scheduler that the kernel no longer has; empty for any other value."""
    successor = _SUCCESSORS.get(value) if name == "scheduler" else None
    if successor is None:
        return ""
    load = "" if successor in supported else f", after modprobe {successor}"
    return f"Linux 5.0 replaced {value} by {successor}: use {successor}{load}."


def _disk(block: Path) -> Path:
    """Return the folder of a disk; for a partition, that of its disk."""
    return block.parent if (block / "partition").exists() else block
