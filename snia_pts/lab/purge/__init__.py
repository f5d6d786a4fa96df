"""Purge methods, and the proof that a purge happened (PTS 2.0.2 section 3.2).

Which of them a drive has is read from the drive.  A tool's exit code proves nothing: there are devices that answer
success and keep the data.  So a pattern is written over blocks spread over the whole range before, and must be gone
after.
"""

from __future__ import annotations

from .choice import AUTO, METHODS, NONE, offers
from .method import Method, PurgeCapability
from .purger import Purger

__all__ = ["AUTO", "METHODS", "NONE", "Method", "PurgeCapability", "Purger", "offers"]
