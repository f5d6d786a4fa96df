"""This host: its block devices, and its settings that affect results.  Reads only."""

from __future__ import annotations

import os
from pathlib import Path

from ..lab.device.identity import block_directory, read_dut
from ..lab.host.tuning import inspect
from ..lab.host.tuning.direct_io import direct_io
from ..lab.host.tuning.mount import mount
from ..lab.inventory import ListedDevice, read_inventory
from ..model.test_platform import HostSetting


def devices() -> tuple[ListedDevice, ...]:
    """Return the disks and bound loop devices of this host, by name; ``refusal`` says why one cannot be tested.

    Raises KernelFilesMissing without /proc or /sys.
    """
    return read_inventory()


def host(target: str | os.PathLike[str] | None = None) -> tuple[HostSetting, ...]:
    """Return the settings of this host that affect results, with values, judgements, recommendations and reasons.

    With the path of a drive as ``target``, those of the drive and of the I/O path to it, too; with that of a file or a
    folder, those of its file system.  Raises TargetMissing, or TargetUnfit if it is none of these.
    """
    if target is None:
        return tuple(finding.setting for finding in inspect(None))
    path = Path(target)
    if os.path.isfile(path) or os.path.isdir(path):  # noqa: PTH112, PTH113  # False without permission, too
        findings = (*inspect(None), *mount(str(path)), direct_io(path))
    else:
        dut = read_dut(path)
        findings = (*inspect(block_directory(Path(dut.path).stat().st_rdev)), direct_io(path))
    return tuple(finding.setting for finding in findings)
