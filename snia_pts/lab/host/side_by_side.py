"""How many drives a host tests side by side."""

from __future__ import annotations

import os

#: CPUs for each of the tests side by side: fio's threads and the kernel's work for them.
_CPUS_PER_TEST = 2


def default_side_by_side() -> int:
    """Return how many drives this host tests side by side, unless the operator says it."""
    return max(1, len(os.sched_getaffinity(0)) // _CPUS_PER_TEST)
