"""The jobs of fio's results: the request of each, and what it measured.

Entries of one job section, and entries with equal options that ran at the same time, are threads of one job.  With
``group_reporting`` fio reports only the sum of all sections of a group, with the name of the first and the options of
the last; such an entry is rejected, unless all sections have the same options.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ImportRejected
from ..lab.fio.acceptance import require_no_error
from ..lab.fio.answer import combine, combined_sync_times, require_plausible
from ..lab.fio.job import AnswerRejected
from ..lab.fio.numbers import integer, number
from ..model.histogram import SyncTimes
from ..model.measurement import Transfers
from ..model.reported import ReportedFigures
from ..model.steps import SYNCHRONOUS_ENGINES, Access, Stimulus
from ..text import one_line
from ..units import KIB, counted
from . import options as opt
from .document import Document
from .transfers import NO_SIDE, SideResult, Times, normalize, read_side

_MAX_DEMAND = 1024
_COMPLETION = "of completion latency (clat), which leaves out the submission (fio measures both with lat_percentiles=1)"
_TEXT = (
    "it states the counts of I/Os exactly, rounds response times, and omits options such as direct, size and rate; an "
    "R/W mix is that of the counts, the duration the measured one"
)
_SEPARATE = "Run the jobs without group_reporting, or each in a file of its own, and import them again."
#: An entry is the sum of several jobs if its threads ran longer in total than the stated number of threads can, by more
#: than this share of one thread.  Shorter runtimes (ms) are not checked.
_MOST_ABOVE, _RATED_MS = 0.3, 100
#: The bytes may be less than I/Os times block size by this share, because I/Os at the end of a file or range are short.
_SIZE_SHARE = 0.02
#: The name of an I/O engine that the options do not state.
DEFAULT_ENGINE = "fio's default engine"
#: If at least this percentage of the I/Os were the only outstanding one, the engine waits for each I/O.
_ALONE_PERCENT = 99.9
#: With at least this number of expected reads (or writes), it is no coincidence that there are none.
_MANY_IOS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a job.  ``range_bytes`` is 0 and ``seconds`` None if they are not stated."""

    direction: str
    reads: int
    blocks: opt.BlockSizes
    threads: int
    depth: int
    range_bytes: int
    seconds: float | None
    ramp_seconds: float
    engine: str
    options: tuple[tuple[str, str], ...]

    @property
    def access(self) -> Access:
        return "RND" if self.direction.startswith("rand") else "SEQ"

    @property
    def stated_seconds(self) -> float | None:
        """The requested duration, if a specification can have it."""
        return self.seconds if self.seconds is not None and 0.1 <= self.seconds <= 7 * 86400 else None

    def stimulus(self, name: str, runtime_ms: int, engines: Sequence[str] = ()) -> Stimulus:
        """Return the stimulus; an unstated duration is the measured ``runtime_ms``.

        The I/O engine is an option if the ``engines`` of the run differ.
        """
        own_engine = (("ioengine", self.engine),) if len(engines) > 1 else ()
        seconds = self.seconds or max(1e-3, runtime_ms / 1000)
        return Stimulus(
            name=name,
            access=self.access,
            read_percent=self.reads,
            block_size_bytes=self.blocks.shares or self.blocks.largest,
            thread_count=self.threads,
            queue_depth=self.depth,
            range_offset_bytes=0,
            range_bytes=self.range_bytes if self.range_bytes >= self.blocks.largest else 0,
            seconds=seconds,
            ramp_seconds=0.0 if self.blocks.shares else self.ramp_seconds,
            options=tuple(sorted((*own_engine, *self.options))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job measured; ``file`` is the position of its file, ``group`` identifies the jobs that ran together.

    ``targets`` are the names of its files or devices, ``disks`` the disks below them; empty if they are not stated.
    ``concurrent`` are the names of other jobs that ran at the same time.  ``notes`` are facts for the reader.
    ``figures`` are those of a job whose counts of reads and writes, or response times, are not reported.
    """

    file: int
    time_ms: int
    name: str
    group: tuple[int, int, int]
    version: str
    request: Request
    read: Transfers
    write: Transfers
    figures: ReportedFigures | None
    cpu_percent: float | None
    sync: SyncTimes | None
    targets: tuple[str, ...]
    disks: tuple[str, ...]
    host: str
    notes: tuple[tuple[str, str], ...]
    concurrent: tuple[str, ...] = ()

    @property
    def runtime_ms(self) -> int:
        return max(self.read.runtime_ms, self.write.runtime_ms)


def jobs_of(document: Document, file: int, position: int, name: str) -> tuple[JobResult, ...]:
    """Return the jobs of a document, in order; messages call its file ``name``.  Raises ImportRejected."""
    entries = [_Entry(document, job, name) for job in document.jobs]
    groups: dict[tuple[Any, ...], list[_Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.group, entry.host, entry.job_key), []).append(entry)
    disks = _disks(document)
    results = [_job(members, (file, position, members[0].group), disks, document) for members in groups.values()]
    if not results:
        raise ImportRejected(path=name, reason="it has no jobs")
    return tuple(_with_concurrent(result, results) for result in results)


def _with_concurrent(result: JobResult, results: Sequence[JobResult]) -> JobResult:
    others = tuple(other.name for other in results if other is not result and other.group == result.group)
    return replace(result, concurrent=others)


def _disks(document: Document) -> tuple[str, ...]:
    """Return the names of the disks whose use fio reports."""
    usage = document.members.get("disk_util", [])
    entries = usage if isinstance(usage, list) else []
    names = (entry.get("name") for entry in entries if isinstance(entry, dict))
    return tuple(sorted({name for name in names if isinstance(name, str) and len(name) < 100}))


class _Entry:
    """One entry of a document: its options and values, checked by themselves."""

    def __init__(self, document: Document, job: Mapping[str, Any], file_name: str) -> None:
        self.file_name, self.label = file_name, _text(job.get("jobname"), "job")
        with _rejections(self):
            self.group = integer(job.get("groupid", 0))
            self.options = opt.parse_options(document.global_options, job.get("job options", {}))
            self.job = normalize(job)
        self.host = _text(job.get("hostname"), "")
        self.complete = document.complete
        self.stated = "job options" in job or bool(document.global_options)

    @property
    def job_key(self) -> tuple[object, ...]:
        """A key that is equal for entries that are threads of one job."""
        ignored = opt.OUTPUT_OPTIONS | {"name", "description", "filename", "offset", "numjobs"}
        shaping = tuple(sorted((key, value) for key, value in self.options.items() if key not in ignored))
        return (shaping, self.options.get("numjobs", "1"), "" if self.stated else self.label)

    def rejected(self, reason: str, hint: str = "") -> ImportRejected:
        hint = hint or "Import another file; docs/import.rst says what a file must contain."
        return ImportRejected(path=self.file_name, reason=f"job {self.label}: {reason}", hint=hint)


@contextmanager
def _rejections(entry: _Entry) -> Iterator[None]:
    """Convert every error that malformed values of an entry can cause to ImportRejected."""
    try:
        yield
    except ImportRejected:
        raise
    except AnswerRejected as error:
        raise entry.rejected(error.reason) from None
    except KeyError as error:
        raise entry.rejected(f"the value {error} is missing") from None
    except (IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise entry.rejected(f"invalid values ({str(error)[:200]})") from None


def _text(value: object, default: str) -> str:
    """Return a text that a record can store, on one line."""
    text = one_line(value.encode("utf-8", "replace").decode()) if isinstance(value, str) else ""
    return text[:200] or default


def _job(
    members: Sequence[_Entry], group: tuple[int, int, int], disks: tuple[str, ...], document: Document
) -> JobResult:
    """Return the job whose threads are the entries ``members``; raises ImportRejected."""
    first = members[0]
    with _rejections(first):
        for member in members:
            require_no_error(member.job, 0, "", "")
        request = _request(first, _threads(members))
        read, write, figures, notes = _read_sides(members, request)
        _require_io(first, request, read, write)
        if figures is None:
            _require_sizes(first, request, read.transfers, write.transfers)
            _require_mix(first, request, read.transfers, write.transfers)
        notes = (*_request_notes(first, request), *notes, *_trim_note(members))
        if "terminating on signal" in document.text:
            notes = (*notes, ("signal", "another process stopped fio before its end"))
        return JobResult(
            file=group[0],
            time_ms=document.timestamp_ms,
            name=first.label,
            group=group,
            version=document.version,
            request=request,
            read=read.transfers,
            write=write.transfers,
            figures=figures,
            cpu_percent=_cpu_percent(members),
            sync=_sync_times(members),
            targets=tuple(dict.fromkeys(target for member in members if (target := _target(member.options)))),
            disks=disks,
            host=first.host,
            notes=tuple(dict.fromkeys(notes)),
        )


# -- request ----------------------------------------------------------------------------------------------------------


def _threads(members: Sequence[_Entry]) -> int:
    """Return the number of threads of a job; raises ImportRejected if entries are sums of several jobs."""
    first, count = members[0], len(members)
    jobs = opt.whole_number(first.options, "numjobs", 1)
    if count > 1:
        if count % max(1, jobs):
            raise first.rejected(f"{count} entries of {jobs} threads cannot be told apart", _SEPARATE)
        return count
    runtimes = [integer(first.job[side].get("runtime", 0)) for side in ("read", "write", "mixed") if side in first.job]
    total, longest = integer(first.job.get("job_runtime", 0)), max(runtimes, default=0)
    if longest >= _RATED_MS and total > longest * (jobs + _MOST_ABOVE):
        reason = f"it is the sum of about {round(total / longest)} threads, but its options state {jobs}"
        raise first.rejected(f"{reason}: several jobs that group_reporting added up", _SEPARATE)
    return jobs


def _request(entry: _Entry, threads: int) -> Request:
    """Return what an entry's options ask for; raises ValueError if they are invalid, ImportRejected if missing."""
    options = entry.options
    if not entry.stated:
        hint = "Without them, block size and queue depth are unknown; measure again with fio 3."
        raise entry.rejected("its options are missing, as in files of old versions of fio", hint)
    reads, engine = opt.read_percent(options), options.get("ioengine", DEFAULT_ENGINE).partition(":")[0]
    blocks = opt.block_sizes(options, reads)
    if not 1 <= threads <= _MAX_DEMAND:
        raise entry.rejected(f"{threads} threads, expected 1 to {_MAX_DEMAND}")
    kept = {key: value for key, value in options.items() if key not in opt.STIMULUS_OPTIONS | opt.OUTPUT_OPTIONS}
    if entry.complete:
        kept.setdefault("direct", "0")  # fio's default
    if blocks.text:
        name, _, value = blocks.text.partition("=")
        kept[name] = value
    if ":" in options.get("rw", ""):
        kept["rw"] = options["rw"]
    if not opt.parse_size(options.get("size", "0"), opt.kb_base(options)):
        kept |= {"size": options["size"]} if "size" in options else {}
    seconds, ramp = (opt.parse_seconds(options.get(key, "0")) or 0.0 for key in ("runtime", "ramp_time"))
    return Request(
        direction=opt.direction(options),
        reads=reads,
        blocks=blocks,
        threads=threads,
        depth=_depth(entry, engine),
        range_bytes=opt.parse_size(options.get("size", "0"), opt.kb_base(options)) or 0,
        seconds=seconds if 1e-3 <= seconds <= 1e9 else None,
        ramp_seconds=ramp if ramp <= 1e9 else 0.0,
        engine=_text(engine, DEFAULT_ENGINE),
        options=tuple(sorted(kept.items())),
    )


def _depth(entry: _Entry, engine: str) -> int:
    """Return the number of outstanding I/Os per thread: 1 if the engine waits for each I/O."""
    depth = opt.whole_number(entry.options, "iodepth", 1)
    if not 1 <= depth <= _MAX_DEMAND:
        raise entry.rejected(f"queue depth {depth}, expected 1 to {_MAX_DEMAND}")
    return 1 if engine in SYNCHRONOUS_ENGINES or (engine == DEFAULT_ENGINE and _waits(entry)) else depth


def _waits(entry: _Entry) -> bool:
    """Return whether almost no I/O had another one outstanding."""
    alone = entry.job.get("iodepth_level", {}).get("1", 0)
    return number(alone) >= _ALONE_PERCENT


def _target(options: Mapping[str, str]) -> str:
    return _text(options.get("filename") or options.get("directory"), "")


def _request_notes(entry: _Entry, request: Request) -> Iterator[tuple[str, str]]:
    """Yield facts on how the I/O differed from what the options seem to say."""
    stated = opt.whole_number(entry.options, "iodepth", 1)
    if stated > request.depth:
        engine = request.engine if request.engine == DEFAULT_ENGINE else f"I/O engine {request.engine}"
        detail = f"iodepth={stated} has no effect with {engine}, which waits for each I/O"
        yield "queue depth", detail
    if request.blocks.text:
        sizes = f"{request.blocks.text}: the block size shown is the largest; the share of each size is not stated"
        yield "block sizes", sizes
    if "latency_target" in entry.options:
        yield "queue depth", f"fio changed it to meet latency_target={entry.options['latency_target']}"
    steady = entry.job.get("steadystate")
    if isinstance(steady, dict) and not steady.get("attained", 1):
        yield "fio's steady state", f"fio did not reach its criterion {_text(steady.get('ss'), 'steadystate')}"
    if not entry.complete:
        yield "normal output", _TEXT
    if "group_reporting" in entry.options and "job_runtime" not in entry.job:
        detail = f"this version of fio does not state how many threads it added up; its options state {request.threads}"
        yield "thread count", detail
    if request.engine == "null":
        yield "I/O engine null", "fio did no I/O on a device"


# -- results ----------------------------------------------------------------------------------------------------------


def _read_sides(
    members: Sequence[_Entry], request: Request
) -> tuple[SideResult, SideResult, ReportedFigures | None, tuple[tuple[str, str], ...]]:
    """Return reads and writes of all entries together; if these are not separate or not timed, only figures."""
    if "read" not in members[0].job and "mixed" in members[0].job:
        return _read_mixed(members, request)
    runtime = max(integer(member.job[side]["runtime"]) for member in members for side in ("read", "write"))
    stimulus = request.stimulus("", runtime)
    notes: list[tuple[str, str]] = []
    sides = []
    for name, requested in (("read", request.reads), ("write", 100 - request.reads)):
        parts = [read_side(stimulus, member.job, name) for member in members]  # type: ignore[arg-type]
        side = _add_entries(parts)
        if side.transfers.ios and not requested and "verify" in members[0].options:
            notes.append(("verification", f"{counted(side.transfers.ios, name)} that verified data are left out"))
            side = NO_SIDE
        sides.append(side)
        if len(members) > 1 and any(part.transfers.percentiles_ns for part in parts):
            detail = (
                "fio reports percentiles of each thread, which cannot be merged; use group_reporting, or the output "
                "format json+, which has bins"
            )
            notes.append(("percentiles", detail))
    read, write = sides
    notes += _time_notes(sides)
    if any(side.transfers.ios and side.times == "none" for side in sides):
        return read, write, _rates(read.transfers, write.transfers), tuple(notes)
    return read, write, None, tuple(notes)


def _add_entries(parts: Sequence[SideResult]) -> SideResult:
    """Return the sum of a side's entries; if one has no response times, the sum has none."""
    active = [part for part in parts if part.transfers.ios]
    if len(active) < 2:
        return active[0] if active else NO_SIDE
    times, percentiles = ({getattr(part, name) for part in active} for name in ("times", "percentiles"))
    transfers = combine([part.transfers for part in active])
    return SideResult(transfers=transfers, times=_weakest(times), percentiles=_weakest(percentiles))


def _weakest(kinds: set[Times]) -> Times:
    return "none" if "none" in kinds else "completion" if "completion" in kinds else "response"


def _time_notes(sides: Sequence[SideResult]) -> Iterator[tuple[str, str]]:
    active = [side for side in sides if side.transfers.ios]
    stated = [side for side in active if side.transfers.percentiles_ns]
    if any(side.times == "none" for side in active):
        yield "response times", "fio did not measure them (gtod_reduce or disable_lat)"
    elif any(side.times == "completion" for side in active):
        yield "response times", "completion latency (clat), which leaves out the submission; fio measured nothing else"
    elif stated and len(active) > 1:
        yield (
            "percentiles",
            "fio reports percentiles of reads and of writes, which cannot be merged; use the output format json+, "
            "which has bins",
        )
    elif any(side.percentiles == "completion" and (stated or side.transfers.histogram.counted) for side in active):
        yield "percentiles", _COMPLETION


def _rates(*sides: Transfers) -> ReportedFigures:
    """Return rates without response times; None for those of a runtime that is too short."""
    iops, bytes_per_second = (math.fsum(getattr(side, key) for side in sides) for key in ("iops", "bytes_per_second"))
    if not math.isfinite(iops):
        return ReportedFigures()
    return ReportedFigures(iops=iops, kib_per_second=bytes_per_second / KIB)


def _read_mixed(
    members: Sequence[_Entry], request: Request
) -> tuple[SideResult, SideResult, ReportedFigures | None, tuple[tuple[str, str], ...]]:
    """Return the results of ``unified_rw_reporting``: a side if there is only one, else the figures of both."""
    runtime = max(integer(member.job["mixed"]["runtime"]) for member in members)
    stimulus = request.stimulus("", runtime)
    empty = {"total_ios": 0, "io_bytes": 0, "lat_ns": {"N": 0}}
    jobs = [{**member.job, "read": member.job["mixed"], "write": empty} for member in members]
    side = _add_entries([read_side(stimulus, job, "read") for job in jobs])
    notes = () if 0 < request.reads < 100 and side.times == "response" else tuple(_time_notes([side]))
    if request.reads in (0, 100) and side.times != "none":
        return (side, NO_SIDE, None, notes) if request.reads else (NO_SIDE, side, None, notes)
    figures, transfers = _rates(side.transfers), side.transfers
    if side.times != "none":
        times = (transfers.response_min_ns / 1000, transfers.response_max_ns / 1000, transfers.response_mean_ns / 1000)
        figures = replace(figures, response_us=times)
    unified = ("reads and writes", "fio reported only their sum (unified_rw_reporting)")
    return side, NO_SIDE, figures, (*notes, unified)


def _require_io(entry: _Entry, request: Request, read: SideResult, write: SideResult) -> None:
    """Raise ImportRejected unless there are reads or writes."""
    if read.transfers.ios + write.transfers.ios:
        return
    if request.direction in opt.TRIMS:
        raise entry.rejected("it only trims; runs have reads and writes", "Import jobs that read or write.")
    raise entry.rejected("it did no I/O", "Run the job again.")


def _require_sizes(entry: _Entry, request: Request, *sides: Transfers) -> None:
    """Raise ImportRejected if the bytes are not those of the I/Os with the stated block size."""
    ios, amount = (sum(getattr(side, key) for side in sides) for key in ("ios", "transferred_bytes"))
    size = request.blocks.largest
    at_ends = (request.threads * (request.depth + 1)) * size
    is_possible = amount <= ios * size + at_ends and (
        not request.blocks.single or amount >= ios * size * (1 - _SIZE_SHARE) - at_ends
    )
    if not is_possible:
        reason = f"its I/Os have {amount / ios:.6g} bytes on average, but its options state at most {size}"
        raise entry.rejected(f"{reason}: several jobs that group_reporting added up?", _SEPARATE)


def _require_mix(entry: _Entry, request: Request, read: Transfers, write: Transfers) -> None:
    """Raise ImportRejected if there are I/Os of a side that was not requested, or none of one that was."""
    ios = read.ios + write.ios
    for side, percent in ((read, request.reads), (write, 100 - request.reads)):
        if (side.ios and not percent) or (not side.ios and ios * percent > 100 * _MANY_IOS):
            reason = f"it has {read.ios} reads and {write.ios} writes, but its options state rw={request.direction}"
            raise entry.rejected(f"{reason}: several jobs that group_reporting added up?", _SEPARATE)


def _trim_note(members: Sequence[_Entry]) -> Iterator[tuple[str, str]]:
    trims = sum(integer(member.job.get("trim", {}).get("total_ios", 0)) for member in members)
    if trims:
        yield "trims", f"{counted(trims, 'trim')} are left out"


def _cpu_percent(members: Sequence[_Entry]) -> float | None:
    """Return the CPU use of a job's threads (their mean); None if it is not reported."""
    if not all({"usr_cpu", "sys_cpu"} <= member.job.keys() for member in members):
        return None
    percents = [number(member.job[name]) for member in members for name in ("usr_cpu", "sys_cpu")]
    require_plausible(*percents)
    return min(100.0, sum(percents) / len(members))


def _sync_times(members: Sequence[_Entry]) -> SyncTimes | None:
    """Return the times of fsync and fdatasync; None without such calls, or if their bins are not reported."""
    if not any(member.job.get("sync", {}).get("lat_ns", {}).get("bins") for member in members):
        return None
    return combined_sync_times(member.job for member in members)
