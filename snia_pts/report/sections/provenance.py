"""The last page of every report: the origin of its numbers, and how to repeat the run."""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ...model.description import STATED, as_stated, display_value
from ...model.dut import Dut
from ...model.measurement import PurgeOutcome
from ...model.steps import Stimulus
from ...model.test_platform import HostSetting
from ...model.time_series import TimeLine
from ...results.comparison import MIN_INTERVAL_ROUNDS
from ...results.imported import Imported
from ...results.result import Gap, RunFacts, TestResult
from ...units import capacity, counted, duration, number
from ..checksums import FILE_NAME as CHECKSUMS_FILE
from ..checksums import ID_DIGITS, digest, report_id
from ..header import date, none_or_not_reported, user_capacity, when
from ..pages import Page, Prose
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands
from .array import array_tables
from .host_share import host_tables

#: If there are more purges than this, similar ones share a row.
_MAX_PURGES = 6
#: The most evidence files of one kind that are listed.
_MAX_FILES = 8
#: The most I/O engines that are listed.
_MAX_ENGINES = 4
#: The text for registered buffers in the name of the run's I/O engine.
_FIXED = "fixed buffers"
_US = re.compile(r"(?<=\d) us\b")
#: The plain words for how the run's engine fills its buffers.
_BUFFERS = {
    "random buffers scrambled": "random data, of which each I/O changes a few bytes in every 512 (scramble_buffers)",
    "random buffers refilled": "random data, new in each I/O (refill_buffers)",
}
#: The plain words for names and values of host settings.
_SETTINGS = {
    "mitigations": "CPU vulnerability mitigations",
    "not buffered": "used; no layer is known to buffer it",
}
#: Options of the command line that the stored options of a run do not have, but that belong to its report.
_ANNOTATIONS = ("--limits", "--about")
_REPEATED = (*_ANNOTATIONS, "--plugin")
_BOTH = "snia-pts compare RUN NEW (RUN: the folder of this run; NEW: the folder of the new run)"
_AGAIN = "To write this report again from RUN, the folder of the run, without the device: snia-pts report RUN."


def provenance(result: TestResult) -> Page:
    """Return the page on versions, seed, purge, preconditioning, idle gaps, evidence, host and steps to repeat."""
    tables = (_run(result), *_origin(result), *_device(result), *array_tables(result), _procedure(result))
    tables = (*tables, *_settings(result), *host_tables(result), _steps(result))
    return Page(title="Provenance", blocks=(*tables, Prose(text=_AGAIN)), flows=True, brief=True)


def _run(result: TestResult) -> Table:
    run, platform = result.facts, result.facts.platform
    rows = (
        ("Command line", shlex.join(run.command_line)),
        ("Run id", run.run_id),
        ("Started, finished", f"{date(result, run.started)}, {date(result, result.finished)}"),
        ("Suite", f"snia-pts {platform.suite_version}"),
        ("Engine", f"{platform.engine} {platform.engine_version}, {_io_engines(result)}"),
        *_stated(("Maximum response times", "midpoints of the bins of the model" if run.dut.simulated else "")),
        ("Python", platform.python),
        ("Kernel", platform.kernel),
        ("Host", ", ".join(filter(None, (platform.hostname, platform.operating_system)))),
        ("CPU", f"{platform.cpu} ({platform.cpus} CPUs)" if platform.cpus else platform.cpu),
        ("Motherboard", platform.motherboard),
        *_stated(("HBA", as_stated(run.about.hba)), ("Tested by", run.about.operator)),
        ("Seed", seed_text(run)),
        *(("Plugin", f"{plugin}: {plugin.path}, SHA-256 {plugin.sha256}") for plugin in run.plugins),
    )
    return facts(rows, title="Run")


def seed_text(run: RunFacts) -> str:
    """Return the seed of the run; if it is one of several tests, with the seed on the command line."""
    if run.seed is None:
        return ""
    given = [value for _, value in given_options(run.command_line, "--seed") if value != str(run.seed)]
    return f"{run.seed}{f' (derived from --seed {given[-1]})' if given else ''}"


def given_options(command_line: Sequence[str], *options: str) -> Iterator[tuple[str, str]]:
    """Yield those of ``options`` that a command line has, each with its value."""
    words = [part for word in command_line for part in (word.split("=", 1) if word.startswith("--") else (word,))]
    yield from ((word, value) for word, value in pairwise(words) if word in options)


def _stated(*rows: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the rows that have a value: the header has them all, but truncated."""
    yield from (row for row in rows if row[1])


def _io_engines(result: TestResult) -> str:
    """Return the I/O engine with its buffers; if options of stimuli choose several, each with its stimuli."""
    run_engine = result.facts.platform.io_engine
    labels: dict[str, dict[str, None]] = {}
    for measurement in result.measurements:
        stimulus = measurement.stimulus
        labels.setdefault(io_engine(stimulus, run_engine), {})[stimulus.label] = None
    if len(labels) < 2:
        return next(iter(labels), _with_plain_buffers(run_engine))
    shown = [
        f"{engine} ({next(iter(names)) if len(names) == 1 else f'{len(names)} stimuli'})"
        for engine, names in labels.items()
    ]
    more = f"; and {len(shown) - _MAX_ENGINES} more" if len(shown) > _MAX_ENGINES else ""
    return "; ".join(shown[:_MAX_ENGINES]) + more


def io_engine(stimulus: Stimulus, run_engine: str) -> str:
    """Return the I/O engine of a stimulus with its buffers: that of the run, except where its options set another."""
    engine, _, buffers = run_engine.partition(", ")
    options = dict(stimulus.options)
    own_engine = options.get("ioengine", engine)
    fixed = own_engine == "io_uring" and options.get("fixedbufs", str(int(buffers.startswith(_FIXED)))) != "0"
    filling = f"buffers by {' '.join(stimulus.filling_options)}" if stimulus.filling_options else ""
    of_run = _with_plain_buffers(buffers.removeprefix(f"{_FIXED}, "))
    return ", ".join(filter(None, (own_engine, _FIXED * fixed, filling or of_run)))


def _with_plain_buffers(engine: str) -> str:
    for recorded, plain in _BUFFERS.items():
        engine = engine.replace(recorded, plain)
    return engine


def _device(result: TestResult) -> Iterator[Table]:
    dut, about = result.facts.dut, result.facts.about
    rows = (
        ("Path, kind", f"{dut.path} ({dut.kind})"),
        ("Model", display_value(dut, about, "model")),
        ("Serial number", display_value(dut, about, "serial")),
        ("Firmware", display_value(dut, about, "firmware")),
        *_stated(("Vendor", as_stated(about.vendor)), ("NAND type", as_stated(about.nand_type))),
        ("Interface", dut.bus),
        ("Capacity", user_capacity(dut, exact=True)),
        *_stated(("Marketed capacity", as_stated(about.capacity))),
        ("Write cache", f"{dut.write_cache} ({dut.write_cache_source})"),
        (("Smallest direct I/O" if dut.kind == "file" else "Sectors"), ", ".join(_sectors(dut))),
        *((("Storage", _storage(result.facts)),) if dut.kind == "file" else ()),
    )
    yield facts(rows, title="Device under test")
    if about.features:
        yield facts(
            [(f"{feature.name[0].upper()}{feature.name[1:]}", feature.value) for feature in about.features],
            title=f"Features, {STATED}",
        )


def _storage(run: RunFacts) -> str:
    """Return the disk that a file is on; older runs did not record it."""
    return next((setting.value for setting in run.platform.settings if setting.name == "storage"), "unknown")


def _sectors(dut: Dut) -> Iterator[str]:
    if dut.kind == "file":
        yield f"{dut.logical_sector_bytes} bytes"
        return
    for size, name in ((dut.logical_sector_bytes, "logical"), (dut.physical_sector_bytes, "physical")):
        if size:
            yield f"{size} bytes {name}"


def _origin(result: TestResult) -> Iterator[Table]:
    """Yield the table on the source of an imported run."""
    source = result.facts.imported
    if source is None:
        return
    rows = (
        ("Measured by", source.label),
        ("File", f"evidence/{source.file}, SHA-256 {source.sha256}{_more(source)}"),
        ("Imported", when(source.imported_at)),
        ("Run name, date", ", ".join(filter(None, (source.name, source.date)))),
        ("Command line", source.command_line),
        ("Device description", " | ".join(line.strip() for line in source.description.splitlines() if line)),
        ("Feature matrix", " | ".join(line.strip() for line in source.features.splitlines() if line)),
        ("Options", " ".join(source.options)),
    )
    yield facts(rows, title="Source of the imported run")


def _more(source: Imported) -> str:
    """Return the number of further files of an imported run; empty if there are none."""
    count = len(source.more_files)
    return f"; and {counted(count, 'more file')}, listed in {CHECKSUMS_FILE}" if count else ""


def _procedure(result: TestResult) -> Table:
    fills = [line for line in result.time_lines if line.is_fill]
    continuous = [line for line in result.time_lines if not line.is_fill]
    simulated = result.facts.dut.simulated
    rows = [
        *([] if result.purges else [("Purge", none_or_not_reported(result))]),
        *_purges(result.purges, simulated=simulated),
        *(
            (_with_part(f"{line.phase[0].upper()}{line.phase[1:]}", line.part), _preconditioning(line))
            for line in fills
        ),
        (
            "Idle gap between points",
            _gaps([gap for gap in result.gaps if gap.requested_seconds is None], simulated=simulated),
        ),
    ]
    requested = sorted({gap.requested_seconds for gap in result.gaps if gap.requested_seconds is not None})
    rows += [
        (
            f"Idle for {duration(seconds)}",
            _idles([gap for gap in result.gaps if gap.requested_seconds == seconds], simulated=simulated),
        )
        for seconds in requested
    ]
    if continuous and not result.facts.dut.simulated:
        rows.append(("fio starts per continuous stimulus", "; ".join(_starts(continuous))))
    rows.append(("Evidence", "; ".join(_evidence(result))))
    if result.journal_sha256:
        rows.append(("Report id", _identity(result)))
    if result.facts.imported or any(result.measurements):
        listed = "the imported files" if result.facts.imported else "the engine's results of the measurements"
        rows.append(("Checksums", f"{CHECKSUMS_FILE} (SHA-256 {digest(result)}) lists {listed}"))
    return facts(rows, title="Procedure")


def _identity(result: TestResult) -> str:
    return (
        f"{report_id(result)}, the first {ID_DIGITS} digits of the SHA-256 of journal.jsonl ({result.journal_sha256}). "
        "The journal has the facts and results of the run, and the SHA-256 of its evidence. Later reports on the run "
        "have the same id, also with other limits or annotations."
    )


def _with_part(name: str, part: str) -> str:
    return f"{name}, {part}" if part else name


def _purges(purges: Sequence[tuple[str, PurgeOutcome]], *, simulated: bool) -> Iterator[tuple[str, str]]:
    """Yield a row for each purge; if there are many, one for each method and proof."""
    if len(purges) <= _MAX_PURGES:
        yield from ((_with_part("Purge", part), _purge(purge, simulated=simulated)) for part, purge in purges)
        return
    groups: dict[tuple[str, int, int], list[PurgeOutcome]] = {}
    for _, purge in purges:
        groups.setdefault((purge.method, purge.samples, purge.survivors), []).append(purge)
    for group in groups.values():
        longest = max(group, key=lambda purge: purge.seconds)
        yield f"Purge, {thousands(len(group), 0)} times", f"{_purge(longest, simulated=simulated)} (longest)"


def _purge(purge: PurgeOutcome, *, simulated: bool) -> str:
    """Return a purge with its proof; a model has no data, and proves nothing."""
    seconds = f"{1000 * purge.seconds:.2g} ms" if purge.seconds < 0.1 else duration(purge.seconds)
    if simulated:
        return f"{purge.method}, {seconds}"
    if not purge.samples:
        return f"{purge.method}, {seconds}; not verified"
    erased = f"{purge.samples - purge.survivors} of {purge.samples} sample blocks were erased"
    return f"{purge.method}, {seconds}; verified: {erased}"


def _preconditioning(line: TimeLine) -> str:
    if not line.measurements:
        return "not finished; the data written until it was stopped is not counted"
    measured, stimulus = line.measurements[-1], line.stimulus
    written, seconds = measured.write.transferred_bytes, measured.runtime_ms / 1000
    passes = f"{(stimulus.amount_bytes or 0) / stimulus.range_bytes:.3g}"
    return (
        f"{stimulus.label}, {passes} {'pass' if passes == '1' else 'passes'} over "
        f"{capacity(stimulus.range_bytes)}, TC {stimulus.thread_count}/QD {stimulus.queue_depth}: "
        f"{capacity(written)} written ({thousands(written, 0)} bytes) in {duration(seconds)}, "
        f"{thousands(measured.mb_per_second, 1)} MB/s"
    )


def _gaps(gaps: Sequence[Gap], *, simulated: bool) -> str:
    if not gaps:
        return NOT_APPLICABLE
    if simulated and not any(gap.idle_ms for gap in gaps):
        return "none (virtual time)"
    count = f"{thousands(len(gaps), 0)} gap{'s' * (len(gaps) != 1)}"
    return (
        f"{count}: {_median_and_longest([gap.idle_ms for gap in gaps])}; this includes the start and the end of the "
        f"I/O engine. The suite itself took: {_median_and_longest([gap.suite_us / 1000 for gap in gaps])}"
    )


def _idles(gaps: Sequence[Gap], *, simulated: bool) -> str:
    seconds = [gap.idle_ms / 1000 for gap in gaps]
    if simulated and seconds == [gap.requested_seconds for gap in gaps]:
        return f"{thousands(len(gaps), 0)} times (virtual time)"
    shortest, middle, longest = min(seconds), statistics.median(seconds), max(seconds)
    disturbed = sum(gap.disturbed for gap in gaps)
    times = f"{thousands(len(gaps), 0)} times without {'I/O of the test' if disturbed else 'host I/O'}"
    suffix = f"; other programs did I/O in {thousands(disturbed, 0)} of them" if disturbed else ""
    return f"{times}: {shortest:.3f} s shortest, {middle:.3f} s median, {longest:.3f} s longest (upper bounds){suffix}"


def _starts(lines: Sequence[TimeLine]) -> Iterator[str]:
    """Yield how often the engine was started per continuous stimulus, by phase; parts with equal counts together."""
    counts: dict[tuple[str, int], list[str]] = {}
    for line in lines:
        counts.setdefault((line.phase, line.engine_starts), []).append(line.part)
    for (phase, starts), parts in counts.items():
        yield f"{phase}: {starts}" if len(parts) == 1 else f"{phase}: {starts} for each of {len(parts)}"


def _median_and_longest(milliseconds: list[float]) -> str:
    middle, longest = (number(value, digits=3) for value in (statistics.median(milliseconds), max(milliseconds)))
    return NOT_APPLICABLE if NOT_APPLICABLE in (middle, longest) else f"median {middle} ms, longest {longest} ms"


def _evidence(result: TestResult) -> Iterator[str]:
    """Yield the files with the engine's raw results, phase by phase, and their total; or the imported file."""
    if result.facts.imported is not None:
        yield f"{result.facts.imported.file}{_more(result.facts.imported)}"
        return
    yield from _files("purge", [purge.evidence for _, purge in result.purges if purge.evidence], "purges")
    for phase in dict.fromkeys(line.phase for line in result.time_lines):
        measurements = [measurement for line in result.lines(phase) for measurement in line.measurements]
        yield from _files(phase, [measurement.evidence for measurement in measurements], "measurements")
    parts = [(_with_part("rounds", loop.part), [loop]) for loop in result.loops]
    if result.facts.spec.rounds_are_repeats:  # each point is a loop
        parts = [("points", list(result.loops))]
    for name, loops in parts:
        points = [point for loop in loops for measured_round in loop.rounds for point in measured_round.measurements]
        yield from _files(name, sorted(point.evidence for point in points), "points")
    evidence = [measurement.evidence for measurement in result.measurements]
    if evidence:
        count = f"{thousands(len(evidence), 0)} measurement{'s' * (len(evidence) != 1)}"
        yield f"{count} in all{_shared_numbers(result, evidence)}"


def _shared_numbers(result: TestResult, evidence: Sequence[str]) -> str:
    """Return that purges have the numbers of measurements in the names of their evidence; empty if none has."""
    purges, measurements = (
        {name.partition("-")[0] for name in names}
        for names in ((purge.evidence for _, purge in result.purges), evidence)
    )
    return "; a purge can have the number of the next measurement" if purges & measurements else ""


def _files(name: str, files: Sequence[str], unit: str) -> Iterator[str]:
    """Yield a list of few files; of many the first and the last, which others may lie between."""
    if len(files) > _MAX_FILES:
        yield f"{name}: {thousands(len(files), 0)} {unit} between {files[0]} and {files[-1]}"
    elif files:
        yield f"{name}: {', '.join(files)}"


def _settings(result: TestResult) -> Iterator[Table]:
    """Yield the table of host settings that may affect the results, the most important first."""
    settings = result.facts.platform.settings
    cached = [measurement.stimulus.cached for measurement in result.measurements]
    if cached and all(cached):
        settings = tuple(setting for setting in settings if setting.name != "direct I/O")  # none was done
    columns = (
        Column(heading="Setting", width=16),
        Column(heading="Value", width=28),
        Column(heading="Judgement", width=10),
        Column(heading="Recommended", width=14),
        Column(heading="Reason", width=32),
    )
    known = [
        setting
        for judgement in ("affects results", "noted", "good")
        for setting in settings
        if setting.judgement == judgement
    ]
    rows: list[tuple[str, ...]] = [
        (
            _SETTINGS.get(setting.name, setting.name),
            _US.sub(" \N{MICRO SIGN}s", _setting_value(setting)),
            setting.judgement,
        )
        + (("", "") if setting.judgement == "good" else (setting.recommended, setting.reason))
        for setting in known
    ]
    if unknown := [setting.name for setting in settings if setting.judgement == "unknown"]:
        rows.append((", ".join(unknown), UNKNOWN, "unknown", "", ""))
    if rows:
        yield Table(kind="texts", columns=columns, rows=tuple(rows), title="Host settings")


def _setting_value(setting: HostSetting) -> str:
    value = _SETTINGS.get(setting.value, setting.value)
    return f"{value} (was {setting.before})" if setting.before else value


def _repeat_command(run: RunFacts) -> tuple[str, ...]:
    """Return a command line that repeats the run in a new folder, with its seed and therefore the same offsets."""
    if run.options is None:
        return run.command_line
    more = (word for given in given_options(run.command_line, *_REPEATED) for word in given)
    return (*replace(run.options, seed=run.seed).command(), *more)


def _operator_files(run: RunFacts) -> Iterator[str]:
    """Yield the step on the operator's files that the command line names, if there are any."""
    if options := " and ".join(dict.fromkeys(option for option, _ in given_options(run.command_line, *_ANNOTATIONS))):
        yield (
            f"If you do not have the files of {options}, omit these options: they do not change the measurement. "
            "journal.jsonl in the folder of this run has the contents of the files."
        )


def _comparison(result: TestResult) -> str:
    """Return the step that compares the new run with this one."""
    if result.facts.dut.simulated and result.ending == "finished" and not result.interruptions:
        return (
            f"Compare the file {CHECKSUMS_FILE} in the folder of this run with that in the new folder: they must be "
            "equal, because the simulation gives the same results for the same seed."
        )
    spec = result.facts.spec
    if spec.rounds_are_repeats and spec.repeats < MIN_INTERVAL_ROUNDS:
        return (
            f"Compare the two runs: {_BOTH}. This run has {counted(spec.repeats, 'repeat')}, so the comparison cannot "
            "mark the differences that are larger than the scatter of the repeats: it needs at least "
            f"{MIN_INTERVAL_ROUNDS} repeats in both runs (--repeats {MIN_INTERVAL_ROUNDS})."
        )
    noun = "repeats" if spec.rounds_are_repeats else "rounds"
    return (
        f"Compare the two runs: {_BOTH}. An asterisk marks each difference that is larger than the scatter of the "
        f"{noun}; single values, such as maximum response times, never have one."
    )


def _steps(result: TestResult) -> Table:
    run, platform = result.facts, result.facts.platform
    suite = f"snia-pts {platform.suite_version}"
    device = (
        f"Use the same device (serial number {run.dut.serial or 'unknown'}, "
        f"firmware {run.dut.firmware or 'unknown'}) on the same kind of host; all data on the device will be lost."
    )
    if run.dut.kind == "file":
        device = f"Use the same kind of host and storage ({_storage(run)}); all data in the file will be lost."
    preparation = (device, f"Install {suite} and {platform.engine} {platform.engine_version}.")
    if run.imported is not None:
        suite, command = "", "Run the jobs again; the imported files state their options."
        if run.spec.command:
            suite = f", or snia-pts (command: {run.spec.command})"
            command = f"Run the original command: {run.imported.command_line or UNKNOWN}"
        compare = f"Import the new files with snia-pts import, and compare the two runs: {_BOTH}"
        return _numbered((preparation[0], f"Install {run.imported.label}{suite}.", command, compare))
    if run.dut.simulated:
        preparation = (
            f"Use any host: the drive is simulated ({run.dut.path}), and no device is needed or accessed.",
            f"Install {suite}: the simulation is part of it.",
        )
    alone = " by itself (it was one of several in this run)" if "/" in run.run_id else ""
    command = f"Run the test{alone}; it creates a new folder in runs/: {shlex.join(_repeat_command(run))}"
    return _numbered((*preparation, command, *_operator_files(run), _comparison(result)))


def _numbered(steps: Sequence[str]) -> Table:
    columns = (Column(heading="Step", align="right", width=6), Column(heading="Action", width=94))
    rows = tuple((str(place), text) for place, text in enumerate(steps, start=1))
    return Table(kind="texts", columns=columns, rows=rows, title="Steps to repeat")
