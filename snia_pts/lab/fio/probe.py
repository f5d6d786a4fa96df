"""Check before a run which version fio has, and how it can do I/O on the target."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from ...errors import HostFailed, TargetUnfit, ToolTooOld, UsageError
from ...files import create_file
from ...model.steps import Stimulus
from ...units import KIB, MIB
from .. import fio
from ..device.fio_name import fio_name
from ..evidence import pre_run_path
from ..process import program as process
from ..process.inherited import InheritedFiles

#: The fio I/O engines a run may choose, in order of preference.
IO_ENGINES: tuple[fio.IoEngine, ...] = ("io_uring", "libaio")
#: The oldest fio with which the suite's tests passed; README and scripts/setup also state it.
MIN_VERSION = (3, 33)

_SEED, _TIMEOUT_SECONDS = 1 << 61, 60
_EXCHANGED = "Check that fio on the PATH is an unmodified fio, and that no upgrade of it is in progress."
#: First access to memory takes time, so the probe of locked memory registers at most this much.
_MAX_PROBE_BYTES = 64 * MIB
#: The number of the capability to lock any amount of memory, in the initial user namespace (linux/capability.h).
_CAP_IPC_LOCK = 14


def fio_version(evidence: Path) -> str:
    """Return fio's version, such as ``3.33``; raises ToolMissing, or ToolTooOld."""
    finished = process.run(["fio", "--version"], evidence=pre_run_path(evidence, "fio-version"), timeout_seconds=30)
    version = finished.stdout.strip()
    if parse_version(version) < MIN_VERSION:
        raise ToolTooOld(
            program="fio",
            found=(version or finished.error_summary)[:80],
            required=".".join(map(str, MIN_VERSION)),
            package="fio",
        )
    return version.removeprefix("fio-")


def io_engines(choice: Literal["auto", "io_uring", "libaio"]) -> tuple[fio.IoEngine, ...]:
    """Return the I/O engines that the option ``--engine`` permits, the best first."""
    return IO_ENGINES if choice == "auto" else (choice,)


def exact_io_engines(io_engines: Sequence[fio.IoEngine], stimuli: Iterable[Stimulus]) -> tuple[fio.IoEngine, ...]:
    """Return those of ``io_engines`` that keep the queue depth of all stimuli; raises UsageError if none does.

    fio's io_uring (3.33 to 3.39) keeps as many I/Os outstanding as its ring has entries, whose number is a power of
    two: 8 for a queue depth of 6.  A stimulus with an engine of its own is not considered.
    """
    depths = {stimulus.outstanding_ios for stimulus in stimuli if "ioengine" not in dict(stimulus.options)}
    rounded = sorted(depth for depth in depths if depth & (depth - 1))
    exact = tuple(io_engine for io_engine in io_engines if not (io_engine == "io_uring" and rounded))
    if not exact:
        raise UsageError(
            detail=f"--engine io_uring: this fio engine rounds a queue depth of {rounded[0]} up to a power of two.",
            hint="Use --engine libaio, or auto.",
        )
    return exact


def choose_io_engine(
    path: str,
    sector_bytes: int,
    evidence: Path,
    io_engines: Sequence[fio.IoEngine],
    version: str,
    descriptor: int | None = None,
) -> fio.IoEngine:
    """Return the first of ``io_engines`` that can read the target with direct I/O.  Reads only.

    The target is the open ``descriptor`` if given, else ``path``.  Raises TargetUnfit, with fio's errors, if no engine
    can, and HostFailed if the answer is not that of the fio with this ``version``, or belongs to another job.
    """
    errors = []
    for io_engine in io_engines:
        probe = Stimulus(
            access="RND",
            read_percent=100,
            block_size_bytes=max(4096, sector_bytes),
            thread_count=1,
            queue_depth=1,
            range_offset_bytes=0,
            range_bytes=max(4096, sector_bytes),
            passes=1,
        )
        job = pre_run_path(evidence, f"probe-{io_engine}.fio")
        text = fio.job_file(probe, path, io_engine, _SEED)
        finished, answer = fio.run_job(job, text, _TIMEOUT_SECONDS, path, descriptor)
        try:
            fio.accept_finished(probe, finished, answer)
        except fio.AnswerRejected as refusal:
            errors.append(f"{io_engine}: {refusal.reason}")
            continue
        _require_origin(text, answer, version, finished.environment.get(fio.TARGET, ""))
        return io_engine
    raise TargetUnfit(
        path=path,
        reason="fio cannot read it with direct I/O: " + "; ".join(errors),
        hint="A file must lie on a file system with O_DIRECT (not tmpfs before Linux 6.6); try --engine libaio.",
    )


def _require_origin(text: str, answer: str, version: str, target: str = "") -> None:
    """Raise HostFailed unless the fio with this ``version`` gave ``answer`` to a probe's job file."""
    try:
        fio.require_origin(text, answer, version, target)
    except fio.AnswerRejected as refusal:
        raise HostFailed(step="preparation", what="fio", reason=refusal.reason, hint=_EXCHANGED) from None


def can_lock_buffers(stimuli: Sequence[Stimulus], evidence: Path, version: str) -> bool:
    """Return whether io_uring may register the buffers of ``stimuli`` with the kernel, which locks their memory.

    If the kernel limits locked memory (RLIMIT_MEMLOCK, without the capability CAP_IPC_LOCK), the limit applies to all
    programs of a user together.  The probe therefore registers as much as the largest stimulus needs, twice, because
    the next point is prepared while one runs.  If that is too much to probe quickly, the result is False.  Does no I/O
    on the target.  Raises HostFailed if the answer is not that of the fio with this ``version``, or of another job.
    """
    threads, depth, block_bytes = 1, 1, 4 * KIB
    limit_bytes = _lockable_bytes()
    if limit_bytes is not None:
        largest = max(stimuli, key=_locked_bytes)
        threads, depth, block_bytes = 2 * largest.thread_count, largest.queue_depth, largest.largest_block_bytes
        if 2 * _locked_bytes(largest) > min(limit_bytes, _MAX_PROBE_BYTES):
            return False
    probe = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=block_bytes,
        thread_count=threads,
        queue_depth=depth,
        range_offset_bytes=0,
        range_bytes=threads * block_bytes,
        passes=1,
    )
    job = pre_run_path(evidence, "fixed-buffers.fio")
    text = fio.null_job_file(probe, "io_uring", _SEED, fill=False, fixed_buffers=True)
    finished, answer = fio.run_job(job, text, _TIMEOUT_SECONDS)
    try:
        fio.accept_finished(probe, finished, answer)
    except fio.AnswerRejected:
        return False
    _require_origin(text, answer, version)
    return True


def _lockable_bytes() -> int | None:
    """Return how much memory the kernel lets this process lock; None if unlimited."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    capabilities = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    initial_namespace = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", str(2**32 - 1)]
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = limit == resource.RLIM_INFINITY or (capabilities >> _CAP_IPC_LOCK & 1 and initial_namespace)
    return None if unlimited else limit


def _locked_bytes(stimulus: Stimulus) -> int:
    """Return the locked memory of a stimulus's buffers, in bytes."""
    return stimulus.total_oio * stimulus.largest_block_bytes


def require_options(stimuli: Iterable[Stimulus], path: str, io_engine: fio.IoEngine, evidence: Path) -> None:
    """Check that fio accepts the options of all stimuli; raises UsageError with fio's error.  Does no I/O."""
    by_options = {stimulus.options: stimulus for stimulus in stimuli if stimulus.options}
    for number, (options, stimulus) in enumerate(by_options.items(), start=1):
        job = pre_run_path(evidence, f"options-{io_engine}-{number}.fio")
        create_file(job, fio.job_file(stimulus, path, io_engine, _SEED).encode(), replace=True)
        target = InheritedFiles(environment={fio.TARGET: fio_name(path)})
        finished = process.run(
            ("fio", "--parse-only", str(job)), evidence=job, timeout_seconds=_TIMEOUT_SECONDS, inherited=target
        )
        if finished.exit_code != 0:
            option_list = ", ".join(f"{key}={value}" for key, value in options)
            raise UsageError(
                detail=f"fio rejects the options {option_list} ({finished.error_summary}).",
                hint="Correct the fio options of the workload; fio --cmdhelp=OPTION lists the valid values.",
            )


def parse_version(text: str) -> tuple[int, int]:
    """Return (major, minor) from ``fio --version``; (0, 0) if the text has no version."""
    match = re.search(r"fio-([0-9]{1,9})\.([0-9]{1,9})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def describe_io_engine(io_engine: fio.IoEngine, *, refill: bool, fixed_buffers: bool) -> str:
    """Return the I/O engine as a report states it: with its buffers."""
    fixed = ", fixed buffers" if fixed_buffers else ""
    return f"{io_engine}{fixed}, random buffers {'refilled' if refill else 'scrambled'}"
