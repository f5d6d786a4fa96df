"""Reads what the kernel counts of changes to the content of a target."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...model.content_state import ContentState
from ...units import whole_number
from .identity import ROOT, attachment, attribute, block_directory

_SECTOR_BYTES = 512
#: The columns of sectors written and discarded in /sys/block/*/stat; the latter since Linux 4.18.
_WRITTEN, _DISCARDED = 6, 13


def read_content_state(descriptor: int, root: Path = ROOT) -> ContentState | None:
    """Return the state of an open target; None for a device of which the kernel counts nothing."""
    status = os.fstat(descriptor)
    if not stat.S_ISBLK(status.st_mode):
        return ContentState(modified_ns=status.st_mtime_ns, allocated_bytes=status.st_blocks * _SECTOR_BYTES)
    block = block_directory(status.st_rdev, root)
    counts = [whole_number(text) or 0 for text in attribute(block / "stat").split()]
    attached = attachment(block, root)
    if attached is None or len(counts) <= _DISCARDED:
        return None
    return ContentState(
        attachment=attached,
        written_bytes=counts[_WRITTEN] * _SECTOR_BYTES,
        discarded_bytes=counts[_DISCARDED] * _SECTOR_BYTES,
    )
