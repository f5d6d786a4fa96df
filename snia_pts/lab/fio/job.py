"""Write the fio job file and command line of a stimulus.

Measured facts behind the options (fio 3.33; ``tests/test_fio_contract.py`` verifies each):

* ``randseed`` is large and new for every stimulus: the default repeats the same LBAs on every start, and small
  neighbouring seeds collide between threads.
* ``norandommap``: the random map costs time and memory, and makes the last I/Os of a pass less random.
* ``allow_file_create=0``: by default fio creates a path that does not exist (it creates missing folders even so).
* ``thread``: a forked job continues to write after SIGKILL.
* ``clocksource=clock_gettime``: avoids two calibrations per start, which would also disturb a running fio.
* ``lat_percentiles``: response time is submission plus completion; fio's default omits the submission.
* ``fixedbufs`` (io_uring): the kernel maps a buffer once instead of for each I/O, which saves CPU time of 4 KiB I/Os
  (``docs/performance.rst``) and does not change the stimulus.  The memory of the buffers is locked.  If that is not
  permitted, fio fails with ENOMEM, so ``probe.can_lock_buffers`` checks it first.
* ``scramble_buffers`` (fio's default): no 512 bytes repeat, at almost no cost.  ``refill_buffers`` makes data
  incompressible instead of compressible to 91 % within 4 KiB, but limits one thread to some 2 GB/s
  (``bench/random_data.py``).  It is therefore an option, for drives that compress or deduplicate.
* Each sequential thread gets its own share of the range: on the same offsets the second thread would read what the
  first has just accessed.
* With ``group_reporting`` an answer has only the sum of all threads.  Sequential threads are reported one by one: each
  stream continues where it stopped.
* fio omits a last block shorter than the block size, so a separate section writes it.
* In a block-size mix fio aligns every random I/O to the smallest size.  With 512 bytes nearly every 4 KiB write would
  cross two of the device's pages, so ``blockalign`` is 4 KiB if the mix has sizes of 4 KiB or more.
* ``io_size`` ends a thread at its amount, and repeats its section if that is smaller; ``time_based`` would override
  it, ``runtime`` limits it.
* On SIGUSR1 fio prints a complete document with running totals.  ``status-interval`` does so by itself, but counts from
  fio's start, which includes the time that its threads wait for their release.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import CopyableError
from ...model.attempt import RejectedAttempt
from ...model.steps import SAME_OFFSETS, BlockSize, Stimulus, mix_align_bytes
from ..device.fio_name import fio_name
from ..process.staged import THREAD_DONE, THREAD_READY

IoEngine = Literal["io_uring", "libaio"]
#: The environment variable by which a job file names its target.
TARGET = "SNIA_PTS_TARGET"
#: The slowest drive that does not time out: a small card with fdatasync calls is this slow.
_MIN_BYTES_PER_SECOND, _MAX_IO_SECONDS = 2_000_000, 0.1
#: The default limit of a stall; a drive that stalls for longer counts as failed.
STALL_SECONDS = 120.0
#: fio's start and end, and the delay of a busy host.
_OVERHEAD_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One job of a fio run: a part of the range with its block size or sizes, run by ``jobs`` threads.

    ``io_bytes`` is the amount to transfer if it is not a whole number of passes.
    """

    offset_bytes: int
    size_bytes: int
    block_size_bytes: BlockSize
    jobs: int
    io_bytes: int | None = None


class AnswerRejected(CopyableError):
    """fio's answer is invalid.  ``blame`` is the side that failed, device or host; ``number`` is an errno.

    A ``repeatable`` failure is a rare, random one of fio itself; ``attempt`` is its record.
    """

    attempt: RejectedAttempt | None = None

    def __init__(
        self, blame: Literal["device", "host"], reason: str, number: int = 0, *, repeatable: bool = False
    ) -> None:
        super().__init__(reason)
        self.blame = blame
        self.reason = reason
        self.number = number
        self.repeatable = repeatable


def command(job: Path, *, staged: bool = False, sampled: bool = False) -> tuple[str, ...]:
    """Return the command line that runs a job file and writes fio's answer next to it.

    ``staged`` threads wait before their I/O; the # at the end prevents fio from redirecting their messages.  A
    ``sampled`` fio writes its answer to standard output, and before it the running totals at each SIGUSR1.
    """
    hooks = (f"--exec_prerun={THREAD_READY} #", f"--exec_postrun={THREAD_DONE} #") if staged else ()
    output = () if sampled else (f"--output={job.with_suffix('.json')}",)
    return ("fio", "--output-format=json+", *output, *hooks, str(job))


def job_file(
    stimulus: Stimulus, path: str, io_engine: IoEngine, seed: int, *, refill: bool = False, fixed_buffers: bool = False
) -> str:
    """Return the fio job file of a stimulus; its first line shows how to repeat the stimulus manually.

    With ``fixed_buffers``, io_uring registers its buffers with the kernel, unless the stimulus has another engine.  The
    job reads its target from the environment, through which the suite passes its open descriptor to fio.
    """
    target = {"filename": f"${{{TARGET}}}", "allow_file_create": 0, "direct": 1}
    warning = ", and destroy the data on the target" if stimulus.read_percent < 100 else ""
    count = stimulus.file_count
    names = shlex.quote(fio_name(path)) if count == 1 else f"FILE1:...:FILE{count}"  # fio reads no line of all names
    hint = f"# Repeat it{warning}: {TARGET}={names} fio FILE\n"
    return hint + _job_file(stimulus, {**target, "refill_buffers": int(refill)}, io_engine, seed, fixed_buffers)


def null_job_file(
    stimulus: Stimulus,
    io_engine: IoEngine,
    seed: int,
    *,
    fill: bool,
    refill: bool = False,
    fixed_buffers: bool = False,
) -> str:
    """Return the fio job file of a stimulus on /dev/null; with ``fill`` its buffers are filled as for a drive."""
    buffers = {"refill_buffers": int(fill and refill), "scramble_buffers": int(fill)}
    return _job_file(stimulus, {"filename": "/dev/null", **buffers}, io_engine, seed, fixed_buffers)


def _job_file(
    stimulus: Stimulus, target: Mapping[str, object], io_engine: IoEngine, seed: int, fixed_buffers: bool
) -> str:
    registers = fixed_buffers and dict(stimulus.options).get("ioengine", io_engine) == "io_uring"
    options: dict[str, object] = {
        **target,
        "ioengine": io_engine,
        **({"fixedbufs": 1} if registers else {}),
        "iodepth": stimulus.queue_depth,
        "thread": 1,
        "group_reporting": int(stimulus.streams < 2),
        "norandommap": 1,
        "randrepeat": 0,
        "randseed": seed,
        "random_generator": "tausworthe64",
        "clocksource": "clock_gettime",
        "clat_percentiles": 0,
        "lat_percentiles": 1,
        **_pattern(stimulus),
        **_extent(stimulus),
        **{key: value for key, value in stimulus.options if key != SAME_OFFSETS},
    }
    lines = ["[global]", *(f"{key}={value}" for key, value in options.items())]
    for number, section in enumerate(sections(stimulus)):
        lines += [
            f"[{stimulus.access.lower()}{number}]",
            f"offset={section.offset_bytes}",
            f"size={section.size_bytes}",
            *_sizes(section.block_size_bytes),
            f"numjobs={section.jobs}",
            *([] if section.io_bytes is None else [f"io_size={section.io_bytes}"]),
        ]
    return "\n".join(lines) + "\n"


def sections(stimulus: Stimulus) -> Iterator[Section]:
    """Split a stimulus into fio jobs: random threads share the range, sequential threads never share an LBA.

    Each sequential thread starts at its offset in its share and covers the remainder.  Raises AnswerRejected if the
    range has fewer blocks than threads.
    """
    start, size, sizes = stimulus.range_offset_bytes, stimulus.range_bytes, stimulus.block_size_bytes
    if stimulus.access == "RND":
        yield Section(offset_bytes=start, size_bytes=size, block_size_bytes=sizes, jobs=stimulus.thread_count)
        return
    shares, threads = stimulus.share_bytes, stimulus.thread_count
    blocks, tail_bytes = divmod(size, stimulus.largest_block_bytes)
    if blocks < threads:
        raise AnswerRejected("host", f"{threads} sequential threads cannot share a range of {blocks} blocks")
    if stimulus.start_bytes and stimulus.passes is not None:
        raise ValueError("a stimulus with passes must start at the beginning of its range")
    for thread, (share, skipped) in enumerate(zip(shares, stimulus.starts, strict=True)):
        yield Section(
            offset_bytes=start + skipped,
            size_bytes=share - skipped,
            block_size_bytes=sizes,
            jobs=1,
            io_bytes=_partial(stimulus, share, thread),
        )
        start += share
    if tail_bytes and stimulus.passes is not None:
        yield Section(offset_bytes=start, size_bytes=tail_bytes, block_size_bytes=tail_bytes, jobs=1)


def count_threads(stimulus: Stimulus) -> int:
    """Return how many threads fio starts: those of the stimulus, and one for a last block that is shorter."""
    return sum(section.jobs for section in sections(stimulus))


def _partial(stimulus: Stimulus, share_bytes: int, thread: int) -> int | None:
    """Return the bytes that a sequential thread transfers if the last pass is partial; None if no pass is partial.

    All threads transfer the same part of that pass, to within one block.
    """
    if stimulus.passes is None or stimulus.limit_bytes is None:
        return None
    block, full_passes = stimulus.largest_block_bytes, stimulus.passes - 1
    partial_blocks = (stimulus.limit_bytes - full_passes * stimulus.range_bytes) // block
    thread_blocks, extra_blocks = divmod(partial_blocks, stimulus.thread_count)
    return full_passes * share_bytes + (thread_blocks + (thread < extra_blocks)) * block


def timeout_seconds(stimulus: Stimulus, stall_seconds: float = STALL_SECONDS) -> float:
    """Return the wall-clock timeout after which a stimulus counts as hung; greater than any time ``accept`` allows."""
    if stimulus.seconds is not None:
        return stimulus.ramp_seconds + stimulus.seconds + stall_seconds + _OVERHEAD_SECONDS
    amount = stimulus.amount_bytes or 0
    smallest = min((share.size_bytes for share in stimulus.block_shares), default=stimulus.largest_block_bytes)
    return amount / _MIN_BYTES_PER_SECOND + amount / smallest * _MAX_IO_SECONDS + stall_seconds + 180


def _sizes(sizes: BlockSize) -> tuple[str, ...]:
    """Return the job file lines for the I/O size: one block size, or the shares of a mix."""
    if isinstance(sizes, int):
        return (f"bs={sizes}",)
    shares = ":".join(f"{share.size_bytes}/{share.percent}" for share in sizes)
    return (f"bssplit={shares}", f"blockalign={mix_align_bytes(sizes)}")


def _pattern(stimulus: Stimulus) -> Mapping[str, object]:
    names = {("RND", 100): "randread", ("RND", 0): "randwrite", ("SEQ", 100): "read", ("SEQ", 0): "write"}
    pure = names.get((stimulus.access, stimulus.read_percent))
    mixed = {"rw": "randrw" if stimulus.access == "RND" else "rw", "rwmixread": stimulus.read_percent}
    if pure and stimulus.skip_bytes:
        pure = f"{pure}:{stimulus.skip_bytes}"
    zones = ":".join(f"{zone.access_percent}/{zone.range_percent}" for zone in stimulus.skew)
    skew = {"random_distribution": f"zoned:{zones}"} if zones else {}
    return {**({"rw": pure} if pure else mixed), **skew}


def _extent(stimulus: Stimulus) -> Mapping[str, object]:
    if stimulus.seconds is None:
        if stimulus.skip_bytes > 0 or (stimulus.access == "RND" and stimulus.thread_count > 1):
            return {"io_size": (stimulus.amount_bytes or 0) // stimulus.thread_count}
        return {} if stimulus.limit_bytes is not None else {"loops": stimulus.passes}
    bound = {"runtime": f"{round(1000 * stimulus.seconds)}ms"}
    if stimulus.ramp_seconds:
        bound["ramp_time"] = f"{round(1000 * stimulus.ramp_seconds)}ms"
    if stimulus.limit_bytes is None:
        return {"time_based": 1, **bound}
    return {"io_size": thread_limit(stimulus, stimulus.limit_bytes), **bound}


def thread_limit(stimulus: Stimulus, limit_bytes: int) -> int:
    """Return how many bytes each thread transfers for a limit, rounded up to whole blocks."""
    block = stimulus.largest_block_bytes
    return math.ceil(limit_bytes / stimulus.thread_count / block) * block
