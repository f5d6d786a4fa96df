"""Host settings that may affect results: inspect and judge them; with --tune, set them for a run and restore them.

``processors``, ``queue`` and ``io_path`` inspect the settings, and state what --tune would set.
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
from ..settings_list import find
from . import processors, queue
from .control_group import control_group
from .finding import Finding
from .io_path import command_queue_depth, inspect_io_path, numa_local_cpus
from .processors import MAX_WAKE_US

SAMPLE_SECONDS = 0.2


def inspect(block: Path | None, *, root: Path = ROOT, sample_seconds: float = SAMPLE_SECONDS) -> tuple[Finding, ...]:
    """Inspect the host, and the I/O path to the drive with the sysfs folder ``block``, if any; changes nothing."""
    times, ios = processors.times(root), queue.ios(block) if block else None
    time.sleep(sample_seconds)
    load = processors.load(times, processors.times(root))
    other_io = [queue.other_io(ios, queue.ios(block))] if block else []
    findings = [*processors.processors(root)]
    if block is not None:
        cpus = frozenset(os.sched_getaffinity(0))
        findings += [*queue.queue(block), *command_queue_depth(block), *inspect_io_path(block, root, cpus)]
    return (*findings, control_group(root), processors.swap(root), *other_io, load)


def changes(findings: Iterable[Finding], root: Path = ROOT) -> tuple[Change, ...]:
    """Return the changes that --tune makes, including those that it only records."""
    desired_settings = (desired for finding in findings for desired in finding.desired)
    settings = ((find(desired.kind, desired.place, root), desired.value) for desired in desired_settings)
    return tuple(Change(setting=setting, value=value) for setting, value in settings if setting is not None)


@contextmanager
def low_latency(block: Path | None, root: Path = ROOT) -> Iterator[Mapping[str, str]]:
    """Keep CPUs from deep sleep, and this process and its children on CPUs local to the drive, while the block runs.

    Both also end with the process.  Yields errors by the name of the finding.
    """
    errors: dict[str, str] = {}
    with ExitStack() as stack:
        try:
            latency = stack.enter_context((root / "dev/cpu_dma_latency").open("r+b", buffering=0))
            latency.write(struct.pack("=i", MAX_WAKE_US))
        except OSError as error:
            errors["idle states"] = f"/dev/cpu_dma_latency: {error.strerror}"
        if local_cpus := numa_local_cpus(block, root):
            before = os.sched_getaffinity(0)
            try:
                os.sched_setaffinity(0, local_cpus & before)
                stack.callback(os.sched_setaffinity, 0, before)
            except OSError as error:
                errors["memory nodes"] = error.strerror or str(error)
        yield errors


def to_host_settings(
    findings: Iterable[Finding],
    earlier: Iterable[Finding],
    outcomes: Sequence[AppliedChange],
    errors: Mapping[str, str],
) -> tuple[HostSetting, ...]:
    """Return the settings in ``findings`` for the report, each with its ``earlier`` value if the run changed it.

    ``outcomes`` are the outcomes of the changes; ``errors`` has those of ``low_latency``, by name.
    """
    before = {finding.name: finding.setting.value for finding in earlier}
    errors = {**errors, **{outcome.change.setting.kind: outcome.error for outcome in outcomes if outcome.error}}
    changed = {"idle states", "memory nodes", *(outcome.change.setting.kind for outcome in outcomes)}
    return tuple(
        _to_host_setting(
            finding.setting,
            before.get(finding.name, "") if finding.name in changed else "",
            errors.get(finding.name, ""),
        )
        for finding in findings
    )


def _to_host_setting(setting: HostSetting, before: str, error: str) -> HostSetting:
    if error and setting.judgement != "good":
        return replace(setting, reason=f"{setting.reason}; it could not be set: {error}")
    return setting if before == setting.value else replace(setting, before=before)
