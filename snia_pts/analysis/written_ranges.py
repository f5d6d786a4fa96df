"""Finds stimuli that read addresses which no step before them had written.

A drive answers such reads from its map, without reading its media, so they are faster than reads of data.  Only writes
of the same run are known: addresses with data from before the run also count as unwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..model.measurement import Measurement, Outcome, PurgeOutcome, Transfers
from ..units import counted

#: A range of bytes: its first, and the one after its last.
Range = tuple[int, int]


class WrittenRanges:
    """Records the ranges that a run writes on its target, and the labels of stimuli that read other addresses.

    Only writes of sequential streams are recorded: random I/O repeats some addresses and leaves out others.
    """

    def __init__(self) -> None:
        self._ranges: dict[int, list[Range]] = {}  # by the number of files
        self._unwritten_reads: dict[str, None] = {}

    @property
    def unwritten_reads(self) -> tuple[str, ...]:
        """The labels of stimuli that read addresses which had not been written."""
        return tuple(self._unwritten_reads)

    def observe(self, outcome: Outcome) -> None:
        """Observe the next outcome of the run."""
        if isinstance(outcome, PurgeOutcome) and outcome.purged:
            self._ranges = {}
        elif isinstance(outcome, Measurement):
            ranges = self._ranges.setdefault(outcome.stimulus.file_count, [])
            if not outcome.stimulus.read_percent:
                ranges[:] = _merged([*ranges, *_streamed(outcome, outcome.write)])
            elif not all(_covers(ranges, read) for read in _read(outcome)):
                self._unwritten_reads[outcome.stimulus.label] = None


def _covers(ranges: Sequence[Range], read: Range) -> bool:
    """Return whether a range was written completely."""
    return read[0] == read[1] or any(first <= read[0] and read[1] <= end for first, end in ranges)


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges in order, those that touch as one."""
    merged: list[Range] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged


def _read(measurement: Measurement) -> Sequence[Range]:
    """Return the ranges that a stimulus read: those of its streams if all I/O was counted, else its whole range."""
    stimulus, start = measurement.stimulus, measurement.stimulus.range_offset_bytes
    if (
        stimulus.read_percent == 100
        and not stimulus.ramp_seconds
        and (ranges := (*_streamed(measurement, measurement.read),))
    ):
        return ranges
    return ((start, start + stimulus.range_bytes),)


def _streamed(measurement: Measurement, side: Transfers) -> Iterator[Range]:
    """Yield the ranges that a sequential stimulus passed over; none if it left out blocks, or is random.

    Several files are passed over in turns, so that only complete passes count.

    The last, partial block of the range belongs to the last thread.
    """
    stimulus = measurement.stimulus
    block, start = stimulus.largest_block_bytes, stimulus.range_offset_bytes
    end = start + stimulus.range_bytes
    is_random = stimulus.access != "SEQ" or dict(stimulus.options).get("percentage_random", "0") != "0"
    if is_random or stimulus.skip_bytes not in (0, -2 * block):
        return
    if stimulus.file_count > 1:
        if stimulus.passes:
            yield start, end
        return
    if stimulus.skip_bytes:  # From the end to the start.
        yield (start, end) if side.transferred_bytes >= stimulus.range_bytes else (end - side.transferred_bytes, end)
        return
    moved = measurement.stream_bytes or stimulus.even_streams(side.transferred_bytes) or (side.transferred_bytes,)
    for thread, share in enumerate(stimulus.share_bytes):
        is_last = thread + 1 == stimulus.thread_count
        share_end = end if is_last else start + share
        first = start + stimulus.starts[thread]
        yield first, share_end if first + moved[thread] >= start + share else first + moved[thread]
        start += share


def unwritten_reads_sentence(labels: Collection[str]) -> str:
    """Return a sentence about the stimuli that read addresses which nothing had written."""
    first = next(iter(labels))
    name = f"; the first is {first}" if len(labels) > 1 else f": {first}"
    return (
        f"{counted(len(labels), 'point')} read addresses that no step before had written{name}; where a target has no "
        "data, the drive (or the file system) returns zeros from its map, and does not read its media"
    )
