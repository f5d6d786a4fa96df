"""The conditions of a run: the write cache that the test requires, and the host, which --tune may tune."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...model.dut import Dut
from ...model.test_platform import HostSetting, changed_settings
from ..device.identity import ROOT, block_directory
from ..device.target_claim import Target
from ..evidence import pre_run_path
from ..settings.settings import Change, applied, change_sentence, changes_since_kill, restore
from ..settings.write_cache import WriteCache, WriteCacheStatus
from . import tuning
from .configurator import HostConfigurator
from .settings_list import find
from .tuning.direct_io import direct_io
from .tuning.finding import Finding
from .tuning.mount import mount

#: The subfolder of a run folder that contains the restore file for the run's array.
ARRAY_FOLDER = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The write cache and its status, the configurator of the host, and the host's settings.

    ``inspect`` reads these again, without the settings that the run varies.
    """

    cache: WriteCache
    configurator: HostConfigurator
    cache_status: WriteCacheStatus
    settings: tuple[HostSetting, ...]
    inspect: Callable[[], Iterable[HostSetting]]

    def setting_changes(self, evidence: Path) -> tuple[str, ...]:
        """Return a sentence for each setting that has changed since the conditions were applied; reads only.

        The write cache comes first, then the settings whose current value affects results, then the others.
        ``evidence`` is the folder of the evidence files.
        """
        changes = sorted(
            changed_settings(self.settings, self.inspect()), key=lambda pair: pair[1].judgement != "affects results"
        )
        lines = (change_sentence(setting.name, earlier.value, setting.assessment) for earlier, setting in changes)
        return (*self.cache.setting_changes(pre_run_path(evidence, "write-cache")), *lines)

    def apply_to(self, dut: Dut) -> Dut:
        """Return a device with the status of its write cache."""
        return with_cache_status(dut, self.cache_status)


@contextmanager
def conditions_applied(
    target: Target,
    folder: Path,
    evidence: Path,
    *,
    write_cache: str,
    keep: bool,
    tune: bool,
    report: Callable[[str], None],
    varied: Sequence[str] = (),
    cache: WriteCache | None = None,
    root: Path = ROOT,
) -> Iterator[Conditions]:
    """Apply the settings for a run in ``folder`` while the block runs, then restore them and the ``varied`` settings.

    First restore the settings that the run left, if it was killed before.  ``keep`` leaves the write cache as it is.
    ``tune`` tunes the host, except for the settings that the run varies.  ``report`` receives a line for each setting
    that is restored or cannot be restored.  Raises HostFailed if the former settings cannot be restored, TargetUnfit if
    a ``varied`` setting could not be, TargetBusy if another run owns a setting and has another value for it.
    """
    status = os.fstat(target.descriptor)
    block = None if target.dut.kind == "file" else block_directory(status.st_rdev, root)
    configurator = HostConfigurator(target.dut.path, status.st_dev if block is None else status.st_rdev, root=root)
    find_setting = partial(find, root=root)
    for line in restore(folder, find=find_setting, root=root):
        report(line)
    cache = cache or WriteCache(target.dut, block, write_cache, keep=keep, root=root)
    cache_evidence = pre_run_path(evidence, "write-cache")
    with ExitStack() as stack:
        before = _inspect(target, root) if tune else ()
        errors = stack.enter_context(tuning.low_latency(_tuned_block(target, root), root)) if tune else {}
        varied_changes = configurator.changes(varied)
        tuning_changes = _excluding(tuning.changes(before, root), varied_changes)
        changes = (*cache.changes(cache_evidence), *tuning_changes, *varied_changes)
        outcomes = stack.enter_context(applied(changes, folder, find=find_setting, report=report, root=root))
        configurator.require_restorable([outcome for outcome in outcomes if outcome.change in varied_changes])
        yield Conditions(
            cache=cache,
            configurator=configurator,
            cache_status=cache.status(cache_evidence, outcomes),
            settings=tuning.to_host_settings(_inspect(target, root), before, outcomes, errors),
            inspect=lambda: _unvaried_settings(target, varied_changes, root),
        )


def _tuned_block(target: Target, root: Path) -> Path | None:
    """Return the sysfs folder of a target whose settings --tune may change; None if it has disappeared.

    None for a file, and for an array: each purge creates a new array, which does not keep the settings.
    """
    if target.dut.kind == "file" or target.dut.array:
        return None
    block = block_directory(os.fstat(target.descriptor).st_rdev, root)
    return block if block.exists() else None


def _inspect(target: Target, root: Path, sample_seconds: float = tuning.SAMPLE_SECONDS) -> tuple[Finding, ...]:
    """Inspect the host, and the I/O path to a target."""
    path = Path(target.dut.path)
    findings = tuning.inspect(_tuned_block(target, root), root=root, sample_seconds=sample_seconds)
    return (*findings, *(mount(target.dut.path, root) if target.dut.kind == "file" else ()), direct_io(path, root))


def _unvaried_settings(target: Target, varied: Sequence[Change], root: Path) -> Iterator[HostSetting]:
    """Inspect again, without a sample of the host's load; omit the settings that the run varies."""
    names = {change.setting.kind for change in varied}
    if "scheduler" in names:
        names.add("writeback throttling")  # The kernel turns it off for some schedulers.
    return (item.setting for item in _inspect(target, root, sample_seconds=0.0) if item.name not in names)


def _excluding(changes: Sequence[Change], excluded: Sequence[Change]) -> Iterator[Change]:
    """Yield the changes whose setting is not among the settings of ``excluded``."""
    settings = {(change.setting.kind, change.setting.place) for change in excluded}
    return (change for change in changes if (change.setting.kind, change.setting.place) not in settings)


def restore_settings(folder: Path | None = None, *, root: Path = ROOT) -> tuple[str, ...]:
    """Restore what killed runs left on this host, and what the run in ``folder`` left; return messages."""
    folders = () if folder is None else (folder / ARRAY_FOLDER, folder)
    return restore(*folders, find=partial(find, root=root), root=root)


def changes_before_resume(*folders: Path, root: Path = ROOT) -> tuple[str, ...]:
    """Return a sentence for each setting that changed after a killed run in ``folders`` had set it; reads only.

    Call it before the target is claimed, which restores what killed runs left.
    """
    find_setting = partial(find, root=root)
    return tuple(line for folder in folders for line in changes_since_kill(folder, find=find_setting, root=root))


def with_expected_cache(dut: Dut, write_cache: str, *, keep: bool, root: Path = ROOT) -> Dut:
    """Return a device with the status that its write cache is expected to have in a run; changes nothing."""
    block = None
    if dut.kind != "file":
        try:
            block = block_directory(Path(dut.path).stat().st_rdev, root)
        except OSError:
            block = None
    return with_cache_status(dut, WriteCache(dut, block, write_cache, keep=keep, root=root).expected_status())


def with_cache_status(dut: Dut, status: WriteCacheStatus) -> Dut:
    """Return a device with the status of its write cache."""
    return replace(dut, write_cache=status.state, write_cache_source=status.source)
