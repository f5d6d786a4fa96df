"""Answers of fio that contradict themselves, each made from a true one: no such answer may be accepted."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from snia_pts.lab import fio
from snia_pts.model.steps import Stimulus

Side = dict[str, Any]
Times = dict[str, Any]


def false_answer(honest: str, kind: str) -> str:
    """Return an answer that is false in one way of ``FALSE`` or ``FALSE_AS_REQUESTED``."""
    begin = honest.index("{")
    document = json.loads(honest[begin:])
    text = {**FALSE, **FALSE_AS_REQUESTED}[kind](document)
    return honest[:begin] + (text or "") + json.dumps(document)


def side_of(document: Mapping[str, Any]) -> Side:
    """Return the reads or the writes of an answer, whichever are more."""
    job = document["jobs"][0]
    side = max(job["read"], job["write"], key=lambda item: item["total_ios"])
    assert isinstance(side, dict)
    return side


def _side(change: Callable[[Side], object]) -> Callable[[dict[str, Any]], str]:
    def changed(document: dict[str, Any]) -> str:
        change(side_of(document))
        return ""

    return changed


def _times(change: Callable[[Times], object]) -> Callable[[dict[str, Any]], str]:
    return _side(lambda side: change(side["lat_ns"]))


def _bins(change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> Callable[[dict[str, Any]], str]:
    """Change the bins, (nanoseconds, I/Os) ascending."""

    def changed(times: Times) -> None:
        before = sorted((int(edge), count) for edge, count in times["bins"].items())
        times["bins"] = {str(edge): count for edge, count in change(before)}

    return _times(changed)


def _by(factor: float, *names: str) -> Callable[[dict[str, Any]], object]:
    """Multiply integers, or response times, by a factor."""

    def changed(numbers: dict[str, Any]) -> None:
        for name in names:
            numbers[name] = type(numbers[name])(numbers[name] * factor)

    return changed


def rate(side: Side) -> None:
    """Compute the rates from the counts."""
    runtime = side["runtime"] or 1
    side.update(iops=1000 * side["total_ios"] / runtime, bw_bytes=1000 * side["io_bytes"] // runtime)


def _all_counts(factor: float) -> Callable[[Side], None]:
    """Multiply all counts by the same factor, with the bytes and rates."""

    def changed(side: Side) -> None:
        _by(factor, "total_ios", "io_bytes")(side)
        times = side["lat_ns"]
        times["bins"] = {edge: int(count * factor) for edge, count in times["bins"].items()}
        times["N"] = sum(times["bins"].values())
        rate(side)

    return changed


def _midpoint(time_ns: int) -> int:
    """Return the midpoint of fio's bin with a time: there are 64 bins for each power of two."""
    width = 1 << max(0, time_ns.bit_length() - 7)
    return time_ns // width * width + width // 2


def _all_times(factor: int) -> Callable[[Times], None]:
    """Multiply all response times by the same factor."""

    def changed(times: Times) -> None:
        _by(factor, "min", "mean", "max")(times)
        times["bins"] = {str(_midpoint(int(edge) * factor)): count for edge, count in times["bins"].items()}

    return changed


def _runtime(factor: float) -> Callable[[Side], None]:
    def changed(side: Side) -> None:
        _by(factor, "runtime")(side)
        rate(side)

    return changed


def _one_long_io(side: Side) -> None:
    """Double all counts, and let one more I/O take nearly the whole runtime."""
    _all_counts(2)(side)
    times, longest_ns = side["lat_ns"], int(0.99e6 * side["runtime"])
    times["bins"][str(_midpoint(longest_ns))] = 1
    times.update(N=times["N"] + 1, max=longest_ns, mean=(times["N"] * times["mean"] + longest_ns) / (times["N"] + 1))
    side.update(total_ios=times["N"], io_bytes=side["io_bytes"] // side["total_ios"] * times["N"])
    rate(side)


def _swap_sides(document: dict[str, Any]) -> str:
    job = document["jobs"][0]
    job["read"], job["write"] = job["write"], job["read"]
    return ""


def _merged_tail(bins: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Make all but one I/O as slow as the slowest."""
    return [(bins[0][0], 1), (bins[-1][0], sum(count for _, count in bins) - 1)]


def _job(**changes: object) -> Callable[[dict[str, Any]], str]:
    def changed(document: dict[str, Any]) -> str:
        document["jobs"][0].update(changes)
        return ""

    return changed


def _option(place: str, **changes: str) -> Callable[[dict[str, Any]], str]:
    """Change options that fio echoes: those of all jobs, or of one job."""

    def changed(document: dict[str, Any]) -> str:
        (document if place == "global options" else document["jobs"][0])[place].update(changes)
        return ""

    return changed


def _other_option(document: dict[str, Any]) -> str:
    """Replace an option in fio's echo by another one."""
    del document["global options"]["norandommap"]
    return _option("global options", buffered="1")(document)


def accepted(stimulus: Stimulus, job_text: str, answer: str) -> bool:
    """Return whether an answer to a job file is accepted for some target."""
    try:
        fio.require_echo(job_text, answer, uncompared=fio.uncompared_options(stimulus) | {"filename"})
        fio.accept(stimulus, 0, False, answer)
    except fio.AnswerRejected:
        return False
    return True


#: Each changes a document, and returns a text to precede it.
FALSE: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "mean x 1000": _times(_by(1000, "mean")),
    "mean / 1000": _times(_by(0.001, "mean")),
    "mean x 2": _times(_by(2, "mean")),
    "mean / 2": _times(_by(0.5, "mean")),
    "mean of nothing": _times(lambda times: times.update(mean=0.0)),
    "mean is the least": _times(lambda times: times.update(mean=float(times["min"]))),
    "mean is the greatest": _times(lambda times: times.update(mean=float(times["max"]))),
    "least and greatest swapped": _times(lambda times: times.update(min=times["max"], max=times["min"])),
    "least above the greatest": _times(lambda times: times.update(min=times["max"] + 1)),
    "least of nothing": _times(lambda times: times.update(min=0)),
    "least x 1000": _times(_by(1000, "min")),
    "least above the mean": _times(lambda times: times.update(min=math.ceil(times["mean"]) + 1)),
    "greatest of nothing": _times(lambda times: times.update(max=0)),
    "greatest x 1000": _times(_by(1000, "max")),
    "greatest / 1000": _times(_by(0.001, "max")),
    "greatest below the mean": _times(lambda times: times.update(max=int(times["mean"] * 0.9))),
    "N is 1": _times(lambda times: times.update(N=1)),
    "N is 0": _times(lambda times: times.update(N=0)),
    "N is one more": _times(lambda times: times.update(N=times["N"] + 1)),
    "N x 100": _times(_by(100, "N")),
    "no bins": _times(lambda times: times.update(bins={})),
    "bins / 1000": _bins(lambda bins: [(edge // 1000, count) for edge, count in dict(bins).items()]),
    "bins x 1000": _bins(lambda bins: [(1000 * edge, count) for edge, count in bins]),
    "counts of bins x 100": _bins(lambda bins: [(edge, 100 * count) for edge, count in bins]),
    "a bin lost": _bins(lambda bins: bins[1:]),
    "a bin that is not there": _bins(lambda bins: [*bins, (bins[-1][0] * 4, 1)]),
    "bins beside their midpoints": _bins(lambda bins: [(edge + 1, count) for edge, count in bins]),
    "an empty bin": _bins(lambda bins: [*bins[:1], (bins[0][0] + (bins[-1][0] - bins[0][0]) // 2 + 1, 0), *bins[1:]]),
    "all in the highest bin": _bins(lambda bins: [(bins[-1][0], sum(count for _, count in bins))]),
    "all in the lowest bin": _bins(lambda bins: [(bins[0][0], sum(count for _, count in bins))]),
    "bins of another distribution": _bins(_merged_tail),
    "I/Os x 100": _side(_by(100, "total_ios")),
    "I/Os / 100": _side(_by(0.01, "total_ios")),
    "I/Os of none": _side(lambda side: side.update(total_ios=0)),
    "one I/O more": _side(lambda side: side.update(total_ios=side["total_ios"] + 1)),
    "bytes x 2": _side(_by(2, "io_bytes")),
    "bytes / 2": _side(_by(0.5, "io_bytes")),
    "bytes of none": _side(lambda side: side.update(io_bytes=0)),
    "512 bytes less": _side(lambda side: side.update(io_bytes=side["io_bytes"] - 512)),
    "runtime of none": _side(lambda side: side.update(runtime=0)),
    "another runtime than the rates'": _side(lambda side: side.update(runtime=side["runtime"] + 20)),
    "IOPS x 1000": _side(_by(1000, "iops")),
    "IOPS that are no number": _side(lambda side: side.update(iops=math.nan)),
    "bandwidth x 1000": _side(_by(1000, "bw_bytes")),
    "an I/O failed, error 0": lambda _: "fio: io_u error on file /x: Input/output error: write offset=0, buflen=4096\n",
    "terminated, error 0": lambda _: "\nfio: terminating on signal 15\n",
    "failed jobs, error 0": _job(total_err=1, first_error=5),
    "trims": _job(trim={"total_ios": 5, "io_bytes": 20480, "runtime": 0}),
    "trims without bytes": _job(trim={"total_ios": 1, "io_bytes": 0, "runtime": 0}),
    "no time since the start": _job(elapsed=0),
    "the name of another job": _job(jobname="rnd7"),
    "no name of a job": _job(jobname=None),
    "another seed": _option("global options", randseed="7"),
    "another depth": _option("global options", iodepth="77"),
    "another range": _option("job options", size="77"),
    "one more option": _option("job options", rate="1m", rate_iops="7"),
    "another option for a missing one": _other_option,
    "two groups": lambda document: document["jobs"].append(copy.deepcopy(document["jobs"][0])) or "",
}
#: These are consistent, but differ from the request: in time or mix, or although the queue was kept full.
FALSE_AS_REQUESTED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "all counts x 100": _side(_all_counts(100)),
    "all counts x 2 and a long I/O": _side(_one_long_io),
    "depth of 1": _job(iodepth_level={"1": 100.0, "2": 0.0, "4": 0.0, "8": 0.0, ">=64": 0.0}),
    "short I/Os": _side(lambda side: side.update(short_ios=7)),
    "dropped I/Os": _side(lambda side: side.update(drop_ios=1)),
    "all times x 1000": _times(_all_times(1000)),
    "runtime x 1000": _side(_runtime(1000)),
    "runtime / 10": _side(_runtime(0.1)),
    "reads for writes": _swap_sides,
}
