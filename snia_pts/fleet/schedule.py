"""The time in which a host finishes its queue."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def elapsed_seconds(sequences: Sequence[Sequence[float]], side_by_side: int) -> float:
    """Return the time of sequences of runs, one sequence for each drive, of which so many go on at a time.

    A place that becomes free is given to the drive that waits the longest, as the agent does.
    """
    waiting = [(0.0, number, 0) for number, sequence in enumerate(sequences) if sequence]
    places = [0.0] * side_by_side
    heapify(waiting)
    finished = 0.0
    while waiting:
        since, number, position = heappop(waiting)
        ended = max(since, heappop(places)) + sequences[number][position]
        heappush(places, ended)
        finished = max(finished, ended)
        if position + 1 < len(sequences[number]):
            heappush(waiting, (ended, number, position + 1))
    return finished
