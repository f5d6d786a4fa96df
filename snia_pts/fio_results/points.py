"""Arrange jobs as points: workloads by direction; axes over block size, demand and R/W mix; repeats."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import ImportRejected
from ..profiles.spec import WHOLE, Axis
from ..spec import Scalar
from ..spec.sections import MAX_POINTS
from ..units import KIB, block_size, counted, parse_size
from .jobs import JobResult, Request
from .spec import FioSpec, FioWorkload

_MIXED = ("rw", "randrw")
#: The value of an option that a job leaves to fio.
_UNSET = "default"
_MAX_NAMED = 3
#: The length of a workload's name, and the digits of an option that is a number.
_MAX_NAME, _MAX_DIGITS = 60, 16

#: The identity of a point: its workload, and its values on the axes.
Key = tuple[str, tuple[tuple[str, Scalar], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """The specification, and the jobs of each point, by the point's key; the earliest first."""

    spec: FioSpec
    jobs: dict[Key, tuple[JobResult, ...]]


def arrange(jobs: Sequence[JobResult], source: str, files: Sequence[str]) -> Arrangement:
    """Return jobs as points, each measured as often as all others.

    ``source`` says where they come from; messages name ``files``.  Raises ImportRejected if some points have more jobs
    than others, and for too many combinations of values.
    """
    placement = _Placement(jobs)
    by_key: dict[Key, list[JobResult]] = {}
    for job in sorted(jobs, key=lambda job: (job.time_ms, job.group)):
        by_key.setdefault(placement.key(job), []).append(job)
    repeats = _require_equal_counts(by_key, files)
    return Arrangement(
        spec=placement.spec(repeats, source, files), jobs={key: tuple(repeated) for key, repeated in by_key.items()}
    )


def _require_equal_counts(by_key: dict[Key, list[JobResult]], files: Sequence[str]) -> int:
    """Return how often each point was measured; raises ImportRejected if the points differ in that."""
    for key, jobs in by_key.items():
        if len({job.group for job in jobs}) != len(jobs):
            reason = f"several jobs for {_label(key)} ran at the same time and cannot be told apart"
            hint = "Give each a file of its own, one after the other, or make their options equal."
            raise ImportRejected(path=_where(jobs, files), reason=reason, hint=hint)
        counts = {(job.time_ms, job.read, job.write) for job in jobs}
        if len(counts) != len(jobs):
            where = _where(jobs, files)
            raise ImportRejected(path=where, reason=f"it has the same result of {_label(key)} twice", hint=_ONCE)
    numbers = {len(jobs) for jobs in by_key.values()}
    if len(numbers) > 1:
        key, jobs = max(by_key.items(), key=lambda item: len(item[1]))
        most, least = len(jobs), min(numbers)
        reason = f"{_label(key)} was measured {most} times ({_where(jobs, files)}), others {counted(least, 'time')}"
        hint = "Import files in which each point was measured equally often: once, or once per round."
        raise ImportRejected(path=files[jobs[-1].file], reason=f"duplicate point: {reason}", hint=hint)
    return max(numbers)


_ONCE = "Name each file once."


def _where(jobs: Iterable[JobResult], files: Sequence[str]) -> str:
    names = list(dict.fromkeys(files[job.file] for job in jobs))
    return ", ".join([*names[:_MAX_NAMED], *(["..."] if len(names) > _MAX_NAMED else [])])


def _label(key: Key) -> str:
    name, values = key
    return ", ".join([name, *(f"{axis.removeprefix('fio.')}={value}" for axis, value in values)])


class _Placement:
    """The workloads and axes of jobs."""

    def __init__(self, jobs: Sequence[JobResult]) -> None:
        self._jobs = jobs
        requests = [job.request for job in jobs]
        self._varied = dict(_varied_options(requests))
        self._optional = {key: read for key, read in _OPTIONAL_AXES.items() if _varies(map(read, requests))}
        self._labels: dict[str, str] = {}
        self._names = self._distinct_names()

    def _distinct_names(self) -> bool:
        """Return whether only the names of jobs distinguish points of one document."""
        names_by_point: dict[object, set[str]] = {}
        for job in self._jobs:
            point = (job.file, job.group[:2], self._key(job, named=False))
            names_by_point.setdefault(point, set()).add(_stem(job.name))
        return any(len(names) > 1 for names in names_by_point.values())

    def key(self, job: JobResult) -> Key:
        """Return the key of a job's point."""
        return self._key(job, named=self._names)

    def _key(self, job: JobResult, *, named: bool) -> Key:
        return self._workload(job, named=named), tuple(self._values(job.request))

    def _workload(self, job: JobResult, *, named: bool) -> str:
        request = job.request
        shares = ":".join(f"{block_size(share.size_bytes)}/{share.percent}" for share in request.blocks.shares)
        mixed = f"bssplit={shares}" if shares else request.blocks.text
        words = [request.direction, *([mixed] if mixed else []), *([f"({_stem(job.name)})"] if named else [])]
        return self._labels.setdefault(" ".join(words), _shorten(" ".join(words), len(self._labels) + 1))

    def _values(self, request: Request) -> Iterable[tuple[str, Scalar]]:
        if request.blocks.single:
            yield "block_size", _size(request.blocks.largest)
        yield "thread_count", request.threads
        yield "queue_depth", request.depth
        if request.direction in _MIXED:
            yield "read_percent", request.reads
        yield from ((key, read(request)) for key, read in self._optional.items())
        options = _shaping_options(request)
        for key, decimal in self._varied.items():
            value = options.get(key, _UNSET)
            yield f"fio.{key}", int(value) if decimal and len(value) < _MAX_DIGITS else value

    def spec(self, repeats: int, source: str, files: Sequence[str]) -> FioSpec:
        """Return the specification; raises ImportRejected if it has too many combinations of values."""
        templates: dict[str, FioWorkload] = {}
        values: dict[str, dict[Scalar, None]] = {}
        users: dict[str, dict[str, None]] = {}
        for job in self._jobs:
            name, job_values = self.key(job)
            templates.setdefault(name, _template(name, job.request))
            for key, value in job_values:
                values.setdefault(key, {})[value] = None
                users.setdefault(key, {})[name] = None
        combinations = len(templates) * math.prod(map(len, values.values()))
        if combinations * repeats > MAX_POINTS:
            reason = f"their jobs differ in {len(values)} values at once, in {combinations} combinations"
            hint = "Import fewer files at once, for example those of one direction or block size."
            raise ImportRejected(path=files[0], reason=f"{counted(len(files), 'file')}: {reason}", hint=hint)
        axes = (_axis(key, tuple(known), tuple(users[key]), len(templates)) for key, known in values.items())
        return FioSpec(
            name="fio",
            title="fio",
            description=f"Jobs of fio, as their result files state them: {counted(len(self._jobs), 'job')}.",
            source=source[:120],
            repeats=repeats,
            workload=tuple(templates.values()),
            axis=tuple(axes),
        )


def _shaping_options(request: Request) -> dict[str, str]:
    return {**dict(request.options), "ioengine": request.engine}


def _varied_options(requests: Sequence[Request]) -> Iterator[tuple[str, bool]]:
    """Yield each option in which jobs of the same direction differ, and whether all its values are whole numbers."""
    by_direction: dict[str, list[dict[str, str]]] = {}
    for request in requests:
        by_direction.setdefault(request.direction, []).append(_shaping_options(request))
    every = [mapping for mappings in by_direction.values() for mapping in mappings]
    for key in sorted({key for mapping in every for key in mapping}):
        values = [{mapping.get(key, _UNSET) for mapping in mappings} for mappings in by_direction.values()]
        if any(len(distinct) > 1 for distinct in values):
            yield key, all(map(str.isdecimal, set().union(*values)))


#: Values that are an axis only if all jobs state them (not 0) and they differ.
_OPTIONAL_AXES: dict[str, Callable[[Request], int | float]] = {
    "range": lambda request: request.range_bytes,
    "seconds": lambda request: request.stated_seconds or 0.0,
}


def _varies(values: Iterable[float]) -> bool:
    distinct = set(values)
    return 0 not in distinct and len(distinct) > 1


def _shorten(name: str, number: int) -> str:
    """Return the name of a workload, with a number in place of the end of a long one."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 8]}... {number}"


def _size(size_bytes: int) -> str:
    """Return a block size exactly: ``4 KiB``, ``4000 B``."""
    return f"{size_bytes // KIB} KiB" if size_bytes % KIB == 0 else f"{size_bytes} B"


def _stem(name: str) -> str:
    """Return a job's name without digits, which often only count."""
    return re.sub(r"[\d_.-]*\d", "", name) or name


def _template(name: str, request: Request) -> FioWorkload:
    """Return the workload of a request, with default values for everything that an axis varies.

    So it does not depend on the order in which the jobs are imported.
    """
    is_mixed = request.direction in _MIXED
    return FioWorkload(
        name=name,
        access=request.access,
        read_percent=100 if is_mixed else request.reads,
        block_size="4 KiB" if request.blocks.single else _size(request.blocks.largest),
        range=str(request.range_bytes) if request.range_bytes else WHOLE,
        seconds=request.stated_seconds,
        ramp_seconds=request.ramp_seconds if request.ramp_seconds <= 86400 else 0.0,
    )


def _axis(key: str, values: tuple[Scalar, ...], users: tuple[str, ...], workloads: int) -> Axis:
    """Return an axis; quantities ascend."""
    ordered = list(values)
    if key == "block_size":
        ordered.sort(key=lambda value: parse_size(str(value)))
    elif all(isinstance(value, int | float) for value in values):
        ordered.sort(key=float)
    return Axis(key=key, values=tuple(ordered), workloads=users if len(users) < workloads else ())
