"""Convert results of fio to a run: its facts and warnings, and a round for each measurement of its points."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from .. import __version__
from ..errors import ImportRejected, TargetUnfit
from ..importer.runs import UNTIMED, ImportedRun, SourceFile
from ..model.dut import Dut
from ..model.measurement import NO_TRANSFERS, Measurement, Outcome
from ..model.steps import Round, Step, Stimulus
from ..model.test_platform import UNKNOWN_PLATFORM, TestPlatform
from ..profiles.procedure import points
from ..results.imported import Imported
from ..results.result import RunFacts, RunWarning
from ..spec import Deviation
from ..units import counted
from .document import has_json, read_documents
from .jobs import JobResult, jobs_of
from .normal_output import read_normal_output
from .points import Arrangement, Key, arrange
from .steady_state import steady_state_rule

_MAX_NAMED = 4
_MISSING = (
    "model, serial number, firmware, capacity and write cache of the device; the host and its settings; when each I/O "
    "ran; temperature and health"
)
_UNKNOWN_STATE = (
    "the files do not state whether the device was purged and preconditioned; its state decides the results"
)
#: Valid times, in milliseconds: years 2000 to 2199.  A host without a clock reports earlier ones.
_TIMES_MS = range(946_684_800_000, 7_258_118_400_000)


def read_run(files: Sequence[SourceFile], imported: Imported, command_line: tuple[str, ...]) -> ImportedRun:
    """Return the run whose points are the jobs in ``files``.  Raises ImportRejected."""
    jobs = [job for position, file in enumerate(files) for job in _jobs(file, position)]
    names = [file.name for file in files]
    dut = _device(jobs, names)
    version = " and ".join(sorted({job.version for job in jobs}))[:100]
    source = f"{counted(len(files), 'file')} of fio {version}".rstrip()
    try:
        arrangement = arrange(jobs, source, names)
        return ImportedRun(
            test="fio",
            facts=_facts(jobs, arrangement, dut, imported, version, command_line),
            steps=tuple(_steps(arrangement, dut, imported)),
        )
    except (ValueError, TargetUnfit) as error:
        if isinstance(error, ImportRejected):
            raise
        raise ImportRejected(path=names[0], reason=f"its jobs cannot be points of a run ({error})") from None


def _jobs(file: SourceFile, position: int) -> Iterator[JobResult]:
    text = file.content.decode("utf-8", "replace")
    documents = read_documents(text, file.name) if has_json(file.content) else (read_normal_output(text, file.name),)
    for number, document in enumerate(documents):
        yield from jobs_of(document, position, number, file.name)


# -- device -----------------------------------------------------------------------------------------------------------


def _device(jobs: Sequence[JobResult], files: Sequence[str]) -> Dut:
    """Return the device of all jobs; raises ImportRejected if they have several devices or hosts."""
    hosts = {job.host: job for job in jobs}
    if len(hosts) > 1:
        raise _mixed_error("hosts", list(hosts), hosts.values(), files)
    disks = {job.disks: job for job in jobs if job.disks}
    if len(disks) > 1:
        raise _mixed_error("disks", [" and ".join(names) for names in disks], disks.values(), files)
    # Jobs without a file name have the same target as the others if their disk is the same.
    targets = {target: job for job in jobs for target in job.targets or ([] if job.disks else [""])} or {"": jobs[0]}
    folders = {posixpath.dirname(target) for target in targets}
    if len(targets) > 1 and (len(folders) > 1 or folders & {"/dev", ""} or any(":" in target for target in targets)):
        raise _mixed_error("devices or files", [target or "not stated" for target in targets], targets.values(), files)
    names = next(iter(disks), ())
    path = next(iter(targets)) if len(targets) == 1 else folders.pop()
    return Dut(
        path=path or (f"unnamed file on {names[0]}" if len(names) == 1 else "not stated"),
        kind="imported",
        model="",
        serial="",
        firmware="",
        bus="",
        capacity_bytes=0,
        logical_sector_bytes=0,
        physical_sector_bytes=0,
        rotational=None,
        write_cache="unknown",
        discard=None,
        write_cache_source="not stated in the files",
    )


def _mixed_error(what: str, names: Sequence[str], jobs: Iterable[JobResult], files: Sequence[str]) -> ImportRejected:
    first, other = list(jobs)[:2]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    reason = f"the results are of several {what}: {names[0]} ({files[first.file]}), {names[1]}{more}"
    return ImportRejected(path=files[other.file], reason=reason, hint="Import the files of each device separately.")


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(
    jobs: Sequence[JobResult],
    arrangement: Arrangement,
    dut: Dut,
    imported: Imported,
    version: str,
    command_line: tuple[str, ...],
) -> RunFacts:
    times = [job.time_ms for job in jobs if job.time_ms in _TIMES_MS]
    started = min((job.time_ms - job.runtime_ms for job in jobs if job.time_ms in _TIMES_MS), default=0)
    engines = {job.request.engine for job in jobs}
    origin = replace(
        imported,
        tool="fio",
        version=version,
        name=jobs[0].name,
        date=f"{_utc(min(times))} to {_utc(max(times))}" if times else "",
        options=_common_options(jobs),
    )
    return RunFacts(
        run_id="",
        started=_utc(started) if started in _TIMES_MS else "",
        command_line=command_line,
        seed=None,
        test_class="enterprise",
        spec=arrangement.spec,
        dut=dut,
        platform=_platform(jobs[0].host, version, engines.pop() if len(engines) == 1 else ""),
        deviations=(_other_tool(version),),
        warnings=tuple(_warnings(arrangement)),
        imported=origin,
    )


def _other_tool(version: str) -> Deviation:
    return Deviation(
        what="measured by another tool",
        standard="evidence for every step",
        actual=f"fio {version}".rstrip() + "; its files contain only results",
        clause="results of fio",
    )


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).isoformat()


def _platform(host: str, version: str, io_engine: str) -> TestPlatform:
    return replace(
        UNKNOWN_PLATFORM,
        hostname=host,
        suite_version=__version__,
        engine="fio",
        engine_version=version,
        io_engine=io_engine,
    )


def _common_options(jobs: Sequence[JobResult]) -> tuple[str, ...]:
    """Return the options that all jobs have."""
    common = set.intersection(*(set(job.request.options) for job in jobs))
    return tuple(f"{key}={value}" for key, value in sorted(common))


def _warnings(arrangement: Arrangement) -> Iterator[RunWarning]:
    """Yield what the files do not state, and the notes on jobs, each with its points."""
    yield RunWarning(what="state of the device", detail=_UNKNOWN_STATE)
    yield RunWarning(what="missing in the files", detail=_MISSING)
    repeats, needed, count = arrangement.spec.repeats, steady_state_rule().window_rounds, len(arrangement.jobs)
    if repeats < needed:
        detail = f"not judged: each point was measured {counted(repeats, 'time')}, and a window has {needed} rounds"
        yield RunWarning(what="steady state", detail=detail)
    if repeats > 1:
        detail = f"each point has {repeats} measurements, which count as rounds of one device in chronological order"
        yield RunWarning(what="rounds", detail=f"{detail} (the files do not state its serial number)")
    if repeats > 1 and any(side.percentiles_ns for job in _all_jobs(arrangement) for side in (job.read, job.write)):
        yield RunWarning(
            what="percentiles",
            detail=(
                "fio reports percentiles of each round, which cannot be merged; use the output format json+, "
                "which has bins"
            ),
        )
    noted: dict[tuple[str, str], dict[Key, str]] = {}
    for key, jobs in arrangement.jobs.items():
        for job in jobs:
            for note in (*job.notes, *_concurrent(job)):
                noted.setdefault(note, {})[key] = job.name
    for (what, detail), found in noted.items():
        where = (
            "all points" if len(found) == count else f"{counted(len(found), 'point')} of {count}: {_join_names(found)}"
        )
        yield RunWarning(what=what, detail=detail if count == 1 else f"{detail} ({where})")


def _all_jobs(arrangement: Arrangement) -> Iterator[JobResult]:
    return (job for jobs in arrangement.jobs.values() for job in jobs)


def _join_names(found: dict[Key, str]) -> str:
    names = list(dict.fromkeys(f"{name} of job {job}" for (name, _), job in found.items()))
    return ", ".join([*names[:_MAX_NAMED], *(["..."] if len(names) > _MAX_NAMED else [])])


def _concurrent(job: JobResult) -> Iterator[tuple[str, str]]:
    if job.concurrent:
        names = ", ".join(sorted({job.name, *job.concurrent}))[:200]
        yield "concurrent jobs", f"fio ran {names} at the same time; each point has only its own I/Os"


# -- steps ------------------------------------------------------------------------------------------------------------


def _steps(arrangement: Arrangement, dut: Dut, imported: Imported) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
    """Yield a round for each measurement of a point: the first measurements of all points, then the second ones."""
    names = {
        (point.workload.name, tuple(sorted(point.axis_values.items()))): point.name
        for point in points(arrangement.spec, dut)
    }
    engines = tuple({job.request.engine for job in _all_jobs(arrangement)})
    for number in range(arrangement.spec.repeats):
        for (workload, values), jobs in arrangement.jobs.items():
            job, name = jobs[number], names[workload, tuple(sorted(values))]
            stimulus = job.request.stimulus(name, job.runtime_ms, engines)
            yield Round(part=name, number=number + 1, stimuli=(stimulus,)), (_measurement(job, stimulus, imported),)


def _measurement(job: JobResult, stimulus: Stimulus, imported: Imported) -> Measurement:
    copy, has_counts = imported.files[job.file], job.figures is None
    is_json = copy.name.endswith(".json")
    return Measurement(
        stimulus=stimulus,
        seed=0,
        read=job.read if has_counts else NO_TRANSFERS,
        write=job.write if has_counts else NO_TRANSFERS,
        timing=UNTIMED,
        evidence=copy.name.removesuffix(".json") if is_json else "",
        evidence_sha256=copy.sha256 if is_json else "",
        engine_cpu_percent=job.cpu_percent,
        sync=job.sync,
        reported=job.figures,
    )
