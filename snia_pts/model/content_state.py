"""What the system counts of changes to the content of a target: two states show whether it was changed in between."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Amount, capacity

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
        """Return how much of the content was discarded since an ``earlier`` state; nothing if none is known to be."""
        if self.attachment != earlier.attachment:
            return ""
        if self.discarded_bytes > earlier.discarded_bytes:
            return f"{capacity(self.discarded_bytes - earlier.discarded_bytes)} were discarded"
        if self.allocated_bytes < _KEPT_SHARE * earlier.allocated_bytes:
            return f"{capacity(earlier.allocated_bytes - self.allocated_bytes)} were deallocated"
        return ""

    def change_since(self, earlier: ContentState) -> str:
        """Return how much was discarded or written since an ``earlier`` state; nothing if none is known to be."""
        if self.attachment != earlier.attachment:
            return ""
        if self.written_bytes > earlier.written_bytes:
            written = f"{capacity(self.written_bytes - earlier.written_bytes)} were written"
        else:
            written = "it was written" if self.modified_ns > earlier.modified_ns else ""
        return self.loss_since(earlier) or written
