"""What of the host may change the numbers: looked at and judged; set for a run with --tune, and put back.

``processors``, ``queue`` and ``way`` look, and tell what --tune would set.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ....model.test_platform import HostSetting
from ...device.identity import ROOT
from ...settings.settings import AppliedChange, Change
from ..settable import find
from . import processors, queue
from .finding import Finding
from .io_path import depth, numa_local_cpus, way
from .processors import WAKE_US

_MOMENT_SECONDS = 0.2


def look(block: Path | None, *, root: Path = ROOT, moment_seconds: float = _MOMENT_SECONDS) -> tuple[Finding, ...]:
    """Look at the host, and at the way to the drive whose sysfs folder is ``block``, if there is one; reads only."""
    times, ios = processors.times(root), queue.ios(block) if block else None
    time.sleep(moment_seconds)
    load = processors.load(times, processors.times(root))
    other = [queue.other_io(ios, queue.ios(block))] if block else []
    found = [*processors.processors(root)]
    if block is not None:
        found += [*queue.queue(block), *depth(block), *way(block, root, frozenset(os.sched_getaffinity(0)))]
    return (*found, processors.swap(root), *other, load)


def changes(found: Iterable[Finding], root: Path = ROOT) -> tuple[Change, ...]:
    """Return what --tune sets, or keeps as it is."""
    settings = ((find(each.kind, each.place, root), each.value) for one in found for each in one.wanted)
    return tuple(Change(setting=setting, value=value) for setting, value in settings if setting is not None)


@contextmanager
def placed(block: Path | None, root: Path = ROOT) -> Iterator[Mapping[str, str]]:
    """Keep processors from deep sleep, and this process, with all that it starts, beside the drive.

    Both end with the block, and with the process.  Gives why one could not be done, by the name of what is seen.
    """
    troubles: dict[str, str] = {}
    with ExitStack() as stack:
        try:
            latency = stack.enter_context((root / "dev/cpu_dma_latency").open("r+b", buffering=0))
            latency.write(struct.pack("=i", WAKE_US))
        except OSError as error:
            troubles["idle states"] = f"/dev/cpu_dma_latency: {error.strerror}"
        if near := numa_local_cpus(block, root):
            before = os.sched_getaffinity(0)
            try:
                os.sched_setaffinity(0, near & before)
                stack.callback(os.sched_setaffinity, 0, before)
            except OSError as error:
                troubles["memory nodes"] = error.strerror or str(error)
        yield troubles


def told(
    now: Iterable[Finding], earlier: Iterable[Finding], held: Sequence[AppliedChange], troubles: Mapping[str, str]
) -> tuple[HostSetting, ...]:
    """Return settings as a report tells them: as they are ``now``, and of those that were set what they were before.

    ``held`` is what came of each change, ``troubles`` why others could not be made, by name.
    """
    was = {each.name: each.setting.value for each in earlier}
    why = {**troubles, **{each.change.setting.kind: each.trouble for each in held if each.trouble}}
    touched = {"idle states", "memory nodes", *(each.change.setting.kind for each in held)}
    return tuple(
        _told(each.setting, was.get(each.name, "") if each.name in touched else "", why.get(each.name, ""))
        for each in now
    )


def _told(setting: HostSetting, was: str, trouble: str) -> HostSetting:
    if trouble and setting.judgement != "good":
        return replace(setting, reason=f"{setting.reason}; it could not be set: {trouble}")
    return setting if was == setting.value else replace(setting, before=was)
