"""fio's options that a profile may set: those that shape I/O, and name no file, program or address.

Where and how long a workload runs, with which block size, threads and depth, is told in the standard's words; what the
numbers rest on (a new seed each time, all response times, the target's path) is the suite's.
"""

from __future__ import annotations

import re

#: I/O engines that do what they are told on the target, and only there.
ENGINES = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap"})
#: Those that wait for each I/O: a thread of theirs has one outstanding, whatever it is told.
WAITING = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
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
    }
)
#: Why an option is not for profiles, where somebody may well try it.
_INSTEAD = {
    "bs": "the workload's block_size tells it",
    "blocksize": "the workload's block_size tells it",
    "bssplit": "a workload has one block size",
    "bsrange": "a workload has one block size",
    "bs_unaligned": "a workload has one block size",
    "bs_is_seq_rand": "a workload has one block size",
    "rw": "access, read_percent and order tell it",
    "readwrite": "access, read_percent and order tell it",
    "rwmixread": "the workload's read_percent tells it",
    "rwmixwrite": "the workload's read_percent tells it",
    "numjobs": "the workload's thread_count tells it",
    "iodepth": "the workload's queue_depth tells it",
    "size": "the workload's range tells it",
    "filesize": "the workload's range tells it",
    "io_size": "the workload's range tells it",
    "offset": "a workload's range begins at the target's beginning",
    "runtime": "the workload's seconds tell it",
    "time_based": "the workload's seconds tell it",
    "ramp_time": "the workload's ramp_seconds tell it",
    "filename": "the target is told on the command line",
    "directory": "the target is told on the command line",
    "ioscheduler": "an axis with the key host.scheduler sets it, looks whether it took, and puts it back",
    "fsync_on_close": "end_fsync does the same",
    "latency_target": "fio would change the queue depth, which the workload tells",
    "gtod_reduce": "without response times there is nothing to judge",
    "verify": "the suite measures, and verifies not",
    "group_reporting": "the suite always reports all threads together",
    "disable_lat": "without response times there is nothing to judge",
    "disable_clat": "without response times there is nothing to judge",
}
#: What the suite itself reads: whether the page cache is in the way, and whether repeats go to the same places.
_SWITCHES = frozenset({"direct", "buffered", "randrepeat"})
_VALUE = re.compile(r"[A-Za-z0-9_.,:%+*=/-]{1,200}")


def refused(option: str, value: object) -> str:
    """Return why an option of fio may not have a value in a profile; nothing when it may."""
    if option not in ALLOWED:
        return _INSTEAD.get(option, "no option that a profile may set (docs/profiles.rst lists those)")
    if option == "ioengine" and value not in ENGINES:
        return f"expected an I/O engine of {', '.join(sorted(ENGINES))}, not {value!r}"
    if option in _SWITCHES and value not in (0, 1, "0", "1"):
        return f"expected 0 or 1, not {value!r}"
    if isinstance(value, str) and not _VALUE.fullmatch(value):
        return "expected a value of letters, digits and . , : % + * = / - _"
    return ""


def spoken(value: object) -> str:
    """Return a value as fio reads it."""
    return str(int(value)) if isinstance(value, bool) else str(value)
