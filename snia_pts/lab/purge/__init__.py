"""Purge methods, and the proof that a purge happened (PTS 2.0.2 section 3.2).

The drive itself reports which methods it supports.  A tool's exit code proves nothing: some devices report success and
keep the data.  So before the purge a pattern is written to blocks spread over the whole capacity; after it, the pattern
must be gone.
"""

from __future__ import annotations

from .choice import AUTO, METHODS, NONE, available_methods, is_command_of
from .method import Method, PurgeCapability
from .proof import FillProof
from .purger import NOT_PROVEN, Purger

__all__ = [
    "AUTO",
    "METHODS",
    "NONE",
    "NOT_PROVEN",
    "FillProof",
    "Method",
    "PurgeCapability",
    "Purger",
    "available_methods",
    "is_command_of",
]
