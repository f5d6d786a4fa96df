"""What is known of the machine and the programs that test, as a value (the report's block Test Platform)."""

from __future__ import annotations

from dataclasses import dataclass

from .units import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlatform:
    """Host and software of a run.  An empty string, or 0, means that the host does not say."""

    hostname: str
    motherboard: str
    cpu: str
    cpus: Amount
    memory_bytes: Amount
    operating_system: str
    kernel: str
    python: str
    suite_version: str
    engine: str
    engine_version: str
    io_engine: str  # and how its buffers are made random
