"""The requests of a test procedure: stimuli, and the steps that consist of them.

A Stimulus is the key of a measurement.  A step describes an action, never its result.  Every step names the ``part`` of
the test it belongs to, which is empty if the test has only one part: results are found by phase and part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from ..units import MAX_QUANTITY, Amount, block_size, capacity, duration

#: The minimum page size of drives.
PAGE_BYTES = 4096

Access = Literal["RND", "SEQ"]
Seconds = Annotated[float, Ge(1e-3), Le(1e9)]

#: fio's option to repeat offsets.  The suite reuses the seed instead, as in fio 3.39 a given seed overrides the option.
SAME_OFFSETS = "randrepeat"
#: fio's option for the number of files.
FILE_COUNT = "nrfiles"
#: Engines that wait for each I/O: each thread has one outstanding I/O, whatever the queue depth.
SYNCHRONOUS_ENGINES = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
#: Options that replace the random data of the buffers by other data, unless their value is 0.
_NOT_RANDOM = ("zero_buffers", "buffer_compress_percentage", "dedupe_percentage")
#: Options that decide how the buffers are filled.
_FILLING = (
    *_NOT_RANDOM,
    "buffer_compress_chunk",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "refill_buffers",
    "scramble_buffers",
)
#: Options that limit the rate of I/Os, or pause between them, unless their value is 0.  ``rate_min`` and
#: ``rate_iops_min`` are not among them: fio only compares the rate with them.
_RATES = ("rate", "rate_iops", "thinktime")

#: The purpose of a continuous stimulus.  ``WIPC`` and ``PC`` precondition: workload independent, and with the test's
#: own writes.  ``fill`` writes the range of a profile once.
Phase = Literal["WIPC", "fill", "PC", "stimulus", "pre-write", "histogram", "access A", "access C"]
#: The phases that write the range before the test, and are no result of it.
FILL_PHASES: frozenset[Phase] = frozenset({"WIPC", "fill"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShare:
    """One size of a block-size mix, and its share of the I/Os in percent."""

    size_bytes: Amount
    percent: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone of a skewed workload: its share of the accesses and of the ActiveRange, in percent."""

    access_percent: Amount
    range_percent: Amount


#: The size of each I/O in bytes, or the shares of a mix of sizes.
BlockSize = Amount | tuple[BlockShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a test's matrix of R/W mix and block size."""

    read_percent: int
    block_size_bytes: int

    @property
    def mix(self) -> str:
        """The R/W mix in the standard's notation: ``65/35``."""
        return mix(self.read_percent)

    @property
    def label(self) -> str:
        return f"{block_size(self.block_size_bytes)} {self.mix}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Demand:
    """A cell of a test's matrix of Thread Count and Queue Depth."""

    thread_count: int
    queue_depth: int

    @property
    def total_oio(self) -> int:
        """Outstanding I/Os over all threads (TC x QD)."""
        return self.thread_count * self.queue_depth

    @property
    def label(self) -> str:
        """The standard's notation: ``T32Q4``."""
        return f"T{self.thread_count}Q{self.queue_depth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stimulus:
    """A Test Stimulus: access, R/W mix, block size or sizes, demand, location, and duration or amount.

    The ActiveRange is ``range_bytes`` bytes from ``range_offset_bytes`` (0: the whole device, if its size is unknown).
    ``skew`` distributes the accesses over it; without ``skew`` they are uniform.  ``start_bytes`` is the offset in the
    range at which a sequential stream starts; for several threads, a tuple of the offset of each in its share of the
    range.  Exactly one of ``seconds`` and ``passes`` is set: a stimulus with ``passes`` ends when it has gone over the
    range that often.  Both kinds end earlier once they have transferred ``limit_bytes``, so the last pass of a
    sequential stimulus may be partial.

    The standard's tests do not use the other values.  I/O during the first ``ramp_seconds`` is not counted.  A
    sequential stream skips ``skip_bytes`` after each block; a negative value goes back.  ``options`` are the engine's
    own options.  ``name`` replaces the generated label.
    """

    access: Access
    read_percent: Amount
    block_size_bytes: BlockSize
    thread_count: Amount
    queue_depth: Amount
    range_offset_bytes: Amount
    range_bytes: Amount
    skew: tuple[Zone, ...] = ()
    start_bytes: Amount | tuple[Amount, ...] = 0
    seconds: Seconds | None = None
    passes: Amount | None = None
    limit_bytes: Amount | None = None
    ramp_seconds: Annotated[float, Ge(0), Le(1e9)] = 0.0
    skip_bytes: Annotated[int, Ge(-MAX_QUANTITY), Le(MAX_QUANTITY)] = 0
    options: tuple[tuple[str, str], ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.passes is None):
            raise ValueError("expected either seconds or passes")
        if self.limit_bytes is not None and self.limit_bytes < self.largest_block_bytes:
            raise ValueError("limit_bytes is smaller than one block")
        if self.limit_bytes is not None and self.passes is not None and not self._partial_pass:
            raise ValueError("limit_bytes must end the last pass of a sequential stream, at a whole block")
        if self.ramp_seconds and (self.seconds is None or self.block_shares):
            raise ValueError("a ramp requires seconds and a single block size")
        if self.range_bytes and self.range_bytes < self.largest_block_bytes:
            raise ValueError(
                f"an active range of {capacity(self.range_bytes)} is smaller than a block of {self.block_label}"
            )
        if isinstance(self.start_bytes, int):
            if not 0 <= self.start_bytes < (self.range_bytes or 1):
                raise ValueError("start_bytes must be within the range")
        elif self.access != "SEQ" or self.thread_count == 1 or len(self.start_bytes) != self.thread_count:
            raise ValueError("several values of start_bytes need as many sequential threads")
        elif not all(0 <= start < share for start, share in zip(self.start_bytes, self.share_bytes, strict=True)):
            raise ValueError("each thread must start within its share of the range")
        if self.block_shares and sum(share.percent for share in self.block_shares) != 100:
            raise ValueError("the shares of a block-size mix must add up to 100 %")
        if self.skew and not 100 == sum(z.access_percent for z in self.skew) == sum(z.range_percent for z in self.skew):
            raise ValueError("the zones of a skew must add up to 100 %")

    @property
    def block_shares(self) -> tuple[BlockShare, ...]:
        """The shares of a block-size mix; empty if all I/Os have the same size."""
        return () if isinstance(self.block_size_bytes, int) else self.block_size_bytes

    @property
    def largest_block_bytes(self) -> int:
        if isinstance(self.block_size_bytes, int):
            return self.block_size_bytes
        return max(share.size_bytes for share in self.block_size_bytes)

    @property
    def total_oio(self) -> int:
        """Outstanding I/Os over all threads (TC x QD)."""
        return self.thread_count * self.queue_depth

    @property
    def outstanding_ios(self) -> int:
        """The number of outstanding I/Os per thread that the engine can have."""
        return 1 if dict(self.options).get("ioengine") in SYNCHRONOUS_ENGINES else self.queue_depth

    @property
    def ends_by_time(self) -> bool:
        """Whether every thread runs for the requested time, however much it transfers."""
        return self.seconds is not None and self.limit_bytes is None

    @property
    def streams(self) -> int:
        """The number of sequential streams: one for each thread, 0 for random access."""
        return self.thread_count if self.access == "SEQ" else 0

    @property
    def share_bytes(self) -> tuple[int, ...]:
        """Each sequential thread's share of the range: whole blocks; the first threads may have one block more."""
        block = self.largest_block_bytes
        blocks, remainder = divmod(self.range_bytes // block, self.thread_count)
        return tuple((blocks + (thread < remainder)) * block for thread in range(self.thread_count))

    @property
    def starts(self) -> tuple[int, ...]:
        """The offset in its share at which each sequential thread starts.

        Runs of older versions have a single ``start_bytes`` for all threads, from which the mean offset is calculated.
        """
        if isinstance(self.start_bytes, tuple):
            return self.start_bytes
        block = self.largest_block_bytes
        start = self.start_bytes // self.thread_count // block * block
        return tuple(start if start < share else 0 for share in self.share_bytes)

    def even_streams(self, moved_bytes: int) -> tuple[int, ...]:
        """Return the bytes that each sequential thread transfers of ``moved_bytes`` if all are equally fast.

        These are whole blocks.  Empty for a single thread, and for random access.
        """
        blocks, remainder = divmod(moved_bytes // self.largest_block_bytes, self.thread_count)
        streams = self.streams if self.streams > 1 else 0
        return tuple((blocks + (thread < remainder)) * self.largest_block_bytes for thread in range(streams))

    @property
    def file_count(self) -> int:
        """The number of files that share the range; 1 is the target itself, more are a set of files beside it."""
        return int(dict(self.options).get(FILE_COUNT, "1"))

    @property
    def timed(self) -> bool:
        """Whether the engine measures response times; ``gtod_reduce`` saves the readings of the clock for them."""
        return dict(self.options).get("gtod_reduce", "0") == "0"

    @property
    def cached(self) -> bool:
        """Whether its options make it use the host's page cache.

        In a job file ``buffered`` follows ``direct``, so fio obeys ``buffered``.
        """
        options = dict(self.options)
        if options.get("ioengine") == "mmap":
            return True
        if options.get("atomic", "0") != "0":  # always direct
            return False
        return options["buffered"] == "1" if "buffered" in options else options.get("direct") == "0"

    @property
    def filling_options(self) -> tuple[str, ...]:
        """Its options that decide how the buffers are filled: ``refill_buffers=1``."""
        return tuple(f"{key}={value}" for key, value in self.options if key in _FILLING)

    @property
    def data_pattern(self) -> str:
        """The options that replace random data by other data: ``zero_buffers=1``; empty for random data."""
        return ", ".join(f"{key}={value}" for key, value in self.options if key in _NOT_RANDOM and value != "0")

    @property
    def limiting_options(self) -> tuple[str, ...]:
        """Its options that limit the rate of I/Os, pause between them, or wait until fewer of them are outstanding."""
        return tuple(f"{key}={value}" for key, value in self.options if self._limits(key, value))

    def _limits(self, key: str, value: str) -> bool:
        if key in _RATES:
            return not set(value.split(",")) <= {"", "0"}
        if key == "iodepth_low":
            return value != "0" and not (value.isdecimal() and int(value) >= self.outstanding_ios)
        if key in ("iodepth_batch_complete", "iodepth_batch_complete_min"):
            return value not in ("0", "1") and self.outstanding_ios > 1
        return False

    @property
    def repeats_offsets(self) -> bool:
        """Whether its options make each repeat use the same random offsets."""
        return dict(self.options).get(SAME_OFFSETS) == "1"

    @property
    def demand(self) -> Demand:
        return Demand(thread_count=self.thread_count, queue_depth=self.queue_depth)

    @property
    def cell(self) -> Cell:
        """Its cell of a matrix of R/W mix and block size; raises ValueError for a block-size mix."""
        if not isinstance(self.block_size_bytes, int):
            raise ValueError("a block-size mix has no cell in a matrix of block sizes")
        return Cell(read_percent=self.read_percent, block_size_bytes=self.block_size_bytes)

    @property
    def _partial_pass(self) -> bool:
        """Whether ``limit_bytes`` ends the last of ``passes``, and all passes consist of whole blocks."""
        passes, limit = self.passes or 0, self.limit_bytes or 0
        if self.access != "SEQ" or self.skip_bytes or not isinstance(self.block_size_bytes, int):
            return False
        is_aligned = limit % self.block_size_bytes == 0 == self.range_bytes % self.block_size_bytes
        return is_aligned and (passes - 1) * self.range_bytes < limit < passes * self.range_bytes

    @property
    def amount_bytes(self) -> int | None:
        """The bytes that a stimulus with ``passes`` transfers; None if a time ends it."""
        if self.passes is None:
            return None
        if self.limit_bytes is not None:
            return self.limit_bytes
        block = self.largest_block_bytes
        if self.skip_bytes > 0:  # No other pass covers the skipped bytes.
            return self.passes * block * math.ceil(self.range_bytes / (block + self.skip_bytes))
        return self.passes * self.range_bytes

    def fills(self, written_bytes: float) -> float:
        """Return the number of times that these bytes fill its range; 0 if the size of the range is unknown."""
        return written_bytes / self.range_bytes if self.range_bytes else 0.0

    @property
    def block_label(self) -> str:
        """``4 KiB``, or the name of the mix: ``composite``."""
        return block_size(self.block_size_bytes) if isinstance(self.block_size_bytes, int) else "composite"

    @property
    def label(self) -> str:
        """The name, or a generated label: ``RND 4 KiB 0/100``."""
        return self.name or f"{self.access} {self.block_label} {mix(self.read_percent)}"


def mix_align_bytes(shares: tuple[BlockShare, ...]) -> int:
    """Return the alignment, in bytes, of the offsets of a block-size mix.

    This is the smallest block size of the mix, but at least a drive's page, or the largest block size if that is less.
    """
    sizes = [share.size_bytes for share in shares]
    return max(min(sizes), min(PAGE_BYTES, max(sizes)))


def mix(read_percent: int) -> str:
    """Format a read share as R/W mix: 65 is ``65/35``."""
    return f"{read_percent}/{100 - read_percent}"


def _with_part(part: str, text: str) -> str:
    return f"{part}: {text}" if part else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Return the device to the state before any host write (PTS 2.0.2 section 3.2)."""

    kind: Literal["purge"] = "purge"
    part: str = ""

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        return _with_part(self.part, "Purge")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousStimulus:
    """One stimulus without a break, divided into samples of ``sample_seconds``; not divided if that is None.

    Its outcomes are one Sample each, in order, and finally the Measurement of the whole stimulus.
    """

    kind: Literal["continuous"] = "continuous"
    part: str = ""
    phase: Phase
    stimulus: Stimulus
    sample_seconds: Seconds | None = None

    def __post_init__(self) -> None:
        if self.sample_seconds is not None and (self.stimulus.seconds or 0) < self.sample_seconds:
            raise ValueError("the stimulus is shorter than one sample")

    @property
    def samples(self) -> int:
        """The maximum number of samples; 0 if it is not divided."""
        if self.sample_seconds is None or self.stimulus.seconds is None:
            return 0
        return math.ceil(round(self.stimulus.seconds / self.sample_seconds, 6))

    @property
    def is_fill(self) -> bool:
        """Whether it only fills the range before the test: WIPC, or the fill of a profile."""
        return self.phase in FILL_PHASES

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return (self.stimulus,)

    @property
    def label(self) -> str:
        return _with_part(self.part, f"{self.phase} {self.stimulus.label}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over all points of a test loop, in the standard's order; numbered from 1."""

    kind: Literal["round"] = "round"
    part: str = ""
    number: Amount
    stimuli: tuple[Stimulus, ...]

    @property
    def label(self) -> str:
        return _with_part(self.part, f"Round {self.number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A time without any host I/O, telemetry included (PTS 2.0.2 chapter 11, Access B)."""

    kind: Literal["idle"] = "idle"
    part: str = ""
    seconds: Seconds

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        return _with_part(self.part, f"Idle {duration(self.seconds)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Prepare the host for a point: apply ``settings``, and with ``cold`` empty the page cache."""

    kind: Literal["prepare"] = "prepare"
    part: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    cold: bool = False

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        actions = [f"{name} {value}" for name, value in self.settings]
        return _with_part(self.part, f"prepare the host ({', '.join([*actions, *['empty page cache'] * self.cold])})")


Step = Purge | ContinuousStimulus | Round | Idle | Prepare


def progress_label(step: Step, outcome_count: int) -> str:
    """Return the label of a step; if only ``outcome_count`` of its outcomes exist, add its next point or sample."""
    if isinstance(step, Round) and 0 < outcome_count < len(step.stimuli):
        return f"{step.label}, point {outcome_count + 1} of {len(step.stimuli)}"
    if isinstance(step, ContinuousStimulus) and 0 < outcome_count < step.samples:
        return f"{step.label}, sample {outcome_count + 1} of {step.samples}"
    return step.label
