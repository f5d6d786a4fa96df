"""The system's counters of changes to the content of a target; two states show whether it was changed in between."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Amount, capacity

#: After a power failure, a file's time of last change may be older than the state in the journal.
_LOST_NS = 60 * 10**9
#: A file system may move its reservations; a file that keeps less of its allocated space was emptied.
_KEPT_SHARE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentState:
    """The counters of a target at one moment; each kind of target has its own, the others are 0.

    For a block device: the bytes ``written`` and ``discarded`` since its ``attachment`` (boot and disk number).  For a
    file: the time of its last change, and the bytes that its file system has allocated to it.
    """

    attachment: str = ""
    written_bytes: Amount = 0
    discarded_bytes: Amount = 0
    modified_ns: int = 0
    allocated_bytes: Amount = 0

    def loss_since(self, earlier: ContentState) -> str:
        """Return a text on how much of the content was discarded since an ``earlier`` state; empty if none is known."""
        if self.attachment != earlier.attachment:
            return ""
        if self.discarded_bytes > earlier.discarded_bytes:
            return f"{capacity(self.discarded_bytes - earlier.discarded_bytes)} were discarded"
        if self.allocated_bytes < _KEPT_SHARE * earlier.allocated_bytes:
            return f"{capacity(earlier.allocated_bytes - self.allocated_bytes)} were deallocated"
        return ""

    def change_since(self, earlier: ContentState) -> str:
        """Return a text on how much was discarded or written since an ``earlier`` state; empty if none is known."""
        if self.attachment != earlier.attachment:
            return ""
        if self.written_bytes > earlier.written_bytes:
            return self.loss_since(earlier) or f"{capacity(self.written_bytes - earlier.written_bytes)} were written"
        return self.change_after(earlier.modified_ns, earlier)

    def change_after(self, own_writes_end_ns: int, earlier: ContentState) -> str:
        """Return how much was discarded since an ``earlier`` state, or whether a file was written by another program.

        The owner of the target may itself have written to it until ``own_writes_end_ns``, in ns since 1970.  A program
        that copies a file may set its time back.
        """
        is_written = self.modified_ns > own_writes_end_ns or self.modified_ns < earlier.modified_ns - _LOST_NS
        return self.loss_since(earlier) or ("it was written" if self.modified_ns and is_written else "")
