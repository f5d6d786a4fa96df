"""What a test procedure asks for: stimuli, and the steps made of them.

A Stimulus is the key of a measurement.  A step says what shall happen, never what did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .units import block_size

Access = Literal["RND", "SEQ"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stimulus:
    """A Test Stimulus: access, R/W mix, block size, demand, where, and how long or how much.

    ``range_bytes`` bytes from ``range_offset_bytes`` on are the ActiveRange.  Just one of ``seconds`` and ``passes`` is
    given: a stimulus with ``passes`` ends when it has gone over the range that often.
    """

    access: Access
    read_percent: int
    block_size_bytes: int
    thread_count: int
    queue_depth: int
    range_offset_bytes: int
    range_bytes: int
    seconds: float | None = None
    passes: int | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.passes is None):
            raise ValueError("a stimulus takes either seconds or passes")
        if self.range_bytes < self.block_size_bytes:
            raise ValueError(f"an active range of {self.range_bytes} bytes holds no block of {self.block_size_bytes}")

    @property
    def total_oio(self) -> int:
        """Outstanding I/Os over all threads (TC x QD)."""
        return self.thread_count * self.queue_depth

    @property
    def cell(self) -> Cell:
        return Cell(read_percent=self.read_percent, block_size_bytes=self.block_size_bytes)

    @property
    def amount_bytes(self) -> int | None:
        """Bytes a stimulus with ``passes`` transfers; None where time ends it."""
        return None if self.passes is None else self.passes * self.range_bytes

    @property
    def label(self) -> str:
        """For people: ``RND 4 KiB 0/100``."""
        return f"{self.access} {self.cell.label}"


def mix(read_percent: int) -> str:
    """Return a read share as R/W mix: 65 is ``65/35``."""
    return f"{read_percent}/{100 - read_percent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Return the device to the state before any host write (PTS 2.0.2 section 3.2)."""

    kind: Literal["purge"] = "purge"

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return ()

    @property
    def label(self) -> str:
        return "Purge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """Workload independent preconditioning (PTS 2.0.2 section 3.3)."""

    kind: Literal["precondition"] = "precondition"
    stimulus: Stimulus

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        return (self.stimulus,)

    @property
    def label(self) -> str:
        return f"Preconditioning {self.stimulus.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over all points of the test loop, in the standard's order; numbered from 1."""

    kind: Literal["round"] = "round"
    number: int
    stimuli: tuple[Stimulus, ...]

    @property
    def label(self) -> str:
        return f"Round {self.number}"


Step = Purge | Precondition | Round
