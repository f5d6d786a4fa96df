"""The verbs that run one test on a target, or plan it; and how any test is run on a target that is held."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from .. import runner
from ..acceptance import judgements, require_met
from ..errors import Interrupted, SniaPtsError
from ..files import pasted
from ..lab.host import read_platform
from ..limits import Limit
from ..profilefile import profile_path
from ..record.folder import RunFolder, default_name, require_empty
from ..result import RunFacts, RunWarning, TestResult
from ..spec import Spec
from ..specfile import Specification
from ..testplatform import HostSetting
from . import preparing
from .benches import Bench, bench
from .mail import Letter, mailed
from .plan_text import Planned, plan_json, plan_lines
from .post import post
from .progress import Progress, choose_mode, standard_stream
from .words import dut_words


def run_one(arguments: argparse.Namespace) -> int:
    """Run, or plan, the test ``arguments.test``."""
    return run_specification(preparing.specification(arguments.test, arguments, arguments.set), arguments)


def run_specification(specification: Specification, arguments: argparse.Namespace) -> int:
    """Run, or plan, what is specified; ``arguments.required`` are limits that it has of itself."""
    preparing.refuse_ignored(arguments)
    required: Sequence[Limit] = getattr(arguments, "required", ())
    asked, path = preparing.limits(arguments), arguments.limits
    arguments.limits, arguments.about = (*required, *asked), preparing.about(arguments)
    arguments.formats, arguments.post = preparing.formats(arguments), post(arguments)
    target, seed = bench(arguments), preparing.seed(arguments.seed)
    target.require_tools()
    if arguments.plan:  # before anything is asked of a drive that is at somebody's work
        foresee(specification.spec, target, arguments)
    planned = planned_test(specification, target, arguments)  # refuses what the target cannot hold
    tests = [(planned.spec, target.dut(planned.spec))]
    preparing.require_measurable(asked, path, tests, arguments)
    if required and not specification.deviations:  # what is changed on the command line is measured by other names
        preparing.require_measurable(required, profile_path(arguments.name), tests, arguments)
    if arguments.plan:
        return _show(planned, target, arguments)
    name = default_name(arguments.test, target.subject, datetime.now().astimezone().isoformat())
    about = test_words(specification.spec, target)
    folder = RunFolder.create(arguments.run_dir or Path("runs") / name)
    with mailed(arguments, about, folder.path / "report.pdf") as letter:
        result = _measured(specification, target, folder, arguments, seed)
        return finish(result, folder, arguments.formats, letter)


def test_words(spec: Spec, target: Bench) -> str:
    """Test and drive in a few words."""
    return f"{spec.title} test of {dut_words(target.dut(spec))}"


def _measured(
    specification: Specification, target: Bench, folder: RunFolder, arguments: argparse.Namespace, seed: int
) -> TestResult:
    """Hold the target, let it be confirmed, and run the test; a folder in which nothing began is removed."""
    try:
        with preparing.stoppable(), held(target, folder):
            target.confirm(folder.evidence)
            return run_test(specification, target, folder, arguments, seed=seed)
    except SniaPtsError as error:
        if folder.journal.exists():
            run = pasted(folder.path)
            error.hint += f" snia-pts resume {run} goes on with it; snia-pts report {run} reports it."
        raise
    finally:
        if not folder.journal.exists():
            folder.discard()


@contextmanager
def held(target: Bench, folder: RunFolder) -> Iterator[None]:
    """Hold a target for a run in ``folder``; what was made for that is removed unless the run can be resumed."""
    with target.held():
        try:
            yield
        except BaseException:
            if not folder.journal.exists():
                target.remove()
            raise
        target.remove()


def run_test(
    specification: Specification,
    target: Bench,
    folder: RunFolder,
    arguments: argparse.Namespace,
    *,
    seed: int,
    run_id: str = "",
    command_line: tuple[str, ...] = (),
) -> TestResult:
    """Run a test on a target that is held and confirmed; what was asked for is kept as ``command_line``."""
    with target.settled(specification.spec, folder, specification.spec.setup.write_cache) as settings:
        return _run_settled(
            specification, target, folder, arguments, seed=seed, run_id=run_id or folder.path.name,
            command_line=command_line or arguments.command_line, settings=settings,
        )  # fmt: skip


def _run_settled(
    specification: Specification,
    target: Bench,
    folder: RunFolder,
    arguments: argparse.Namespace,
    *,
    seed: int,
    run_id: str,
    command_line: tuple[str, ...],
    settings: tuple[HostSetting, ...],
) -> TestResult:
    """Run a test under its conditions, which are those of the host's ``settings``."""
    spec = specification.spec
    dut, stream = target.dut(spec), standard_stream()
    plan = preparing.plan_of(spec, dut, target.speed(spec), arguments)
    progress = Progress(spec, plan, choose_mode(arguments.progress, stream), stream, simulated=dut.simulated)
    equipment = target.equip(spec, folder.evidence, seed, progress.tick)
    facts = RunFacts(
        run_id=run_id,
        started=equipment.now().isoformat(timespec="milliseconds"),
        command_line=command_line,
        seed=seed,
        test_class=specification.test_class,
        spec=spec,
        dut=dut,
        platform=replace(read_platform(equipment.engine), settings=settings),
        warnings=tuple(_host_warnings(settings)),
        deviations=specification.deviations + target.deviations(spec),
        health=equipment.examine(),
        limits=arguments.limits,
        about=arguments.about,
        ceilings=equipment.calibrate(plan.stimuli, plan.shortest.seconds, progress.say),
    )
    try:
        progress.begin()
        return runner.run(
            facts, equipment.laboratory.perform, folder, progress.event, now=equipment.now,
            examine=equipment.examine, durable=equipment.durable,
        )  # fmt: skip
    finally:
        progress.close()


def _host_warnings(settings: Sequence[HostSetting]) -> Iterator[RunWarning]:
    """Tell what of the host is not as it should be, and matters."""
    for setting in settings:
        if setting.judgement == "matters":
            better = f" (better: {setting.wish})" if setting.wish else ""
            yield RunWarning(what=f"host: {setting.name}", detail=f"{setting.value}{better}: {setting.reason}")


def finish(result: TestResult, folder: RunFolder, formats: Sequence[str], letter: Letter) -> int:
    """Make the report of a finished test in ``formats``, and tell what came of it; raises LimitsMissed."""
    folder.forget_stop()  # one that came too late
    try:
        from ..report import write  # what makes a report is not held while a test runs
        from ..report.summary import verdict
        from .result_text import result_lines

        letter.verdict = verdict(result)
        written = write(result, folder.path, formats)
    except KeyboardInterrupt:
        hint = f"The test is finished and its result safe; snia-pts report {pasted(folder.path)} makes the report."
        raise Interrupted(step="the report", what=folder.path, hint=hint) from None
    for line in result_lines(result):
        print(line)
    print()
    print(f"run folder: {folder.path}")
    for path in written.values():
        print(f"report:     {path}")
    require_met(judgements(result))
    return 0


def _show(planned: Planned, target: Bench, arguments: argparse.Namespace) -> int:
    dut = target.dut(planned.spec)
    if arguments.json:
        print(json.dumps(plan_json(planned, dut), indent=1))
        return 0
    for line in plan_lines(planned, dut):
        print(line)
    return 0


def foresee(spec: Spec, target: Bench, arguments: argparse.Namespace) -> None:
    """Raise what a run would be refused for before the operator is asked, as far as reading alone tells."""
    if arguments.run_dir is not None:
        require_empty(arguments.run_dir)
    target.foresee(spec)


def planned_test(specification: Specification, target: Bench, arguments: argparse.Namespace) -> Planned:
    """Return what a test would cost on the target, and every deviation known beforehand; touches nothing."""
    spec = specification.spec
    deviations = (*specification.deviations, *target.deviations(spec), *target.purge_deviation(spec))
    plan = preparing.plan_of(spec, target.dut(spec), target.speed(spec), arguments)
    return Planned(spec=spec, plan=plan, deviations=deviations, limits=tuple(arguments.limits))
