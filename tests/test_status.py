"""``status`` of many runs: each line is printed at once, from the ends of the journals."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.commands import status
from snia_pts.cli.main import main
from snia_pts.errors import DeviceFailed, RecordError, SniaPtsError
from snia_pts.model.measurement import Outcome
from snia_pts.model.steps import Round, Step
from snia_pts.record import ends
from snia_pts.record.ends import read_ends
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import end_detail
from snia_pts.record.replay import assess, inspect_run
from snia_pts.record.result_xml import stored_verdict
from snia_pts.runner.session import run
from snia_pts.spec.reader import read_specification
from tests import killing, samples


@pytest.fixture(scope="module", params=["throughput", "hir"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A finished run, of rounds or of stretches with samples and idle times, and its folder."""
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


def test_a_finished_run_tells_its_stored_verdict(reference: tuple[Any, Path]) -> None:
    """The verdict at the start of result.xml is that of the assessment; without the file there is no verdict."""
    folder = RunFolder(path=reference[1])
    outcome = read_ends(folder.journal)
    assert outcome.end is not None
    assert outcome.end.ending == "finished"
    identity = outcome.facts.run_id, outcome.end.at
    assert stored_verdict(folder.result, *identity) == assess(folder).verdict
    assert stored_verdict(folder.path / "none.xml", *identity) == stored_verdict(folder.journal, *identity) == ""


def test_the_verdict_of_an_earlier_stop_is_not_that_of_the_end(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A host that dies between the end entry and the new result.xml leaves that of the stop before the resume."""
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
    """Somebody changed a result.xml: the list has not verified it, and the status of the run alone ignores it."""
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
    """A signal, a request, an error or nothing, in the list and in the status of the run alone."""
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
    """The first line is there before the journal of the third run was opened."""
    opened: list[Path] = []

    def noted(path: Path) -> ends.JournalEnds:
        opened.append(path)
        return read_ends(path)

    monkeypatch.setattr(status, "read_ends", noted)
    lines: Iterator[str] = status._lines(status._read_statuses(many), 10)

    assert next(lines).startswith(str(many / "1"))
    assert opened == [many / "1/journal.jsonl", many / "2/journal.jsonl"]
    assert len(list(lines)) == 2


def test_the_midst_of_a_journal_is_not_read(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is damaged in the midst of a journal is found by assess, and by status of that run alone."""
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
    """An empty name is a mistake, not the current folder."""
    assert main(list(words)) == 2
    assert "the name is empty" in capsys.readouterr().err
