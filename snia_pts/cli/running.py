"""The verbs that run a test on a target, or plan it."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType

from .. import runner
from ..errors import Interrupted, NotConfirmed, SniaPtsError, UsageError
from ..lab import purge
from ..lab.device import read_dut
from ..lab.engine import IO_ENGINES, FioEngine, choose_io_engine
from ..lab.host import read_platform
from ..lab.laboratory import Laboratory, target_deviations
from ..lab.process import find
from ..lab.safety import Target, confirm, contents, hold
from ..plan import Assumptions, plan
from ..record.folder import RunFolder, default_name
from ..result import RunFacts, TestResult
from ..specfile import Specification, parse_override, read_specification, versions
from ..units import parse_size
from .progress import Progress, choose_mode, standard_stream
from .show import destruction_lines, plan_json, plan_lines, result_lines

#: What fio costs around the I/O of a stimulus, for plans (bench/gap.py measures it).
_OVERHEAD_SECONDS = 0.25
_SHORTCUTS = {
    "thread_count": "setup.thread_count",
    "queue_depth": "setup.queue_depth",
    "point_seconds": "rounds.point_seconds",
    "max_rounds": "rounds.maximum",
}


def iops(arguments: argparse.Namespace) -> int:
    """Run, or plan, the IOPS test."""
    return _test("iops", arguments)


def _test(test: str, arguments: argparse.Namespace) -> int:
    specification = _specification(test, arguments)
    size_bytes = _size(arguments)
    seed = _seed(arguments.seed)
    if arguments.plan:
        return _plan(specification, arguments, size_bytes)
    find("fio")
    dut = read_dut(arguments.target, size_bytes=size_bytes)
    method = purge.choose(dut, arguments.purge)
    plan(specification.spec, dut, Assumptions(mb_per_second=1, overhead_seconds=0))  # refuses what it cannot hold
    name = default_name(test, _subject(arguments.target), datetime.now().astimezone().isoformat())
    folder = RunFolder.create(arguments.run_dir or Path("runs") / name)
    try:
        with _stoppable(), hold(arguments.target, size_bytes=size_bytes, overwrite=arguments.overwrite) as target:
            result = _run(specification, target, folder, arguments, method, seed)
    except BaseException:
        if not folder.journal.exists():
            folder.discard()
        raise
    return _finish(result, folder)


def _run(
    specification: Specification,
    target: Target,
    folder: RunFolder,
    arguments: argparse.Namespace,
    method: str,
    seed: int,
) -> TestResult:
    """Everything between holding the target and its result."""
    spec, dut, evidence = specification.spec, target.dut, folder.evidence
    _confirm(target, arguments, evidence)
    wanted = IO_ENGINES if arguments.engine == "auto" else (arguments.engine,)
    io_engine = choose_io_engine(dut.path, dut.logical_sector_bytes, evidence, wanted)
    stream = standard_stream()
    progress = Progress(spec, choose_mode(arguments.progress, stream), stream)
    started = datetime.now().astimezone().isoformat(timespec="milliseconds")
    engine = FioEngine(
        dut.path, evidence, seed=seed, io_engine=io_engine, refill=arguments.refill_buffers, tick=progress.tick
    )
    facts = RunFacts(
        run_id=folder.path.name,
        started=started,
        command_line=("snia-pts", *sys.argv[1:]),
        operator=arguments.operator,
        seed=seed,
        test_class=specification.test_class,
        spec=spec,
        dut=dut,
        platform=read_platform(engine),
        deviations=specification.deviations + target_deviations(dut, spec),
    )
    laboratory = Laboratory(target, engine, purge_method=method, seed=seed, evidence=evidence)
    try:
        return runner.run(facts, laboratory.perform, folder, progress.event)
    except SniaPtsError as error:
        error.hint += f" snia-pts report {folder.path} reports it."
        raise
    finally:
        progress.close()


def _finish(result: TestResult, folder: RunFolder) -> int:
    from ..report import write

    try:
        written = write(result, folder.path)
    except KeyboardInterrupt:
        hint = f"The test is finished and its result safe; snia-pts report {folder.path} makes the report."
        raise Interrupted(step="the report", what=folder.path, hint=hint) from None
    for line in result_lines(result):
        print(line)
    print()
    print(f"run folder: {folder.path}")
    for path in written.values():
        print(f"report:     {path}")
    return 0


def _plan(specification: Specification, arguments: argparse.Namespace, size_bytes: int | None) -> int:
    try:
        speed = float(arguments.assume)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(detail=f"--assume {arguments.assume}: not a speed in MB/s.", hint="For example --assume 500.")
    dut = read_dut(arguments.target, size_bytes=size_bytes)
    spec, method = specification.spec, purge.choose(dut, arguments.purge)
    deviations = (*specification.deviations, *target_deviations(dut, spec), purge.deviation(method))
    planned = plan(spec, dut, Assumptions(mb_per_second=speed, overhead_seconds=_OVERHEAD_SECONDS))
    if arguments.json:
        print(json.dumps(plan_json(spec, dut, planned, deviations), indent=1))
        return 0
    for line in plan_lines(spec, dut, planned, deviations):
        print(line)
    return 0


def _specification(test: str, arguments: argparse.Namespace) -> Specification:
    if arguments.pts not in versions(test):
        raise UsageError(
            detail=f"--pts {arguments.pts}: no such version of the standard.",
            hint=f"Known: {', '.join(versions(test))}.",
        )
    overrides = [parse_override(text) for text in arguments.set]
    for option, key in _SHORTCUTS.items():
        value = getattr(arguments, option)
        if value is not None:
            overrides.append(parse_override(f"{key}={value}"))
    return read_specification(test, arguments.pts, arguments.test_class, path=arguments.spec, overrides=overrides)


def _size(arguments: argparse.Namespace) -> int | None:
    """Return --size in bytes; refuses options that would be ignored."""
    if arguments.json and not arguments.plan:
        raise UsageError(detail="--json goes with --plan.", hint="After a run, snia-pts assess RUN --json.")
    if arguments.size and arguments.target.is_block_device():
        raise UsageError(detail="--size is for files; a drive is tested whole.", hint="Leave it out.")
    return parse_size(arguments.size) if arguments.size else None


def _seed(text: str | None) -> int:
    if text is None:
        return secrets.randbits(63)
    if not text.isdigit() or int(text) >= 1 << 63:
        raise UsageError(detail=f"--seed {text}: not a whole number below 2^63.", hint="For example --seed 4711.")
    return int(text)


def _subject(path: Path) -> str:
    """What a run folder is named after: the drive's model, else the file's or device's name."""
    dut_model = read_dut(path).model if path.is_block_device() else ""
    return path.name if not dut_model or dut_model.startswith("loop device") else dut_model


def _confirm(target: Target, arguments: argparse.Namespace, evidence: Path) -> None:
    """Let the operator confirm the destruction of a drive; a file was confirmed by being ours or by --overwrite."""
    dut = target.dut
    if dut.kind == "file":
        return
    if arguments.serial is not None:
        confirm(dut, arguments.serial)
        return
    for line in destruction_lines(dut, contents(target, evidence)):
        print(line, file=sys.stderr)
    if not sys.stdin.isatty():
        raise NotConfirmed(path=dut.path, reason="there is no terminal to ask at", confirmation=dut.identity)
    word = "serial number" if dut.serial else "name"
    print(f"Type its {word}, {dut.identity}, to go on: ", end="", file=sys.stderr, flush=True)
    confirm(dut, sys.stdin.readline().strip())


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop a run as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}  # nohup keeps what it promises
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
