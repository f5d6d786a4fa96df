"""Run fio: write its job files (``job``) and validate its answers (``answer``)."""

from __future__ import annotations

from .answer import (
    StatusStream,
    accept,
    blame,
    engine_cpu_percent,
    read_totals,
    stream_bytes,
    sync_times,
    uncounted_ios,
    unexpected_messages,
)
from .echo import job_differences, require_echo, require_version
from .files import JobFiles
from .job import (
    STALL_SECONDS,
    TARGET,
    AnswerRejected,
    IoEngine,
    Section,
    command,
    job_file,
    null_job_file,
    sections,
    thread_limit,
    timeout_seconds,
)
from .running import RunningTotals

__all__ = [
    "STALL_SECONDS",
    "TARGET",
    "AnswerRejected",
    "IoEngine",
    "JobFiles",
    "RunningTotals",
    "Section",
    "StatusStream",
    "accept",
    "blame",
    "command",
    "engine_cpu_percent",
    "job_differences",
    "job_file",
    "null_job_file",
    "read_totals",
    "require_echo",
    "require_version",
    "sections",
    "stream_bytes",
    "sync_times",
    "thread_limit",
    "timeout_seconds",
    "uncounted_ios",
    "unexpected_messages",
]
