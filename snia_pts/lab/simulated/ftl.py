"""A page-mapped flash translation layer with greedy garbage collection.

A hundred thousand chunks stand for a drive: write amplification depends on the over-provisioning and on the pages a
block, not on how many blocks there are.  In its steady state under evenly spread random writes it follows the closed
form of Desnoyers, and Xiang and Kurkoski (arXiv 1110.4245): with a = physical / user space, A = a / (a + W0(-a e^-a)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Blocks beyond the over-provisioning: one free, and the empty halves of the host's and the collection's open ones.
_RESERVE = 2
#: Over so many collected blocks write amplification is averaged.
_REMEMBERED = 12


class Ftl:
    """``chunks`` of user data on blocks of ``pages`` pages with ``over_provisioning`` (0.07 is 7 %) spare pages.

    A page holds a chunk.  ``programmed`` counts pages written, garbage collection's own with the host's.
    """

    def __init__(self, chunks: int, pages: int, over_provisioning: float) -> None:
        self.chunks, self.pages = chunks, pages
        self.blocks = round(chunks * (1 + over_provisioning) / pages) + _RESERVE
        self.purge()

    def purge(self) -> None:
        """Return to the state before any write."""
        self._place = np.full(self.chunks, -1, dtype=np.int64)
        self._holds = np.full(self.blocks * self.pages, -1, dtype=np.int64)
        self._valid = np.zeros(self.blocks, dtype=np.int64)
        self._closed = np.zeros(self.blocks, dtype=bool)
        self._free = list(range(self.blocks - 1, -1, -1))
        self._open = self._take()
        self._collecting = self._take()
        self.programmed = self.host_written = 0
        self.write_amplification = 1.0

    @property
    def mapped_share(self) -> float:
        """How much of the user space holds data."""
        return float(np.count_nonzero(self._place >= 0)) / self.chunks

    def trim(self, first: int, count: int) -> None:
        """Forget ``count`` chunks from ``first`` on."""
        self._invalidate(np.arange(first, first + count))
        self._place[first : first + count] = -1

    def write(self, chunks: NDArray[np.int64]) -> None:
        """Write chunks in this order; the same chunk may come again."""
        done = 0
        while done < len(chunks):
            if self._open[1] == self.pages:
                self._close(self._open[0])
                self._make_room()
                self._open = self._take()
            piece = chunks[done : done + self.pages - self._open[1]]
            self._program(self._open, piece)
            self.host_written += len(piece)
            done += len(piece)

    def _program(self, block: list[int], chunks: NDArray[np.int64]) -> None:
        """Fill the next pages of an open block."""
        self._invalidate(np.unique(chunks))
        first = block[0] * self.pages + block[1]
        pages = np.arange(first, first + len(chunks))
        self._place[chunks] = pages  # of a chunk that comes twice the last place stays
        kept = self._place[chunks] == pages
        self._holds[pages[kept]] = chunks[kept]
        self._valid[block[0]] += np.count_nonzero(kept)
        block[1] += len(chunks)
        self.programmed += len(chunks)

    def _invalidate(self, chunks: NDArray[np.int64]) -> None:
        before = self._place[chunks]
        before = before[before >= 0]
        self._holds[before] = -1
        self._valid -= np.bincount(before // self.pages, minlength=self.blocks)

    def _make_room(self) -> None:
        """Collect the blocks with the fewest valid pages until one is free besides the one to be opened."""
        while len(self._free) < _RESERVE:
            victim = int(np.argmin(np.where(self._closed, self._valid, self.pages + 1)))
            self._collect(victim)

    def _collect(self, victim: int) -> None:
        first = victim * self.pages
        held = self._holds[first : first + self.pages]
        alive = held[held >= 0].copy()
        stale = self.pages - len(alive)
        self._note(self.pages / stale if stale else float(self.pages))
        while len(alive):
            if self._collecting[1] == self.pages:
                self._close(self._collecting[0])
                self._collecting = self._take()
            room = self.pages - self._collecting[1]
            self._program(self._collecting, alive[:room])
            alive = alive[room:]
        self._closed[victim] = False
        self._free.append(victim)

    def _note(self, amplification: float) -> None:
        self.write_amplification += (amplification - self.write_amplification) / _REMEMBERED

    def _close(self, block: int) -> None:
        self._closed[block] = True

    def _take(self) -> list[int]:
        """Return a free block with the number of its pages that are written."""
        return [self._free.pop(), 0]


def closed_form(over_provisioning: float) -> float:
    """Return the write amplification of greedy collection under evenly spread random writes on large blocks."""
    ratio = 1 + over_provisioning
    valid = 0.5
    for _ in range(10_000):
        valid = math.exp(-ratio * (1 - valid))
    return 1 / (1 - valid)
