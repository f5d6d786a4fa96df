"""Stopped runs are resumed: nothing is lost, and no result claims more than was measured without interruption."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import (
    HostFailed,
    Interrupted,
    NotConfirmed,
    NotResumable,
    NotRunning,
    RecordError,
    RunFolderError,
    TargetMissing,
    UsageError,
)
from snia_pts.lab.device import file_target as filetarget
from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.preset import read_preset
from snia_pts.model.measurement import Outcome
from snia_pts.model.run_options import RunOptions
from snia_pts.model.steps import ContinuousStimulus, Idle, Purge, Round, Step
from snia_pts.record.entries import EndEntry, Entry, OutcomeEntry, ResumeEntry, StartEntry, StepEntry, adapter
from snia_pts.record.entries import line as line_of
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import Journal
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.replay import assess, inspect_run, parse_time
from snia_pts.record.suite import SuiteFolder
from snia_pts.report.writing import replace_files
from snia_pts.results.interruption import ResumePolicy, resumable_step_count
from snia_pts.results.result import RunWarning
from snia_pts.results.target_deviations import target_deviations
from snia_pts.results.warnings import run_warnings
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resumed_options
from snia_pts.runner.session import resume, run
from tests import killing
from tests.drives import filled, need_program, special
from tests.procedure_runs import answered
from tests.samples import remove_later_evidence

TESTS = tuple(killing.BRIEF)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[killing.Reference, Path]]:
    """Run each test once without interruption, when a test needs it."""
    home, known = tmp_path_factory.mktemp("references"), {}

    def reference(test: str) -> tuple[killing.Reference, Path]:
        if test not in known:
            known[test] = killing.reference(test, home / test)
        return known[test], home / test

    return reference


# -- killed anywhere --------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("test", TESTS)
def test_a_run_killed_at_any_byte_is_resumed(test: str, seed: int, references: Any, tmp_path: Path) -> None:
    """Killed at random bytes of its journal, perhaps repeatedly, a run loses no entry and measures the same."""
    reference, home = references(test)
    policy: ResumePolicy = ("rule", "continue", "purge")[seed % 3]
    killing.kill_and_resume(reference, home, tmp_path / "killed", 100 + seed, policy)


@pytest.mark.parametrize("test", ["wsat", "hir", "xsr"])
def test_a_test_without_rounds_restarts_and_gives_the_same(test: str, references: Any, tmp_path: Path) -> None:
    """Except for the interruption, the result is that of an uninterrupted run."""
    reference, home = references(test)
    half = reference.journal[: len(reference.journal) // 2]

    result = killing.resume_killed(killed := killing.killed(home, tmp_path / "killed", half), "rule")

    (interruption,) = result.interruptions
    assert interruption.next_step == "Purge"
    assert interruption.discarded_outcomes > 1
    assert interruption.discarded_bytes > 0
    assert [step for step, _ in answered(JournalReader(killed.journal))] == [step for step, _ in reference.performed]
    assert result.verdict == reference.result.verdict
    assert result.written_bytes == reference.result.written_bytes


@pytest.mark.long
def test_a_round_continues_with_its_next_point_and_counts_for_no_window(references: Any, tmp_path: Path) -> None:
    """Rounds up to the interrupted one are kept and shown; the window comes after them."""
    reference, home = references("iops")
    last = 4
    folder = killing.killed(home, tmp_path / "killed", _until(reference, last, points=4))

    result = killing.resume_killed(folder, "rule")

    (loop,) = result.loops
    assert result.interruptions[0].next_step == f"Round {last}, point 5 of 9"
    assert result.interruptions[0].discarded_outcomes == 0
    assert loop.window is not None
    assert loop.window.numbers[0] > last
    assert [measured.number for measured in loop.rounds] == [*range(1, loop.window.numbers[-1] + 1)]
    assert result.steady
    assert not result.conformant


def test_an_interruption_between_rounds_breaks_none(references: Any, tmp_path: Path) -> None:
    """If the run was stopped after a complete round, the next round is the first that may be in a window."""
    reference, home = references("iops")
    folder = killing.killed(home, tmp_path / "killed", _until(reference, 2, points=9))

    (loop,) = killing.resume_killed(folder, "rule").loops

    assert loop.window is not None
    assert loop.window.numbers == (3, 4, 5, 6, 7)


def test_a_run_with_too_few_rounds_for_a_window_restarts(references: Any, tmp_path: Path) -> None:
    """If the remaining rounds are too few, the run could only end unsteady: it restarts at the purge."""
    reference, home = references("throughput")
    short = dataclasses.replace(reference.facts.spec.rounds, maximum=5)
    spec = dataclasses.replace(reference.facts.spec, rounds=short)
    folder = killing.killed(home, tmp_path / "killed", _until(reference, 2, points=1))

    lines = list(_entries(folder))
    steps = [entry.step for entry in lines if isinstance(entry, StepEntry)]
    broken = steps.pop()

    assert resumable_step_count(spec, steps, broken, "rule", started=True) == 0
    assert resumable_step_count(reference.facts.spec, steps, broken, "rule", started=True) == len(steps) + 1


def _until(link: killing.Reference, number: int, points: int) -> bytes:
    """Return the journal up to a number of points of a round."""
    kept, count = b"", None
    for line in link.journal.splitlines(keepends=True):
        entry = json.loads(line)["entry"]
        if entry["kind"] == "step" and count is None and entry["step"].get("number") == number:
            count = 0
        elif count is not None and (count == points or entry["kind"] != "outcome"):
            return kept
        elif count is not None:
            count += 1
        kept += line
    return kept


def _entries(folder: RunFolder) -> Iterator[Entry]:
    for line in folder.journal.read_bytes().splitlines():
        yield adapter().validate_python(json.loads(line)["entry"])


# -- the rule ---------------------------------------------------------------------------------------------------------


def _course(test: str, references: Any) -> list[Step]:
    return [step for step, _ in references(test)[0].performed]


@pytest.mark.parametrize(
    ("test", "phase", "rule", "continuing"),
    [
        ("iops", "WIPC", "purge", "here"),
        ("latency", "histogram", "purge", "here"),
        ("wsat", "stimulus", "purge", "here"),
        ("hir", "PC", "purge", "here"),
        ("hir", "access A", "purge", "here"),
        ("xsr", "stimulus", "purge", "here"),
        ("composite", "PC", "purge", "here"),
        ("composite", "pre-write", "here", "here"),
        ("dirth", "histogram", "purge", "here"),
    ],
)
def test_the_resume_point_of_each_phase(test: str, phase: str, rule: str, continuing: str, references: Any) -> None:
    """For each phase: where the rule and the operator may continue, and where the run restarts at the purge."""
    spec, steps = references(test)[0].facts.spec, _course(test, references)
    at = next(place for place, step in enumerate(steps) if isinstance(step, ContinuousStimulus) and step.phase == phase)
    for policy, where in (("rule", rule), ("continue", continuing), ("purge", "purge")):
        kept = resumable_step_count(spec, steps[:at], steps[at], policy, started=True)  # type: ignore[arg-type]
        assert kept == (at if where == "here" else 0), policy


def test_an_interrupted_operating_point_restarts_at_the_purge(references: Any) -> None:
    """The writes before an operating point are not those before a round."""
    spec, steps = references("dirth")[0].facts.spec, _course("dirth", references)
    at = next(place for place, step in enumerate(steps) if step.part == "Max IOPS")
    assert resumable_step_count(spec, steps[:at], steps[at], "rule", started=False) == 0


def test_a_part_restarts_at_its_own_purge(references: Any) -> None:
    """Restarting the second block size of a throughput test keeps the first."""
    spec, steps = references("throughput")[0].facts.spec, _course("throughput", references)
    second = [place for place, step in enumerate(steps) if isinstance(step, Purge)][1]
    assert resumable_step_count(spec, steps[: second + 1], steps[second + 1], "rule", started=True) == second
    assert resumable_step_count(spec, steps[:second], steps[second], "rule", started=True) == second


def test_an_interrupted_idle_time_is_repeated_or_restarts(references: Any) -> None:
    """It is shorter than requested: the test restarts at the purge, or repeats the idle time."""
    spec, steps = references("hir")[0].facts.spec, _course("hir", references)
    at = next(place for place, step in enumerate(steps) if isinstance(step, Idle))
    assert resumable_step_count(spec, steps[:at], steps[at], "rule", started=True) == 0
    assert resumable_step_count(spec, steps[:at], steps[at], "continue", started=True) == at


# -- the journal ------------------------------------------------------------------------------------------------------


def test_a_torn_line_is_removed_and_reported(references: Any, tmp_path: Path) -> None:
    """The line is removed, the reason mentions it, and the journal is complete again."""
    reference, home = references("iops")
    folder = killing.killed(home, tmp_path / "killed", reference.journal[:-100])
    assert " bytes ignored)" in inspect_run(folder, "rule").reason

    result = killing.resume_killed(folder, "rule")

    assert JournalReader(folder.journal).torn_bytes == 0
    assert not result.interruptions or "while it wrote a line" in result.interruptions[0].reason


def test_a_torn_resume_entry_is_reported_and_truncated(
    references: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """assess and status give the number of ignored bytes, and so does the interruption of the next resume."""
    reference, home = references("iops")
    folder = killing.killed(home, tmp_path / "killed", _until(reference, 2, points=3))
    stopped = inspect_run(folder, "rule")
    with Journal(folder.journal, existing=True) as journal:
        journal.continue_after(stopped.length, stopped.checksum)
        journal.append(EndEntry(ending="interrupted", detail="Ctrl-C", at=stopped.stopped.isoformat()))
    torn = b'{"crc32":"01234567","entry":{"kind":"resume","kept_steps":'
    folder.journal.write_bytes(folder.journal.read_bytes() + torn)
    note = f"a resume of the run died while it wrote its first entry ({len(torn)} bytes ignored)"

    for verb in ("assess", "status"):
        main([verb, str(folder.path)])
        assert f"Ctrl-C; {note}" in capsys.readouterr().out
    result = killing.resume_killed(folder, "rule")

    assert [interruption.reason for interruption in result.interruptions] == [f"interrupted: Ctrl-C; {note}"]
    assert JournalReader(folder.journal).torn_bytes == 0


@pytest.mark.long
@pytest.mark.parametrize("command", ["assess", "report", "status", "resume", "compare"])
def test_bytes_after_the_end_of_a_finished_run_are_refused(
    command: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command ends with the code of a stored run that cannot be read."""
    place = tmp_path / "run"
    shutil.copytree(finished, place)
    with (place / "journal.jsonl").open("ab") as journal:
        journal.write(b"x" * 7)
    arguments = [command, str(place), *([str(finished)] if command == "compare" else [])]

    assert main(arguments) == RecordError.exit_code
    output = capsys.readouterr()
    assert "7 bytes after its end entry: the file was altered after the run" in output.out + output.err


def test_nothing_is_written_before_the_first_new_step(references: Any, tmp_path: Path) -> None:
    """If the drive is not the run's, that is noticed while the journal is replayed, and the journal is unchanged."""
    reference, home = references("iops")
    folder = killing.killed(home, tmp_path / "killed", _until(reference, 2, points=3))
    before = folder.journal.read_bytes()
    other = SimulatedLaboratory(read_preset("enterprise-sata"), seed=1, evidence=folder.evidence, started=killing.BEGAN)

    with pytest.raises(HostFailed, match="does not reproduce"):
        resume(inspect_run(folder, "rule"), other, folder, lambda _: None, command_line=())

    assert folder.journal.read_bytes() == before


def test_an_existing_journal_is_not_appended_before_its_end_is_known(references: Any, tmp_path: Path) -> None:
    """An entry without the right position would break the checksums of the journal."""
    reference, home = references("wsat")
    folder = killing.killed(home, tmp_path / "killed", reference.journal)
    with Journal(folder.journal, existing=True) as journal, pytest.raises(RuntimeError, match="continue_after"):
        journal.append(EndEntry(ending="finished", detail="", at=""))
    assert folder.journal.read_bytes() == reference.journal


def test_a_journal_in_use_is_not_resumed(references: Any, tmp_path: Path) -> None:
    """Two processes never write one journal."""
    reference, home = references("wsat")
    folder = killing.killed(home, tmp_path / "killed", reference.journal[: len(reference.journal) // 2])
    with Journal(folder.journal, existing=True), pytest.raises(NotResumable, match="still in progress"):
        killing.resume_killed(folder, "rule")


def test_a_run_is_not_resumed_while_its_report_is_made(
    references: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the report of the stopped run would replace that of the finished one. A run in progress has none."""
    reference, home = references("wsat")
    folder = killing.killed(home, tmp_path / "killed", reference.journal[: len(reference.journal) // 2])

    def resume_meanwhile(*_: object) -> dict[str, Path]:
        with pytest.raises(NotResumable, match="or its report is being made"):
            killing.resume_killed(folder, "rule")
        return {}

    monkeypatch.setattr("snia_pts.api.report.write", resume_meanwhile)
    assert main(["report", str(folder.path)]) == 0
    with Journal(folder.journal, existing=True):
        assert main(["report", str(folder.path)]) == RecordError.exit_code
    assert "still in progress" in capsys.readouterr().err


def test_a_journal_that_changed_since_its_inspection_is_refused(references: Any, tmp_path: Path) -> None:
    """The run would continue with other steps than the operator saw."""
    reference, home = references("wsat")
    folder = killing.killed(home, tmp_path / "killed", reference.journal[: len(reference.journal) // 2])
    resume_plan = inspect_run(folder, "rule")
    folder.journal.write_bytes(killing.whole_lines(reference.journal[: len(reference.journal) * 3 // 4]))
    with pytest.raises(RecordError, match="changed after it was inspected"):
        resume(resume_plan, killing.laboratory(reference.facts, folder), folder, lambda _: None, command_line=())


@pytest.mark.parametrize("kept", [-1, 4, 99])
def test_a_resume_entry_that_keeps_too_many_steps_is_refused(kept: int, references: Any, tmp_path: Path) -> None:
    """A journal cannot claim more steps than it has."""
    reference, _ = references("wsat")
    (tmp_path / "run").mkdir()
    folder = RunFolder(path=tmp_path / "run")
    with Journal(folder.journal, durable=False) as journal:
        journal.append(StartEntry(facts=reference.facts))
        for step, outcomes in reference.performed[:2]:
            journal.append(StepEntry(step=step))
            for outcome in outcomes:
                journal.append(OutcomeEntry(outcome=outcome))
        journal.append(
            ResumeEntry(kept_steps=kept, policy="rule", stopped="", at="", idle_seconds=0.0, reason="", command_line=())
        )
        journal.append(StepEntry(step=reference.performed[0][0]))
    with pytest.raises(
        RecordError, match=r"more steps than the journal has|which steps are valid|greater than or equal"
    ):
        assess(folder)


# -- asked to stop ----------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["iops", "wsat"])
def test_a_run_with_a_stop_request_ends_after_its_point(test: str, references: Any, tmp_path: Path) -> None:
    """The current point or sample is kept; the run ends as stopped by the operator, and can be resumed."""
    reference, _ = references(test)
    folder = RunFolder.create(tmp_path / "run")
    simulated, count = killing.laboratory(reference.facts, folder), 0

    def asking(step: Step) -> Iterator[Outcome]:
        nonlocal count
        for outcome in simulated.perform(step):
            count += 1
            if count == 6:
                folder.request_stop()
            yield outcome

    with pytest.raises(Interrupted):
        run(reference.facts, asking, folder, lambda _: None, now=simulated.now)

    assert not folder.stop_requested
    stopped = assess(folder)
    assert stopped.ending == "interrupted"
    assert sum(len(outcomes) for _, outcomes in answered(JournalReader(folder.journal))) == 6
    assert killing.resume_killed(folder, "rule").ending == "finished"


@pytest.mark.long
def test_a_setting_that_changed_by_itself_is_a_warning_of_the_resumed_run_too(references: Any, tmp_path: Path) -> None:
    """The values read at the stop stay in the result, beside those read at the end."""
    reference, _ = references("iops")
    folder = RunFolder.create(tmp_path / "run")
    simulated = killing.laboratory(reference.facts, folder)

    def stopped(step: Step) -> Iterator[Outcome]:
        yield from simulated.perform(step)
        if isinstance(step, Round):
            raise Interrupted(cause="the operator", step=step.label, what="x")

    with pytest.raises(Interrupted):
        run(
            reference.facts,
            stopped,
            folder,
            lambda _: None,
            now=simulated.now,
            end_warnings=lambda: (RunWarning(what="changed during the run", detail="the cache is on"),),
        )

    (warning,) = [item for item in run_warnings(assess(folder)) if item.what == "changed during the run"]
    assert warning.detail == "the cache is on"
    result = killing.resume_killed(folder, "rule")
    assert warning in run_warnings(result)
    assert warning.detail in folder.result.read_text()


def test_a_full_disk_stops_the_run_before_the_next_point(
    references: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Space is checked in advance: the run ends between two points with a message, and its outcomes are kept."""
    reference, _ = references("iops")
    folder = RunFolder.create(tmp_path / "run")
    simulated, real, looks = killing.laboratory(reference.facts, folder), shutil.disk_usage, 0

    def filling(path: Any) -> Any:
        nonlocal looks
        looks += 1
        return real(path) if looks < 8 else real(path)._replace(free=1_000_000)

    monkeypatch.setattr(shutil, "disk_usage", filling)
    with pytest.raises(HostFailed, match=r"disk of the run folder is full \(1 MB left\)"):
        run(reference.facts, simulated.perform, folder, lambda _: None, now=simulated.now)

    assert assess(folder).ending == "host failed"


# -- by hand ----------------------------------------------------------------------------------------------------------

SIMULATED = ["sim:enterprise-nvme", "--seed", "7", "--progress", "none"]
RUN = ["iops", *SIMULATED, "--point-seconds", "2", "--max-rounds", "8", "--to", "rst"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a simulated run from the command line."""
    place = tmp_path_factory.mktemp("cli") / "run"
    assert main([*RUN, "--run-dir", str(place)]) == 0
    return place


def cut(finished: Path, place: Path, share: float = 0.5) -> Path:
    """Return a copy of a run that was killed."""
    shutil.copytree(finished, place)
    journal = place / "journal.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content[: int(len(content) * share)])
    (place / "result.xml").unlink()
    remove_later_evidence(RunFolder(path=place))
    return place


@pytest.mark.long
def test_the_command_line_resumes_its_run(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """resume says where the run was stopped and where it continues, ends as the run would, and the report states it."""
    place = cut(finished, tmp_path / "run")
    replace_files(place, {"report.ocp.jsonl": b"of what there was before"})

    assert main(["resume", str(place)]) == 0
    assert not (place / "report.ocp.jsonl").exists()

    output = capsys.readouterr()
    assert re.search(r"stopped \S+ \S+ \(virtual\) at .*\n  continues with ", output.err)
    assert "interruption: stopped" in output.out
    assert "interruption" in (place / "report.rst").read_text()
    assert main(["assess", str(place)]) == 0


@pytest.mark.long
@pytest.mark.root
def test_an_append_only_journal_can_be_resumed(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An administrator may protect a record so; an incomplete last line prevents it, and the report is kept."""
    need_program("chattr", "e2fsprogs")
    torn, complete = cut(finished, tmp_path / "torn"), cut(finished, tmp_path / "complete")
    journal = complete / "journal.jsonl"
    journal.write_bytes(killing.whole_lines(journal.read_bytes()))
    for place, code, message in ((torn, HostFailed.exit_code, "chattr -a"), (complete, 0, "")):
        if subprocess.run(["chattr", "+a", place / "journal.jsonl"], capture_output=True, check=False).returncode:
            pytest.skip("this file system has no append-only files")
        try:
            replace_files(place, {"report.html": b"the stopped run"})
            assert main(["resume", str(place), "--progress", "none"]) == code
            assert message in capsys.readouterr().err
            report = place / "report.html"
            assert (report.exists() and report.read_text() == "the stopped run") == bool(message)
        finally:
            subprocess.run(["chattr", "-a", place / "journal.jsonl"], check=True)


@pytest.mark.long
@pytest.mark.root
def test_a_report_that_cannot_be_removed_prevents_the_resume(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is added to the journal."""
    need_program("chattr", "e2fsprogs")
    place = cut(finished, tmp_path / "run")
    journal = killing.whole_lines((place / "journal.jsonl").read_bytes())
    replace_files(place, {"report.html": b"the stopped run"})
    if subprocess.run(["chattr", "+i", place / "report.html"], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        assert main(["resume", str(place), "--progress", "none"]) == RunFolderError.exit_code
    finally:
        subprocess.run(["chattr", "-i", place / "report.html"], check=True)
    assert "its outdated report cannot be removed" in capsys.readouterr().err
    assert (place / "journal.jsonl").read_bytes() == journal


@pytest.mark.long
def test_a_setting_that_a_killed_run_lost_is_in_the_report(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read before the target is claimed, which restores it; the report says so first."""
    place = cut(finished, tmp_path / "run")
    monkeypatch.setattr("snia_pts.runner.resume.changes_before_resume", lambda path: (f"{path.name}: on",))

    assert main(["resume", str(place)]) == 0
    assert "run: on" in (place / "report.rst").read_text()


def test_a_finished_run_is_not_resumed(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is its own, and the remedy names the report."""
    assert main(["resume", str(finished)]) == NotResumable.exit_code
    assert "it is finished" in capsys.readouterr().err


@pytest.mark.long
def test_another_drive_is_refused(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measurements of two drives are never in one result."""
    place = cut(finished, tmp_path / "run")
    (place / "report.rst").write_text("of what was measured so far")
    before = (place / "journal.jsonl").read_bytes()

    assert main(["resume", str(place), "--target", "sim:enterprise-sata"]) == NotResumable.exit_code

    assert "the run was on Simulated enterprise NVMe SSD" in capsys.readouterr().err
    assert (place / "journal.jsonl").read_bytes() == before
    assert (place / "report.rst").read_text() == "of what was measured so far"


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", ["gone.img", "/dev/nvme77n1"])
def test_a_missing_drive_can_be_given_by_another_name(
    name: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy is an option of resume; no target is created, so no size is required."""
    place = cut(finished, tmp_path / "run")

    assert main(["resume", str(place), "--target", name]) == TargetMissing.exit_code

    message = capsys.readouterr().err
    assert "give the new one with --target" in message
    assert "--size" not in message


def test_a_journal_without_options_is_refused(
    references: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal without the options of its run starts nothing."""
    reference, _ = references("iops")
    (tmp_path / "evidence").mkdir()
    with Journal(tmp_path / "journal.jsonl", durable=False) as journal:
        journal.append(StartEntry(facts=dataclasses.replace(reference.facts, options=None)))
    assert main(["resume", str(tmp_path)]) == NotResumable.exit_code
    assert "does not contain its options" in capsys.readouterr().err


def test_the_command_line_in_a_journal_is_not_read(references: Any, tmp_path: Path) -> None:
    """A run is resumed whatever its recorded command line says: options may have been renamed."""
    reference, _ = references("iops")
    facts = dataclasses.replace(reference.facts, command_line=("snia-pts", "--unheard-of"))
    assert resumed_options(facts, tmp_path, ResumeOptions()).test == "iops"


@pytest.mark.long
def test_status_of_one_run_and_of_many(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For one run its state and the command to resume it; for a folder a line for each run and other folder."""
    place = cut(finished, tmp_path / "stopped")
    shutil.copytree(finished, tmp_path / "whole")
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "journal.jsonl").write_text("nothing\n")

    assert main(["status", str(place)]) == 0
    alone = capsys.readouterr().out
    assert re.search(r"stopped 20\S+ \S+ \(virtual\) at ", alone)
    assert f"snia-pts resume {place}" in alone

    assert main(["status", str(tmp_path)]) == RecordError.exit_code
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [f"{tmp_path}/{name}" for name in ("spoilt", "stopped", "whole")]
    assert "STEADY STATE" in lines[2]

    assert main(["status", "--json", str(tmp_path)]) == RecordError.exit_code
    output = json.loads(capsys.readouterr().out)
    assert [item["state"] for item in output] == ["unreadable", "stopped", "finished"]
    assert [entry["virtual"] for entry in output] == [False, True, True]


@pytest.mark.long
def test_an_unreadable_test_hides_no_other(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Among several tests, one whose journal is not a file has its own message."""
    suite = tmp_path / "all"
    SuiteFolder.create(suite, ("iops", "latency", "wsat"))
    shutil.copytree(finished, suite / "iops")
    (suite / "latency").mkdir()
    special(suite / "latency" / "journal.jsonl", "fifo")

    assert main(["status", "--json", str(suite)]) == RecordError.exit_code
    output = json.loads(capsys.readouterr().out)
    assert [item["state"] for item in output] == ["finished", "unreadable", "not started"]
    assert "latency" in output[1]["detail"]


@pytest.mark.long
def test_status_prints_paths_for_a_shell(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed path of a run among several can be used with every other verb in the current folder."""
    for name in ("one", "the other"):
        shutil.copytree(finished, tmp_path / "runs" / name)
    (tmp_path / "elsewhere").mkdir()
    for here in ("", "runs", "elsewhere"):
        monkeypatch.chdir(tmp_path / here)
        assert main(["status", str(tmp_path / "runs")]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert main(["stop", shlex.split(line)[0]]) == NotRunning.exit_code  # and not that there is no run


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", ["r u", "-x", "$(touch x)"])
def test_printed_commands_can_be_pasted(
    name: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the name of a run's folder, a shell passes it to a verb as one argument that is not an option."""
    shutil.copytree(finished, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert main(["resume", f"./{name}"]) == NotResumable.exit_code
    message = capsys.readouterr().err
    command = shlex.split(message[message.index("snia-pts report ") :].partition(" reports it")[0])

    assert command[:2] == ["snia-pts", "report"]
    assert len(command) == 3
    assert main(["assess", command[2]]) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.long
def test_status_and_stop_of_a_run_in_progress(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the journal is locked the run is running, can be asked to stop, and cannot be resumed."""
    place = cut(finished, tmp_path / "run")
    folder = RunFolder.existing(place)
    with Journal(folder.journal, existing=True):
        assert main(["status", str(place)]) == 0
        assert "running at Round" in capsys.readouterr().out
        assert main(["stop", str(place)]) == 0
        assert folder.stop_requested
        assert main(["status", str(place)]) == 0
        assert "it stops after this point" in capsys.readouterr().out
        assert main(["resume", str(place)]) == NotResumable.exit_code
    assert main(["stop", str(place)]) == 17
    assert main(["resume", str(place), "--progress", "none"]) == 0
    assert not folder.stop_requested


def test_discarded_steps_are_announced(references: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If a run would restart at its purge, stop and status say so, and what --continue keeps; rounds continue."""
    reference, home = references("hir")
    folder = killing.killed(
        home, tmp_path / "hir", killing.whole_lines(reference.journal[: len(reference.journal) * 3 // 4])
    )
    rule, keeping = inspect_run(folder, "rule"), inspect_run(folder, "continue")
    assert rule.discarded_outcomes == rule.recoverable_outcomes > 0 == keeping.discarded_outcomes

    assert main(["status", str(folder.path)]) == 0
    option = "resume --continue keeps all of them, without a new purge"
    text = f"Purge, {rule.discarded_outcomes} outcomes discarded ({option})"
    assert f"would continue with {text}" in capsys.readouterr().out
    with Journal(folder.journal, existing=True):
        assert main(["stop", str(folder.path)]) == 0
    assert f"Resumed from where it is now, it would start again at {text}." in capsys.readouterr().out

    reference, home = references("iops")
    folder = killing.killed(home, tmp_path / "iops", _until(reference, 2, points=4))
    with Journal(folder.journal, existing=True):
        assert main(["stop", str(folder.path)]) == 0
    assert "As it stands" not in capsys.readouterr().out


@pytest.mark.long
def test_several_tests_are_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finished tests are unchanged, the interrupted one continues, and the others follow."""
    place = tmp_path / "all"
    brief = [
        argument
        for test in ("iops", "throughput", "latency")
        for argument in ("--set", f"{test}.rounds.point_seconds=1", "--set", f"{test}.rounds.maximum=6")
    ]
    assert main(["all", *SIMULATED, "--to", "none", "--run-dir", str(place), *brief]) == 0
    results = {test: (place / test / "result.xml").read_bytes() for test in ("iops", "throughput", "latency", "wsat")}
    shutil.rmtree(place / "wsat")
    journal = place / "latency" / "journal.jsonl"
    journal.write_bytes(killing.whole_lines(journal.read_bytes()[:20_000]))
    remove_later_evidence(RunFolder(path=place / "latency"))
    capsys.readouterr()

    assert main(["status", str(place)]) == 0
    output = capsys.readouterr().out
    assert [line.split()[2] for line in output.splitlines()[:3]] == ["finished", "finished", "stopped"]
    assert "not started" in output

    assert main(["resume", str(place), "--progress", "none"]) == 0

    again = {test: (place / test / "result.xml").read_bytes() for test in results}
    assert again["iops"] == results["iops"]
    assert again["throughput"] == results["throughput"]
    assert assess(RunFolder.existing(place / "latency")).interruptions
    assert assess(RunFolder.existing(place / "wsat")).ending == "finished"
    assert not list(place.glob("**/report.*")), "a report was made where none was asked for"
    capsys.readouterr()
    assert main(["resume", str(place), "--progress", "none"]) == NotResumable.exit_code
    assert "all of its tests are finished" in capsys.readouterr().err
    assert main(["report", str(place / "latency"), "--to", "json"]) == 0
    assert "interruption" in (place / "latency" / "report.json").read_text()


def test_options_that_destroy_data_are_required_again(
    references: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal selects neither the purge program nor the file that is overwritten."""
    reference, _ = references("wsat")
    target, place = tmp_path / "theirs.img", tmp_path / "run"
    target.write_bytes(b"precious" * (1 << 20))
    place.mkdir()
    (place / "evidence").mkdir()
    device = read_dut(target)
    for extra, code in (({"overwrite": True}, 8), ({"purge_command": "rm -rf {device}"}, NotResumable.exit_code)):
        options = RunOptions(test="wsat", target=str(target), **extra).stored()
        (place / "journal.jsonl").unlink(missing_ok=True)
        deviations = target_deviations(device, reference.facts.spec) + reference.facts.deviations
        facts = dataclasses.replace(reference.facts, options=options, dut=device, deviations=deviations)
        with Journal(place / "journal.jsonl", durable=False) as journal:
            journal.append(StartEntry(facts=facts))
        assert main(["resume", str(place), "--progress", "none"]) == code
        assert target.read_bytes() == b"precious" * (1 << 20)
    capsys.readouterr()


class _Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "argv", "typed", "goes_on"),
    [
        ("wsat", (), None, False),
        ("wsat", (), "no\n", False),
        ("wsat", (), "", False),
        ("wsat", (), "yes\n", True),
        ("wsat", ("--from-purge",), None, True),
        ("wsat", ("--continue",), None, True),
        ("iops", (), None, True),
    ],
)
def test_a_file_is_not_overwritten_again_without_confirmation(
    test: str,
    argv: tuple[str, ...],
    typed: str | None,
    goes_on: bool,
    references: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A test on a file that would restart asks first, and needs an option if there is no terminal.

    A test that continues with its next point does not ask.
    """
    reference, home = references(test)
    target = tmp_path / "drive.img"
    target.touch()
    os.truncate(target, reference.facts.dut.capacity_bytes)
    half = _until(reference, 2, points=4) if test == "iops" else reference.journal[: len(reference.journal) // 2]
    folder = killing.killed(home, tmp_path / "run", half)
    options = RunOptions(test=test, target=str(target))
    whole = half[: half.rindex(b"\n") + 1].split(b"\n", 1)[1]
    _rewrite(folder.journal, dataclasses.replace(reference.facts, options=options, dut=read_dut(target)), whole)
    before = folder.journal.read_bytes()
    reached: list[RunFolder] = []

    def resumed(folder: RunFolder, *_arguments: object) -> None:
        reached.append(folder)
        raise Interrupted(cause="Stopped", step="the test", what="of the test")

    monkeypatch.setattr("snia_pts.runner.resume.resume_claimed", resumed)
    monkeypatch.setattr(filetarget, "require_space", lambda *_: None)  # it is as large as the drive of the reference
    monkeypatch.setattr(
        "snia_pts.runner.resume.require_evidence", lambda *_: None
    )  # its content is that of a simulated drive
    monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else _Terminal(typed))

    code = main(["resume", str(folder.path), "--overwrite", "--target", str(target), *argv])

    message = capsys.readouterr().err
    assert code == (Interrupted.exit_code if goes_on else NotConfirmed.exit_code), message
    assert bool(reached) == goes_on
    assert ("Type yes" in message) == (typed is not None)
    assert goes_on or ("--from-purge" in message and "--continue keeps" in message)
    assert folder.journal.read_bytes() == before
    assert target.stat().st_blocks == 0


def test_a_journal_does_not_name_the_file_to_overwrite(
    references: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """resume --overwrite needs --target: a file named only by an edited journal stays unchanged."""
    reference, home = references("iops")
    victim = filled(tmp_path / "victim", 4096)
    os.truncate(victim, reference.facts.dut.capacity_bytes)
    half = _until(reference, 2, points=4)
    folder = killing.killed(home, tmp_path / "run", half)
    options = RunOptions(test="iops", target=str(victim))
    dut = dataclasses.replace(read_dut(victim), instance=None)
    _rewrite(folder.journal, dataclasses.replace(reference.facts, options=options, dut=dut), half.split(b"\n", 1)[1])

    monkeypatch.setattr(
        "snia_pts.runner.resume.require_evidence", lambda *_: None
    )  # its content is that of a simulated drive
    code = main(["resume", str(folder.path), "--overwrite", "--from-purge"])

    message = capsys.readouterr().err
    assert code == UsageError.exit_code, message
    assert "--overwrite needs --target FILE" in message
    with victim.open("rb") as file:
        assert file.read(4096) == filled(tmp_path / "copy", 4096).read_bytes()


@pytest.mark.long_but_first
@pytest.mark.parametrize("policy", ["--continue", "--from-purge"])
@pytest.mark.parametrize("instance", [None, "", "of the first"])
def test_another_file_of_the_suite_is_not_written(
    policy: str,
    instance: str | None,
    references: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A journal that was edited to name another file of the suite does not redirect the run there."""
    reference, home = references("iops")
    first, other = (make_target(tmp_path / name, reference.facts.dut.capacity_bytes) for name in ("a.img", "b.img"))
    half = _until(reference, 2, points=4)
    folder = killing.killed(home, tmp_path / "run", half)
    forged = dataclasses.replace(
        read_dut(other), instance=read_dut(first).instance if instance == "of the first" else instance
    )
    options = RunOptions(test="iops", target=str(first))
    _rewrite(folder.journal, dataclasses.replace(reference.facts, options=options, dut=forged), half.split(b"\n", 1)[1])
    before, blocks = folder.journal.read_bytes(), [path.stat().st_blocks for path in (first, other)]
    monkeypatch.setattr(filetarget, "require_space", lambda *_: None)  # it is as large as the drive of the reference
    monkeypatch.setattr(
        "snia_pts.runner.resume.require_evidence", lambda *_: None
    )  # its content is that of a simulated drive

    monkeypatch.setattr("snia_pts.runner.session.resume", lambda *_, **__: pytest.fail("it goes on with another file"))
    assert main(["resume", str(folder.path), policy]) == NotResumable.exit_code

    assert str(other) in (message := capsys.readouterr().err)
    assert "start a new run" in message.lower()
    assert folder.journal.read_bytes() == before
    assert [path.stat().st_blocks for path in (first, other)] == blocks


def make_target(path: Path, size_bytes: int) -> Path:
    """Make an empty file that the suite recognises as its own."""
    with path.open("wb") as file:
        os.truncate(path, size_bytes)
        os.setxattr(path, "user.snia-pts.target", filetarget._mark(file.fileno()))
    return path


def test_a_resume_that_fails_early_discards_nothing(
    references: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk a resume ends before its journal entry: all earlier steps stay valid."""
    reference, home = references("iops")
    for policy, points in (("purge", 4), ("rule", 4), ("rule", 9)):
        folder = killing.killed(home, tmp_path / f"{policy}{points}", _until(reference, 2, points=points))
        before, full = folder.journal.read_bytes(), shutil.disk_usage(tmp_path)._replace(free=1_000_000)
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "disk_usage", lambda _, full=full: full)
            resume_plan = inspect_run(folder, policy)  # type: ignore[arg-type]
            with pytest.raises(HostFailed, match="is full"):
                resume(
                    resume_plan, killing.laboratory(reference.facts, folder), folder, lambda _: None, command_line=()
                )
        assert folder.journal.read_bytes() == before


def test_the_pre_write_of_an_interrupted_round_is_repeated(references: Any) -> None:
    """A round whose pre-write was before the interruption is not wholly after it."""
    spec, steps = references("composite")[0].facts.spec, _course("composite", references)
    at = next(place for place, step in enumerate(steps) if isinstance(step, Round) and step.number == 2)
    assert resumable_step_count(spec, steps[:at], steps[at], "rule", started=False) == at - 1
    assert resumable_step_count(spec, steps[:at], steps[at], "rule", started=True) == at + 1


def test_operating_points_need_a_window(references: Any) -> None:
    """If too few rounds remain, even --continue restarts at the purge."""
    spec, steps = references("composite")[0].facts.spec, _course("composite", references)
    short = dataclasses.replace(spec, demand=dataclasses.replace(spec.demand, maximum=5))
    at = next(place for place, step in enumerate(steps) if isinstance(step, Round) and step.number == 2)
    assert resumable_step_count(short, steps[:at], steps[at], "continue", started=True) == 0
    assert resumable_step_count(spec, steps[:at], steps[at], "continue", started=True) == at + 1


def test_a_device_that_cannot_run_the_recorded_test_is_an_invalid_record(references: Any, tmp_path: Path) -> None:
    """One journal that no run can have written does not hide the status of the others."""
    reference, _ = references("dirth")
    (tmp_path / "run").mkdir()
    odd = dataclasses.replace(reference.facts, dut=dataclasses.replace(reference.facts.dut, logical_sector_bytes=513))
    with Journal(tmp_path / "run" / "journal.jsonl", durable=False) as journal:
        journal.append(StartEntry(facts=odd))
    with pytest.raises(RecordError, match="cannot run this test"):
        inspect_run(RunFolder(path=tmp_path / "run"), "rule")


@pytest.mark.long_but_first
@pytest.mark.parametrize("left", ["an empty journal", "half an entry"])
def test_a_test_that_never_started_is_started(
    left: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a crash leaves of a test that was just starting, the suite can be resumed."""
    place = tmp_path / "all"
    brief = ("rounds.point_seconds=1", "rounds.maximum=5")
    options = [
        RunOptions(test=test, target=SIMULATED[0], overrides=brief, formats=(), seed=seed)
        for seed, test in ((7, "iops"), (1, "throughput"))
    ]
    SuiteFolder.create(place, ("iops", "throughput"), options)
    shutil.copytree(finished, place / "iops")
    journal = place / "iops" / "journal.jsonl"
    facts = dataclasses.replace(JournalReader(journal).facts, options=options[0].stored())
    content = journal.read_bytes().split(b"\n", 1)[1]
    _rewrite(journal, facts, content)
    (place / "throughput" / "evidence").mkdir(parents=True)
    (place / "throughput" / "evidence" / "00000-fio-version.process.json").write_text("{}")
    if left == "an empty journal":
        (place / "throughput" / "journal.jsonl").touch()
    if left == "half an entry":
        (place / "throughput" / "journal.jsonl").write_text('{"crc32":"0000')

    assert main(["resume", str(place), "--progress", "none"]) == 0

    assert assess(RunFolder.existing(place / "throughput")).ending == "finished"
    capsys.readouterr()


def _rewrite(journal: Path, facts: Any, rest: bytes) -> None:
    """Write a journal with other facts and new checksums."""
    checksum, lines = 0, []
    for payload in (adapter().dump_json(StartEntry(facts=facts)), *(text[28:-1] for text in rest.splitlines())):
        checksum = zlib.crc32(payload, checksum)
        lines.append(line_of(checksum, payload))
    journal.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("text", "after_seconds"),
    [("yesterday", 0.0), ("9999-12-31T23:59:59+00:00", 1e9), ("2026-11-03T01:46:00+00:00", 1e300)],
)
def test_an_invalid_timestamp_is_refused(tmp_path: Path, text: str, after_seconds: float) -> None:
    """A journal with invalid times, or times beyond all dates, is reported as invalid."""
    with pytest.raises(RecordError, match="is not a date and time"):
        parse_time(RunFolder(path=tmp_path), text, after_seconds)
