"""The options of a fio job, as its result repeats them; sizes, times and directions are parsed, others stay texts.

fio repeats only options that have a value: flags such as ``time_based``, ``stonewall`` and ``group_reporting`` are
missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..model.steps import BlockShare
from ..text import one_line
from ..units import MAX_QUANTITY

#: Options that are values of the stimulus, or name its target.
STIMULUS_OPTIONS = frozenset(
    {
        "bs",
        "bsrange",
        "bssplit",
        "description",
        "directory",
        "filename",
        "group_reporting",
        "iodepth",
        "ioengine",
        "kb_base",
        "loops",
        "name",
        "new_group",
        "numjobs",
        "offset",
        "offset_increment",
        "ramp_time",
        "runtime",
        "rw",
        "rwmixread",
        "rwmixwrite",
        "size",
        "stonewall",
        "time_based",
    }
)
#: Options on fio's output and its start, which do not shape the I/O.
OUTPUT_OPTIONS = frozenset(
    {
        "allow_file_create",
        "allow_mounted_write",
        "allrandrepeat",
        "bwavgtime",
        "cgroup",
        "clat_percentiles",
        "clocksource",
        "create_fsync",
        "create_on_open",
        "create_only",
        "create_serialize",
        "disable_bw",
        "disable_bw_measurement",
        "disable_clat",
        "disable_lat",
        "disable_slat",
        "disk_util",
        "eta",
        "exec_postrun",
        "exec_prerun",
        "exit_what",
        "exitall",
        "fallocate",
        "file_service_type",
        "filename_format",
        "filesize",
        "gtod_cpu",
        "gtod_reduce",
        "iopsavgtime",
        "job_max_latency",
        "lat_percentiles",
        "log_alternate_epoch",
        "log_avg_msec",
        "log_compression",
        "log_entries",
        "log_hist_coarseness",
        "log_hist_msec",
        "log_max_value",
        "log_offset",
        "log_prio",
        "log_store_compressed",
        "log_unix_epoch",
        "log_window_value",
        "max_latency",
        "new_group",
        "nrfiles",
        "openfiles",
        "per_job_logs",
        "percentile_list",
        "pre_read",
        "randseed",
        "significant_figures",
        "slat_percentiles",
        "startdelay",
        "stats",
        "status_interval",
        "stonewall",
        "thread",
        "unified_rw_reporting",
        "unlink",
        "unlink_each_loop",
        "wait_for",
        "write_bw_log",
        "write_hist_log",
        "write_iops_log",
        "write_lat_log",
    }
)
#: fio's units are binary by default, and those with an i decimal; with kb_base=1000 it is the other way round.
_SIZE = re.compile(r"(\d{1,18})(?:([kmgtp])(i?))?b?", re.IGNORECASE | re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,15}", re.IGNORECASE | re.ASCII)
_TIME = re.compile(r"(\d{1,12})(d|h|m|s|ms|us)?", re.IGNORECASE | re.ASCII)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 1e-3, "us": 1e-6}
_PREFIXES = "kmgtp"
#: The directions that do no reads or writes.
TRIMS = ("trim", "randtrim")
#: The percentage of reads of each direction; None for a mix.
_READS: Mapping[str, int | None] = {
    "read": 100,
    "randread": 100,
    "write": 0,
    "randwrite": 0,
    "rw": None,
    "readwrite": None,
    "randrw": None,
    "trimwrite": 0,
    "randtrimwrite": 0,
    "trim": 0,
    "randtrim": 0,
}
_SYNONYMS = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "timeout": "runtime",
    "blocksize_unaligned": "bs_unaligned",
    "iodepth_batch_submit": "iodepth_batch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSizes:
    """The block sizes of a job: one size, the shares of a mix, or only the largest with fio's ``text`` of the others.

    ``largest`` is 0 if the sizes are not stated.
    """

    largest: int
    shares: tuple[BlockShare, ...] = ()
    text: str = ""

    @property
    def single(self) -> bool:
        """Whether all I/Os have the same size."""
        return not self.shares and not self.text


def parse_options(*levels: object) -> dict[str, str]:
    """Return the options of all levels; later levels override earlier ones, and synonyms get one name.

    Raises ValueError for an option that is neither a text nor a number.
    """
    options: dict[str, str] = {}
    for level in levels:
        if not isinstance(level, dict):
            raise ValueError("the options of a job are not an object")
        for key, value in level.items():
            if not isinstance(value, str | int | float) or len(key) > 100 or len(str(value)) > 4000:
                raise ValueError(f"the option {key[:100]!r} of a job is neither a text nor a number")
            text = one_line(str(value).encode("utf-8", "replace").decode())
            options[_SYNONYMS.get(key, str(key))] = text
    return options


def parse_size(text: str, kb_base: int = 1024) -> int | None:
    """Return the bytes of a size in fio's notation; None for any other text, such as a percentage."""
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    digits, prefix, inverse = match.groups()
    binary = (kb_base == 1024) != bool(inverse)
    factor = (1024 if binary else 1000) ** (_PREFIXES.index(prefix.lower()) + 1) if prefix else 1
    size = int(digits) * factor
    return size if size <= MAX_QUANTITY else None


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a time in fio's notation; None for any other text."""
    match = _TIME.fullmatch(text.strip())
    return int(match[1]) * _SECONDS[(match[2] or "").lower()] if match else None


def whole_number(options: Mapping[str, str], key: str, default: int) -> int:
    """Return an option that is a whole number; raises ValueError for any other text."""
    text = options.get(key, "")
    if not text:
        return default
    number = parse_size(text)
    if number is None:
        raise ValueError(f"{key}={text} is not a whole number")
    return number


def kb_base(options: Mapping[str, str]) -> int:
    """Return the base of fio's units."""
    return 1000 if options.get("kb_base") == "1000" else 1024


def direction(options: Mapping[str, str]) -> str:
    """Return the direction of the I/Os, such as ``randrw``; raises ValueError if fio has no such direction."""
    name = options.get("rw", "read").partition(":")[0].lower()
    name = "rw" if name == "readwrite" else name
    if name not in _READS:
        raise ValueError(f"unknown direction rw={options.get('rw')}")
    return name


def read_percent(options: Mapping[str, str]) -> int:
    """Return the requested percentage of reads; raises ValueError if it is invalid."""
    percent = _READS[direction(options)]
    if percent is None:
        writes = whole_number(options, "rwmixwrite", 50)
        percent = whole_number(options, "rwmixread", 100 - writes if writes <= 100 else 0)
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} % reads")
    return percent


def block_sizes(options: Mapping[str, str], reads: int) -> BlockSizes:
    """Return the block sizes of a job with this percentage of reads; raises ValueError if they are invalid."""
    base = kb_base(options)
    if text := options.get("bssplit"):
        return _split(text, base)
    if text := options.get("bsrange"):
        return _varying(f"bsrange={text}", re.split("[-,]", text), base)
    text = options.get("bs", "4096")
    parts = text.split(",")
    used = [parts[min(index, len(parts) - 1)] or "4096" for index in (0, 1) if (reads, 100 - reads)[index]]
    if len(set(used)) > 1:
        return _varying(f"bs={text}", used, base)
    return BlockSizes(largest=_sizes(used, base)[0])


def _varying(text: str, sizes: list[str], base: int) -> BlockSizes:
    return BlockSizes(largest=max(_sizes(sizes, base)), text=text)


def _sizes(texts: list[str], base: int) -> list[int]:
    sizes = [parse_size(text, base) for text in texts]
    if not sizes or not all(sizes):
        raise ValueError(f"invalid block size {','.join(texts)}")
    return [size for size in sizes if size]


def _split(text: str, base: int) -> BlockSizes:
    """Return the sizes of ``bssplit``, with their shares if reads and writes have the same, which add up to 100 %."""
    sides = [side.split(":") for side in text.split(",")]
    entries = [entry.partition("/")[::2] for side in sides for entry in side]
    sizes = _sizes([size for size, _ in entries], base)
    if (
        len(sides) > 1
        or sum(map(bool, sizes)) < 1
        or not all(re.fullmatch("[0-9]{1,3}", share) for _, share in entries)
    ):
        return BlockSizes(largest=max(sizes), text=f"bssplit={text}")
    shares = tuple(
        BlockShare(size_bytes=size, percent=int(share)) for size, (_, share) in zip(sizes, entries, strict=True)
    )
    if len(shares) == 1:
        return BlockSizes(largest=sizes[0])
    if sum(share.percent for share in shares) != 100 or not all(share.percent for share in shares):
        return BlockSizes(largest=max(sizes), text=f"bssplit={text}")
    return BlockSizes(largest=max(sizes), shares=shares)
