"""fio: how a stimulus is told to it (``job``), and when its answer is believed (``answer``)."""

from __future__ import annotations

from .answer import Answers, accept, blame, engine_cpu_percent, sync_times, totals
from .job import (
    IoEngine,
    Refused,
    Section,
    command,
    job_file,
    null_job_file,
    sampling_command,
    sections,
    speakable,
    timeout_seconds,
)

__all__ = [
    "Answers",
    "IoEngine",
    "Refused",
    "Section",
    "accept",
    "blame",
    "command",
    "engine_cpu_percent",
    "job_file",
    "null_job_file",
    "sampling_command",
    "sections",
    "speakable",
    "sync_times",
    "timeout_seconds",
    "totals",
]
