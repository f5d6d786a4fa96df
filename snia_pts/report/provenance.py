"""The last page of every report: where its numbers come from, and how to get them again."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator

from ..measurement import Measurement
from ..result import RunFacts, TestResult
from ..units import GB, capacity, duration
from .header import when
from .pages import Page
from .tables import NOT_APPLICABLE, Column, Table, facts, thousands


def provenance(result: TestResult) -> Page:
    """Return the page of versions, seed, purge, preconditioning, idle gaps, evidence and steps to repeat."""
    return Page(title="Provenance", blocks=(_run(result), _device(result), _course(result), _steps(result)), flows=True)


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
        ("Sectors", f"{dut.logical_sector_bytes} bytes logical, {dut.physical_sector_bytes} bytes physical"),
    )
    return facts(rows, title="Device under test")


def _course(result: TestResult) -> Table:
    rows = (
        ("Purge", _purge(result)),
        ("WIPC", _preconditioning(result.preconditioned)),
        ("Time without host I/O between points", _gaps(result)),
        ("Evidence", ", ".join(_evidence(result))),
    )
    return facts(rows, title="What was done")


def _purge(result: TestResult) -> str:
    purged = result.purged
    if purged is None:
        return "none"
    if not purged.samples:
        proof = "not proven"
    else:
        proof = f"proof: of {purged.samples} blocks written before, {purged.survivors} were still there after"
    return f"{purged.method}, {duration(purged.seconds)}; {proof}"


def _preconditioning(measured: Measurement | None) -> str:
    if measured is None:
        return "not finished; what it wrote before it was stopped is not counted"
    stimulus, written = measured.stimulus, measured.write.transferred_bytes
    seconds = measured.runtime_ms / 1000
    return (
        f"{stimulus.label}, {stimulus.passes} passes, TC {stimulus.thread_count}/QD {stimulus.queue_depth}: "
        f"{thousands(written / GB, 1)} GB written ({thousands(written, 0)} bytes) in {duration(seconds)}, "
        f"{thousands(measured.mb_per_second, 1)} MB/s"
    )


def _gaps(result: TestResult) -> str:
    clockings = [each.clocking for measured in result.rounds for each in measured.measurements]
    idle = [each.idle_gap_ms for each in clockings if each.idle_gap_ms is not None]
    own = [each.own_gap_us / 1000 for each in clockings if each.own_gap_us is not None]
    if not idle or not own:
        return NOT_APPLICABLE
    return (
        f"{_median_and_worst(idle)}; the suite's own share: {_median_and_worst(own)} "
        f"(over {thousands(len(idle), 0)} points)"
    )


def _median_and_worst(milliseconds: list[float]) -> str:
    middle, worst = statistics.median(milliseconds), max(milliseconds)
    decimals = 1 if min(middle, worst) >= 10 else 3
    if not all(map(math.isfinite, (middle, worst))):
        return NOT_APPLICABLE
    return f"{thousands(middle, decimals)} ms median, {thousands(worst, decimals)} ms worst"


def _evidence(result: TestResult) -> Iterator[str]:
    """Name the files that hold what the engine itself said."""
    if result.purged is not None and result.purged.evidence:
        yield f"purge {result.purged.evidence}"
    if result.preconditioned is not None:
        yield f"WIPC {result.preconditioned.evidence}"
    points = [each.evidence for measured in result.rounds for each in measured.measurements]
    if points:
        yield f"rounds {points[0]} to {points[-1]} ({thousands(len(points), 0)} points)"


def _repeatable(told: RunFacts) -> tuple[str, ...]:
    """Return the command line with the run's seed, so that the offsets are the same again."""
    return told.command_line if "--seed" in told.command_line else (*told.command_line, "--seed", str(told.seed))


def _steps(result: TestResult) -> Table:
    told, platform = result.facts, result.facts.platform
    steps = (
        f"Take the same device (serial number {told.dut.serial or 'unknown'}, "
        f"firmware {told.dut.firmware or 'unknown'}) on the same kind of host; everything on the device will be lost.",
        f"Install snia-pts {platform.suite_version} and {platform.engine} {platform.engine_version}.",
        f"Run, in a new --run-dir: {shlex.join(_repeatable(told))}",
        "Compare the measurement windows. To make this report again from the stored run, without the device: "
        "snia-pts report RUN.",
    )
    columns = (Column(heading="Step", align="right", width=6), Column(heading="What to do", width=94))
    rows = tuple((str(number), text) for number, text in enumerate(steps, start=1))
    return Table(kind="texts", columns=columns, rows=rows, title="Steps to repeat")
