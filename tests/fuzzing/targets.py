"""Every parser of the suite as a function of bytes: it gives a result, or refuses with a sentence."""

from __future__ import annotations

import zlib
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from snia_pts.cli import options
from snia_pts.cli.commands import assess as assess_verb
from snia_pts.cli.commands.status import status
from snia_pts.cli.text.plan import plan_json, plan_lines
from snia_pts.cli.text.terminal import resume_lines
from snia_pts.errors import SniaPtsError
from snia_pts.importer.runs import SourceFile, runs_in
from snia_pts.lab import fio
from snia_pts.lab.device import health
from snia_pts.lab.device.contents import Contents, parse_signatures
from snia_pts.lab.device.identity import block_dut
from snia_pts.lab.device.refusals import require_free, require_spare, stack_of
from snia_pts.lab.device.usage import read_usage
from snia_pts.lab.fio import probe
from snia_pts.lab.fio.sampling import Sampler
from snia_pts.lab.host.platform import read_platform
from snia_pts.lab.inventory import read_inventory
from snia_pts.lab.observation.telemetry import Observer
from snia_pts.lab.simulated.drive import SimulatedDrive, SimulatedFault
from snia_pts.lab.simulated.preset import read_preset, simulated_dut
from snia_pts.model.annotations import read_annotations
from snia_pts.model.dut import AssumedSpeed
from snia_pts.model.health import Health, HealthValue, alarms, write_amplification
from snia_pts.model.measurement import NO_TRANSFERS, Measurement, Outcome, Transfers
from snia_pts.model.steps import BlockShare, ContinuousStimulus, Round, Step, Stimulus
from snia_pts.procedures.estimator import Assumptions, plan
from snia_pts.profiles.reader import Changes, parse_axis, read_profile
from snia_pts.record.document import compare, parse
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import inspect_run
from snia_pts.record.result_xml import result_xml
from snia_pts.record.suite import SuiteFolder
from snia_pts.results.builder import fold
from snia_pts.results.imported import Imported
from snia_pts.results.interruption import ResumePolicy
from snia_pts.results.key_figures import key_figures
from snia_pts.results.limit_checks import judgements
from snia_pts.results.result import RunFacts, TestResult
from snia_pts.results.tables import data_tables
from snia_pts.runner.setup import TestEstimate
from snia_pts.spec import TestClass
from snia_pts.spec.limits import read_limits
from snia_pts.spec.reader import Specification, parse_override, read_specification
from snia_pts.tkperf.document import read as read_tkperf
from snia_pts.tkperf.reader import runs
from snia_pts.tkperf.writer import export_document
from snia_pts.units import parse_size
from tests import samples
from tests.hosts import make_kernel_files
from tests.strategies import TESTS, VERSIONS, dut, measurement, standard, stimulus

from . import commandline, corpora, reports
from .chain import chained
from .forms import ANSWERS, ELEMENTS, ENTRIES, FILE_END, FILES, JSON, JSON_LINES, LINES, MARKUP, TOML, WORDS, Form

#: The stimulus whose answers are tried.
MIB = 1 << 20
ASKED = (
    stimulus(65, seconds=0.1, range_bytes=MIB, thread_count=2, queue_depth=4),
    stimulus(65, range_bytes=1000 * 4096, seconds=None, passes=1),
    stimulus(65, seconds=60.0, limit_bytes=MIB),
    replace(
        stimulus(65, seconds=0.1),
        block_size_bytes=(BlockShare(size_bytes=512, percent=40), BlockShare(size_bytes=65536, percent=60)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser: ``parse`` takes an input and an empty folder for its files, and raises nothing but ``refusals``.

    An input may take ``seconds`` of CPU time.
    """

    form: Form
    corpus: Callable[[], tuple[bytes, ...]]
    parse: Callable[[bytes, Path], object]
    refusals: tuple[type[Exception], ...] = (SniaPtsError,)
    seconds: float = 5.0


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _kept(kind: Any, value: object) -> None:
    """Require that a journal gives back what it is given."""
    adapter = _adapter(kind)
    if repr(adapter.validate_json(adapter.dump_json(value), strict=True)) != repr(value):
        raise AssertionError("the journal gives back something else")


def _written(facts: RunFacts, *answered: tuple[Step, tuple[Outcome, ...]]) -> None:
    """Require that what was taken in can be journaled, and written as a result.xml that is valid."""
    _kept(RunFacts, facts)
    for _, outcomes in answered:
        for outcome in outcomes:
            _kept(Outcome, outcome)
    try:
        result_xml(fold(facts, answered, ending="unfinished", ending_detail="", finished=""))
    except SniaPtsError as error:
        raise AssertionError("what was taken in cannot be written") from error


@cache
def _facts() -> RunFacts:
    return samples.run_facts(standard().spec)


# -- specifications, presets, options ---------------------------------------------------------------------------------


def _class(data: bytes) -> TestClass:
    return "client" if zlib.crc32(data) % 4 == 0 else "enterprise"


def _test(data: bytes) -> str:
    """The test that an input names first, or any."""
    found = [(place, test) for test in TESTS if (place := data.find(f'"{test}"'.encode())) >= 0]
    return min(found)[1] if found else TESTS[zlib.crc32(data) % len(TESTS)]


def _read(data: bytes, folder: Path) -> Specification:
    path = folder / "own.toml"
    path.write_bytes(data)
    pts = VERSIONS[b"1.1" in data]
    return read_specification(_test(data), pts, _class(data), path=path)


def spec(data: bytes, folder: Path) -> None:
    """Read a specification file; an accepted one can be journaled, and is part of a valid result.xml."""
    read = _read(data, folder)
    _written(samples.run_facts(read.spec, test_class=read.test_class, found=read.deviations))


def limits(data: bytes, folder: Path) -> None:
    """A file of limits; one that is taken judges a result."""
    (folder / "limits.toml").write_bytes(data)
    limit_list = read_limits(folder / "limits.toml")
    result = samples.result_of("latency", stop_after=3, ending="interrupted")
    limited = replace(result, facts=replace(result.facts, limits=limit_list))
    judgements(limited)
    result_xml(limited)


def profile(data: bytes, folder: Path) -> None:
    """A workload profile: read, changed, and planned to its end."""
    (folder / "profile.toml").write_bytes(data)
    for changes in (None, Changes(repeats=1, seconds=1.0, ramp_seconds=0.0, range="1M")):
        specification = read_profile(str(folder / "profile.toml"), changes)
        device = dut(capacity_bytes=1 << 40)
        assumed = Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.3, between_seconds=0.0)
        estimate = TestEstimate(
            dut=dut(),
            spec=specification.spec,
            plan=plan(specification.spec, device, assumed),
            deviations=specification.deviations,
        )
        list(plan_lines(estimate, device))


def axis(data: bytes, folder: Path) -> None:
    """Read an argument of --axis, in a profile."""
    del folder
    read_profile("queue-depth", Changes(axes=(parse_axis(data.decode("utf-8", "surrogateescape")),)))


def about(data: bytes, folder: Path) -> None:
    """Read annotations of a test; accepted ones can be journaled, and are part of a valid result.xml."""
    (folder / "about.toml").write_bytes(data)
    (folder / "logo.png").write_bytes(corpora.logo())
    annotations = read_annotations(folder / "about.toml")
    _written(replace(_facts(), about=annotations))


def plans(data: bytes, folder: Path) -> None:
    """What a test by a specification file would cost."""
    read = _read(data, folder)
    made = plan(read.spec, dut(), Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.25))
    planned = TestEstimate(dut=dut(), spec=read.spec, plan=made, deviations=read.deviations)
    list(plan_lines(planned, dut()))
    plan_json(planned, dut())


def override(data: bytes, folder: Path) -> None:
    """The arguments of --set, an override a line, after the name of the test."""
    test, *changes = data.decode("utf-8", "surrogateescape").split("\n")
    read = read_specification(
        test if test in TESTS else "iops", "2.0.2", _class(data), overrides=map(parse_override, changes)
    )
    _kept(RunFacts, samples.run_facts(read.spec, found=read.deviations))


def preset(data: bytes, folder: Path) -> None:
    """A simulated drive; one that is taken answers a stimulus of a second."""
    path = folder / "drive.toml"
    path.write_bytes(data)
    read = read_preset(str(path))
    drive = SimulatedDrive(read, seed=1)
    device = simulated_dut(str(path), read)
    _written(samples.run_facts(standard().spec, device=device))
    try:
        for access in ("RND", "SEQ"):
            drive.purge()
            request = stimulus(50, access=access, range_bytes=device.capacity_bytes)
            drive.start(request)
            drive.run(request, 1.0, float("inf"))
    except SimulatedFault as fault:
        if not read.faults.error_after_bytes and not read.faults.hang_after_bytes:
            raise AssertionError("a fault that was not asked for") from fault


def words(data: bytes, folder: Path) -> None:
    """Sizes, seeds, overrides and versions."""
    text = data.decode("utf-8", "surrogateescape")
    probe.parse_version(text)
    refused: list[SniaPtsError] = []
    for read in (parse_size, options.seed, parse_override):
        try:
            read(text)
        except SniaPtsError as refusal:
            refused.append(refusal)
    if len(refused) == 3:
        raise refused[0]


# -- the run folder ---------------------------------------------------------------------------------------------------


def result_document(data: bytes, folder: Path) -> None:
    """Compare a result.xml with another one."""
    list(compare(parse(data, "result.xml"), parse(corpora.results()[0], "result.xml")))


def journal(data: bytes, folder: Path) -> None:
    """Read a journal from disk, with status, assess and the inspection by resume."""
    (folder / "journal.jsonl").write_bytes(data)
    number = zlib.crc32(data)
    as_json, policy = bool(number % 2), get_args(ResumePolicy)[number % len(get_args(ResumePolicy))]
    run = RunFolder.existing(folder)
    with redirect_stdout(StringIO()):
        if number % 8 == 0:
            status(Namespace(runs=[folder], json=as_json))
        list(resume_lines(run, inspect_run(run, policy)))
        assess_verb.assess(Namespace(run=folder, json=as_json, limits=None, plugin=()))


def entries(data: bytes, folder: Path) -> None:
    """Entries of a journal with valid checksums, by the same."""
    journal(chained(data), folder)


def fio_results(data: bytes, folder: Path) -> None:
    """Read a result of fio: an accepted one can be stored and reported."""
    for run in runs_in([SourceFile(name="f.json", content=data)], "", ()):
        _written(run.facts, *run.steps)
        result = fold(run.facts, run.steps, ending="finished", ending_detail="", finished="")
        if zlib.crc32(data) % 4 == 0:
            list(key_figures(result))
            data_tables(result)


def tkperf(data: bytes, folder: Path) -> None:
    """Read a result file of TKperf: an accepted one can be stored and reported, and is exported unchanged."""
    imported = Imported(importer="tkperf", tool="", version="", file="f.xml", sha256="0" * 64, imported_at="", name="")
    results = list[TestResult]()
    for run in runs(read_tkperf(data, "f.xml"), imported, (), "f.xml"):
        _written(run.facts, *run.steps)
        results.append(fold(run.facts, run.steps, ending="finished", ending_detail="", finished=""))
    if zlib.crc32(data) % 4 == 0:
        list(key_figures(results[0]))
        data_tables(results[0])
    document, _, lost = export_document(results, "f.xml")
    again = runs(read_tkperf(document, "again"), imported, (), "again")
    folded = [fold(run.facts, run.steps, ending="finished", ending_detail="", finished="") for run in again]
    if not lost and [(item.loops, item.time_lines) for item in folded] != [(r.loops, r.time_lines) for r in results]:
        raise AssertionError("what was exported is something else")


def suite(data: bytes, folder: Path) -> None:
    """Read a suite.json; the tests' folders are in its own."""
    (folder / "suite.json").write_bytes(data)
    found = SuiteFolder.existing(folder)
    if found is None or any(found.run_path(test).parent != found.path for test in found.tests):
        raise AssertionError("a test outside the folder")


# -- fio --------------------------------------------------------------------------------------------------------------


def _measured(request: Stimulus, read: Transfers, write: Transfers) -> Measurement:
    return replace(measurement(request, read=read, write=write), evidence_sha256="0" * 64)


def answer(data: bytes, folder: Path) -> None:
    """fio's final answer; one that is accepted can be kept and reported."""
    number = zlib.crc32(data)
    request = ASKED[number % len(ASKED)]
    code = 0 if number % 8 else 1
    read, write = fio.accept(request, code, False, data.decode("utf-8", "replace"))
    _written(_facts(), (Round(number=1, stimuli=(request,)), (_measured(request, read, write),)))


def stream(data: bytes, folder: Path) -> None:
    """What fio says while it is sampled, in pieces, as the engine takes it."""
    request = ASKED[0]
    step = ContinuousStimulus(phase="stimulus", stimulus=request, sample_seconds=0.025)
    answers, sampler, outcomes = fio.StatusStream(), Sampler(step.samples), list[Outcome]()
    running = fio.RunningTotals(request)
    place = zlib.crc32(data) % (len(data) + 1)
    try:
        for chunk in (data[:place], data[place:]):
            for line in answers.feed(chunk):
                outcomes += sampler.add(running.read(line))
        final = answers.last_answer.decode("utf-8", "replace")
        read, write = fio.accept(request, 0, False, final)
        outcomes += sampler.finish(running.read(final, final=True))
    except ValueError as error:  # as the engine does
        raise fio.AnswerRejected("host", str(error)) from error
    _written(_facts(), (step, (*outcomes, _measured(request, read, write))))


# -- what a host and its devices say ----------------------------------------------------------------------------------


def _laid_out(data: bytes, root: Path, names: tuple[str, ...]) -> None:
    """Write the files of an input under their names; no file for an empty one."""
    for name, content in zip(names, data.split(FILE_END), strict=False):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if content:
            path.write_bytes(content)


def device(data: bytes, folder: Path) -> None:
    """A block device by sysfs and udev; one that is taken can be reported."""
    block = folder / "sys/block/sdx"
    *attributes, _ = corpora.ATTRIBUTES
    number = (data.split(FILE_END) + [b""] * 2)[1].strip(b"\0 \n\t")
    plain = number.decode("ascii", "replace") if len(number) < 20 and b"/" not in number and number else "0:0"
    names = tuple(f"sys/block/sdx/{name}" for name in attributes)
    _laid_out(data, folder, (*names, f"run/udev/data/b{plain.replace(chr(0), '')}"))
    make_kernel_files(folder)
    read_inventory(folder)
    _written(samples.run_facts(standard().spec, device=block_dut(Path("/dev/sdx"), block, folder)))


def contents(data: bytes, folder: Path) -> None:
    """Read the output of wipefs for a drive and its partitions."""
    found, unreadable = parse_signatures(data.decode("utf-8", "replace"))
    on_it = Contents(signatures=tuple(found), unreadable=unreadable)
    on_it.descriptions("sdx")
    require_spare(Path("/dev/sdx"), on_it, discard_data=False)


def mounts(data: bytes, folder: Path) -> None:
    """Mount tables and swap areas: is the device in use?"""
    block = folder / "sys/block/sdx"
    _laid_out(data, folder, corpora.TABLES)
    if not block.exists():
        _laid_out(b"8:16\n", block, ("dev",))
        for place in (folder / "sys/dev/block/8:16", folder / "sys/class/block/sdx"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(block)
    usage = read_usage(folder)
    require_free(Path("/dev/sdx"), stack_of(block, usage, folder), usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engine:
    name: str = "fio"
    version: str = "3.33"
    io_engine: str = "io_uring"


def host(data: bytes, folder: Path) -> None:
    """What /proc, /etc and DMI say of the host; it can be reported."""
    _laid_out(data, folder, corpora.HOST_FILES)
    _written(samples.run_facts(standard().spec, host=read_platform(_Engine(), root=folder)))


def counters(data: bytes, folder: Path) -> None:
    """Read two readings of the kernel's counters of drive and host; their difference can be reported."""
    half = len(corpora.COUNTERS)
    parts = [*data.split(FILE_END), *[b""] * 2 * half][: 2 * half]
    block = folder / "sys/devices/0000:01:00.0/nvme0n1"
    for name, content in zip(corpora.COUNTERS, parts[:half], strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    observer = Observer(block, folder)
    observer.start()
    for name, content in zip(corpora.COUNTERS, parts[half:], strict=True):
        (folder / name).write_bytes(content)
    observer.tick()
    observer.lap()
    request = stimulus()
    seen = replace(_measured(request, NO_TRANSFERS, NO_TRANSFERS), telemetry=observer.finish())
    _written(_facts(), (Round(number=1, stimuli=(request,)), (seen,)))


def log(data: bytes, folder: Path) -> None:
    """Read a drive's health log from any tool; it can be reported and compared with itself."""
    answer, figures = data.decode("utf-8", "replace"), list[HealthValue]()
    for reader in (health.smart_log, health.smartctl):
        with suppress(health.NoFigures):
            figures += health.parse_figures(answer, reader, dut())
    found = Health(read_at="", figures=tuple(figures), unread=(), evidence=())
    list(alarms(found, found))
    write_amplification(found, found)
    _written(replace(_facts(), health=found))


TARGETS: Mapping[str, Target] = {
    "spec": Target(form=TOML, corpus=corpora.specifications, parse=spec),
    "limits": Target(form=TOML, corpus=corpora.limits, parse=limits),
    "profile": Target(form=TOML, corpus=corpora.profiles, parse=profile),
    "axis": Target(form=LINES, corpus=corpora.axes, parse=axis),
    "about": Target(form=TOML, corpus=corpora.abouts, parse=about),
    "plan": Target(form=TOML, corpus=corpora.short_specifications, parse=plans),
    "override": Target(form=LINES, corpus=corpora.overrides, parse=override),
    "preset": Target(form=TOML, corpus=corpora.presets, parse=preset),
    "words": Target(form=WORDS, corpus=corpora.sizes, parse=words),
    "result": Target(form=MARKUP, corpus=corpora.results, parse=result_document),
    "journal": Target(form=JSON_LINES, corpus=corpora.journals, parse=journal),
    "entries": Target(form=ENTRIES, corpus=corpora.entries, parse=entries),
    "fio_results": Target(form=ANSWERS, corpus=corpora.fio_files, parse=fio_results),
    "tkperf": Target(form=ELEMENTS, corpus=corpora.tkperf_files, parse=tkperf),
    "suite": Target(form=JSON, corpus=corpora.suites, parse=suite),
    "answer": Target(form=ANSWERS, corpus=corpora.answers, parse=answer, refusals=(fio.AnswerRejected,)),
    "stream": Target(form=ANSWERS, corpus=corpora.streams, parse=stream, refusals=(fio.AnswerRejected,)),
    "device": Target(form=FILES, corpus=corpora.devices, parse=device),
    "mounts": Target(form=FILES, corpus=corpora.mounts, parse=mounts),
    "contents": Target(form=JSON, corpus=corpora.contents, parse=contents),
    "host": Target(form=FILES, corpus=corpora.hosts, parse=host),
    "counters": Target(form=FILES, corpus=corpora.counters, parse=counters),
    "log": Target(form=JSON, corpus=corpora.logs, parse=log),
    "argv": Target(form=WORDS, corpus=corpora.command_lines, parse=commandline.argv),
    "texts": Target(form=WORDS, corpus=corpora.texts, parse=reports.texts),
    "report": Target(form=WORDS, corpus=corpora.texts, parse=reports.report, seconds=60),
    "pdf": Target(form=WORDS, corpus=corpora.texts, parse=reports.pdf, seconds=60),
    "journaled-report": Target(form=ENTRIES, corpus=corpora.entries, parse=reports.journaled, seconds=60),
}
#: Targets that write a whole report for each input.
SLOW = frozenset({"report", "pdf", "journaled-report"})
