"""The conditions of a run: its target's write cache as the test wants it, the host as it is or as --tune sets it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..dut import Dut
from ..testplatform import HostSetting
from . import tuning
from .cache import Told, WriteCache
from .device import ROOT, block_directory
from .evidence import looked_up
from .safety import Target
from .settable import find
from .settings import hold, restore


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a run finds and sets: the write cache, what it was told of it, and the settings of the host."""

    cache: WriteCache
    told: Told
    settings: tuple[HostSetting, ...]

    def of(self, dut: Dut) -> Dut:
        """Return a device with the state of its write cache."""
        return with_cache(dut, self.told)


@contextmanager
def settled(
    target: Target,
    folder: Path,
    evidence: Path,
    *,
    write_cache: str,
    keep: bool,
    tune: bool,
    tell: Callable[[str], None],
    root: Path = ROOT,
) -> Iterator[Conditions]:
    """Set what a run in ``folder`` wants for the time of the block, and put it back.

    ``keep`` leaves the write cache as it is, ``tune`` sets the host too.  What is put back, or cannot be, is told;
    first of all what the same run left when it was killed.  Raises HostFailed where that cannot be put back.
    """
    block = None if target.dut.kind == "file" else block_directory(os.fstat(target.descriptor).st_rdev, root)
    known = partial(find, root=root)
    for line in restore(folder, find=known, root=root):
        tell(line)
    cache = WriteCache(target.dut, block, write_cache, keep=keep, root=root)
    asked = looked_up(evidence, "write-cache")
    before = now = tuning.look(block, root=root)
    with ExitStack() as stack:
        troubles = stack.enter_context(tuning.placed(block, root)) if tune else {}
        wanted = (*cache.changes(asked), *(tuning.changes(before, root) if tune else ()))
        held = stack.enter_context(hold(wanted, folder, find=known, tell=tell, root=root))
        if tune:
            now = tuning.look(block, root=root)
        settings = tuning.told(now, before, held, troubles)
        yield Conditions(cache=cache, told=cache.told(asked, held), settings=settings)


def put_back(folder: Path | None = None, *, root: Path = ROOT) -> tuple[str, ...]:
    """Put back what killed runs left on this host, and that in ``folder``; return what was done.  See restore."""
    return restore(folder, find=partial(find, root=root), root=root)


def foreseen(dut: Dut, write_cache: str, *, keep: bool, root: Path = ROOT) -> Dut:
    """Return a device with the state that its write cache will have in a run, as far as can be known; reads only."""
    block = None
    if dut.kind != "file":
        try:
            block = block_directory(Path(dut.path).stat().st_rdev, root)
        except OSError:
            block = None
    return with_cache(dut, WriteCache(dut, block, write_cache, keep=keep, root=root).foreseen())


def with_cache(dut: Dut, told: Told) -> Dut:
    """Return a device with what was told of its write cache."""
    return replace(dut, write_cache=told.state, write_cache_source=told.source)
