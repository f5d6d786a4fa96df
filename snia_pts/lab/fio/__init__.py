"""Run fio: write its job files (``job``), parse its answers (``answer``) and accept them (``acceptance``)."""

from __future__ import annotations

from .acceptance import accept, accept_finished, blame
from .answer import (
    StatusStream,
    engine_cpu_percent,
    stream_bytes,
    sync_times,
    uncounted_ios,
    unexpected_messages,
)
from .echo import job_differences, require_echo, require_origin, uncompared_options
from .files import JobFiles, run_job
from .job import (
    STALL_SECONDS,
    TARGET,
    AnswerRejected,
    IoEngine,
    Section,
    command,
    count_threads,
    job_file,
    null_job_file,
    sections,
    thread_limit,
    timeout_seconds,
)
from .running_totals import RunningTotals, read_totals

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
    "accept_finished",
    "blame",
    "command",
    "count_threads",
    "engine_cpu_percent",
    "job_differences",
    "job_file",
    "null_job_file",
    "read_totals",
    "require_echo",
    "require_origin",
    "run_job",
    "sections",
    "stream_bytes",
    "sync_times",
    "thread_limit",
    "timeout_seconds",
    "uncompared_options",
    "uncounted_ios",
    "unexpected_messages",
]
