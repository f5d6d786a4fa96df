"""How many drives of this host are tested side by side, by its calibration and its topology."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...analysis.side_by_side import DriveLoad, SideBySide, fit_side_by_side
from ...model.dut import Dut
from ...temporary import temporary_folder
from ..device.identity import ROOT
from ..inventory import numa_node
from ..link_speed import block_of, link_speed, shared_links
from .calibration import engine_cost_us
from .tuning.io_path import numa_local_cpus


def calibrated_cost_us() -> float | None:
    """Return the CPU time per I/O by a calibration of this host, in microseconds; None if fio cannot measure it."""
    with temporary_folder() as evidence:
        return engine_cost_us(evidence)


def fitting_side_by_side(duts: Iterable[Dut | None], cost_us: float | None) -> SideBySide:
    """Return how many of these targets fit side by side on this host, whose calibration gave ``cost_us``.

    None is a file or a simulated drive.
    """
    return fit_side_by_side([read_load(dut) for dut in duts], cost_us)


def read_load(dut: Dut | None, root: Path = ROOT) -> DriveLoad:
    """Return the load of a target of this host; nothing of a file or a simulated drive is known."""
    allowed = os.sched_getaffinity(0)
    if dut is None or dut.simulated or dut.kind == "file":
        return DriveLoad(mb_per_second=None, node=None, cpus=len(allowed))
    block = block_of(dut.path, root)
    local = numa_local_cpus(block, root) & allowed
    return DriveLoad(
        mb_per_second=link_speed(dut, root),
        node=numa_node(block) if local else None,
        cpus=len(local or allowed),
        links=tuple(shared_links(block)),
    )
