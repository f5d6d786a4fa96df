"""Number evidence files, so that existing ones are never overwritten."""

from __future__ import annotations

import re
from pathlib import Path


def number_of(name: str) -> int | None:
    """Return the number at the start of an evidence file name; None if there is none."""
    match = re.match(r"[0-9]{5,9}(?=-)", name)
    return int(match[0]) if match else None


def last_number(evidence: Path) -> int:
    """Return the highest number of a file in the folder ``evidence``; 0 if there is none."""
    return max((number_of(path.name) or 0 for path in evidence.iterdir()), default=0)


def pre_run_path(evidence: Path, name: str) -> Path:
    """Return the path of evidence from before a run starts or resumes: with the last number, or the next unused one."""
    number = last_number(evidence)
    while any(evidence.glob(f"{number:05d}-{name}*")):
        number += 1
    return evidence / f"{number:05d}-{name}"
