"""``status`` of many runs: each line is printed at once, from the ends of the journals."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from snia_pts.api.run import load_many
from snia_pts.cli.commands import run_status
from snia_pts.cli.main import main
from snia_pts.errors import DeviceFailed, RecordError, SniaPtsError
from snia_pts.model.measurement import Outcome
from snia_pts.model.steps import Round, Step
from snia_pts.record import ends
from snia_pts.record.ends import read_ends
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import end_detail
from snia_pts.record.log import logged
from snia_pts.record.replay import assess, inspect_run
from snia_pts.record.result_xml import stored_verdict
from snia_pts.record.suite import SuiteFolder
from snia_pts.runner.session import run
from snia_pts.spec.reader import read_specification
from snia_pts.web.folder_source import FolderSource
from tests import killing, samples


@pytest.fixture(scope="module", params=["throughput", "hir"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Return a finished run, of rounds or of continuous stimuli with samples and idle times, and its folder."""
    place = tmp_path_factory.mktemp("reference") / "run"
    return killing.reference(request.param, place), place


def test_the_ends_agree_with_the_whole_journal(
    reference: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a run killed at any step, the journal's ends give the same step and outcomes as a replay."""
    outcome, home = reference
    drawn = random.Random(7)
    for number in range(12):
        journal = outcome.journal[: drawn.randrange(outcome.journal.index(b"\n") + 1, len(outcome.journal))]
        folder = killing.killed(home, tmp_path / str(number), journal)
        monkeypatch.setattr(ends, "_CHUNK_BYTES", drawn.choice([1, 100, 1 << 16]))
        actual, resume_plan = read_ends(folder.journal), inspect_run(folder, "rule")
        assert actual.facts == resume_plan.facts
        assert end_detail(None, actual.torn_bytes) == resume_plan.reason
        assert actual.end is None
        assert (actual.step is None) == (b'"entry":{"kind":"step"' not in journal.rpartition(b"\n")[0])
        if actual.step is not None and not actual.step_complete:
            assert (actual.step, actual.outcome_count, actual.position) == (
                resume_plan.current_step,
                resume_plan.outcome_count,
                resume_plan.position,
            )
        elif actual.step is not None:
            assert resume_plan.current_step is None or resume_plan.outcome_count == 0


def test_a_finished_run_has_its_stored_verdict(reference: tuple[Any, Path]) -> None:
    """The verdict at the start of result.xml is that of the assessment; without the file there is no verdict."""
    folder = RunFolder(path=reference[1])
    outcome = read_ends(folder.journal)
    assert outcome.end is not None
    assert outcome.end.ending == "finished"
    identity = outcome.facts.run_id, outcome.end.at
    assert stored_verdict(folder.result, *identity) == assess(folder).verdict
    assert stored_verdict(folder.path / "none.xml", *identity) == stored_verdict(folder.journal, *identity) == ""


def test_the_verdict_of_an_earlier_stop_is_not_that_of_the_end(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the host dies between the end entry and the new result.xml, the old file has the verdict of the first stop."""
    folder = RunFolder(path=many / "2")
    journal = folder.journal.read_bytes()
    samples.cut_journal(folder, 10)
    assert main(["report", str(folder.path), "--to", "none"]) == 0
    folder.journal.write_bytes(journal)
    capsys.readouterr()

    assert main(["status", str(many)]) == 0
    stale = ["no up-to-date result.xml" in line for line in capsys.readouterr().out.splitlines()]
    assert stale == [False, True, False]


def test_a_verdict_of_a_list_is_not_verified(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If result.xml was edited, the list shows its verdict unverified; the status of the run alone ignores it."""
    document = many / "2/result.xml"
    verdict = assess(RunFolder(path=many / "2")).verdict
    document.write_text(document.read_text().replace(f'verdict="{verdict}"', 'verdict="EXCELLENT"'))

    assert main(["status", str(many)]) == 0
    details = [line.partition("  finished ")[2].strip() for line in capsys.readouterr().out.splitlines()]
    assert details == [f"{words} (by result.xml, not verified)" for words in (verdict, "EXCELLENT", verdict)]

    assert main(["status", str(many / "2")]) == 0
    output = capsys.readouterr().out
    assert verdict in output
    assert "EXCELLENT" not in output
    assert "not verified" not in output


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "request_stop", "reason"),
    [
        (KeyboardInterrupt("Terminated (SIGTERM)"), False, "interrupted: Terminated (SIGTERM) in step Round 1"),
        (KeyboardInterrupt(), False, "interrupted: Stopped by the operator in step Round 1"),
        (None, True, "interrupted: Stopped by a request (snia-pts stop) in step Round 1"),
        (DeviceFailed(step="Round 1", what="/dev/x", reason="it is gone"), False, "device failed: "),
        (ZeroDivisionError(), False, "the journal has no end entry: the suite or the host died"),
    ],
)
def test_the_reason_of_a_stop_is_named(
    error: BaseException | None, request_stop: bool, reason: str, many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Signal, request, error or no reason: it is in the list and in the status of the run alone."""
    folder = RunFolder.create(many / "4")
    facts = samples.run_facts(read_specification("iops", "2.0.2", "enterprise").spec)
    steps = iter(samples.answers(facts.spec, facts.dut, rounds=5)[0])

    def perform(step: Step) -> Iterator[Outcome]:
        for number, outcome in enumerate(next(steps)[1]):
            if isinstance(step, Round) and number == 3:
                if request_stop:
                    folder.request_stop()
                if error is not None:
                    raise error
            yield outcome

    with pytest.raises((SniaPtsError, ZeroDivisionError)):
        run(facts, perform, folder, lambda event: None)

    assert main(["status", str(many)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "  stopped  " in line)
    assert reason in line
    assert main(["status", str(many / "4")]) == 0
    assert reason in capsys.readouterr().out


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with three runs."""
    samples.store_run(tmp_path / "runs/1")
    for name in "23":
        shutil.copytree(tmp_path / "runs/1", tmp_path / "runs" / name)
    return tmp_path / "runs"


def test_each_line_is_printed_at_once(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line appears before the journal of the third run is opened."""
    opened: list[Path] = []

    def noted(path: Path) -> ends.JournalEnds:
        opened.append(path)
        return read_ends(path)

    monkeypatch.setattr(run_status, "read_ends", noted)
    lines: Iterator[str] = run_status.status_lines(run_status.read_statuses(many), 10)

    assert next(lines).startswith(str(many / "1"))
    assert opened == [many / "1/journal.jsonl", many / "2/journal.jsonl"]
    assert len(list(lines)) == 2


def test_the_middle_of_a_journal_is_not_read(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage in the middle of a journal is found by assess, and by the status of that run alone."""
    journal = bytearray((many / "2/journal.jsonl").read_bytes())
    journal[len(journal) // 2] ^= 1
    (many / "2/journal.jsonl").write_bytes(journal)

    assert main(["status", str(many)]) == 0
    assert [line.split()[0][-1] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3"]
    assert main(["status", str(many / "2")]) == RecordError.exit_code
    assert main(["assess", str(many / "2")]) == RecordError.exit_code


@pytest.mark.parametrize("place", ["first", "last"])
def test_damaged_ends_are_reported(place: str, many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal with an invalid first or last entry is unreadable, and does not hide other runs."""
    lines = (many / "2/journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[0 if place == "first" else -1] = b'{"crc32":"00000000","entry":{"kind":"odd"}}\n'
    (many / "2/journal.jsonl").write_bytes(b"".join(lines))

    assert main(["status", str(many)]) == RecordError.exit_code
    lines_told = capsys.readouterr().out.splitlines()
    assert ["  unreadable  " in line for line in lines_told] == [False, True, False]


@pytest.mark.parametrize("words", [("iops", ""), ("assess", ""), ("resume", "x", "--target", ""), ("status", "a", "")])
def test_an_empty_name_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """An empty path is an error, not the current folder."""
    assert main(list(words)) == 2
    assert "the name is empty" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "assess", "report", "resume"])
def test_a_run_that_was_killed_before_its_first_step_is_named(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder has a log and no journal; every verb says what to do with it."""
    (tmp_path / "run/evidence").mkdir(parents=True)
    (tmp_path / "run/log.txt").write_text("start\n")

    assert main([verb, str(tmp_path / "run")]) == 14
    error = capsys.readouterr().err
    assert "was killed before the first step" in error
    assert "Remove the folder, and start the run again." in error


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run whose process waits for a confirmation, or prepares the drive."""
    folder = RunFolder.create(tmp_path / "run")
    with folder.opened(), logged(folder):
        yield folder.path


@pytest.mark.parametrize("verb", ["assess", "report", "resume", "compare"])
def test_a_run_that_starts_is_not_called_killed(starting: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No message suggests removing the folder of a run that another process is about to start."""
    assert main([verb, str(starting), *([str(starting)] if verb == "compare" else [])]) == 14
    error = capsys.readouterr().err
    assert "the first step of its run has not started" in error
    assert "Remove" not in error


def test_the_status_of_a_run_that_starts(starting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``status`` lists it, alone and among others; it has nothing to load."""
    assert main(["status", str(starting)]) == 0
    assert main(["status", str(starting.parent)]) == 0
    assert capsys.readouterr().out.count("\n  starting\n") == 2
    with pytest.raises(RecordError, match="it contains no run"):
        load_many(starting.parent)


def test_a_run_that_reaches_its_first_step_while_it_is_listed_is_found(
    starting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its journal appears after any of the questions whether there is one; each reader then finds the run."""
    journal = starting / "journal.jsonl"
    is_unstarted = RunFolder.is_unstarted.fget  # type: ignore[attr-defined]

    def answer(folder: RunFolder) -> bool:
        journal.write_text("{}\n")
        return bool(is_unstarted(folder))

    monkeypatch.setattr(RunFolder, "is_unstarted", property(answer))
    readers: dict[str, Callable[[], object]] = {
        "page": lambda: FolderSource(starting.parent).run(starting.name),
        "folder": lambda: RunFolder.existing(starting),
        "list": lambda: main(["status", str(starting.parent)]),
        "status": lambda: main(["status", str(starting)]),
    }
    for read in readers.values():
        journal.unlink(missing_ok=True)
        read()
    output = capsys.readouterr()
    assert "it contains no run" not in output.err
    assert "it has no journal.jsonl" not in output.err


def test_a_run_that_starts_is_stopped_before_its_first_step(starting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The request waits for the first step; if the run is refused instead, none of its files stays."""
    assert main(["stop", str(starting)]) == 0
    assert "stops before its first step" in capsys.readouterr().out
    folder = RunFolder(path=starting, created=True)
    assert folder.stop_requested
    folder.discard()
    assert not starting.exists()


def test_a_test_of_a_suite_that_starts_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``stop`` of the suite reaches the test whose first step has not started, not only the next test."""
    suite = SuiteFolder.create(tmp_path / "suite", ("iops", "latency"), ())
    run = RunFolder.create(suite.run_path("iops"))
    with suite.locked(), run.opened(), logged(run):
        assert main(["status", str(suite.path)]) == 0
        assert main(["stop", str(suite.path)]) == 0
    out = capsys.readouterr().out
    assert " starting " in out
    assert run.stop_requested
    assert not suite.as_run_folder.stop_requested


@pytest.mark.long
def test_missed_limits_are_in_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status of a finished run says how many of its limits were missed."""
    limit = '[[limit]]\ntest = "iops"\nmetric = "iops"\nat = "RND 4 KiB {}"\nunit = "IOPS"\nminimum = {}\n'
    text = "format = 1\n" + limit.format("0/100", 1) + limit.format("100/0", 10**9)
    (tmp_path / "limits.toml").write_text(text)
    words = ("--limits", str(tmp_path / "limits.toml"), "--run-dir", str(tmp_path / "run"), "--to", "none")
    assert main(["iops", "sim:client-qlc", *words]) == 19
    capsys.readouterr()

    assert main(["status", str(tmp_path / "run")]) == 0
    assert "; 1 of 2 limits NOT MET" in capsys.readouterr().out
