"""The names of evidence: numbered, so that nothing that is there already is written over."""

from __future__ import annotations

import re
from pathlib import Path


def number_of(name: str) -> int | None:
    """Return the number that a name of evidence begins with; None where it begins with none."""
    found = re.match(r"[0-9]{5,9}(?=-)", name)
    return int(found[0]) if found else None


def last_number(evidence: Path) -> int:
    """Return the highest number that a file in the folder ``evidence`` begins with; 0 where there is none."""
    return max((number_of(path.name) or 0 for path in evidence.iterdir()), default=0)


def pre_run_path(evidence: Path, name: str) -> Path:
    """Return the place of what is looked up before a run begins, or goes on: the last number, or the next unused."""
    number = last_number(evidence)
    while any(evidence.glob(f"{number:05d}-{name}*")):
        number += 1
    return evidence / f"{number:05d}-{name}"
