"""The last page of every report: where its numbers come from, and how to get them again."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator, Sequence

from ..measurement import Measurement, Purged
from ..result import Gap, RunFacts, TestResult
from ..timeline import TimeLine
from ..units import GB, capacity, duration
from .header import when
from .host_share import host_tables
from .pages import Page
from .sums import PLACE as SUMS
from .sums import digest
from .tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands


def provenance(result: TestResult) -> Page:
    """Return the page of versions, seed, purge, preconditioning, idle gaps, evidence, host and steps to repeat."""
    blocks = (_run(result), _device(result), _course(result), *_settings(result), *host_tables(result), _steps(result))
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
        ("Host", f"{platform.hostname}, {platform.operating_system}"),
        ("CPU", f"{platform.cpu} ({platform.cpus} CPUs)" if platform.cpus else platform.cpu),
        ("Seed", str(told.seed)),
    )
    return facts(rows, title="Run")


def _device(result: TestResult) -> Table:
    dut = result.facts.dut
    rows = (
        ("Path, kind", f"{dut.path} ({dut.kind})"),
        ("Model", dut.model),
        ("Serial number", dut.serial),
        ("Firmware", dut.firmware),
        ("Interface", dut.bus),
        ("Capacity", f"{capacity(dut.capacity_bytes)} ({thousands(dut.capacity_bytes, 0)} bytes)"),
        ("Write cache", f"{dut.write_cache} ({dut.write_cache_source})"),
        ("Sectors", f"{dut.logical_sector_bytes} bytes logical, {dut.physical_sector_bytes} bytes physical"),
    )
    return facts(rows, title="Device under test")


def _course(result: TestResult) -> Table:
    continuous = [line for line in result.time_lines if line.phase != "WIPC"]
    rows = [
        *([] if result.purges else [("Purge", "none")]),
        *((_named("Purge", part), _purge(purged)) for part, purged in result.purges),
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
    if any(result.measurements):
        rows.append(("Digests of the answers", f"{SUMS}, whose own SHA-256 is {digest(result)}"))
    return facts(rows, title="What was done")


def _named(what: str, part: str) -> str:
    return f"{what}, {part}" if part else what


def _purge(purged: Purged) -> str:
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
        f"{stimulus.label}, {stimulus.passes} passes, TC {stimulus.thread_count}/QD {stimulus.queue_depth}: "
        f"{thousands(written / GB, 1)} GB written ({thousands(written, 0)} bytes) in {duration(seconds)}, "
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
    middle, worst = statistics.median(seconds), max(seconds)
    return f"{thousands(len(gaps), 0)} times: {middle:.3f} s without host I/O median, {worst:.3f} s longest"


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
    """Name the files that hold what the engine itself said, phase by phase."""
    named = [purged.evidence for _, purged in result.purges if purged.evidence]
    if named:
        yield f"purge {', '.join(named)}"
    for phase in dict.fromkeys(line.phase for line in result.time_lines):
        measured = [each for line in result.lines(phase) for each in line.measurements]
        yield from _range(phase, measured, "stretches")
    for loop in result.loops:
        points = [each for measured in loop.rounds for each in measured.measurements]
        yield from _range(_named("rounds", loop.part), points, "points")


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
        Column(heading="Setting", width=16), Column(heading="Value", width=28), Column(heading="Judgement", width=10),
        Column(heading="Better", width=14), Column(heading="Why", width=32),
    )  # fmt: skip
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
    """Return the command line with the run's seed, so that the offsets are the same again."""
    return told.command_line if "--seed" in told.command_line else (*told.command_line, "--seed", str(told.seed))


def _steps(result: TestResult) -> Table:
    told, platform = result.facts, result.facts.platform
    suite = f"snia-pts {platform.suite_version}"
    prepared = (
        f"Take the same device (serial number {told.dut.serial or 'unknown'}, "
        f"firmware {told.dut.firmware or 'unknown'}) on the same kind of host; everything on the device will be lost.",
        f"Install {suite} and {platform.engine} {platform.engine_version}.",
    )
    if told.dut.simulated:
        prepared = (
            f"Take any host: the drive is simulated ({told.dut.path}), and no device is needed or touched.",
            f"Install {suite}, with the preset as it was: the simulation is part of it.",
        )
    steps = (
        *prepared,
        f"Run, in a new --run-dir: {shlex.join(_repeatable(told))}",
        "Compare the measurement windows. To make this report again from the stored run, without the device: "
        "snia-pts report RUN.",
    )
    columns = (Column(heading="Step", align="right", width=6), Column(heading="What to do", width=94))
    rows = tuple((str(number), text) for number, text in enumerate(steps, start=1))
    return Table(kind="texts", columns=columns, rows=rows, title="Steps to repeat")
