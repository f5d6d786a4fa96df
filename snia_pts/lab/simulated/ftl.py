"""A page-mapped flash translation layer with greedy garbage collection.

A hundred thousand chunks represent a drive: write amplification depends on the over-provisioning and on the number of
pages per block, not on the number of blocks.  In steady state under uniform random writes it follows the closed form of
Desnoyers, and Xiang and Kurkoski (arXiv 1110.4245): with a = physical / user space, A = a / (a + W0(-a e^-a)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Blocks beyond the over-provisioning: one is free, and the two open blocks (host writes, garbage collection) are half
#: empty on average.
_RESERVE = 2
#: The number of collected blocks over which write amplification is averaged.
_AVERAGED_BLOCKS = 12


class Ftl:
    """A flash translation layer with ``chunks`` of user data on blocks of ``pages`` pages.

    ``over_provisioning`` is the share of spare pages (0.07 is 7 %).  A page holds one chunk.  ``programmed`` counts the
    pages written by the host and by garbage collection.
    """

    def __init__(self, chunks: int, pages: int, over_provisioning: float) -> None:
        self.chunks, self.pages = chunks, pages
        self.blocks = round(chunks * (1 + over_provisioning) / pages) + _RESERVE
        self.purge()

    def purge(self) -> None:
        """Return to the state before any write."""
        self._page_of_chunk = np.full(self.chunks, -1, dtype=np.int64)
        self._chunk_of_page = np.full(self.blocks * self.pages, -1, dtype=np.int64)
        self._valid = np.zeros(self.blocks, dtype=np.int64)
        self._closed = np.zeros(self.blocks, dtype=bool)
        self._free = list(range(self.blocks - 1, -1, -1))
        self._host_block = self._open_free_block()
        self._gc_block = self._open_free_block()
        self.programmed = self.host_written = 0
        self.write_amplification = 1.0

    @property
    def mapped_share(self) -> float:
        """The share of the user space that contains data."""
        return float(np.count_nonzero(self._page_of_chunk >= 0)) / self.chunks

    def trim(self, first: int, count: int) -> None:
        """Unmap ``count`` chunks from ``first`` on."""
        self._invalidate(self._page_of_chunk[first : first + count])
        self._page_of_chunk[first : first + count] = -1

    def write(self, chunks: NDArray[np.int64]) -> None:
        """Write chunks in this order; a chunk may occur more than once."""
        written = 0
        while written < len(chunks):
            if self._host_block[1] == self.pages:
                self._close(self._host_block[0])
                self._make_room()
                self._host_block = self._open_free_block()
            piece = chunks[written : written + self.pages - self._host_block[1]]
            self._program(self._host_block, piece)
            self.host_written += len(piece)
            written += len(piece)

    def _program(self, block: list[int], chunks: NDArray[np.int64]) -> None:
        """Fill the next pages of an open block."""
        first = block[0] * self.pages + block[1]
        pages = np.arange(first, first + len(chunks))
        old_pages = self._page_of_chunk[chunks]
        self._page_of_chunk[chunks] = pages  # If a chunk occurs twice, its last page is valid.
        is_valid = self._page_of_chunk[chunks] == pages
        self._invalidate(old_pages[is_valid])
        self._chunk_of_page[pages[is_valid]] = chunks[is_valid]
        self._valid[block[0]] += np.count_nonzero(is_valid)
        block[1] += len(chunks)
        self.programmed += len(chunks)

    def _invalidate(self, pages: NDArray[np.int64]) -> None:
        """Mark pages as stale; each occurs once, and -1 is no page."""
        pages = pages[pages >= 0]
        self._chunk_of_page[pages] = -1
        self._valid -= np.bincount(pages // self.pages, minlength=self.blocks)

    def _make_room(self) -> None:
        """Collect the blocks with the fewest valid pages until one block is free besides the one to be opened."""
        while len(self._free) < _RESERVE:
            victim = int(np.argmin(np.where(self._closed, self._valid, self.pages + 1)))
            self._collect(victim)

    def _collect(self, victim: int) -> None:
        first = victim * self.pages
        chunks = self._chunk_of_page[first : first + self.pages]
        valid = chunks[chunks >= 0].copy()
        stale_count = self.pages - len(valid)
        self._average(self.pages / stale_count if stale_count else float(self.pages))
        while len(valid):
            if self._gc_block[1] == self.pages:
                self._close(self._gc_block[0])
                self._gc_block = self._open_free_block()
            room = self.pages - self._gc_block[1]
            self._program(self._gc_block, valid[:room])
            valid = valid[room:]
        self._closed[victim] = False
        self._free.append(victim)

    def _average(self, amplification: float) -> None:
        self.write_amplification += (amplification - self.write_amplification) / _AVERAGED_BLOCKS

    def _close(self, block: int) -> None:
        self._closed[block] = True

    def _open_free_block(self) -> list[int]:
        """Return a free block and the number of its written pages, 0."""
        return [self._free.pop(), 0]
