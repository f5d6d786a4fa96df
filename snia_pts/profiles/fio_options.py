"""The fio options that a profile may set: options that shape I/O, and name no file, program or address.

A profile sets the range, duration, block size, threads and queue depth with keys of its own, in the terms of the
standard.  The suite sets the path of the target, and a new seed for each point, unless the profile has ``randrepeat``.
fio measures all response times, unless the profile has ``gtod_reduce``.
"""

from __future__ import annotations

import re

from ..model.steps import SYNCHRONOUS_ENGINES

#: I/O engines that perform real I/O on the target, and only there.
ENGINES = frozenset({*SYNCHRONOUS_ENGINES, "libaio", "io_uring", "posixaio"})
ALLOWED = frozenset(
    {
        "ioengine",
        "direct",
        "buffered",
        "atomic",
        "fsync",
        "fdatasync",
        "end_fsync",
        "sync",
        "overwrite",
        "invalidate",
        "random_generator",
        "random_distribution",
        "percentage_random",
        "randrepeat",
        "norandommap",
        "softrandommap",
        "rate",
        "rate_min",
        "rate_iops",
        "rate_iops_min",
        "rate_process",
        "rate_cycle",
        "rate_ignore_thinktime",
        "thinktime",
        "thinktime_spin",
        "thinktime_blocks",
        "thinktime_iotime",
        "iodepth_batch",
        "iodepth_batch_submit",
        "iodepth_batch_complete",
        "iodepth_batch_complete_min",
        "iodepth_batch_complete_max",
        "iodepth_low",
        "serialize_overlap",
        "userspace_reap",
        "hipri",
        "fixedbufs",
        "registerfiles",
        "sqthread_poll",
        "sqthread_poll_cpu",
        "nonvectored",
        "force_async",
        "uncached",
        "nowait",
        "zero_buffers",
        "refill_buffers",
        "scramble_buffers",
        "buffer_compress_percentage",
        "buffer_compress_chunk",
        "dedupe_percentage",
        "dedupe_mode",
        "dedupe_working_set_percentage",
        "blockalign",
        "fadvise_hint",
        "write_hint",
        "cpus_allowed",
        "cpus_allowed_policy",
        "cpumask",
        "numa_cpu_nodes",
        "nice",
        "prio",
        "prioclass",
        "cmdprio_percentage",
        "lockmem",
        "gtod_reduce",
        "nrfiles",
        "openfiles",
        "file_service_type",
    }
)
#: Why a profile may not set an option, for options that an operator is likely to try.
_REJECTED = {
    "bs": "use the workload's block_size",
    "blocksize": "use the workload's block_size",
    "bssplit": "give the shares as the workload's block_size, for example 4 KiB/60:64 KiB/40",
    "bsrange": "give its sizes as shares of the workload's block_size, for example 4 KiB/50:8 KiB/50",
    "bs_unaligned": "use the workload's block_size",
    "bs_is_seq_rand": "use the workload's block_size",
    "rw": "use access, read_percent and order",
    "readwrite": "use access, read_percent and order",
    "rwmixread": "use the workload's read_percent",
    "rwmixwrite": "use the workload's read_percent",
    "numjobs": "use the workload's thread_count",
    "iodepth": "use the workload's queue_depth",
    "size": "use the workload's range",
    "filesize": "use the workload's range",
    "io_size": "use the workload's range",
    "offset": "a workload's range starts at the beginning of the target",
    "runtime": "use the workload's seconds",
    "time_based": "use the workload's seconds",
    "ramp_time": "use the workload's ramp_seconds",
    "filename": "the target is given on the command line",
    "directory": "the target is given on the command line",
    "ioscheduler": "use an axis with the key host.scheduler, which sets, verifies and restores it",
    "fsync_on_close": "use end_fsync, which syncs once at the end",
    "latency_target": "fio would change the queue depth, which the workload sets",
    "verify": "the suite measures and does not verify data",
    "group_reporting": "the suite always reports all threads together",
    "disable_lat": "use gtod_reduce, which measures no response times",
    "disable_clat": "use gtod_reduce, which measures no response times",
}
#: Options whose value the suite itself needs: they decide whether I/O uses the page cache, whether repeats use the same
#: offsets, and whether response times are measured.
_SWITCHES = frozenset({"direct", "buffered", "randrepeat", "gtod_reduce"})
#: Options that are a number of files, and their maximum: the option ``filename`` lists all files, and fio reads only
#: about 4000 characters of this list.
_FILE_COUNTS, _MAX_FILES = frozenset({"nrfiles", "openfiles"}), 128
_VALUE = re.compile(r"[A-Za-z0-9_.,:%+*=/-]{1,200}")


def rejection_reason(option: str, value: object) -> str:
    """Return why a profile may not set a fio option to a value; empty if it may."""
    if option not in ALLOWED:
        return _REJECTED.get(option, "a profile may not set this option (docs/profiles.rst lists the allowed ones)")
    if option == "ioengine" and value not in ENGINES:
        return f"expected an I/O engine of {', '.join(sorted(ENGINES))}, not {value!r}"
    if option in _SWITCHES and value not in (0, 1, "0", "1"):
        return f"expected 0 or 1, not {value!r}"
    if option in _FILE_COUNTS and not (str(value).isdecimal() and 1 <= int(str(value)) <= _MAX_FILES):
        return f"expected a number of 1 to {_MAX_FILES}, not {value!r}"
    if isinstance(value, str) and not _VALUE.fullmatch(value):
        return "expected a value of letters, digits and . , : % + * = / - _"
    return ""


def fio_value(value: object) -> str:
    """Return a value in the format of a fio job file."""
    return str(int(value)) if isinstance(value, bool) else str(value)
