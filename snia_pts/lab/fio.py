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
* fio leaves out a last block shorter than the block size: a section of its own writes it.
* In a block-size mix fio aligns every random I/O to the smallest size.  512 bytes would put nearly every 4 KiB write
  across two of the device's own pages, so ``blockalign`` is 4 KiB where the mix has sizes of that and more.
* ``io_size`` ends a thread at its amount, going over its section again where that is smaller; ``time_based`` would
  overrule it, ``runtime`` bounds it.
* ``status-interval`` adds a whole document with running totals at each interval, counted from fio's start, so that the
  first is early by the time fio takes to begin; after a halt of all I/O what is due meanwhile comes as one.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import TargetUnfit
from ..histogram import Histogram
from ..measurement import NOTHING, Transfers
from ..steps import BlockSize, Stimulus, mix
from ..units import MOST
from .held import THREAD_DONE, THREAD_READY
from .sampling import Side, Totals

IoEngine = Literal["io_uring", "libaio"]
#: fio reads lines of 4095 bytes, and takes the rest of a longer one for another option.
_LONGEST_NAME_BYTES = 4000

_HOST_ERRORS = {
    errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENOSPC, errno.EINVAL, errno.ENOENT, errno.EDEADLK,
    errno.EAGAIN,
}  # fmt: skip
#: The kernel itself takes a command for lost that is not answered by then.
_LONGEST_COMMAND_SECONDS = 30
#: What a busy host or a shared disk may take once; it is in the runtime, and so in the numbers.
_HICCUP_SECONDS = 2.0
#: A thread's time ends by its start, and is counted from its first I/O, in whole milliseconds.
_COUNTED_LATE_SECONDS = 0.005
#: Where the JSON begins: lines of text precede it, and a path in them may hold a brace.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
#: What the drives' own pages are at least.
_PAGE_BYTES = 4096
#: So many I/Os of one kind expected, and none done: that is no chance.
_NO_CHANCE = 50
_END = b"\n}\n"
_CPU = re.compile(r'"(?:usr|sys)_cpu"\s*:\s*(\d{1,9}(?:\.\d{1,9})?)')
_UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f$\\\"'#;]|^\s|\s$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One job of a fio run: a part of the range with its block size or sizes, done by ``jobs`` threads."""

    offset_bytes: int
    size_bytes: int
    block_size_bytes: BlockSize
    jobs: int


class Refused(Exception):
    """fio's answer is not believed.  ``blame`` tells whether the device or the host failed, ``number`` is an errno."""

    def __init__(self, blame: Literal["device", "host"], reason: str, number: int = 0) -> None:
        super().__init__(reason)
        self.blame = blame
        self.reason = reason
        self.number = number


def command(job: Path, *, held: bool = False) -> tuple[str, ...]:
    """Return the command line that runs a job file and leaves fio's whole answer beside it.

    ``held`` threads stand ready before their I/O; the sign at the end keeps fio from redirecting what they say.
    """
    stops = (f"--exec_prerun={THREAD_READY} #", f"--exec_postrun={THREAD_DONE} #") if held else ()
    return ("fio", "--output-format=json+", f"--output={job.with_suffix('.json')}", *stops, str(job))


def sampling_command(job: str, sample_seconds: float) -> tuple[str, ...]:
    """Return the command line that runs a job file and tells running totals every so often; in whole milliseconds."""
    return ("fio", "--output-format=json+", f"--status-interval={round(1000 * sample_seconds)}ms", job)


def job_file(stimulus: Stimulus, path: str, io_engine: IoEngine, seed: int, *, refill: bool = False) -> str:
    """Return the fio job file of a stimulus; whoever has it can repeat the stimulus by hand."""
    opened = {"filename": _escaped(speakable(path)), "allow_file_create": 0, "direct": 1}
    return _job_file(stimulus, {**opened, "refill_buffers": int(refill)}, io_engine, seed)


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
        "group_reporting": 1,
        "norandommap": 1,
        "randrepeat": 0,
        "randseed": seed,
        "random_generator": "tausworthe64",
        "clocksource": "clock_gettime",
        "clat_percentiles": 0,
        "lat_percentiles": 1,
        **_pattern(stimulus),
        **_extent(stimulus),
    }
    lines = ["[global]", *(f"{key}={value}" for key, value in options.items())]
    for number, section in enumerate(sections(stimulus)):
        lines += [
            f"[{stimulus.access.lower()}{number}]",
            f"offset={section.offset_bytes}",
            f"size={section.size_bytes}",
            *_sizes(section.block_size_bytes),
            f"numjobs={section.jobs}",
        ]
    return "\n".join(lines) + "\n"


def sections(stimulus: Stimulus) -> Iterator[Section]:
    """Split a stimulus over fio jobs: random threads share the range, sequential ones never share an LBA.

    Each sequential thread begins its part of ``start_bytes`` into its share, and goes over the rest of it.  Raises
    Refused where the range holds fewer blocks than threads.
    """
    start, size, sizes = stimulus.range_offset_bytes, stimulus.range_bytes, stimulus.block_size_bytes
    if stimulus.access == "RND":
        yield Section(offset_bytes=start, size_bytes=size, block_size_bytes=sizes, jobs=stimulus.thread_count)
        return
    block, threads = stimulus.largest_block_bytes, stimulus.thread_count
    blocks, rest = divmod(size, block)
    each, more = divmod(blocks, threads)
    if not each:
        raise Refused("host", f"{threads} sequential threads cannot share a range of {blocks} blocks")
    if stimulus.start_bytes and stimulus.passes is not None:
        raise ValueError("passes go over a range from its beginning")
    begun = stimulus.start_bytes // threads // block * block
    for thread in range(threads):
        share = (each + (thread < more)) * block
        skipped = begun if begun < share else 0
        yield Section(offset_bytes=start + skipped, size_bytes=share - skipped, block_size_bytes=sizes, jobs=1)
        start += share
    if rest and stimulus.passes is not None:
        yield Section(offset_bytes=start, size_bytes=rest, block_size_bytes=rest, jobs=1)


def speakable(path: str) -> str:
    """Return ``path`` if fio reads it as written; raises TargetUnfit for one that fio takes for something else."""
    if _UNSPEAKABLE.search(path) or any("\ud800" <= letter <= "\udfff" for letter in path):
        raise TargetUnfit(
            path=repr(path), reason="its name holds characters that fio would read as something else",
            hint="Use a name of UTF-8 without quotes, backslash, $, #, ; and control characters.",
        )  # fmt: skip
    if not path.startswith("/") or len(_escaped(path).encode()) > _LONGEST_NAME_BYTES:
        raise TargetUnfit(path=path, reason="fio would not read its name as a whole", hint="Use a shorter name.")
    return path


def _escaped(path: str) -> str:
    return path.replace(":", r"\:")


def timeout_seconds(stimulus: Stimulus) -> float:
    """Return the wall-clock limit after which a stimulus counts as hung."""
    if stimulus.seconds is not None:
        return stimulus.seconds + 90
    slowest_bytes_per_second = 2_000_000
    return (stimulus.amount_bytes or 0) / slowest_bytes_per_second + 300


def accept(stimulus: Stimulus, exit_code: int, timed_out: bool, output: str) -> tuple[Transfers, Transfers]:
    """Return the reads and writes of a stimulus, if everything in fio's answer says that it ran as asked.

    Raises Refused otherwise: exit code 0 alone proves nothing.
    """
    if timed_out:
        raise Refused("device", f"no answer within {timeout_seconds(stimulus):.0f} s")
    document = _document(output, exit_code)
    try:
        job = document["jobs"][0]
        _no_error(job, exit_code, output)
        if len(document["jobs"]) != 1:
            raise Refused("host", f"fio answered with {len(document['jobs'])} groups instead of one")
        read, write = _transfers(job["read"]), _transfers(job["write"])
        _amounts(stimulus, read, write)
        _runtime(stimulus, read, write)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused("host", f"fio's output is not understood ({error!r})") from error
    return read, write


def engine_cpu_percent(output: str) -> float | None:
    """Return what each of fio's threads used of a CPU in one answer, in the mean; None where it does not say."""
    user_and_system = [float(percent) for percent in _CPU.findall(output)]
    return min(100.0, sum(user_and_system)) if len(user_and_system) == 2 else None


class Answers:
    """Takes fio's output piece by piece, gives it answer by answer: a document each, with the text that precedes it.

    ``last`` is the answer given last, or what came after it.  No more than one answer is held.
    """

    def __init__(self) -> None:
        self._last = self._rest = b""

    @property
    def last(self) -> bytes:
        return self._rest or self._last

    def more(self, said: bytes) -> Iterator[str]:
        """Give the answers that are whole with what fio ``said`` now."""
        self._rest += said
        while (end := self._rest.find(_END)) >= 0:
            self._last, self._rest = self._rest[: end + len(_END)], self._rest[end + len(_END) :]
            yield self._last.decode("utf-8", "replace")


def totals(answer: str) -> Totals:
    """Return the running totals that an answer tells, the counters of one moment that may differ by a few I/Os.

    Raises Refused when it is not understood.
    """
    try:
        job = _document(answer, 0)["jobs"][0]
        return Totals(read=_side(job["read"]), write=_side(job["write"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused("host", f"fio's running totals are not understood ({error!r})") from error


def blame(error_number: int) -> Literal["device", "host"]:
    """Return whom an error number speaks of; where it may be either, the device."""
    return "host" if error_number in _HOST_ERRORS else "device"


def _sizes(sizes: BlockSize) -> tuple[str, ...]:
    """Return the lines that tell the size of each I/O: one, or the shares of a mix."""
    if isinstance(sizes, int):
        return (f"bs={sizes}",)
    shares = ":".join(f"{share.size_bytes}/{share.percent}" for share in sizes)
    bytes_each = [share.size_bytes for share in sizes]
    align = max(min(bytes_each), min(_PAGE_BYTES, max(bytes_each)))
    return (f"bssplit={shares}", f"blockalign={align}")


def _pattern(stimulus: Stimulus) -> Mapping[str, object]:
    names = {("RND", 100): "randread", ("RND", 0): "randwrite", ("SEQ", 100): "read", ("SEQ", 0): "write"}
    pure = names.get((stimulus.access, stimulus.read_percent))
    mixed = {"rw": "randrw" if stimulus.access == "RND" else "rw", "rwmixread": stimulus.read_percent}
    zones = ":".join(f"{zone.access_percent}/{zone.range_percent}" for zone in stimulus.skew)
    skew = {"random_distribution": f"zoned:{zones}"} if zones else {}
    return {**({"rw": pure} if pure else mixed), **skew}


def _extent(stimulus: Stimulus) -> Mapping[str, object]:
    if stimulus.seconds is None:
        return {"loops": stimulus.passes}
    bound = {"runtime": f"{round(1000 * stimulus.seconds)}ms"}
    if stimulus.limit_bytes is None:
        return {"time_based": 1, **bound}
    return {"io_size": _thread_limit(stimulus, stimulus.limit_bytes), **bound}


def _thread_limit(stimulus: Stimulus, limit_bytes: int) -> int:
    """Return how many bytes each thread transfers for a limit, in whole blocks that are not less together."""
    block = stimulus.largest_block_bytes
    return math.ceil(limit_bytes / stimulus.thread_count / block) * block


def _document(output: str, exit_code: int) -> dict[str, Any]:
    """Read fio's JSON, which text lines may precede."""
    begin = _BEGIN.search(output)
    try:
        document = json.loads(output[begin.start() :]) if begin else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refused("host", f"fio {_ended(exit_code)} and left no result")
    return document


def _ended(exit_code: int) -> str:
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _no_error(job: Mapping[str, Any], exit_code: int, output: str) -> None:
    error = int(job["error"]) or int(job.get("total_err", 0) and job.get("first_error", 5))
    if error:
        raise Refused(blame(error), f"fio reports error {error}, {os.strerror(error)}", error)
    if "terminating on signal" in _BEGIN.split(output, maxsplit=1)[0]:
        raise Refused("host", "fio was stopped from outside")
    if exit_code != 0:
        raise Refused("host", f"fio {_ended(exit_code)}")


def _side(side: Mapping[str, Any]) -> Side:
    """Read running totals; I/Os are counted when they end, as their response times are."""
    response = side["lat_ns"]
    _measurable(response["N"], side["io_bytes"], side["runtime"], response["mean"], response["max"])
    return Side(
        ios=int(response["N"]),
        transferred_bytes=int(side["io_bytes"]),
        runtime_ms=int(side["runtime"]),
        timed_ios=int(response["N"]),
        response_ns=float(response["mean"]) * int(response["N"]),
        response_max_ns=int(response["max"]),
        bins={int(edge): int(count) for edge, count in response.get("bins", {}).items()},
    )


def _transfers(side: Mapping[str, Any]) -> Transfers:
    if not side["total_ios"]:
        return NOTHING
    response = side["lat_ns"]
    bins = response["bins"]
    if sum(bins.values()) != side["total_ios"]:
        raise Refused("host", f"fio counts {side['total_ios']} I/Os, but not as many response times")
    transfers = Transfers(
        ios=int(side["total_ios"]),
        transferred_bytes=int(side["io_bytes"]),
        runtime_ms=int(side["runtime"]),
        response_min_ns=int(response["min"]),
        response_mean_ns=float(response["mean"]),
        response_max_ns=int(response["max"]),
        histogram=Histogram(counted=",".join([f"{edge} {count}" for edge, count in bins.items()])),
    )
    _measurable(
        transfers.ios, transfers.transferred_bytes, transfers.runtime_ms,
        transfers.response_min_ns, transfers.response_mean_ns, transfers.response_max_ns,
    )  # fmt: skip
    return transfers


def _measurable(*numbers: float) -> None:
    if not all(0 <= number <= MOST for number in numbers):
        raise ValueError("an amount below zero, or beyond all that can be measured")


def _amounts(stimulus: Stimulus, read: Transfers, write: Transfers) -> None:
    """Bytes and I/O counts must be there, agree with each other, and with what was asked."""
    ios, total = read.ios + write.ios, read.transferred_bytes + write.transferred_bytes
    if not ios or not total:
        raise Refused("host", "fio did no I/O at all (does something else use the target?)")
    for side, percent in ((read, stimulus.read_percent), (write, 100 - stimulus.read_percent)):
        if (side.ios and not percent) or (not side.ios and ios * percent > 100 * _NO_CHANCE):
            raise Refused("host", f"fio did not keep to the R/W mix {mix(stimulus.read_percent)}")
    if stimulus.amount_bytes is not None:
        if total != stimulus.amount_bytes:
            raise Refused("device", f"{total} bytes were transferred instead of {stimulus.amount_bytes}")
        return
    largest = stimulus.largest_block_bytes
    smallest = min((share.size_bytes for share in stimulus.block_shares), default=largest)
    if not ios * smallest <= total <= ios * largest:
        raise Refused("device", f"{ios} I/Os and {total} bytes do not fit together")
    limit = stimulus.limit_bytes
    if limit is not None and total > stimulus.thread_count * (_thread_limit(stimulus, limit) + largest):
        raise Refused("host", f"{total} bytes were transferred, beyond the limit of {limit}")


def _runtime(stimulus: Stimulus, read: Transfers, write: Transfers) -> None:
    """The runtime measured must be the one asked, but for the time that the outstanding I/Os need to come back.

    It may be shorter where a limit was reached.
    """
    if stimulus.seconds is None:
        return
    runtime, iops = max(read.runtime_ms, write.runtime_ms) / 1000, read.iops + write.iops
    drain = min(2 * stimulus.total_oio / iops if iops else math.inf, _LONGEST_COMMAND_SECONDS)
    total, limit = read.transferred_bytes + write.transferred_bytes, stimulus.limit_bytes
    if runtime < 0.99 * stimulus.seconds - _COUNTED_LATE_SECONDS and (limit is None or total < limit):
        short = "" if limit is None else f", and transferred {total} of {limit} bytes"
        raise Refused("host", f"the stimulus ran {runtime:g} s instead of {stimulus.seconds:g} s{short}")
    if runtime > 1.05 * stimulus.seconds + drain + _HICCUP_SECONDS:
        raise Refused("device", f"the device stalled: {runtime:g} s for a stimulus of {stimulus.seconds:g} s")
