"""The last page of every report: where its numbers come from, and how to get them again."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...model.description import AS_TOLD, said
from ...model.dut import Dut
from ...model.measurement import Measurement, PurgeOutcome
from ...model.time_series import TimeLine
from ...results.result import Gap, RunFacts, TestResult
from ...spec import ProfileSpec, Spec
from ...units import GB, duration, number
from ..checksums import PLACE as SUMS
from ..checksums import digest
from ..header import untold, user_capacity, when
from ..pages import Page
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands
from .array import array_tables
from .host_share import host_tables

#: More purges than these are told together.
_MOST_PURGES = 6
_COMPARE = (
    "Compare the measurement windows. To make this report again from the stored run, without the device: "
    "snia-pts report RUN."
)


def provenance(result: TestResult) -> Page:
    """Return the page of versions, seed, purge, preconditioning, idle gaps, evidence, host and steps to repeat."""
    blocks = (_run(result), *_origin(result), *_device(result), *array_tables(result), _course(result))
    blocks = (*blocks, *_settings(result), *host_tables(result), _steps(result))
    return Page(title="Provenance", blocks=blocks, flows=True)


def _run(result: TestResult) -> Table:
    told, platform = result.facts, result.facts.platform
    rows = (
        ("Command line", shlex.join(told.command_line)),
        ("Run id", told.run_id),
        ("Started, finished", f"{when(told.started)}, {when(result.finished)}"),
        ("Suite", f"snia-pts {platform.suite_version}"),
        ("Engine", f"{platform.engine} {platform.engine_version}, {platform.io_engine}"),
        ("Python", platform.python),
        ("Kernel", platform.kernel),
        ("Host", ", ".join(filter(None, (platform.hostname, platform.operating_system)))),
        ("CPU", f"{platform.cpu} ({platform.cpus} CPUs)" if platform.cpus else platform.cpu),
        ("Seed", "" if told.seed is None else str(told.seed)),
    )
    return facts(rows, title="Run")


def _device(result: TestResult) -> Iterator[Table]:
    dut, about = result.facts.dut, result.facts.about
    sold_as = (("Sold as", f"{about.capacity} ({AS_TOLD})"),) if about.capacity else ()
    rows = (
        ("Path, kind", f"{dut.path} ({dut.kind})"),
        ("Model", said(dut, about, "model")),
        ("Serial number", said(dut, about, "serial")),
        ("Firmware", said(dut, about, "firmware")),
        ("Interface", dut.bus),
        ("Capacity", user_capacity(dut, exact=True)),
        *sold_as,
        ("Write cache", f"{dut.write_cache} ({dut.write_cache_source})"),
        ("Sectors", ", ".join(_sectors(dut))),
    )
    yield facts(rows, title="Device under test")
    if about.features:
        yield facts([(each.name, each.value) for each in about.features], title=f"Features of the device, {AS_TOLD}")


def _sectors(dut: Dut) -> Iterator[str]:
    for size, name in ((dut.logical_sector_bytes, "logical"), (dut.physical_sector_bytes, "physical")):
        if size:
            yield f"{size} bytes {name}"


def _origin(result: TestResult) -> Iterator[Table]:
    """Give where a run comes from that another tool made."""
    told = result.facts.imported
    if told is None:
        return
    rows = (
        ("Measured by", told.label),
        ("File", f"evidence/{told.file}, SHA-256 {told.sha256}"),
        ("Imported", when(told.at)),
        ("Its name, its date", ", ".join(filter(None, (told.name, told.dated)))),
        ("Its command line", told.command_line),
        ("Its description of the device", " | ".join(line.strip() for line in told.description.splitlines() if line)),
        ("Its feature matrix", " | ".join(line.strip() for line in told.features.splitlines() if line)),
        ("Its options", " ".join(told.options)),
    )
    yield facts(rows, title="Where the run comes from")


def _course(result: TestResult) -> Table:
    continuous = [line for line in result.time_lines if line.phase != "WIPC"]
    rows = [
        *([] if result.purges else [("Purge", untold(result))]),
        *_purges(result.purges),
        *((_named("WIPC", line.part), _preconditioning(line)) for line in result.lines("WIPC")),
        ("Time without host I/O between points", _gaps([gap for gap in result.gaps if gap.asked_seconds is None])),
    ]
    asked = sorted({gap.asked_seconds for gap in result.gaps if gap.asked_seconds is not None})
    rows += [
        (f"Idle for {duration(seconds)}", _idles([gap for gap in result.gaps if gap.asked_seconds == seconds]))
        for seconds in asked
    ]
    if continuous:
        rows.append(("Starts of the engine, continuous stimuli", "; ".join(_starts(continuous))))
    rows.append(("Evidence", "; ".join(_evidence(result))))
    if result.facts.imported or any(result.measurements):
        rows.append(("Digests of the answers", f"{SUMS}, whose own SHA-256 is {digest(result)}"))
    return facts(rows, title="What was done")


def _named(what: str, part: str) -> str:
    return f"{what}, {part}" if part else what


def _purges(purges: Sequence[tuple[str, PurgeOutcome]]) -> Iterator[tuple[str, str]]:
    """Tell each purge; of many all that are alike at once."""
    if len(purges) <= _MOST_PURGES:
        yield from ((_named("Purge", part), _purge(purged)) for part, purged in purges)
        return
    alike: dict[tuple[str, int, int], list[PurgeOutcome]] = {}
    for _, purged in purges:
        alike.setdefault((purged.method, purged.samples, purged.survivors), []).append(purged)
    for found in alike.values():
        longest = max(found, key=lambda purged: purged.seconds)
        yield f"Purge, {thousands(len(found), 0)} times", f"{_purge(longest)}; the longest of them"


def _purge(purged: PurgeOutcome) -> str:
    if not purged.samples:
        proof = "not proven"
    else:
        proof = f"proof: of {purged.samples} blocks written before, {purged.survivors} were still there after"
    return f"{purged.method}, {duration(purged.seconds)}; {proof}"


def _preconditioning(line: TimeLine) -> str:
    if not line.measurements:
        return "not finished; what it wrote before it was stopped is not counted"
    measured, stimulus = line.measurements[-1], line.stimulus
    written, seconds = measured.write.transferred_bytes, measured.runtime_ms / 1000
    return (
        f"{stimulus.label}, {(stimulus.amount_bytes or 0) / stimulus.range_bytes:.3g} passes over "
        f"{number(stimulus.range_bytes / GB)} GB, TC {stimulus.thread_count}/QD {stimulus.queue_depth}: "
        f"{number(written / GB)} GB written ({thousands(written, 0)} bytes) in {duration(seconds)}, "
        f"{thousands(measured.mb_per_second, 1)} MB/s"
    )


def _gaps(gaps: Sequence[Gap]) -> str:
    if not gaps:
        return NOT_APPLICABLE
    return (
        f"{_median_and_worst([gap.idle_ms for gap in gaps])}; the suite's own share: "
        f"{_median_and_worst([gap.own_us / 1000 for gap in gaps])} (over {thousands(len(gaps), 0)} points)"
    )


def _idles(gaps: Sequence[Gap]) -> str:
    seconds = [gap.idle_ms / 1000 for gap in gaps]
    least, middle, most = min(seconds), statistics.median(seconds), max(seconds)
    times = f"{thousands(len(gaps), 0)} times without host I/O"
    return f"{times}: {least:.3f} s shortest, {middle:.3f} s median, {most:.3f} s longest"


def _starts(lines: Sequence[TimeLine]) -> Iterator[str]:
    """Tell how often the engine was started for each continuous stimulus, by phase; parts that are alike together."""
    counts: dict[tuple[str, int], list[str]] = {}
    for line in lines:
        counts.setdefault((line.phase, line.stretches), []).append(line.part)
    for (phase, stretches), parts in counts.items():
        where = f" in each of {len(parts)} parts" if len(parts) > 1 else ""
        yield f"{phase}: {stretches}{where}"


def _median_and_worst(milliseconds: list[float]) -> str:
    middle, worst = statistics.median(milliseconds), max(milliseconds)
    decimals = 1 if min(middle, worst) >= 10 else 3
    if not all(map(math.isfinite, (middle, worst))):
        return NOT_APPLICABLE
    return f"{thousands(middle, decimals)} ms median, {thousands(worst, decimals)} ms worst"


def _evidence(result: TestResult) -> Iterator[str]:
    """Name the files that hold what the engine itself said, phase by phase; or the one that was imported."""
    if result.facts.imported is not None:
        yield result.facts.imported.file
        return
    named = [purged.evidence for _, purged in result.purges if purged.evidence]
    if named:
        yield f"purge {', '.join(named if len(named) <= _MOST_PURGES else (named[0], '...', named[-1]))}"
    for phase in dict.fromkeys(line.phase for line in result.time_lines):
        measured = [each for line in result.lines(phase) for each in line.measurements]
        yield from _range(phase, measured, "stretches")
    parts = [(_named("rounds", loop.part), [loop]) for loop in result.loops]
    if isinstance(result.facts.spec, ProfileSpec):  # each of whose points is a loop
        parts = [("points", list(result.loops))]
    for name, loops in parts:
        points = [each for loop in loops for measured in loop.rounds for each in measured.measurements]
        yield from _range(name, sorted(points, key=lambda each: each.evidence), "points")


def _range(name: str, measured: Sequence[Measurement], what: str) -> Iterator[str]:
    files = [each.evidence for each in measured]
    if len(files) == 1:
        yield f"{name} {files[0]}"
    elif files:
        yield f"{name} {files[0]} to {files[-1]} ({thousands(len(files), 0)} {what})"


def _settings(result: TestResult) -> Iterator[Table]:
    """Give the settings of the host that may change the numbers, what matters first; why, of what is not good."""
    settings = result.facts.platform.settings
    columns = (
        Column(heading="Setting", width=16),
        Column(heading="Value", width=28),
        Column(heading="Judgement", width=10),
        Column(heading="Better", width=14),
        Column(heading="Why", width=32),
    )
    told = [each for judgement in ("matters", "noted", "good") for each in settings if each.judgement == judgement]
    rows: list[tuple[str, ...]] = [
        (each.name, f"{each.value} (was {each.before})" if each.before else each.value, each.judgement)
        + (("", "") if each.judgement == "good" else (each.wish, each.reason))
        for each in told
    ]
    if untold := [each.name for each in settings if each.judgement == "not told"]:
        rows.append(("others", UNKNOWN, "not told", "", ", ".join(untold)))
    if rows:
        yield Table(kind="texts", columns=columns, rows=tuple(rows), title="Host settings")


def _repeatable(told: RunFacts) -> tuple[str, ...]:
    """Return a command line that repeats the run with its seed, so that the offsets are the same, in a new folder."""
    return replace(told.options, seed=told.seed).command() if told.options else told.command_line


def _steps(result: TestResult) -> Table:
    told, platform = result.facts, result.facts.platform
    suite = f"snia-pts {platform.suite_version}"
    prepared = (
        f"Take the same device (serial number {told.dut.serial or 'unknown'}, "
        f"firmware {told.dut.firmware or 'unknown'}) on the same kind of host; everything on the device will be lost.",
        f"Install {suite} and {platform.engine} {platform.engine_version}.",
    )
    if told.imported is not None:
        prepared = (*prepared[:1], f"Install {told.imported.label}, or snia-pts, which has {_same(told.spec)}.")
        return _numbered((*prepared, f"Run, as then: {told.imported.command_line or UNKNOWN}", _COMPARE))
    if told.dut.simulated:
        prepared = (
            f"Take any host: the drive is simulated ({told.dut.path}), and no device is needed or touched.",
            f"Install {suite}, with the preset as it was: the simulation is part of it.",
        )
    alone = " by itself (it was one of several then)" if "/" in told.run_id else ""
    run = f"Run the test{alone}; a new folder is made in runs/: {shlex.join(_repeatable(told))}"
    return _numbered((*prepared, run, _COMPARE))


def _same(spec: Spec) -> str:
    """Return the verb that does what another tool did."""
    return f"profile run {spec.name}" if isinstance(spec, ProfileSpec) else f"{spec.test} --pts {spec.pts}"


def _numbered(steps: Sequence[str]) -> Table:
    columns = (Column(heading="Step", align="right", width=6), Column(heading="What to do", width=94))
    rows = tuple((str(number), text) for number, text in enumerate(steps, start=1))
    return Table(kind="texts", columns=columns, rows=rows, title="Steps to repeat")
