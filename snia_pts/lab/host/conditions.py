"""The conditions of a run: its target's write cache as the test wants it, the host as it is or as --tune sets it."""

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
from ..device.safety import Target
from ..evidence import pre_run_path
from ..settings.settings import Change, applied, restore
from ..settings.write_cache import WriteCache, WriteCacheStatus
from . import tuning
from .configurator import HostConfigurator
from .settable import find
from .tuning.mount import mount

#: Where in a run folder the note of an array is that was made for the run.
ARRAY = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a run finds and sets: the write cache, what it was told of it, the host's settings, and what sets those."""

    cache: WriteCache
    stage: HostConfigurator
    told: WriteCacheStatus
    settings: tuple[HostSetting, ...]

    def of(self, dut: Dut) -> Dut:
        """Return a device with the state of its write cache."""
        return with_cache(dut, self.told)


@contextmanager
def conditions_applied(
    target: Target,
    folder: Path,
    evidence: Path,
    *,
    write_cache: str,
    keep: bool,
    tune: bool,
    tell: Callable[[str], None],
    staged: Sequence[str] = (),
    cache: WriteCache | None = None,
    root: Path = ROOT,
) -> Iterator[Conditions]:
    """Set what a run in ``folder`` wants for the time of the block, and put it back, the settings ``staged`` as well.

    ``keep`` leaves the write cache as it is, ``tune`` sets the host too, but for what is ``staged``.  What is put back,
    or cannot be, is told; first of all what the same run left when it was killed.  Raises HostFailed where that cannot
    be put back, TargetUnfit where what is staged cannot be set.
    """
    held_file = os.fstat(target.descriptor)
    block = None if target.dut.kind == "file" else block_directory(held_file.st_rdev, root)
    stage = HostConfigurator(target.dut.path, held_file.st_dev if block is None else held_file.st_rdev, root=root)
    known = partial(find, root=root)
    for line in restore(folder, find=known, root=root):
        tell(line)
    cache = cache or WriteCache(target.dut, block, write_cache, keep=keep, root=root)
    asked = pre_run_path(evidence, "write-cache")
    way = None if target.dut.array else block  # what is set of an array's own is gone when it is made again
    before = now = tuning.look(way, root=root)
    with ExitStack() as stack:
        troubles = stack.enter_context(tuning.placed(way, root)) if tune else {}
        gone_through = stage.changes(staged)
        tuned = _others(tuning.changes(before, root) if tune else (), gone_through)
        wanted = (*cache.changes(asked), *tuned, *gone_through)
        held = stack.enter_context(applied(wanted, folder, find=known, tell=tell, root=root))
        stage.require_free(held)
        if tune:
            now = tuning.look(way, root=root)
        beneath = mount(target.dut.path, root) if target.dut.kind == "file" else ()
        settings = tuning.told((*now, *beneath), before, held, troubles)
        yield Conditions(cache=cache, stage=stage, told=cache.told(asked, held), settings=settings)


def _others(changes: Sequence[Change], known: Sequence[Change]) -> Iterator[Change]:
    """Give those changes whose setting is none of those that are known."""
    told = {(each.setting.kind, each.setting.place) for each in known}
    return (each for each in changes if (each.setting.kind, each.setting.place) not in told)


def put_back(folder: Path | None = None, *, root: Path = ROOT) -> tuple[str, ...]:
    """Put back what killed runs left on this host, and that in ``folder``; return what was done.  See restore."""
    folders = () if folder is None else (folder / ARRAY, folder)
    return restore(*folders, find=partial(find, root=root), root=root)


def foreseen(dut: Dut, write_cache: str, *, keep: bool, root: Path = ROOT) -> Dut:
    """Return a device with the state that its write cache will have in a run, as far as can be known; reads only."""
    block = None
    if dut.kind != "file":
        try:
            block = block_directory(Path(dut.path).stat().st_rdev, root)
        except OSError:
            block = None
    return with_cache(dut, WriteCache(dut, block, write_cache, keep=keep, root=root).foreseen())


def with_cache(dut: Dut, told: WriteCacheStatus) -> Dut:
    """Return a device with what was told of its write cache."""
    return replace(dut, write_cache=told.state, write_cache_source=told.source)
