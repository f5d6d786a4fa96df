"""The conditions of a run: the write cache that the test requires, and the host, which --tune may tune."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...model.dut import Dut
from ...model.test_platform import HostSetting
from ..device.identity import ROOT, block_directory
from ..device.target_claim import Target
from ..evidence import pre_run_path
from ..settings.settings import Change, applied, lost_values, restore, values_lost_by_killed_run
from ..settings.write_cache import WriteCache, WriteCacheStatus
from . import tuning
from .configurator import HostConfigurator
from .settings_list import find
from .tuning.direct_io import direct_io
from .tuning.mount import mount

#: The subfolder of a run folder that contains the restore file for the run's array.
ARRAY_FOLDER = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The write cache and its status, the host's settings, what sets these, and the ``changes`` of host settings."""

    cache: WriteCache
    configurator: HostConfigurator
    cache_status: WriteCacheStatus
    settings: tuple[HostSetting, ...]
    changes: tuple[Change, ...] = ()

    def lost_values(self, evidence: Path) -> tuple[str, ...]:
        """Return a sentence for each setting that changed by itself since the conditions were applied; reads only.

        ``evidence`` is the folder of the evidence files.
        """
        return (*self.cache.lost_values(pre_run_path(evidence, "write-cache")), *lost_values(self.changes))

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

    First restore what this run left if it was killed.  ``keep`` leaves the write cache as it is.  ``tune`` tunes the
    host, except for the settings ``varied`` by the run itself.  ``report`` receives a line for each setting that is
    restored or cannot be.  Raises HostFailed if the former settings cannot be restored, TargetUnfit if a ``varied``
    setting cannot be set.
    """
    status = os.fstat(target.descriptor)
    block = None if target.dut.kind == "file" else block_directory(status.st_rdev, root)
    configurator = HostConfigurator(target.dut.path, status.st_dev if block is None else status.st_rdev, root=root)
    find_setting = partial(find, root=root)
    for line in restore(folder, find=find_setting, root=root):
        report(line)
    cache = cache or WriteCache(target.dut, block, write_cache, keep=keep, root=root)
    cache_evidence = pre_run_path(evidence, "write-cache")
    tuned_block = None if target.dut.array else block  # settings of an array are lost when it is recreated
    before = now = tuning.inspect(tuned_block, root=root)
    with ExitStack() as stack:
        errors = stack.enter_context(tuning.low_latency(tuned_block, root)) if tune else {}
        varied_changes = configurator.changes(varied)
        tuning_changes = tuple(_excluding(tuning.changes(before, root) if tune else (), varied_changes))
        changes = (*cache.changes(cache_evidence), *tuning_changes, *varied_changes)
        outcomes = stack.enter_context(applied(changes, folder, find=find_setting, report=report, root=root))
        configurator.require_applied(outcomes)
        if tune:
            now = tuning.inspect(tuned_block, root=root)
        path_findings = mount(target.dut.path, root) if target.dut.kind == "file" else ()
        path_findings += direct_io(Path(target.dut.path), root)
        yield Conditions(
            cache=cache,
            configurator=configurator,
            cache_status=cache.status(cache_evidence, outcomes),
            settings=tuning.to_host_settings((*now, *path_findings), before, outcomes, errors),
            changes=tuple(_excluding(tuning_changes, [outcome.change for outcome in outcomes if outcome.error])),
        )


def _excluding(changes: Sequence[Change], excluded: Sequence[Change]) -> Iterator[Change]:
    """Yield the changes whose setting is not among the settings of ``excluded``."""
    settings = {(change.setting.kind, change.setting.place) for change in excluded}
    return (change for change in changes if (change.setting.kind, change.setting.place) not in settings)


def restore_settings(folder: Path | None = None, *, root: Path = ROOT) -> tuple[str, ...]:
    """Restore what killed runs left on this host, and what the run in ``folder`` left; return messages."""
    folders = () if folder is None else (folder / ARRAY_FOLDER, folder)
    return restore(*folders, find=partial(find, root=root), root=root)


def values_lost_before_resume(*folders: Path, root: Path = ROOT) -> tuple[str, ...]:
    """Return a sentence for each setting that changed by itself after a killed run in ``folders`` set it; reads only.

    To be called before the target is claimed, which restores what killed runs left.
    """
    find_setting = partial(find, root=root)
    return tuple(line for folder in folders for line in values_lost_by_killed_run(folder, find=find_setting, root=root))


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
