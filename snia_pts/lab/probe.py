"""What is asked of fio before a run: which one it is, and how it can do I/O on the target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import TargetUnfit, ToolMissing, UsageError
from ..steps import Stimulus
from . import fio, process
from .evidence import looked_up

#: The fio I/O engines a run may choose, in order of preference.
IO_ENGINES: tuple[fio.IoEngine, ...] = ("io_uring", "libaio")
OLDEST = (3, 25)


def fio_version(evidence: Path) -> str:
    """Return fio's version; raises ToolMissing where there is none, or one too old."""
    finished = process.run(["fio", "--version"], evidence=looked_up(evidence, "fio-version"), timeout_seconds=30)
    version = finished.stdout.strip()
    if parse_version(version) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ToolMissing(
            program=f"fio {needed} or newer (found: {(version or finished.complaint)[:80]})", package="fio",
        )  # fmt: skip
    return version


def choose_io_engine(path: str, sector_bytes: int, evidence: Path, wanted: Sequence[fio.IoEngine]) -> fio.IoEngine:
    """Return the first of ``wanted`` that reads the target with direct I/O.  Reads only.

    Raises TargetUnfit, with fio's own words, when none does.
    """
    complaints = []
    for io_engine in wanted:
        probe = Stimulus(
            access="RND", read_percent=100, block_size_bytes=max(4096, sector_bytes), thread_count=1, queue_depth=1,
            range_offset_bytes=0, range_bytes=max(4096, sector_bytes), passes=1,
        )  # fmt: skip
        job = looked_up(evidence, f"probe-{io_engine}.fio")
        job.write_text(fio.job_file(probe, path, io_engine, 1 << 61), encoding="utf-8")
        output = job.with_suffix(".json")
        finished = process.run(fio.command(job), evidence=job, timeout_seconds=60)
        try:
            text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            fio.accept(probe, finished.exit_code, finished.timed_out, text)
        except fio.Refused as refusal:
            complaints.append(f"{io_engine}: {refusal.reason} ({finished.complaint})")
        else:
            return io_engine
    raise TargetUnfit(
        path=path,
        reason="fio cannot read it with direct I/O: " + "; ".join(complaints),
        hint="A file must lie on a file system with O_DIRECT (not tmpfs before Linux 6.6); try --engine libaio.",
    )


def require_options(stimuli: Iterable[Stimulus], path: str, io_engine: fio.IoEngine, evidence: Path) -> None:
    """Raise UsageError, with fio's own words, for options of stimuli that fio does not take.  Does no I/O."""
    told = {stimulus.options: stimulus for stimulus in stimuli if stimulus.options}
    for number, (options, stimulus) in enumerate(told.items(), start=1):
        job = looked_up(evidence, f"options-{io_engine}-{number}.fio")
        job.write_text(fio.job_file(stimulus, path, io_engine, 1 << 61), encoding="utf-8")
        finished = process.run(("fio", "--parse-only", str(job)), evidence=job, timeout_seconds=60)
        if finished.exit_code != 0:
            given = ", ".join(f"{key}={value}" for key, value in options)
            raise UsageError(
                detail=f"fio does not take {given} ({finished.complaint}).",
                hint="Correct the profile's options of fio; fio --cmdhelp=OPTION tells what each may be.",
            )


def parse_version(text: str) -> tuple[int, int]:
    """Return (major, minor) of ``fio --version``; (0, 0) when it says nothing of the kind."""
    match = re.search(r"fio-([0-9]{1,9})\.([0-9]{1,9})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
