"""fio: how a stimulus is told to it, and when its answer is believed.

Measured facts behind the options (fio 3.33; ``tests/test_fio_contract.py`` holds each):

* ``randseed`` large and new for every stimulus: the default repeats the same LBAs on every start, and small
  neighbouring seeds collide between threads.
* ``norandommap``: the random map costs time and memory, and makes the last I/Os of a pass less random.
* ``allow_file_create=0``: fio creates a path that does not exist (the folders on the way it makes even so).
* ``thread``: after SIGKILL a forked job goes on writing.
* ``clocksource=clock_gettime``: saves two calibrations a start, which would also disturb a running fio.
* ``lat_percentiles``: response time is submission plus completion; fio's default leaves out the submission.
* ``scramble_buffers`` (fio's default): no 512 bytes repeat, at next to no cost.  ``refill_buffers`` makes data that
  compresses not at all instead of to 91 % within 4 KiB, but holds one thread to some 2 GB/s (``bench/random_data.py``):
  so it is the operator's choice, for drives that compress or deduplicate.
* Sequential threads get a share of the range each: on the same offsets the second reads what the first just touched.
* With ``group_reporting`` an answer tells only the sum of all threads.  Sequential threads are answered one by one, as
  each stream goes on where that one stopped.
* fio leaves out a last block shorter than the block size: a section of its own writes it.
* In a block-size mix fio aligns every random I/O to the smallest size.  512 bytes would put nearly every 4 KiB write
  across two of the device's own pages, so ``blockalign`` is 4 KiB where the mix has sizes of that and more.
* ``io_size`` ends a thread at its amount, going over its section again where that is smaller; ``time_based`` would
  overrule it, ``runtime`` bounds it.
* SIGUSR1 makes fio print a whole document with running totals.  ``status-interval`` does so by itself, but counts from
  fio's start, also while its threads wait for their release.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...model.attempt import RejectedAttempt
from ...model.steps import SAME_PLACES, BlockSize, Stimulus, mix_align_bytes
from ..device.fio_name import fio_name
from ..process.staged import THREAD_DONE, THREAD_READY

IoEngine = Literal["io_uring", "libaio"]
#: The environment variable by which a job file names its target.
TARGET = "SNIA_PTS_TARGET"
#: A drive may take so long over what it is to transfer: a small card with its calls of fdatasync does.
_SLOWEST_BYTES_PER_SECOND, _SLOWEST_IO_SECONDS = 2_000_000, 0.1
#: A drive may stand still for so long unless the operator says otherwise: beyond, it counts as failed.
STALL_SECONDS = 120.0
#: fio's own start and end, and what a busy host adds.
_AROUND_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One job of a fio run: a part of the range with its block size or sizes, done by ``jobs`` threads.

    ``io_bytes`` is what it transfers where that is no whole number of passes.
    """

    offset_bytes: int
    size_bytes: int
    block_size_bytes: BlockSize
    jobs: int
    io_bytes: int | None = None


class AnswerRejected(Exception):
    """fio's answer is not believed.  ``blame`` tells whether the device or the host failed, ``number`` is an errno.

    ``repeatable`` is a failure of fio alone, which rarely comes by chance; ``attempt`` is what is kept of it then.
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
    """Return the command line that runs a job file and leaves fio's whole answer beside it.

    ``staged`` threads wait before their I/O; the sign at the end keeps fio from redirecting what they say.  A
    ``sampled`` fio writes its answer, and before it the running totals at each SIGUSR1, to its standard output.
    """
    stops = (f"--exec_prerun={THREAD_READY} #", f"--exec_postrun={THREAD_DONE} #") if staged else ()
    output = () if sampled else (f"--output={job.with_suffix('.json')}",)
    return ("fio", "--output-format=json+", *output, *stops, str(job))


def job_file(stimulus: Stimulus, path: str, io_engine: IoEngine, seed: int, *, refill: bool = False) -> str:
    """Return the fio job file of a stimulus; its first line tells how to repeat the stimulus by hand.

    It takes the target from the environment, by which the suite gives fio the descriptor of what it holds.
    """
    opened = {"filename": f"${{{TARGET}}}", "allow_file_create": 0, "direct": 1}
    harm = ", and destroy what is on the target" if stimulus.read_percent < 100 else ""
    hint = f"# Repeat it{harm}: {TARGET}={shlex.quote(fio_name(path))} fio FILE\n"
    return hint + _job_file(stimulus, {**opened, "refill_buffers": int(refill)}, io_engine, seed)


def null_job_file(stimulus: Stimulus, io_engine: IoEngine, seed: int, *, fill: bool, refill: bool = False) -> str:
    """Return the fio job file of a stimulus of writes to nowhere, their buffers filled as on a drive, or not at all."""
    filled = {"refill_buffers": int(fill and refill), "scramble_buffers": int(fill)}
    return _job_file(stimulus, {"filename": "/dev/null", **filled}, io_engine, seed)


def _job_file(stimulus: Stimulus, target: Mapping[str, object], io_engine: IoEngine, seed: int) -> str:
    options: dict[str, object] = {
        **target,
        "ioengine": io_engine,
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
        **{key: value for key, value in stimulus.options if key != SAME_PLACES},
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
    """Split a stimulus over fio jobs: random threads share the range, sequential ones never share an LBA.

    Each sequential thread begins at its place in its share, and goes over the rest of that.  Raises Refused where the
    range holds fewer blocks than threads.
    """
    start, size, sizes = stimulus.range_offset_bytes, stimulus.range_bytes, stimulus.block_size_bytes
    if stimulus.access == "RND":
        yield Section(offset_bytes=start, size_bytes=size, block_size_bytes=sizes, jobs=stimulus.thread_count)
        return
    shares, threads = stimulus.share_bytes, stimulus.thread_count
    blocks, rest = divmod(size, stimulus.largest_block_bytes)
    if blocks < threads:
        raise AnswerRejected("host", f"{threads} sequential threads cannot share a range of {blocks} blocks")
    if stimulus.start_bytes and stimulus.passes is not None:
        raise ValueError("passes go over a range from its beginning")
    for thread, (share, skipped) in enumerate(zip(shares, stimulus.starts, strict=True)):
        yield Section(
            offset_bytes=start + skipped,
            size_bytes=share - skipped,
            block_size_bytes=sizes,
            jobs=1,
            io_bytes=_partial(stimulus, share, thread),
        )
        start += share
    if rest and stimulus.passes is not None:
        yield Section(offset_bytes=start, size_bytes=rest, block_size_bytes=rest, jobs=1)


def _partial(stimulus: Stimulus, share_bytes: int, thread: int) -> int | None:
    """Return what a sequential thread transfers of passes whose last is partial: of that all do the same, by a block.

    None where no pass is partial.
    """
    if stimulus.passes is None or stimulus.limit_bytes is None:
        return None
    block, whole = stimulus.largest_block_bytes, stimulus.passes - 1
    each, more = divmod((stimulus.limit_bytes - whole * stimulus.range_bytes) // block, stimulus.thread_count)
    return whole * share_bytes + (each + (thread < more)) * block


def timeout_seconds(stimulus: Stimulus, stall_seconds: float = STALL_SECONDS) -> float:
    """Return the wall-clock limit after which a stimulus counts as hung; beyond what ``accept`` believes."""
    if stimulus.seconds is not None:
        return stimulus.ramp_seconds + stimulus.seconds + stall_seconds + _AROUND_SECONDS
    amount = stimulus.amount_bytes or 0
    smallest = min((share.size_bytes for share in stimulus.block_shares), default=stimulus.largest_block_bytes)
    return amount / _SLOWEST_BYTES_PER_SECOND + amount / smallest * _SLOWEST_IO_SECONDS + stall_seconds + 180


def _sizes(sizes: BlockSize) -> tuple[str, ...]:
    """Return the lines that tell the size of each I/O: one, or the shares of a mix."""
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
    """Return how many bytes each thread transfers for a limit, in whole blocks that are not less together."""
    block = stimulus.largest_block_bytes
    return math.ceil(limit_bytes / stimulus.thread_count / block) * block
