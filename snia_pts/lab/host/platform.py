"""Read the facts about the host for the report's block Test Platform."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from ... import __version__
from ...model.test_platform import TestPlatform
from ...units import MAX_QUANTITY, whole_number
from ..device.identity import ROOT, attribute
from ..engine import EngineIdentity


def read_platform(engine: EngineIdentity, *, root: Path = ROOT) -> TestPlatform:
    """Return the facts about this host and the I/O engine; what the host does not report is empty."""
    board = root / "sys/class/dmi/id"
    return TestPlatform(
        hostname=platform.node(),
        motherboard=f"{attribute(board / 'board_vendor')} {attribute(board / 'board_name')}".strip(),
        cpu=_field(root / "proc/cpuinfo", "model name"),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_kilobytes(_field(root / "proc/meminfo", "MemTotal")),
        operating_system=_operating_system(root),
        kernel=platform.release(),
        python=platform.python_version(),
        suite_version=__version__,
        engine=engine.name,
        engine_version=engine.version,
        io_engine=engine.io_engine,
    )


def _field(path: Path, name: str) -> str:
    """Return the first ``name : value`` of a /proc file."""
    for line in attribute(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _kilobytes(text: str) -> int:
    return min(MAX_QUANTITY, 1024 * (whole_number(text.removesuffix("kB").strip()) or 0))


def _operating_system(root: Path) -> str:
    for line in attribute(root / "etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip('"')
    return ""
