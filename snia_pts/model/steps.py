"""What a test procedure asks for: stimuli, and the steps made of them.

A Stimulus is the key of a measurement.  A step says what shall happen, never what did.  Every step carries the ``part``
of the test it belongs to, empty where a test has one part only: results are found by phase and part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from ..units import MAX_QUANTITY, Amount, block_size, capacity, duration

#: What the drives' own pages are at least.
PAGE_BYTES = 4096

Access = Literal["RND", "SEQ"]
Seconds = Annotated[float, Ge(1e-3), Le(1e9)]

#: fio's option for it.  The suite reuses the seed instead: in fio 3.39 a given seed overrules the option.
SAME_PLACES = "randrepeat"

#: What a stretch is for.  ``WIPC`` and ``PC`` precondition (workload independent; by the test's own writes).
Phase = Literal["WIPC", "PC", "stimulus", "pre-write", "histogram", "access A", "access C"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShare:
    """One size of a block-size mix, and its share of the I/Os in percent."""

    size_bytes: Amount
    percent: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """So many percent of the accesses go to the next so many percent of the ActiveRange."""

    access_percent: Amount
    range_percent: Amount


#: The bytes of each I/O, or the shares in which sizes are mixed.
BlockSize = Amount | tuple[BlockShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One place in a test's matrix of R/W mix and block size."""

    read_percent: int
    block_size_bytes: int

    @property
    def mix(self) -> str:
        """The R/W mix as the standard writes it: ``65/35``."""
        return mix(self.read_percent)

    @property
    def label(self) -> str:
        return f"{block_size(self.block_size_bytes)} {self.mix}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Demand:
    """One place in a test's matrix of Thread Count and Queue Depth."""

    thread_count: int
    queue_depth: int

    @property
    def total_oio(self) -> int:
        """Outstanding I/Os over all threads (TC x QD)."""
        return self.thread_count * self.queue_depth

    @property
    def label(self) -> str:
        """As the standard writes it: ``T32Q4``."""
        return f"T{self.thread_count}Q{self.queue_depth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stimulus:
    """A Test Stimulus: access, R/W mix, block size or sizes, demand, where, and how long or how much.

    ``range_bytes`` bytes from ``range_offset_bytes`` on are the ActiveRange (0: all there is, where nobody told how
    much); ``skew`` shares the accesses out over it, evenly where there is none.  A sequential stream begins
    ``start_bytes`` into the range; of several threads, each so far into its own share of it.

    Just one of ``seconds`` and ``passes`` is given: a stimulus with ``passes`` ends when it has gone over the range
    that often; either ends sooner when it has transferred ``limit_bytes``, so that the last pass of a sequential one
    may be a partial one.

    Profiles have more: what is done in ``ramp_seconds`` before is not counted, ``skip_bytes`` are left out after each
    block of a sequential stream (fewer than none: it goes back), ``options`` are the engine's own.  One with a ``name``
    is called by it.
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
            raise ValueError("a stimulus takes either seconds or passes")
        if self.limit_bytes is not None and self.limit_bytes < self.largest_block_bytes:
            raise ValueError("a limit leaves room for one block")
        if self.limit_bytes is not None and self.passes is not None and not self._partial_pass:
            raise ValueError("a limit of passes ends the last of them, within whole blocks of a sequential stream")
        if self.ramp_seconds and (self.seconds is None or self.block_shares):
            raise ValueError("a ramp goes with seconds, and with one block size")
        if self.range_bytes and self.range_bytes < self.largest_block_bytes:
            raise ValueError(f"an active range of {capacity(self.range_bytes)} holds no block of {self.block_label}")
        if isinstance(self.start_bytes, int):
            if not 0 <= self.start_bytes < (self.range_bytes or 1):
                raise ValueError("a stream begins within its range")
        elif self.access != "SEQ" or self.thread_count == 1 or len(self.start_bytes) != self.thread_count:
            raise ValueError("several sequential threads begin at a place each")
        elif not all(0 <= start < share for start, share in zip(self.start_bytes, self.share_bytes, strict=True)):
            raise ValueError("each thread begins within its share of the range")
        if self.block_shares and sum(share.percent for share in self.block_shares) != 100:
            raise ValueError("the shares of a block-size mix add up to 100 %")
        if self.skew and not 100 == sum(z.access_percent for z in self.skew) == sum(z.range_percent for z in self.skew):
            raise ValueError("the zones of a skew add up to 100 %")

    @property
    def block_shares(self) -> tuple[BlockShare, ...]:
        """The shares of a block-size mix; empty where every I/O has the same size."""
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
    def streams(self) -> int:
        """How many sequential streams there are, one a thread; 0 where access is random."""
        return self.thread_count if self.access == "SEQ" else 0

    @property
    def share_bytes(self) -> tuple[int, ...]:
        """How much of the range each sequential thread goes over: whole blocks, as many for all, by one."""
        block = self.largest_block_bytes
        each, more = divmod(self.range_bytes // block, self.thread_count)
        return tuple((each + (thread < more)) * block for thread in range(self.thread_count))

    @property
    def starts(self) -> tuple[int, ...]:
        """Where in its share each sequential thread begins.

        One place for several threads is their mean one, as runs of older versions had it.
        """
        if isinstance(self.start_bytes, tuple):
            return self.start_bytes
        block = self.largest_block_bytes
        start = self.start_bytes // self.thread_count // block * block
        return tuple(start if start < share else 0 for share in self.share_bytes)

    def even_streams(self, moved_bytes: int) -> tuple[int, ...]:
        """Return what each of several sequential threads transfers of an amount if all are equally fast.

        Whole blocks; empty of one thread, and of random access.
        """
        each, more = divmod(moved_bytes // self.largest_block_bytes, self.thread_count)
        streams = self.streams if self.streams > 1 else 0
        return tuple((each + (thread < more)) * self.largest_block_bytes for thread in range(streams))

    @property
    def cached(self) -> bool:
        """Whether it goes through the host's page cache, as its options want it."""
        told = dict(self.options)
        return told.get("direct") == "0" or told.get("buffered") == "1" or told.get("ioengine") == "mmap"

    @property
    def same_places(self) -> bool:
        """Whether each of its repeats goes to the same random offsets, as its options want it."""
        return dict(self.options).get(SAME_PLACES) == "1"

    @property
    def demand(self) -> Demand:
        return Demand(thread_count=self.thread_count, queue_depth=self.queue_depth)

    @property
    def cell(self) -> Cell:
        """Its place in a matrix of R/W mix and block size; raises ValueError where sizes are mixed."""
        if not isinstance(self.block_size_bytes, int):
            raise ValueError("a block-size mix has no place in a matrix of block sizes")
        return Cell(read_percent=self.read_percent, block_size_bytes=self.block_size_bytes)

    @property
    def _partial_pass(self) -> bool:
        """Whether ``limit_bytes`` fall into the last of ``passes``, and every pass is made of whole blocks."""
        passes, limit = self.passes or 0, self.limit_bytes or 0
        if self.access != "SEQ" or self.skip_bytes or not isinstance(self.block_size_bytes, int):
            return False
        whole = limit % self.block_size_bytes == 0 == self.range_bytes % self.block_size_bytes
        return whole and (passes - 1) * self.range_bytes < limit < passes * self.range_bytes

    @property
    def amount_bytes(self) -> int | None:
        """Bytes a stimulus with ``passes`` transfers; None where time ends it."""
        if self.passes is None:
            return None
        if self.limit_bytes is not None:
            return self.limit_bytes
        block = self.largest_block_bytes
        if self.skip_bytes > 0:  # what is left out comes in no other pass
            return self.passes * block * math.ceil(self.range_bytes / (block + self.skip_bytes))
        return self.passes * self.range_bytes

    def fills(self, written_bytes: float) -> float:
        """Return how often so many bytes fill its range; 0 where nobody told how large that is."""
        return written_bytes / self.range_bytes if self.range_bytes else 0.0

    @property
    def block_label(self) -> str:
        """``4 KiB``, or what a mix is called: ``composite``."""
        return block_size(self.block_size_bytes) if isinstance(self.block_size_bytes, int) else "composite"

    @property
    def label(self) -> str:
        """For people: ``RND 4 KiB 0/100``, or its name."""
        return self.name or f"{self.access} {self.block_label} {mix(self.read_percent)}"


def mix_align_bytes(shares: tuple[BlockShare, ...]) -> int:
    """Return the size that the places of all I/Os of a mix are multiples of: a drive's page, where one is as large."""
    sizes = [share.size_bytes for share in shares]
    return max(min(sizes), min(PAGE_BYTES, max(sizes)))


def mix(read_percent: int) -> str:
    """Return a read share as R/W mix: 65 is ``65/35``."""
    return f"{read_percent}/{100 - read_percent}"


def _labelled(part: str, text: str) -> str:
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
        return _labelled(self.part, "Purge")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousStimulus:
    """One stimulus without a break, cut into samples of ``sample_seconds``; a single whole where that is None.

    Its outcomes are a Sample each, in order, and at last the Measurement of the whole.
    """

    kind: Literal["continuous"] = "continuous"
    part: str = ""
    phase: Phase
    stimulus: Stimulus
    sample_seconds: Seconds | None = None

    def __post_init__(self) -> None:
        if self.sample_seconds is not None and (self.stimulus.seconds or 0) < self.sample_seconds:
            raise ValueError("samples are cut from a stimulus of at least one sample's time")

    @property
    def samples(self) -> int:
        """How many samples it gives at most; 0 where it is not cut."""
        if self.sample_seconds is None or self.stimulus.seconds is None:
            return 0
        return math.ceil(round(self.stimulus.seconds / self.sample_seconds, 6))

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return (self.stimulus,)

    @property
    def label(self) -> str:
        return _labelled(self.part, f"{self.phase} {self.stimulus.label}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over all points of a test loop, in the standard's order; numbered from 1."""

    kind: Literal["round"] = "round"
    part: str = ""
    number: Amount
    stimuli: tuple[Stimulus, ...]

    @property
    def label(self) -> str:
        return _labelled(self.part, f"Round {self.number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """No host I/O at all for so long, telemetry included (PTS 2.0.2 chapter 11, Access B)."""

    kind: Literal["idle"] = "idle"
    part: str = ""
    seconds: Seconds

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        return _labelled(self.part, f"Idle {duration(self.seconds)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Set the host as a profile's point wants it: ``settings`` by name and value; ``cold`` empties its page cache."""

    kind: Literal["prepare"] = "prepare"
    part: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    cold: bool = False

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        wanted = [f"{name} {value}" for name, value in self.settings]
        return _labelled(self.part, f"prepare the host ({', '.join([*wanted, *['empty page cache'] * self.cold])})")


Step = Purge | ContinuousStimulus | Round | Idle | Prepare


def place(step: Step, came: int) -> str:
    """Name a step of which so many outcomes came; one in its midst with the point or sample that comes."""
    if isinstance(step, Round) and 0 < came < len(step.stimuli):
        return f"{step.label}, point {came + 1} of {len(step.stimuli)}"
    if isinstance(step, ContinuousStimulus) and 0 < came < step.samples:
        return f"{step.label}, sample {came + 1} of {step.samples}"
    return step.label
